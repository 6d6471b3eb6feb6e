"""Cases of local Laplace noise, and the laws of its reports on small datasets."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import shuffle_oracle as oracle

from shuffledp_core.mechanisms import LocalLaplace
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.bounds import Setting
from shuffledp_privacy.calibration.calibrate import Target, calibrate


def local_laplace_case(
    case: Callable[..., Any], numbers: np.random.Generator, setting: Setting, delta: float
) -> Any:
    """A case of few values, or None where there is too much to sum."""
    max_value = int(numbers.choice([1, 1, 2, 2, 3, 6]))
    honest = min(setting.honest, 60 if max_value <= 2 else 12)
    setting = Setting(setting.users, honest, setting.adjacency)
    goal: float | None = None
    if numbers.random() < 0.3:
        units = max_value if setting.adjacency is Adjacency.METRIC else 1
        goal = math.exp(numbers.uniform(math.log(0.1), math.log(8))) / math.sqrt(units)
        target = Target(goal, delta, setting.users, honest, setting.adjacency, max_value=max_value)
        spec: Any = calibrate("local-laplace", target)
    else:
        rate = math.exp(numbers.uniform(math.log(0.01), math.log(4)))
        epsilon_geo = Fraction(max(1, round(4096 * rate)), 4096)
        spec = LocalLaplace(max_value=max_value, epsilon_geo=epsilon_geo)
    rows = oracle.local_laplace_rows(max_value, spec.epsilon_geo)
    rest = honest - 1
    others: list[oracle.Others] = [{value: rest} for value in range(max_value + 1)]
    # Of one bit every composition; of more values few are at both ends of the worst dataset.
    mixed = range(1, rest) if max_value == 1 or honest <= 5 else [rest // 2]
    others += [{0: zeros, max_value: rest - zeros} for zeros in mixed]
    pairs = []
    for change in itertools.permutations(range(max_value + 1), 2):
        distance = abs(change[0] - change[1])
        laws = oracle.local_pairs(rows, honest, [change], others)
        pairs += [oracle.Pair(pair.one, pair.other, distance) for pair in laws]
    if not pairs:
        return None
    group = spec.kind if goal is None else f"{spec.kind} (calibrated)"
    # Of many users some datasets are too much to sum; of few not all mixtures are looked at.
    return case(group, spec, setting, delta, goal, pairs, complete=False)
