"""The figures that no paper has: each runs in a quick form, draws its picture, and keeps certified
above attained.

All of them together take half a minute of a processor, so they are among the slow tests. What they
are computed with is tested in `tests/privacy`, and entries of published papers run in the files
beside this one.
"""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from shuffledp_core.answering.estimates import Present
from shuffledp_core.mechanisms import DummyHistogram, KRRHistogram, Mechanism
from shuffledp_core.sampling.arrays import RandomArrays
from shuffledp_core.sampling.randomisers import randomise_in_bulk
from shuffledp_experiments.beyond import ENTRIES
from shuffledp_experiments.beyond.common import DELTA, both_sides, standard
from shuffledp_experiments.beyond.plans import (
    calibrated_spec,
    central_error,
    offers,
    pieces,
    shared,
    sum_variance,
)
from shuffledp_experiments.entry import Experiment, Kind, Results, Row
from shuffledp_privacy.bounds import delta_bounds
from shuffledp_privacy.local.flags import Pair

pytestmark = pytest.mark.slow

IDS = [entry.id for entry in ENTRIES]


@cache
def quick(name: str) -> Results:
    """One run of each entry, which all tests share."""
    return entry_of(name).run(entry_of(name).work(quick=True))


def entry_of(name: str) -> Experiment:
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
            sides[stem, row.x, row.y_name, tuple(sorted(map(str, row.settings.items())))][
                row.kind
            ] = row
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
    shorts = {
        row.series.removesuffix(" printed") for row in quick("n1").rows if row.kind is Kind.PRINTED
    }
    for short in shorts:
        kinds = {row.kind for row in quick("n1").rows if row.series.startswith(f"{short} ")}
        assert kinds == {Kind.PRINTED, Kind.CERTIFIED, Kind.ATTAINED}


def test_theorem_41_fails_where_the_accounting_page_says() -> None:
    assert value("n2", "ε printed", 1) == pytest.approx(0.0665, abs=5e-5)
    for distance, exact in ((1, 0.0290), (10, 0.0396), (100, 0.0542), (1000, 0.1033)):
        assert value("n2", "ε certified", distance) == pytest.approx(exact, abs=6e-5)


def test_central_noise_has_the_error_of_its_law_and_split_mix_next_to_no_more() -> None:
    # sqrt of the variance of discrete Laplace noise, by summing its law.
    ratio = math.exp(-1.0 / 10)
    law = [(1 - ratio) / (1 + ratio) * ratio ** abs(x) for x in range(-2000, 2001)]
    deviation = math.sqrt(sum(p * x * x for p, x in zip(law, range(-2000, 2001), strict=True)))
    assert central_error(0.1) == pytest.approx(deviation, rel=1e-9)
    split = offers(10_000, 10, 1.0)["split-mix"]
    assert 1 <= split.error / deviation < 1.001
    assert (split.messages, split.corrupted < math.inf) == (9, True)


@pytest.mark.parametrize("name", ["n3", "n4", "n5", "n6"])
def test_split_mix_is_computed_as_the_others_are(name: str) -> None:
    """It is one of ours: nothing of it is a printed formula."""
    rows = [row for row in quick(name).rows if row.series.startswith("split-mix")]
    assert rows
    assert {row.kind for row in quick(name).rows} <= {
        Kind.EXACT,
        Kind.MEASURED,
        Kind.CERTIFIED,
        Kind.ATTAINED,
    }
    assert all(math.isfinite(row.y) for row in rows)


def test_what_is_planned_for_missing_users_is_worth_a_share_of_noise_each() -> None:
    """Half of the shares are enough, so the noise of all has twice the variance."""
    errors = {row.x: row.y for row in quick("n5").rows if row.series == "split-mix, planned"}
    assert errors[0.5] / errors[0.0] == pytest.approx(math.sqrt(2), rel=2e-3)


def test_shared_sums_keep_the_epsilon_that_they_are_compared_at() -> None:
    for users, largest, epsilon in ((1000, 10, 1.0), (10_000, 100, 4.0)):
        bounds = both_sides(shared(users, largest, epsilon), standard(users))
        assert epsilon * (1 - 1e-4) < bounds.certified <= epsilon


def test_fewer_pieces_than_the_printed_formula_says_are_certified() -> None:
    for users, largest, epsilon in ((1000, 10, 0.1), (10_000, 100, 1.0)):
        spec = calibrated_spec("split-mix", users, largest, epsilon)
        certified, printed = pieces(users, largest, epsilon)
        assert certified == spec.messages_per_user < printed
        assert both_sides(spec, standard(users)).certified <= epsilon
        # The formula, for as much security as takes next to nothing of δ: (1 + e^ε) 2^-s far below
        # it.
        security = (printed - 2) * math.log2(users / math.e) - math.log2(spec.alphabet)
        assert (1 + math.exp(epsilon)) * 2 ** (-security / 2) < 1e-3 * DELTA


def test_iterative_bayesian_updates_err_no_more_than_inversion() -> None:
    """In the mean of 50 rounds: the likeliest shares use what inversion throws away."""
    for symbols in {row.settings["k"] for row in quick("n3").rows if row.series == "k-RR, IBU"}:
        errors = {row.series: row.y for row in quick("n3").rows if row.settings["k"] == symbols}
        assert errors["k-RR, IBU"] <= 1.05 * errors["k-RR, INV"]


@pytest.mark.parametrize("name", ["krr-histogram", "hadamard-histogram"])
def test_the_errors_of_a_count_are_those_of_whole_rounds(name: str) -> None:
    """Of 200 rounds each; false alarms below 1e-9: 6.5 standard errors of a deviation."""
    symbols, rounds = 1000, 200
    spec = calibrated_spec(name, 10_000, symbols - 1, 1.0)
    deviations = {
        str(row.settings["of"]): row.y
        for row in quick("n12").rows
        if (row.series, row.x) == (NAMES[name], symbols)
    }
    drawn = {
        share: deviation_of_a_count(spec, round(10_000 * share), rounds)
        for share in (0.0, 1 / symbols, 1.0)
    }
    wide = 6.5 / math.sqrt(2 * rounds)
    assert deviations["a symbol that one in k holds"] == pytest.approx(drawn[1 / symbols], rel=wide)
    assert deviations["the symbol that is counted worst"] == pytest.approx(
        max(drawn.values()), rel=wide
    )


NAMES = {"krr-histogram": "k-RR", "hadamard-histogram": "hadamard-histogram"}


def deviation_of_a_count(spec: Mechanism, holders: int, rounds: int) -> float:
    """Of the estimate of symbol 5, which so many of 10,000 hold, the others symbol 6."""
    values = np.repeat([5, 6], [holders, 10_000 - holders])
    arrays = RandomArrays(np.random.default_rng(holders).bytes)
    counts = [
        np.bincount(randomise_in_bulk(spec, values, arrays), minlength=spec.alphabet)
        for _ in range(rounds)
    ]
    present = Present(Fraction(10_000))
    return float(np.std([spec.estimate(row, present).values[5] for row in counts]))


def test_dummies_err_least_without_a_curator_from_ten_symbols_on() -> None:
    worst = "the symbol that is counted worst"
    rows = [row for row in quick("n12").rows if row.settings["of"] == worst and row.x in (10, 1000)]
    assert rows
    for symbols in {row.x for row in rows}:
        errors = {row.series: row.y for row in rows if row.x == symbols}
        dummies = errors.pop("dummy-histogram")
        nodes = errors.pop("node-histogram")
        # Three nodes' noise, each of which is that of a trusted party.
        assert nodes == pytest.approx(3**0.5 * errors["discrete Laplace, central"], rel=1e-2)
        assert nodes < dummies < 7
        assert all(dummies < error for name, error in errors.items() if "central" not in name)


def test_hadamard_response_is_cheaper_for_the_worst_symbol_of_many_only() -> None:
    notes = quick("n12").notes
    assert any(
        "counted worst" in note and "errs less than k-RR from k = 1000 on" in note for note in notes
    )
    assert any(
        "one in k" in note and "errs less than k-RR nowhere up to k = 1000" in note
        for note in notes
    )


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
    pair = Pair(
        np.array([0.5, 0.5]),
        np.array([p, q]) / 0.5,
        np.array([q, p]) / 0.5,
        np.empty((2, 0)),
        epsilon0,
    )
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
    result = entry_of("n13").run(entry_of("n13").work(quick=True, runs=2, exact_sampler=True))
    assert sum("agree" in note for note in result.notes) == 4


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 0.8, 1.5])
def test_dummies_of_hashed_symbols_hide_at_least_as_much_as_those_of_as_many_cells(
    epsilon: float,
) -> None:
    """Messages that agree with the old value alone, with the new one alone, and with both."""
    cells, slots, users, fill = 3, 2, 3, Fraction(2, 3)
    alone, both = (cells - 1) / cells**2, 1 / cells**2
    dummies: dict[tuple[int, int, int], float] = {(0, 0, 0): 1.0}
    for _ in range(slots * users):
        dummies = add_message(dummies, float(fill) * alone, float(fill) * alone, float(fill) * both)
    before = add_message(dummies, 1 - 1 / cells, 0.0, 1 / cells)
    after = add_message(dummies, 0.0, 1 - 1 / cells, 1 / cells)
    exact = sum(max(0.0, p - math.exp(epsilon) * after.get(y, 0.0)) for y, p in before.items())
    spec = DummyHistogram(symbols=cells, slots=slots, fill=fill)
    assert 0 < exact <= delta_bounds(spec, standard(users), epsilon).certified


def add_message(
    law: dict[tuple[int, int, int], float], *chances: float
) -> dict[tuple[int, int, int], float]:
    """The law of three counts after one more message, which may be in none of them."""
    after: dict[tuple[int, int, int], float] = defaultdict(float)
    for (a, b, c), mass in law.items():
        after[a, b, c] += mass * max(0.0, 1 - sum(chances))
        after[a + 1, b, c] += mass * chances[0]
        after[a, b + 1, c] += mass * chances[1]
        after[a, b, c + 1] += mass * chances[2]
    return after


def test_published_formulas_ask_for_more_dummies_than_are_needed() -> None:
    errors = {
        row.series: row.y
        for row in quick("n17").rows
        if row.x == 10_000 and row.y_name.startswith("standard error")
    }
    assert errors["node-histogram, 3 nodes"] < errors["dummy-histogram"]
    assert 3 * errors["dummy-histogram"] < errors["Luo, Wang, Yi 2022"]
    assert errors["Luo, Wang, Yi 2022"] == pytest.approx((32 * math.log(2e6)) ** 0.5)
    program = errors["Luo, Wang, Yi 2022, their program"]
    assert errors["dummy-histogram"] < program < errors["Luo, Wang, Yi 2022"] / 2
    assert errors["Luo, Wang, Yi 2022"] < errors["Balcer, Cheu 2020"] < errors["k-RR"]


def test_texts_of_a_hundredth_of_the_people_are_found_and_sampling_misses_them() -> None:
    rows = quick("n18").rows
    listed = {(row.series[:6], row.x): row.y for row in rows if row.y_name.startswith("prob")}
    # A text is missed with probability 5% at most: of 200 more than 50 are once in 1e20 runs.
    assert listed["hashed", 100] > 0.75
    assert listed["hashed", 50] < listed["hashed", 100]
    assert listed["Nebula", 100] < 0.5
