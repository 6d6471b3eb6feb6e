"""Errors without a shuffler and with a trusted party: against laws summed up, and against the
shuffled mechanisms."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.integrate import quad

from shuffledp_core.mechanisms import Answers, HadamardHistogram, KRRHistogram
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.bounds import corrupted_bounds, standard_error
from shuffledp_privacy.calibration.baselines import baseline
from shuffledp_privacy.calibration.target import Target

TARGET = Target(1.0, 1e-6, users=400, honest=400, max_value=20)


def laplace_deviation(epsilon: float, change: float) -> float:
    """By the law: P(j) proportional to exp(-ε|j|/change), far beyond the last place that
    matters."""
    places = np.arange(-5000, 5001)
    law = np.exp(-epsilon * np.abs(places) / change)
    law /= law.sum()
    return math.sqrt(float((law * places**2).sum()))


def gaussian_delta(sigma: float, change: float, epsilon: float) -> float:
    """∫ (f_0 - e^ε f_1)+ by quadrature."""

    def excess(x: float) -> float:
        zero, one = (math.exp(-((x - centre) ** 2) / (2 * sigma**2)) for centre in (0.0, change))
        return max(zero - math.exp(epsilon) * one, 0.0) / (sigma * math.sqrt(2 * math.pi))

    end = change / 2 - epsilon * sigma**2 / change
    return float(quad(excess, end - 12 * sigma, end, epsabs=1e-13)[0])


def test_a_trusted_party_adds_discrete_laplace_noise_to_one_sum() -> None:
    found = baseline(TARGET, Answers.SUM)
    assert found.central_by == "discrete Laplace"
    assert found.central == pytest.approx(laplace_deviation(1.0, 20), rel=1e-6)
    near = baseline(replace(TARGET, max_distance=5), Answers.SUM)
    assert near.central == pytest.approx(laplace_deviation(1.0, 5), rel=1e-6)


def test_metric_adjacency_pays_for_one_unit_and_with_many_people_locally() -> None:
    found = baseline(replace(TARGET, adjacency=Adjacency.METRIC), Answers.SUM)
    assert found.central == pytest.approx(laplace_deviation(1.0, 1), rel=1e-9)
    assert found.local == pytest.approx(20 * found.central, rel=1e-12)  # √400 people


def test_over_many_rounds_gaussian_noise_keeps_exactly_the_target() -> None:
    found = baseline(replace(TARGET, rounds=100), Answers.SUM)
    assert found.central_by == "Gaussian"
    assert gaussian_delta(found.central, 20 * math.sqrt(100), 1.0) == pytest.approx(1e-6, rel=1e-3)
    counts = baseline(replace(TARGET, rounds=100), Answers.HISTOGRAM)
    assert gaussian_delta(counts.central, math.sqrt(2 * 100), 1.0) == pytest.approx(1e-6, rel=1e-3)


@pytest.mark.parametrize(
    ("symbols", "by", "spec"),
    [(4, "k-ary randomised response", KRRHistogram), (200, "Hadamard response", HadamardHistogram)],
)
def test_local_counts_have_the_error_of_the_mechanism_whose_own_epsilon_is_the_target(
    symbols: int, by: str, spec: type[KRRHistogram | HadamardHistogram]
) -> None:
    """The blanket under which ε_L is 1, found by halving."""
    target = Target(1.0, 1e-6, users=400, honest=400, symbols=symbols)
    low, high = Fraction(1, 2**20), Fraction(1)
    for _ in range(16):
        middle = (low + high) / 2
        local = corrupted_bounds(spec(symbols=symbols, blanket=middle), target.setting, 0.0).epsilon
        low, high = (middle, high) if local > 1.0 else (low, middle)
    found = baseline(target, Answers.HISTOGRAM)
    assert found.local_by == by
    assert found.local == pytest.approx(
        standard_error(spec(symbols=symbols, blanket=high), 400), rel=1e-3
    )


@pytest.mark.parametrize("answers", list(Answers))
@pytest.mark.parametrize("epsilon", [0.01, 0.5, 3.0, 50.0])
def test_trust_never_costs_and_more_epsilon_never_hurts(answers: Answers, epsilon: float) -> None:
    found = baseline(replace(TARGET, epsilon=epsilon), answers)
    more = baseline(replace(TARGET, epsilon=2 * epsilon), answers)
    assert found.central <= found.local * (1 + 1e-12)
    assert more.local <= found.local * (1 + 1e-12)
    assert more.central <= found.central * (1 + 1e-12)
