"""Compares the clients' samplers with the exact laws of the errors."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import chi2

from shuffledp_core.answering.estimation import estimate
from shuffledp_core.mechanisms import Mechanism
from shuffledp_core.sampling.randomisers import randomise
from shuffledp_core.sampling.randomness import RandomIntegers
from shuffledp_experiments.athanasiou import printed
from shuffledp_experiments.athanasiou.guarantees import NAMES, calibrated_spec
from shuffledp_experiments.athanasiou.laws import HALF, spec_law
from shuffledp_experiments.entry import (
    RunInputs,
)
from shuffledp_privacy.sums.errors import ErrorLaw


def agreement(spec: Mechanism, users: int, rounds: int, law: ErrorLaw) -> float:
    """p-value of a chi-square test of the clients' samplers against the law of the sum's error.

    All users hold half of the largest value, which the law must be for. Randomness is the operating
    system's: another p in every run, below 1e-9 once in a billion.
    """
    value = (spec.domain - 1) // 2
    integers = RandomIntegers()
    reports = np.array(
        [randomise(spec, value, integers) for _ in range(users * rounds)], dtype=np.int64
    )
    counts = spec.count(reports.reshape(rounds, users))
    sums = np.array([estimate(spec, row, users).values[0] for row in counts.tolist()])
    return chi_square(sums - users * value, law)


def chi_square(errors: Any, law: ErrorLaw, cells: int = 10) -> float:
    """p-value of observed errors under a law, in cells of about equal probability."""
    reached = np.cumsum(law.mass)
    cuts = np.unique(np.searchsorted(reached, np.arange(1, cells) / cells))
    edges = (law.errors[cuts] + law.errors[np.minimum(cuts + 1, law.errors.size - 1)]) / 2
    expected = np.diff(np.concatenate([[0.0], reached[cuts], [1.0]])) * len(errors)
    counts = np.bincount(np.searchsorted(edges, errors), minlength=expected.size)
    return float(chi2.sf(((counts - expected) ** 2 / expected).sum(), expected.size - 1))


def sampler_notes(work: RunInputs, epsilon: float, delta: float) -> tuple[str, ...]:
    """Notes on the agreement of the clients' samplers with the laws, if requested."""
    if not work.exact_sampler:
        return ()
    notes, users, rounds = [], 20, work.runs or 200
    for name in NAMES:
        spec = calibrated_spec(name, epsilon, delta, users, 1)
        if spec is not None:
            law = spec_law(spec, users, printed.LARGEST, HALF / printed.LARGEST)
            p = agreement(spec, users, rounds, law)
            notes.append(
                f"the clients' sampler of {name} against the law, {rounds} rounds of {users}: p = "
                f"{p:.2g}" + ("" if p > 1e-9 else ", they DISAGREE")
            )
    return tuple(notes)
