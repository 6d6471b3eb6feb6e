"""Whole rounds of the core in this process, plain and provable, with processor time by party."""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from nacl import bindings

from shuffledp_adversary.attacks.exchange.spoiled import spoiled_record
from shuffledp_analyst.blame import trace_accusation
from shuffledp_core.answering.decoding import decode
from shuffledp_core.mixproof.chain import Chain, check_board
from shuffledp_core.mixproof.claims import (
    Claim,
    ClaimList,
    PreparedClaim,
    check_claim,
    check_list,
    list_digest,
    make_claim,
    open_submission,
    seal_record,
    sign_claim,
    signed_list,
)
from shuffledp_core.mixproof.evidence import Passage, Transcript
from shuffledp_core.mixproof.group import random_scalar
from shuffledp_core.mixproof.headers import Header
from shuffledp_core.mixproof.history import Inquiry
from shuffledp_core.mixproof.hops import Analyst, Hop, TraceQuestion
from shuffledp_core.mixproof.keys import NodeKey, NodeSecret, check_route, make_key
from shuffledp_core.mixproof.terms import MixTerms
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.onion.layers import binding, open_envelope, peel, seal_envelope
from shuffledp_core.onion.suites import suite_named

ROUND = "00" * 16
CONTEXT = bytes(32)

BAD_LAYER: Final = 3
"""Position at which a message of the blamed user does not decrypt."""


@dataclass
class Times:
    """Processor seconds of all clients, of each node, of the analyst, and of all tracing."""

    clients: float = 0.0
    nodes: list[float] = field(default_factory=list)
    analyst: float = 0.0
    blame: float = 0.0

    @property
    def round(self) -> float:
        """Processor seconds of the whole round."""
        return self.clients + sum(self.nodes) + self.analyst + self.blame


def seconds_of(work: Callable[[], object]) -> float:
    """Seconds of processor time of all threads."""
    began = time.process_time()
    work()
    return time.process_time() - began


def plain_round(geometry: Geometry, users: int) -> Times:
    """Times of a plain round: sealing by users, peeling by each node, reading by the analyst."""
    suite = suite_named(geometry.suite)
    keys = [suite.generate() for _ in range(geometry.hops)]
    public, content = (
        [key for _, key in keys],
        [bytes(geometry.plain_bytes)] * geometry.messages_per_user,
    )
    envelopes: list[bytes] = []
    batches: list[bytes] = []

    def seal_reports() -> None:
        envelopes.extend(seal_envelope(geometry, ROUND, public, content) for _ in range(users))

    def open_envelopes() -> None:
        batches.append(
            b"".join(open_envelope(geometry, ROUND, keys[0][0], envelope) for envelope in envelopes)
        )

    def peel_layer(position: int) -> None:
        batches.append(peel(geometry, ROUND, position, keys[position - 1][0], batches.pop()))

    times = Times(clients=seconds_of(seal_reports), nodes=[seconds_of(open_envelopes)])
    times.nodes += [
        seconds_of(lambda at=position: peel_layer(at))  # type: ignore[misc]
        for position in range(2, geometry.hops + 1)
    ]
    times.analyst = seconds_of(lambda: decode(batches[-1], geometry, 2, users))
    return times


class MixproofRound:
    """A verified round of a given number of users.

    It can be run several times, also with one user whose message fails to decrypt.
    """

    def __init__(self, geometry: Geometry, users: int) -> None:
        self._geometry = geometry
        names = tuple(f"node-{position}" for position in range(1, geometry.hops + 1))
        prepared: list[tuple[NodeSecret, NodeKey]] = []
        for position, name in enumerate(names, start=1):
            route = check_route(CONTEXT, names[: position - 1], [key for _, key in prepared])
            prepared.append(make_key(CONTEXT, name, position, route.blinding[-1], os.urandom))
        identities = [bindings.crypto_sign_keypair() for _ in range(geometry.hops + 1)]
        route = check_route(CONTEXT, names, [key for _, key in prepared])
        public = tuple(key for key, _ in identities)
        # One user may be excluded.
        self._terms = MixTerms(
            bytes(32), route, public, geometry.messages_per_user, 1, 2, users - 1, users
        )
        self._secrets = [secret for secret, _ in prepared]
        self._signers = [_signer(private) for _, private in identities]
        self._envelope_keys = suite_named(geometry.suite).generate()
        self._seeds = [hashlib.sha256(user.to_bytes(4, "big")).digest() for user in range(users)]
        self._sent: dict[bytes, tuple[PreparedClaim, bytes]] = {}
        self._making = seconds_of(self._make)

    def _make(self) -> None:
        for seed in self._seeds:
            self._send(self._honest(seed))

    def _honest(self, seed: bytes) -> PreparedClaim:
        return make_claim(self._terms, [1] * self._terms.messages_per_user, seed, os.urandom)

    def _bad(self, seed: bytes) -> PreparedClaim:
        secrets = [random_scalar(os.urandom) for _ in range(self._terms.messages_per_user)]
        records = [seal_record(self._terms, secret, 1) for secret in secrets[1:]]
        records.insert(0, spoiled_record(self._terms, secrets[0], BAD_LAYER))
        return sign_claim(self._terms, records, secrets, seed, os.urandom)

    def _send(self, prepared: PreparedClaim) -> None:
        seal = suite_named(self._geometry.suite).sealer(self._envelope_keys[1], binding(ROUND, 1))
        self._sent[prepared.claim.credential] = prepared, seal(prepared.submission)

    def play(self, *, blamed: bool = False) -> Times:
        """Run one round from the claims to the board, with one cheating user who is traced."""
        if blamed:
            self._send(self._bad(self._seeds[0]))
        times, self._headers, self._transcripts = (
            Times(clients=self._making),
            list[Header](),
            list[Transcript](),
        )
        submissions: dict[bytes, bytes] = {}
        hops: list[Hop] = []
        self._claims = sorted(
            (prepared.claim for prepared, _ in self._sent.values()),
            key=lambda claim: claim.credential,
        )
        self._enrolled = {claim.credential for claim in self._claims}
        receipts = seconds_of(lambda: submissions.update(self._admit()))
        self._list_signature = self._signers[0](
            signed_list(self._terms, list_digest(self._terms, self._claims))
        )
        records: tuple[bytes, ...] = ()

        def list_submissions(position: int) -> None:
            hops.append(
                Hop(
                    self._terms,
                    self._check_claims(),
                    position,
                    self._secrets[position - 1],
                    self._signers[position - 1],
                )
            )

        def take(hop: Hop, records: tuple[bytes, ...]) -> None:
            if hop.position == 1:
                hop.take(submissions)
            else:
                hop.receive(self._headers, self._transcripts, records)

        for position in range(1, self._terms.analyst):
            spent = receipts if position == 1 else 0.0
            spent += seconds_of(lambda at=position: list_submissions(at))  # type: ignore[misc]
            spent += seconds_of(lambda records=records: take(hops[-1], records))  # type: ignore[misc]
            times.blame += seconds_of(lambda: self._settle(hops[-1], hops))
            out: list[tuple[Header, tuple[bytes, ...]]] = []
            spent += seconds_of(lambda out=out: out.append(hops[-1].release(os.urandom)))  # type: ignore[misc]
            header, records = out[0]
            self._headers.append(header)
            times.nodes.append(spent)
        times.analyst = seconds_of(lambda: self._read_board(records, hops))
        return times

    def _admit(self) -> dict[bytes, bytes]:
        """Run node 1's checks before its receipts; returns the submissions."""
        private = self._envelope_keys[0]
        opener = suite_named(self._geometry.suite).opener(private, binding(ROUND, 1))
        submissions = {}
        for prepared, sealed in self._sent.values():
            check_claim(self._terms, prepared.claim, self._enrolled)
            submissions[prepared.claim.credential] = opener(sealed)
            open_submission(self._terms, prepared.claim, submissions[prepared.claim.credential])
        return submissions

    def _check_claims(self) -> ClaimList:
        return check_list(self._terms, self._claims, self._enrolled, self._list_signature)

    def _settle(self, party: Hop | Analyst, hops: list[Hop]) -> None:
        accused = party.accuse(os.urandom)
        if accused:
            transcript = asyncio.run(
                trace_accusation(party.chain, party.position, accused, _Answers(hops).ask)
            )
            party.settle(transcript)
            self._transcripts.append(transcript)

    def _read_board(self, records: tuple[bytes, ...], hops: list[Hop]) -> None:
        analyst = Analyst(self._terms, self._check_claims(), self._signers[-1])
        analyst.receive(self._headers, self._transcripts, records)
        self._settle(analyst, hops)
        self._board = analyst.board()

    def verify(self) -> tuple[float, Chain]:
        """Verify the last round's published documents; returns the seconds and the result."""
        chains: list[Chain] = []
        spent = seconds_of(
            lambda: chains.append(
                check_board(
                    self._terms,
                    self._check_claims(),
                    self._headers,
                    self._transcripts,
                    *self._board,
                )
            )
        )
        return spent, chains[0]

    @property
    def claims(self) -> list[Claim]:
        """Claims of the last round, by ascending credential."""
        return self._claims


class _Answers:
    """The nodes before an accuser, which are asked in turn."""

    def __init__(self, hops: list[Hop]) -> None:
        self._hops = hops

    async def ask(self, position: int, inquiry: Inquiry) -> Inquiry:
        hop = self._hops[position - 1]
        questions = {
            trace.origin.credential if trace.origin else b"": TraceQuestion(
                inquiry.position, inquiry.headers, inquiry.transcripts, trace
            )
            for trace in inquiry.traces
        }

        def pass_on(passage: Passage) -> Passage:
            return hop.show_passage(questions[passage.credential], passage, os.urandom)

        if inquiry.passages:
            return Inquiry(
                inquiry.position,
                inquiry.headers,
                inquiry.transcripts,
                inquiry.traces,
                tuple(pass_on(passage) for passage in inquiry.passages),
            )
        traces = tuple(hop.show(question, os.urandom) for question in questions.values())
        return Inquiry(inquiry.position, inquiry.headers, inquiry.transcripts, traces)


def _signer(private: bytes) -> Callable[[bytes], bytes]:
    return lambda statement: bindings.crypto_sign(statement, private)[: bindings.crypto_sign_BYTES]
