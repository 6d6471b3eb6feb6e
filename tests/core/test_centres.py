"""The centre of a map: intervals that cover it, and the ellipse of its error (N12)."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from shuffledp_core.answering.centres import CentreEstimate, centre_of
from shuffledp_core.bounds.weighted_noise import CountNoise

MIDDLES = (np.array([0.0, 1.0, 2.0]), np.array([10.0, 20.0, 30.0, 40.0]))
TRUTH = np.array([50, 0, 0, 10, 0, 30, 0, 0, 5, 0, 0, 105, 40], dtype=np.float64)
NOISE = CountNoise(Fraction(1, 2), 27, TRUTH.size, 200)


def true_centre() -> tuple[float, float]:
    cells = TRUTH[:12].reshape(3, 4)
    people = cells.sum()
    return float(MIDDLES[0] @ cells.sum(axis=1) / people), float(
        MIDDLES[1] @ cells.sum(axis=0) / people
    )


def estimate(rng: np.random.Generator | None, nodes: int = 1) -> CentreEstimate | None:
    counts = TRUTH.copy()
    if rng is not None:
        fall = -math.expm1(-0.5)
        for _ in range(nodes):
            counts += rng.geometric(fall, counts.size) - rng.geometric(fall, counts.size)
    return centre_of(counts, MIDDLES, NOISE, nodes, float(TRUTH.sum()))


def test_without_noise_it_is_the_centre() -> None:
    centre = estimate(None)
    assert centre is not None
    assert centre.point == pytest.approx(true_centre())
    for low, point, high in zip(centre.low, centre.point, centre.high, strict=True):
        assert low < point < high


def test_intervals_cover_and_the_covariance_is_that_of_the_errors() -> None:
    rng = np.random.default_rng(12)
    rounds = 40
    truth = true_centre()
    inside = np.zeros(2)
    errors = []
    variances = []
    for at in range(rounds):
        centre = estimate(rng, nodes=1 + at % 2)
        assert centre is not None
        inside += [
            low <= value <= high
            for low, value, high in zip(centre.low, truth, centre.high, strict=True)
        ]
        covariance = np.array(centre.covariance)
        errors.append((np.array(centre.point) - truth) / np.sqrt(np.diag(covariance)))
        variances.append(covariance)
        assert np.linalg.eigvalsh(covariance).min() >= 0
    assert inside.min() >= binom.ppf(5e-10, rounds, 0.95)
    # The fourth moment of Laplace noise is at most 6: six deviations of the mean square.
    assert np.mean(np.square(errors)) == pytest.approx(1.0, abs=6 * math.sqrt(5 / rounds))


def test_the_ellipse_has_the_axes_of_the_covariance() -> None:
    centre = CentreEstimate((0, 0), (0, 0), (0, 0), ((1.0, 0.0), (0.0, 4.0)))
    assert centre.ellipse() == pytest.approx((2.0, 1.0, 0.0))
    assert centre.ellipse((4.0, 1.0)) == pytest.approx((4.0, 2.0, math.pi / 2))


def test_a_map_that_may_be_empty_has_no_centre() -> None:
    counts = np.zeros(13)
    counts[-1] = 300
    assert centre_of(counts, MIDDLES, NOISE, 1, 300.0) is None
