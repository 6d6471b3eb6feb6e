"""Frequent texts of an open list: candidates from files, and the answer as a table of text.

docs/how-to/open-lists.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.markup import escape
from rich.table import Table

from shuffledp.columns import read_text
from shuffledp.records import read_rows
from shuffledp_core.answering.strings import OpenListAnswer, add_truth, find_strings
from shuffledp_core.documents.wording import QuestionWording

SHOWN: Final = 40
"""Texts that the terminal lists; `report.json` has all."""

COMMAND: Final = "shuffledp report FOLDER --candidates FILE"
"""Command that looks up candidates in a saved round."""


def load_candidates(file: Path) -> list[str]:
    """The texts of a file, one in each line; blank lines do not count.

    Raises:
        UsageError: it cannot be read, or is too long.
    """
    return [line for line in read_text(file).split("\n") if line.strip()]


def find_in_simulation(
    wording: QuestionWording,
    values: Sequence[float],
    people: NDArray[np.int64],
    candidates: Path | None,
    data: Path,
) -> OpenListAnswer:
    """The answer of a simulated round, with true numbers.

    Without a file of candidates, the texts of the data itself are looked up, as only a simulation
    can.

    Args:
        wording: an open list.
        values: the estimate.
        people: symbols of all people.
        candidates: file of candidates, if any.
        data: the rows of the people.
    """
    hashes = wording.hashes
    if hashes is None:
        raise ValueError("only an open list has candidates")
    texts = (
        [entry for _, (entry,) in read_rows(data, wording.fields)]
        if candidates is None
        else load_candidates(candidates)
    )
    return add_truth(find_strings(hashes, values, len(people), texts), hashes, people)


def text_table(answer: OpenListAnswer, title: str) -> Table:
    """The listed texts as a table for a terminal."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("text")
    headings = ["people", "95% interval"]
    is_simulated = any(text.true is not None for text in answer.texts)
    if is_simulated:
        headings.append("true [dim](simulation only)[/dim]")
    for heading in headings:
        table.add_column(heading, justify="right")
    for text in answer.texts[:SHOWN]:
        numbers = [f"{text.people:,.0f}", f"{text.low:,.0f} .. {text.high:,.0f}"]
        table.add_row(escape(text.text), *numbers, *([f"{text.true:,}"] if is_simulated else []))
    if len(answer.texts) > SHOWN:
        table.caption = f"and {len(answer.texts) - SHOWN:,} more, in report.json"
    return table


def remarks(answer: OpenListAnswer) -> Iterator[str]:
    """How many texts were looked up, which of them are surely listed, and how many are false."""
    if answer.least is None:
        yield (
            f"{answer.candidates:,} candidates were looked up. They are too many for these cells: "
            "look up fewer, or ask with more bits or columns."
        )
        return
    yield (
        f"{answer.candidates:,} candidates were looked up. A text of {answer.least:,} people or "
        f"more is listed with probability 95%; of the listed ones, {answer.expected_false:.2g} at "
        "most are expected to be texts that no one has."
    )
    yield (
        "Each interval contains the true number of its text with probability 95%; texts whose "
        "numbers came out high are more likely to be listed."
    )
