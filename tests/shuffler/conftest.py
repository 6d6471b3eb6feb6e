"""Puts `shuffler_world` within reach of the tests here, and gives each test a world of its own."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from shuffler_world import World


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """Two nodes (not running), an analyst that takes batches, and all keys."""
    world = World(tmp_path)
    yield world
    await world.close()
