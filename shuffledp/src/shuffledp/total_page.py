"""Sums of a field of unknown range as HTML and as text. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from rich import box
from rich.markup import escape
from rich.table import Table

from shuffledp.pages import as_html
from shuffledp_core.answering.totals import FieldTotals, TotalEstimate
from shuffledp_core.documents.magnitudes import SymbolMagnitudes
from shuffledp_core.documents.wording import QuestionWording

MOST_ROWS: Final = 200
"""Groups that a page shows; `report.json` has all."""


def amount(totals: FieldTotals, number: float) -> str:
    """Format a sum with its unit, with as many digits as its error justifies."""
    spread = max((group.standard_error for group in totals.groups), default=0.0)
    digits = 0 if spread >= 10 else 2 - math.floor(math.log10(spread)) if spread > 0 else 2
    return f"{number:,.{min(max(digits, 0), 9)}f} {totals.unit}".rstrip()


def in_a_sentence(totals: FieldTotals) -> str:
    """The sum, or the largest of the groups' sums, with its interval, as HTML."""
    group = max(totals.groups, key=lambda total: total.value)
    numbers = (group.value, group.low, group.high)
    value, low, high = (as_html(amount(totals, number)) for number in numbers)
    of = f"Largest sum, {as_html(group.name)}" if group.name else "Sum"
    if totals.is_cut:
        of += as_html(f" of values up to {totals.cut:,.12g} {totals.unit}".rstrip())
    words = f"{of}: <strong>{value}</strong> (95% interval {low} to {high})."
    if totals.is_cut:
        words += f" At most {totals.beyond:,.0f} people have a larger value."
    return words


def html_table(totals: FieldTotals) -> Iterator[str]:
    """The groups' sums as HTML; empty without groups."""
    if len(totals.groups) < 2:
        return
    headings = ["group", "sum", "95% interval"]
    if totals.groups[0].truth is not None:
        headings.append("true")
    cells = "".join(f'<th scope="col">{heading}</th>' for heading in headings)
    yield f'<table class="numbers"><thead><tr>{cells}</tr></thead><tbody>'
    for group in totals.groups[:MOST_ROWS]:
        name, *data = (as_html(words) for words in _row(totals, group))
        rest = "".join(f"<td>{words}</td>" for words in data)
        yield f'<tr><th scope="row">{name}</th>{rest}</tr>'
    yield "</tbody></table>"


def text_table(totals: FieldTotals, title: str) -> Table:
    """The sums for a terminal."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    headings = [totals.field, "sum", "95% interval"]
    if totals.groups[0].truth is not None:
        headings.append("true (simulation only)")
    for at, heading in enumerate(headings):
        table.add_column(escape(heading), justify="left" if at == 0 else "right")
    for group in totals.groups:
        table.add_row(*(escape(words) for words in _row(totals, group)))
    return table


def _row(totals: FieldTotals, group: TotalEstimate) -> Iterator[str]:
    yield group.name or "all people"
    yield f"{amount(totals, group.value)} ± {amount(totals, group.standard_error)}"
    yield f"{amount(totals, group.low)} to {amount(totals, group.high)}"
    if group.truth is not None:
        yield amount(totals, group.truth)


def shown_amounts(totals: FieldTotals, wording: QuestionWording | None) -> list[str]:
    """The amounts of the symbols up to twice the cut; larger ones do not count."""
    if wording is None or wording.sum_axis is None:
        return []
    symbols = wording.axes[wording.sum_axis].symbols
    if not isinstance(symbols, SymbolMagnitudes):
        return []
    amounts = [symbols.value(symbol) for symbol in range(symbols.size)]
    return [f"{amount:,f}" for amount in amounts if amount <= 2 * totals.cut]


def remarks(totals: FieldTotals) -> Iterator[str]:
    """Sentences about the sums."""
    cut = f"{totals.cut:,.12g} {totals.unit}".rstrip()
    if totals.is_cut:
        twice = f"{2 * totals.cut:,.12g} {totals.unit}".rstrip()
        yield (
            f"Values up to {cut} count in full. Values above it count less and less, from {twice} "
            f"on not at all: too few people may have them to tell them from noise. At most "
            f"{totals.beyond:,.0f} people (95%) have a value above {cut}."
        )
    else:
        yield f"Values above {cut} count as {cut}."
    yield (
        "Devices round values at random, so that the mean is exact. The interval contains the sum "
        "with probability 95%, including noise, rounding and the choice of where to cut off."
    )
    if totals.uncut is not None and totals.is_cut:
        yield f"Simulation: with no value cut off the sum is {amount(totals, totals.uncut)}."
    if totals.is_cut:
        yield (
            f"A device that lies can move a sum by at most {cut}; about {totals.rising:,} of them "
            "together can raise the limit up to which values count, and with it the error."
        )
