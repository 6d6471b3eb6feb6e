"""Small rounds for system tests."""

from concurrent.futures import ProcessPoolExecutor

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from shuffledp_core.documents.models import RoundPlan
from shuffledp_sim.processes import LocalSystem
from shuffledp_sim.progress import Stages
from shuffledp_sim.report import RoundReport
from shuffledp_sim.rounds import StageClock, run_round

USERS = 40
LARGEST = 3


def small_plan(system: LocalSystem, **changes: object) -> RoundPlan:
    """40 users, values 0..3, three bits each: a second of work."""
    fields: dict[str, object] = {
        "population": system.population, "mechanism": "rr-shuffle", "size": LARGEST, "epsilon": 4.0, "delta": 1e-3,
        "min_reports": USERS, "max_reports": USERS, "route": system.route, "open_seconds": 120.0,
    }  # fmt: skip
    return RoundPlan(**(fields | changes))  # type: ignore[arg-type]


def small_values(users: int = USERS) -> NDArray[np.int64]:
    """0, 1, 2, 3, 0, 1, ..."""
    return np.arange(users, dtype=np.int64) % (LARGEST + 1)


def quiet() -> Stages:
    """Progress that shows nothing."""
    return Stages(Console(quiet=True))


async def small_round(system: LocalSystem, pool: ProcessPoolExecutor, **changes: object) -> RoundReport:
    """One small round to its verified end."""
    return await run_round(system, small_plan(system, **changes), small_values(), pool, quiet(), StageClock())
