"""A small verified round in memory: three nodes, eight users, two messages each.

Parties can be replaced by cheats.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache

from nacl import bindings

from shuffledp_core.errors import RoundStateError, ShuffleDPError, UnansweredError
from shuffledp_core.mixproof.blame import check_passage, check_trace
from shuffledp_core.mixproof.chain import check_board, follow
from shuffledp_core.mixproof.claims import (
    Claim,
    ClaimList,
    PreparedClaim,
    check_list,
    list_digest,
    make_claim,
    open_submission,
    signed_list,
)
from shuffledp_core.mixproof.evidence import AccusedRecord, Passage, Trace, Transcript
from shuffledp_core.mixproof.group import multiply
from shuffledp_core.mixproof.headers import Header, Signer
from shuffledp_core.mixproof.hops import Analyst, Hop, Receiver, TraceQuestion
from shuffledp_core.mixproof.keys import NodeKey, NodeSecret, check_route, make_key, route_context
from shuffledp_core.mixproof.terms import MixTerms
from shuffledp_core.onion.seeds import stream
from shuffledp_core.sampling.randomness import RandomBytes

NODES, USERS, MESSAGES, ALPHABET = 3, 8, 2, 5
MANIFEST = hashlib.sha256(b"manifest").digest()
CONTEXT = route_context("clinic", "00" * 16, "11" * 32)
NAMES = tuple(f"mix-{position}" for position in range(1, NODES + 1))


def randomness(name: str) -> RandomBytes:
    """A stream of its own for each use: the same in every run."""
    return stream(hashlib.sha256(name.encode()).digest())


@cache
def route_keys() -> tuple[tuple[NodeSecret, ...], tuple[NodeKey, ...]]:
    made: list[tuple[NodeSecret, NodeKey]] = []
    for position, name in enumerate(NAMES, start=1):
        base = check_route(CONTEXT, NAMES[: position - 1], [key for _, key in made]).blinding[-1]
        made.append(make_key(CONTEXT, name, position, base, randomness(name)))
    return tuple(secret for secret, _ in made), tuple(key for _, key in made)


@cache
def terms(min_reports: int = 6, manifest: bytes = MANIFEST, dummies: int = 0) -> MixTerms:
    route = check_route(CONTEXT, NAMES, route_keys()[1])
    identities = tuple(
        bindings.crypto_sign_seed_keypair(identity_seed(at))[0] for at in range(1, NODES + 2)
    )
    return MixTerms(manifest, route, identities, MESSAGES, 1, ALPHABET, min_reports, USERS, dummies)


def identity_seed(position: int) -> bytes:
    return hashlib.sha256(f"identity {position}".encode()).digest()


def signer(position: int) -> Signer:
    private = bindings.crypto_sign_seed_keypair(identity_seed(position))[1]
    return lambda statement: bindings.crypto_sign(statement, private)[:64]


def credential_seed(user: int) -> bytes:
    return hashlib.sha256(f"credential {user}".encode()).digest()


def symbols(user: int) -> list[int]:
    return [(user * MESSAGES + message) % ALPHABET for message in range(MESSAGES)]


@cache
def honest_user(user: int) -> PreparedClaim:
    return make_claim(terms(), symbols(user), credential_seed(user), randomness(f"user {user}"))


@cache
def honest_users() -> tuple[PreparedClaim, ...]:
    return tuple(honest_user(user) for user in range(USERS))


ENROLLED = frozenset(prepared.claim.credential for prepared in honest_users())


@cache
def listed(
    users: tuple[PreparedClaim, ...],
    round_terms: MixTerms,
    dummies: tuple[PreparedClaim, ...] = (),
) -> ClaimList:
    """The list that an honest node 1 makes: it checks every envelope first."""
    for sender in (*users, *dummies):
        open_submission(round_terms, sender.claim, sender.submission)
    claims = sorted((user.claim for user in users), key=lambda claim: claim.credential)
    claims += [node.claim for node in dummies]
    return check_list(round_terms, claims, ENROLLED, list_signature(round_terms, claims))


def list_signature(round_terms: MixTerms, claims: Sequence[Claim]) -> bytes:
    return signer(1)(signed_list(round_terms, list_digest(round_terms, claims)))


@dataclass
class World:
    """A round: who takes part, and what has been said so far."""

    users: tuple[PreparedClaim, ...] = field(default_factory=honest_users)
    terms: MixTerms = field(default_factory=terms)
    headers: list[Header] = field(default_factory=list)
    transcripts: list[Transcript] = field(default_factory=list)
    board: tuple[bytes, ...] = ()
    board_signature: bytes = b""
    random: RandomBytes = field(default_factory=lambda: randomness("world"))
    dummies: tuple[PreparedClaim, ...] = ()

    def __post_init__(self) -> None:
        self.listed = listed(self.users, self.terms, self.dummies)
        self.hops = [self.node(Hop, position) for position in range(1, NODES + 1)]
        self.analyst = Analyst(self.terms, self.listed, signer(NODES + 1))

    def put(self, kind: type[Hop], position: int) -> World:
        """Puts a cheating node at a position."""
        self.hops[position - 1] = self.node(kind, position)
        return self

    def node(self, kind: type[Hop], position: int, other_list: ClaimList | None = None) -> Hop:
        secret = route_keys()[0][position - 1]
        return kind(self.terms, other_list or self.listed, position, secret, signer(position))

    def play(self) -> World:
        """The whole round; a typed error ends it."""
        senders = (*self.users, *self.dummies)
        self.hops[0].take({sender.claim.credential: sender.submission for sender in senders})
        records: tuple[bytes, ...] = ()
        for party in (*self.hops, self.analyst):
            if party.position > 1:
                party.receive(self.headers, self.transcripts, records)
            accused = party.accuse(self.random)
            if accused:
                self.settle(party, accused)
            if isinstance(party, Hop):
                header, records = party.release(self.random)
                self.headers.append(header)
        self.board, self.board_signature = self.analyst.board()
        self.check()
        return self

    def check(self) -> None:
        check_board(
            self.terms,
            self.listed,
            self.headers,
            self.transcripts,
            self.board,
            self.board_signature,
        )

    def settle(self, party: Receiver, accused: Sequence[AccusedRecord]) -> None:
        try:
            transcript = self.blame(party.position, accused)
        except ShuffleDPError:
            with suppress(UnansweredError, RoundStateError):
                party.settle(
                    None
                )  # what an honest party does when its trace fails: it refuses, and erases
            raise
        party.settle(transcript)
        self.transcripts.append(transcript)

    def question(self, position: int, trace: Trace) -> TraceQuestion:
        return TraceQuestion(position, tuple(self.headers), tuple(self.transcripts), trace)

    def blame(self, position: int, accused: Sequence[AccusedRecord]) -> Transcript:
        """Asks every node in turn, and judges each answer at once, as everybody can."""
        case = follow(self.terms, self.listed, self.headers, self.transcripts).case
        before = self.hops[: position - 1]
        traces, passages = [], []
        for one in accused:
            trace = Trace(one)
            check_trace(case, position, trace)
            for hop in reversed(before):
                answer = hop.show(self.question(position, trace), self.random)
                if answer == trace:
                    raise UnansweredError(f"no answer from node {hop.position}")
                check_trace(case, position, trace := answer)
            traces.append(trace)
        named = {trace.origin.credential: trace for trace in traces if trace.origin}
        for credential in sorted(named):
            passage = Passage(credential)
            for hop in before:
                passage = hop.show_passage(
                    self.question(position, named[credential]), passage, self.random
                )
                check_passage(case, passage)
            passages.append(passage)
        return Transcript(position, tuple(traces), tuple(passages))


def messages(board: Sequence[bytes]) -> list[int]:
    """The symbols on a board, in ascending order: what an honest round publishes."""
    return sorted(message[32] for message in board)


def find(world: World, prepared: PreparedClaim) -> list[int]:
    """The symbols that a user finds under its own secrets."""
    keys = [multiply(secret, world.terms.route.blinding[-1]) for secret in prepared.secrets]
    return [message[32] for key in keys for message in world.board if message[:32] == key]
