"""Attacks at the entry node: crowding out honest users, accomplices, and replayed submissions."""

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
from shuffledp_core.runtime.keys import Identity
from shuffledp_ops.keys.pki import issue_credentials
from shuffledp_sim.system.processes import LocalSystem

AGAIN: Final = "the same submission again"
"""The only attempt of `knock` that does no harm: it gets the same receipt, and counts once."""


async def crowd_out(system: LocalSystem, orders: Orders) -> Observation:
    """Play a round whose entry node admits only the victim and unenrolled accomplices."""
    own_enrolment = _unknown_enrolment(system)
    orders.let_in(own_enrolment.public_key)
    orders.give(CROWD)
    tampered = await open_tampered(system, plan_for(system, 1))
    await tampered.submit(1)
    await _require_refused(tampered)
    accomplices = tampered.prepare(USERS - 1, own_enrolment)
    await tampered.send(accomplices)
    observation = await judge(tampered, await tampered.finish(), _messages(accomplices), "crowd", 1)
    orders.give(None)
    return observation


async def surround(system: LocalSystem) -> Observation:
    """Play a round in which enrolled accomplices take all places except the victim's.

    The entry node is honest.
    """
    tampered = await open_tampered(system, plan_for(system, 2, max_reports=USERS))
    accomplices = tampered.prepare(USERS - 1, tampered.enrolment)
    await tampered.send(accomplices)
    await tampered.submit(1)
    await _require_refused(tampered)
    return await judge(tampered, await tampered.finish(), _messages(accomplices), "surround", 2)


async def knock(system: LocalSystem) -> tuple[dict[str, str | None], Observation]:
    """Try replayed, stolen and forged submissions on an honest entry node, then end the round.

    Returns:
        The error's class by attempt, None for one that got a receipt; and the round, in which
        `USERS` - 1 took part.
    """
    tampered = await open_tampered(system, plan_for(system, 2))
    await tampered.submit(USERS - 2)
    thief, regular = (Member.of(*pair) for pair in issue_credentials(tampered.enrolment, 2))
    tampered.honest.append(prepare(tampered.verified, 1, regular))
    await tampered.send(tampered.honest[-1:])
    stolen = tampered.honest[0]
    attempts = {
        AGAIN: stolen,
        "a stolen envelope, claimed with the thief's own credential": _claim_stolen(
            tampered, thief, stolen.envelope
        ),
        "a stolen submission with the credential exchanged": msgspec.structs.replace(
            stolen, credential=thief.credential
        ),
        "a second, different submission of the same user": prepare(tampered.verified, 0, regular),
        "a credential that is not enrolled": tampered.prepare(1, _unknown_enrolment(system))[0],
    }
    refusals = {
        attempt: await _refusal(tampered, submission) for attempt, submission in attempts.items()
    }
    return refusals, await judge(tampered, await tampered.finish(), b"", "knock", 2)


async def _require_refused(tampered: TamperedRound) -> None:
    """Check that another honest user is refused and holds no receipt.

    The reason for the refusal is that the round is full or has ended.
    """
    if await _refusal(tampered, tampered.prepare(1, tampered.enrolment)[0]) is None:
        raise ValueError(
            "the entry node accepted a submission although the round is full or has ended"
        )


async def _refusal(tampered: TamperedRound, submission: PreparedSubmission) -> str | None:
    try:
        await tampered.send([submission])
    except ShuffleDPError as error:
        return type(error).__name__
    return None


def _claim_stolen(tampered: TamperedRound, thief: Member, envelope: bytes) -> PreparedSubmission:
    """A submission of another user's envelope under the thief's own credential and claim."""
    identity = thief.identity()
    claim = SubmissionClaim(
        round_id=tampered.round_id, credential=identity.name, envelope_digest=digest(envelope)
    )
    mine = prepare(tampered.verified, 0, thief)
    return msgspec.structs.replace(mine, envelope=envelope, claim=identity.sign(claim))


def _unknown_enrolment(system: LocalSystem) -> Identity:
    """An enrolment key that is not in the roster."""
    return Identity(system.population, Ed25519PrivateKey.generate())


def _messages(submissions: list[PreparedSubmission]) -> bytes:
    return b"".join(submission.messages for submission in submissions)
