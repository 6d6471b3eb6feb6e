"""Configuration: strict, with relative paths, and messages that name the key."""

from pathlib import Path

import pytest

from shuffledp_core.errors import ConfigError
from shuffledp_core.runtime.config import ServiceConfig, load_config
from shuffledp_core.runtime.keys import load_identity, load_roster, parse_hex_key

GOOD = """
name = "node-1"
keys = "keys/node-1"
roster = "keys/roster.json"
root_key = "00"
listen = "127.0.0.1:7001"
state = "/var/lib/shuffledp"
"""


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text(GOOD)
    config = load_config(file, ServiceConfig)
    assert config.keys == tmp_path / "keys" / "node-1"
    assert config.state == Path("/var/lib/shuffledp")


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("colour = 3", "colour"),
        ('log_level = "info', "broken.toml"),
        ("name = 3", "broken.toml"),
        ('"n\\u0061me" = "node-2"', "broken.toml"),  # the same key, spelled otherwise
        ("deep = " + "[" * 5000, "nested too deeply"),
        ("deep = " + "{a=" * 5000, "nested too deeply"),
        ('nul = "\\u0000"', "broken.toml"),
        ("huge = " + "9" * 10_000, "broken.toml"),
    ],
)
def test_an_unknown_missing_or_broken_key_is_named(tmp_path: Path, line: str, named: str) -> None:
    file = tmp_path / "broken.toml"
    file.write_text(GOOD + line + "\n")
    with pytest.raises(ConfigError, match=named):
        load_config(file, ServiceConfig)


def test_a_path_with_a_zero_byte_and_text_that_is_no_text_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    for wrong in (
        GOOD.replace("keys/node-1", "keys\\u0000").encode(),
        GOOD.encode() + b'log_level = "\xff"',
    ):
        file.write_bytes(wrong)
        with pytest.raises(ConfigError, match=r"node\.toml"):
            load_config(file, ServiceConfig)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere"):
        load_config(tmp_path / "nowhere.toml", ServiceConfig)
    with pytest.raises(ConfigError, match=r"identity\.pem"):
        load_identity(tmp_path, "node-1")
    with pytest.raises(ConfigError, match=r"roster\.json"):
        load_roster(tmp_path / "roster.json", "00" * 32)


def test_a_key_that_is_no_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / "identity.pem").write_text("not a key")
    with pytest.raises(ConfigError, match="PEM"):
        load_identity(tmp_path, "node-1")
    with pytest.raises(ConfigError, match="hexadecimal"):
        parse_hex_key("zz", "root key")
    with pytest.raises(ConfigError, match="31 bytes"):
        parse_hex_key("00" * 31, "root key")


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    file = tmp_path / "short.toml"
    file.write_text(GOOD.replace('listen = "127.0.0.1:7001"', ""))
    with pytest.raises(ConfigError, match="listen"):
        load_config(file, ServiceConfig)
