"""Puts `analyst_world` within reach of the tests here, and gives each test a world of its own."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from analyst_world import World


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """Three simulated nodes, a simulated accountant and a real analyst, all running."""
    world = World(tmp_path)
    await world.start()
    yield world
    await world.close()
