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
from shuffledp_core.mechanisms import MECHANISMS
from shuffledp_core.runtime.config import Section, load_config
from shuffledp_ops.campaigns.config import Campaign
from shuffledp_privacy.bounds import Setting, corrupted_bounds
from shuffledp_privacy.calibration.calibrate import Target, calibrate
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


def test_the_sample_campaign_has_noise_of_nodes_that_the_sample_device_accepts() -> None:
    campaign = load_config(FOLDER / "campaign.toml", Campaign)
    policy = load_config(FOLDER / "client.toml", ClientConfig).policy
    (question,) = [asked for asked in campaign.questions if asked.name == "steps"]
    mechanism = MECHANISMS[question.mechanism]
    assert not mechanism.needs_crowd
    assert isinstance(question.epsilon, float)
    plan = calibrate(
        question.mechanism,
        Target(
            question.epsilon,
            policy.delta,
            question.min_reports,
            1,
            symbols=mechanism.size_for(question.largest),
            epsilon_local=question.epsilon_local or None,
        ),
    )
    assert plan.dummies_per_node > 0
    corrupted = corrupted_bounds(plan, Setting(question.min_reports, 1), policy.delta)
    assert corrupted.epsilon <= policy.epsilon_corrupted


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
