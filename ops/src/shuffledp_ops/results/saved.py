"""The answer in a saved round's `report.json`, and the table rows made from it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final, TypeAlias

import msgspec

from shuffledp_ops.rounds.reading import LARGEST, LONGEST_NAME

Numbers: TypeAlias = tuple[float, ...]
Row: TypeAlias = dict[str, str | int | float | None]

COLUMNS: Final = (
    "round", "question", "population", "mechanism", "quantity", "value", "label", "unit",
    "estimate", "standard_error", "low_95", "high_95", "mean", "mean_standard_error", "reports",
    "messages", "epsilon", "delta", "adjacency", "max_distance", "honest", "epsilon_corrupted",
    "suite", "certified_at", "time",
)  # fmt: skip
"""Of every exported answer. `question` is the identifier of the question in words."""


class SavedSum(msgspec.Struct, frozen=True, kw_only=True):
    """The sum of one group, in an answer with sums of a field."""

    name: str
    value: float
    standard_error: float
    low: float
    high: float


class SavedTotals(msgspec.Struct, frozen=True, kw_only=True):
    """The sums of all groups, in an answer with sums of a field."""

    groups: tuple[SavedSum, ...]
    unit: str

    def __post_init__(self) -> None:
        for group in self.groups:
            numbers = (group.value, group.standard_error, group.low, group.high)
            if not all(abs(number) <= LARGEST for number in numbers):
                raise ValueError("a sum in the report has a number that no round can have")
            if len(group.name) > LONGEST_NAME:
                raise ValueError("a sum in the report has a name that is too long")


class SavedQuantile(msgspec.Struct, frozen=True, kw_only=True):
    """A quantile: numbers and names of its bin, and of the two bins at its interval's ends."""

    share: float
    bin: int
    low: int
    high: int
    names: tuple[str, str, str]

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1 or not 0 <= self.low <= self.bin <= self.high <= LARGEST:
            raise ValueError("a quantile has a number that no round can have")
        if any(len(name) > LONGEST_NAME for name in self.names):
            raise ValueError("a quantile has a name that is too long")


class SavedText(msgspec.Struct, frozen=True, kw_only=True):
    """A frequent text of an open list."""

    text: str
    people: float
    low: float
    high: float

    def __post_init__(self) -> None:
        if not all(abs(number) <= LARGEST for number in (self.people, self.low, self.high)):
            raise ValueError("a frequent text of the open list has a number that no round can have")
        if len(self.text) > LONGEST_NAME:
            raise ValueError(
                f"a frequent text of the open list is longer than {LONGEST_NAME} characters"
            )


class SavedTexts(msgspec.Struct, frozen=True, kw_only=True):
    """The frequent texts of an open list, among the candidates that were looked up."""

    texts: tuple[SavedText, ...]
    candidates: int


class SavedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The part of `report.json` that tables show: one number, or one for each value.

    Fields with a default are missing from reports of earlier versions.
    """

    accepted: int
    estimate: float | Numbers
    standard_error: float | Numbers
    interval_95: tuple[float | Numbers, float | Numbers]
    epsilon: float | None
    delta: float
    round: str | None = None
    question: str | None = None
    population: str | None = None
    mechanism: str | None = None
    labels: tuple[str, ...] | None = None
    unit: str | None = None
    mean: float | None = None
    mean_standard_error: float | None = None
    capped: int = 0
    messages: int | None = None
    adjacency: str | None = None
    max_distance: int | None = None
    honest: int | None = None
    epsilon_corrupted: float | None = None
    suite: str | None = None
    certified_at: int | None = None
    totals: SavedTotals | None = None
    quantiles: tuple[SavedQuantile, ...] = ()
    open_list: SavedTexts | None = None

    def __post_init__(self) -> None:
        columns = (self.values, self.errors, *self.bounds)
        if not self.values or len({len(column) for column in columns}) != 1:
            raise ValueError(
                "the answer in the report must have one error and one interval for each of its "
                "values"
            )
        means = tuple(mean for mean in (self.mean, self.mean_standard_error) if mean is not None)
        if not all(abs(number) <= LARGEST for column in (*columns, means) for number in column):
            raise ValueError("the answer in the report has a number that no round can have")
        if self.certified_at is not None and not 0 <= self.certified_at < 2**47:
            raise ValueError("the answer in the report has an impossible time")
        names = self.labels or ()
        if len(names) not in {0, len(self.values)}:
            raise ValueError("the answer in the report must have one label for each of its values")
        if any(len(text) > LONGEST_NAME for text in (*names, self.unit or "")):
            raise ValueError("the answer in the report has a name that is too long")

    @property
    def is_sum(self) -> bool:
        """True for a sum, False for a histogram."""
        return not isinstance(self.estimate, tuple)

    @property
    def values(self) -> Numbers:
        """The estimates: one for a sum, or one for each value of a histogram."""
        return _as_tuple(self.estimate)

    @property
    def errors(self) -> Numbers:
        """The standard errors of the estimates."""
        return _as_tuple(self.standard_error)

    @property
    def bounds(self) -> tuple[Numbers, Numbers]:
        """The 95% intervals' lower and upper ends."""
        return _as_tuple(self.interval_95[0]), _as_tuple(self.interval_95[1])

    @property
    def reports(self) -> float:
        """Number of reports behind a mean or share; each lost message takes off a fraction."""
        if self.mean_standard_error:
            return self.errors[0] / self.mean_standard_error
        return max(self.accepted, 1)

    def label(self, value: int) -> str:
        """Name of one of the histogram's values."""
        if self.labels:
            return self.labels[value]
        capped = self.capped > 0 and value == len(self.values) - 1
        return f"≥ {value}" if capped else str(value)

    def summary(self) -> str:
        """One line: mean, median, sum, or a frequent value or text, with error or interval."""
        if self.open_list is not None:
            return _summary_of_texts(self.open_list)
        median = next((quantile for quantile in self.quantiles if quantile.share == 0.5), None)
        if median is not None:
            name, low, high = median.names
            return f"median {name} ({low} to {high})"
        if self.totals is not None and self.totals.groups:
            largest = max(self.totals.groups, key=lambda group: group.value)
            name = f"{largest.name}: sum" if largest.name else "sum"
            spread = f"{largest.standard_error:.2g} {self.totals.unit}".rstrip()
            return f"{name} {largest.value:.4g} ± {spread}"
        if self.is_sum:
            mean = self.values[0] / self.reports
            error = self.errors[0] / self.reports
            return f"mean {mean:.4g} ± {error:.2g} {self.unit or ''}".rstrip()
        top = max(range(len(self.values)), key=self.values.__getitem__)
        share = self.values[top] / self.reports
        error = self.errors[top] / self.reports
        return f"{self.label(top)}: {share:.1%} ± {error:.1%}"

    def rows(self) -> Iterator[Row]:
        """Yield the answer's rows of a table with `COLUMNS`.

        Rows of sums, quantiles and frequent texts, and one row for each value of a histogram.
        """
        at = self.certified_at
        shared: Row = {
            "round": self.round,
            "question": self.question,
            "population": self.population,
            "mechanism": self.mechanism,
            "quantity": "sum" if self.is_sum else "count",
            "unit": self.unit,
            "mean": self.mean,
            "mean_standard_error": self.mean_standard_error,
            "reports": self.accepted,
            "messages": self.messages,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "adjacency": self.adjacency,
            "max_distance": self.max_distance,
            "honest": self.honest,
            "epsilon_corrupted": self.epsilon_corrupted,
            "suite": self.suite,
            "certified_at": at,
            "time": None if at is None else datetime.fromtimestamp(at / 1000, UTC).isoformat(),
        }
        for group in () if self.totals is None else self.totals.groups:
            row = shared | {
                "quantity": "sum",
                "value": None,
                "label": group.name or None,
                "unit": self.totals.unit if self.totals is not None else None,
                "estimate": group.value,
                "standard_error": group.standard_error,
                "low_95": group.low,
                "high_95": group.high,
            }
            yield {name: row[name] for name in COLUMNS}
        for quantile in self.quantiles:
            row = shared | {
                "quantity": "quantile",
                "value": quantile.bin,
                "label": f"{quantile.share:.0%}: {quantile.names[0]}",
                "estimate": quantile.bin,
                "standard_error": None,
                "low_95": quantile.low,
                "high_95": quantile.high,
            }
            yield {name: row[name] for name in COLUMNS}
        if self.open_list is not None:
            yield from self._rows_of_texts(self.open_list, shared)
            return
        columns = zip(self.values, self.errors, *self.bounds, strict=True)
        for value, (estimate, error, low, high) in enumerate(columns):
            row = shared | {
                "value": None if self.is_sum else value,
                "label": None if self.is_sum else self.label(value),
                "estimate": estimate,
                "standard_error": error,
                "low_95": low,
                "high_95": high,
            }
            yield {name: row[name] for name in COLUMNS}

    def _rows_of_texts(self, texts: SavedTexts, shared: Row) -> Iterator[Row]:
        """One row for each text; the raw counts of hashes are only in `report.json`."""
        for text in texts.texts:
            row = shared | {
                "quantity": "text",
                "value": None,
                "label": text.text,
                "unit": None,
                "estimate": text.people,
                "standard_error": None,
                "low_95": text.low,
                "high_95": text.high,
            }
            yield {name: row[name] for name in COLUMNS}


def _summary_of_texts(texts: SavedTexts) -> str:
    if not texts.texts:
        return f"none of {texts.candidates:,} texts is frequent"
    top = texts.texts[0]
    return f"{top.text}: {top.people:,.0f} people ({top.low:,.0f} to {top.high:,.0f})"


def _as_tuple(value: float | Numbers) -> Numbers:
    return value if isinstance(value, tuple) else (value,)
