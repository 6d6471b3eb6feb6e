"""C12 (c): rounds of rr-shuffle at the largest distance cover those at every distance, whoever the
others are."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from composed_delta import compose_delta
from counted_work import count_calls
from numpy.typing import NDArray

from shuffledp_core.mechanisms import GeoShuffle, QuantisedRR, RRShuffle
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.bounds import Setting, certified_curve
from shuffledp_privacy.calibration import calibrate as calibration
from shuffledp_privacy.calibration.calibrate import Target, calibrate
from shuffledp_privacy.rounds.composition import Round, compose_epsilon
from shuffledp_privacy.sums import rr

Floats = NDArray[np.float64]


def bits(zeros: int, ones: int, flip: float) -> Floats:
    law = np.array([1.0])
    for chance in [flip] * zeros + [1 - flip] * ones:
        law = np.convolve(law, [1 - chance, chance])
    return law


def family(total: int, reach: int, zeros: int, flip: float) -> list[Floats]:
    """g_0, ..., g_D of a dataset with so many bits at 0, the changed ones among them.

    Beyond them the tilted laws.
    """
    slope = (1 - 2 * flip) / (flip * (1 - flip) * total)
    laws = [bits(zeros - i, total - zeros + i, flip) for i in range(min(zeros, reach) + 1)]
    for tilts in range(1, reach - zeros + 1):
        odds = flip / (1 - flip) * math.exp(-tilts * slope)
        laws.append(bits(0, total, odds / (1 + odds)))
    return laws


def hockey_stick(first: Floats, second: Floats, epsilon: float) -> float:
    return float(np.maximum(first - math.exp(epsilon) * second, 0.0).sum())


@pytest.mark.parametrize("flip", [0.02, 0.2, 0.45])
@pytest.mark.parametrize("zeros", [1, 2, 3, 4, 9])
def test_each_step_shows_at_least_what_the_one_before_did_at_every_outcome(
    zeros: int, flip: float
) -> None:
    laws = family(9, 4, zeros, flip)
    assert len(laws) == 5
    for before, law, after in zip(laws, laws[1:], laws[2:], strict=False):
        assert (law * law >= before * after * (1 - 1e-12)).all()


@pytest.mark.parametrize("epsilon", [0.02, 0.3, 1.2])
@pytest.mark.parametrize("flip", [0.05, 0.3])
def test_two_rounds_of_different_datasets_show_more_the_farther_the_change(
    flip: float, epsilon: float
) -> None:
    for first, second in itertools.product(range(1, 7), repeat=2):
        one, other = family(7, 4, first, flip), family(6, 4, min(second, 6), flip)
        shown = [
            hockey_stick(
                np.outer(one[0], other[0]).ravel(), np.outer(one[d], other[d]).ravel(), epsilon * d
            )
            for d in range(5)
        ]
        assert all(
            nearer <= farther * (1 + 1e-12) + 1e-15 for nearer, farther in itertools.pairwise(shown)
        )


@pytest.mark.parametrize("flip", [Fraction(1, 20), Fraction(1, 4), Fraction(9, 20)])
def test_the_curve_at_the_largest_distance_is_above_all_ends_of_the_families(
    flip: Fraction,
) -> None:
    total, reach, epsilons = 40, 8, np.array([0.0, 0.2, 0.9, 2.0, 5.0])
    spec, setting = RRShuffle(max_value=reach, randomise=2 * flip), Setting(5, 5, Adjacency.METRIC)
    found = rr.bit_shuffle(spec, setting).farthest(epsilons)
    assert (found >= certified_curve(spec, setting, reach, epsilons) * (1 - 1e-12)).all()
    for zeros in range(1, total + 1):
        laws = family(total, reach, zeros, float(flip))
        for at, epsilon in enumerate(epsilons.tolist()):
            both = (
                hockey_stick(laws[0], laws[-1], epsilon),
                hockey_stick(laws[-1], laws[0], epsilon),
            )
            assert found[at] >= max(both) * (1 - 1e-9) - 1e-15


@pytest.mark.parametrize("randomise", [Fraction(1, 10), Fraction(2, 3)])
@pytest.mark.parametrize("times", [2, 3])
def test_no_dataset_at_any_distance_costs_more_than_what_is_certified(
    randomise: Fraction, times: int
) -> None:
    spec, setting, flip = (
        RRShuffle(max_value=4, randomise=randomise),
        Setting(2, 2, Adjacency.METRIC),
        randomise / 2,
    )
    for delta in (1e-3, 0.05):
        certified = compose_epsilon([Round(spec, setting, times)], delta)
        for distance, ones in itertools.product(range(1, 5), range(8)):
            zeros = 8 - distance - ones
            if zeros < 0:
                continue
            low, high = (
                bits(zeros + distance, ones, float(flip)),
                bits(zeros, ones + distance, float(flip)),
            )
            for p, q in ((low, high), (high, low)):
                joint = p, q
                for _ in range(times - 1):
                    joint = np.outer(joint[0], p).ravel(), np.outer(joint[1], q).ravel()
                assert hockey_stick(*joint, certified * distance) <= delta * (1 + 1e-9)


def test_bits_and_noise_compose_together_at_the_largest_distance() -> None:
    setting = Setting(60, 60, Adjacency.METRIC)
    flips = Round(RRShuffle(max_value=10, randomise=Fraction(1, 3)), setting, 3)
    noise = Round(GeoShuffle(max_value=10, epsilon_geo=Fraction(1, 2), padding=90), setting, 2)
    both = compose_epsilon([flips, noise], 1e-5)
    assert max(compose_epsilon([flips], 1e-5), compose_epsilon([noise], 1e-5)) < both
    assert compose_delta([flips, noise], both) <= 1e-5 * (1 + 1e-3)


@pytest.mark.parametrize("kind", [RRShuffle.kind, QuantisedRR.kind])
def test_many_rounds_per_unit_are_calibrated_closely_with_few_certificates(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    certify = calibration.certified_epsilon_of
    asked = count_calls(monkeypatch, (calibration, "certified_epsilon_of"))
    target = Target(
        0.5, 1e-6, users=400, honest=400, adjacency=Adjacency.METRIC, max_value=12, rounds=100
    )
    spec = calibrate(kind, target)
    assert 0.99 * target.epsilon <= certify(spec, target) <= target.epsilon
    assert len(asked) <= 4
