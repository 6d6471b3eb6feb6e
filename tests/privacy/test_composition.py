"""Composition against the exact Gaussian curve, brute force over all transcripts, and two other
accountants."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from composed_delta import compose_delta
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import optimize, special

from shuffledp_core.errors import CannotCertify, UsageError
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.analyses import Analysis
from shuffledp_privacy.bounds import Setting
from shuffledp_privacy.local.lecture import LaplaceMean, OneBitMean, binary_response
from shuffledp_privacy.rounds.composition import (
    Round,
    compose_bounds,
    compose_epsilon,
    largest_distance,
)
from shuffledp_privacy.rounds.loss_distribution import Repeated, compose_curves

Floats = NDArray[np.float64]
ONE = Setting(1, 1)


def gaussian_curve(mu: float) -> Callable[[Floats], Floats]:
    """Balle and Wang 2018: the exact δ(ε) of N(0, 1) against N(mu, 1), tail to relative
    precision."""

    def curve(epsilons: Floats) -> Floats:
        left = mu / 2 - epsilons / mu
        # ln Φ keeps the difference of two tiny tails accurate to many digits.
        ratio = np.exp(
            np.minimum(epsilons + special.log_ndtr(left - mu) - special.log_ndtr(left), 0.0)
        )
        return np.asarray(
            np.exp(special.log_ndtr(left)) * (1 - ratio) * (1 + 1e-12), dtype=np.float64
        )

    return curve


def gaussian_epsilon(mu: float, delta: float) -> float:
    def excess(epsilon: float) -> float:
        return float(gaussian_curve(mu)(np.array([epsilon]))[0]) - delta

    return float(optimize.brentq(excess, 0.0, mu * mu / 2 + 12 * mu, xtol=1e-14, rtol=1e-13))


@dataclass(frozen=True)
class UnorderedGaussian(Analysis):
    """A stand-in with an exactly known composition: `sigma` per unit of distance.

    Nothing is known about how the curves of different distances compare."""

    sigma: float
    domain: int = 2

    def curve(self, setting: Setting, distance: int, epsilons: Floats) -> Floats:  # noqa: ARG002
        return gaussian_curve(distance / self.sigma)(epsilons)


class Gaussian(UnorderedGaussian):
    """A stand-in whose curve is known to grow with the distance."""

    @property
    def grows_with_distance(self) -> bool:
        return True


@pytest.mark.parametrize("mu", [0.002, 0.1, 1.0])
@pytest.mark.parametrize("times", [2, 30, 1000])
@pytest.mark.parametrize("delta", [1e-4, 1e-6, 1e-8])
def test_repeated_gaussians_are_never_below_and_within_two_thousandths_of_the_exact_epsilon(
    mu: float, times: int, delta: float
) -> None:
    exact = gaussian_epsilon(mu * math.sqrt(times), delta)
    found = compose_curves([Repeated(gaussian_curve(mu), times)], delta).epsilon(delta)
    assert exact <= found <= exact * 1.002


def test_unequal_gaussians_are_never_below_and_within_a_thousandth_of_the_exact_epsilon() -> None:
    parts = [(0.01, 500), (0.3, 4), (0.1, 20)]
    mu = math.sqrt(sum(m * m * t for m, t in parts))
    found = compose_curves([Repeated(gaussian_curve(m), t) for m, t in parts], 1e-6).epsilon(1e-6)
    assert gaussian_epsilon(mu, 1e-6) <= found <= gaussian_epsilon(mu, 1e-6) * 1.001


def randomised_response_delta(epsilon0: float, times: int, epsilon: float) -> float:
    """Exact δ of T binary responses: the number of truthful ones is sufficient, 50 digits."""
    mpmath.mp.dps = 50
    honest = mpmath.exp(mpmath.mpf(epsilon0)) / (1 + mpmath.exp(mpmath.mpf(epsilon0)))
    total = mpmath.mpf(0)
    for heads in range(times + 1):
        first = mpmath.binomial(times, heads) * honest**heads * (1 - honest) ** (times - heads)
        second = mpmath.binomial(times, heads) * honest ** (times - heads) * (1 - honest) ** heads
        total += max(first - mpmath.exp(mpmath.mpf(epsilon)) * second, mpmath.mpf(0))
    return float(total)


@pytest.mark.parametrize(
    ("epsilon0", "times"), [(0.1, 2), (0.5, 10), (1.0, 7), (0.02, 300), (3.0, 5)]
)
def test_binary_responses_bracket_the_exact_binomial_composition(
    epsilon0: float, times: int
) -> None:
    epsilon = epsilon0 * math.sqrt(times)
    exact = randomised_response_delta(epsilon0, times, epsilon)
    found = compose_delta([Round(binary_response(epsilon0), ONE, times)], epsilon)
    assert exact <= found <= exact * 1.02


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.floats(0.05, 2.5), min_size=2, max_size=6),
    st.floats(0.0, 1.0),
)
def test_different_responses_are_never_below_brute_force_over_all_transcripts(
    epsilons: list[float], share: float
) -> None:
    epsilon = share * sum(epsilons)
    exact = 0.0
    for signs in itertools.product((1, -1), repeat=len(epsilons)):
        first = math.prod(1 / (1 + math.exp(-s * e)) for s, e in zip(signs, epsilons, strict=True))
        second = math.prod(1 / (1 + math.exp(s * e)) for s, e in zip(signs, epsilons, strict=True))
        exact += max(first - math.exp(epsilon) * second, 0.0)
    found = compose_delta([Round(binary_response(e), ONE) for e in epsilons], epsilon)
    assert exact * (1 - 1e-12) <= found
    assert found <= exact + 2e-3


def test_subsampled_responses_are_never_below_the_exact_mixture() -> None:
    epsilon0, rate, times = 1.5, 0.2, 6
    truthful = 1 / (1 + math.exp(-epsilon0))
    # Someone else's value is 0, the changed user's 0 or 1: the mixtures of Zhu et al. with one
    # report drawn.
    first = np.array([truthful, 1 - truthful])
    second = rate * first[::-1] + (1 - rate) * first
    for p, q in ((first, second), (second, first)):
        exact = 0.0
        for outcome in itertools.product((0, 1), repeat=times):
            exact += max(
                math.prod(p[list(outcome)]) - math.exp(0.8) * math.prod(q[list(outcome)]), 0.0
            )
        rounds = [Round(binary_response(epsilon0), ONE, times, Fraction(1, 5))]
        assert compose_delta(rounds, 0.8) >= exact


def test_subsampling_costs_less_than_everybody_and_rate_one_is_everybody() -> None:
    def cost(rate: Fraction) -> float:
        return compose_epsilon([Round(Gaussian(5.0), ONE, 50, rate)], 1e-6)

    assert cost(Fraction(1, 100)) < cost(Fraction(1, 4)) < cost(Fraction(1))
    assert cost(Fraction(1)) == pytest.approx(gaussian_epsilon(math.sqrt(50) / 5, 1e-6), rel=1e-3)


def test_agrees_with_dp_accountings_own_gaussian_composition() -> None:
    from dp_accounting.pld import privacy_loss_distribution

    one = privacy_loss_distribution.from_gaussian_mechanism(
        20.0, value_discretization_interval=1e-4
    )
    theirs = one.self_compose(100).get_epsilon_for_delta(1e-6)
    ours = compose_epsilon([Round(Gaussian(20.0), ONE, 100)], 1e-6)
    assert ours == pytest.approx(theirs, rel=1e-3)


def test_lies_within_the_bracket_of_prv_accountant() -> None:
    import prv_accountant

    law = prv_accountant.LaplaceMechanism(mu=0.1)
    accountant = prv_accountant.PRVAccountant(
        prvs=[law], eps_error=1e-3, delta_error=1e-10, max_self_compositions=[200]
    )
    low, _, high = accountant.compute_epsilon(delta=1e-6, num_self_compositions=[200])
    ours = compose_epsilon([Round(LaplaceMean(0.1), ONE, 200)], 1e-6)
    assert low <= ours <= high + 1e-3


def test_masses_are_those_of_the_published_connect_the_dots_algorithm() -> None:
    from dp_accounting.pld import pld_pmf

    curve, gap, top = gaussian_curve(0.5), 0.01, 400
    nodes = np.arange(-top, top + 1)
    values = curve(np.abs(nodes) * gap)
    values = np.where(nodes < 0, -np.expm1(nodes * gap) + np.exp(nodes * gap) * values, values)
    theirs = pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(
        gap, -top, top, values
    ).self_compose(9)
    ours = compose_curves([Repeated(curve, 9)], 1e-6)
    for epsilon in (0.0, 1.0, 4.0):
        assert ours.delta(epsilon) == pytest.approx(
            float(theirs.get_delta_for_epsilon(epsilon)), rel=2e-3
        )


def test_a_bumpy_upper_bound_of_a_convex_curve_stays_an_upper_bound() -> None:
    def bumpy(epsilons: Floats) -> Floats:
        return gaussian_curve(0.2)(epsilons) * (1 + 0.02 * np.sin(1e5 * epsilons) ** 2)

    found = compose_curves([Repeated(bumpy, 20)], 1e-6).epsilon(1e-6)
    exact = gaussian_epsilon(0.2 * math.sqrt(20), 1e-6)
    assert exact <= found <= exact * 1.02


def test_pure_guarantees_add_up_where_delta_is_zero_or_tiny() -> None:
    rounds = [Round(binary_response(0.5), ONE, 4), Round(binary_response(0.25), ONE)]
    for delta in (0.0, 1e-30):
        assert compose_epsilon(rounds, delta) == pytest.approx(2.25, rel=1e-12)
        assert compose_epsilon(rounds, delta) >= 2.25


def test_refuses_a_delta_that_the_grid_cannot_resolve() -> None:
    with pytest.raises(CannotCertify, match="1e-13"):
        compose_epsilon([Round(Gaussian(1.0), ONE, 10)], 1e-14)


@pytest.mark.parametrize("spec", [Gaussian(30.0, 41), UnorderedGaussian(30.0, 41)])
def test_metric_adjacency_takes_the_worst_distance(spec: object) -> None:
    setting = Setting(1, 1, Adjacency.METRIC)
    exact = max(gaussian_epsilon(d / 30 * math.sqrt(5), 1e-6) / d for d in range(1, 41))
    found = compose_epsilon([Round(spec, setting, 5)], 1e-6)
    assert exact <= found <= exact * 1.025


def test_metric_delta_takes_the_worst_distance() -> None:
    setting = Setting(1, 1, Adjacency.METRIC)
    distances = range(1, 31)
    exact = max(float(gaussian_curve(d / 8 * 2)(np.array([0.45 * d]))[0]) for d in distances)
    found = compose_delta([Round(Gaussian(8.0, 31), setting, 4)], 0.45)
    assert exact <= found <= exact * 1.2


def test_the_callers_largest_distance_limits_the_search() -> None:
    near, far = (Setting(1, 1, Adjacency.METRIC, d) for d in (3, None))
    spec = Gaussian(30.0, 41)
    assert largest_distance([Round(spec, near)]) == 3
    assert largest_distance([Round(spec, far)]) == 40
    assert compose_epsilon([Round(spec, near, 5)], 1e-6) < compose_epsilon(
        [Round(spec, far, 5)], 1e-6
    )


def test_one_round_is_the_rounds_own_analysis() -> None:
    alone = compose_bounds([Round(OneBitMean(1.0, 10), ONE)], 1e-3)
    exact = math.log(math.e - 1e-3 * (math.e + 1))
    assert alone.certified == pytest.approx(exact, rel=1e-12)
    assert alone.attained <= exact <= alone.certified


@settings(max_examples=15, deadline=None)
@given(st.floats(0.05, 1.0), st.integers(2, 40), st.floats(1e-9, 1e-2))
def test_delta_of_epsilon_and_epsilon_of_delta_agree(
    epsilon0: float, times: int, delta: float
) -> None:
    rounds = [Round(LaplaceMean(epsilon0), ONE, times)]
    epsilon = compose_epsilon(rounds, delta)
    assert epsilon <= times * epsilon0 * (1 + 1e-9)
    if epsilon < times * epsilon0 * 0.999:
        assert compose_delta(rounds, epsilon) == pytest.approx(delta, rel=0.05)


def test_attained_is_below_certified_and_counts_one_round() -> None:
    found = compose_bounds([Round(binary_response(0.3), ONE, 12)], 1e-6)
    assert 0.29 < found.attained <= found.certified
    assert found.published is None


@pytest.mark.parametrize(
    ("rounds", "delta"),
    [
        ([], 1e-6),
        ([Round(binary_response(1.0), ONE)], -0.1),
        (
            [
                Round(binary_response(1.0), ONE),
                Round(binary_response(1.0), Setting(1, 1, Adjacency.METRIC)),
            ],
            0.1,
        ),
    ],
)
def test_a_senseless_question_is_a_usage_error(rounds: list[Round], delta: float) -> None:
    with pytest.raises(UsageError):
        compose_epsilon(rounds, delta)


@pytest.mark.parametrize(
    ("times", "rate"),
    [(0, Fraction(1)), (1, Fraction(0)), (1, Fraction(3, 2)), (10**7, Fraction(1))],
)
def test_a_senseless_round_is_a_usage_error(times: int, rate: Fraction) -> None:
    with pytest.raises(UsageError):
        Round(binary_response(1.0), ONE, times, rate)


def test_a_curve_that_never_falls_is_refused() -> None:
    with pytest.raises(CannotCertify):
        compose_curves([Repeated(np.ones_like, 3)], 1e-6)
