"""The section [engine] of a node's configuration, and what a node says before it ever reaches a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
from shuffler_world import World

from shuffledp_core.config import parse_config
from shuffledp_core.errors import ConfigError
from shuffledp_shuffler.app import build
from shuffledp_shuffler.cluster.config import EngineConfig

FILES = ("token", "certificate", "key", "authority")
COMPLETE = {"kind": '"ray"', "address": '"127.0.0.1:6379"'} | {name: f'"{name}"' for name in FILES}


def engine(folder: Path, **changes: str) -> EngineConfig:
    lines = [f"{name} = {value}" for name, value in (COMPLETE | changes).items() if value]
    return parse_config("\n".join(lines).encode(), EngineConfig, "node.toml", folder)


def write_files(folder: Path) -> None:
    for name in FILES:
        (folder / name).write_text(name)
        (folder / name).chmod(0o600)


@pytest.mark.parametrize("name", ["address", *FILES])
def test_nothing_that_ray_needs_may_be_missing(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=f"engine.{name} is missing"):
        engine(tmp_path, **{name: ""})


@pytest.mark.parametrize(
    ("name", "value"),
    [("address", '"head"'), ("task_memory", "1000"), ("wait_seconds", "0.0"), ("kind", '"dask"'), ("tls", "false")],
)
def test_unknown_keys_and_bad_values_are_refused(tmp_path: Path, name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=name):
        engine(tmp_path, **{name: value})


async def test_a_secret_that_others_may_read_or_that_is_not_there_is_refused_at_start(world: World) -> None:
    write_files(world.folder)
    (world.folder / "token").chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        build(world.config("node-1", engine=engine(world.folder)))
    (world.folder / "token").unlink()
    with pytest.raises(ConfigError, match=r"engine\.token: there is no file"):
        build(world.config("node-1", engine=engine(world.folder)))


async def test_a_corrupt_node_has_no_cluster(world: World) -> None:
    write_files(world.folder)
    with pytest.raises(ConfigError, match=r"leave out \[engine\]"):
        build(world.config("node-1", engine=engine(world.folder)), corrupt=world.folder / "log")
