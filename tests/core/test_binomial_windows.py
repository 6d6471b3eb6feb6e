"""Binomial laws on the widest windows, against 50 digits."""

from __future__ import annotations

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from shuffledp_core.bounds.windows import binomial_law

STATED = 1e-10
"""Relative error that the module states."""


@pytest.mark.parametrize(
    ("trials", "chance"),
    [
        (500_000, Fraction(1, 2)),
        (800_000_000, Fraction(1, 2)),
        (10**9, Fraction(1, 3)),
        (10**9, Fraction(1, 1000)),
        (10**9, Fraction(999, 1000)),
    ],
)
def test_probabilities_of_the_widest_windows_have_ten_digits(trials: int, chance: Fraction) -> None:
    first, law = binomial_law(trials, chance)
    with mp.workdps(50):
        success = mp.mpf(chance.numerator) / chance.denominator
        for place in np.linspace(0, len(law) - 1, 41).astype(int).tolist():
            count = first + place
            exact = mp.exp(
                mp.loggamma(trials + 1)
                - mp.loggamma(count + 1)
                - mp.loggamma(trials - count + 1)
                + count * mp.log(success)
                + (trials - count) * mp.log(1 - success)
            )
            assert abs(mp.mpf(float(law[place])) / exact - 1) < STATED
