"""The frame of every process: what fails beside the server takes it down in good order."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from shuffledp_core.runtime.config import ServiceConfig
from shuffledp_core.transport.service import Service, run_until_signal
from shuffledp_ops.keys.pki import create_deployment
from shuffledp_sim.system.ports import Ports


async def test_a_background_task_that_fails_stops_the_server_and_is_raised(tmp_path: Path) -> None:
    names = ("node-1", "analyst", "accountant")
    ports = Ports(len(names))
    addresses = {name: f"127.0.0.1:{port}" for name, port in zip(names, ports.numbers, strict=True)}
    deployment = create_deployment(tmp_path / "keys", addresses)
    config = ServiceConfig(
        name="analyst",
        keys=deployment.keys_of("analyst"),
        roster=deployment.roster_file,
        root_key=deployment.root_key,
        listen=addresses["analyst"],
        state=tmp_path,
    )
    host, _, port = addresses["analyst"].rpartition(":")

    async def failing() -> None:
        _, writer = await asyncio.open_connection(host, int(port))  # it listens
        writer.close()
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        await run_until_signal(
            Service(config, deployment.roster, {}, [], lambda _: None), background=[failing]
        )
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(host, int(port))
    ports.close()
