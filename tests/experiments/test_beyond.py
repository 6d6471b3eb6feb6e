"""The figures that no paper has: each runs in a quick form, draws its picture, and keeps certified above attained."""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from shuffledp_core.mechanisms import KRRHistogram
from shuffledp_experiments.beyond import ENTRIES
from shuffledp_experiments.beyond.common import both_sides, standard
from shuffledp_experiments.beyond.plans import (
    central_error,
    most_likely,
    shared,
    shares_needed,
    split_and_mix,
    sum_variance,
)
from shuffledp_experiments.entry import Entry, Found, Kind, Row
from shuffledp_privacy.local.flags import Pair

IDS = [entry.id for entry in ENTRIES]


@cache
def quick(name: str) -> Found:
    """One run of each entry, which all tests share."""
    return entry_of(name).run(entry_of(name).work(quick=True))


def entry_of(name: str) -> Entry:
    return next(entry for entry in ENTRIES if entry.id == name)


def value(name: str, series: str, x: float | str) -> float:
    (row,) = [row for row in quick(name).rows if row.series == series and row.x == x]
    return row.y


@pytest.mark.parametrize("name", IDS)
def test_the_verdicts_are_those_that_the_entry_states(name: str) -> None:
    assert {claim.verdict for claim in quick(name).claims} == set(entry_of(name).verdicts)


@pytest.mark.parametrize("name", IDS)
def test_certified_is_nowhere_below_attained(name: str) -> None:
    sides: dict[tuple[object, ...], dict[Kind, Row]] = defaultdict(dict)
    for row in quick(name).rows:
        if row.kind in {Kind.CERTIFIED, Kind.ATTAINED} and not math.isnan(row.y):
            stem = row.series.replace(str(row.kind), "").strip()
            sides[stem, row.x, row.y_name, tuple(sorted(map(str, row.settings.items())))][row.kind] = row
    for pair in sides.values():
        if len(pair) == 2:
            assert pair[Kind.CERTIFIED].y >= pair[Kind.ATTAINED].y


@pytest.mark.parametrize("name", IDS)
def test_a_claim_never_has_certified_below_attained(name: str) -> None:
    for claim in quick(name).claims:
        if claim.certified is not None and claim.attained is not None:
            assert claim.certified >= claim.attained


@pytest.mark.parametrize("name", IDS)
def test_a_picture_is_drawn_of_what_was_found(name: str) -> None:
    figure = entry_of(name).draw(quick(name))
    assert all(axes.has_data() for axes in figure.axes if axes.get_visible() and axes.axison)


def test_one_printed_epsilon_of_each_statement_beside_its_truth() -> None:
    shorts = {row.series.removesuffix(" printed") for row in quick("n1").rows if row.kind is Kind.PRINTED}
    for short in shorts:
        kinds = {row.kind for row in quick("n1").rows if row.series.startswith(f"{short} ")}
        assert kinds == {Kind.PRINTED, Kind.CERTIFIED, Kind.ATTAINED}


def test_theorem_41_fails_where_the_accounting_page_says() -> None:
    assert value("n2", "ε printed", 1) == pytest.approx(0.0665, abs=5e-5)
    for distance, exact in ((1, 0.0290), (10, 0.0396), (100, 0.0542), (1000, 0.1033)):
        assert value("n2", "ε certified", distance) == pytest.approx(exact, abs=6e-5)


def test_a_share_of_noise_is_the_central_noise_and_split_and_mix_has_its_error() -> None:
    # sqrt of the variance of discrete Laplace noise, by summing its law.
    ratio = math.exp(-1.0 / 10)
    law = [(1 - ratio) / (1 + ratio) * ratio ** abs(x) for x in range(-2000, 2001)]
    deviation = math.sqrt(sum(p * x * x for p, x in zip(law, range(-2000, 2001), strict=True)))
    assert central_error(0.1) == pytest.approx(deviation, rel=1e-9)
    assert split_and_mix(10_000, 10, 1.0).error == pytest.approx(deviation, rel=1e-9)


def test_shared_sums_keep_the_epsilon_that_they_are_compared_at() -> None:
    for users, largest, epsilon in ((1000, 10, 1.0), (10_000, 100, 4.0)):
        bounds = both_sides(shared(users, largest, epsilon), standard(users))
        assert epsilon * (1 - 1e-4) < bounds.certified <= epsilon


def test_the_number_of_summands_follows_the_printed_formula() -> None:
    users, largest, epsilon, delta = 10_000, 100, 1.0, 1e-6
    messages, width = shares_needed(users, largest, epsilon, delta)
    security = math.log2((1 + math.e**epsilon) / delta)
    assert (1 + math.e**epsilon) * 2**-security == pytest.approx(delta)
    assert 2**width > 2 * users * largest >= 2 ** (width - 1)
    assert messages - 1 < (2 * security + width) / math.log2(users / math.e) + 2 <= messages


def test_iterative_bayesian_updates_end_at_the_likeliest_shares() -> None:
    counts, blanket = np.array([[70.0, 30.0, 12.0, 2.0], [25.0, 25.0, 25.0, 25.0]]), 0.4
    for row, found in zip(counts, most_likely(counts, blanket), strict=True):
        shares, chances = np.full(4, 0.25), np.full((4, 4), blanket / 4) + np.eye(4) * (1 - blanket)
        for _ in range(20_000):
            shares = shares * (chances @ (row / row.sum() / (shares @ chances)))
        assert found.sum() == pytest.approx(1.0)
        assert found == pytest.approx(shares, abs=1e-4)


def test_the_error_of_a_sum_from_a_histogram_is_that_of_its_definition() -> None:
    spec = KRRHistogram(symbols=3, blanket=Fraction(1, 2))
    chances = np.full((3, 3), 1 / 6) + np.eye(3) / 2
    # An unbiased estimate of x from one report y is (y - (γ) mean)/(1 - γ), with mean 1.
    values = (np.arange(3) - 0.5 * 1.0) / 0.5
    variances = chances @ values**2 - (chances @ values) ** 2
    assert sum_variance(spec) == pytest.approx(variances.mean())


def test_with_nothing_known_the_adversary_sees_a_sum_of_uniform_reports() -> None:
    # Two users, two symbols: the other's report is a fair coin. δ by writing out all outcomes.
    epsilon0, epsilon = 1.0, 0.3
    p, q = math.e / (math.e + 1), 1 / (math.e + 1)
    pair = Pair(np.array([0.5, 0.5]), np.array([p, q]) / 0.5, np.array([q, p]) / 0.5, np.empty((2, 0)), epsilon0)
    first = [q / 2, 0.5, p / 2]  # how many reports are of symbol 0, where the changed user holds 0
    second = [p / 2, 0.5, q / 2]
    exact = sum(max(a - math.exp(epsilon) * b, 0.0) for a, b in zip(first, second, strict=True))
    assert pair.upper(2, epsilon) == pytest.approx(exact, rel=1e-4)


def test_one_honest_node_traces_nobody_and_none_traces_everybody() -> None:
    traced = {row.x: row.y for row in quick("n10").rows if row.series == "traced share"}
    nodes = max(traced)
    assert traced == {count: float(count == nodes) for count in traced}
    assert value("n10", "ε certified", nodes) == pytest.approx(2.0, rel=1e-5)


def test_an_audit_does_not_exceed_what_is_certified() -> None:
    # Each with confidence 1 - 1e-9, and the seed is fixed.
    for row in quick("n11").rows:
        if row.series.endswith(": audited"):
            assert row.y <= value("n11", row.series.replace("audited", "certified"), row.x)


def test_intervals_cover_about_as_often_as_they_promise() -> None:
    for row in quick("n13").rows:
        assert row.low is not None
        assert row.high is not None
        assert row.low <= row.y <= row.high
        assert row.high > 0.95


def test_to_draw_everybody_hides_nobody() -> None:
    secret = value("n14", "who is drawn is secret", 1.0)
    assert secret == pytest.approx(value("n14", "who is drawn is known", 1.0), rel=0.02)


def test_the_clients_sampler_agrees_with_numpys() -> None:
    found = entry_of("n13").run(entry_of("n13").work(quick=True, runs=2, exact_sampler=True))
    assert sum("agree" in note for note in found.notes) == 4
