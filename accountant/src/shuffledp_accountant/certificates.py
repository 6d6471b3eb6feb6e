"""Makes the certificates of rounds (core's `Certificate`); `rechecking` recomputes them.

Pure: signer and time are the caller's. docs/accounting.md says what each `basis` rests on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import msgspec

from shuffledp_accountant.ledger.charges import Account
from shuffledp_core.documents.losses import NO_LOSSES, Losses, charged_reports, honest_reports
from shuffledp_core.documents.models import (
    Certificate,
    CorruptedGuarantee,
    EpsilonBounds,
    RoundPlan,
)
from shuffledp_core.errors import CannotCertify
from shuffledp_core.mechanisms import Mechanism
from shuffledp_core.vocabulary import CertificateStage, Mix
from shuffledp_privacy.analysis import Cost, CostAnalysis, analyse, cost_of, largest_distance


def analyse_final(
    plan: RoundPlan, mechanism: Mechanism, accepted: int, planned: float, losses: Losses = NO_LOSSES
) -> CostAnalysis:
    """The analysis of the reports that arrived, for the final certificate.

    A plain round counts on no more honest reports than planned: all others may be forged (C17). In
    a verified round further honest users never weaken the guarantee, but may weaken its bound,
    since each of them may be clamped. So the better of two valid bounds is taken: for all honest
    users, and for the planned number with all others counted as dishonest.

    Args:
        plan: the operator's plan.
        mechanism: the mechanism that ran.
        accepted: reports that arrived, more than `plan.colluding`.
        planned: ε certified for the plan, nats.
        losses: messages of these reports that do not count; they leave fewer honest ones (core's
            `losses`).

    Raises:
        CannotCertify: no sound bound is known, or no honest report may be left.
    """
    least = plan.honest
    verified = plan.mix == Mix.VERIFIED
    honest = honest_reports(accepted, plan.min_reports, least, mechanism, losses, verified=verified)
    if honest < 1:
        raise CannotCertify(
            f"the {losses.invalid} invalid messages of {accepted} reports may be those of all "
            f"users but the {plan.colluding} who may collude: nothing can be certified for this "
            "round"
        )
    cost = cost_of(plan, mechanism, accepted)
    # All reports that arrived are users, but only these are counted on to hide anyone.
    cost = replace(cost, setting=replace(cost.setting, honest=honest))
    analysis = analyse(cost, len(plan.route))
    if analysis.bounds.certified <= planned or honest <= least:
        return analysis
    # Counted as dishonest, the others no longer add to the chance that someone is clamped (S6).
    fewer = replace(cost, setting=replace(cost.setting, honest=least))
    other = analyse(fewer, len(plan.route))
    return min(analysis, other, key=lambda analysed: analysed.certified)


def charged_cost(
    plan: RoundPlan, mechanism: Mechanism, accepted: int, losses: Losses = NO_LOSSES
) -> tuple[Cost, float]:
    """Least cost that a settled round is charged, and the ε of that cost.

    Arguments and errors as `analyse_final`.

    Unlike the certificate, it rests on the plan's assumption unless that is refuted
    (docs/accounting.md, C17).
    """
    honest = charged_reports(accepted, plan.min_reports, plan.honest, mechanism, losses)
    cost = cost_of(plan, mechanism, accepted)
    cost = replace(cost, setting=replace(cost.setting, honest=max(1, honest)))
    return cost, analyse(cost, len(plan.route)).bounds.certified


@dataclass(frozen=True, slots=True)
class CertificateHeader:
    """Identity of a certificate: its round, stage, and period of validity.

    Attributes:
        stage: `CertificateStage.PLAN` or `CertificateStage.FINAL`.
        deployment: the roster's name of it.
        round_id: hex.
        issued_at: milliseconds since 1970.
        lifetime: milliseconds from then on during which it may be relied upon.

    Raises:
        ValueError: an unknown stage.
    """

    stage: str
    deployment: str
    round_id: str
    issued_at: int
    lifetime: int

    def __post_init__(self) -> None:
        if self.stage not in {CertificateStage.PLAN, CertificateStage.FINAL}:
            raise ValueError(
                f"stage must be {CertificateStage.PLAN!r} or {CertificateStage.FINAL!r}, not "
                f"{self.stage!r}"
            )


def certificate(
    header: CertificateHeader,
    plan: RoundPlan,
    analysis: CostAnalysis,
    account: Account,
    losses: Losses = NO_LOSSES,
) -> Certificate:
    """Make the unsigned certificate of a round.

    Args:
        header: round, stage and validity.
        plan: the operator's plan, with whose ε `holds` compares.
        analysis: mechanism and setting that the guarantee is for, and its bounds.
        account: the charge's place in the ledger.
        losses: messages that do not count, of a final certificate.
    """
    cost = analysis.cost
    bounds, setting = analysis.bounds, cost.setting
    dishonest = losses.dishonest(cost.mechanism.messages_per_user)
    # What the round itself disproves: more users cheated, or fewer honest reports are left, than
    # the plan assumed.
    refutation = _refutation(plan, cost, dishonest)
    holds = bounds.certified <= plan.epsilon and not refutation
    return Certificate(
        deployment=header.deployment,
        round_id=header.round_id,
        stage=header.stage,
        population=plan.population,
        mechanism=cost.mechanism,
        users=setting.users,
        honest=setting.honest,
        route=plan.route,
        adjacency=setting.adjacency,
        max_distance=_distance(cost),
        delta=cost.delta,
        epsilon=EpsilonBounds(
            certified=_finite(bounds.certified),
            attained=_finite(bounds.attained),
            published=None if bounds.published is None else _finite(bounds.published),
        ),
        corrupted=CorruptedGuarantee(
            epsilon=_finite(analysis.corrupted.epsilon), delta=analysis.corrupted.delta
        ),
        standard_error=analysis.error,
        assumptions=_assumptions(header.stage, cost, plan, losses),
        basis=(*_basis(plan, analysis, account), *refutation),
        holds=holds,
        ledger=account.position,
        issued_at=header.issued_at,
        expires_at=header.issued_at + header.lifetime,
        dropped=losses.dropped,
        invalid=losses.invalid,
        mix=Mix.VERIFIED if plan.mix == Mix.VERIFIED else msgspec.UNSET,
        wording=plan.wording,
    )


def _distance(cost: Cost) -> int:
    return cost.setting.max_distance or largest_distance(cost.mechanism)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _assumptions(stage: str, cost: Cost, plan: RoundPlan, losses: Losses) -> tuple[str, ...]:
    users, honest, nodes = cost.setting.users, cost.setting.honest, len(plan.route)
    lost = (
        f"; {losses.dropped} messages were dropped by nodes, because they did not open or stood "
        f"in a batch again, and {losses.invalid} on the board are of parties who do not follow the "
        "protocol"
        if losses != NO_LOSSES
        else ""
    )
    counted = (
        f"exactly {users} reports were mixed: each of the {nodes} nodes signed that it relayed so "
        "many"
        if stage == CertificateStage.FINAL
        else f"at least {users} reports arrive, or nothing is forwarded"
    )
    if not cost.mechanism.needs_crowd:
        return (
            counted,
            f"holds while one of these {nodes} nodes is honest; no honest people needed: all other "
            f"reports may be made up, repeated or missing{lost}",
            "the honest node permutes with fresh randomness and adds the certified number of "
            "dummies, and its round key stays secret until it is erased",
            "the analyst, all other nodes and all other users may collude",
            "clients run the certified randomiser with exactly these parameters",
        )
    return (
        counted,
        f"at least {honest} of the mixed reports are whole reports of users who follow the "
        f"protocol, the protected user among them; {_not_honest(plan)}{lost}",
        f"at least one of the {nodes} nodes of the route is honest: it permutes with fresh "
        "randomness, and its round key stays secret until it is erased",
        "the analyst, all other nodes and all other users may collude",
        "clients run the certified randomiser with exactly these parameters",
        *_of_kept_responses(cost.mechanism),
    )


def _not_honest(plan: RoundPlan) -> str:
    if plan.mix == Mix.VERIFIED:
        return (
            "everybody who took part has a credential, and those whom an enrolment authority "
            "makes up are not"
        )
    return "reports that an entry node or an enrolment authority makes up are not"


def _of_kept_responses(mechanism: Mechanism) -> tuple[str, ...]:
    if mechanism.response_name is None:
        return ()
    return (
        "each person's one device drew its response to this question once and still has it: "
        "whoever draws it n times, after a loss of its state or under a second credential, keeps "
        "n times ε_L",
    )


def _refutation(plan: RoundPlan, cost: Cost, dishonest: int) -> tuple[str, ...]:
    """Lines of the basis on assumptions of the plan that are known to be wrong."""
    if not cost.mechanism.needs_crowd:
        return ()  # nothing is assumed of people
    honest = cost.setting.honest
    if dishonest > plan.colluding:
        return (
            f"the plan's assumption does NOT hold: it allows for {plan.colluding} colluding "
            f"users, and the board shows at least {dishonest}",
        )
    if honest < plan.honest:
        return (
            f"the plan's assumption does NOT hold: it counts on {plan.honest} whole reports of "
            f"honest users, and {honest} may be left",
        )
    return ()


def _basis(plan: RoundPlan, analysis: CostAnalysis, account: Account) -> tuple[str, ...]:
    position = account.position
    lines = [
        *analysis.bounds.lines(),
        *(f"all nodes corrupt: {line}" for line in analysis.corrupted.basis),
    ]
    lines += [f"ledger: {line}" for line in account.basis]
    if not analysis.bounds.certified <= plan.epsilon:
        got = analysis.bounds.certified
        what = (
            f"epsilon is {got:.6g}" if math.isfinite(got) else "no finite epsilon can be certified"
        )
        lines.append(f"the planned epsilon {plan.epsilon:g} does NOT hold: {what}")
    if position.spent is None or position.spent > position.limit:
        total = "without a finite bound" if position.spent is None else f"{position.spent:.6g}"
        lines.append(
            f"the population's budget is OVERSPENT: {total} of {position.limit:g} at delta "
            f"{position.delta:g}"
        )
    return tuple(lines)
