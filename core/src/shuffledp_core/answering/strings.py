"""Frequent texts of an open list, from the counts of their hashes and a list of candidates. Pure.

docs/accounting.md, S23. All of it follows from the published estimate and the words of the
question, so that anyone who has a result can compute it with any list of candidates.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.documents.open_list import MISSING, SymbolHashes, normalise
from shuffledp_core.errors import UsageError

FALSE_TEXTS: Final = 0.05
"""Expected number of listed texts that no one has, unless another is asked for."""

MOST_CANDIDATES: Final = 10_000_000

FOUND: Final = 0.95
"""Probability with which a text of at least `OpenListAnswer.least` people is listed."""

_TAIL: Final = 0.025
"""Probability that an interval lies wholly on one side of the truth."""


@dataclass(frozen=True, slots=True)
class FrequentText:
    """A text with the estimated number of people who have it, and its 95% interval.

    `true` is the true number, which only a simulation knows.
    """

    text: str
    people: float
    low: float
    high: float
    true: int | None = None


@dataclass(frozen=True)
class OpenListAnswer:
    """The frequent texts among the candidates.

    Attributes:
        texts: the most frequent one first.
        threshold: least count in every column of a listed text; None if none can be listed.
        expected_false: upper bound of the expected number of listed candidates that no one has.
        least: a text of this many people is listed with probability `FOUND` or more; None if no
            number of people is known to be enough.
        candidates: different texts that were looked up.
    """

    texts: tuple[FrequentText, ...]
    threshold: float | None
    expected_false: float
    least: int | None
    candidates: int


class ColumnCounts:
    """The counts of every column, and the shares of cells whose counts reach given numbers.

    Given the counts without a text's own people, its cells are uniform and independent draws from
    the columns.
    """

    def __init__(self, hashes: SymbolHashes, values: Sequence[float]) -> None:
        if len(values) != sum(hashes.shape):
            raise ValueError(f"expected {sum(hashes.shape)} counts, not {len(values)}")
        self.counts: NDArray[np.float64] = np.array(values).reshape(hashes.columns, -1)
        self._sorted = np.sort(self.counts, axis=1)
        self.numbers: NDArray[np.float64] = np.unique(self.counts)
        """All different counts, ascending."""

    def reaching(self, numbers: NDArray[np.float64], more: int = 0) -> NDArray[np.float64]:
        """Share of each column's cells with counts of at least `numbers`, plus `more` cells.

        Shape (columns, numbers).
        """
        cells = self._sorted.shape[1]
        below = [np.searchsorted(column, numbers) for column in self._sorted]
        return np.asarray(np.clip((cells - np.array(below) + more) / cells, 0.0, 1.0))

    def below(self, numbers: NDArray[np.float64], more: int = 0) -> NDArray[np.float64]:
        """Share of each column's cells with counts below `numbers`, plus `more` cells."""
        cells = self._sorted.shape[1]
        below = [np.searchsorted(column, numbers) for column in self._sorted]
        return np.asarray(np.clip((np.array(below) + more) / cells, 0.0, 1.0))


def find_strings(
    hashes: SymbolHashes,
    values: Sequence[float],
    reports: float,
    candidates: Iterable[str],
    most_false: float = FALSE_TEXTS,
) -> OpenListAnswer:
    """The candidates that reach the least threshold with at most `most_false` false ones expected.

    Args:
        hashes: hashes of the question.
        values: the published estimate, column after column.
        reports: number of reports: no text has more people.
        candidates: texts to look up, chosen without regard to the salt; repeated ones count once.
        most_false: largest expected number of listed candidates that no one has.

    Raises:
        UsageError: there are no candidates, or too many, or `most_false` is not above 0.
    """
    if not (math.isfinite(most_false) and most_false > 0):
        raise UsageError(f"the expected number of false texts must be above 0, not {most_false}")
    texts = list(dict.fromkeys(normalise(text) for text in candidates))
    texts = [text for text in texts if text != MISSING]
    if not 1 <= len(texts) <= MOST_CANDIDATES:
        raise UsageError(
            f"the number of candidates must be from 1 to {MOST_CANDIDATES:,}, not "
            f"{len(texts):,}: name a file with one text per line"
        )
    columns = ColumnCounts(hashes, values)
    threshold, expected = least_threshold(columns, len(texts), most_false)
    cells = hashes.cells_of(np.array(hashes.locate_all(texts), dtype=np.int64))
    least_counts = columns.counts[np.arange(hashes.columns)[:, np.newaxis], cells].min(axis=0)
    listed = np.flatnonzero(least_counts >= threshold)
    listed_texts = [texts[at] for at in listed]
    measured = _measure(columns, listed_texts, cells[:, listed], reports)
    return OpenListAnswer(
        tuple(sorted(measured, key=lambda text: (-text.people, text.text))),
        None if math.isinf(threshold) else threshold,
        expected,
        _least_people(columns, len(texts), most_false),
        len(texts),
    )


def least_threshold(
    columns: ColumnCounts, candidates: int, most_false: float, more: int = 0
) -> tuple[float, float]:
    """The least threshold with few enough expected false texts, and their expected number.

    `more` cells of every column are counted in addition to those that reach it.
    """
    false = candidates * columns.reaching(columns.numbers, more).prod(axis=0)
    few = np.flatnonzero(false <= most_false)
    if not few.size:
        return math.inf, 0.0
    return float(columns.numbers[few[0]]), float(false[few[0]])


def _least_people(columns: ColumnCounts, candidates: int, most_false: float) -> int | None:
    """The least number of people with which another text is listed with probability `FOUND`."""
    # The counts that the further text would add may reach the threshold, too.
    threshold, _ = least_threshold(columns, candidates, most_false, more=1)
    if math.isinf(threshold):
        return None
    people = np.arange(1, math.ceil(threshold - columns.numbers[0]) + 1)
    likely = columns.reaching(threshold - people).prod(axis=0)
    return int(people[np.flatnonzero(likely >= FOUND)[0]])


def _measure(
    columns: ColumnCounts, texts: Sequence[str], cells: NDArray[np.int64], reports: float
) -> list[FrequentText]:
    """Number of people of each text: the lower median of its counts, less other texts' people."""
    number = columns.counts.shape[0]
    counts = columns.counts[np.arange(number)[:, np.newaxis], cells]
    medians = np.sort(counts, axis=0)[(number - 1) // 2]
    middle, most = (_median_passes(columns, share) for share in (0.5, _TAIL))
    least = _median_falls_below(columns)
    ends = np.clip(medians - np.array([[middle], [most], [least]]), 0.0, reports)
    return [
        FrequentText(text, *numbers) for text, *numbers in zip(texts, *ends.tolist(), strict=True)
    ]


def _median_passes(columns: ColumnCounts, share: float) -> float:
    """Least number that the lower median of a text's counts exceeds with probability <= `share`.

    The text's own people are left out.
    """
    numbers = columns.numbers
    needed = columns.counts.shape[0] // 2 + 1
    above = np.nextafter(numbers, np.inf)
    likely = at_least(columns.reaching(above), needed)
    return float(numbers[np.flatnonzero(likely <= share)[0]])


def _median_falls_below(columns: ColumnCounts) -> float:
    """Largest number below which the lower median of a text's counts is at most `_TAIL` likely."""
    numbers = columns.numbers
    size = columns.counts.shape[0]
    # Of the text's own cells, one in each column, the counts without its people may be lower.
    likely = at_least(columns.below(numbers, more=1), size - size // 2)
    few = np.flatnonzero(likely <= _TAIL)
    # With so few cells that one alone is likelier, noise may have been anything.
    return float(numbers[few[-1]]) if few.size else -math.inf


def at_least(shares: NDArray[np.float64], needed: int) -> NDArray[np.float64]:
    """Probability of at least `needed` of independent events; shares have shape (events, cases)."""
    exactly = np.zeros((shares.shape[0] + 1, shares.shape[1]))
    exactly[0] = 1.0
    for share in shares:
        exactly[1:] = exactly[1:] * (1 - share) + exactly[:-1] * share
        exactly[0] *= 1 - share
    return np.asarray(exactly[needed:].sum(axis=0))


def add_truth(
    answer: OpenListAnswer, hashes: SymbolHashes, values: NDArray[np.int64]
) -> OpenListAnswer:
    """The answer with the true number of people of each text, from the values of all people."""
    texts = [
        replace(text, true=int((values == hashes.locate(text.text)).sum())) for text in answer.texts
    ]
    return replace(answer, texts=tuple(texts))
