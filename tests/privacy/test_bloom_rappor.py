"""Bloom filters with flipped bits: the certificate against all datasets of small rounds (K17)."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from shuffledp import simulate
from shuffledp_core.errors import CannotCertify
from shuffledp_core.mechanisms import BloomRappor
from shuffledp_core.mechanisms.bloom import MOST_SYMBOLS
from shuffledp_privacy.bounds import (
    Setting,
    certified_curve,
    certified_epsilon,
    corrupted_bounds,
    delta_bounds,
    epsilon_bounds,
    standard_error,
)
from shuffledp_privacy.calibration.calibrate import Target, calibrate

ADULT = Path("/work/shared/data/adult_ints.csv.gz")
Law = dict[tuple[int, ...], float]
Floats = NDArray[np.float64]

SPECS = [
    BloomRappor(symbols=3, bits=2, hashes=1, cohorts=2, fake=Fraction(1, 2)),
    BloomRappor(symbols=3, bits=3, hashes=2, cohorts=1, fake=Fraction(1, 4)),
    BloomRappor(symbols=4, bits=3, hashes=1, cohorts=1, fake=Fraction(3, 4)),
    BloomRappor(symbols=2, bits=3, hashes=2, cohorts=1, fake=Fraction(1, 10)),
]
"""With filters that share bits, are equal, or have fewer bits than hashes."""


def report_law(spec: BloomRappor, value: int) -> dict[int, float]:
    """The law of one report, bit by bit."""
    flip = float(spec.fake) / 2
    law = {}
    for cohort, bits in itertools.product(range(spec.cohorts), range(2**spec.bits)):
        flips = (spec.shape.mask(cohort, value) ^ bits).bit_count()
        chance = flip**flips * (1 - flip) ** (spec.bits - flips)
        law[cohort * 2**spec.bits + bits] = chance / spec.cohorts
    return law


@cache
def boards(spec: BloomRappor, values: tuple[int, ...]) -> Law:
    """The law of the shuffled reports of these users."""
    law: Law = {(): 1.0}
    for value in values:
        grown: defaultdict[tuple[int, ...], float] = defaultdict(float)
        for board, chance in law.items():
            for report, more in report_law(spec, value).items():
                grown[tuple(sorted((*board, report)))] += chance * more
        law = dict(grown)
    return law


def true_delta(spec: BloomRappor, honest: int, epsilon: float) -> float:
    """The largest δ over all datasets and all changes of one value, by enumeration."""
    worst = 0.0
    for others in itertools.combinations_with_replacement(range(spec.symbols), honest - 1):
        for before, after in itertools.permutations(range(spec.symbols), 2):
            first = boards(spec, (before, *others))
            second = boards(spec, (after, *others))
            gaps = (chance - math.exp(epsilon) * second[key] for key, chance in first.items())
            worst = max(worst, math.fsum(max(gap, 0.0) for gap in gaps))
    return worst


@pytest.mark.parametrize("spec", SPECS, ids=repr)
@pytest.mark.parametrize("honest", [1, 2, 3])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 2.5])
def test_the_certificate_covers_every_dataset(
    spec: BloomRappor, honest: int, epsilon: float
) -> None:
    bounds = delta_bounds(spec, Setting(honest, honest), epsilon)
    exact = true_delta(spec, honest, epsilon)
    assert bounds.attained <= exact + 1e-12
    assert exact <= bounds.certified + 1e-12


def test_one_report_of_filters_without_common_bits_costs_exactly_what_is_certified() -> None:
    spec = BloomRappor(symbols=3, bits=6, hashes=1, cohorts=2, fake=Fraction(1, 2))
    for epsilon in (0.0, 0.5, 2.0):
        bounds = delta_bounds(spec, Setting(1, 1), epsilon)
        assert bounds.certified == pytest.approx(true_delta(spec, 1, epsilon), rel=1e-7)


def stop_losses(first: int, second: int, hashes: int, flip: float, growth: float) -> Floats:
    """𝔼(V - t)_+ over many t for two filters of 6 bits, with the blanket of K17."""
    bits = 6
    least = (flip / (1 - flip)) ** hashes
    chances = []
    values = []
    for report in range(2**bits):
        ones = report.bit_count()
        blanket = least * flip**ones * (1 - flip) ** (bits - ones)
        flips = [(mask ^ report).bit_count() for mask in (first, second)]
        laws = [flip**count * (1 - flip) ** (bits - count) for count in flips]
        assert min(laws) >= blanket * (1 - 1e-12)
        chances.append(blanket)
        values.append((laws[0] - growth * laws[1]) / blanket)
    chances.append(1 - sum(chances))
    values.append(0.0)
    at = np.linspace(-60.0, 60.0, 241)[:, np.newaxis]
    return np.asarray((np.maximum(np.array(values) - at, 0.0) * np.array(chances)).sum(axis=1))


@pytest.mark.parametrize("flip", [0.1, 0.3, 0.45])
@pytest.mark.parametrize("growth", [1.0, 1.5, 6.0])
def test_two_filters_without_a_common_bit_are_the_worst_in_convex_order(
    flip: float, growth: float
) -> None:
    hashes = 2
    worst = stop_losses(0b000011, 0b001100, hashes, flip, growth)
    masks = [mask for mask in range(1, 64) if mask.bit_count() <= hashes]
    for first, second in itertools.product(masks, masks):
        losses = stop_losses(first, second, hashes, flip, growth)
        assert np.all(losses <= worst * (1 + 1e-9) + 1e-12)


def test_filters_cohorts_and_symbols_do_not_matter_for_the_certificate() -> None:
    setting = Setting(500, 400)
    found = {
        certified_epsilon(
            BloomRappor(symbols=k, bits=b, hashes=2, cohorts=m, fake=Fraction(1, 3)), setting, 1e-6
        )
        for k, b, m in ((2, 2, 1), (9, 8, 4), (200, 20, 256))
    }
    assert len(found) == 1


@pytest.mark.parametrize("hashes", [1, 2, 3])
def test_the_local_guarantee_is_that_of_all_bits(hashes: int) -> None:
    spec = BloomRappor(symbols=9, bits=24, hashes=hashes, cohorts=8, fake=Fraction(1, 5))
    left = corrupted_bounds(spec, Setting(9, 9), 1e-6)
    assert left.delta == 0
    assert left.epsilon == pytest.approx(2 * hashes * math.log(9), rel=1e-9)
    small = BloomRappor(symbols=3, bits=6, hashes=1, cohorts=2, fake=Fraction(1, 5))
    first, second = (report_law(small, value) for value in (0, 1))
    ratios = [chance / second[report] for report, chance in first.items()]
    assert math.log(max(ratios)) == pytest.approx(2 * math.log(9))


def test_the_curve_is_that_of_a_round_in_both_orders() -> None:
    spec = BloomRappor(symbols=9, bits=8, hashes=1, cohorts=4, fake=Fraction(1, 3))
    setting = Setting(300, 300)
    epsilons = np.array([-0.5, 0.2, 0.7])
    curve = certified_curve(spec, setting, 1, epsilons)
    assert curve[1] == pytest.approx(delta_bounds(spec, setting, 0.2).certified, rel=1e-6)
    reflected = 1 - math.exp(-0.5) * (1 - certified_curve(spec, setting, 1, np.array([0.5]))[0])
    assert curve[0] == pytest.approx(reflected, rel=1e-6)


@pytest.mark.parametrize("users", [1000, 100_000])
def test_a_calibrated_round_is_tight_to_a_third(users: int) -> None:
    spec = calibrate("bloom-rappor", Target(1.0, 1e-6, users, users, symbols=10))
    bounds = epsilon_bounds(spec, Setting(users, users), 1e-6)
    assert 0.75 < bounds.attained <= bounds.certified <= 1.0


def test_filters_that_share_bits_everywhere_attain_nothing() -> None:
    spec = BloomRappor(symbols=5, bits=2, hashes=2, cohorts=1, fake=Fraction(1, 2))
    assert epsilon_bounds(spec, Setting(50, 50), 1e-6).attained == 0
    assert epsilon_bounds(spec, Setting(50, 50), 1e-6).certified > 0


def test_pure_noise_costs_nothing_and_tells_nothing() -> None:
    spec = BloomRappor(symbols=5, bits=8, hashes=1, cohorts=4, fake=Fraction(1))
    bounds = epsilon_bounds(spec, Setting(50, 50), 1e-6)
    assert (bounds.certified, bounds.attained) == (0.0, 0.0)
    assert math.isinf(standard_error(spec, 50))
    crowded = BloomRappor(symbols=5, bits=2, hashes=1, cohorts=1, fake=Fraction(1, 2))
    assert math.isinf(standard_error(crowded, 50))


def test_more_hashes_have_a_larger_error_at_the_same_epsilon() -> None:
    """The table of K17: f for h = 1 and 2 that certifies ε = 1 for 10,000 users, to 1e-4."""
    errors = []
    for hashes, fake in ((1, Fraction(1157, 10_000)), (2, Fraction(3649, 10_000))):
        spec = BloomRappor(symbols=100, bits=22, hashes=hashes, cohorts=256, fake=fake)
        epsilon = certified_epsilon(spec, Setting(10_000, 10_000), 1e-6)
        assert epsilon == pytest.approx(1.0, abs=2e-3)
        errors.append(standard_error(spec, 10_000))
    assert errors == pytest.approx([41.4, 53.5], abs=0.1)


def test_symbols_that_cannot_be_decoded_are_refused() -> None:
    with pytest.raises(CannotCertify, match=f"at most {MOST_SYMBOLS} symbols"):
        calibrate("bloom-rappor", Target(1.0, 1e-6, 1000, 1000, symbols=MOST_SYMBOLS + 1))


@pytest.mark.skipif(not ADULT.exists(), reason="the data set is not on this machine")
def test_hours_of_the_adult_data_are_counted_with_the_stated_error() -> None:
    """Errors beyond 9 standard errors have a probability below 1e-14, for each of 100 counts."""
    hours = np.loadtxt(ADULT, delimiter=",", skiprows=1, usecols=2, dtype=np.int64)
    users = hours.size
    spec = calibrate("bloom-rappor", Target(1.0, 1e-6, users, users, symbols=100))
    answer = simulate(spec, hours, seed=1)
    errors = np.array(answer.estimate.values) - np.bincount(hours, minlength=100)
    assert np.all(np.abs(errors) <= 9 * np.array(answer.estimate.standard_errors))
    assert max(answer.estimate.standard_errors) < standard_error(spec, users)
