"""Audit trials per second, relative to numpy's sampling of the same rounds.

Every audit has to draw at least those samples.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np
from numpy.typing import NDArray

from bench.numpy_laws import randomise_all
from shuffledp.commands import questions
from shuffledp.commands.options import Scenario, decimal
from shuffledp.plans import Plan
from shuffledp_adversary.audit.audit import Effort, neighbours_of, spec_of
from shuffledp_adversary.audit.sampling import Dataset, shuffled_counts
from shuffledp_core.mechanisms import Mechanism
from shuffledp_core.sampling.arrays import RandomArrays
from shuffledp_sim.users.sealing import WORKERS, run_chunks, sealing_pool

USERS = 8
DELTA = 1e-2

TRIALS = 400_000
"""On each dataset, in one turn."""

PIECE = 50_000
"""Of these, in one task of a worker."""

TURNS = 3


def _bare(spec: Mechanism, dataset: Dataset) -> NDArray[np.int64]:
    """One task in a worker with numpy's sampler: the counts of `PIECE` trials."""
    values = np.broadcast_to(np.array(dataset, dtype=np.int64), (PIECE, len(dataset)))
    generator = np.random.default_rng()
    answers = randomise_all(spec, values, generator)
    return spec.count_sent(answers, RandomArrays(generator.bytes))


def _rate(work: Callable[[], object], trials: int) -> float:
    """Trials per second, on both datasets together."""
    began = time.perf_counter()
    work()
    return 2 * trials / (time.perf_counter() - began)


def compare(name: str, plan: Plan, pool: ProcessPoolExecutor) -> None:
    """Print trials per second of numpy, of the exact bulk sampler and of the whole audit."""
    spec = spec_of(plan)
    datasets = neighbours_of(plan, Effort(TRIALS), USERS).datasets
    pieces = [
        (partial(_bare, spec, dataset), PIECE)
        for dataset in datasets
        for _ in range(TRIALS // PIECE)
    ]
    run_chunks(pool, pieces, None)  # warm
    turns = [
        (
            _rate(lambda: run_chunks(pool, pieces, None), TRIALS),
            _rate(lambda: shuffled_counts(spec, datasets, TRIALS, pool), TRIALS),
            _rate(lambda: audit(plan, Effort(TRIALS), pool), TRIALS),
        )
        for _ in range(TURNS)
    ]
    numpy, sampler, audit = (statistics.median(column) for column in zip(*turns, strict=True))
    of_numpy = statistics.median(turn[2] / turn[0] for turn in turns)
    of_sampler = statistics.median(turn[2] / turn[1] for turn in turns)
    print(
        f"  {name:<16} {numpy:>12,.0f} {sampler:>17,.0f} {audit:>12,.0f} {of_numpy:>14.3f} "
        f"{of_sampler:>16.2f}"
    )


def run() -> None:
    """Compare the rates for a histogram and for a sum."""
    print(
        f"  trials a second, {USERS} users a trial, {WORKERS} processes; medians of {TURNS} turns"
    )
    print(
        "                     bare numpy     sampler, bulk  whole audit  audit / numpy  audit / "
        "sampler"
    )
    around = Scenario(USERS, DELTA)
    histogram, _ = questions.krr_histogram(3, 1.0)
    with sealing_pool() as pool:
        compare("krr-histogram", questions.question(histogram, around), pool)
        compare("geo-shuffle", questions.geo_question(3, decimal("0.5"), None, around), pool)
