"""Step E of lab 2: forty real clients send the student's messages through a proxy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from shuffledp_client.board import changed_messages
from shuffledp_client.submission import Member, PreparedSubmission, prepare_answer
from shuffledp_client.transport import EntryNode
from shuffledp_client.verification import CheckedRound
from shuffledp_core.documents.digests import digest
from shuffledp_core.documents.models import Result, RoundPlan
from shuffledp_core.documents.submission import SubmissionClaim
from shuffledp_core.onion.layers import seal_envelope
from shuffledp_core.runtime.keys import verify_from
from shuffledp_core.sampling.randomisers import randomise
from shuffledp_core.sampling.randomness import RandomIntegers
from shuffledp_core.vocabulary import Outcome
from shuffledp_labs.errors import CheckFailure, LabError
from shuffledp_labs.instance import Draws
from shuffledp_labs.lab import CheckAttempt
from shuffledp_labs.lab02_wire import instances
from shuffledp_labs.lab02_wire.checks import encoded_by, refuse_claims
from shuffledp_labs.lab02_wire.instances import wire_of
from shuffledp_labs.lab02_wire.proxy import Proxy
from shuffledp_labs.systems import running_system
from shuffledp_sim.system.processes import LocalSystem
from shuffledp_sim.users.small_round import SmallRound, open_small

USERS: Final = 40
LARGEST: Final = 4
ENTRY: Final = "node-1"
SUITE: Final = "hpke-mlkem768-x25519"
"""Its records have some two thousand bytes: TLS and HTTP/2 never make connections differ by as much
as one of them.
"""

Encode = Callable[[int, int], list[bytes]]
"""The messages of an answer, m of them."""


@dataclass(frozen=True)
class WatchedRound:
    """A real round, as its users and an observer saw it.

    Attributes:
        published: whether it ended with an answer.
        reason: why it did not, in the analyst's words.
        missing: messages of the users that are not on the board once and unchanged.
        answers: the answer of each client, by name.
        flows: (client, bytes) of each client's connections, as the proxy counted them.
        wire: the public lengths of the round.
    """

    published: bool
    reason: str | None
    missing: int
    answers: dict[str, int]
    flows: tuple[tuple[str, int], ...]
    wire: dict[str, int]


def check_round(attempt: CheckAttempt) -> str:
    """E-round: check a real round of forty users behind a proxy.

    It must be published, with every message found and no claim about any user.
    """
    attempt.progress(f"starting three nodes, analyst and accountant for {USERS} users")
    watched = asyncio.run(
        watch(
            attempt.draws,
            lambda answer, messages: encoded_by(attempt, answer, messages, attempt.draws.bytes),
        )
    )
    title = f"a real round of {USERS} users"
    if (
        not watched.published
    ):  # the messages were of the right form, or the checks before this one would have failed
        raise LabError(
            f"the round was not published, which is not your fault: {watched.reason}; check again"
        )
    if watched.missing:
        raise CheckFailure(
            f"your messages come through a real round, {title}: {watched.missing} are not on the "
            "board; see the handout, step E"
        )
    named = attempt.program.call("infer_answers", watched.flows, watched.wire)
    refuse_claims(named if isinstance(named, dict) else {"": named}, title)
    sizes = instances.longest(watched.flows).values()
    return (
        f"published; {len(sizes)} clients sent {min(sizes):,} to {max(sizes):,} bytes, and "
        "nothing claimed"
    )


async def watch(
    draws: Draws, encode: Encode, users: int = USERS, suite: str = SUITE
) -> WatchedRound:
    """Play a round whose users send the messages that `encode` makes.

    Each uses a connection of its own, through the proxy.
    """
    async with running_system(proxied=[ENTRY]) as system:
        entry = system.deployment.roster.party(ENTRY)
        async with Proxy(entry.address, system.listens[ENTRY]) as proxy:
            played = await open_small(system, _plan(system, users, suite))
            answers = _answers(played.verified, users, draws)
            sent = await _send_all(played, proxy, answers, encode)
            result = verify_from(played.roster.analyst, await played.finish(), Result)
            board = await played.board(result)
    published = result.outcome == Outcome.PUBLISHED
    geometry = played.verified.geometry
    missing = (
        int(changed_messages(geometry, board, b"".join(sent)).sum()) if published else len(sent)
    )
    flows = proxy.of(set(answers))
    sizes = instances.longest(flows).values()
    wire = wire_of(geometry, min(sizes) - geometry.envelope_bytes, max(sizes) - min(sizes))
    return WatchedRound(published, result.reason, missing, answers, flows, wire)


def _plan(system: LocalSystem, users: int, suite: str) -> RoundPlan:
    return RoundPlan(
        population=system.population,
        mechanism="rr-shuffle",
        size=LARGEST,
        epsilon=6.0,
        delta=1e-2,
        min_reports=users,
        max_reports=users,
        route=system.route,
        suite=suite,
        open_seconds=300.0,
    )


def _answers(verified: CheckedRound, users: int, draws: Draws) -> dict[str, int]:
    integers = RandomIntegers(draws.child("answers").bytes)
    values = [draws.below(LARGEST + 1) for _ in range(users)]
    return {
        f"client-{number + 1:02}": randomise(verified.mechanism, value, integers)
        for number, value in enumerate(values)
    }


async def _send_all(
    played: SmallRound, proxy: Proxy, answers: dict[str, int], encode: Encode
) -> list[bytes]:
    """Send all users' messages, one client after another; return the messages."""
    sent: list[bytes] = []
    for (client, answer), member in zip(answers.items(), played.members(len(answers)), strict=True):
        messages = encode(answer, played.verified.geometry.messages_per_user)
        sent += messages
        proxy.caller = client
        async with EntryNode(
            played.verified.entry, played.keys, played.roster, own_connection=True
        ) as node:
            await node.submit(_submission(played.verified, member, messages))
    proxy.caller = ""
    return sent


def _submission(
    verified: CheckedRound, member: Member, messages: Sequence[bytes]
) -> PreparedSubmission:
    """A submission of these plain messages, whether honest or not."""
    envelope = seal_envelope(verified.geometry, verified.round_id, verified.public_keys, messages)
    identity = member.identity()
    claim = SubmissionClaim(
        round_id=verified.round_id, credential=identity.name, envelope_digest=digest(envelope)
    )
    prepared = prepare_answer(verified, 0, member)
    return msgspec.structs.replace(prepared, envelope=envelope, claim=identity.sign(claim))
