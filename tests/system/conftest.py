"""A whole local system, shared by the tests of a module that leave it running."""

from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from shuffledp_sim.processes import Budget, LocalSystem
from shuffledp_sim.sealing import sealing_pool

IMPATIENT = {
    "analyst": {"recovery_seconds": 3.0, "discard_seconds": 2.0, "mix_timeout_seconds": 60.0},
    "node": {"relay_seconds": 20.0},
}
"""Bounds on how long a missing party is waited for; every test ends by an event, these only bound the failures."""


@pytest.fixture
async def system(tmp_path: Path) -> AsyncIterator[LocalSystem]:
    """Three nodes, broker, accountant and analyst, each a process of its own."""
    local = LocalSystem(tmp_path / "system", nodes=3, budget=Budget(1e6, 1e-2), settings=IMPATIENT)
    async with local:
        yield local


@pytest.fixture(scope="session")
def pool() -> Iterator[ProcessPoolExecutor]:
    """Sealing processes of the fleet, for the whole session."""
    with sealing_pool() as started:
        yield started
