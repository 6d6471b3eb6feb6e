"""A deployment for the tests of a file, and a round of it with simulated parties."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from client_rounds import Draft, make_deployment
from simulated_round import SimulatedRound

from shuffledp_ops.keys.pki import Deployment


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    return make_deployment(tmp_path_factory.mktemp("keys") / "deployment")


@pytest.fixture
async def simulated(tmp_path: Path, deployment: Deployment) -> AsyncIterator[SimulatedRound]:
    async with SimulatedRound(Draft(deployment), tmp_path) as running:
        yield running
