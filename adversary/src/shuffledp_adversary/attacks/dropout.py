"""Dropout: users who leave after the plan was calibrated.

Source: Athanasiou et al. 2025, section 5: SGDL-Shuffle.

What the adversary knows: what leaves the last node, that is the shuffled sum, and all values but
one.

What it does: it only waits. In SGDL-Shuffle no user adds enough noise for itself: `shares` users
together make one discrete Laplace noise. When fewer take part, or some of them collude and reveal
their share, the noise of the others is all there is: the law SGDL(h/shares, φ), which is small and
has a spike at 0.

Why it works: a plan promises ε for the expected users, and the missing noise was part of their
protection.

What stops it: three things. The plan counts on fewer users than it hopes for (`min_reports`,
`colluding`): the shares are then larger, and absences within that margin cost nothing. Node 1
forwards nothing when fewer than `min_reports` arrive. And the final certificate is computed again
for the honest reports that really came, so that a result never carries a plan's ε that does not
hold for it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from shuffledp_accountant.certificates import analyse_final
from shuffledp_adversary.attacks.attack import CONFIDENCE, TRIALS, USERS, Attack
from shuffledp_adversary.attacks.findings import AttackReport, ClaimedLimit, Finding
from shuffledp_adversary.attacks.measuring import calibrate_spec, check_trials, epsilon_finding
from shuffledp_adversary.attacks.picture import Chart, CurveRole, PlottedCurve
from shuffledp_adversary.attacks.trials import Trials
from shuffledp_adversary.attacks.views import QUARTERS, partial_rounds
from shuffledp_adversary.evidence import DEFAULT_CONFIDENCE, EpsilonBound, epsilon_bound
from shuffledp_core.documents.models import RoundPlan
from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import SGDLShuffle
from shuffledp_privacy.analysis import cost_of
from shuffledp_privacy.bounds import epsilon_bounds
from shuffledp_privacy.calibration.calibrate import Target


@dataclass(frozen=True)
class _Plan:
    """A planned round that counts on `honest` of `users` users."""

    spec: SGDLShuffle
    users: int
    honest: int
    epsilon: float
    delta: float

    @classmethod
    def of(cls, epsilon: float, delta: float, users: int, honest: int) -> _Plan:
        """The plan with least error whose guarantee needs `honest` honest users."""
        spec = calibrate_spec(SGDLShuffle, Target(epsilon, delta, users, honest, max_value=1))
        return cls(spec, users, honest, epsilon, delta)

    def certified_epsilon(self) -> float:
        """Certified ε of the plan."""
        cost = cost_of(self._document(self.honest), self.spec, self.honest)
        return epsilon_bounds(self.spec, cost.setting, self.delta).certified

    def final(self, accepted: int) -> float:
        """Certified ε for `accepted` reports, all of them honest."""
        plan = self._document(accepted)
        return analyse_final(plan, self.spec, accepted, self.epsilon).certified

    def _document(self, reports: int) -> RoundPlan:
        return RoundPlan(
            population="demo",
            mechanism=self.spec.kind,
            size=self.spec.max_value,
            epsilon=self.epsilon,
            delta=self.delta,
            min_reports=reports,
            max_reports=self.users,
            route=("node-1", "node-2", "node-3"),
        )


def run_dropout(
    *,
    users: int = 40,
    epsilon: float = 0.25,
    delta: float = 1e-6,
    trials: int = 3000,
    confidence: float = DEFAULT_CONFIDENCE,
) -> AttackReport:
    """Run the attack on a count of yes answers from which some users stay away.

    The remaining ε depends on the *share* of users who stay, not on their number: 40 users show
    what a million would.

    Args:
        users: expected by the plan; a multiple of 8.
        epsilon: the plan's target (nats).
        delta: its δ.
        trials: rounds that are simulated for each of two neighbouring datasets.
        confidence: confidence of the intervals.

    Raises:
        UsageError: a parameter is out of range.
        CannotCertify: no parameters meet the target.
    """
    check_trials(trials, confidence)
    # Quarters are taken of all users and of the careful plan's half, and must be whole.
    if users < 1 or users % (2 * QUARTERS):
        raise UsageError(f"users must be a multiple of {2 * QUARTERS}, not {users}")
    began = time.monotonic()
    everybody = _Plan.of(epsilon, delta, users, users)
    careful = _Plan.of(epsilon, delta, users, users // 2)
    with Trials() as work:
        left = _measure(work, everybody, users, trials, confidence)
        careful_left = _measure(work, careful, users // 2, trials, confidence)
    quarter = users // QUARTERS
    half = users // 2
    claim = ClaimedLimit(
        f"certificate of the plan, for {users} users", everybody.certified_epsilon()
    )
    note = f"mixed all the same; node 1 here stops a round below min_reports = {users}"
    findings = (
        epsilon_finding(
            f"{half} of {users} users stay", left[half], claim, defended=False, note=note
        ),
        epsilon_finding(
            f"{quarter} of {users} users stay", left[quarter], claim, defended=False, note=note
        ),
        _against_final(everybody, half, left[half]),
        _against_final(everybody, quarter, left[quarter]),
        epsilon_finding(
            f"{half} of {users} stay, and the plan was made for {half}",
            careful_left[half],
            ClaimedLimit(f"certificate of the plan, for {half} users", careful.certified_epsilon()),
            defended=True,
        ),
    )
    return AttackReport(
        attack="dropout",
        lesson="Noise that is shared leaves with those who carry it. Plan for those who stay, and "
        "certify who came.",
        findings=findings,
        seconds=time.monotonic() - began,
        details={
            "users": users,
            "epsilon": epsilon,
            "delta": delta,
            "left": _curve(everybody, careful, left),
        },
    )


def dropout_chart(report: AttackReport) -> Chart:
    """Chart of ε over the users who stay: certified for both plans, and proved by the attack."""
    users, left = report.details["users"], report.details["left"]
    plan = report.details["epsilon"]
    stay = [point["honest"] for point in left]
    return Chart(
        title=f"sgdl-shuffle planned for {users} users: what those who stay keep",
        xlabel="honest users who take part",
        ylabel=f"ε at δ = {report.details['delta']:g} (nats)",
        curves=[
            PlottedCurve(
                f"final certificate, planned for {users}",
                CurveRole.CERTIFIED,
                stay,
                [point["final"] for point in left],
            ),
            PlottedCurve(
                f"proved by the attack, planned for {users} (lower bounds)",
                CurveRole.MEASURED,
                stay,
                [point["low"] for point in left],
                joined=False,
            ),
            PlottedCurve(
                f"final certificate, planned for {users // 2}",
                CurveRole.SAFE,
                stay,
                [point["careful_final"] for point in left],
            ),
            PlottedCurve(
                "what the plans promise", CurveRole.LIMIT, [stay[0], stay[-1]], [plan, plan]
            ),
        ],
        log=False,
    )


def _measure(
    work: Trials, plan: _Plan, users: int, trials: int, confidence: float
) -> dict[int, EpsilonBound]:
    """Lower bounds on ε, by the number of users who take part: 1/4, 2/4, 3/4 or all of `users`."""
    stage = f"planned for {plan.honest}"
    first, second = (
        work.run_trials(
            f"{stage}, value {value}", partial(partial_rounds, plan.spec, users, value), trials
        )
        for value in (0, 1)
    )
    quarter = users // QUARTERS
    return {
        quarter * (column + 1): epsilon_bound(
            first[:, column], second[:, column], plan.delta, confidence
        )
        for column in range(QUARTERS)
    }


def _against_final(plan: _Plan, stay: int, bound: EpsilonBound) -> Finding:
    claim = ClaimedLimit(f"final certificate for {stay} reports", plan.final(stay))
    return epsilon_finding(f"{stay} of {plan.users} users stay", bound, claim, defended=True)


def _curve(everybody: _Plan, careful: _Plan, left: dict[int, EpsilonBound]) -> list[dict[str, Any]]:
    return [
        {
            "honest": stay,
            "final": everybody.final(stay),
            "low": bound.lower,
            "estimate": bound.estimate,
            "careful_final": careful.final(stay),
        }
        for stay, bound in left.items()
    ]


ATTACK: Final = Attack(
    name="dropout",
    summary="Drop users after the plan: the guarantee weakens without their noise.",
    run=run_dropout,
    options={"users": USERS, "trials": TRIALS, "confidence": CONFIDENCE},
    chart=dropout_chart,
)
