"""The checks of lab 8.

Everything is a rational: a δ is equal or wrong, and a witness is verified by its own event.

Nothing here is random but the instance, so that a correct submission never fails.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any, TypeAlias

from shuffledp_labs.instance import Draws
from shuffledp_labs.lab import Check, CheckAttempt, CheckFailure
from shuffledp_labs.lab08_theorem import statements
from shuffledp_labs.lab08_theorem.exact import Cell, delta_of, event_probabilities, worst_case
from shuffledp_labs.lab08_theorem.statements import Statement
from shuffledp_labs.words import short

Dataset: TypeAlias = tuple[int, Fraction, Fraction, tuple[int, ...]]
"""Symbols, p, e^ε, and what the other users hold."""

CELLS = 5
"""Cells of each statement: one of them is enough to refute it."""

HAIR = Fraction(1, 10**24)
"""By how much of itself a statement may be too small: floats do not see it."""

SECONDS = 120.0
"""For one call: enough to enumerate every output in fractions, on a slow machine."""


def draw_cell(draws: Draws, users: tuple[int, ...], symbols: tuple[int, ...]) -> Cell:
    """Draw a cell with 1 < e^ε < p/q; outside this range δ is 0 or trivial."""
    k = draws.choice(symbols)
    odds = Fraction(draws.integer(5, 40), 2)
    growth = 1 + (odds - 1) * Fraction(draws.integer(1, 19), 20)
    return draws.choice(users), k, odds / (odds + k - 1), growth


def draw_until(draws: Draws, draw: Callable[[Draws], Any], fits: Callable[[Any], bool]) -> Any:
    """Draw until the draw fits.

    Each draw satisfies it with probability above 1/20, so that the limit is never reached.
    """
    for _ in range(5000):
        instance = draw(draws)
        if fits(instance):
            return instance
    raise AssertionError("no instance fits")


def describe_cell(cell: Cell) -> str:
    """A cell in words."""
    users, symbols, p, growth = cell
    return f"users = {users}, symbols = {symbols}, p = {p}, growth = {growth}"


def check_delta(attempt: CheckAttempt) -> str:
    """B: `delta` equals the exact δ of the whole histogram in one direction."""
    datasets = [
        draw_until(attempt.draws, partial(_dataset, symbols=k), _telling) for k in (2, 3, 4, 3, 4)
    ]
    for symbols, p, growth, others in datasets:
        answer = attempt.program.call("delta", symbols, p, growth, others, seconds=SECONDS)
        instance = f"symbols = {symbols}, p = {p}, growth = {growth}, others = {others}"
        _same_delta("delta", answer, delta_of(symbols, p, growth, others), instance)
    return f"{len(datasets)} datasets of 4 to 6 users: equal as rationals"


def _dataset(draws: Draws, symbols: int) -> Dataset:
    users, _, p, growth = draw_cell(draws, (4, 5, 6), (symbols,))
    return symbols, p, growth, tuple(draws.below(symbols) for _ in range(users - 1))


def _telling(dataset: Dataset) -> bool:
    """Return True if the dataset distinguishes the exact δ from common mistakes.

    The other direction has a larger δ, and a single bin another one.
    """
    symbols, p, growth, others = dataset
    swapped = tuple({0: 1, 1: 0}.get(value, value) for value in others)
    exact = delta_of(symbols, p, growth, others)
    one_bin = statements.repaired_at(others.count(0), len(others) + 1, symbols, p, growth)
    return 0 < exact < delta_of(symbols, p, growth, swapped) and (symbols == 2 or exact != one_bin)


def _same_delta(what: str, answer: object, exact: Fraction, instance: str) -> None:
    if isinstance(answer, bool) or not isinstance(answer, (int, Fraction)):
        raise CheckFailure(
            f"{what} must be a Fraction, not {type(answer).__name__} (at {instance}); a float is "
            "not exact, see step B"
        )
    if answer != exact:
        raise CheckFailure(
            f"{what} is off by {_distance(answer, exact)} at {instance}; read steps B and C, and "
            "'Background' for what is published"
        )


def _distance(answer: Fraction | int, exact: Fraction) -> str:
    # A δ is at most 1, and floats end at 1e308: what is further off is not worth a number.
    return "more than 1" if abs(answer - exact) > 1 else f"{float(abs(answer - exact)):.2g}"


def check_worst(attempt: CheckAttempt) -> str:
    """C: `worst` gives the largest δ, and a dataset that attains it."""
    draws = attempt.draws
    cells = [draw_cell(draws, (3, 4, 5), (k,)) for k in (2, 3, 4)]
    # In one cell no dataset of equal users is the worst, in another one not all others at the third
    # symbol.
    cells.append(draw_until(draws, lambda d: draw_cell(d, (4, 5), (3, 4)), _worst_is_mixed))
    unlike: Cell = draw_until(draws, lambda d: draw_cell(d, (4, 5), (3, 4)), _third_is_not_worst)
    cells.append(unlike)
    for cell in draws.permute(cells):
        answer = attempt.program.call("worst", *cell, seconds=SECONDS)
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise CheckFailure(
                f"worst must return (delta, others), not {type(answer).__name__}; at "
                f"{describe_cell(cell)}"
            )
        value, others = answer
        most, _ = worst_case(cell)
        _same_delta("the largest delta", value, most, describe_cell(cell))
        users, symbols, p, growth = cell
        _check_values("others", others, users - 1, symbols)
        if delta_of(symbols, p, growth, others) != most:
            raise CheckFailure(
                "the dataset returned does not attain the largest delta at "
                f"{describe_cell(cell)}; see step C"
            )
    # For the explanation: a cell of the student's own in which the dataset that looks worst is not.
    largest = float(worst_case(unlike)[0])
    third = float(statements.third_symbol(*unlike))
    return (
        f"{len(cells)} cells: the largest delta, attained by the dataset named; at "
        f"{describe_cell(unlike)} it is {largest:.4f}, with all others at a third symbol "
        f"{third:.4f}"
    )


def _worst_is_mixed(cell: Cell) -> bool:
    return all(len(set(others)) > 1 for others in worst_case(cell)[1])


def _third_is_not_worst(cell: Cell) -> bool:
    return statements.third_symbol(*cell) < worst_case(cell)[0]


def _check_values(what: str, values: object, count: int, symbols: int) -> None:
    valid = isinstance(values, tuple) and all(
        type(value) is int and 0 <= value < symbols for value in values
    )
    if not valid or len(values) != count:  # type: ignore[arg-type] # a tuple, by the line above
        raise CheckFailure(
            f"{what} must be {count} whole numbers from 0 to {symbols - 1}, not {short(values)}"
        )


def check_printed(attempt: CheckAttempt) -> str:
    """D: `refute` finds cells in which the printed theorem is false."""
    cells = _cells_where_false(attempt.draws, statements.printed_theorem, (4, 5), (3, 4))
    cell = _check_refuted(attempt, statements.printed_theorem, cells, "Theorem 1 as printed")
    printed, one_bin, exact = (
        float(delta)
        for delta in (
            statements.printed_theorem(*cell),
            statements.best_bin(*cell),
            worst_case(cell)[0],
        )
    )
    return (
        f"refuted, and the witness verified in rationals; at {describe_cell(cell)} the theorem "
        f"prints {printed:.4f}, the best single bin has {one_bin:.4f}, the whole histogram "
        f"{exact:.4f}"
    )


def check_mixed(attempt: CheckAttempt) -> str:
    """D: `refute` judges eight statements in a drawn order, each with drawn cells."""
    statement_list = attempt.draws.permute(_mixture(attempt.draws))
    for number, (statement, cells) in enumerate(statement_list, 1):
        attempt.progress(f"statement {number} of {len(statement_list)}")
        name = f"statement {number} of {len(statement_list)}"
        if any(worst_case(cell)[0] > statement(*cell) for cell in cells):
            _check_refuted(attempt, statement, cells, name)
        else:
            _check_accepted(attempt, statement, cells, name)
    return (
        f"{len(statement_list)} statements, true and false: each answered rightly, each witness "
        "verified"
    )


def _mixture(draws: Draws) -> list[tuple[Statement, tuple[Cell, ...]]]:
    def anywhere(symbols: tuple[int, ...] = (2, 3, 4)) -> tuple[Cell, ...]:
        return tuple(draw_cell(draws, (3, 4, 5), symbols) for _ in range(CELLS))

    needle = anywhere()
    return [
        (
            statements.printed_theorem,
            _cells_where_false(draws, statements.printed_theorem, (4, 5), (2, 3, 4)),
        ),
        (statements.best_bin, _cells_where_false(draws, statements.best_bin, (3, 4), (3, 4))),
        (statements.repaired_theorem, anywhere((2,))),
        (
            statements.third_symbol,
            _cells_where_false(draws, statements.third_symbol, (3, 4, 5), (3, 4)),
        ),
        (statements.blanket, anywhere()),
        (
            statements.blanket_of_one_more,
            _cells_where_false(draws, statements.blanket_of_one_more, (3, 4), (2, 3, 4)),
        ),
        (statements.exact_worst, anywhere()),
        # Never the first cell: who looks at one cell only does not find it.
        (statements.lowered_in_one_cell(draws.choice(needle[1:]), HAIR), needle),
    ]


def _cells_where_false(
    draws: Draws, statement: Statement, users: tuple[int, ...], symbols: tuple[int, ...]
) -> tuple[Cell, ...]:
    """Drawn cells, in the last of which the statement is false."""

    def false(cell: Cell) -> bool:
        return worst_case(cell)[0] > statement(*cell)

    cells = [draw_cell(draws, users, symbols) for _ in range(CELLS - 1)]
    return (*cells, draw_until(draws, lambda d: draw_cell(d, users, symbols), false))


def _restrict_to_cells(statement: Statement, cells: tuple[Cell, ...]) -> Callable[..., Fraction]:
    """The statement as a function for the student's program, defined only on these cells."""

    def ask(*cell: Any) -> Fraction:
        if cell not in cells:
            raise CheckFailure(
                "statement was asked about something that is not a cell of `cells`: call it with "
                "users, symbols, p and growth of one of them (step D)"
            )
        return statement(*cell)

    return ask


def _check_accepted(
    attempt: CheckAttempt, statement: Statement, cells: tuple[Cell, ...], name: str
) -> None:
    answer = attempt.program.call(
        "refute", _restrict_to_cells(statement, cells), cells, seconds=SECONDS
    )
    if answer is not None:
        check_witness(statement, cells, answer, name)


def _check_refuted(
    attempt: CheckAttempt, statement: Statement, cells: tuple[Cell, ...], name: str
) -> Cell:
    """Verify the student's witness against a statement; return its cell."""
    answer = attempt.program.call(
        "refute", _restrict_to_cells(statement, cells), cells, seconds=SECONDS
    )
    if answer is None:
        raise CheckFailure(
            f"{name} is false in at least one of its {len(cells)} cells, and refute returned "
            "None; search every cell and every dataset, look at whole histograms, and compare "
            "rationals (step D)"
        )
    check_witness(statement, cells, answer, name)
    cell: Cell = answer[0]
    return cell


def check_witness(statement: Statement, cells: tuple[Cell, ...], answer: Any, name: str) -> None:
    """Verify a witness by its event alone: P(event) > e^ε P'(event) + δ on neighbours."""
    if not isinstance(answer, tuple) or len(answer) != 4:
        raise CheckFailure(
            f"{name}: refute must return None or (cell, first, second, event); see step D"
        )
    cell, first, second, event = answer
    if cell not in cells:
        raise CheckFailure(
            f"{name}: the cell of the witness is not one of those that were asked about"
        )
    users, symbols, _, growth = cell
    _check_values(f"{name}: the first dataset", first, users, symbols)
    _check_values(f"{name}: the second dataset", second, users, symbols)
    if sum(in_first != in_second for in_first, in_second in zip(first, second, strict=True)) != 1:
        raise CheckFailure(
            f"{name}: the two datasets must differ in exactly one user: {first} and {second}"
        )
    if not isinstance(event, tuple) or not all(_is_histogram(counts) for counts in event):
        raise CheckFailure(
            f"{name}: the event must be a tuple of histograms, each a tuple of counts"
        )
    in_first, in_second = event_probabilities(cell, first, second, frozenset(event))
    promised = statement(*cell)
    if in_first <= growth * in_second + promised:
        if in_second > growth * in_first + promised:
            raise CheckFailure(
                f"{name}: the event is likelier on the second dataset than on the first at "
                f"{describe_cell(cell)}; exchange the two datasets, and it refutes (step D)"
            )
        lacking = float(growth * in_second + promised - in_first)
        raise CheckFailure(
            f"{name}: the witness shows nothing: its event stays {lacking:.2g} within the promise "
            f"at {describe_cell(cell)}; either the statement is true there, or another event "
            "tells more (step D)"
        )


def _is_histogram(counts: object) -> bool:
    return isinstance(counts, tuple) and all(type(count) is int for count in counts)


CHECKS = (
    Check("B-delta", 25, "delta is exact over the whole histogram", check_delta),
    Check(
        "C-worst",
        15,
        "worst finds the largest delta and a dataset that attains it",
        check_worst,
        seconds=300.0,
    ),
    Check("D-printed", 10, "refute refutes the printed theorem", check_printed, seconds=300.0),
    Check(
        "D-mixed",
        25,
        "refute distinguishes true statements from false ones",
        check_mixed,
        seconds=600.0,
    ),
)
