from __future__ import annotations

import math

import mpmath
import pytest
from dp_accounting.pld.privacy_loss_mechanism import DiscreteLaplacePrivacyLoss, GaussianPrivacyLoss
from hypothesis import given
from hypothesis import strategies as st

from shuffledp_core.errors import UsageError
from shuffledp_privacy.central import (
    gaussian_delta,
    gaussian_sigma,
    geometric_delta,
)


@given(rate=st.floats(0.01, 3), distance=st.integers(1, 50), part=st.floats(0, 0.999))
def test_the_geometric_mechanism_agrees_with_dp_accounting(
    rate: float, distance: int, part: float
) -> None:
    epsilon = part * rate * distance
    truth = DiscreteLaplacePrivacyLoss(rate, sensitivity=distance).get_delta_for_epsilon(epsilon)
    found = geometric_delta(rate, distance, epsilon)
    assert truth - 1e-14 <= found <= truth + 1e-10


@pytest.mark.parametrize("epsilon", [0.0, 0.2, 0.55, 1.3])
def test_the_geometric_mechanism_agrees_with_a_sum_of_thirty_digits(epsilon: float) -> None:
    with mpmath.workdps(30):
        q = mpmath.exp(mpmath.mpf(-0.25))
        masses = {y: (1 - q) / (1 + q) * q ** abs(y) for y in range(-406, 401)}
        terms = (masses[y] - mpmath.exp(epsilon) * masses[y - 6] for y in range(-400, 401))
        truth = float(mpmath.fsum(term for term in terms if term > 0))
    assert truth <= geometric_delta(0.25, 6, epsilon) <= truth + 1e-12


@given(sigma=st.floats(0.2, 50), epsilon=st.floats(0, 8))
def test_the_gaussian_mechanism_agrees_with_fifty_digits(sigma: float, epsilon: float) -> None:
    with mpmath.workdps(50):
        s, e = mpmath.mpf(sigma), mpmath.mpf(epsilon)
        truth = mpmath.ncdf(1 / (2 * s) - e * s) - mpmath.exp(e) * mpmath.ncdf(-1 / (2 * s) - e * s)
    found = gaussian_delta(sigma, 1.0, epsilon)
    assert found >= float(truth) * (1 - 1e-15)
    if truth > 1e-14:
        assert found <= float(truth) * (1 + 1e-5)


def test_the_gaussian_mechanism_agrees_with_dp_accounting() -> None:
    assert gaussian_delta(2.0, 1.0, 0.5) == pytest.approx(
        GaussianPrivacyLoss(2.0).get_delta_for_epsilon(0.5), rel=1e-9
    )


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-9), (5.0, 1e-3)])
def test_a_calibrated_sigma_is_sound_and_tight(epsilon: float, delta: float) -> None:
    sigma = gaussian_sigma(3.0, epsilon, delta)
    privacy = GaussianPrivacyLoss(sigma, sensitivity=3.0)
    assert privacy.get_delta_for_epsilon(epsilon) <= delta
    assert (
        GaussianPrivacyLoss(sigma * (1 - 1e-6), sensitivity=3.0).get_delta_for_epsilon(epsilon)
        > delta
    )


def test_arguments_out_of_range_are_refused() -> None:
    with pytest.raises(UsageError, match="noise_epsilon"):
        geometric_delta(0.0, 1, 0.1)
    with pytest.raises(UsageError, match="distance"):
        geometric_delta(1.0, 0, 0.1)
    with pytest.raises(UsageError, match="epsilon"):
        geometric_delta(1.0, 1, -0.1)
    with pytest.raises(UsageError, match="sigma"):
        gaussian_delta(math.inf, 1.0, 0.1)
    with pytest.raises(UsageError, match="delta"):
        gaussian_sigma(1.0, 0.1, 1.0)
