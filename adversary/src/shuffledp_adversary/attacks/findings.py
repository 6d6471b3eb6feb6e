"""Reports of attacks: each measurement against a claim, with and without the defence."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from shuffledp_adversary.evidence import DEFAULT_CONFIDENCE


class ClaimVerdict(StrEnum):
    """Verdict of a measurement on the claim.

    HOLDS is no proof: these trials do not contradict the claim. The scenario without the defence,
    which the same adversary breaks with the same trials, shows how much they would have seen.
    """

    BROKEN = "broken"
    HOLDS = "holds"


@dataclass(frozen=True)
class ClaimedLimit:
    """A claimed limit of the measured quantity: at most, or at least, `value`.

    `source` names the claimant: "certificate", "Athanasiou et al. 2025, Theorem 5.1", "guessing
    without messages".
    """

    source: str
    value: float
    at_least: bool = False


@dataclass(frozen=True)
class Finding:
    """The measurement of one scenario, against a claim.

    Attributes:
        scenario: the experiment, for people: "published padding, c = 4".
        quantity: the measured quantity with its unit: "ε at δ = 1e-4 (nats)", "users whose value
            was guessed".
        claim: the claim that the measurement is compared with.
        measured: the point estimate.
        low: lower end of the confidence interval; equal to `measured` if the quantity was counted
            or computed, not sampled.
        high: upper end of the interval; infinite if there is only a lower bound.
        trials: independent repetitions behind the numbers; for ε, on each of two neighbouring
            datasets. 0 where nothing was sampled.
        defended: whether the system's defence was in place. A broken claim of a defended scenario
            is our failure.
        confidence: confidence level of this interval only; the error probabilities of several
            findings add up.
        note: further facts for a reader: who noticed, by which error.
    """

    scenario: str
    quantity: str
    claim: ClaimedLimit
    measured: float
    low: float
    high: float
    trials: int
    defended: bool
    confidence: float = DEFAULT_CONFIDENCE
    note: str = ""

    @property
    def verdict(self) -> ClaimVerdict:
        """Verdict on the claim: BROKEN only when the whole confidence interval lies beyond it."""
        beyond = (
            self.high < self.claim.value if self.claim.at_least else self.low > self.claim.value
        )
        return ClaimVerdict.BROKEN if beyond else ClaimVerdict.HOLDS

    @property
    def beyond_by_chance(self) -> bool:
        """True if the estimate contradicts the claim, but its interval does not.

        Few trials may be off by that much.
        """
        beyond = (
            self.measured < self.claim.value
            if self.claim.at_least
            else self.measured > self.claim.value
        )
        return beyond and self.verdict is ClaimVerdict.HOLDS


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
        """True if every scenario without the defence broke its claim: the attack is real."""
        undefended = [finding.verdict for finding in self.findings if not finding.defended]
        return bool(undefended) and all(verdict is ClaimVerdict.BROKEN for verdict in undefended)

    @property
    def defence_held(self) -> bool:
        """True if no defended scenario broke its claim."""
        return all(
            finding.verdict is ClaimVerdict.HOLDS for finding in self.findings if finding.defended
        )

    def to_dict(self) -> dict[str, Any]:
        """The JSON object of `shuffledp attack NAME --format json`.

        An infinite end of an interval is null.
        """
        return {
            "attack": self.attack,
            "lesson": self.lesson,
            "succeeded_undefended": self.succeeded_undefended,
            "defence_held": self.defence_held,
            "seconds": round(self.seconds, 3),
            "findings": [_as_dict(finding) for finding in self.findings],
            "details": self.details,
        }


def _as_dict(finding: Finding) -> dict[str, Any]:
    def finite(value: float) -> float | None:
        return value if abs(value) != float("inf") else None

    return {
        "scenario": finding.scenario,
        "defended": finding.defended,
        "quantity": finding.quantity,
        "claim": {
            "source": finding.claim.source,
            "value": finite(finding.claim.value),
            "at_least": finding.claim.at_least,
        },
        "measured": finite(finding.measured),
        "interval": [finite(finding.low), finite(finding.high)],
        "confidence": finding.confidence,
        "trials": finding.trials,
        "verdict": finding.verdict.value,
        "beyond_by_chance": finding.beyond_by_chance,
        "note": finding.note,
    }
