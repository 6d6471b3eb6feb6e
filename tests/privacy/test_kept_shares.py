"""Clamping at large δ: the shares that are not clamped alone, and one user whose report nobody
else's hides (S6, S6b).

Against the mechanism itself, written out: negative binomials from their definition, clamped
reports, every dataset."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from shuffledp_core.mechanisms import GeoShuffle, SGDLShuffle
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.bounds import Setting, delta_bounds, epsilon_bounds
from shuffledp_privacy.rounds.composition import Round, compose_delta
from shuffledp_privacy.sums.clamping import sgdl_tail
from shuffledp_privacy.sums.kept_shares import KeptShares, kept_shares
from shuffledp_privacy.sums.sgdl import noisy_sum, share_law

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
    ratio, shape, one = math.exp(-rate), 1 / shares, [1.0]
    for j in range(1, REACH + 1):
        one.append(one[-1] * ratio * (shape + j - 1) / j)
    half = np.array(one) * (1 - ratio) ** shape
    return np.convolve(half, half[::-1])


def report(law: Law, value: int, padding: int, top: int) -> Law:
    """Law of value + N moved into -padding..top + padding, counted from -padding."""
    found = np.zeros(top + 2 * padding + 1)
    for m, chance in enumerate(law.tolist()):
        found[min(max(value + m - REACH, -padding), top + padding) + padding] += chance
    return found


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
            one, other = np.convolve(rest, reports[x]), np.convolve(rest, reports[x + distance])
            for p, q in ((one, other), (other, one)):
                worst = max(worst, float(np.maximum(p - math.exp(total) * q, 0).sum()))
    return worst


def told(law: Law, honest: int, padding: int, distance: int, total: float) -> float:
    """What S6b says, flag by flag: Σ_m P(m kept) HS_E(W_m‖W_m+d)."""
    inner = law[REACH - padding : REACH + padding + 1]
    keep = float(inner.sum())
    found, sums = 0.0, np.ones(1)
    for m in range(honest + 1):
        one, other = np.append(sums, np.zeros(distance)), np.append(np.zeros(distance), sums)
        parts = float(np.maximum(one - math.exp(total) * other, 0).sum())
        found += math.comb(honest, m) * keep**m * (1 - keep) ** (honest - m) * parts
        sums = np.convolve(sums, inner / keep)
    return found


def kept(honest: int, shares: int, rate: Fraction, padding: int) -> KeptShares:
    law = share_law(rate, shares)
    assert law is not None
    found = kept_shares(law, padding, honest, sgdl_tail(rate, shares, padding))
    assert found is not None
    return found


@pytest.mark.parametrize(("honest", "shares", "rate", "padding", "top"), CASES)
@pytest.mark.parametrize("metric", [False, True])
def test_kept_shares_cost_what_the_flags_say_and_cover_every_dataset(
    honest: int, shares: int, rate: Fraction, padding: int, top: int, *, metric: bool
) -> None:
    law, found = share(shares, rate), kept(honest, shares, rate, padding)
    for epsilon in (0.0, 0.2, 0.7, 1.6):
        steps = [(d, epsilon * d) for d in range(1, top + 1)] if metric else [(top, epsilon)]
        bound = found.delta(top, epsilon, metric=metric)
        expected = max(told(law, honest, padding, d, total) for d, total in steps)
        assert (
            expected * (1 - 1e-12) <= bound <= expected + 1e-3
        )  # numbers of shares are counted in cells
        every = [(d, epsilon * (d if metric else 1)) for d in range(1, top + 1)]
        assert bound >= max(
            true_delta(law, honest, padding, top, d, total) for d, total in every
        ) * (1 - 1e-12)


@pytest.mark.parametrize(("honest", "shares", "rate", "padding", "top"), CASES)
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_at_a_large_delta_they_are_asked_and_nothing_is_below_the_truth(
    honest: int, shares: int, rate: Fraction, padding: int, top: int, adjacency: Adjacency
) -> None:
    spec = SGDLShuffle(max_value=top, noise_epsilon=rate, shares=shares, padding=padding)
    setting, metric = Setting(honest, honest, adjacency), adjacency is Adjacency.METRIC
    law, better = share(shares, rate), 0
    for delta in (0.02, 0.3, 0.6):
        found = epsilon_bounds(spec, setting, delta)
        totals = [(d, found.certified * (d if metric else 1)) for d in range(1, top + 1)]
        assert max(
            true_delta(law, honest, padding, top, d, total) for d, total in totals
        ) <= delta * (1 + 1e-12)
        assert found.attained <= found.certified
        assert delta_bounds(spec, setting, found.certified).certified <= delta * (1 + 1e-12)
        better += found.certified < noisy_sum(spec, setting).epsilon(delta) * (1 - 1e-4)
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
            found = delta_bounds(spec, Setting(5, 1, adjacency), epsilon)
            whole = max(
                float(np.maximum(law[d:] - math.exp(total) * law[:-d], 0).sum() + law[:d].sum())
                for d, total in steps
            )
            clamped = max(true_delta(law, 1, padding, top, d, total) for d, total in steps)
            assert found.certified == pytest.approx(whole, rel=2e-3)
            assert found.certified >= clamped * (1 - 1e-12)
            assert found.attained <= clamped * (1 + 1e-9)


def test_two_rounds_of_one_honest_user_cost_what_their_noises_do() -> None:
    spec, one = GeoShuffle(max_value=6, epsilon_geo=Fraction(1), padding=1), share(1, Fraction(1))
    found = compose_delta([Round(spec, Setting(1, 1, Adjacency.METRIC), 2)], 0.5)
    worst = 0.0
    for d in range(1, 7):
        p, q = np.append(one, np.zeros(d)), np.append(np.zeros(d), one)
        worst = max(
            worst, float(np.maximum(np.outer(p, p) - math.exp(0.5 * d) * np.outer(q, q), 0).sum())
        )
    assert worst * (1 - 1e-9) <= found <= worst * (1 + 1e-3)
