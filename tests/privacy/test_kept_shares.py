"""Clamping of shares: those that are not clamped alone, and one user whose report nobody else's
hides (S6, S6b).

Against the mechanism itself, written out: negative binomials from their definition, clamped
reports, every dataset."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from composed_delta import compose_delta
from numpy.typing import NDArray

from shuffledp_core.mechanisms import GeoShuffle, SGDLShuffle
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.bounds import Setting, delta_bounds, epsilon_bounds
from shuffledp_privacy.calibration.calibrate import calibrate
from shuffledp_privacy.calibration.target import Target
from shuffledp_privacy.primitives.even_sums import EvenSum, tabulate_even_sum
from shuffledp_privacy.rounds.composition import Round, compose_epsilon
from shuffledp_privacy.sums.clamping import sgdl_tail
from shuffledp_privacy.sums.kept_shares import KeptShares, kept_shares
from shuffledp_privacy.sums.sgdl import honest_noise, local_total, noisy_sum, share_law
from shuffledp_privacy.sums.worst import worst_epsilon

Law = NDArray[np.float64]
REACH = 200
CASES = (
    (2, 2, Fraction(1), 2, 3),
    (3, 3, Fraction(9, 4), 1, 2),
    (2, 5, Fraction(3, 4), 3, 2),
    (4, 3, Fraction(2), 1, 1),
)
"""Honest users, shares, ε of a whole noise, padding, largest value."""


def share(shares: int, rate: Fraction) -> Law:
    """P(A - B = m), m from -REACH to REACH: terms (1-φ)^r φ^j r(r+1)...(r+j-1)/j!, summed over all
    pairs."""
    ratio, shape, weights = math.exp(-rate), 1 / shares, [1.0]
    for j in range(1, REACH + 1):
        weights.append(weights[-1] * ratio * (shape + j - 1) / j)
    half = np.array(weights) * (1 - ratio) ** shape
    return np.convolve(half, half[::-1])


def report(law: Law, value: int, padding: int, top: int) -> Law:
    """Law of value + N moved into -padding..top + padding, counted from -padding."""
    chances = np.zeros(top + 2 * padding + 1)
    for m, chance in enumerate(law.tolist()):
        chances[min(max(value + m - REACH, -padding), top + padding) + padding] += chance
    return chances


def true_delta(law: Law, honest: int, padding: int, top: int, distance: int, total: float) -> float:
    """The largest Σ (P - e^E Q)_+ over every dataset and every change by `distance`, in both
    orders."""
    reports = [report(law, value, padding, top) for value in range(top + 1)]
    worst = 0.0
    for others in itertools.combinations_with_replacement(range(top + 1), honest - 1):
        rest = np.ones(1)
        for value in others:
            rest = np.convolve(rest, reports[value])
        for x in range(top + 1 - distance):
            first, second = np.convolve(rest, reports[x]), np.convolve(rest, reports[x + distance])
            for p, q in ((first, second), (second, first)):
                worst = max(worst, float(np.maximum(p - math.exp(total) * q, 0).sum()))
    return worst


def flagged_delta(law: Law, honest: int, padding: int, distance: int, total: float) -> float:
    """What S6b says, flag by flag: Σ_m P(m kept) HS_E(W_m‖W_m+d)."""
    inner = law[REACH - padding : REACH + padding + 1]
    keep = float(inner.sum())
    delta, sums = 0.0, np.ones(1)
    for m in range(honest + 1):
        first, second = np.append(sums, np.zeros(distance)), np.append(np.zeros(distance), sums)
        parts = float(np.maximum(first - math.exp(total) * second, 0).sum())
        delta += math.comb(honest, m) * keep**m * (1 - keep) ** (honest - m) * parts
        sums = np.convolve(sums, inner / keep)
    return delta


def kept_law(honest: int, shares: int, rate: Fraction, padding: int) -> KeptShares:
    law = share_law(rate, shares)
    assert law is not None
    law_left = kept_shares(
        law,
        padding,
        honest,
        sgdl_tail(rate, shares, padding),
        unclamped=honest_noise(rate, shares, honest),
        local=partial(local_total, rate, shares),
        farthest=3,
    )
    assert law_left is not None
    return law_left


@pytest.mark.parametrize(("honest", "shares", "rate", "padding", "top"), CASES)
@pytest.mark.parametrize("metric", [False, True])
def test_kept_shares_cost_what_the_flags_say_and_cover_every_dataset(
    honest: int, shares: int, rate: Fraction, padding: int, top: int, *, metric: bool
) -> None:
    law, noise = share(shares, rate), kept_law(honest, shares, rate, padding)
    for epsilon in (0.0, 0.2, 0.7, 1.6):
        steps = [(d, epsilon * d) for d in range(1, top + 1)] if metric else [(top, epsilon)]
        bound = max(
            float(noise.divergence(np.array([d]), np.array([total]))[0][0]) for d, total in steps
        )
        expected = max(flagged_delta(law, honest, padding, d, total) for d, total in steps)
        assert (
            expected * (1 - 1e-12) <= bound <= expected + 1e-3
        )  # numbers of shares are counted in cells
        every = [(d, epsilon * (d if metric else 1)) for d in range(1, top + 1)]
        assert bound >= max(
            true_delta(law, honest, padding, top, d, total) for d, total in every
        ) * (1 - 1e-12)


@pytest.mark.parametrize(("honest", "shares", "rate", "padding", "top"), CASES)
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_kept_shares_are_asked_and_nothing_is_below_the_truth(
    honest: int, shares: int, rate: Fraction, padding: int, top: int, adjacency: Adjacency
) -> None:
    spec = SGDLShuffle(max_value=top, noise_epsilon=rate, shares=shares, padding=padding)
    setting, metric = Setting(honest, honest, adjacency), adjacency is Adjacency.METRIC
    law, better = share(shares, rate), 0
    for delta in (0.02, 0.3, 0.6):
        bounds = epsilon_bounds(spec, setting, delta)
        totals = [(d, bounds.certified * (d if metric else 1)) for d in range(1, top + 1)]
        assert max(
            true_delta(law, honest, padding, top, d, total) for d, total in totals
        ) <= delta * (1 + 1e-12)
        assert bounds.attained <= bounds.certified
        assert delta_bounds(spec, setting, bounds.certified).certified <= delta * (1 + 1e-12)
        coupled = worst_epsilon(replace(noisy_sum(spec, setting), kept=None), delta)
        better += bounds.certified < coupled * (1 - 1e-4)
    assert better


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("padding", [0, 2])
def test_one_honest_user_pays_nothing_for_clamping(padding: int, adjacency: Adjacency) -> None:
    """The report is a function of x + N.

    What it costs is at most the noise's, and no less than the clamped law's.
    """
    rate, top, law = Fraction(3, 4), 3, share(1, Fraction(3, 4))
    metric = adjacency is Adjacency.METRIC
    for spec in (
        GeoShuffle(max_value=top, epsilon_geo=rate, padding=padding),
        SGDLShuffle(max_value=top, noise_epsilon=rate, shares=1, padding=padding),
    ):
        for epsilon in (0.1, 0.5):
            steps = [(d, epsilon * (d if metric else 1)) for d in range(1, top + 1)]
            bounds = delta_bounds(spec, Setting(5, 1, adjacency), epsilon)
            unclamped = max(
                float(np.maximum(law[d:] - math.exp(total) * law[:-d], 0).sum() + law[:d].sum())
                for d, total in steps
            )
            clamped = max(true_delta(law, 1, padding, top, d, total) for d, total in steps)
            assert bounds.certified == pytest.approx(unclamped, rel=2e-3)
            assert bounds.certified >= clamped * (1 - 1e-12)
            assert bounds.attained <= clamped * (1 + 1e-9)


def test_two_rounds_of_one_honest_user_cost_what_their_noises_do() -> None:
    spec, noise = GeoShuffle(max_value=6, epsilon_geo=Fraction(1), padding=1), share(1, Fraction(1))
    bound = compose_delta([Round(spec, Setting(1, 1, Adjacency.METRIC), 2)], 0.5)
    worst = 0.0
    for d in range(1, 7):
        p, q = np.append(noise, np.zeros(d)), np.append(np.zeros(d), noise)
        worst = max(
            worst, float(np.maximum(np.outer(p, p) - math.exp(0.5 * d) * np.outer(q, q), 0).sum())
        )
    assert worst * (1 - 1e-9) <= bound <= worst * (1 + 1e-3)


@pytest.mark.parametrize(("count", "padding"), [(3, 0), (5, 1), (40, 6), (200, 15)])
def test_a_table_of_a_sum_is_that_of_its_convolutions(count: int, padding: int) -> None:
    """The law by repeated convolution, which adds only positive terms."""
    half = share(count, Fraction(1, 3))[REACH : REACH + padding + 1]
    half /= 2 * half.sum() - half[0]
    weights = np.concatenate([half[:0:-1], half])
    law = np.ones(1)
    for _ in range(count):
        law = np.convolve(law, weights)
    table = tabulate_even_sum(EvenSum(half, 0.0, count, 1 / 3), 4)
    assert table is not None
    for distance in (1, 4):
        first = np.append(law, np.zeros(distance))
        second = np.append(np.zeros(distance), law)
        for epsilon in (0.0, 0.3, 1.0, 1.4, 5.0):
            exact = float(np.maximum(first - math.exp(epsilon) * second, 0).sum())
            bound = float(table.divergence(distance, np.array([epsilon]))[0])
            assert exact * (1 - 1e-12) <= bound
            # The factor is how far errors of ln P move a difference of nearly equal numbers.
            assert bound <= exact * (1 + 1e-4) + 1e-8


# Drawn by `make fuzz-rechecks`: pieces of the table end at the widest tilt, beyond which no tilt
# bounds the sum.
@pytest.mark.parametrize(
    ("spec", "honest", "adjacency", "delta"),
    [
        (
            SGDLShuffle(
                max_value=16570,
                noise_epsilon=Fraction(9131004885, 2**32),
                shares=8948,
                padding=34,
            ),
            36,
            Adjacency.METRIC,
            2.4e-9,
        ),
        (
            SGDLShuffle(
                max_value=105139, noise_epsilon=Fraction(2228903465, 2**32), shares=1, padding=134
            ),
            2,
            Adjacency.STANDARD,
            3.8e-7,
        ),
    ],
)
def test_where_no_tilt_bounds_a_sum_its_support_does(
    spec: SGDLShuffle, honest: int, adjacency: Adjacency, delta: float
) -> None:
    bounds = epsilon_bounds(spec, Setting(honest, honest, adjacency), delta)
    assert 0 <= bounds.attained <= bounds.certified < math.inf


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_a_smaller_delta_than_the_plan_was_made_for_is_no_cliff(adjacency: Adjacency) -> None:
    """Padding that is short by a factor of the δ asked costs little, not the local guarantee."""
    units = 20 if adjacency is Adjacency.METRIC else 1
    target = Target(
        epsilon=4 / units if units > 1 else 1.0,
        delta=1e-6,
        users=1000,
        honest=950,
        adjacency=adjacency,
        max_value=20,
    )
    spec = calibrate("sgdl-shuffle", target)
    assert isinstance(spec, SGDLShuffle)
    setting = Setting(1000, 950, adjacency, 20)
    for delta in (3e-7, 1e-8, 1e-10):
        bounds = epsilon_bounds(spec, setting, delta)
        assert bounds.attained <= bounds.certified <= 1.06 * bounds.attained


def test_many_rounds_of_short_padding_cost_no_more_than_they_add_up_to() -> None:
    """S6 alone certified 7055 per unit for these thousand rounds, 7.06 for each."""
    target = Target(
        epsilon=0.2,
        delta=1e-6,
        users=1000,
        honest=950,
        adjacency=Adjacency.METRIC,
        max_value=20,
    )
    spec = calibrate("sgdl-shuffle", target)
    setting = Setting(1000, 950, Adjacency.METRIC, 20)
    for times in (10, 1000):
        together = compose_epsilon([Round(spec, setting, times)], 1e-6)
        alone = epsilon_bounds(spec, setting, 1e-6 / times).certified
        assert together <= times * alone
        # The Laplace noise of the whole crowd, unclamped, at the largest change.
        scale = 4.0
        mean = scale + math.expm1(-scale)
        assert together >= times * mean / 20 / 1.01


@pytest.mark.parametrize(("honest", "shares", "rate", "padding", "top"), CASES[:2])
def test_two_rounds_of_clamped_shares_stay_below_their_certificate(
    honest: int, shares: int, rate: Fraction, padding: int, top: int
) -> None:
    """Against the product of two rounds' exact laws, on every dataset whose others are alike."""
    spec = SGDLShuffle(max_value=top, noise_epsilon=rate, shares=shares, padding=padding)
    law, setting = share(shares, rate), Setting(honest, honest, Adjacency.METRIC)
    reports = [report(law, value, padding, top) for value in range(top + 1)]
    for epsilon in (0.3, 0.8):
        bound = compose_delta([Round(spec, setting, 2)], epsilon)
        for other, d in itertools.product(range(top + 1), range(1, top + 1)):
            rest = np.ones(1)
            for _ in range(honest - 1):
                rest = np.convolve(rest, reports[other])
            p, q = np.convolve(rest, reports[0]), np.convolve(rest, reports[d])
            both = np.outer(p, p) - math.exp(epsilon * d) * np.outer(q, q)
            assert float(np.maximum(both, 0).sum()) <= bound * (1 + 1e-9)
