"""A real system for a check: its own processes and folder, which end with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from shuffledp_sim.system.processes import LocalBudget, LocalSystem
from shuffledp_sim.system.workplace import workplace


@asynccontextmanager
async def running_system(*, nodes: int = 3, **options: Any) -> AsyncIterator[LocalSystem]:
    """Context with a running local system; `options` are those of `LocalSystem`.

    Its folder holds keys, so it is never one that a student's program can see.
    """
    chosen: dict[str, Any] = {"budget": LocalBudget(1e9, 0.5), "broker": False} | options
    with workplace("shuffledp-lab-system-") as folder:
        async with LocalSystem(folder / "system", nodes=nodes, **chosen) as system:
            yield system
