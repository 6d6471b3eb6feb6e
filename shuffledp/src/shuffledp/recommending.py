"""Recommends one of the mechanisms that meet a target, and says if shuffling is not worthwhile.

Pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from shuffledp_core.mechanisms import Answers
from shuffledp_privacy.analysis import CostAnalysis
from shuffledp_privacy.calibration.baselines import Baseline, baseline
from shuffledp_privacy.calibration.target import Target

FEW_MESSAGES: Final = 100
"""Messages a person that any device can send: some 11 kB with three nodes and the default suite."""

AS_GOOD: Final = 1.1
"""Errors within this factor are as good as each other; what is left without an honest node decides
then.
"""

NO_GAIN: Final = 0.9
"""A shuffled error above this share of the local one gains next to nothing."""


_WANTED: Final[dict[str, Callable[[CostAnalysis], bool]]] = {
    "absent people and lost messages do no harm": lambda row: (
        row.mechanism.bears_losses and row.mechanism.noise_alone
    ),
    f"a person sends at most {FEW_MESSAGES} messages": lambda row: row.messages <= FEW_MESSAGES,
}
"""What a mechanism should have if any has it, in the words of a reason."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """Mechanisms for one kind of answer, baselines for comparison, and a recommended one.

    Attributes:
        answers: the kind of answer: a sum, or a histogram.
        rows: the mechanisms that keep the target, fewest messages first.
        beside: errors without a shuffler, and with a trusted party.
        choice: the recommended mechanism.
        reason: the reason for the choice, in words.
        warnings: reasons against shuffling at all, in words.
    """

    answers: Answers
    rows: tuple[CostAnalysis, ...]
    beside: Baseline
    choice: CostAnalysis
    reason: str
    warnings: tuple[str, ...]


def recommend(target: Target, rows: Sequence[CostAnalysis]) -> tuple[Recommendation, ...]:
    """One recommendation for each kind of answer among the rows, histograms first."""
    recommendations = []
    for answers in (Answers.HISTOGRAM, Answers.SUM):
        candidates = tuple(row for row in rows if row.mechanism.answers is answers)
        if candidates:
            beside = baseline(target, answers)
            choice, reason = _choose(candidates)
            warnings = tuple(_warnings(target, candidates, choice, beside))
            recommendations.append(
                Recommendation(answers, candidates, beside, choice, reason, warnings)
            )
    return tuple(recommendations)


def _choose(rows: Sequence[CostAnalysis]) -> tuple[CostAnalysis, str]:
    """Choose the least error among mechanisms that any device can run and that tolerate losses.

    The mechanism must tolerate lost messages and absent users.
    """
    reasons: list[str] = []
    for words, fits in _WANTED.items():
        fitting = [row for row in rows if fits(row)]
        if fitting and len(fitting) < len(rows):
            rows, reasons = fitting, [*reasons, words]
    least = min(row.error for row in rows)
    good = [row for row in rows if row.error <= AS_GOOD * least]
    choice = min(good, key=lambda row: (row.corrupted_epsilon, row.messages))
    among = f" where {' and '.join(reasons)}" if reasons else ""
    if len(rows) == 1:
        return choice, f"the only one{among or ' that keeps the target'}"
    if len(good) == 1:
        return choice, f"the least error{among}"
    return (
        choice,
        f"of the least errors{among} (within 10%) it keeps most when every node is corrupt",
    )


def _warnings(
    target: Target, rows: Sequence[CostAnalysis], choice: CostAnalysis, beside: Baseline
) -> Iterator[str]:
    if choice.error > NO_GAIN * beside.local:
        near = ""
        if target.rounds == 1 and choice.corrupted_epsilon <= choice.certified / NO_GAIN:
            near = (
                f" (ε_L = {choice.corrupted_epsilon:.4g} against ε = {choice.certified:.4g} "
                "certified)"
            )
        yield (
            f"shuffling gains next to nothing here{near}: {beside.local_by} without any shuffler "
            f"keeps the same target with an error of {beside.local:,.4g}; more people, or a "
            "smaller ε, make a shuffler worth it"
        )
    if math.isinf(choice.corrupted_epsilon):
        yield (
            f"if every node is corrupt, nothing hides the values of {choice.kind}; where that "
            "matters, take a row with a finite ε_L, or state the largest (--epsilon-local)"
        )
    least = min(row.error for row in rows)
    span = float(
        target.users if beside.answers is Answers.HISTOGRAM else target.users * target.largest
    )
    if choice.error >= span / 2:
        what = (
            "the number of people"
            if beside.answers is Answers.HISTOGRAM
            else "the largest possible sum"
        )
        others = "" if least >= span / 2 else "; another row's is smaller"
        yield (
            f"the error, {choice.error:,.4g}, is more than half of {what}, {span:,.0f}: the "
            f"answer tells no more than a guess of the middle{others}; ask more people, or with a "
            "larger ε"
        )
