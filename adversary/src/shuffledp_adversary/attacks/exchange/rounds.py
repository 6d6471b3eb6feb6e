"""Real rounds with one malicious node: its tampering, its gain, and who noticed with what error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from shuffledp_adversary.attacks.exchange.node import Orders
from shuffledp_client.submission import PreparedSubmission
from shuffledp_core.documents.models import Result, RoundPlan
from shuffledp_core.documents.signed import Signed
from shuffledp_core.runtime.keys import Identity, verify_from
from shuffledp_core.transport.rpc_errors import translate_errors
from shuffledp_core.transport.tls import OPERATOR, channel_to
from shuffledp_core.vocabulary import Outcome
from shuffledp_ops.keys.pki import ACCOUNTANT, ANALYST
from shuffledp_ops.rounds.running import control_of, open_round
from shuffledp_proto.v1 import accountant_pb2, accountant_pb2_grpc
from shuffledp_sim.system.processes import LocalBudget, LocalSystem
from shuffledp_sim.users.fleet import System
from shuffledp_sim.users.small_round import SmallRound

USERS: Final = 12
"""Honest users of a round; the first one is the victim."""

LARGEST: Final = 2
"""Values are 0, 1 and 2: two messages a user."""

MALICIOUS: Final = "node-1"
ROUTES: Final = {
    1: ("node-1", "node-2", "node-3"),
    2: ("node-2", "node-1", "node-3"),
    3: ("node-2", "node-3", "node-1"),
}
"""Routes that put the malicious node at each position; the other two nodes run the honest program.
"""

NOBODY: Final = "nobody"


@dataclass(frozen=True)
class Observation:
    """Outcome of one tampered round.

    Attributes:
        tampering: name of the tampering.
        position: position of the malicious node on the route.
        stopped_by: the node or analyst that stopped the round; None if it was published.
        users: number of honest users who miss messages that they hold a receipt for.
        victim: whether the victim is one of them.
        error: class of the error that the noticing party raised; None if no party noticed.
        public: public outcome: "failed", or "published" with the number of reports.
        charge: state of the round's charge in the ledger afterwards.
        messages: number of messages of each user.
        changed: messages on the published board that no user sent; 0 without a board.
        candidates: board messages among which the adversary can only guess (see `suspects`); None
            without a board.
        identified: number of messages that the adversary knows to be the victim's.
    """

    tampering: str
    position: int
    stopped_by: str | None
    users: int
    victim: bool
    error: str | None
    public: str
    charge: str
    messages: int
    changed: int
    candidates: int | None
    identified: int

    @property
    def was_noticed(self) -> bool:
        """True if any honest party noticed."""
        return self.stopped_by is not None or self.users > 0

    @property
    def by(self) -> str:
        """Names of the parties that noticed, for people."""
        if self.stopped_by is not None:
            return self.stopped_by
        if self.users == 0:
            return NOBODY
        if not self.victim:
            return f"{self.users} other users" if self.users > 1 else "another user"
        return "the victim" if self.users == 1 else f"the victim and {self.users - 1} more"

    @property
    def answer_changed(self) -> bool:
        """True if the published answer differs from the answer to the users' messages."""
        return self.stopped_by is None and (self.changed > 0 or self.users > 0)

    def to_dict(self) -> dict[str, Any]:
        """All attributes, and `noticed_by`, for JSON."""
        return {**asdict(self), "noticed_by": self.by}


@dataclass(frozen=True)
class Past:
    """Board and victim's messages of an earlier round, from which an onion is replayed."""

    board: frozenset[bytes] = frozenset()
    victims: frozenset[bytes] = frozenset()


NO_PAST: Final = Past()


def tamperable_system(folder: Path) -> tuple[LocalSystem, Orders]:
    """Context with a system of three nodes, the first malicious, and that node's orders.

    It is not started yet.
    """
    orders = Orders(folder / "orders")
    orders.give(None)
    system = LocalSystem(
        folder,
        nodes=3,
        budget=LocalBudget(1e9, 0.5),
        broker=False,
        programs={
            MALICIOUS: [
                "shuffledp_adversary.attacks.exchange.process",
                "--orders",
                str(orders.folder),
            ]
        },
    )
    return system, orders


def plan_for(
    system: LocalSystem, position: int, max_reports: int = USERS + 1, min_reports: int = USERS - 1
) -> RoundPlan:
    """Plan of a sum over the users, with the malicious node at this position.

    One report more or less is allowed.
    """
    return RoundPlan(
        population=system.population,
        mechanism="rr-shuffle",
        size=LARGEST,
        epsilon=6.0,
        delta=1e-2,
        min_reports=min_reports,
        max_reports=max_reports,
        route=ROUTES[position],
        open_seconds=120.0,
        allow_corrupt=True,  # the malicious node says what it is, as every node of foreign code
    )


class TamperedRound(SmallRound):
    """One open round with honest users, the first of whom is the victim.

    `submit`, then `finish`.
    """

    def prepare(self, users: int, enrolment: Identity) -> list[PreparedSubmission]:
        """Make the submissions of new users with credentials under this key."""
        return self.prepare_all([number % (LARGEST + 1) for number in range(users)], enrolment)

    async def submit(self, users: int = USERS) -> None:
        """Submit for new honest users, the victim before the others.

        Each holds a checked receipt.
        """
        sent = self.prepare(users, self.enrolment)
        # First, so that it is the first envelope of the spool, where the malicious entry node takes
        # its victim.
        await self.send(sent[:1])
        await self.send(sent[1:])
        self.honest += sent

    @property
    def victims(self) -> set[bytes]:
        """The messages of the victim, who is the first user."""
        return set(self.split(self.honest[0].messages))


async def open_tampered(system: LocalSystem, plan: RoundPlan) -> TamperedRound:
    """Open a new round with a malicious node."""
    async with control_of(system.deployment) as control:
        return TamperedRound(system, await open_round(control, plan))


async def observe(
    system: LocalSystem, orders: Orders, tampering: str | None, position: int
) -> Observation:
    """Play one round in which the malicious node, at this position, carries out its order."""
    past = NO_PAST
    if tampering == "replay":  # there must be something to replay
        earlier, signed = await _play(system, position)
        board = await earlier.board(verify_from(earlier.roster.analyst, signed, Result))
        past = Past(frozenset(earlier.split(board)), frozenset(earlier.victims))
    orders.give(tampering)
    tampered, signed = await _play(system, position)
    observation = await judge(
        tampered, signed, orders.made_up(), tampering or "nothing", position, past
    )
    orders.give(None)
    return observation


async def _play(system: LocalSystem, position: int) -> tuple[TamperedRound, Signed]:
    """Play a round of honest users to its end; return it with its signed result."""
    tampered = await open_tampered(system, plan_for(system, position))
    await tampered.submit()
    return tampered, await tampered.finish()


def suspects(
    shown: Sequence[bytes], own_messages: Sequence[bytes], earlier: Collection[bytes] = ()
) -> set[bytes]:
    """Messages on a board that may be the victim's, as far as the adversary can tell.

    These are messages that are on the board more than once or were on an earlier board, because the
    adversary repeated them; if there are none, all messages that it did not make up.

    Args:
        shown: the board.
        own_messages: messages that the adversary made up.
        earlier: the earlier board, if an onion was replayed.
    """
    counts = Counter(shown)
    repeated = {message for message, times in counts.items() if times > 1 or message in earlier}
    return repeated or counts.keys() - set(own_messages)


async def judge(
    tampered: TamperedRound,
    signed: Signed,
    made_up: bytes,
    tampering: str,
    position: int,
    past: Past = NO_PAST,
) -> Observation:
    """Outcome of an ended round for an adversary that invented the messages `made_up`.

    The adversary has identified messages when all that it suspects are the victim's.
    """
    result = verify_from(tampered.roster.analyst, signed, Result)
    published, board = result.outcome == Outcome.PUBLISHED, await tampered.board(result)
    users = range(len(tampered.honest)) if published else ()
    complaints = [tampered.complaint(signed, board, user) for user in users]
    missed = [error for error in complaints if error is not None]
    sent = tampered.split(b"".join(submission.messages for submission in tampered.honest))
    shown = tampered.split(board)
    suspected = suspects(shown, tampered.split(made_up), past.board)
    victims = tampered.victims | past.victims
    return Observation(
        tampering=tampering,
        position=position,
        stopped_by=None if published else _stopped_by(result, position),
        users=len(missed),
        victim=bool(complaints) and complaints[0] is not None,
        error=result.error if not published else type(missed[0]).__name__ if missed else None,
        public=f"published, {result.accepted} reports" if published else "failed",
        charge=await charge_of(tampered.system, tampered.round_id),
        messages=tampered.verified.geometry.messages_per_user,
        changed=len(set(shown) - set(sent)),
        candidates=len(suspected) if published else None,
        identified=len(suspected) if suspected <= victims else 0,
    )


async def charge_of(system: System, round_id: str) -> str:
    """State of the round's charge: reserved, settled or released."""
    roster = system.deployment.roster
    keys, accountant = system.deployment.keys_of(OPERATOR), roster.accountant
    request = accountant_pb2.GetBudgetRequest(population=system.population)
    async with channel_to(accountant, keys, roster) as channel, translate_errors(ACCOUNTANT):
        budget = await accountant_pb2_grpc.AccountantStub(channel).GetBudget(request)
    return {entry.round_id: entry.state for entry in budget.entries}[round_id]


def _stopped_by(result: Result, position: int) -> str:
    """The party that stopped the round according to the analyst: a node, or itself."""
    named, colon, _ = (result.reason or "").partition(": ")
    return named if colon and named in ROUTES[position] else ANALYST
