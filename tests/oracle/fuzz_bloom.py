"""Cases of Bloom filters with flipped bits, and the laws of their reports on small datasets."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

import numpy as np
import shuffle_oracle as oracle
from fuzz_local_laplace import local_laplace_case

from shuffledp_core.mechanisms import BloomRappor
from shuffledp_privacy.bounds import Setting
from shuffledp_privacy.calibration.calibrate import Target, calibrate


def bloom_case(
    case: Callable[..., Any], numbers: np.random.Generator, setting: Setting, delta: float
) -> Any:
    """A case of few symbols, or None where there is too much to sum."""
    honest = min(setting.honest, int(numbers.choice([1, 2, 3, 6, 12])))
    setting = Setting(setting.users, honest, setting.adjacency)
    goal: float | None = None
    if numbers.random() < 0.2:
        goal = math.exp(numbers.uniform(math.log(0.1), math.log(8)))
        target = Target(goal, delta, setting.users, honest, setting.adjacency, symbols=3)
        spec: Any = calibrate("bloom-rappor", target)
    else:
        spec = BloomRappor(
            symbols=int(numbers.choice([2, 3, 3, 20])),
            bits=int(numbers.choice([2, 3, 8, 22])),
            hashes=int(numbers.choice([1, 1, 2, 3])),
            cohorts=int(numbers.choice([1, 1, 2, 5])),
            fake=Fraction(max(1, round(4096 * math.exp(numbers.uniform(-6, 0)))), 4096),
        )
    rows = oracle.filter_rows(spec.symbols, spec.bits, spec.hashes, spec.cohorts, spec.fake)
    others: list[oracle.Others] = [{value: honest - 1} for value in range(len(rows))]
    changes = list(itertools.permutations(range(len(rows)), 2))
    pairs = oracle.local_pairs(rows, honest, changes, others)
    if not pairs:
        return None
    group = spec.kind if goal is None else f"{spec.kind} (calibrated)"
    # Of more symbols not all datasets are looked at, nor are mixtures of the others' symbols.
    return case(group, spec, setting, delta, goal, pairs, complete=False)


ONE_MESSAGE_CASES: Final[dict[str, Callable[..., Any]]] = {
    "bloom-rappor": bloom_case,
    "local-laplace": local_laplace_case,
}
"""Kinds of mechanisms with one message a user, and what draws their cases."""
