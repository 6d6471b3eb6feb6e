"""Sums of a field whose range no one knows, from a histogram of its magnitudes. Pure.

docs/accounting.md, N11. All of it follows from the published estimate of the counts and from public
parameters, so that anyone who has a result can compute it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.answering.estimates import COVERAGE, Estimate, Present
from shuffledp_core.documents.magnitudes import SymbolMagnitudes
from shuffledp_core.documents.wording import QuestionWording

if TYPE_CHECKING:
    from shuffledp_core.bounds.weighted_noise import CountNoise
    from shuffledp_core.mechanisms.base import Spec

FALSE_ALARM: Final = 1e-4
"""Probability that noise alone raises the cut."""

ADJACENT: Final = 2.0
"""Standard deviations of noise by which a doubling above the cut must exceed 0 to be included."""

_NOISE: Final = 0.045
_COUNTS: Final = 0.0025
_ROUNDING: Final = 1 - COVERAGE - _NOISE - _COUNTS
"""How an interval's 5% are divided: the noise at all cuts, all counts, the rounding at all cuts."""


class TotalEstimate(NamedTuple):
    """A sum with its standard error and 95% interval, in the unit of the field.

    Attributes:
        name: name of the group; "" without groups.
        value: unbiased estimate at the chosen cut.
        standard_error: standard error of noise and rounding.
        low: lower end of the interval.
        high: upper end of it.
        truth: the sum that is estimated, of the rounded values; in a simulation only.
    """

    name: str
    value: float
    standard_error: float
    low: float
    high: float
    truth: float | None = None


@dataclass(frozen=True)
class FieldTotals:
    """The sums of one field, of each group.

    Attributes:
        field: the field whose numbers are added up.
        unit: unit of the numbers; "" for none.
        cut: values up to it count in full, above it less and less, from twice the cut on not at
            all. The largest number if nothing is cut off.
        is_cut: False if the cut is the largest number.
        groups: the sum of each group, or one sum.
        beyond: people with a value above the cut: a 95% upper bound.
        rising: people in one higher doubling who would raise the cut.
        uncut: the sum of all rounded values, none cut off; in a simulation only.
    """

    field: str
    unit: str
    cut: float
    is_cut: bool
    groups: tuple[TotalEstimate, ...]
    beyond: float
    rising: int
    uncut: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """The object `totals` of `report.json`."""
        return {
            "field": self.field,
            "unit": self.unit,
            "cut": self.cut if self.is_cut else None,
            "largest_shift_by_one_liar": self.cut,
            "people_above_cut_at_most": self.beyond,
            "people_that_raise_cut": self.rising,
            "true_sum_without_cut": self.uncut,
            "groups": [group._asdict() for group in self.groups],
        }


class CutErrors(NamedTuple):
    """Errors that a sum with this cut would have, known before anyone answers.

    Attributes:
        cut: values up to it count in full, in the unit of the field.
        noise: standard error of one group's sum from the noise of all nodes.
        rounding: largest standard deviation that the rounding of one person's value adds.
        rising: people in the cut's own doubling who make it visible above noise.
    """

    cut: float
    noise: float
    rounding: float
    rising: int


@runtime_checkable
class NoisyCounts(Protocol):
    """A mechanism whose histogram counts carry the noise of nodes."""

    @property
    def count_noise(self) -> CountNoise | None:
        """One node's noise in the counts; None if the nodes' noise is not a `CountNoise`."""


def totals_of(
    spec: Spec,
    estimate: Estimate,
    wording: QuestionWording | None,
    present: Present,
    truth: NDArray[np.int64] | None = None,
) -> FieldTotals | None:
    """The sums that an answer shows; None unless its question asks for the sum of a field.

    Args:
        spec: the mechanism of the round.
        estimate: the published answer.
        wording: the question.
        present: the messages that count.
        truth: true number of people of each symbol, in a simulation.
    """
    if wording is None or wording.sum_axis is None or not present.nodes:
        return None
    noise = spec.count_noise if isinstance(spec, NoisyCounts) else None
    if noise is None or wording.size != len(estimate.values):
        return None
    return _Adder(wording, np.array(estimate.values), noise, present, truth).totals()


def errors_by_cut(wording: QuestionWording, noise: CountNoise, nodes: int) -> list[CutErrors]:
    """The errors of a question's sums for each possible cut, with the noise of this many nodes."""
    present = Present(Fraction(0), nodes)
    return _Adder(wording, np.zeros(wording.size), noise, present, None).errors_by_cut()


class _Adder:
    """Computes the sums of one answer, in steps of the magnitudes."""

    def __init__(
        self,
        wording: QuestionWording,
        counts: NDArray[np.float64],
        noise: CountNoise,
        present: Present,
        truth: NDArray[np.int64] | None,
    ) -> None:
        self._wording = wording
        self._counts = counts
        self._noise = noise
        self._nodes = present.nodes
        self._reports = float(present.reports)
        self._truth = truth
        axis = wording.sum_axis or 0
        magnitudes = wording.axes[axis].symbols
        assert isinstance(magnitudes, SymbolMagnitudes)  # noqa: S101 - `sum_axis` says so
        self._axis = axis
        self._step = float(magnitudes.step)
        multiples = [magnitudes.multiple(symbol) for symbol in range(magnitudes.size)]
        self._multiples = np.array(multiples, dtype=np.float64)
        last = magnitudes.size - 1
        self._ends = [*range(magnitudes.parts, last, magnitudes.parts), last]
        symbols = np.arange(math.prod(wording.shape)).reshape(wording.shape)
        self._symbols = np.moveaxis(symbols, axis, -1).reshape(-1, magnitudes.size)

    def totals(self) -> FieldTotals:
        """Choose the cut by the counts, and estimate every group's sum at this cut."""
        rising = self._thresholds()
        doubling = self._choose(rising)
        end = self._ends[doubling]
        cut = self._multiples[end]
        is_cut = end < self._multiples.size - 1
        weights = self._weights(end)
        axis = self._wording.axes[self._axis]
        return FieldTotals(
            axis.field,
            axis.unit,
            float(cut) * self._step,
            is_cut,
            tuple(self._total(row, weights) for row in range(len(self._symbols))),
            self._count_beyond(end) if is_cut else 0.0,
            rising[min(doubling + 1, len(rising) - 1)],
            self._true_sum(self._symbols, self._multiples),
        )

    def errors_by_cut(self) -> list[CutErrors]:
        """The errors that each cut would have."""
        errors = []
        for end, rising in zip(self._ends, self._thresholds(), strict=True):
            weights = self._weights(end)
            query = np.zeros(self._counts.size)
            query[self._symbols[0]] = weights
            error = self._error(query - query.mean())
            rounding = math.sqrt(float(_rounding_spans(weights).max()))
            cut = float(self._multiples[end]) * self._step
            errors.append(CutErrors(cut, error * self._step, rounding * self._step, rising))
        return errors

    def _weights(self, end: int) -> NDArray[np.float64]:
        """Contribution of a person with each magnitude to the sum, if it is cut at `end`."""
        weights = self._multiples
        if end == weights.size - 1:
            return weights
        # Straight between neighbouring numbers: then random rounding is unbiased (N11).
        return np.asarray(np.minimum(weights, np.maximum(2 * weights[end] - weights, 0.0)))

    def _thresholds(self) -> list[int]:
        """For each doubling, the number of people that pure noise rarely exceeds."""
        missed = FALSE_ALARM / len(self._ends) * self._noise.room_probability**self._nodes
        return [self._noise.largest_sum(terms, missed) for terms in self._terms()]

    def _terms(self) -> list[int]:
        """Number of independent noises in the pooled count of each doubling of the magnitude."""
        sizes = np.diff([0, *self._ends])
        return [int(size) * len(self._symbols) * self._nodes for size in sizes]

    def _choose(self, rising: list[int]) -> int:
        """The doubling of the cut: the last that surely holds people, or likely ones after it."""
        pooled = np.concatenate([[0.0], np.cumsum(self._counts[self._symbols].sum(axis=0)[1:])])
        people = np.diff(pooled[[0, *self._ends]])
        sure = np.flatnonzero(people > np.array(rising))
        doubling = int(sure[-1]) if sure.size else 0
        errors = self._noise.deviation * np.sqrt(self._terms())
        while doubling + 1 < people.size and people[doubling + 1] > ADJACENT * errors[doubling + 1]:
            doubling += 1
        return doubling

    def _total(self, row: int, weights: NDArray[np.float64]) -> TotalEstimate:
        """Estimate the sum of one group in which each magnitude has the given weight."""
        symbols = self._symbols[row]
        query = np.zeros(self._counts.size)
        query[symbols] = weights
        value, error, width = self._add(query, _NOISE / len(self._ends))
        spans = _rounding_spans(weights)
        counts = self._counts[symbols]
        likely = _COUNTS / self._counts.size * self._noise.room_probability**self._nodes
        most = counts + self._noise.largest_sum(self._nodes, likely) + 1
        failures = 2 * len(self._ends) / _ROUNDING
        width += math.sqrt(2 * math.log(failures) * float(spans @ np.maximum(most, 0.0)))
        error = math.hypot(error, math.sqrt(max(float(spans @ counts), 0.0)))
        return TotalEstimate(
            self._name(row),
            value * self._step,
            error * self._step,
            max(value - width, 0.0) * self._step,
            max(value + width, 0.0) * self._step,
            self._true_sum(symbols[np.newaxis], weights),
        )

    def _true_sum(self, symbols: NDArray[np.int64], weights: NDArray[np.float64]) -> float | None:
        """The weighted sum over people whose symbols are known."""
        if self._truth is None:
            return None
        return float((self._truth[symbols] @ weights).sum()) * self._step

    def _count_beyond(self, end: int) -> float:
        """Upper bound of the number of people above a cut, valid for all cuts together."""
        query = np.zeros(self._counts.size)
        query[self._symbols[:, end + 1 :].ravel()] = 1.0
        value, _, width = self._add(query, 2 * (1 - COVERAGE) / len(self._ends))
        return min(max(value + width, 0.0), self._reports)

    def _add(self, query: NDArray[np.float64], missed: float) -> tuple[float, float, float]:
        """Estimate of a weighted sum, with its standard error and half-width due to noise alone.

        The number of reports is known: what all counts have in common is taken from it.
        """
        common = float(query.mean())
        rest = query - common
        error = self._error(rest)
        width = float(self._noise.widths(rest[np.newaxis], self._nodes, min(missed, 0.5))[0])
        return float(rest @ self._counts) + common * self._reports, error, width

    def _error(self, rest: NDArray[np.float64]) -> float:
        """Standard error of a weighted sum of independent noises."""
        return math.sqrt(float(rest @ rest) * self._nodes) * self._noise.deviation

    def _name(self, row: int) -> str:
        """Name of the group in a row, in words."""
        axes = [axis for at, axis in enumerate(self._wording.axes) if at != self._axis]
        parts = []
        for axis in reversed(axes):
            row, level = divmod(row, axis.symbols.size)
            parts.append(axis.symbols.name(level, axis.unit))
        return ", ".join(reversed(parts))


def _rounding_spans(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Largest variance that the rounding of one value adds to a sum, at each number."""
    # The most by which one rounding can move the sum, whichever way it was.
    steps = np.abs(np.diff(weights, prepend=weights[0], append=weights[-1]))
    return np.asarray(np.maximum(steps[1:], steps[:-1]) ** 2 / 4)
