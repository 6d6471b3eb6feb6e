"""Certificates and calibrations for the paper's settings, each computed once.

Also the least possible error.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, Final, cast

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array, vstack

from shuffledp_core.errors import CannotCertify
from shuffledp_core.mechanisms import Mechanism
from shuffledp_core.privacy import Adjacency
from shuffledp_experiments.athanasiou.printed import LARGEST
from shuffledp_privacy.bounds import Bounds, Setting, epsilon_bounds
from shuffledp_privacy.calibration.calibrate import Target, calibrate

NAMES: Final = {
    "RR-Shuffle": "rr-shuffle",
    "Geo-Shuffle": "geo-shuffle",
    "SGDL-Shuffle": "sgdl-shuffle",
}
"""The paper's names of mechanisms, and ours."""


@cache
def bounds(spec: Mechanism, users: int, delta: float, d_max: int) -> Bounds:
    """Certified and attained ε per unit of distance (metric adjacency), with all users honest."""
    return epsilon_bounds(spec, Setting(users, users, Adjacency.METRIC, d_max), delta)


@cache
def calibrated_spec(
    name: str, epsilon: float, delta: float, users: int, d_max: int, largest: int = LARGEST
) -> Mechanism | None:
    """The plan with the least error and a certificate for all changes up to `d_max`.

    None if there is none.
    """
    target = Target(epsilon, delta, users, users, Adjacency.METRIC, min(d_max, largest), largest)
    try:
        return calibrate(NAMES[name], target)
    except CannotCertify:
        return None


@cache
def least_error(epsilon: float, delta: float, width: int) -> float:
    """Lower bound on the mean absolute error of every (ε, δ) mechanism, at the worst sum.

    The guarantee is at distance 1.

    Let M be one for sums 0..W, and p the law of M(s) - s with s averaged over 0..W-1; that over
    1..W differs from it by at most 1/W. Averaging HS_ε(M(s) ‖ M(s+1)) <= δ over s gives Σ_r (p(r) -
    e^ε p(r-1))_+ <= δ + e^ε/W, as HS is convex, and the same for the other direction. An output
    between two whole numbers may be rounded at random, which
    |r| does not notice as it is straight between them. p may be made symmetric. So the least
    Σ |r| p(r) under these lines is a bound: a linear programme. δ = 0 and W infinite give
    Geo-Central (Ghosh, Roughgarden, Sundararajan 2009).

    Args:
        epsilon: nats per unit.
        delta: in [0, 1).
        width: W, the largest sum.

    Returns:
        In units of the sum.
    """
    loss = delta + math.exp(epsilon) / width
    # The best law ends where it has fallen to about δ; three times as far out nothing is gained by
    # more room.
    reach = math.ceil(3 * max(4.0, math.log(1 / loss)) / epsilon)
    points = reach + 1
    factor = np.full(points, 2.0)
    factor[0] = 1.0
    # Variables: p(0..R), then slacks of (p(r) - e^ε p(r+1))_+ and of (p(r+1) - e^ε p(r))_+, r =
    # 0..R; p(R+1) = 0.
    grow = math.exp(epsilon)
    steps = np.arange(points)
    inside = steps[:-1]
    rows = np.concatenate([steps, inside, steps, inside + points, steps + points, steps + points])
    columns = np.concatenate(
        [steps, inside + 1, steps + points, inside + 1, steps, steps + 2 * points]
    )
    values = np.concatenate(
        [
            np.ones(points), np.full(reach, -grow), -np.ones(points),
            np.ones(reach), np.full(points, -grow), -np.ones(points),
        ]
    )  # fmt: skip
    above = coo_array((values, (rows, columns)), shape=(2 * points, 3 * points)).tocsr()
    spent = coo_array(
        (np.ones(2 * points), (np.zeros(2 * points, dtype=int), np.arange(points, 3 * points))),
        shape=(1, 3 * points),
    ).tocsr()
    total = coo_array((factor, (np.zeros(points, dtype=int), steps)), shape=(1, 3 * points)).tocsr()
    # In units of 1/SCALE, so that the solver's absolute tolerance is far below δ.
    scale = 1e4
    solution = linprog(
        np.concatenate([factor * steps, np.zeros(2 * points)]),
        A_ub=cast("Any", vstack([above, spent])),  # the stubs know dense matrices only
        b_ub=np.concatenate([np.zeros(2 * points), [loss * scale]]),
        A_eq=cast("Any", total),
        b_eq=[scale],
        method="highs",
    )
    if solution.status != 0:
        raise ArithmeticError(
            f"the linear programme for epsilon {epsilon:g} failed: {solution.message}"
        )
    return float(cast("float", solution.fun)) / scale * (1 - 1e-3)
