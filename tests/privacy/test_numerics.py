"""Directed rounding and bisection, against exact arithmetic."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shuffledp_privacy.numerics.rounding import UNIT, down, up
from shuffledp_privacy.numerics.search import bisect, bisect_magnitude, bisect_whole

positive = st.floats(1e-200, 1e200)


@given(positive, st.integers(3, 10_000))
def test_margins_go_outward_by_the_stated_units_and_hardly_more(value: float, units: int) -> None:
    exact, unit = Fraction(value), Fraction(UNIT)
    assert exact * (1 + (units - 2) * unit) <= Fraction(up(value, units))
    assert Fraction(up(value, units)) <= exact * (1 + (units + 2) * unit)
    assert exact * (1 - (units + 2) * unit) <= Fraction(down(value, units))
    assert Fraction(down(value, units)) <= exact * (1 - (units - 2) * unit)


@given(st.floats(0.0, 1.0), st.sampled_from([(1.0, 0.0), (0.0, 1.0)]))
def test_a_bisection_returns_the_end_at_which_the_condition_holds(
    threshold: float, ends: tuple[float, float]
) -> None:
    passing, failing = ends

    def holds(value: float) -> bool:
        return value >= threshold if passing > failing else value <= threshold

    end = bisect(holds, passing, failing, steps=40)
    assert holds(end)
    assert abs(end - threshold) <= 2.0**-40 or end == passing


@given(st.integers(-50, 50))
def test_a_bisection_of_whole_numbers_finds_the_last_that_holds(threshold: int) -> None:
    assert bisect_whole(lambda value: value >= threshold, 50, -51) == threshold
    assert bisect_whole(lambda value: value <= threshold, -50, 51) == threshold


@pytest.mark.parametrize("threshold", [0.5, 1e-3, 1e-9])
def test_a_threshold_that_is_smaller_by_orders_of_magnitude_is_found(threshold: float) -> None:
    end = bisect_magnitude(lambda value: value >= threshold, 1.0, smallest=1e-12, shrink=8)
    assert threshold <= end <= threshold * (1 + 2e-3)


def test_a_condition_that_holds_down_to_the_smallest_value_ends_there() -> None:
    assert bisect_magnitude(lambda _: True, 1.0, smallest=1e-12, shrink=8) <= 1e-12
