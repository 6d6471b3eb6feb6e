"""A δ that is positive, but less than any double, is never certified as 0."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import pytest

import shuffledp as sdp
from shuffledp_core.mechanisms import Mechanism
from shuffledp_privacy.bounds import LEAST_DOUBLE, Setting, corrupted_bounds, delta_bounds


@pytest.mark.parametrize(
    ("blanket", "users", "share"),
    [(Fraction(1, 2), 100_000, 0.9), (1 - Fraction(1, 10**9), 1000, 0.9)],
)
def test_krr_certifies_a_delta_that_is_positive_by_one_outcome(
    blanket: Fraction, users: int, share: float
) -> None:
    """All others hold a third symbol, and all reports are the changed user's symbol."""
    spec, setting = sdp.KRRHistogram(symbols=3, blanket=blanket), Setting(users, users)
    epsilon = share * corrupted_bounds(spec, setting, 0.0).epsilon
    other = mpmath.mpf(blanket.numerator) / blanket.denominator / 3
    own = 1 - 2 * other
    truth = other ** (users - 1) * (own - mpmath.e**epsilon * other)
    assert 0 < truth < LEAST_DOUBLE
    assert delta_bounds(spec, setting, epsilon).certified >= truth


SPECS = [
    sdp.HadamardHistogram(symbols=5, blanket=Fraction(1, 2)),
    sdp.HadamardHistogram(symbols=2, blanket=1 - Fraction(1, 10**9)),
    sdp.LocalLaplace(max_value=3, epsilon_geo=Fraction(1, 10)),
    sdp.BloomRappor(symbols=10, bits=8, hashes=1, cohorts=4, fake=Fraction(999_999, 10**6)),
]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.kind)
@pytest.mark.parametrize("share", [0.5, 0.9])
def test_no_mechanism_claims_zero_below_its_local_epsilon(spec: Mechanism, share: float) -> None:
    setting = Setting(100_000, 100_000)
    local = corrupted_bounds(spec, setting, 0.0).epsilon
    assert delta_bounds(spec, setting, share * local).certified > 0.0
    assert delta_bounds(spec, setting, local).certified == 0.0


def test_reports_that_do_not_depend_on_values_need_no_delta() -> None:
    for spec in (
        sdp.KRRHistogram(symbols=3, blanket=Fraction(1)),
        sdp.HadamardHistogram(symbols=3, blanket=Fraction(1)),
    ):
        assert delta_bounds(spec, Setting(100, 100), 0.0).certified == 0.0


def test_an_epsilon_that_is_a_whole_number_is_taken() -> None:
    spec = sdp.SGDLShuffle(max_value=9, noise_epsilon=Fraction(455, 4096), shares=1900, padding=119)
    setting = Setting(2000, 1900)
    assert delta_bounds(spec, setting, 1) == delta_bounds(spec, setting, 1.0)
