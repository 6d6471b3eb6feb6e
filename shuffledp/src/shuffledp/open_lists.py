"""Frequent texts of an open list: candidates from files, and answers as text tables.

docs/how-to/open-lists.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.markup import escape
from rich.table import Table

from shuffledp.columns import read_text
from shuffledp.records import read_rows
from shuffledp_core.answering.strings import (
    FALSE_TEXTS,
    FOUND,
    OpenListAnswer,
    add_truth,
    find_strings,
)
from shuffledp_core.bounds.node_noise import NodeNoise, conditional_law, noise_of_nodes
from shuffledp_core.documents.wording import QuestionWording
from shuffledp_core.mechanisms.columns import ColumnsSpec

if TYPE_CHECKING:
    from rich.console import RenderableType

SHOWN: Final = 40
"""Texts that the terminal lists; `report.json` has all."""

COMMAND: Final = "shuffledp report FOLDER --candidates FILE"
"""Command that looks up candidates in a saved round."""


def load_candidates(file: Path) -> list[str]:
    """Load the texts in a file, one per line; blank lines are ignored.

    Raises:
        UsageError: the file cannot be read, or is too long.
    """
    return [line for line in read_text(file).split("\n") if line.strip()]


def find_in_simulation(
    wording: QuestionWording,
    values: Sequence[float],
    people: NDArray[np.int64],
    candidates: Path | None,
    data: Path,
) -> OpenListAnswer:
    """The frequent texts of a simulated round, with their true numbers.

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
        raise ValueError("candidates can be looked up only for a question with an open list")
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
    """Sentences on how many texts were looked up, are surely listed, and may be false."""
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


CANDIDATES: Final = (1_000, 10_000, 100_000, 1_000_000)
FREQUENT: Final = (10, 30, 100)
"""Numbers of candidates, and of texts that are equally frequent, for which `advise` looks ahead."""


@dataclass(frozen=True)
class OpenListOutlook:
    """What an open list can find, computed before anyone answers from the noise alone.

    Attributes:
        spec: the mechanism.
        nodes: nodes that add dummies.
        least: for each number of candidates, and of texts that are equally frequent, how many
            people of a text are enough; None if no number is.
    """

    spec: ColumnsSpec
    nodes: int
    least: dict[int, dict[int, int | None]]

    @property
    def error(self) -> float:
        """Standard error of a count, with all nodes' noise."""
        return self.spec.node_noise * math.sqrt(self.nodes)

    def to_dict(self) -> dict[str, Any]:
        """The object in the output of `advise --format json`."""
        return {
            "mechanism": self.spec.kind,
            "messages": self.spec.messages_per_user,
            "dummies_per_node": self.spec.dummies_per_node,
            "error": self.error,
            "nodes": self.nodes,
            "least_people": {
                str(candidates): {str(texts): least for texts, least in row.items()}
                for candidates, row in self.least.items()
            },
        }

    def render(self) -> Iterator[RenderableType]:
        """Tables and remarks for a terminal."""
        table = Table(
            title="People of a text that are enough to list it with probability 95%",
            title_justify="left",
            box=box.SIMPLE_HEAD,
            pad_edge=False,
        )
        table.add_column("candidates", justify="right")
        for texts in FREQUENT:
            table.add_column(f"of {texts} such texts", justify="right")
        for candidates, row in self.least.items():
            numbers = ["none" if least is None else f"{least:,}" for least in row.values()]
            table.add_row(f"{candidates:,}", *numbers)
        yield table
        yield (
            f"Take [bold cyan]{self.spec.kind}[/bold cyan]: {self.spec.messages_per_user} messages "
            f"a user and {self.spec.dummies_per_node:,} dummies of each node; a count has a "
            f"standard error of {self.error:.3g} with the noise of all {self.nodes} nodes."
        )
        yield (
            f"At most {FALSE_TEXTS:g} texts that no one has are expected to be listed. Where no "
            "number of people is enough, ask with more bits or columns. If every node is corrupt, "
            "the hashes are in the open."
        )


def look_ahead(spec: ColumnsSpec, nodes: int) -> OpenListOutlook:
    """What an open list can find with this mechanism, if all other texts are rare."""
    size = spec.column_sizes[0]
    law = conditional_law(spec.noise_epsilon, spec.mean, size, spec.column_dummies[0])
    noise = noise_of_nodes(((1, law),), nodes)
    least = {
        candidates: {
            texts: _least_people(noise, candidates, (texts + 1) / size, len(spec.column_sizes))
            for texts in FREQUENT
        }
        for candidates in CANDIDATES
    }
    return OpenListOutlook(spec, nodes, least)


def _least_people(noise: NodeNoise, candidates: int, full: float, columns: int) -> int | None:
    """The threshold that excludes false texts, plus the noise that may hide a text.

    `full` is the share of cells with frequent texts. The noise is rounded outward.
    """
    values, masses = noise.blocks(-1)
    reached = np.cumsum(masses)  # that noise is at least -value, the values ascending
    false = candidates * np.minimum(full + reached, 1.0) ** columns
    few = np.flatnonzero(false <= FALSE_TEXTS)
    if not few.size:
        return None
    threshold = -int(values[few[-1]])
    lows, shares = noise.blocks(1)
    at_least = np.cumsum(shares[::-1])[::-1] ** columns
    return threshold - int(lows[np.flatnonzero(at_least >= FOUND)[-1]])
