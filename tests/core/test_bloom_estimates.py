"""Counts decoded from Bloom filters: unbiased, with the stated variance, intervals that cover."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from shuffledp_core.answering.bloom import FilterShape, decoder_of
from shuffledp_core.answering.estimation import estimate
from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import BloomRappor
from shuffledp_core.sampling.arrays import RandomArrays
from shuffledp_core.sampling.randomisers import randomise_in_bulk

SPECS = [
    BloomRappor(symbols=3, bits=4, hashes=2, cohorts=4, fake=Fraction(1, 2)),
    BloomRappor(symbols=6, bits=5, hashes=2, cohorts=3, fake=Fraction(1, 10)),
    BloomRappor(symbols=2, bits=6, hashes=3, cohorts=2, fake=Fraction(9, 10)),
]


def chances(spec: BloomRappor, value: int) -> NDArray[np.float64]:
    """The probability of every report of a user who holds `value`."""
    flip = float(spec.fake) / 2
    law = []
    for cohort, bits in itertools.product(range(spec.cohorts), range(2**spec.bits)):
        flips = (spec.shape.mask(cohort, value) ^ bits).bit_count()
        law.append(flip**flips * (1 - flip) ** (spec.bits - flips) / spec.cohorts)
    return np.array(law)


def scores(spec: BloomRappor) -> NDArray[np.float64]:
    """What each single report adds to the estimates, shape (reports, symbols)."""
    rows = []
    for report in range(spec.alphabet):
        counts = spec.counts_of(np.array([report])).tolist()
        rows.append(estimate(spec, counts, 1).values)
    return np.array(rows)


def test_a_filter_is_made_of_the_documented_hashes() -> None:
    # printf 'shuffledp/v1/bloom/1/0/2' | sha256sum begins with 5ade5e6a1b2ac1cf, and with 1/1/2 for
    # the second hash with 50eecb8ef6a0b8de: 15 and 14 modulo 16.
    shape = FilterShape(symbols=3, bits=16, hashes=2, cohorts=2)
    assert shape.mask(1, 2) == 1 << 15 | 1 << 14
    assert shape.masks.tolist()[1][2] == shape.mask(1, 2)


@pytest.mark.parametrize("spec", SPECS, ids=repr)
def test_a_report_counts_once_for_its_symbol_and_on_average_not_for_others(
    spec: BloomRappor,
) -> None:
    single = scores(spec)
    means = np.array([chances(spec, value) @ single for value in range(spec.symbols)])
    assert means == pytest.approx(np.eye(spec.symbols), abs=1e-9)


@pytest.mark.parametrize("spec", SPECS, ids=repr)
def test_variances_and_bounds_are_those_of_all_reports(spec: BloomRappor) -> None:
    single = scores(spec)
    decoder = decoder_of(spec.shape, spec.flip)
    for value in range(spec.symbols):
        law = chances(spec, value)
        variances = law @ single**2 - (law @ single) ** 2
        assert decoder.variances[:, value] == pytest.approx(variances, rel=1e-9)
    assert decoder.highest == pytest.approx(single.max(axis=0), rel=1e-9)
    assert decoder.lowest == pytest.approx(single.min(axis=0), rel=1e-9)


@pytest.mark.parametrize("spec", SPECS, ids=repr)
def test_estimates_add_up_over_reports(spec: BloomRappor) -> None:
    reports = np.random.default_rng(4).integers(0, spec.alphabet, 30)
    whole = estimate(spec, spec.counts_of(reports).tolist(), 30).values
    assert whole == pytest.approx(scores(spec)[reports].sum(axis=0), rel=1e-9, abs=1e-9)


def test_no_wider_deviation_has_a_probability_above_its_share() -> None:
    """The radius against the exact law of the score of users who hold the worst symbol.

    The sum of n scores is convolved on a grid that moves each score outward.
    """
    spec, users, step = SPECS[-1], 400, 0.01
    single = scores(spec)
    decoder = decoder_of(spec.shape, spec.flip)
    symbol, value = np.unravel_index(decoder.variances.argmax(), decoder.variances.shape)
    centred = single[:, symbol] - (symbol == value)
    cells = np.ceil(centred / step).astype(int)
    law = np.bincount(cells - cells.min(), weights=chances(spec, int(value)))
    size = 1 << (law.size * users).bit_length()
    summed = np.fft.irfft(np.fft.rfft(law, size) ** users, size)
    errors = (np.arange(size) + users * cells.min()) * step
    answer = estimate(spec, spec.counts_of(np.arange(users) % spec.alphabet).tolist(), users)
    below = min(answer.values[symbol] - answer.lows[symbol], users)
    radius = decoder.radii(users, decoder.highest)[symbol]
    assert below <= radius
    # 400 grid steps at most are added to the sum.
    tail = summed[errors >= radius + users * step].sum()
    assert 1e-6 < tail <= 0.025


@pytest.mark.parametrize("holders", [0, 700])
def test_intervals_cover(holders: int) -> None:
    """Of 400 rounds of 2,000 users more misses than expected of 5% are a fault.

    False alarms have a probability below 1e-9.
    """
    spec = BloomRappor(symbols=12, bits=8, hashes=2, cohorts=16, fake=Fraction(1, 3))
    users, rounds = 2000, 400
    values = np.arange(users) % 11 + 1
    values[:holders] = 0
    answers = randomise_in_bulk(spec, np.tile(values, (rounds, 1)), RandomArrays())
    truth = int((values == 0).sum())
    misses = 0
    for counts in spec.count(answers):
        answer = estimate(spec, counts.tolist(), users)
        misses += not answer.lows[0] <= truth <= answer.highs[0]
        assert answer.highs[0] - answer.lows[0] < 8 * answer.standard_errors[0] + 8
    assert misses <= binom.isf(1e-9, rounds, 0.05)


def test_the_standard_error_is_that_of_many_rounds() -> None:
    """Mean and variance of 2,000 rounds, each within 8 deviations of a normal law's.

    False alarms have a probability below 1e-9: that a chi-square of 2,000 degrees is so far away
    has one of exp(-1000 (x - ln(1 + x))) = 1e-12 with x = 8 sqrt(2 / 2000).
    """
    spec = BloomRappor(symbols=5, bits=8, hashes=1, cohorts=8, fake=Fraction(1, 3))
    users, rounds = 300, 2000
    values = np.arange(users) % 5
    answers = randomise_in_bulk(spec, np.tile(values, (rounds, 1)), RandomArrays())
    found = np.array(
        [estimate(spec, counts.tolist(), users).values for counts in spec.count(answers)]
    )
    variances = decoder_of(spec.shape, spec.flip).variances.mean(axis=1) * users
    spread = math.sqrt(2 / rounds)
    assert found.var(axis=0) == pytest.approx(variances, rel=8 * spread)
    assert found.mean(axis=0) == pytest.approx(
        np.full(5, 60.0), abs=8 * math.sqrt(variances.max() / rounds)
    )


def test_filters_that_do_not_distinguish_the_symbols_are_refused() -> None:
    spec = BloomRappor(symbols=9, bits=4, hashes=1, cohorts=2, fake=Fraction(1, 2))
    with pytest.raises(UsageError, match="do not distinguish 9 symbols; take more cohorts"):
        estimate(spec, spec.counts_of(np.array([0])).tolist(), 1)


@pytest.mark.parametrize(
    "changes",
    [
        {"symbols": 513},
        {"bits": 1},
        {"bits": 25},
        {"hashes": 0},
        {"hashes": 9},
        {"cohorts": 0},
        {"cohorts": 257},
        {"bits": 24, "cohorts": 65},
        {"fake": Fraction(0)},
        {"fake": Fraction(3, 2)},
    ],
)
def test_parameters_outside_their_ranges_are_refused(changes: dict[str, object]) -> None:
    fields: dict[str, object] = {
        "symbols": 9, "bits": 22, "hashes": 1, "cohorts": 256, "fake": Fraction(1, 2)
    }  # fmt: skip
    BloomRappor(**fields)  # type: ignore[arg-type]
    with pytest.raises(UsageError):
        BloomRappor(**(fields | changes))  # type: ignore[arg-type]


def test_other_reports_are_not_encoded() -> None:
    spec = SPECS[0]
    assert spec.encode(spec.alphabet - 1) == [spec.alphabet - 1]
    with pytest.raises(ValueError, match="a report must be from 0"):
        spec.encode(spec.alphabet)
