"""Flood: one user among colluding ones, the n-1 attack.

Athanasiou et al. 2025 assume it away: "the adversary does not control any users" (section 2.4). The
n - 1 is that of Serjantov, Dingledine and Syverson 2002.

What the adversary knows: what leaves the last node, and every message that its own n-1 users sent.
It needs no corrupt node; an entry node that lets one real user in and makes up the others does the
same.

What it does: it subtracts its own messages from the shuffled multiset. The messages of the one real
user, the victim, remain.

Why it works: the privacy of a shuffled round is made by the other *honest* users. Colluding users
add messages, but no noise that the adversary does not know. Alone, the victim keeps what its own
randomiser gives: ε_L.

What stops it: no one can make strangers honest, so a certificate must state how many honest users
it assumes. The accountant certifies for the `honest` users that the plan counts on (users less
`colluding`), credentials limit how many users an attacker can impersonate, and a user's own policy
limits ε_L, which is what remains of the worst flood. Where every mix node adds noise, one honest
node is
enough: no number of colluding users or other nodes takes its noise away (docs/accounting.md, N1).
"""

from __future__ import annotations

import time
from fractions import Fraction
from functools import partial
from typing import Any, Final

import msgspec
import numpy as np

from shuffledp_accountant.certificates import CertificateHeader, certificate
from shuffledp_accountant.ledger.charges import Account
from shuffledp_adversary.attacks.attack import CONFIDENCE, TRIALS, USERS, Attack
from shuffledp_adversary.attacks.findings import AttackReport, ClaimedLimit, Finding
from shuffledp_adversary.attacks.measuring import calibrate_spec, check_trials, epsilon_finding
from shuffledp_adversary.attacks.noise_views import (
    COLLUDING,
    HOPS,
    HonestNode,
    play_surrounded_rounds,
    rank_views,
)
from shuffledp_adversary.attacks.picture import Chart, CurveRole, PlottedCurve
from shuffledp_adversary.attacks.trials import Trials
from shuffledp_adversary.attacks.views import flooded_rounds
from shuffledp_adversary.evidence import DEFAULT_CONFIDENCE, EpsilonBound, epsilon_bound
from shuffledp_client.policy import Policy, check_policy
from shuffledp_core.documents.models import LedgerPosition, Party, RoundPlan
from shuffledp_core.errors import ClientPolicyRefusal, UsageError
from shuffledp_core.mechanisms import GeoShuffle, KRRHistogram, Mechanism, NodeHistogram
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.vocabulary import CertificateStage
from shuffledp_privacy.analysis import Cost, analyse
from shuffledp_privacy.bounds import Setting, epsilon_bounds
from shuffledp_privacy.calibration.calibrate import Target

HONEST_MEASURED = (1, 3, 10, 30, 100)
"""Numbers of honest users, the victim among them, at which the remaining ε is measured."""

PLAYED: Final = 1000
"""Most rounds of each dataset that a mix node's own code plays: some 20 ms each."""

_NOISELESS: Final = Fraction(1000)
"""ε of a law whose noise is 0: another value has a probability of about e^-1000."""


def run_flood(
    *,
    users: int = 1000,
    epsilon: float = 0.3,
    delta: float = 1e-6,
    policy_limit: float = 2.5,
    trials: int = 20_000,
    played: int = PLAYED,
    confidence: float = DEFAULT_CONFIDENCE,
) -> AttackReport:
    """Run the attack on a histogram and a sum, against certificates for only a few honest users.

    A third round has the noise of its nodes; all nodes but one are the adversary's.

    Args:
        users: reports of the round, at least 10; all but the victim's are the adversary's.
        epsilon: ε (nats) of the histogram round for `users` honest users; the sum round is
            calibrated for 1.
        delta: δ of both.
        policy_limit: `epsilon_corrupted` of the victim's own policy (nats).
        trials: rounds that are simulated for each of two neighbouring datasets.
        played: most rounds of each dataset that a mix node's own code plays; no more than `trials`.
        confidence: confidence of the intervals.

    Raises:
        UsageError: a parameter is out of range.
        CannotCertify: no mechanism meets the target.
    """
    check_trials(min(trials, played), confidence)
    if users < 10:
        raise UsageError(f"users must be at least 10 to be worth flooding, not {users}")
    began = time.monotonic()
    histogram = calibrate_spec(KRRHistogram, Target(epsilon, delta, users, users, symbols=10))
    total = calibrate_spec(GeoShuffle, Target(1.0, delta, users, users, max_value=20))
    steps = [count for count in HONEST_MEASURED if count < users]
    with Trials() as work:

        def measure(spec: Mechanism, count: int) -> EpsilonBound:
            draws = [partial(flooded_rounds, spec, count, users, value) for value in (0, 1)]
            first, second = (
                work.run_trials(f"{spec.kind}, {count} honest", draw, trials)[:, 0]
                for draw in draws
            )
            return epsilon_bound(first, second, delta, confidence)

        curve = {count: measure(histogram, count) for count in steps}
        flooded: dict[Mechanism, EpsilonBound] = {histogram: curve[1], total: measure(total, 1)}
        noisy = _surround_with_nodes(work, delta, min(trials, played), confidence)
    findings = [
        finding
        for spec, bound in flooded.items()
        for finding in _alone(spec, users, bound, policy_limit)
    ]
    honest = steps[-1]
    certified = epsilon_bounds(histogram, Setting(users, honest), delta).certified
    claim = ClaimedLimit(f"certificate that counts {honest} honest", certified)
    plan = (
        f"{histogram.kind}: the plan allows for {users - honest} colluding users, and so many "
        "collude"
    )
    findings.append(epsilon_finding(plan, curve[honest], claim, defended=True))
    findings += noisy
    return AttackReport(
        attack="flood",
        lesson="Where users make the noise, only honest users hide a user: ask a certificate how "
        "many it counts on. Alone, ε_L is left. Where nodes make it, one honest node is enough.",
        findings=tuple(findings),
        seconds=time.monotonic() - began,
        details={"users": users, "delta": delta, "curve": _curve(histogram, users, delta, curve)},
    )


def flood_chart(report: AttackReport) -> Chart:
    """Chart of ε over the number of honest users, certified and measured."""
    curve = report.details["curve"]
    certified, measured = curve["certified"], curve["measured"]
    users = report.details["users"]
    counted = certified[-1]["epsilon"]
    xs = [point["honest"] for point in certified]
    return Chart(
        title=f"{curve['mechanism']}, {users:,} users: what the honest ones leave of the guarantee",
        xlabel="honest users, the victim among them",
        ylabel=f"ε at δ = {report.details['delta']:g} (nats)",
        curves=[
            PlottedCurve(
                "certified for this number of honest users",
                CurveRole.CERTIFIED,
                xs,
                [point["epsilon"] for point in certified],
            ),
            PlottedCurve(
                "proved by the attack (lower bound)",
                CurveRole.MEASURED,
                [point["honest"] for point in measured],
                [point["low"] for point in measured],
                joined=False,
            ),
            PlottedCurve(
                "the certificate that counts everybody",
                CurveRole.LIMIT,
                [xs[0], xs[-1]],
                [counted, counted],
            ),
        ],
    )


def _surround_with_nodes(
    work: Trials, delta: float, rounds: int, confidence: float
) -> list[Finding]:
    """Findings on a victim protected only by one mix node, honest or without its noise."""
    users = COLLUDING + 1
    spec = calibrate_spec(NodeHistogram, Target(1.0, delta, users, 1, symbols=3))
    certified = epsilon_bounds(spec, Setting(users, 1), delta).certified
    noiseless = msgspec.structs.replace(spec, noise_epsilon=_NOISELESS)
    nodes = {
        "the other is honest": HonestNode(spec, spec),
        "the other adds dummies without noise": HonestNode(spec, noiseless),
        "the other adds no dummies": HonestNode(spec, None),
    }
    findings = []
    for words, node in nodes.items():
        stage = f"{spec.kind}, {words}"
        first, second = (
            work.run_trials(stage, partial(play_surrounded_rounds, node, value), rounds)
            for value in (0, 1)
        )
        findings.append(
            epsilon_finding(
                f"{spec.kind}: {users - 1} of {users} users and {HOPS - 1} of {HOPS} nodes "
                f"collude, {words}",
                epsilon_bound(*rank_views(first, second), delta, confidence),
                ClaimedLimit("certificate that counts 1 honest node", certified),
                defended=node.law is spec,
            )
        )
    return findings


def _alone(
    spec: Mechanism, users: int, bound: EpsilonBound, limit: float
) -> tuple[Finding, Finding, Finding]:
    """Findings on the flooded victim's ε: two measurements, and the victim's own policy."""
    everybody, alone = (
        epsilon_bounds(spec, Setting(users, honest), bound.delta).certified for honest in (users, 1)
    )
    flooded = f"{spec.kind}: {users - 1} of {users} users collude"
    refusal = _refusal(spec, users, bound.delta, limit)
    policy = ClaimedLimit("the victim's own policy on ε_L", limit)
    nothing = EpsilonBound(
        0.0, 0.0, bound.delta, bound.confidence, 0, (0, 0)
    )  # no message, so nothing to run
    return (
        epsilon_finding(
            flooded,
            bound,
            ClaimedLimit(f"certificate that counts {users} honest", everybody),
            defended=False,
        ),
        epsilon_finding(
            flooded, bound, ClaimedLimit("certificate that counts 1 honest", alone), defended=True
        ),
        epsilon_finding(
            f"{flooded}, and the victim has a policy",
            bound if refusal is None else nothing,
            policy,
            defended=True,
            note="takes part" if refusal is None else f"sends nothing: {refusal}",
        ),
    )


def _refusal(spec: Mechanism, users: int, delta: float, limit: float) -> str | None:
    """The client's refusal of the round by its own policy, on the accountant's certificate.

    None if the policy allows the round.
    """
    nodes = tuple(
        Party(name=f"node-{i}", role="node", operator=f"operator-{i}", address="", identity_key="")
        for i in (1, 2, 3)
    )
    plan = RoundPlan(
        population="demo",
        mechanism=spec.kind,
        size=spec.size,
        epsilon=1.0,
        delta=delta,
        min_reports=users,
        max_reports=users,
        route=tuple(node.name for node in nodes),
    )
    cost = Cost(spec, Setting(users, users), delta)
    account = Account(LedgerPosition(entry=1, spent=None, delta=delta, limit=plan.epsilon), ())
    analysis = analyse(cost, len(nodes))
    header = CertificateHeader(CertificateStage.PLAN, "demo", "00" * 16, issued_at=0, lifetime=1)
    issued = certificate(header, plan, analysis, account)
    policy = Policy(
        epsilon=plan.epsilon, delta=delta, epsilon_corrupted=limit, operators=len(nodes)
    )
    try:
        check_policy(policy, issued, Geometry.of(spec, plan.suite, len(nodes)), nodes)
    except ClientPolicyRefusal as refusal:
        return str(refusal)
    return None


def _curve(
    spec: Mechanism, users: int, delta: float, measured: dict[int, EpsilonBound]
) -> dict[str, Any]:
    honest = np.unique(np.geomspace(1, users, 25).round().astype(int)).tolist()
    return {
        "mechanism": spec.kind,
        "certified": [
            {
                "honest": count,
                "epsilon": epsilon_bounds(spec, Setting(users, count), delta).certified,
            }
            for count in honest
        ],
        "measured": [{"honest": count, "low": bound.lower} for count, bound in measured.items()],
    }


ATTACK: Final = Attack(
    name="flood",
    summary="Surround one user with colluding ones.",
    run=run_flood,
    options={"users": USERS, "trials": TRIALS, "confidence": CONFIDENCE},
    chart=flood_chart,
)
