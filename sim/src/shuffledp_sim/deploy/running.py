"""Starts, stops and checks the processes of a deployment made by `shuffledp deploy init`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from shuffledp_client.gateway.config import GatewayConfig
from shuffledp_client.gateway.probe import probe as probe_gateway
from shuffledp_core.errors import ConfigError, ShuffleDPError
from shuffledp_core.runtime.addresses import host_and_port
from shuffledp_core.runtime.config import BrokerConfig, load_config
from shuffledp_core.transport.probe import ProbedConfig, probe
from shuffledp_core.transport.tls import GATEWAY
from shuffledp_ops.keys.pki import ACCOUNTANT, ANALYST, open_deployment
from shuffledp_sim.deploy.detached import DetachedProcess

START_SECONDS: Final = 120.0
"""Time a process may take until it is healthy; on an idle machine it needs about two."""

_POLL_SECONDS: Final = 0.1

BROKER: Final = "broker"
_PROGRAMS: Final = {
    "node": "shuffledp_shuffler.cli",
    ANALYST: "shuffledp_analyst.cli",
    ACCOUNTANT: "shuffledp_accountant.cli",
}


class _Announcing(ProbedConfig, frozen=True, kw_only=True, forbid_unknown_fields=False):
    broker: BrokerConfig


@dataclass(frozen=True)
class DeployedProcess:
    """One process of a deployment, its address, and a probe that raises unless it serves."""

    process: DetachedProcess
    address: str
    probe: Callable[[], Awaitable[None]]

    @property
    def name(self) -> str:
        """The party's name, "broker" or "gateway"."""
        return self.process.name

    async def answers(self) -> bool:
        """True if the process serves."""
        try:
            await self.probe()
        except (ShuffleDPError, OSError):
            return False
        return True


@dataclass(frozen=True)
class ProcessHealth:
    """Health of a process: "healthy", "not healthy" or "stopped"."""

    name: str
    address: str
    health: str


def members(folder: Path) -> list[DeployedProcess]:
    """All processes of the deployment, with the broker first.

    Raises:
        ConfigError: the folder is not a deployment, or a configuration in it cannot be used.
    """
    if not (folder / "keys").is_dir():
        raise ConfigError(
            f"{folder} is not a deployment: it has no subfolder keys; `shuffledp deploy init "
            f"{folder}` creates one"
        )
    folder = folder.resolve()
    roster = open_deployment(folder / "keys").roster
    broker = load_config(folder / f"{ANALYST}.toml", _Announcing).broker
    processes = [
        _member(
            folder,
            BROKER,
            ("shuffledp_sim.system.broker", str(broker.port)),
            f"{broker.host}:{broker.port}",
            partial(_connect, f"{broker.host}:{broker.port}"),
        )
    ]
    for party in roster.parties:
        file = folder / f"{party.name}.toml"
        config = load_config(file, ProbedConfig)
        program = (_PROGRAMS[party.role], "--config", str(file))
        check = partial(probe, config)
        processes.append(_member(folder, party.name, program, config.listen, check))
    file = folder / f"{GATEWAY}.toml"
    if file.exists():
        gateway = load_config(file, GatewayConfig)
        program = ("shuffledp_client.gateway.cli", "--config", str(file))
        check = partial(asyncio.to_thread, probe_gateway, gateway)
        processes.append(_member(folder, GATEWAY, program, gateway.listen, check))
    return processes


async def _connect(address: str) -> None:
    _, writer = await asyncio.open_connection(*host_and_port(address))
    writer.close()


def _member(
    folder: Path,
    name: str,
    program: tuple[str, ...],
    address: str,
    check: Callable[[], Awaitable[None]],
) -> DeployedProcess:
    return DeployedProcess(
        DetachedProcess(name, (sys.executable, "-m", *program), folder), address, check
    )


def start_all(folder: Path) -> list[str]:
    """Start every process that does not run, and wait until all are healthy.

    Returns the names of those started.

    Raises:
        ConfigError: a process did not start; those that were started are stopped again.
    """
    everybody = members(folder)
    begun = [member for member in everybody if not member.process.running]
    try:
        for member in begun:
            member.process.start()
        asyncio.run(_until_healthy(everybody))
    except BaseException:
        _stop(begun)
        raise
    return [member.name for member in begun]


def stop_all(folder: Path) -> list[str]:
    """Stop every process; return the names of those that were running."""
    everybody = members(folder)
    ran = [member.name for member in everybody if member.process.running]
    _stop(everybody)
    return ran


def look(folder: Path) -> list[ProcessHealth]:
    """Health of every process of the deployment."""

    async def health(member: DeployedProcess) -> str:
        if not member.process.running:
            return "stopped"
        return "healthy" if await member.answers() else "not healthy"

    async def ask() -> list[ProcessHealth]:
        return [
            ProcessHealth(member.name, member.address, await health(member))
            for member in members(folder)
        ]

    return asyncio.run(ask())


def _stop(some: list[DeployedProcess]) -> None:
    for member in some:
        member.process.ask_to_stop()
    for member in some:
        member.process.clear()


async def _until_healthy(everybody: list[DeployedProcess]) -> None:
    async def until(member: DeployedProcess) -> None:
        while not await member.answers():
            if not member.process.running:
                raise ConfigError(f"{member.name} did not start: {member.process.last_words()}")
            await asyncio.sleep(_POLL_SECONDS)

    try:
        async with asyncio.timeout(START_SECONDS):
            for member in everybody:
                await until(member)
    except TimeoutError as error:
        raise ConfigError(
            f"not all parties were healthy within {START_SECONDS:g} s; see their logs in the "
            "folder `log` of the deployment"
        ) from error
