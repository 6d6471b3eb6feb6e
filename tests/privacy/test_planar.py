from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shuffledp_core.errors import UsageError
from shuffledp_privacy.sums.planar import axis_budget, plane_guarantee


@given(epsilon=st.floats(0, 100), delta=st.floats(0, 0.9))
def test_two_axes_within_their_budget_keep_the_plane(epsilon: float, delta: float) -> None:
    axis = axis_budget(epsilon, delta)
    whole_epsilon, whole_delta = plane_guarantee(axis, axis)
    assert whole_epsilon <= epsilon * (1 + 1e-14) + 1e-300
    assert whole_delta <= math.nextafter(delta, 1)


def test_the_plane_guarantee_holds_for_geometric_noise_on_a_grid() -> None:
    first, second = 0.7, 0.4
    points = np.arange(-60, 61)

    def law(x: int, y: int) -> np.ndarray:
        rows = [
            math.tanh(e / 2) * np.exp(-e * np.abs(points - c)) for e, c in ((first, x), (second, y))
        ]
        return np.outer(*rows)

    whole, _ = plane_guarantee((first, 0.0), (second, 0.0))
    for x in range(4):
        for y in range(4):
            ratio = float(np.log(law(0, 0) / law(x, y)).max())
            assert ratio <= whole * math.hypot(x, y) * (1 + 1e-9) + 1e-12


def test_arguments_out_of_range_are_refused() -> None:
    with pytest.raises(UsageError):
        axis_budget(-1.0, 0.0)
    with pytest.raises(UsageError):
        plane_guarantee((1.0, 1.0), (1.0, 0.0))
    with pytest.raises(UsageError):
        plane_guarantee((1.0, 0.6), (1.0, 0.6))
