"""Composition at δ far below what an untilted Fourier transform resolves, against sums that need no
transform."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import mpmath
import numpy as np
import pytest
from composed_delta import compose_delta
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from shuffledp_core.mechanisms import KRRHistogram
from shuffledp_privacy.bounds import Setting, certified_curve
from shuffledp_privacy.histogram.krr import epsilon0_to_blanket
from shuffledp_privacy.local.lecture import binary_response
from shuffledp_privacy.rounds.composition import (
    Round,
    compose_bounds,
    compose_epsilon,
)
from shuffledp_privacy.rounds.loss_distribution import Repeated, compose_curves
from shuffledp_privacy.rounds.tilted import Composed, LossLaw

Floats = NDArray[np.float64]
HISTOGRAM = KRRHistogram(symbols=10, blanket=epsilon0_to_blanket(1.0, 10))
EVERYBODY = Setting(10**4, 10**4)


@lru_cache
def one_histogram(step: float, top: int) -> Floats:
    """The certified curve of one round of 10-RR, ε0 = 1, 10,000 users, at -top..top times
    `step`."""
    return certified_curve(
        HISTOGRAM, EVERYBODY, 1, step * np.arange(-top, top + 1, dtype=np.float64)
    )


@pytest.mark.parametrize("delta", [1e-6, 1e-8, 1e-9, 1e-10, 1e-11])
def test_a_thousand_histograms_fall_off_no_cliff(delta: float) -> None:
    """dp-accounting composes the same curve without any margin; its own noise is near 1e-13."""
    from dp_accounting.pld import pld_pmf

    step, top = 2e-4, 400
    peer = pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(
        step, -top, top, one_histogram(step, top)
    )
    found = compose_bounds([Round(HISTOGRAM, EVERYBODY, 1000)], delta)
    assert found.certified == pytest.approx(
        peer.self_compose(1000).get_epsilon_for_delta(delta), rel=2e-3
    )
    assert found.basis[0].startswith("C1-C4")


def test_a_hundred_thousand_histograms_cost_what_a_gaussian_of_their_variance_costs() -> None:
    def at(delta: float) -> float:
        return compose_epsilon([Round(HISTOGRAM, EVERYBODY, 10**5)], delta)

    # The central limit is within a percent there; μ comes from the answer at a δ that was never in
    # doubt.
    mu = _gaussian_mu(at(1e-4), 1e-4)
    for delta in (1e-8, 1e-12):
        assert _gaussian_mu(at(delta), delta) == pytest.approx(mu, rel=0.01)


def _gaussian_mu(epsilon: float, delta: float) -> float:
    mpmath.mp.dps = 30

    def excess(mu: mpmath.mpf) -> mpmath.mpf:
        tail = mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(
            -mu / 2 - epsilon / mu
        )
        return mpmath.log(tail / delta)

    return float(mpmath.findroot(excess, (epsilon / 9, epsilon / 3), solver="anderson", tol=1e-10))


def responses_delta(epsilon0: float, times: int, epsilon: float) -> float:
    """Exact δ of T binary responses, 60 digits: the number of truthful ones is sufficient."""
    with mpmath.workdps(60):
        yes = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon0)))
        total = mpmath.mpf(0)
        for heads in range((times + 1) // 2, times + 1):
            ways = mpmath.binomial(times, heads)
            first, second = (
                ways * yes**n * (1 - yes) ** (times - n) for n in (heads, times - heads)
            )
            total += max(first - mpmath.exp(mpmath.mpf(epsilon)) * second, mpmath.mpf(0))
        return float(total)


@pytest.mark.parametrize(("epsilon0", "times"), [(0.03, 1000), (0.1, 400), (0.5, 60), (3.0, 9)])
@pytest.mark.parametrize("deviations", [3.0, 5.5, 6.5, 7.0])
def test_binary_responses_hold_where_delta_is_tiny(
    epsilon0: float, times: int, deviations: float
) -> None:
    epsilon = min(
        epsilon0 * math.tanh(epsilon0 / 2) * times + deviations * epsilon0 * math.sqrt(times), 25.0
    )
    exact = responses_delta(epsilon0, times, epsilon)
    found = compose_curves([Repeated(_response_curve(epsilon0), times)], max(exact, 1e-13)).delta(
        epsilon
    )
    assert exact <= found <= exact * 1.1 + 1e-17
    if exact >= 1e-13:
        assert (
            compose_epsilon([Round(binary_response(epsilon0), Setting(1, 1), times)], exact)
            >= epsilon
        )


def _response_curve(epsilon0: float) -> Callable[[Floats], Floats]:
    return lambda epsilons: certified_curve(binary_response(epsilon0), Setting(1, 1), 1, epsilons)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(-40, 40), st.floats(1e-6, 1.0)),
        min_size=2,
        max_size=6,
        unique_by=lambda x: x[0],
    ),
    st.lists(
        st.tuples(st.integers(-40, 40), st.floats(1e-6, 1.0)),
        min_size=2,
        max_size=4,
        unique_by=lambda x: x[0],
    ),
    st.integers(1, 30),
    st.floats(1e-25, 0.5),
    st.sampled_from([1e-3, 0.05, 1.0]),
)
def test_any_discrete_laws_are_never_below_their_direct_convolution(
    one: list[tuple[int, float]],
    other: list[tuple[int, float]],
    times: int,
    delta: float,
    gap: float,
) -> None:
    laws = (_law(one, times), _law(other, 2))
    composed = Composed(laws, gap)
    first, masses = _convolved(laws)
    losses = gap * (first + np.arange(masses.size))

    def exact(epsilon: float) -> float:
        return float(masses @ -np.expm1(np.minimum(0.0, epsilon - losses)))

    # Never below. How far above is for curves of real rounds to show (the other tests here): these
    # laws need not be those of a pair whose two orders are alike, as every round's is.
    epsilon = composed.epsilon(delta)
    assert exact(epsilon) <= delta * (1 + 1e-12)
    for point in (0.0, epsilon / 2, epsilon, 1.5 * epsilon):
        assert exact(point) * (1 - 1e-12) <= composed.delta(point) <= 1.0


def _law(atoms: list[tuple[int, float]], times: int) -> LossLaw:
    nodes, weights = zip(*sorted(atoms), strict=True)
    return LossLaw(np.array(nodes, dtype=np.int64), np.array(weights) / sum(weights), 0.0, times)


def _convolved(laws: tuple[LossLaw, ...]) -> tuple[int, Floats]:
    """First multiple and masses, by sums of positive terms alone."""
    first, total = 0, np.array([1.0])
    for law in laws:
        one = np.zeros(int(law.nodes[-1] - law.nodes[0]) + 1)
        one[law.nodes - law.nodes[0]] = law.masses
        for _ in range(law.times):
            total, first = np.convolve(total, one), first + int(law.nodes[0])
    return first, total


def test_infinite_losses_count_in_full() -> None:
    law = LossLaw(np.array([-1, 1]), np.array([0.2, 0.7]), 0.1, 3)
    composed = Composed((law,), 1.0)
    assert composed.delta(4.0) >= 1 - 0.9**3
    assert math.isinf(composed.epsilon(0.2))


def test_the_work_is_one_transform_of_the_window_whatever_the_number_of_rounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lengths: list[int] = []
    asked: list[int] = []
    plain = np.fft.irfft

    def counted(values: NDArray[np.complex128], points: int) -> Floats:
        lengths.append(points)
        return plain(values, points)

    def curve(epsilons: Floats) -> Floats:
        asked.append(epsilons.size)
        return _response_curve(0.02)(epsilons)

    monkeypatch.setattr(np.fft, "irfft", counted)
    for times in (10, 1000, 10_000):
        lengths.clear()
        asked.clear()
        compose_curves([Repeated(curve, times)], 1e-6).epsilon(1e-6)
        # The grid's 800 steps span one deviation of such a round, the window 18 of them all.
        assert len(lengths) <= 2
        assert max(lengths) <= 2**15 * math.sqrt(times)
        assert sum(asked) <= 900


def test_delta_at_zero_of_no_loss_is_zero() -> None:
    assert compose_delta([Round(binary_response(1e-12), Setting(1, 1), 2)], 0.0) <= 1e-9
    assert compose_epsilon([Round(binary_response(1e-6), Setting(1, 1), 2)], 0.1) == 0.0
