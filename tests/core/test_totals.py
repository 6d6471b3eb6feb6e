"""Sums of unknown range: random rounding, the cut, and intervals that hold (N11)."""

from __future__ import annotations

import math
from bisect import bisect_left
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from shuffledp_core.answering.estimates import Estimate, Present
from shuffledp_core.answering.estimation import estimate
from shuffledp_core.answering.totals import FieldTotals, totals_of
from shuffledp_core.documents.magnitudes import SymbolMagnitudes
from shuffledp_core.documents.signed import from_json, to_json
from shuffledp_core.documents.wording import QuestionWording
from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import KRRHistogram, NodeHistogram
from shuffledp_core.questions import (
    AmountField,
    CategoryField,
    RangeField,
    RecordSchema,
    counts,
    read_question,
    total,
)
from shuffledp_core.sampling.randomness import RandomIntegers

RATE = Fraction(1, 2)
MEAN = 27
SCHEMA = RecordSchema(
    {
        "spent": AmountField("0.5", parts=2, most=4000, unit="EUR"),
        "country": CategoryField(["DE", "FR"]),
        "age": RangeField([0, 18, 65]),
    }
)


class Draw:
    """Randomness whose next number is given."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.bound = 1

    def below(self, bound: int) -> int:
        self.bound = bound
        return self.number


def mechanism(symbols: int, blanket: Fraction = Fraction(0)) -> NodeHistogram:
    return NodeHistogram(
        symbols=symbols,
        noise_epsilon=RATE,
        mean=MEAN,
        dummies=symbols * MEAN + 200,
        blanket=blanket,
    )


def sum_up_to(cut: float, values: list[float], *, is_cut: bool) -> float:
    """The sum that N11 says the interval covers."""
    return sum(min(value, max(2 * cut - value, 0.0)) if is_cut else value for value in values)


@given(
    parts=st.integers(1, 64),
    doublings=st.integers(3, 40),
    step=st.sampled_from(["1", "0.01", "0.5"]),
)
def test_magnitudes_double_their_distance(parts: int, doublings: int, step: str) -> None:
    size = parts * doublings + 1
    if parts << (doublings - 1) > 10**14:
        with pytest.raises(ValueError, match="not a decimal"):
            SymbolMagnitudes(step="10000", parts=parts, size=size)
        return
    symbols = SymbolMagnitudes(step=step, parts=parts, size=size)
    numbers = [symbols.multiple(at) for at in range(size)]
    gaps = [high - low for low, high in pairwise(numbers)]
    assert numbers[: 2 * parts] == list(range(2 * parts))
    assert all(gap == max(1, 2 ** (at // parts - 1)) for at, gap in enumerate(gaps))
    assert numbers[-1] == parts << (doublings - 1)
    assert symbols.value(size - 1) == numbers[-1] * Decimal(step)


@given(value=st.decimals(0, 5000, places=2), parts=st.integers(1, 5))
def test_rounding_is_exact_on_average(value: Decimal, parts: int) -> None:
    symbols = SymbolMagnitudes(step="0.5", parts=parts, size=12 * parts + 1)
    largest = symbols.value(symbols.size - 1)
    probe = Draw(0)
    first = symbols.locate(f"{value:f}", probe)  # type: ignore[arg-type]
    if value >= largest:
        assert first == symbols.size - 1
        return

    def located(draw: int) -> int:
        return symbols.locate(f"{value:f}", Draw(draw))  # type: ignore[arg-type]

    # Small draws round up and all others down: there can be 51,200 of them.
    low = located(probe.bound - 1)
    ups = bisect_left(range(probe.bound), -low, key=lambda draw: -located(draw))
    for draw in range(0, probe.bound, probe.bound // 4 + 1):
        assert located(draw) == low + (draw < ups)
    share = Fraction(ups, probe.bound)
    above = Fraction(symbols.value(low + 1))
    assert share * above + (1 - share) * Fraction(symbols.value(low)) == Fraction(value)


def test_devices_draw_from_the_operating_system() -> None:
    symbols = SymbolMagnitudes(step="1", parts=2, size=21)
    drawn = [symbols.locate("13") for _ in range(400)]
    ups = drawn.count(symbols.size) + sum(symbols.multiple(at) == 16 for at in drawn)
    assert {symbols.multiple(at) for at in drawn} == {12, 16}
    assert binom.ppf(5e-10, 400, 0.25) <= ups <= binom.isf(5e-10, 400, 0.25)


@pytest.mark.parametrize("answer", ["-1", "-0.001", "secret", "", "1e3"])
def test_no_answer_below_zero_and_no_text(answer: str) -> None:
    with pytest.raises(ValueError, match="expected a number") as refusal:
        SymbolMagnitudes(step="1", parts=2, size=21).locate(answer)
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(
    ("step", "parts", "size"),
    [("0", 2, 21), ("-1", 2, 21), ("1", 0, 21), ("1", 65, 400), ("1", 2, 4), ("1", 2, 82)],
)
def test_malformed_magnitudes_are_refused(step: str, parts: int, size: int) -> None:
    with pytest.raises(ValueError, match=r"step|parts|symbols"):
        SymbolMagnitudes(step=step, parts=parts, size=size)


def test_toml_and_python_describe_one_total() -> None:
    described = read_question(
        'ask = "total"\nof = ["country", "spent"]\n'
        '[fields.spent]\nleast = 0.5\nmost = 4000\nunit = "EUR"\n'
        '[fields.country]\nnames = ["DE", "FR"]'
    )
    written = total(SCHEMA, "country", "spent")
    assert described.wording == written.wording
    assert written.wording.sum_axis == 1
    assert written.wording.text == "What is the sum of spent of the people for each country?"
    assert from_json(to_json(written.wording), QuestionWording) == written.wording
    assert written.locate_record({"country": "FR", "spent": -1}) == written.size - 1
    assert written.locate_record({"country": "DE", "spent": 10**9}) == written.shape[1] - 1


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ('ask = "counts"\nof = "a"\n[fields.a]\nleast = 1', 'ask = "total"'),
        ('ask = "total"\nof = "a"\n[fields.a]\nnames = ["x", "y"]', "with least = 1"),
        ('ask = "total"\nof = ["a", "b"]\n[fields.a]\nleast = 1\n[fields.b]\nleast = 1', "not 2"),
        ('ask = "total"\nof = "a"\n[fields.a]\nleast = 0', "above 0"),
        ('ask = "total"\nof = "a"\n[fields.a]\nleast = 1\nmost = 3', "at least 6 times"),
        ('ask = "total"\nof = "a"\n[fields.a]\nleast = 1\nparts = 0', "1 to 64"),
        ('ask = "total"\nof = "a"\n[fields.a]\nleast = 1\nparts = 1.5', "whole number"),
        ('ask = "total"\nof = "a"\n[fields.a]\nleast = 1\nmost = 1e14', "choose a larger least"),
        ('ask = "total"\nof = "a"\n[fields.a]\nnames = ["x"]\nmost = 1', "belong to least"),
        ('ask = "total"\nof = "a"\n[fields.a]\nleast = "many"', "must be a number such as"),
    ],
)
def test_a_wrong_description_gets_one_helpful_sentence(text: str, remedy: str) -> None:
    with pytest.raises(UsageError) as refusal:
        read_question(text)
    assert remedy in str(refusal.value)
    assert "\n" not in str(refusal.value)


def run_round(
    values: list[float], nodes: int = 1, groups: int = 1, seed: int | None = None
) -> FieldTotals:
    """One round over these amounts, the last of the groups having nothing."""
    names = ("country", "spent") if groups > 1 else ("spent",)
    wording = total(SCHEMA, *names).wording
    spec = mechanism(wording.size)
    rng = np.random.default_rng(seed)
    drawn = [wording.locate_record({"country": "DE", "spent": value}) for value in values]
    board = np.bincount(drawn, minlength=spec.alphabet)
    for _ in range(nodes):
        board = board + spec.counts_of(spec.sample_dummies(RandomIntegers(rng.bytes)))
    answer = estimate(spec, board, len(values), nodes=nodes)
    truth = np.bincount(drawn, minlength=spec.symbols)
    totals = totals_of(spec, answer, wording, Present(Fraction(len(values)), nodes), truth)
    assert totals is not None
    return totals


def test_the_estimate_is_the_sum_on_average_over_rounding() -> None:
    # Expected counts of the rounding in place of drawn ones, and no noise: exact up to doubles.
    wording = total(SCHEMA, "spent").wording
    symbols = wording.axes[0].symbols
    assert isinstance(symbols, SymbolMagnitudes)
    spec = mechanism(wording.size)
    values = [0.25, 3.1, 17.0, 100.0, 210.0, 300.0, 511.0, 700.0]
    people = [900.0] * 6 + [0.25] * 2  # few are above the cut
    expected = np.zeros(wording.size)
    numbers = np.array([float(symbols.value(at)) for at in range(symbols.size)])
    for value, weight in zip(values, people, strict=True):
        low = int(np.searchsorted(numbers, value, "right")) - 1
        share = (value - numbers[low]) / (numbers[low + 1] - numbers[low])
        expected[low] += weight * (1 - share)
        expected[low + 1] += weight * share
    answer = Estimate(
        quantity="histogram",
        values=tuple(expected.tolist()),
        standard_errors=(1.0,) * expected.size,
        lows=(0.0,) * expected.size,
        highs=(1.0,) * expected.size,
    )
    present = Present(Fraction(int(sum(people))), 1)
    totals = totals_of(spec, answer, wording, present)
    assert totals is not None
    assert (totals.cut, totals.is_cut) == (512.0, True)
    sums = [
        weight * sum_up_to(512.0, [value], is_cut=True)
        for value, weight in zip(values, people, strict=True)
    ]
    # The reports are a whole number: half a person is missing from them.
    assert math.isclose(totals.groups[0].value, sum(sums), rel_tol=2e-4)


def test_intervals_contain_the_sum_up_to_the_chosen_cut() -> None:
    rng = np.random.default_rng(11)
    values = [float(value) for value in np.minimum(rng.lognormal(3, 1.2, 400).round(2), 3999)]
    above = covered = 0
    rounds = 60
    cuts = set()
    for at in range(rounds):
        totals = run_round(values, nodes=1 + at % 3)
        group = totals.groups[0]
        expected = sum_up_to(totals.cut, values, is_cut=totals.is_cut)
        covered += group.low <= expected <= group.high
        above += sum(value > 1.5 * totals.cut for value in values) <= totals.beyond
        cuts.add(totals.cut)
        assert group.truth is not None
        assert totals.uncut is not None
        assert group.truth <= totals.uncut
    # Each holds with probability 95% or more: fewer than this are as likely as 1 in 10^9.
    fewest = binom.ppf(1e-9, rounds, 0.95)
    assert covered >= fewest
    assert above >= fewest
    assert len(cuts) > 1  # the cut follows the noise, and the intervals hold all the same


def test_groups_have_sums_of_their_own() -> None:
    totals = run_round([100.0] * 800 + [90.0] * 400, groups=2, seed=5)
    germany, france = totals.groups
    assert (germany.name, france.name) == ("DE", "FR")
    assert germany.low <= 116_000 <= germany.high
    assert france.low == 0.0
    assert france.truth == 0.0
    assert abs(germany.value - 116_000) < 6 * germany.standard_error
    assert totals.to_dict()["groups"][0]["name"] == "DE"


def test_nothing_is_cut_off_where_people_hold_the_largest_numbers() -> None:
    totals = run_round([5000.0] * 300, seed=7)
    assert not totals.is_cut
    assert totals.to_dict()["cut"] is None
    assert totals.beyond == 0.0
    assert totals.groups[0].low <= 300 * totals.cut <= totals.groups[0].high


def test_other_rounds_have_no_sum() -> None:
    wording = total(SCHEMA, "spent").wording
    size = wording.size
    empty = Estimate(
        quantity="histogram", values=(0.0,) * size, standard_errors=(1.0,) * size,
        lows=(0.0,) * size, highs=(0.0,) * size,
    )  # fmt: skip
    present = Present(Fraction(10), 1)
    assert totals_of(mechanism(size), empty, wording, present) is not None
    krr = KRRHistogram(symbols=size, blanket=Fraction(1, 2))
    for spec, words, given_present in (
        (mechanism(size, Fraction(1, 2)), wording, present),
        (krr, wording, Present(Fraction(10))),
        (mechanism(size), None, present),
        (mechanism(size), counts(SCHEMA, "age").wording, present),
    ):
        assert totals_of(spec, empty, words, given_present) is None
