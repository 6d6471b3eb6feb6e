"""The audit of one mechanism: a measured lower bound on ε, compared with the accountant's ε.

It can only refute. A bound above the claim means that the claim is false, or the sampler is not the
certified one; a bound below it contradicts nothing, however far below it is. Some claims are tight,
so that at a confidence of 0.95 a true one is reported as broken in a few of a hundred runs: use a
higher confidence for a result to rely on. The distance between bound and attained ε is the weakness
of the test: too few trials for the rare outcomes that decide at a small δ.
"""

from __future__ import annotations

import math
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

from shuffledp.guarantees import Guarantee, guarantee_of
from shuffledp.plans import Plan
from shuffledp_adversary.audit.neighbours import Neighbours, outcomes, worst_looking
from shuffledp_adversary.audit.sampling import Sampler, one_by_one, shuffled_counts
from shuffledp_adversary.evidence import DEFAULT_CONFIDENCE, EpsilonBound, epsilon_bound
from shuffledp_core.errors import ShuffleDPError, UsageError
from shuffledp_core.mechanisms import Mechanism, Spec
from shuffledp_core.privacy import Adjacency
from shuffledp_core.sampling.randomisers import randomise_in_bulk
from shuffledp_sim.users.sealing import Progress


class ClaimBroken(ShuffleDPError):  # noqa: N818 - what was found, not what went wrong
    """An audit measured more privacy loss than the claim allows. Exit code 1."""


@dataclass(frozen=True, slots=True)
class Effort:
    """Effort of an audit.

    Attributes:
        trials: rounds on each of the two datasets, both halves together; at least 2.
        confidence: probability that a true claim is not reported as broken, above 0 and below 1.
        distance: distance by which the value changes; None for the largest that the question
            covers.
        values: the changed user's two values instead; None for 0 and the distance.
        local: audit one user's messages, as visible if every node is corrupt, against ε_L.
        one_by_one: draw by the clients' own code, a value at a time, instead of in bulk by the same
            law.
    """

    trials: int
    confidence: float = DEFAULT_CONFIDENCE
    distance: int | None = None
    values: tuple[int, int] | None = None
    local: bool = False
    one_by_one: bool = False

    def __post_init__(self) -> None:
        if self.trials < 2:
            raise UsageError(
                "trials must be at least 2, one to choose the test and one to measure, not "
                f"{self.trials}"
            )
        if not 0 < self.confidence < 1:
            raise UsageError(f"confidence must be above 0 and below 1, not {self.confidence}")


@dataclass(frozen=True, slots=True)
class AuditReport:
    """A measurement, and the claim that it is compared with.

    Attributes:
        answer: the accountant's analysis of these parameters.
        pair: the two datasets.
        bound: the evidence; its ε are for the whole change.
        claimed: ε (nats; per unit under metric adjacency) that is audited, None if nothing finite
            is claimed.
        claim: the source of `claimed`.
        seconds: seconds of the whole audit.
        local: whether one user's own messages were audited.
        notes: further remarks for a reader.
    """

    answer: Guarantee
    pair: Neighbours
    bound: EpsilonBound
    claimed: float | None
    claim: str
    seconds: float
    local: bool = False
    notes: tuple[str, ...] = ()

    @property
    def _unit(self) -> int:
        return self.pair.distance if self.answer.plan.setting.adjacency is Adjacency.METRIC else 1

    @property
    def lower(self) -> float:
        """The audited lower bound on ε, in the unit of the claim."""
        return self.bound.lower / self._unit

    @property
    def estimate(self) -> float:
        """Point estimate of the measured event's ε, in the unit of the claim.

        Infinite where a dataset never shows it.
        """
        return self.bound.estimate / self._unit

    @property
    def broken(self) -> bool:
        """True if the measurement contradicts the claim."""
        # The bound, not the estimate: of a tight and true claim about every second estimate lies
        # above it.
        return self.claimed is not None and self.lower > self.claimed

    @property
    def published_broken(self) -> bool:
        """True if the measurement contradicts the paper's formula, if one applies."""
        return (
            not self.local
            and self.answer.published is not None
            and self.lower > self.answer.published
        )

    @property
    def verdict(self) -> str:
        """The verdict in words."""
        return "CLAIM BROKEN" if self.broken else "no contradiction"

    def check(self) -> None:
        """Raise `ClaimBroken` if the measurement contradicts the claim."""
        if self.broken:
            raise ClaimBroken(
                f"CLAIM BROKEN: at delta {self.bound.delta:g} epsilon is at least "
                f"{self.lower:.6g} with confidence {self.bound.confidence:.10g}, but {self.claim} "
                f"says {self.claimed:.6g}; measure again with --confidence 0.999999, and do not "
                "use this mechanism until client and accountant agree"
            )

    def to_dict(self) -> dict[str, Any]:
        """The JSON object of `--format json`; infinite and unknown numbers are null."""
        answer = self.answer.to_dict()
        return {
            "mechanism": answer["mechanism"],
            "parameters": answer["parameters"],
            "users": self.pair.users,
            "adjacency": answer["adjacency"],
            "max_distance": answer["max_distance"],
            "delta": self.bound.delta,
            "trials": self.bound.trials,
            "datasets": {
                "changed": [self.pair.value, self.pair.changed],
                "others": self.pair.others,
            },
            "local": self.local,
            "audited": {
                "epsilon_lower": self.lower,
                "estimate": self.estimate if math.isfinite(self.estimate) else None,
                "confidence": self.bound.confidence,
                "hits": list(self.bound.hits),
                "measured_trials": self.bound.trials - self.bound.trials // 2,
            },
            "claim": {"source": self.claim, "epsilon": self.claimed},
            "epsilon": answer["epsilon"],
            "corrupted": answer["corrupted"],
            "verdict": self.verdict,
            "broken": self.broken,
            "published_broken": self.published_broken,
            "seconds": round(self.seconds, 3),
            "notes": list(self.notes),
        }


def audit(
    question: Plan,
    effort: Effort,
    pool: ProcessPoolExecutor,
    *,
    sampler: Sampler | None = None,
    progress: Progress | None = None,
) -> AuditReport:
    """Run the trials in process, and measure ε.

    Args:
        question: about one of the mechanisms that clients run, one round, all users honest.
        effort: trials, confidence and datasets.
        pool: worker processes for the sampler.
        sampler: None for the effort's; another one only to test that the audit detects it.
        progress: called as trials are completed.

    Raises:
        UsageError: values outside the domain, or a distance that the question does not cover.
    """
    began = time.perf_counter()
    spec = spec_of(question)
    guarantee = guarantee_of(question)
    claimed, claim, delta = guarantee.certified, "the accountant's certified ε", question.delta
    if effort.local:
        claimed, claim, delta = (
            guarantee.corrupted,
            "the local guarantee, ε_L",
            guarantee.corrupted_delta,
        )
    pair = neighbours_of(question, effort, users=1 if effort.local else question.setting.users)
    sampler = sampler or (one_by_one if effort.one_by_one else randomise_in_bulk)
    counts = shuffled_counts(
        spec, pair.datasets, effort.trials, pool, sampler=sampler, progress=progress
    )
    bound = epsilon_bound(*outcomes(spec, pair, counts), delta, effort.confidence)
    drawn = (
        "by the clients' own code"
        if effort.one_by_one
        else "in bulk, by the law of the clients' code"
    )
    seconds = time.perf_counter() - began
    return AuditReport(
        guarantee,
        pair,
        bound,
        claimed,
        claim,
        seconds,
        effort.local,
        (f"drawn {drawn}", *question.notes),
    )


def spec_of(question: Plan) -> Mechanism:
    """The mechanism in question, if clients have a sampler for it; `UsageError` otherwise."""
    if not isinstance(question.spec, Spec):
        raise UsageError(f"clients have no sampler of {question.kind}, so it cannot be audited")
    return question.spec


def neighbours_of(question: Plan, effort: Effort, users: int) -> Neighbours:
    """The effort's datasets, or the apparently worst ones at the largest covered distance.

    Raises:
        UsageError: a distance that is not covered, or values outside the domain.
    """
    spec = spec_of(question)
    most = question.max_distance or spec.domain - 1
    if effort.values is not None:
        pair = worst_looking(spec, users, *effort.values)
    else:
        # Of a histogram all changes are the same up to names (docs/accounting.md, K7).
        default = most if spec.metric else 1
        pair = worst_looking(
            spec, users, 0, default if effort.distance is None else effort.distance
        )
    if pair.distance > most and spec.metric:
        raise UsageError(
            f"the claim covers changes up to {most}, not {pair.distance}; raise max-distance"
        )
    return pair
