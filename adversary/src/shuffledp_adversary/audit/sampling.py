"""Simulated rounds in process: the exact sampler for every user of every trial, on all cores.

Trials are independent: each draws one report for each user from the operating system's randomness,
in bulk or, on request, with the clients' own code, one value at a time. Only the counts of the
symbols are kept, because an honest shuffler reveals nothing else. For split values only their sum
is kept; docs/accounting.md, Proposition S19, proves that the shuffled pieces reveal nothing else.
Where noise comes from nodes, one honest node adds its dummies to every trial.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import islice
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import Mechanism
from shuffledp_core.sampling.arrays import RandomArrays
from shuffledp_core.sampling.randomisers import randomise, randomise_in_bulk
from shuffledp_core.sampling.randomness import RandomIntegers
from shuffledp_sim.users.sealing import Progress, run_chunks

Sampler: TypeAlias = Callable[[Mechanism, NDArray[np.int64], RandomArrays], NDArray[np.int64]]
"""(spec, values, arrays) -> answers, as `shuffledp_core.sampling.randomisers.randomise_in_bulk`. A
module's own function:
workers look it up by name."""

Dataset: TypeAlias = tuple[int, ...]
"""One value for each user."""

_DRAWS: Final = 250_000
"""Reports in one task of a worker: some hundredths of a second in bulk, a second or two one by one.
"""

_MOST_CELLS: Final = 2**28
"""Trials times symbols that are kept at once: 2 GiB."""

_USUAL_CELLS: Final = 2**27
"""Trials times symbols that a default number of trials may need."""


def shuffled_counts(
    spec: Mechanism,
    datasets: Sequence[Dataset],
    trials: int,
    pool: ProcessPoolExecutor,
    *,
    sampler: Sampler = randomise_in_bulk,
    progress: Progress | None = None,
) -> list[NDArray[np.int64]]:
    """Counts of all symbols for each dataset, an array of shape (trials, spec.cells) each.

    Args:
        spec: the mechanism that every user runs.
        datasets: values inside the spec's domain, at least one user each.
        trials: independent rounds on each dataset, at least 1.
        pool: worker processes for the sampler.
        sampler: `one_by_one` for the clients' own code; any other only to test that an audit
            detects it.
        progress: called with the number of completed trials of all datasets together.

    Raises:
        UsageError: a value outside the domain, or more trials than fit into memory.
    """
    if trials < 1 or trials * len(datasets) * spec.cells > _MOST_CELLS:
        most = _MOST_CELLS // (len(datasets) * spec.cells)
        raise UsageError(
            f"trials must be from 1 to {most:,} with {spec.cells} counts, not {trials:,}"
        )
    sizes = [_chunks(trials, len(values)) for values in datasets]
    chunks = [
        (partial(_run_chunk, spec, values, size, sampler), size)
        for values, row in zip(datasets, sizes, strict=True)
        for size in row
    ]
    counts = iter(run_chunks(pool, chunks, progress))
    return [np.concatenate(list(islice(counts, len(row))), dtype=np.int64) for row in sizes]


def usual_trials(spec: Mechanism, trials: int) -> int:
    """Limit the trials on each of two datasets to what memory allows."""
    return min(trials, max(1, _USUAL_CELLS // (2 * spec.cells)))


def one_by_one(
    spec: Mechanism, values: NDArray[np.int64], arrays: RandomArrays
) -> NDArray[np.int64]:
    """A `Sampler` that calls the clients' `randomise` for each value.

    It takes at least twenty times as long.
    """
    answers = (randomise(spec, value, arrays.single) for value in values.ravel().tolist())
    return np.fromiter(answers, dtype=np.int64, count=values.size).reshape(values.shape)


def _chunks(trials: int, users: int) -> list[int]:
    size = max(1, _DRAWS // users)
    full, rest = divmod(trials, size)
    return [size] * full + ([rest] if rest else [])


def _run_chunk(
    spec: Mechanism, values: Dataset, trials: int, sampler: Sampler
) -> NDArray[np.integer[Any]]:
    """Run one task in a worker, with its own source of randomness; return narrow integers."""
    tiled = np.broadcast_to(np.array(values, dtype=np.int64), (trials, len(values)))
    arrays = RandomArrays()
    counts = spec.count_sent(sampler(spec, tiled, arrays), arrays)
    if spec.dummies_per_node:
        integers = RandomIntegers()
        dummies = [spec.counts_of(spec.sample_dummies(integers)) for _ in range(trials)]
        counts = counts + np.array(dummies)
    return counts.astype(np.min_scalar_type(int(counts.max())))
