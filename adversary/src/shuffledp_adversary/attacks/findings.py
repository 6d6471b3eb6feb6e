"""What an attack reports: measurements, each against one claim, with and without the defence."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from shuffledp_adversary.evidence import DEFAULT_CONFIDENCE


class Verdict(StrEnum):
    """Whether the measurement contradicts the claim.

    HOLDS is no proof: these trials do not contradict the claim. How much they would have seen is told by the scenario
    without the defence, which the same adversary breaks with the same trials.
    """

    BROKEN = "broken"
    HOLDS = "holds"


@dataclass(frozen=True)
class Claim:
    """What somebody promises of the measured quantity: at most `value`, or at least it.

    `source` names who says so: "certificate", "Athanasiou et al. 2025, Theorem 5.1", "guessing without messages".
    """

    source: str
    value: float
    at_least: bool = False


@dataclass(frozen=True)
class Finding:
    """One scenario, measured.

    Attributes:
        scenario: what was run, for people: "published padding, c = 4".
        quantity: what was measured, with its unit: "ε at δ = 1e-4 (nats)", "users whose value was guessed".
        claim: what the measurement is held against.
        measured: the point estimate.
        low: of the confidence interval; equal to `measured` for what is counted or computed, not sampled.
        high: its other end; infinite where only a lower bound can be had.
        trials: independent repetitions behind the numbers; for ε, on each of two neighbouring datasets. 0 where
            nothing was sampled.
        defended: whether the system's defence was in place. A broken claim of a defended scenario is our failure.
        confidence: of this interval alone; several findings together err with the sum of what each leaves open.
        note: what a reader should know besides: who noticed, by which error.
    """

    scenario: str
    quantity: str
    claim: Claim
    measured: float
    low: float
    high: float
    trials: int
    defended: bool
    confidence: float = DEFAULT_CONFIDENCE
    note: str = ""

    @property
    def verdict(self) -> Verdict:
        """BROKEN only when the whole confidence interval lies beyond the claim."""
        beyond = self.high < self.claim.value if self.claim.at_least else self.low > self.claim.value
        return Verdict.BROKEN if beyond else Verdict.HOLDS

    @property
    def beyond_by_chance(self) -> bool:
        """The estimate alone contradicts the claim, its interval does not: so few trials may be off by that much."""
        beyond = self.measured < self.claim.value if self.claim.at_least else self.measured > self.claim.value
        return beyond and self.verdict is Verdict.HOLDS


@dataclass(frozen=True)
class AttackReport:
    """One run of one attack. `lesson` says in a sentence or two what the numbers show."""

    attack: str
    lesson: str
    findings: tuple[Finding, ...]
    seconds: float
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def succeeded_undefended(self) -> bool:
        """Every scenario without the defence broke its claim: the attack is real."""
        undefended = [one.verdict for one in self.findings if not one.defended]
        return bool(undefended) and all(one is Verdict.BROKEN for one in undefended)

    @property
    def defence_held(self) -> bool:
        """No defended scenario broke its claim."""
        return all(one.verdict is Verdict.HOLDS for one in self.findings if one.defended)

    def to_dict(self) -> dict[str, Any]:
        """The keys of `shuffledp attack NAME --format json`; an infinite end of an interval is null."""
        return {
            "attack": self.attack,
            "lesson": self.lesson,
            "succeeded_undefended": self.succeeded_undefended,
            "defence_held": self.defence_held,
            "seconds": round(self.seconds, 3),
            "findings": [_finding(one) for one in self.findings],
            "details": self.details,
        }


def _finding(one: Finding) -> dict[str, Any]:
    def finite(value: float) -> float | None:
        return value if abs(value) != float("inf") else None

    return {
        "scenario": one.scenario,
        "defended": one.defended,
        "quantity": one.quantity,
        "claim": {"source": one.claim.source, "value": finite(one.claim.value), "at_least": one.claim.at_least},
        "measured": finite(one.measured),
        "interval": [finite(one.low), finite(one.high)],
        "confidence": one.confidence,
        "trials": one.trials,
        "verdict": one.verdict.value,
        "beyond_by_chance": one.beyond_by_chance,
        "note": one.note,
    }
