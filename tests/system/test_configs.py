"""The sample configs are what the programs read, and name every key there is."""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from shuffledp_accountant.config import AccountantConfig
from shuffledp_analyst.config import AnalystConfig
from shuffledp_client.config import ClientConfig
from shuffledp_client.gateway.config import GatewayConfig
from shuffledp_core.errors import ConfigError
from shuffledp_core.runtime.config import Section, load_config
from shuffledp_ops.campaigns.config import Campaign
from shuffledp_shuffler.config import NodeConfig

FOLDER = Path(__file__).parents[2] / "deploy" / "config"
SAMPLES: list[tuple[str, type[Section]]] = [
    ("node-1.toml", NodeConfig),
    ("analyst.toml", AnalystConfig),
    ("accountant.toml", AccountantConfig),
    ("client.toml", ClientConfig),
    ("gateway.toml", GatewayConfig),
    ("campaign.toml", Campaign),
]


@pytest.mark.parametrize(("name", "model"), SAMPLES)
def test_a_sample_config_parses_and_names_every_key(name: str, model: type[Section]) -> None:
    text = (FOLDER / name).read_text()
    config = load_config(FOLDER / name, model)
    for key in set(keys_of(config)) - {"name"}:
        assert re.search(rf"\b{key}( =|\])|^\[{key}\.", text, re.MULTILINE), (
            f"{name} does not show {key}"
        )


def keys_of(value: object) -> Iterator[str]:
    """The keys of a configuration and of its tables, as they are written."""
    if isinstance(value, msgspec.Struct):
        for field in msgspec.structs.fields(value):
            yield field.encode_name
            yield from keys_of(getattr(value, field.name))
    elif isinstance(value, tuple | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from keys_of(each)


@pytest.mark.parametrize(("name", "model"), SAMPLES)
def test_an_unknown_key_is_refused_with_its_name(
    name: str, model: type[Section], tmp_path: Path
) -> None:
    file = tmp_path / name
    file.write_text('surprise = "x"\n' + (FOLDER / name).read_text())
    with pytest.raises(ConfigError, match="surprise"):
        load_config(file, model)


def test_every_sample_is_tested() -> None:
    assert {file.name for file in FOLDER.glob("*.toml")} == {name for name, _ in SAMPLES}
