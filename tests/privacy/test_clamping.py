from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import SGDLShuffle
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.bounds import Setting, delta_bounds
from shuffledp_privacy.sums import geo, sgdl
from shuffledp_privacy.sums.clamping import (
    clamping_delta,
    closed_padding,
    geo_any_clamped,
    geo_tail,
    least_padding_geo,
    least_padding_sgdl,
    sgdl_any_clamped,
    sgdl_tail,
)


def _share_tail(shares: int, epsilon: Fraction, padding: int) -> mpmath.mpf:
    """P(|N| > c) from the definition of SGDL(1/shares, φ), 50 digits."""
    with mpmath.workdps(50):
        r, q = (
            mpmath.mpf(1) / shares,
            mpmath.exp(-mpmath.mpf(epsilon.numerator) / epsilon.denominator),
        )
        total = mpmath.mpf(0)
        for m in range(padding + 1, padding + 1 + math.ceil(60 / float(epsilon))):
            first = (
                (1 - q) ** (2 * r)
                * mpmath.gamma(r + m)
                / mpmath.gamma(r)
                / mpmath.factorial(m)
                * q**m
            )
            total += first * mpmath.hyp2f1(r, r + m, m + 1, q * q)
        return 2 * total


def test_the_printed_padding_of_lemma_c1_cuts_somebody_with_probability_seven_tenths() -> None:
    assert sgdl.published_padding(Fraction(1, 10), 1000, 1e-4) == 4
    assert sgdl_any_clamped(Fraction(1, 10), 1000, 4, 1000) == pytest.approx(0.713, abs=5e-4)
    assert (
        sgdl_any_clamped(Fraction(1, 10), 1000, 77, 1000)
        <= 1e-4
        < sgdl_any_clamped(Fraction(1, 10), 1000, 76, 1000)
    )


def test_the_printed_padding_of_lemma_c1_is_wasteful_at_epsilon_one() -> None:
    assert sgdl.published_padding(Fraction(1), 1000, 1e-4) == 22
    assert (
        sgdl_any_clamped(Fraction(1), 1000, 8, 1000)
        <= 1e-4
        < sgdl_any_clamped(Fraction(1), 1000, 7, 1000)
    )


def test_the_printed_padding_of_geo_shuffle_is_enough() -> None:
    padding = geo.published_padding(Fraction(1, 5), 100, 1e-4)
    assert geo_any_clamped(Fraction(1, 5), padding, 100) <= 0.5e-4


@pytest.mark.parametrize(
    ("shares", "epsilon", "padding"), [(1000, Fraction(1, 2), 4), (7, Fraction(1, 3), 25)]
)
def test_tails_of_a_share_agree_with_fifty_digits(
    shares: int, epsilon: Fraction, padding: int
) -> None:
    truth = float(_share_tail(shares, epsilon, padding))
    assert truth <= sgdl_tail(epsilon, shares, padding) <= truth * (1 + 1e-8)


def test_the_tail_of_a_whole_noise_agrees_with_a_sum() -> None:
    q = math.exp(-0.25)
    truth = 2 * (1 - q) / (1 + q) * math.fsum(q**j for j in range(13, 800))
    assert truth * (1 - 1e-13) <= geo_tail(Fraction(1, 4), 12) <= truth * (1 + 1e-11)


@pytest.mark.parametrize("padding", [700, 705, 743, 745, 800, 10**6])
@pytest.mark.parametrize("shares", [1, 30])
def test_a_probability_below_the_smallest_double_is_never_called_nothing(
    padding: int, shares: int
) -> None:
    with mpmath.workdps(50):
        q = mpmath.exp(-1)
        one_noise = 2 * q ** (padding + 1) / (1 + q)
        # A share's tail is at least P(A = c + 1, B = 0), and at most a whole noise's 2 q^(c+1).
        r = mpmath.mpf(1) / shares
        share = 2 * (1 - q) ** (2 * r) * mpmath.gamma(r + padding + 1) / mpmath.gamma(r)
        share *= q ** (padding + 1) / mpmath.factorial(padding + 1)
        assert geo_tail(Fraction(1), padding) >= one_noise
        assert geo_any_clamped(Fraction(1), padding, 1000) >= 1 - (1 - one_noise) ** 1000
        assert sgdl_tail(Fraction(1), shares, padding) >= share
    assert 0 < sgdl_any_clamped(Fraction(1), shares, padding, 1000) <= 1e-290


def test_clamping_is_never_free_however_wide_the_padding() -> None:
    assert clamping_delta(geo_any_clamped(Fraction(1), 10**6, 10), 600.0) > 0
    assert clamping_delta(sgdl_any_clamped(Fraction(2), 50, 10**6, 50), 0.0) > 0
    # Pure per unit but for clamping: δ is then what clamping costs, and some report is always
    # clamped somewhere.
    spec = SGDLShuffle(max_value=10, noise_epsilon=Fraction(1), shares=40, padding=1000)
    assert delta_bounds(spec, Setting(40, 40, Adjacency.METRIC), 1.0).certified > 0


def test_a_billion_tiny_probabilities_add_up_without_loss() -> None:
    tail = mpmath.mpf(geo_tail(Fraction(1), 50))
    truth = float(1 - (1 - tail) ** (10**9)) if tail > 1e-15 else float(mpmath.mpf(10) ** 9 * tail)
    assert geo_any_clamped(Fraction(1), 50, 10**9) == pytest.approx(truth, rel=1e-9)


def test_the_least_padding_is_least() -> None:
    for total in (0.3, 20.0, 120.0):
        c = least_padding_geo(Fraction(1, 5), 100, 1e-5, total)
        costs = [clamping_delta(geo_any_clamped(Fraction(1, 5), p, 100), total) for p in (c - 1, c)]
        assert costs[1] <= 1e-5 < costs[0]
        c = least_padding_sgdl(Fraction(1, 5), 100, 100, 1e-5, total)
        costs = [
            clamping_delta(sgdl_any_clamped(Fraction(1, 5), 100, p, 100), total) for p in (c - 1, c)
        ]
        assert costs[1] <= 1e-5 < costs[0]


@settings(deadline=None, max_examples=50)
@given(
    epsilon=st.fractions(Fraction(1, 100), Fraction(3)),
    honest=st.integers(1, 10**9),
    delta=st.floats(1e-12, 0.5),
    total=st.floats(0, 300),
)
def test_the_closed_form_is_always_enough(
    epsilon: Fraction, honest: int, delta: float, total: float
) -> None:
    padding = closed_padding(float(epsilon), honest, delta, total)
    assert least_padding_geo(epsilon, honest, delta, total) <= padding
    shared = closed_padding(float(epsilon), 1, delta, total)
    assert clamping_delta(sgdl_any_clamped(epsilon, honest, shared, honest), total) <= delta * (
        1 + 1e-9
    )


@pytest.mark.parametrize(
    ("epsilon", "groups", "delta", "total"),
    [(0.0, 1, 0.1, 1.0), (1.0, 0, 0.1, 1.0), (1.0, 1, 1.0, 1.0), (1.0, 1, 0.1, -1.0)],
)
def test_arguments_out_of_range_are_refused(
    epsilon: float, groups: int, delta: float, total: float
) -> None:
    with pytest.raises(UsageError):
        closed_padding(epsilon, groups, delta, total)
