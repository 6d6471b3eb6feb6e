"""Random tampering in real verified rounds: who notices, and who is blamed.

One node at each position tampers, or a user does.

Each round has one user who works with the party that tampers: one of its messages does not decrypt
at the analyst, so that every node answers for a step.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Final

import msgspec
from nacl import bindings

from shuffledp_adversary.attacks.exchange.culprits import named_in
from shuffledp_adversary.attacks.exchange.node import RANDOM, Orders
from shuffledp_adversary.attacks.exchange.random_changes import change_field, flip_bit
from shuffledp_adversary.attacks.exchange.rounds import (
    LARGEST,
    TamperedRound,
    open_tampered,
    plan_for,
)
from shuffledp_adversary.attacks.exchange.spoiled import spoiled_record, spoiled_submission
from shuffledp_client.submission import Member, PreparedSubmission, wrap_claim
from shuffledp_core.documents.models import Result
from shuffledp_core.errors import ShuffleDPError
from shuffledp_core.mixproof.claims import (
    PreparedClaim,
    claim_bytes,
    make_claim,
    seal_record,
    sign_claim,
)
from shuffledp_core.mixproof.group import random_scalar
from shuffledp_core.mixproof.terms import MixTerms
from shuffledp_core.runtime.keys import verify_from
from shuffledp_core.sampling.randomness import system_random
from shuffledp_core.vocabulary import Mix, Outcome
from shuffledp_sim.system.processes import LocalSystem

HONEST: Final = 5
"""Honest users of a round, and the fewest that it may have: beside them there is the one who
cheats.
"""

POSITIONS: Final = (1, 2, 3)
USER: Final = "a user"

CAUGHT, NO_ANSWER, REFUSED, HARMLESS = "caught", "no answer", "refused at the door", "harmless"
UNNOTICED, FRAMED = "unnoticed", "framed"
GOOD: Final = (CAUGHT, NO_ANSWER, REFUSED, HARMLESS)
"""Acceptable outcomes of a tampered round: the culprit is named, the round ends with no one named,
the
entry node refuses the submission, or the round is published with the messages of all honest users.
"""

_NAMED: Final = re.compile(r"\b(node \d+|analyst|user [0-9a-f]{64}): ")


@dataclass(frozen=True)
class RandomObservation:
    """One round: who tampered, the seed of the change, and the outcome.

    `by` is `node 2`, or a user.

    `outcome` is one of `GOOD`, or "unnoticed" or "framed", which break a promise; `reason` is why
    the round ended.
    """

    by: str
    seed: str
    outcome: str
    reason: str | None


async def tampered_by_node(
    system: LocalSystem, orders: Orders, position: int, seed: str
) -> RandomObservation:
    """Play a round in which the malicious node, at this position, deviates once at random."""
    played = await _open(system, position)
    [member] = played.members(1)
    orders.give(f"{RANDOM}{seed} at {position}")
    try:
        await played.send(
            [*played.honest, spoiled_submission(played.verified, member, len(POSITIONS) + 1)]
        )
        return await _judge(played, f"node {position}", member, seed)
    finally:
        orders.give(None)


async def tampered_by_user(system: LocalSystem, seed: str) -> RandomObservation:
    """Play a round in which a user deviates once at random."""
    played = await _open(system, 1)
    [member] = played.members(1)
    await played.send(played.honest)
    sent, draw = False, Random(seed)  # noqa: S311 - chooses a tampering; no secret
    try:
        await played.send([_cheating(played, member, draw)])
        sent = True
    except ShuffleDPError as error:
        refusal = str(error)
    observation = await _judge(played, USER, member, seed)
    if sent or observation.outcome not in GOOD:
        return observation
    return replace(observation, outcome=REFUSED, reason=refusal)


async def _open(system: LocalSystem, position: int) -> TamperedRound:
    plan = plan_for(system, position, max_reports=HONEST + 1, min_reports=HONEST)
    played = await open_tampered(
        system, msgspec.structs.replace(plan, mix=Mix.VERIFIED, open_seconds=3600.0)
    )
    played.honest += played.prepare_all([number % (LARGEST + 1) for number in range(HONEST)])
    return played


async def _judge(
    played: TamperedRound, culprit: str, cheat: Member, seed: str
) -> RandomObservation:
    signed = await played.finish()
    result = verify_from(played.roster.analyst, signed, Result)
    name = cheat.identity().name
    culprits = {culprit, f"user {name}"}

    def conclude(outcome: str, reason: str | None) -> RandomObservation:
        return RandomObservation(culprit, seed, outcome, reason)

    if result.outcome != Outcome.PUBLISHED:
        named = _NAMED.search(result.reason or "")
        if named is None:
            return conclude(NO_ANSWER, result.reason)
        return conclude(CAUGHT if named[1] in culprits else FRAMED, result.reason)
    board = await played.board(result)
    complaints = [played.complaint(signed, board, user) for user in range(HONEST)]
    missed = [error for error in complaints if error is not None]
    if missed:
        return conclude(UNNOTICED, str(missed[0]))
    excluded = await named_in(played, signed)
    if excluded - {name}:
        return conclude(FRAMED, f"excluded: {', '.join(sorted(excluded - {name}))}")
    return conclude(CAUGHT if excluded and culprit == USER else HARMLESS, None)


def _cheating(played: TamperedRound, member: Member, draw: Random) -> PreparedSubmission:
    """A submission with one fault: in the claim, in the records, or in a record at one layer."""
    terms = played.verified.mixing
    if terms is None:
        raise ValueError("a faulty claim needs a verified round, but the round's mixing is plain")
    private, geometry = member.private_key, played.verified.geometry
    honest = make_claim(terms, [0] * terms.messages_per_user, private, system_random)
    changes: dict[str, Callable[[], PreparedClaim]] = {
        "claim": lambda: _other_claim(terms, honest, private, draw),
        "records": lambda: replace(honest, submission=_other_records(honest.submission, draw)),
        "box": lambda: _spoil(terms, private, draw.randrange(2, terms.analyst + 1)),
        "key": lambda: _repeat_key(terms, private),
    }
    prepared = changes[draw.choice(["claim", "claim", "records", "records", "box", "key"])]()
    return wrap_claim(
        played.verified, member, prepared, bytes(geometry.symbol_bytes * geometry.messages_per_user)
    )


def _other_claim(
    terms: MixTerms, honest: PreparedClaim, private: bytes, draw: Random
) -> PreparedClaim:
    claim = change_field(honest.claim, draw)
    if (
        claim.signature == honest.claim.signature and draw.random() < 0.8
    ):  # a signature made afresh would be no change
        key = bindings.crypto_sign_seed_keypair(private)[1]
        signature = bindings.crypto_sign(claim_bytes(terms, claim), key)[
            : bindings.crypto_sign_BYTES
        ]
        claim = replace(claim, signature=signature)
    return replace(honest, claim=claim)


def _other_records(submission: bytes, draw: Random) -> bytes:
    return draw.choice([flip_bit(submission, draw), submission[:-1], submission + b"x"])


def _spoil(terms: MixTerms, private: bytes, layer: int) -> PreparedClaim:
    secrets = [random_scalar(system_random) for _ in range(terms.messages_per_user)]
    records = [
        spoiled_record(terms, secrets[0], layer),
        *(seal_record(terms, secret, 0) for secret in secrets[1:]),
    ]
    return sign_claim(terms, records, secrets, private, system_random)


def _repeat_key(terms: MixTerms, private: bytes) -> PreparedClaim:
    secrets = [random_scalar(system_random)] * terms.messages_per_user
    records = [seal_record(terms, secret, 0) for secret in secrets]
    return sign_claim(terms, records, secrets, private, system_random)


def tally(rounds: Sequence[RandomObservation]) -> dict[str, dict[str, int]]:
    """Count the outcomes by the party that tampered."""
    by = dict.fromkeys(observation.by for observation in rounds)
    return {
        who: dict(Counter(observation.outcome for observation in rounds if observation.by == who))
        for who in by
    }
