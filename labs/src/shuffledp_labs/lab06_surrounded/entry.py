"""Step F of lab 6 in a running system: a corrupt node 1 takes the victim's crowd away.

Rounds are plain and verified.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Final

import msgspec

from shuffledp_core.documents.models import Result
from shuffledp_core.vocabulary import Mix, Outcome
from shuffledp_labs.errors import CheckFailure, LabError
from shuffledp_labs.lab import CheckAttempt
from shuffledp_labs.lab06_surrounded import rounds
from shuffledp_labs.lab06_surrounded.crowds import CORRUPT, HONEST, Situation
from shuffledp_labs.lab06_surrounded.guessing import Flood

if TYPE_CHECKING:
    from shuffledp_adversary.attacks.exchange.node import Orders
    from shuffledp_sim.system.processes import LocalSystem
    from shuffledp_sim.users.small_round import SmallRound

_STOPS: Final = "BadListError"
"""What the next node raises for a list with users who are not enrolled."""

PLAIN: Final = Situation(Mix.PLAIN, (CORRUPT, HONEST, HONEST), rounds.USERS, 0, rounds.USERS)
"""The real rounds: node 1 is corrupt, has no account, and all reports that may come are needed."""

VERIFIED: Final = replace(PLAIN, mix=Mix.VERIFIED)
ENROLLED: Final = replace(VERIFIED, accounts=rounds.USERS - 1)
"""The same with enrolled accounts for all places but the victim's."""


@dataclass(frozen=True)
class SurroundedRounds:
    """Outcome of the three rounds of step F.

    Attributes:
        plain: what the adversary sees of the plain round with made-up users.
        stopped, error: why the verified one with made-up users failed, and its error.
        charge: what became of that one's charge: "reserved", "settled" or "released".
        enrolled: what the adversary sees of the verified round that its enrolled accounts fill.
    """

    plain: rounds.FloodedRound
    stopped: str
    error: str
    charge: str
    enrolled: rounds.FloodedRound


def play(answers: Sequence[int], value: int) -> SurroundedRounds:
    """Play the three rounds, with the adversary's answers and a victim that holds `value`."""
    return asyncio.run(_play(answers, value))


async def _play(answers: Sequence[int], value: int) -> SurroundedRounds:
    from shuffledp_adversary.attacks.exchange.rounds import charge_of, tamperable_system
    from shuffledp_adversary.attacks.exchange.tampering import CROWD
    from shuffledp_sim.system.workplace import workplace

    with workplace("shuffledp-lab-system-") as folder:
        system, orders = tamperable_system(folder)
        async with system:
            orders.give(CROWD)
            plain = await _play_plain(system, orders, answers, value)
            failed = await _play_invented_list(system, value)
            charge = await charge_of(system, failed.round_id)
            orders.give(None)
            enrolled = await _play_enrolled(system, answers, value)
    if failed.outcome == Outcome.PUBLISHED:
        raise AssertionError(
            "a verified round was published whose list had users who were not enrolled"
        )
    return SurroundedRounds(plain, failed.reason or "", failed.error or "", charge, enrolled)


async def _play_plain(
    system: LocalSystem, orders: Orders, answers: Sequence[int], value: int
) -> rounds.FloodedRound:
    """Play the round with plain mixing.

    Node 1 admits the victim, turns the others away, and invents reports.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from shuffledp_core.runtime.keys import Identity

    identity = Identity(system.population, Ed25519PrivateKey.generate())
    orders.let_in(identity.public_key)
    small_round = await _open(system, Mix.PLAIN)
    victim = small_round.prepare_all([value])
    await small_round.send(victim)
    await small_round.send(small_round.seal_all(answers, identity))
    return await rounds.finish_and_observe(small_round, victim[0])


async def _play_invented_list(system: LocalSystem, value: int) -> Result:
    """Play the verified round in which node 1 lists the victim and users who are not enrolled."""
    from shuffledp_core.runtime.keys import verify_from

    small_round = await _open(system, Mix.VERIFIED)
    sent = small_round.prepare_all(
        [value, *(index % rounds.SYMBOLS for index in range(rounds.USERS - 1))]
    )
    await small_round.send(sent[:1])  # node 1 takes the first for its victim
    await small_round.send(sent[1:])
    return verify_from(small_round.roster.analyst, await small_round.finish(), Result)


async def _play_enrolled(
    system: LocalSystem, answers: Sequence[int], value: int
) -> rounds.FloodedRound:
    """Play the verified round that enrolled accounts fill, so that other users are refused."""
    small_round = await _open(system, Mix.VERIFIED)
    victim = small_round.prepare_all([value])
    await small_round.send([*victim, *small_round.seal_all(answers)])
    return await rounds.finish_and_observe(small_round, victim[0])


async def _open(system: LocalSystem, mix: Mix) -> SmallRound:
    from shuffledp_adversary.attacks.exchange.rounds import ROUTES
    from shuffledp_sim.users.small_round import open_small

    plan = msgspec.structs.replace(rounds.flooded_plan(system), route=ROUTES[1], allow_corrupt=True)
    return await open_small(
        system, plan if mix == Mix.PLAIN else msgspec.structs.replace(plan, mix=mix)
    )


def check_crowd_rounds(attempt: CheckAttempt) -> str:
    """F-rounds: `crowd` is right for three real rounds, and `guess` is optimal in two of them."""
    draws, spec = attempt.draws, rounds.spec_of_flood()
    for situation in (PLAIN, VERIFIED, ENROLLED):
        crowd = attempt.program.call("crowd", situation.as_student_data)
        if crowd != situation.least:
            raise CheckFailure(
                f"crowd is wrong for the real round {situation.as_student_data}; see step F"
            )
    weights = draws.permute((10, 17, 29, 44))
    p = 1 - spec.blanket + spec.blanket / spec.symbols
    flood = Flood(
        rounds.USERS,
        rounds.USERS - 1,
        spec.symbols,
        p,
        tuple(Fraction(weight, 100) for weight in weights),
    )
    mine = rounds.call_submissions(attempt.program, flood)
    attempt.progress(
        "a system of three nodes, the first of them corrupt: a plain round and two verified ones"
    )
    came = play(mine, draws.below(spec.symbols))
    if came.error != _STOPS:
        raise LabError(
            f"a round was not played to its end, which is not your fault: {came.stopped}; check "
            "again"
        )
    for what, seen in (("plain", came.plain), ("verified", came.enrolled)):
        sent = tuple(int(symbol == seen.victim_sent) for symbol in range(spec.symbols))
        if attempt.program.call("guess", flood.plan, seen.board, mine) not in flood.best(sent):
            raise CheckFailure(
                f"the board of the {what} round was {seen.board}, your reports were {mine}: the "
                "guess is not the most probable value; see step B"
            )
    others = rounds.USERS - 1
    charge = "given back" if came.charge == "released" else "spent all the same"
    return (
        f"plain, {others} reports made up by node 1: published, one of {rounds.USERS} is a "
        f"person's, your guess is the best; verified, {others} made up: no answer, stopped by "
        f"{brief(came.stopped)}, the round's ε is {charge}; verified, {others} enrolled accounts "
        "of yours: published, again one person's"
    )


def brief(reason: str) -> str:
    """Shorten the credentials in a reason to a length that people can compare."""
    return re.sub(r"\b([0-9a-f]{8})[0-9a-f]{56}\b", r"\1..", reason)
