"""Gives each test that asks for it a running accountant of its own."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shuffledp_accountant.metrics import AccountantMetrics
from shuffledp_accountant.service import (
    create_service,
    open_accountant,
)
from shuffledp_ops.keys.pki import ACCOUNTANT, ANALYST, create_deployment
from shuffledp_sim.system.ports import Ports

sys.path.insert(0, str(Path(__file__).parent))

from accountant_world import NODES, World, make_config


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    ports = Ports(len(NODES) + 2)
    names = [*NODES, ANALYST, ACCOUNTANT]
    addresses = {name: f"127.0.0.1:{port}" for name, port in zip(names, ports.numbers, strict=True)}
    deployment = create_deployment(tmp_path / "keys", addresses)
    config = make_config(deployment, tmp_path)
    accountant, ledger = open_accountant(config, deployment.roster)
    service = create_service(config, deployment.roster, accountant, AccountantMetrics(config))
    await service.start()
    there = World(deployment, config)
    yield there
    await there.close()
    await service.stop()
    ledger.close()
    ports.close()
