"""Geo-Local, the local baseline of paper 002, is a round of local-laplace under metric adjacency.

At the parameters of table 2, whose values are 0..1000.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp_core.mechanisms import LocalLaplace
from shuffledp_core.privacy import Adjacency
from shuffledp_experiments.athanasiou.laws import local_law
from shuffledp_experiments.athanasiou.losses import TABLE_2
from shuffledp_experiments.athanasiou.printed import LARGEST, rational
from shuffledp_experiments.athanasiou.samplers import chi_square
from shuffledp_privacy.bounds import Setting, certified_epsilon, standard_error
from shuffledp_privacy.calibration.calibrate import Target, calibrate

DELTA = 1e-4

ROUNDS = 400

FALSE_ALARM = 1e-10
"""A test that is right fails as rarely, for each of the cells of table 2."""


def round_of(epsilon: float) -> LocalLaplace:
    """The round that adds the noise of Geo-Local to every value."""
    return LocalLaplace(max_value=LARGEST, epsilon_geo=rational(epsilon))


@pytest.mark.parametrize(("users", "epsilon"), TABLE_2)
def test_the_round_has_the_guarantee_and_the_error_of_geo_local(users: int, epsilon: float) -> None:
    spec = round_of(epsilon)
    setting = Setting(users, users, Adjacency.METRIC)
    assert certified_epsilon(spec, setting, DELTA) == pytest.approx(epsilon, rel=1e-12)
    deviation = local_law(epsilon, users).root_mean_square()
    # Exact up to the chance that noise leads from the middle to an end.
    assert standard_error(spec, users) == pytest.approx(deviation, rel=1e-9)


@pytest.mark.parametrize(("users", "epsilon"), TABLE_2)
def test_calibrated_for_that_epsilon_it_has_the_noise_of_geo_local(
    users: int, epsilon: float
) -> None:
    target = Target(epsilon, DELTA, users, users, Adjacency.METRIC, max_value=LARGEST)
    spec = calibrate("local-laplace", target)
    assert isinstance(spec, LocalLaplace)
    # Parameters of a plan are rounded to 11 bits.
    assert epsilon * (1 - 2.0**-10) <= float(spec.epsilon_geo) <= epsilon


@pytest.mark.parametrize(("users", "epsilon"), TABLE_2)
def test_simulated_rounds_err_as_geo_local_does(users: int, epsilon: float) -> None:
    values = np.full(users, LARGEST // 2)
    errors = [
        float(sdp.simulate(round_of(epsilon), values).total) - values.sum() for _ in range(ROUNDS)
    ]
    assert chi_square(np.array(errors), local_law(epsilon, users)) > FALSE_ALARM


def test_values_at_the_ends_make_the_error_smaller_by_little() -> None:
    ratio = math.exp(-0.1)
    ends = [
        sum(ratio**distance / (1 + ratio) for distance in range(LARGEST + 1)) / (LARGEST + 1)
    ] * 2
    # 1 - (n_0 + n_k)/(2 n) is the share of the variance that is left (S24).
    assert 0.997 < math.sqrt(1 - sum(ends) / 2) < 1
