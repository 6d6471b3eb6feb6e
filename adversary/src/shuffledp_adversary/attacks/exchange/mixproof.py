"""The exchange attack on rounds with provable mixing: who notices, and who is blamed."""

from __future__ import annotations

import asyncio
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
from rich.console import Console

from shuffledp.progress import Stages
from shuffledp_adversary.attacks.exchange.culprits import (
    LAYERS,
    CulpritsObservation,
    counts,
    named_in,
    observe_culprits,
)
from shuffledp_adversary.attacks.exchange.framing import FRAME
from shuffledp_adversary.attacks.exchange.node import Orders
from shuffledp_adversary.attacks.exchange.noise_rounds import SCENARIOS as DUMMY_SCENARIOS
from shuffledp_adversary.attacks.exchange.noise_rounds import (
    DummiesObservation,
    findings_on_dummies,
    observe_dummies,
)
from shuffledp_adversary.attacks.exchange.random_rounds import (
    GOOD,
    POSITIONS,
    RandomObservation,
    tally,
    tampered_by_node,
    tampered_by_user,
)
from shuffledp_adversary.attacks.exchange.rounds import (
    Observation,
    TamperedRound,
    judge,
    open_tampered,
    plan_for,
    tamperable_system,
)
from shuffledp_adversary.attacks.exchange.spoiled import respelled_submission
from shuffledp_adversary.attacks.exchange.tampering import CROWD
from shuffledp_adversary.attacks.findings import AttackReport, ClaimedLimit, Finding
from shuffledp_core.documents.models import Result
from shuffledp_core.documents.signed import Signed
from shuffledp_core.errors import ShuffleDPError, UsageError
from shuffledp_core.runtime.keys import verify_from
from shuffledp_core.vocabulary import Mix, Outcome
from shuffledp_sim.system.processes import LocalSystem

SCENARIOS: Final[dict[str, tuple[int, ...]]] = {
    "copy": (1, 2),
    "mark": (1, 2),
    "substitute": (1,),
    "exchange": (1, 2, 3),
    "isolate": (1,),
    CROWD: (1,),
    "shrink": (1, 3),
    "grow": (1, 3),
    FRAME: (2, 3),
}
"""Tamperings by a node, with the positions on the route at which they are tried (1: entry, 3:
last).
"""

_TRIED: Final = {
    FRAME: "frame: accuse an honest user's record that opens, with bit 255 of its share set",
}
"""Descriptions of tamperings whose names are not self-explanatory."""

_ONE_ENCODING: Final = "an element is decoded, encoded again and compared: docs/mixing.md, T2"
"""The check that refuses a second spelling, for people."""

_GOAL: Final = "mixing: P1, P2 and P3"

_LESSON: Final = (
    "In a verified round a node that repeats, marks, loses, exchanges or makes up messages is "
    "named by the next party before anything of the victim is shown, also where it takes away the "
    "victim's crowd. A user whose message does not open is named, and the others get their "
    "answer. A node that accuses a message that does open, by a second spelling of the share that "
    "opens it, is named itself, and no user is. A node that drops, exchanges or forges another "
    "node's dummies is named as well; one that sends none ends the round before it is mixed."
)


@dataclass(frozen=True)
class MixproofObservation:
    """One tampered round: the observation, and the reason that the stopping party stated.

    `framed` counts the users whom the published history names; every user of the round is honest.
    """

    seen: Observation
    reason: str | None
    framed: int = 0

    @property
    def names_node(self) -> bool:
        """True if the malicious node is blamed, by its position."""
        return f"node {self.seen.position}: " in (self.reason or "")

    def to_dict(self) -> dict[str, Any]:
        """All attributes, for JSON."""
        return {
            **self.seen.to_dict(),
            "reason": self.reason,
            "names_node": self.names_node,
            "framed": self.framed,
        }


@dataclass(frozen=True)
class ClaimObservation:
    """One round in which a user claims one key in two encodings, at an honest entry node.

    `refusal` is the entry node's error, None if it gave a receipt; `reason` is why the round
    failed.
    """

    refusal: str | None
    reason: str | None

    @property
    def right(self) -> bool:
        """True if the entry node refused the claim, and all other users were counted."""
        return self.refusal is not None and self.reason is None


def run_mixproof(users: int, culprits: str, tamperings: int) -> AttackReport:
    """Run every tampering at each position in real verified rounds, and rounds with cheating users.

    Then run random ones, by a node at each position and by a user.

    Args:
        users: number of users of each round with users who cheat.
        culprits: numbers of users who do so, for example "1,10,100"; each number is played at each
            layer.
        tamperings: random ones at each position, and as many by a user; none for 0.

    Raises:
        UsageError: there are too few users for that many culprits, or `tamperings` is negative.
        ShuffleDPError: the system did not start, or an honest part of it failed.
    """
    began = time.perf_counter()
    numbers = counts(users, culprits)
    if tamperings < 0:
        raise UsageError(f"--tamperings must be at least 0, not {tamperings}")
    with (
        tempfile.TemporaryDirectory(prefix="shuffledp-exchange-") as folder,
        Stages(Console(stderr=True)) as stages,
    ):
        played = asyncio.run(
            _play(Path(folder), stages, VerifiedRunSizes(users, numbers, tamperings))
        )
        stages.finish()
    details: dict[str, Any] = {
        "observations": [seen.to_dict() for seen in played.nodes],
        "users": [asdict(seen) for seen in played.cheated],
        "respelled_claims": [asdict(seen) for seen in played.claims],
        "dummies": [asdict(seen) for seen in played.dummies],
        "random": tally(played.drawn),
        "broken": [asdict(seen) for seen in played.drawn if seen.outcome not in GOOD],
    }
    findings = (
        *_of_nodes(played.nodes),
        *_of_users(played.cheated),
        *_of_claims(played.claims),
        *findings_on_dummies(played.dummies),
        *_of_random(played.drawn),
    )
    return AttackReport("exchange", _LESSON, findings, time.perf_counter() - began, details)


@dataclass(frozen=True)
class VerifiedRunSizes:
    """Numbers of users, of culprits in rounds with culprits, and of random tamperings."""

    users: int
    culprits: tuple[int, ...]
    tamperings: int


@dataclass
class _Observations:
    nodes: list[MixproofObservation] = field(default_factory=list)
    cheated: list[CulpritsObservation] = field(default_factory=list)
    claims: list[ClaimObservation] = field(default_factory=list)
    dummies: list[DummiesObservation] = field(default_factory=list)
    drawn: list[RandomObservation] = field(default_factory=list)

    def __len__(self) -> int:
        others = len(self.claims) + len(self.dummies) + len(self.drawn)
        return len(self.nodes) + len(self.cheated) + others


async def _play(folder: Path, stages: Stages, sizes: VerifiedRunSizes) -> _Observations:
    scenarios = [
        (name, position) for name, positions in SCENARIOS.items() for position in positions
    ]
    noise = [(name, position) for name, tried in DUMMY_SCENARIOS.items() for position in tried]
    crowds = [(layer, number) for number in sizes.culprits for layer in LAYERS]
    total = len(scenarios) + len(crowds) + 1 + len(noise) + sizes.tamperings * (len(POSITIONS) + 1)
    system, orders = tamperable_system(folder)
    played = _Observations()
    try:
        await system.start(lambda done, of: stages.update("starting processes", done, of))
        for name, position in scenarios:
            played.nodes.append(await observe_node(system, orders, name, position))
            stages.update("rounds", len(played), total)
        for layer, number in crowds:
            played.cheated.append(await observe_culprits(system, layer, sizes.users, number))
            stages.update("rounds", len(played), total)
        played.claims.append(await observe_respelled_claim(system))
        stages.update("rounds", len(played), total)
        for name, position in noise:
            played.dummies.append(await observe_dummies(system, orders, name, position))
            stages.update("rounds", len(played), total)
        for number in range(sizes.tamperings):
            for position in POSITIONS:
                played.drawn.append(await tampered_by_node(system, orders, position, str(number)))
            played.drawn.append(await tampered_by_user(system, str(number)))
            stages.update("rounds", len(played), total)
    finally:
        system.stop()
    return played


async def _open(system: LocalSystem, position: int) -> TamperedRound:
    return await open_tampered(
        system, msgspec.structs.replace(plan_for(system, position), mix=Mix.VERIFIED)
    )


async def observe_node(
    system: LocalSystem, orders: Orders, tampering: str, position: int
) -> MixproofObservation:
    """Play one verified round in which the malicious node carries out its order."""
    orders.give(tampering)
    tampered = await _open(system, position)
    await tampered.submit()
    signed = await tampered.finish()
    seen = await judge(tampered, signed, orders.made_up(), tampering, position)
    orders.give(None)
    result = _result(tampered, signed)
    framed = len(await named_in(tampered, signed)) if result.outcome == Outcome.PUBLISHED else 0
    return MixproofObservation(seen, result.reason, framed)


async def observe_respelled_claim(system: LocalSystem) -> ClaimObservation:
    """Play one verified round in which a user claims one key in two encodings."""
    played = await _open(system, 3)
    await played.submit()
    refusal = None
    try:
        [member] = played.members(1)
        await played.send([respelled_submission(played.verified, member)])
    except ShuffleDPError as error:
        refusal = f"{type(error).__name__}: {error}"
    return ClaimObservation(refusal, _result(played, await played.finish()).reason)


def _result(tampered: TamperedRound, signed: Signed) -> Result:
    return verify_from(tampered.roster.analyst, signed, Result)


def _of_nodes(nodes: list[MixproofObservation]) -> list[Finding]:
    findings = []
    for name in SCENARIOS:
        rounds = [case for case in nodes if case.seen.tampering == name]
        note = "; ".join(
            f"at {case.seen.position}: {case.reason or case.seen.public}" for case in rounds
        )
        note = f"{note}; {_ONE_ENCODING}" if name == FRAME else note
        tried = _TRIED.get(name, name)
        stopped = sum(case.seen.stopped_by is not None for case in rounds)
        findings.append(
            _share(
                tried,
                "stopped before a board, as a share of the tampered rounds",
                stopped,
                rounds,
                note,
            )
        )
        named = sum(case.names_node for case in rounds)
        findings.append(
            _share(tried, "the node named, as a share of the tampered rounds", named, rounds, "")
        )
    return [*findings, _nobody_framed(nodes)]


def _nobody_framed(nodes: list[MixproofObservation]) -> Finding:
    framed = float(sum(case.framed for case in nodes))
    quantity, claim = "honest users named and left out", ClaimedLimit(_GOAL, 0.0)
    scenario = "all of these rounds"
    return Finding(scenario, quantity, claim, framed, framed, framed, len(nodes), defended=True)


def _of_claims(claims: list[ClaimObservation]) -> list[Finding]:
    note = "; ".join(case.refusal or case.reason or "accepted" for case in claims)
    quantity = "refused at the door, the others answered, as a share of the rounds"
    right = sum(case.right for case in claims)
    return [_share("a user's claim with one key in two spellings", quantity, right, claims, note)]


def _of_users(cheated: list[CulpritsObservation]) -> list[Finding]:
    findings = []
    for number, users in dict.fromkeys((case.culprits, case.users) for case in cheated):
        rounds = [case for case in cheated if case.culprits == number]
        who = "a message" if number == 1 else f"a message of each of {number:,} users"
        seconds = ", ".join(f"{case.seconds:.1f} s at {case.layer}" for case in rounds)
        findings.append(
            _share(
                f"{who} that does not open, {users:,} users, at each layer",
                "the culprits named, the others answered, as a share of the rounds",
                sum(case.right for case in rounds),
                rounds,
                f"from the close to the result: {seconds}",
            )
        )
    return findings


def _of_random(drawn: list[RandomObservation]) -> list[Finding]:
    findings = []
    for who, outcomes in tally(drawn).items():
        rounds = [case for case in drawn if case.by == who]
        good = sum(case.outcome in GOOD for case in rounds)
        note = ", ".join(f"{outcome}: {times}" for outcome, times in sorted(outcomes.items()))
        quantity = "noticed or without effect, and no honest party named, as a share of the rounds"
        findings.append(_share(f"random tampering by {who}", quantity, good, rounds, note))
    return findings


def _share(scenario: str, quantity: str, successes: int, rounds: list[Any], note: str) -> Finding:
    share = successes / len(rounds)
    claim = ClaimedLimit(_GOAL, 1.0, at_least=True)
    return Finding(
        scenario, quantity, claim, share, share, share, len(rounds), defended=True, note=note
    )
