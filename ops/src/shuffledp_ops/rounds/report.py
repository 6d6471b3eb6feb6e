"""Outcome of one round as data, with the result of an attack, if there was one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from shuffledp.crosstab import CrossTable, present_messages, table_of
from shuffledp.log_proofs import LogPosition
from shuffledp.map_page import centre_entry
from shuffledp_core.answering.estimates import Estimate
from shuffledp_core.answering.quantiles import (
    BinDistribution,
    QuantileEstimate,
    distribution_of,
)
from shuffledp_core.answering.strings import OpenListAnswer
from shuffledp_core.answering.totals import FieldTotals, totals_of
from shuffledp_core.documents.models import Certificate
from shuffledp_core.documents.signed import Signed
from shuffledp_core.documents.wording import SymbolScale
from shuffledp_core.mechanisms.liars import largest_shift


class TracedPerson(NamedTuple):
    """One person whose messages were all traced.

    `sent` is the randomised answer, `guess` the most likely value given it, `value` the true one
    (known only in a simulation).
    """

    credential: str
    sent: int
    guess: int
    value: int | None


class TraceOutcome(Protocol):
    """Result of an attack with the logs of corrupt nodes.

    `shuffledp_adversary.tracing` carries it out.
    """

    def people(self) -> Iterator[TracedPerson]:
        """Everyone who was traced, in the order in which node 1 accepted them."""

    @property
    def users(self) -> int:
        """Number of users whose reports were mixed."""

    @property
    def traced(self) -> int:
        """Number of users all of whose messages were found on the board."""

    @property
    def traced_share(self) -> float:
        """Share of users who were traced, from 0 to 1."""

    @property
    def success(self) -> float | None:
        """Share of users whose value was guessed; None without a truth to compare with."""

    @property
    def interval(self) -> tuple[float, float] | None:
        """Confidence interval of `success`."""

    @property
    def confidence(self) -> float:
        """Confidence level of `interval`."""

    @property
    def baseline(self) -> float | None:
        """Share of users guessed right by naming the most frequent value for everyone."""

    def to_dict(self) -> dict[str, Any]:
        """The fields for the report's JSON."""


@dataclass(frozen=True)
class RoundReport:
    """The outcome of one round.

    `users` is the most that could take part. `estimate` is the signed one, which adds up symbols;
    `answer` has the question's unit. `truth` is known in a simulation only; it has the shape of
    `estimate.values`: the sum, or the histogram, over all simulated users. `seconds` is by stage,
    in the order of the round. `corrupt` are the positions of the nodes that declare themselves
    corrupt, `trace` the result of an attack with their logs. `drawn_from` is the number of rows
    from which the users' values were drawn with replacement; None if every user is a row; `column`
    is the name of what they hold, `labels` the names of the symbols, where they have any. Messages
    on the board with a symbol `outside` the alphabet or a `repeated` tag do not count; the nodes
    `dropped` others before. `published` has, by file name, the proofs of the public log, and board
    and history of a verified round. `logged` and `result_logged` are what the proofs show of the
    plan certificate and of the result; None without a proof, or where the roster names no
    witnesses. `open_list` has the frequent texts of an open list; None for other questions, and
    before candidates are looked up.
    """

    round_id: str
    users: int
    accepted: int
    messages: int
    estimate: Estimate
    final: Certificate
    suite: str
    seconds: dict[str, float]
    documents: dict[str, Signed] = field(repr=False)
    truth: NDArray[np.int64] | None = None
    capped: int = 0
    drawn_from: int | None = None
    corrupt: tuple[int, ...] = ()
    trace: TraceOutcome | None = None
    dropped: int = 0
    outside_alphabet: int = 0
    repeated_tags: int = 0
    column: str | None = None
    labels: tuple[str, ...] = ()
    published: dict[str, bytes] = field(default_factory=dict, repr=False)
    logged: LogPosition | None = None
    result_logged: LogPosition | None = None
    open_list: OpenListAnswer | None = None

    @property
    def is_sum(self) -> bool:
        """True for a sum (one number), False for a histogram."""
        return len(self.estimate.values) == 1

    @property
    def scale(self) -> SymbolScale | None:
        """The scale of a sum whose question has words; None for any other."""
        words = self.final.question_wording
        return words.scale if self.is_sum and words is not None else None

    @property
    def unit(self) -> str:
        """Unit of the answer if it is a sum and the question has a wording; otherwise ""."""
        words = self.final.question_wording
        return words.unit if self.is_sum and words is not None else ""

    @property
    def decimals(self) -> int:
        """Decimal places that a sum is shown with: one more than its scale's step has."""
        step = "1" if self.scale is None else self.scale.step
        return 1 + len(step.partition(".")[2])

    @property
    def counted_reports(self) -> float:
        """Number of reports behind the estimate; each message left out takes off a fraction."""
        lost = self.dropped + self.outside_alphabet + self.repeated_tags
        return self.accepted - lost / self.final.mechanism.messages_per_user

    @cached_property
    def table(self) -> CrossTable | None:
        """The answer as a cross table; None unless the question has several fields."""
        nodes = self.final.nodes if self.final.mechanism.dummies_per_node else 0
        return table_of(
            self.final.mechanism,
            self.estimate,
            self.final.question_wording,
            present_messages(self.counted_reports, nodes),
            self.truth,
        )

    @property
    def answer(self) -> Estimate:
        """The estimate in the question's unit: a sum on a scale is converted from its steps."""
        estimate, scale = self.estimate, self.scale
        if scale is None:
            return estimate
        step = float(scale.step)

        def convert(sums: tuple[float, ...]) -> tuple[float, ...]:
            return tuple(scale.convert(value, self.counted_reports) for value in sums)

        mean, error = estimate.mean, estimate.mean_standard_error
        return msgspec.structs.replace(
            estimate,
            values=convert(estimate.values),
            standard_errors=tuple(step * spread for spread in estimate.standard_errors),
            lows=convert(estimate.lows),
            highs=convert(estimate.highs),
            mean=None if mean is None else scale.convert(mean),
            mean_standard_error=None if error is None else step * error,
        )

    def largest_shift(self, liars: int) -> float | None:
        """Most that lying devices move the sum or each count, in the question's unit, rounded up.

        None if the mechanism does not state it.
        """
        try:
            shift = largest_shift(self.final.mechanism, liars)
            if shift is None:
                return None
            in_unit = shift if self.scale is None else shift * Fraction(self.scale.step)
            rounded = float(in_unit)
        except OverflowError:  # messages are noise, or almost
            return None
        return rounded if rounded >= in_unit else math.nextafter(rounded, math.inf)

    @property
    def assumed_liars(self) -> int:
        """Number of reports that may come from lying devices without weakening the guarantee."""
        return max(0, self.final.users - self.final.honest)

    @property
    def true_answer(self) -> tuple[float, ...] | None:
        """The true answer in the question's unit, in a simulation; otherwise None."""
        if self.truth is None:
            return None
        truth = tuple(float(value) for value in self.truth)
        if self.scale is None:
            return truth
        return tuple(self.scale.convert(value, self.counted_reports) for value in truth)

    def label(self, symbol: int) -> str:
        """Name of a histogram's symbol, such as "≥ 20" for the largest if values were capped."""
        if self.labels:
            return self.labels[symbol]
        capped = self.capped > 0 and symbol == len(self.estimate.values) - 1
        return f"≥ {symbol}" if capped else str(symbol)

    def value_name(self, value: int) -> str:
        """Name of a person's value: the symbol's name in a histogram, else the number."""
        if not self.is_sum:
            return self.label(value)
        return str(value) if self.scale is None else self.scale.name(value, self.unit)

    @cached_property
    def distribution(self) -> BinDistribution | None:
        """Quantiles and ranges of a histogram whose mechanism serves them; None for any other."""
        lost = self.dropped + self.outside_alphabet + self.repeated_tags
        return distribution_of(
            self.final.mechanism,
            self.estimate,
            self.accepted,
            self.final.nodes,
            lost,
            self.final.question_wording,
        )

    @cached_property
    def quantiles(self) -> list[QuantileEstimate]:
        """The quantiles to display; empty without a `distribution`."""
        return [] if self.distribution is None else self.distribution.quantiles()

    @cached_property
    def totals(self) -> FieldTotals | None:
        """The sums of a question that asks for sums of a field; None for any other question."""
        nodes = self.final.nodes if self.final.mechanism.dummies_per_node else 0
        return totals_of(
            self.final.mechanism,
            self.estimate,
            self.final.question_wording,
            present_messages(self.counted_reports, nodes),
            self.truth,
        )

    @property
    def estimate_in_interval(self) -> bool:
        """True if every unbiased estimate lies in its interval, clipped to possible values."""
        estimate = self.estimate
        bounds = zip(estimate.lows, estimate.values, estimate.highs, strict=True)
        return all(low <= value <= high for low, value, high in bounds)

    @property
    def all_corrupt(self) -> bool:
        """True if all nodes of the route declare themselves corrupt."""
        return len(self.corrupt) == self.final.nodes

    @property
    def epsilon_here(self) -> float | None:
        """The certified ε, given which nodes are corrupt: the round's, or ε_L if all are."""
        return self.final.corrupted.epsilon if self.all_corrupt else self.final.epsilon.certified

    @property
    def delta_here(self) -> float:
        """The δ of `epsilon_here`."""
        return self.final.corrupted.delta if self.all_corrupt else self.final.delta

    def to_dict(self) -> dict[str, Any]:
        """The report as the JSON object of `shuffledp demo --format json`.

        Numbers for a sum, arrays for a histogram.
        """

        def shape(values: tuple[float, ...] | list[int]) -> Any:
            return values[0] if self.is_sum else list(values)

        answer, words = self.answer, self.final.question_wording
        truth = self.true_answer if self.scale is not None else None
        whole_truth = None if self.truth is None else self.truth.tolist()
        true_value = truth or whole_truth
        middle = centre_entry(self.table)
        return {
            "round": self.round_id,
            "question": None if words is None else words.id,
            "population": self.final.population,
            "certified_at": self.final.issued_at,
            "mechanism": self.final.mechanism.kind,
            "suite": self.suite,
            "users": self.users,
            "accepted": self.accepted,
            "unit": None if words is None else words.unit,
            "estimate": shape(answer.values),
            "standard_error": shape(answer.standard_errors),
            "interval_95": [shape(answer.lows), shape(answer.highs)],
            **({"quantiles": _quantiles_of(self)} if self.quantiles else {}),
            "mean": answer.mean,
            "mean_standard_error": answer.mean_standard_error,
            "largest_shift_by_one_liar": self.largest_shift(1),
            "assumed_liars": self.assumed_liars,
            "largest_shift_by_assumed_liars": self.largest_shift(self.assumed_liars),
            "estimate_in_interval": self.estimate_in_interval,
            "true_value": None if true_value is None else shape(true_value),
            "capped": self.capped,
            "drawn_with_replacement_from": self.drawn_from,
            "column": self.column,
            "labels": list(self.labels) or None,
            **({} if self.table is None else {"table": self.table.to_dict()}),
            **({} if middle is None else {"centre": middle}),
            **({} if self.open_list is None else {"open_list": asdict(self.open_list)}),
            **({} if self.totals is None else {"totals": self.totals.to_dict()}),
            "epsilon": self.final.epsilon.certified,
            "epsilon_attained": self.final.epsilon.attained,
            "delta": self.final.delta,
            "adjacency": self.final.adjacency.value,
            "max_distance": self.final.max_distance,
            "epsilon_corrupted": self.final.corrupted.epsilon,
            "honest": self.final.honest,
            "messages": self.messages,
            "dropped": self.dropped,
            "outside_alphabet": self.outside_alphabet,
            "repeated_tags": self.repeated_tags,
            "seconds": {stage: round(value, 3) for stage, value in self.seconds.items()},
            "corrupt_nodes": list(self.corrupt),
            "epsilon_for_this_corruption": self.epsilon_here,
            "delta_for_this_corruption": self.delta_here,
            **({} if self.trace is None else self.trace.to_dict()),
        }


def is_open(report: RoundReport) -> bool:
    """True for the report of an open list, whose counts are those of hashes."""
    words = report.final.question_wording
    return words is not None and words.is_open


def show(value: float | None) -> str:
    """Format a bound for people; None as "no finite bound"."""
    return "no finite bound" if value is None else f"{value:.4g}"


def true_quantile(report: RoundReport, share: float) -> int | None:
    """The bin of the true quantile, in a simulation; otherwise None."""
    if report.truth is None or report.distribution is None:
        return None
    counted = report.truth[: report.distribution.counted]
    return int(np.searchsorted(np.cumsum(counted), share * int(counted.sum())))


def _quantiles_of(report: RoundReport) -> list[dict[str, Any]]:
    return [
        {
            **quantile._asdict(),
            "names": [report.label(at) for at in (quantile.bin, quantile.low, quantile.high)],
            "true_bin": true_quantile(report, quantile.share),
        }
        for quantile in report.quantiles
    ]
