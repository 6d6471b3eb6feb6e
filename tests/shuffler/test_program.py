"""The program `shuffledp-shuffler` and its configuration."""

from __future__ import annotations

import signal
import stat
from pathlib import Path

import pytest
from shuffler_world import World

from shuffledp_core.errors import ConfigError
from shuffledp_core.runtime.config import load_config
from shuffledp_core.runtime.files import erase, write_atomic
from shuffledp_shuffler.app import build
from shuffledp_shuffler.cli import main
from shuffledp_shuffler.config import NodeConfig

SAMPLE = """
name = "node-1"
keys = "keys"
roster = "roster.json"
root_key = "00"
listen = "127.0.0.1:0"
state = "state"
"""


def test_every_option_has_a_default_and_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text(SAMPLE)
    config = load_config(file, NodeConfig)
    assert config.state == tmp_path / "state"
    assert config.worker_count >= 1


@pytest.mark.parametrize(
    "line",
    [
        "colour = 1",
        "workers = -1",
        "relay_seconds = 0.0",
        "max_submissions = 0",
        "mixing.memory = 1000",
    ],
)
def test_unknown_keys_and_bad_values_are_refused(tmp_path: Path, line: str) -> None:
    file = tmp_path / "node.toml"
    file.write_text(SAMPLE + line)
    with pytest.raises(ConfigError, match=line.split(maxsplit=1)[0]):
        load_config(file, NodeConfig)


def test_the_program_says_in_one_line_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--config", str(tmp_path / "none.toml")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


async def test_a_node_stops_in_good_order(world: World) -> None:
    process = await world.start_process("node-1")
    process.send_signal(signal.SIGTERM)
    assert await process.wait() == 0


async def test_a_state_folder_belongs_to_one_process_and_its_owner(world: World) -> None:
    await world.start("node-1")
    round_ = world.round()
    await world.prepare("node-1", round_.certificate, 1)
    with pytest.raises(ConfigError, match="another process"):
        build(world.config("node-1"))
    state = world.folder / "state" / "node-1"
    for path in (state, *state.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


async def test_a_node_needs_its_own_key_and_a_place_in_the_roster(world: World) -> None:
    right = world.config("node-1")
    for name, keys in (("analyst", "analyst"), ("nobody", "node-1"), ("node-1", "node-2")):
        changed = {"name": name, "keys": world.deployment.keys_of(keys)}
        fields = {field: getattr(right, field) for field in NodeConfig.__struct_fields__} | changed
        with pytest.raises(ConfigError):
            build(NodeConfig(**fields))


def test_an_erased_file_is_overwritten_first(tmp_path: Path) -> None:
    secret, link = tmp_path / "secret", tmp_path / "link"
    write_atomic(secret, b"key" * 1000)
    link.hardlink_to(secret)
    erase(secret)
    erase(secret)
    assert not secret.exists()
    assert b"key" not in link.read_bytes()
