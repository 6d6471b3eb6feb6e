"""Lab 8: its oracle against plain enumeration and the product, and every number of its texts."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from importlib.resources import files
from itertools import product

import pytest

from shuffledp_core.mechanisms import KRRHistogram
from shuffledp_labs.lab import CheckFailure
from shuffledp_labs.lab08_theorem import statements
from shuffledp_labs.lab08_theorem.checks import check_witness
from shuffledp_labs.lab08_theorem.exact import (
    Cell,
    delta_of,
    event_probabilities,
    histogram_law,
    worst_case,
)
from shuffledp_labs.lab08_theorem.show import SMALL, cell_at
from shuffledp_privacy.histogram.published import (
    corrected_marginal,
    published_theorem_1,
    weak_adversary_delta,
)

FOLDER = files("shuffledp_labs.lab08_theorem")
HANDOUT, GUIDE = (
    " ".join(FOLDER.joinpath(name).read_text().split()) for name in ("handout.md", "instructor.md")
)
"""Without their line breaks."""

EPSILONS_0 = (1.0, 2.0, 3.0)
SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)


def cell(users: int, symbols: int, epsilon0: float, epsilon: float) -> Cell:
    odds = Fraction(math.exp(epsilon0)).limit_denominator(10**6)
    return (
        users,
        symbols,
        odds / (odds + symbols - 1),
        Fraction(math.exp(epsilon)).limit_denominator(10**6),
    )


@cache
def grid() -> tuple[Cell, ...]:
    sizes = product((3, 4, 5, 6), (2, 3, 4), EPSILONS_0, SHARES)
    return tuple(
        cell(users, symbols, epsilon0, share * epsilon0)
        for users, symbols, epsilon0, share in sizes
    )


def enumerated(symbols: int, p: Fraction, growth: Fraction, others: tuple[int, ...]) -> Fraction:
    """δ by all k^n ordered outputs, each put into its histogram."""
    q = (1 - p) / (symbols - 1)
    laws: list[dict[tuple[int, ...], Fraction]] = [{}, {}]
    for law, changed in zip(laws, (0, 1), strict=True):
        values = (*others, changed)
        for sent in product(range(symbols), repeat=len(values)):
            chance = math.prod(
                (p if one == other else q for one, other in zip(sent, values, strict=True)),
                start=Fraction(1),
            )
            counts = tuple(sent.count(symbol) for symbol in range(symbols))
            law[counts] = law.get(counts, Fraction(0)) + chance
    return sum(
        (max(Fraction(0), laws[0][counts] - growth * laws[1][counts]) for counts in laws[0]),
        Fraction(0),
    )


@pytest.mark.parametrize(
    ("symbols", "others"), [(2, (0, 1, 1)), (3, (0, 0, 2)), (3, (2, 2, 2, 1)), (4, (3, 2, 0, 1))]
)
def test_the_oracle_is_the_plain_enumeration(symbols: int, others: tuple[int, ...]) -> None:
    p, growth = Fraction(3, 5), Fraction(13, 10)
    assert delta_of(symbols, p, growth, others) == enumerated(symbols, p, growth, others)


def test_a_law_sums_to_one_and_an_event_of_everything_has_probability_one() -> None:
    law = histogram_law(3, Fraction(2, 3), (0, 1, 2, 2))
    assert sum(law.values()) == 1
    some = (4, 3, Fraction(2, 3), Fraction(2))
    assert event_probabilities(some, (0, 2, 2, 2), (1, 2, 2, 2), frozenset(law)) == (
        Fraction(1),
        Fraction(1),
    )


def test_the_statements_are_those_of_the_product() -> None:
    for users, symbols, epsilon0, epsilon in (
        (4, 3, 1.0, 0.2),
        (6, 4, 2.0, 1.0),
        (5, 2, 3.0, 0.75),
    ):
        odds, growth = Fraction(math.exp(epsilon0)), Fraction(math.exp(epsilon))
        p = odds / (odds + symbols - 1)
        for at_x0 in range(users):
            asked = (users, at_x0, symbols, epsilon0, epsilon)
            assert float(statements.printed_at(at_x0, users, symbols, p, growth)) == pytest.approx(
                published_theorem_1(*asked), rel=1e-9
            )
            assert float(statements.repaired_at(at_x0, users, symbols, p, growth)) == pytest.approx(
                corrected_marginal(*asked), rel=1e-9
            )
        spec = KRRHistogram(
            symbols=symbols, blanket=(symbols * (1 - p) / (symbols - 1)).limit_denominator(2**60)
        )
        assert float(statements.blanket(users, symbols, p, growth)) == pytest.approx(
            weak_adversary_delta(spec, users, epsilon), rel=1e-6
        )


def test_the_counts_of_false_statements_stand_in_the_handout() -> None:
    def false(statement: statements.Statement, *symbols: int) -> int:
        return sum(worst_case(one)[0] > statement(*one) for one in grid() if one[1] in symbols)

    assert len(grid()) == 180
    locals_, shares = (
        ", ".join(f"{one:g}".removeprefix("0") for one in row) for row in (EPSILONS_0, SHARES)
    )
    assert f"ε0 = {locals_}, and ε = {shares} times ε0" in HANDOUT
    repaired = false(statements.repaired_theorem, 2), false(statements.repaired_theorem, 3, 4)
    assert f"| {repaired[0]} of 60 for k = 2, {repaired[1]} of 120 else |" in HANDOUT
    assert f'third symbol" is false in {false(statements.third_symbol, 3, 4)} of 120 cells' in GUIDE
    assert "98 of 180" not in HANDOUT  # an answer to step A
    assert f"| privacy blanket | {false(statements.blanket, 2, 3, 4)} of 180 |" in HANDOUT
    assert f"n + 1 for n | {false(statements.blanket_of_one_more, 2, 3, 4)} of 180 |" in HANDOUT
    mixed = sum(all(len(set(others)) > 1 for others in worst_case(one)[1]) for one in grid())
    assert f"mixed in {mixed} of the 180 cells" in GUIDE
    assert f"in {mixed} of 180 cells no dataset of equal users" in GUIDE
    assert f"2. {false(statements.printed_theorem, 2, 3, 4)} of 180." in GUIDE


def test_the_deltas_of_the_texts_are_computed() -> None:
    printed, true = statements.printed_theorem(*SMALL), worst_case(SMALL)[0]
    assert f"prints δ = {shown(printed, 4)}" in HANDOUT
    assert f"1. {shown(true, 4)} (printed: {shown(printed, 4)})" in GUIDE
    rungs = cell_at(0.5)
    assert f"prints δ = {shown(statements.printed_at(0, *rungs), 3)}" in HANDOUT
    assert f"repaired gives {shown(statements.repaired_at(0, *rungs), 3)}" in HANDOUT
    assert f"of others there {shown(statements.repaired_theorem(*rungs), 3)}" in HANDOUT
    assert (
        f"has {shown(worst_case(rungs)[0], 3)}, and the blanket certifies "
        f"{shown(statements.blanket(*rungs), 3)}" in HANDOUT
    )
    assert math.comb(5 + 3, 3) == 56
    assert "there are 56." in HANDOUT


def test_the_sample_answers_of_the_guide_are_true() -> None:
    printed, one_bin, whole = (
        statements.printed_theorem(*SMALL),
        statements.repaired_theorem(*SMALL),
        worst_case(SMALL)[0],
    )
    assert printed < one_bin < whole
    assert f"bin of x0 has {shown(one_bin, 4)}, the histogram {shown(whole, 4)}" in GUIDE
    mixed: Cell = (4, 3, Fraction(4, 5), Fraction(97, 20))
    most, others = worst_case(mixed)
    assert others == ((0, 0, 2),)
    assert (
        f"give δ = {shown(most, 4)}, all at 2 only {shown(statements.third_symbol(*mixed), 4)}"
        in GUIDE
    )
    law, other = (histogram_law(3, Fraction(4, 5), (0, 0, 0, changed)) for changed in (0, 1))
    assert law[4, 0, 0] / other[4, 0, 0] == Fraction(8)  # p/q
    true = sum(worst_case(one)[0] == statements.third_symbol(*one) for one in grid() if one[1] > 2)
    assert f"in {true} of 120 cells the third symbol *is* the worst" in GUIDE


def shown(number: Fraction, digits: int) -> str:
    """A probability as the texts write it: without the leading zero."""
    return f"{float(number):.{digits}f}".removeprefix("0")


def test_a_witness_with_its_datasets_exchanged_is_told_so() -> None:
    others = worst_case(SMALL)[1][0]
    datasets = tuple((changed, *others) for changed in (0, 1))
    law, other = (histogram_law(SMALL[1], SMALL[2], values) for values in datasets)
    event = tuple(counts for counts in law if law[counts] > SMALL[3] * other[counts])
    check_witness(statements.printed_theorem, (SMALL,), (SMALL, *datasets, event), "it")
    with pytest.raises(CheckFailure, match="exchange the two datasets"):
        check_witness(
            statements.printed_theorem, (SMALL,), (SMALL, *reversed(datasets), event), "it"
        )
