"""Independent trials of one attack, spread over the cores, with a progress bar."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import chain
from types import TracebackType
from typing import Final, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from shuffledp.progress import Stages
from shuffledp_adversary.attacks.views import Views
from shuffledp_sim.users.sealing import WORKERS, run_chunks, sealing_pool

Draw: TypeAlias = Callable[[int], Views]
"""`draw(count)` gives `count` fresh trials. It runs in another process, so it must be picklable."""

_CHUNKS_PER_WORKER: Final = 12
"""Chunks per worker: enough steps for a bar that moves."""


class Trials:
    """Runs trials in the fleet's sealing processes.

    Every process draws its own system randomness.
    """

    def __init__(self) -> None:
        self._pool = sealing_pool()
        self._stages = Stages(Console(stderr=True))

    def __enter__(self) -> Self:
        self._stages.__enter__()
        self._pool.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._stages.__exit__(kind, error, trace)

    def run_trials(self, stage: str, draw: Draw, trials: int) -> NDArray[np.int64]:
        """Run independent trials and return the adversary's views.

        Args:
            stage: label of the progress bar.
            draw: runs a given number of trials and returns their views.
            trials: number of trials, at least 1.

        Returns:
            Shape (trials, numbers of one view).
        """
        size = -(-trials // (WORKERS * _CHUNKS_PER_WORKER))
        sizes = [min(size, trials - start) for start in range(0, trials, size)]
        self._stages.update(stage, 0, trials)
        chunks = [(partial(draw, count), count) for count in sizes]
        views = chain.from_iterable(
            run_chunks(self._pool, chunks, partial(self._stages.update, stage))
        )
        return np.array(list(views), dtype=np.int64)
