"""The exchange attack on nodes' dummies in verified rounds: who notices, and who is blamed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from shuffledp_adversary.attacks.exchange.dummies import BREAK, DROP, EXCHANGE, FORGE, WITHHOLD
from shuffledp_adversary.attacks.exchange.node import Orders
from shuffledp_adversary.attacks.exchange.rounds import (
    LARGEST,
    ROUTES,
    USERS,
    TamperedRound,
    charge_of,
    open_tampered,
)
from shuffledp_adversary.attacks.findings import ClaimedLimit, Finding
from shuffledp_core.documents.models import Result, RoundPlan
from shuffledp_core.documents.signed import Signed
from shuffledp_core.runtime.keys import verify_from
from shuffledp_core.vocabulary import Mix, Outcome
from shuffledp_sim.system.processes import LocalSystem

SCENARIOS: Final[dict[str, tuple[int, ...]]] = {
    FORGE: (1,),
    DROP: (1,),
    EXCHANGE: (1,),
    BREAK: (1, 2, 3),
    WITHHOLD: (2, 3),
}
"""Orders about dummies, with the positions on the route at which they are tried."""

_TRIED: Final = {
    FORGE: "list dummies of its own in place of the last node's",
    DROP: "drop a dummy of the last node",
    EXCHANGE: "exchange a dummy of the last node",
    BREAK: "claim a dummy that does not open",
    WITHHOLD: "send no dummies",
}


@dataclass(frozen=True)
class DummiesObservation:
    """One verified round with noise of nodes, in which one node cheats with dummies.

    Attributes:
        order: the order of the malicious node.
        position: position of the cheating node on the route.
        published: whether the round had an answer.
        reason: the stated reason of the party that stopped it.
        charge: state of the round's charge.
    """

    order: str
    position: int
    published: bool
    reason: str | None
    charge: str

    @property
    def right(self) -> bool:
        """True if the round stopped and, if anything was mixed, its node was blamed."""
        named = f"node {self.position}: " in (self.reason or "")
        return not self.published and (named or self.order == WITHHOLD)


def plan_for(system: LocalSystem, position: int) -> RoundPlan:
    """Plan of a histogram with noise of nodes, with the malicious node at this position."""
    return RoundPlan(
        population=system.population,
        mechanism="node-histogram",
        size=LARGEST + 1,
        epsilon=2.0,
        delta=1e-3,
        min_reports=USERS - 1,
        max_reports=USERS,
        route=ROUTES[position],
        open_seconds=120.0,
        mix=Mix.VERIFIED,
        allow_corrupt=True,
    )


async def observe_dummies(
    system: LocalSystem, orders: Orders, order: str, position: int
) -> DummiesObservation:
    """Play one verified round with noise of nodes, in which the node carries out its order."""
    orders.give(order)
    tampered = await open_tampered(system, plan_for(system, position))
    if order != WITHHOLD:  # it ends the round before anyone could submit
        await tampered.submit()
    signed = await tampered.finish()
    orders.give(None)
    result = _result(tampered, signed)
    charge = await charge_of(system, tampered.round_id)
    published = result.outcome == Outcome.PUBLISHED
    return DummiesObservation(order, position, published, result.reason, charge)


def _result(tampered: TamperedRound, signed: Signed) -> Result:
    return verify_from(tampered.roster.analyst, signed, Result)


def findings_on_dummies(played: list[DummiesObservation]) -> list[Finding]:
    """A finding for each order: the round stops, and if anything was mixed, the node is blamed."""
    claim = ClaimedLimit("mixing: P1, P2 and P3", 1.0, at_least=True)
    findings = []
    for order, tried in _TRIED.items():
        rounds = [case for case in played if case.order == order]
        share = sum(case.right for case in rounds) / len(rounds)
        note = "; ".join(f"at {case.position}: {case.reason or 'published'}" for case in rounds)
        named = "" if order == WITHHOLD else ", the node named"
        quantity = f"stopped before a board{named}, as a share of the rounds"
        findings.append(
            Finding(
                f"noise of nodes: {tried}",
                quantity,
                claim,
                share,
                share,
                share,
                len(rounds),
                defended=True,
                note=note,
            )
        )
    return findings
