"""Peeling rate of this node's workers, measured at start: the reference for each round's rate."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Final

from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.onion.layers import binding
from shuffledp_core.onion.suites import suite_named
from shuffledp_core.sampling.randomness import system_random
from shuffledp_shuffler.peel_worker import Layer, PeeledChunk
from shuffledp_shuffler.peeling import PeelPool

ONIONS: Final = 1024
"""Onions in one piece: about 35 ms of peeling, and a few percent more for passing it on."""

RUN_SECONDS: Final = 0.4
"""Duration in seconds of each of the two measurements; the last run is always finished."""

_GEOMETRY: Final = Geometry(suite="sealed-box", hops=3, messages_per_user=1, symbol_bytes=1)
_ROUND: Final = "capacity"


@dataclass(frozen=True)
class Capacity:
    """Onions peeled per second in the default suite, by one worker and by all together."""

    alone: float
    saturated: float


async def measure(pool: PeelPool) -> Capacity:
    """Measure the peeling rates of warm workers, in about a second.

    Each rate is the best of several short runs, the one that was disturbed least. This is the rate
    of an idle machine, which a node that shares its processors does not reach.
    """
    layer, piece = await asyncio.to_thread(_seal_sample)
    alone = await _rate(pool, layer, [piece])
    saturated = await _rate(pool, layer, [piece] * (2 * pool.workers))
    return Capacity(alone, saturated)


async def _rate(pool: PeelPool, layer: Layer, pieces: list[bytes]) -> float:
    end, best = time.perf_counter() + RUN_SECONDS, 0.0
    while time.perf_counter() < end:
        began = time.perf_counter()
        await pool.peel(layer, pieces, _ignore)
        best = max(best, len(pieces) * ONIONS / (time.perf_counter() - began))
    return best


async def _ignore(_: PeeledChunk) -> None:
    pass


def _seal_sample() -> tuple[Layer, bytes]:
    suite = suite_named(_GEOMETRY.suite)
    private, public = suite.generate()
    seal = suite.sealer(public, binding(_ROUND, 2))
    width = _GEOMETRY.record_bytes(3)
    return Layer(_GEOMETRY, _ROUND, 2, private), b"".join(
        seal(system_random(width)) for _ in range(ONIONS)
    )
