"""Attacks at the door: who gets in, and what a submission is worth that comes a second time."""

from __future__ import annotations

from typing import Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from shuffledp_adversary.attacks.exchange.node import Orders
from shuffledp_adversary.attacks.exchange.rounds import (
    USERS,
    Observation,
    TamperedRound,
    judge,
    open_tampered,
    plan_for,
)
from shuffledp_adversary.attacks.exchange.tampering import CROWD
from shuffledp_client.submission import Member, PreparedSubmission, prepare
from shuffledp_core.documents.digests import digest
from shuffledp_core.documents.submission import SubmissionClaim
from shuffledp_core.errors import ShuffleDPError
from shuffledp_core.keys import Identity
from shuffledp_ops.keys.pki import issue_credentials
from shuffledp_sim.system.processes import LocalSystem

AGAIN: Final = "the same submission again"
"""The one attempt of `knock` that does no harm: it gets the same receipt, and counts once."""


async def crowd_out(system: LocalSystem, orders: Orders) -> Observation:
    """The entry node lets in the victim alone, and fills up with accomplices that nobody ever enrolled."""
    own = _strange_enrolment(system)
    orders.let_in(own.public_key)
    orders.give(CROWD)
    one = await open_tampered(system, plan_for(system, 1))
    await one.submit(1)
    await _turned_away(one)
    accomplices = one.prepare(USERS - 1, own)
    await one.send(accomplices)
    observation = await judge(one, await one.finish(), _messages(accomplices), "crowd", 1)
    orders.give(None)
    return observation


async def surround(system: LocalSystem) -> Observation:
    """Accomplices who really are enrolled take all places but one; the entry node is honest."""
    one = await open_tampered(system, plan_for(system, 2, max_reports=USERS))
    accomplices = one.prepare(USERS - 1, one.enrolment)
    await one.send(accomplices)
    await one.submit(1)
    await _turned_away(one)
    return await judge(one, await one.finish(), _messages(accomplices), "surround", 2)


async def knock(system: LocalSystem) -> tuple[dict[str, str | None], Observation]:
    """What an honest entry node says to who comes back with somebody's submission, and the round's end.

    Returns:
        The error's class by attempt, None for one that got a receipt; and the round, in which `USERS` - 1 took part.
    """
    one = await open_tampered(system, plan_for(system, 2))
    await one.submit(USERS - 2)
    thief, regular = (Member.of(*pair) for pair in issue_credentials(one.enrolment, 2))
    one.honest.append(prepare(one.verified, 1, regular))
    await one.send(one.honest[-1:])
    stolen = one.honest[0]
    attempts = {
        AGAIN: stolen,
        "a stolen envelope, claimed with the thief's own credential": _claimed(one, thief, stolen.envelope),
        "a stolen submission with the credential exchanged": msgspec.structs.replace(
            stolen, credential=thief.credential
        ),
        "a second, different submission of the same user": prepare(one.verified, 0, regular),
        "a credential that nobody enrolled": one.prepare(1, _strange_enrolment(system))[0],
    }
    said = {what: await _refusal(one, submission) for what, submission in attempts.items()}
    return said, await judge(one, await one.finish(), b"", "knock", 2)


async def _turned_away(one: TamperedRound) -> None:
    """Another honest user comes, and hears that the round is full (or over): it holds no receipt, and knows that."""
    if await _refusal(one, one.prepare(1, one.enrolment)[0]) is None:
        raise ValueError("a user got in who should have been turned away")


async def _refusal(one: TamperedRound, submission: PreparedSubmission) -> str | None:
    try:
        await one.send([submission])
    except ShuffleDPError as error:
        return type(error).__name__
    return None


def _claimed(one: TamperedRound, thief: Member, envelope: bytes) -> PreparedSubmission:
    """Somebody else's envelope under the thief's own credential and claim."""
    identity = thief.identity()
    claim = SubmissionClaim(round_id=one.round_id, credential=identity.name, envelope_digest=digest(envelope))
    mine = prepare(one.verified, 0, thief)
    return msgspec.structs.replace(mine, envelope=envelope, claim=identity.sign(claim))


def _strange_enrolment(system: LocalSystem) -> Identity:
    """An enrolment key that the roster does not know."""
    return Identity(system.population, Ed25519PrivateKey.generate())


def _messages(submissions: list[PreparedSubmission]) -> bytes:
    return b"".join(one.messages for one in submissions)
