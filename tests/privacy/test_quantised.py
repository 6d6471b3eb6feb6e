from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shuffledp_core.errors import UsageError
from shuffledp_privacy.sums.quantised import quantised_epsilon, quantised_parameter


def _law(value: int, granularity: int, rate: float, reach: int) -> np.ndarray:
    """Geometric noise on the randomly rounded value, from the definition, on -reach..reach."""
    q, points = math.exp(-rate), np.arange(-reach, reach + 1)
    low, rest = divmod(value, granularity)
    laws = [(1 - q) / (1 + q) * q ** np.abs(points - centre) for centre in (low, low + 1)]
    return (1 - rest / granularity) * laws[0] + rest / granularity * laws[1]


@pytest.mark.parametrize(("granularity", "rate"), [(1, 0.5), (2, 1.0), (5, 0.3), (7, 2.5)])
def test_the_loss_per_unit_is_the_largest_ratio_of_neighbours(
    granularity: int, rate: float
) -> None:
    laws = [_law(value, granularity, rate, 12) for value in range(4 * granularity + 1)]
    worst = max(float(np.abs(np.log(a / b)).max()) for a, b in itertools.pairwise(laws))
    found = quantised_epsilon(rate, granularity)
    assert worst * (1 - 1e-9) <= found <= worst * (1 + 1e-9)


def test_the_loss_adds_up_over_larger_changes() -> None:
    laws = [_law(value, 5, 0.8, 12) for value in range(21)]
    per_unit = quantised_epsilon(0.8, 5)
    for x in range(21):
        for y in range(x):
            assert float(np.abs(np.log(laws[x] / laws[y])).max()) <= per_unit * (x - y) * (1 + 1e-9)


@given(epsilon=st.floats(1e-4, 200), granularity=st.integers(1, 10**6))
def test_the_parameter_undoes_the_loss_on_the_safe_side(epsilon: float, granularity: int) -> None:
    parameter = quantised_parameter(epsilon, granularity)
    assert quantised_epsilon(parameter, granularity) == pytest.approx(epsilon, rel=1e-9)
    assert epsilon <= parameter <= epsilon * granularity * (1 + 1e-9)


@given(epsilon=st.floats(1e-4, 200), granularity=st.integers(1, 10**6))
def test_the_loss_lies_between_a_share_and_the_whole(epsilon: float, granularity: int) -> None:
    assert epsilon / granularity * (1 - 1e-9) <= quantised_epsilon(epsilon, granularity) <= epsilon


def test_arguments_out_of_range_are_refused() -> None:
    with pytest.raises(UsageError):
        quantised_epsilon(0.0, 2)
    with pytest.raises(UsageError):
        quantised_parameter(1.0, 0)
