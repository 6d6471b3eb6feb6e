"""A cross table as an HTML heat map with numbers, and as text. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich import box
from rich.markup import escape
from rich.table import Table

from shuffledp.crosstab import SMALL, CrossTable, TableNumber
from shuffledp.pages import as_html

MOST_ROWS: Final = 200
MOST_COLUMNS: Final = 40
"""Rows and columns that a page shows; `report.json` has all."""

TEXT_ROWS: Final = 40
TEXT_COLUMNS: Final = 8
"""Rows and columns that the terminal shows."""


def html_table(table: CrossTable) -> Iterator[str]:
    """An HTML table whose cells are shaded by number, and marked if they may be empty."""
    rows, columns = (min(size, most) for size, most in zip(table.shape, _MOST, strict=True))
    most = max((number.value for row in table.cells for number in row), default=0.0)
    corner = f"{as_html(table.row_title)} \\ {as_html(table.column_title)}"
    heads = "".join(
        f'<th scope="col">{as_html(name)}</th>' for name in table.column_names[:columns]
    )
    yield '<div class="crosstab" tabindex="0" role="region" aria-label="The table"><table><thead>'
    yield f'<tr><th scope="col">{corner}</th>{heads}<th scope="col" class="sum">all</th></tr>'
    yield "</thead><tbody>"
    for row in range(rows):
        cells = "".join(_cell(number, most) for number in table.cells[row][:columns])
        yield (
            f'<tr><th scope="row">{as_html(table.row_names[row])}</th>{cells}'
            f"{_sum(table.row_sums[row])}</tr>"
        )
    sums = "".join(_sum(number) for number in table.column_sums[:columns])
    yield f'<tr class="sum"><th scope="row">all</th>{sums}{_sum(table.in_cells)}</tr>'
    yield "</tbody></table></div>"
    if (rows, columns) != table.shape:
        yield (
            f'<p class="fine">The table has {table.shape[0]:,} rows and {table.shape[1]:,} '
            "columns; report.json has all of them.</p>"
        )


_MOST: Final = (MOST_ROWS, MOST_COLUMNS)


def _cell(number: TableNumber, most: float) -> str:
    # In steps of 5%: the page needs no style for each cell.
    share = 0.0 if most <= 0 else min(max(number.value / most, 0.0), 1.0)
    shade = f' class="s{round(20 * share)}"' if share > 0 else ""
    return f"<td{shade}>{_words(number)}</td>"


def _sum(number: TableNumber) -> str:
    return f'<td class="sum">{_words(number)}</td>'


def _words(number: TableNumber) -> str:
    mark = f"<sup>{SMALL}</sup>" if number.is_small else ""
    interval = f"{number.low:,.0f}–{number.high:,.0f}"
    return f"{number.value:,.0f}{mark}<small>{interval}</small>"


def remarks(table: CrossTable) -> Iterator[str]:
    """Sentences about the table."""
    yield (
        "Small print below each number: its 95% interval. Cells and sums are fitted to the number "
        "of answers by least squares, so that they add up before they are rounded. “All numbers” "
        "has the signed estimates."
    )
    if any(number.is_small for row in table.cells for number in row):
        yield f"{SMALL} The interval contains 0: there may be no such people."
    if table.others is not None:
        others = table.others
        true = "" if table.true_others is None else f" (true: {table.true_others:,})"
        yield (
            f"“{table.wording.others}”: about {max(others.value, 0.0):,.0f} people, 95% interval "
            f"{others.low:,.0f} to {others.high:,.0f}{true}. They are in no cell."
        )
    if table.true_cells is not None:
        cells = [(number, true) for row, truths in zip(table.cells, table.true_cells, strict=True)
                 for number, true in zip(row, truths.tolist(), strict=True)]  # fmt: skip
        inside = sum(number.low <= true <= number.high for number, true in cells)
        yield f"Simulation: {inside:,} of {len(cells):,} intervals contain the true count."


def text_table(table: CrossTable, title: str) -> Table:
    """The table for a terminal; only a part of a large one."""
    rows, columns = min(table.shape[0], TEXT_ROWS), min(table.shape[1], TEXT_COLUMNS)
    text = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    text.add_column(escape(f"{table.row_title} \\ {table.column_title}"))
    for name in [*table.column_names[:columns], "all"]:
        text.add_column(escape(name), justify="right")
    for row in range(rows):
        numbers = [*table.cells[row][:columns], table.row_sums[row]]
        text.add_row(escape(table.row_names[row]), *map(_text, numbers))
    text.add_section()
    text.add_row("all", *map(_text, [*table.column_sums[:columns], table.in_cells]))
    if (rows, columns) != table.shape:
        text.caption = f"and more: {table.shape[0]:,} rows and {table.shape[1]:,} columns in all"
        text.caption_justify = "left"
    return text


def _text(number: TableNumber) -> str:
    mark = SMALL if number.is_small else ""
    return f"{number.value:,.0f}{mark} [dim]± {number.error:,.0f}[/dim]"
