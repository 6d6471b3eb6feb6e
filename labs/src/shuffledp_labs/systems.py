"""A real system for a check: its own processes, its own folder, gone afterwards."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from shuffledp_sim.system.processes import LocalBudget, LocalSystem


@asynccontextmanager
async def running_system(*, nodes: int = 3, **options: Any) -> AsyncIterator[LocalSystem]:
    """A local system that has started; `options` are `LocalSystem`'s.

    Its folder holds keys, so it is never one that a student's program can see.
    """
    folder = Path(tempfile.mkdtemp(prefix="shuffledp-lab-system-"))
    try:
        chosen: dict[str, Any] = {"budget": LocalBudget(1e9, 0.5), "broker": False} | options
        async with LocalSystem(folder / "system", nodes=nodes, **chosen) as system:
            yield system
    finally:
        shutil.rmtree(folder, ignore_errors=True)
