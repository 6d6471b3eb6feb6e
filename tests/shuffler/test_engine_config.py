"""The section [engine] of a node's configuration, and what a node says before it ever reaches a
cluster."""

from __future__ import annotations

import asyncio
import multiprocessing
from pathlib import Path

import pytest
from shuffler_world import World

from shuffledp_core.errors import ConfigError
from shuffledp_core.runtime.config import parse_config
from shuffledp_shuffler.app import build
from shuffledp_shuffler.cluster.config import EngineConfig
from shuffledp_shuffler.cluster.engine import RayEngine

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
    [
        ("address", '"head"'),
        ("address", '"::1:6379"'),
        ("task_memory", "1000"),
        ("wait_seconds", "0.0"),
        ("kind", '"dask"'),
        ("tls", "false"),
    ],
)
def test_unknown_keys_and_bad_values_are_refused(tmp_path: Path, name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=name):
        engine(tmp_path, **{name: value})


def test_a_head_may_have_an_address_of_ipv6(tmp_path: Path) -> None:
    assert engine(tmp_path, address='"[::1]:6379"').address == "[::1]:6379"


async def test_a_secret_that_others_may_read_or_that_is_not_there_is_refused_at_start(
    world: World,
) -> None:
    write_files(world.folder)
    (world.folder / "token").chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        build(world.config("node-1", engine=engine(world.folder)))
    (world.folder / "token").unlink()
    with pytest.raises(ConfigError, match=r"engine\.token: the file .* does not exist"):
        build(world.config("node-1", engine=engine(world.folder)))


async def test_tls_files_that_cannot_be_used_are_refused_at_start_and_not_blamed_on_the_head(
    world: World,
) -> None:
    write_files(world.folder)
    with pytest.raises(ConfigError, match="certificate, key and authority cannot be used"):
        build(world.config("node-1", engine=engine(world.folder)))


@pytest.mark.parametrize("name", ["address", *FILES])
def test_what_only_ray_needs_is_refused_without_it(tmp_path: Path, name: str) -> None:
    """Whoever forgets the kind would mix on one machine, and wonder."""
    with pytest.raises(ConfigError, match=f"engine.{name} belongs to a Ray cluster.*set kind"):
        parse_config(f"{name} = {COMPLETE[name]}".encode(), EngineConfig, "node.toml", tmp_path)


async def test_a_process_whose_starter_is_cancelled_is_ended(world: World) -> None:
    """Nobody listens at the head's address, so that by itself it would look for it for a minute."""
    keys, authority = world.deployment.keys_of("node-1"), world.folder / "ca.pem"
    authority.write_text(world.roster.tls_authority)
    config = EngineConfig(
        kind="ray",
        address="127.0.0.1:1",
        token=keys / "tls-key.pem",
        certificate=keys / "tls.pem",
        key=keys / "tls-key.pem",
        authority=authority,
    )
    before = set(multiprocessing.active_children())
    check = asyncio.ensure_future(RayEngine(config).check())
    await asyncio.sleep(0)  # it begins to start its process, in a thread
    check.cancel()
    with pytest.raises(asyncio.CancelledError):
        await check
    assert set(multiprocessing.active_children()) <= before


async def test_a_corrupt_node_has_no_cluster(world: World) -> None:
    write_files(world.folder)
    with pytest.raises(ConfigError, match=r"remove \[engine\]"):
        build(world.config("node-1", engine=engine(world.folder)), corrupt=world.folder / "log")
