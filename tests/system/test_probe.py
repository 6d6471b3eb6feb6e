"""The health check of images, on services that run and on one that does not. About 10 s."""

import asyncio
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from shuffledp_core.errors import ConfigError, DocumentError, UnreachableError
from shuffledp_core.runtime.config import load_config
from shuffledp_core.transport.probe import ProbedConfig, probe
from shuffledp_sim.system.processes import LocalSystem


def config_of(system: LocalSystem, name: str) -> ProbedConfig:
    return load_config(system.folder / f"{name}.toml", ProbedConfig)


@pytest.mark.parametrize("name", ["node-1", "node-3", "analyst", "accountant"])
async def test_a_service_that_serves_is_healthy(system: LocalSystem, name: str) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "shuffledp_core.transport.probe",
        str(system.folder / f"{name}.toml"),
        stderr=PIPE,
    )
    _, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()


async def test_a_service_that_is_gone_is_not_healthy(system: LocalSystem) -> None:
    system.processes["node-2"].kill()
    with pytest.raises(UnreachableError, match="node-2 does not answer"):
        await probe(config_of(system, "node-2"))


async def test_another_partys_service_is_not_taken_for_ones_own(
    system: LocalSystem, tmp_path: Path
) -> None:
    text = (system.folder / "node-2.toml").read_text()
    own, other = (system.deployment.roster.party(name).address for name in ("node-2", "node-1"))
    file = system.folder / f"{tmp_path.name}.toml"
    file.write_text(text.replace(own, other))
    with pytest.raises(UnreachableError, match="node-2 does not answer"):
        await probe(load_config(file, ProbedConfig))


async def test_a_party_that_the_roster_does_not_have_is_a_configuration_error(
    system: LocalSystem,
) -> None:
    text = (system.folder / "node-1.toml").read_text()
    file = system.folder / "stranger.toml"
    file.write_text(text.replace('name = "node-1"', 'name = "node-9"'))
    with pytest.raises(ConfigError, match="no party 'node-9'"):
        await probe(load_config(file, ProbedConfig))


async def test_a_roster_of_another_root_is_not_believed(system: LocalSystem) -> None:
    text = (system.folder / "node-1.toml").read_text()
    file = system.folder / "other-root.toml"
    file.write_text(text.replace(system.deployment.root_key, "ab" * 32))
    with pytest.raises(DocumentError):
        await probe(load_config(file, ProbedConfig))


async def test_without_a_configuration_the_probe_says_how_it_is_used() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "shuffledp_core.transport.probe", stderr=PIPE
    )
    _, errors = await process.communicate()
    assert process.returncode == 2
    assert b"usage" in errors
