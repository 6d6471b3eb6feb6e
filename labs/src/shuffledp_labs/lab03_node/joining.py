"""Steps D and E of lab 3: real rounds of twelve users with the student's node in the middle."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from shuffledp_core.documents.models import BatchHeader, Result, RoundPlan
from shuffledp_core.documents.signed import from_json
from shuffledp_labs.lab import CheckAttempt, CheckFailure
from shuffledp_labs.lab03_node.relations import Order, find_relation

if TYPE_CHECKING:
    from shuffledp_adversary.attacks.exchange.rounds import TamperedRound
    from shuffledp_sim.system.processes import LocalSystem

USERS: Final = 12
MESSAGES: Final = 2
"""Of each user."""

STUDENT: Final = "node-2"
TOO_MANY_IN_PLACE: Final = 18
"""Messages that stand, guessed by place, with their own sender: of 24 from a node that mixes as
many or more with
probability below 1e-9 (computed exactly in tests/labs/test_lab03.py), from one that keeps the order
all 24.
"""

ORDER_CHANCE: Final = 5e-10
"""Probability that an honest node's order is mistaken for one that follows from the arrivals'.
"""

TAMPERINGS: Final = ("copy", "mark", "replay")
DROPS: Final = {"copy": 2, "mark": 1, "replay": 1}
"""Onions that the node behind the malicious one has to drop: two further copies, the marked one,
the old one.
"""

WHERE_D: Final = 'read "D. Join" in the handout, and the last lines of node-2\'s log above'
WHERE_E: Final = 'read "What a node may drop" in the handout'

_PROCESS: Final = "shuffledp_labs.lab03_node.process"
_MALICIOUS: Final = "shuffledp_adversary.attacks.exchange.process"


@dataclass(frozen=True)
class JoinOutcome:
    """Outcome of a round in which nodes 1 and 3 logged, with the student's node between them.

    Attributes:
        failed: the reason why there was no result; None if it was published.
        missed: users who did not find their messages.
        traced: messages that the two others followed to the board by their logs.
        by_place: messages whose sender they guessed correctly by assuming that the student's node
            kept the order.
        messages: number of messages.
        dropped: onions that the student's node signed for as dropped.
        order: for each message that left the student's node, its position in the incoming batch.
    """

    failed: str | None
    missed: int = 0
    traced: int = 0
    by_place: int = 0
    messages: int = USERS * MESSAGES
    dropped: int = 0
    order: tuple[int, ...] = ()


@dataclass(frozen=True)
class TamperOutcome:
    """Outcome of a round in which node 1 tampered with the batch.

    Attributes:
        tampering: kind of tampering.
        failed: see `JoinOutcome`.
        dropped: onions dropped by each node, in the route's order.
        identified: messages on the board that the malicious node knows to be its victim's.
        missed: users who did not find their messages, and complain with their receipt.
        order: see `JoinOutcome`.
    """

    tampering: str
    failed: str | None
    dropped: tuple[int, ...] = ()
    identified: int = 0
    missed: int = 0
    order: tuple[int, ...] = ()


def joins(attempt: CheckAttempt) -> str:
    """D-joins: the round is published and complete, and nodes 1 and 3 learn nothing."""
    attempt.progress("starting accountant, analyst and three nodes, yours as node 2")
    seen = play_join(attempt.file)
    if seen.failed is not None:
        raise CheckFailure(
            f"a round of {USERS} users with your node as node 2 has no result: {seen.failed}; "
            f"{WHERE_D}"
        )
    if seen.dropped or seen.missed:
        raise CheckFailure(
            f"in a round of {USERS} honest users your node dropped {seen.dropped} onions, and "
            f"{seen.missed} users do not find their messages on the board; {WHERE_D}"
        )
    if seen.traced:
        raise CheckFailure(
            f"nodes 1 and 3 traced {seen.traced} of {seen.messages} messages through your node; "
            f"{WHERE_D}"
        )
    if seen.by_place >= TOO_MANY_IN_PLACE:
        raise CheckFailure(
            "nodes 1 and 3 guessed by its place who sent a message, and were right for "
            f"{seen.by_place} of {seen.messages}: your node keeps the order of a real batch; "
            f"{WHERE_D}"
        )
    judge_orders([seen.order] if seen.order else [])
    return (
        f"published; {USERS} of {USERS} users found their messages; nodes 1 and 3 traced "
        f"{seen.traced} of {seen.messages}, and by place guessed {seen.by_place} right"
    )


def withstands(attempt: CheckAttempt) -> str:
    """E-malicious: the student's node drops what node 1 copied, marked or replayed.

    Later nodes need not drop them, and no round fails.
    """
    attempt.progress("starting the same system with a malicious node 1")
    orders = attempt.draws.permute(TAMPERINGS)
    rounds = play_withstand(attempt.file, orders, attempt.progress)
    for seen in rounds:
        judge_tampered(seen)
    judge_orders([seen.order for seen in rounds if len(seen.order) == USERS * MESSAGES])
    return (
        f"node 1 tried {', '.join(orders)}: your node dropped what was tampered with, no message "
        "was traced"
    )


def judge_orders(orders: Sequence[Order]) -> None:
    """Raise `CheckFailure` if the order of output follows from the order of arrival."""
    if orders and (relation := find_relation(orders, ORDER_CHANCE)):
        raise CheckFailure(
            "the order in which messages left your node follows from their order of arrival: "
            f"{relation} in "
            f"{'a real batch' if len(orders) == 1 else f'{len(orders)} real batches'}; {WHERE_D}"
        )


def judge_tampered(seen: TamperOutcome) -> None:
    """Raise `CheckFailure` if the student's node let a tampered onion pass."""
    what = f"node 1 tampers ({seen.tampering}): "
    if seen.failed is not None:
        raise CheckFailure(f"{what}your node ended the round for all, {seen.failed}; {WHERE_E}")
    _, dropped_here, later = seen.dropped
    if later:
        raise CheckFailure(
            f"{what}your node forwarded {later} onions that an honest node drops, so that node 3 "
            f"had to drop them; {WHERE_E}"
        )
    if dropped_here != DROPS[seen.tampering]:
        raise CheckFailure(
            f"{what}your node signed that it dropped {dropped_here} onions, which is another "
            f"number; {WHERE_E}"
        )
    if seen.identified:
        raise CheckFailure(
            f"{what}{seen.identified} of its victim's messages were found on the board; {WHERE_E}"
        )


def play_join(student: Path) -> JoinOutcome:
    """Play the round of step D, in a folder hidden from the student's program."""
    from shuffledp_sim.system.workplace import workplace

    with workplace("shuffledp-lab-") as folder:
        return asyncio.run(join(student, folder))


def play_withstand(
    student: Path, orders: Sequence[str], progress: Callable[[str], None]
) -> list[TamperOutcome]:
    """Play the rounds of step E, in a folder hidden from the student's program."""
    from shuffledp_sim.system.workplace import workplace

    with workplace("shuffledp-lab-") as folder:
        return asyncio.run(withstand(student, folder, orders, progress))


async def join(student: Path, folder: Path) -> JoinOutcome:
    """Play the round of step D in this folder."""
    from shuffledp_adversary.attacks.exchange.rounds import open_tampered

    orders = folder / "orders.jsonl"
    async with _system(student, folder, orders, corrupt=(1, 3)) as system:
        small_round = await open_tampered(system, _plan(system))
        await small_round.submit(USERS)
        signed = await small_round.finish()
        result = from_json(signed.body, Result)
        if failed := _failure(result, folder):
            return JoinOutcome(failed)
        board = await small_round.board(result)
        missed = sum(
            small_round.complaint(signed, board, user) is not None for user in range(USERS)
        )
    traced, by_place = _trace(folder, system, small_round, board)
    return JoinOutcome(
        None,
        missed,
        traced,
        by_place,
        dropped=_dropped_by_node(result)[1],
        order=_last_order(orders),
    )


async def withstand(
    student: Path,
    folder: Path,
    orders: Sequence[str],
    progress: Callable[[str], None] = lambda _: None,
) -> list[TamperOutcome]:
    """Play an honest round, and one for each kind of tampering, in this folder."""
    from shuffledp_adversary.attacks.exchange.node import Orders
    from shuffledp_adversary.attacks.exchange.rounds import NO_PAST, Past, judge, open_tampered

    given, past, seen = Orders(folder / "orders"), NO_PAST, []
    given.give(None)
    malicious = {"node-1": [_MALICIOUS, "--orders", str(given.folder)]}
    written = folder / "orders.jsonl"
    async with _system(student, folder, written, programs=malicious) as system:
        for order in (None, *orders):
            progress(f"node 1: {order or 'honest, to have something to replay'}")
            given.give(order)
            small_round = await open_tampered(system, _plan(system))
            await small_round.submit(USERS)
            signed = await small_round.finish()
            result = from_json(signed.body, Result)
            if failed := _failure(result, folder):
                seen.append(TamperOutcome(order or "honest", failed))
            elif order is None:
                past = Past(
                    frozenset(small_round.split(await small_round.board(result))),
                    frozenset(small_round.victims),
                )
            else:
                verdict = await judge(
                    small_round,
                    signed,
                    given.made_up(),
                    order,
                    1,
                    past if order == "replay" else NO_PAST,
                )
                seen.append(
                    TamperOutcome(
                        order,
                        None,
                        _dropped_by_node(result),
                        verdict.identified,
                        verdict.users,
                        _last_order(written),
                    )
                )
    return seen


def _system(
    student: Path,
    folder: Path,
    orders: Path,
    *,
    corrupt: Collection[int] = (),
    programs: dict[str, list[str]] | None = None,
) -> LocalSystem:
    from shuffledp_sim.system.processes import LocalBudget, LocalSystem

    return LocalSystem(
        folder / "system",
        nodes=3,
        budget=LocalBudget(1e9, 0.5),
        broker=False,
        corrupt=corrupt,
        programs={
            STUDENT: [_PROCESS, "--student", str(student.absolute()), "--orders", str(orders)],
            **(programs or {}),
        },
    )


def _plan(system: LocalSystem) -> RoundPlan:
    return RoundPlan(
        population=system.population,
        mechanism="rr-shuffle",
        size=MESSAGES,
        epsilon=6.0,
        delta=1e-2,
        min_reports=USERS - 1,
        max_reports=USERS + 1,
        route=system.route,
        open_seconds=120.0,
        allow_corrupt=True,  # the student's node says what it is, as every node of foreign code
    )


def _last_order(orders: Path) -> tuple[int, ...]:
    """Permutation of the last batch that the student's node mixed."""
    lines = orders.read_text().splitlines() if orders.exists() else []
    return tuple(json.loads(lines[-1])) if lines else ()


def _failure(result: Result, folder: Path) -> str | None:
    if result.board_digest is not None:
        return None
    log = folder / "system" / f"{STUDENT}.log"
    last = log.read_text(errors="replace").strip().splitlines()[-1:] if log.exists() else []
    return " | ".join(
        [result.reason or result.outcome, *(f"node-2's log ends: {line[:300]}" for line in last)]
    )


def _dropped_by_node(result: Result) -> tuple[int, ...]:
    """Number of onions that each node dropped, from the headers' running totals."""
    counts = [from_json(signed.body, BatchHeader).dropped for signed in result.headers]
    return tuple(after - before for before, after in zip([0, *counts], counts, strict=False))


def _trace(
    folder: Path, system: LocalSystem, small_round: TamperedRound, board: bytes
) -> tuple[int, int]:
    import numpy as np

    from shuffledp_adversary.tracing.links import NOBODY, join_logs
    from shuffledp_shuffler.corruption import read_logs

    logs = read_logs(
        folder / "system" / "corrupt", system.deployment.roster.deployment, small_round.round_id
    )
    rows = np.frombuffer(board, dtype=np.uint8).reshape(
        -1, small_round.verified.geometry.plain_bytes
    )
    links = join_logs(logs, rows)
    senders = logs[1].credentials
    if senders is None:
        raise ValueError("the log of node 1 contains no senders")
    owns = {
        bytes.fromhex(prepared.claim.signer): set(small_round.split(prepared.messages))
        for prepared in small_round.honest
    }
    of_user = [owns[sender.tobytes()] for sender in senders]
    by_place = sum(
        sender != NOBODY and message in of_user[sender]
        for message, sender in zip(small_round.split(board), links.placed.tolist(), strict=True)
    )
    return int((links.senders != NOBODY).sum()), by_place
