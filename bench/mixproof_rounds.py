"""Whole rounds of the core in this process, plain and verified, with the processor time of each
party.
"""

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
from shuffledp_analyst.blame import traced
from shuffledp_core.answering.decoding import decode
from shuffledp_core.mixproof.chain import Chain, check_board
from shuffledp_core.mixproof.claims import (
    Claim,
    ClaimList,
    Prepared,
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
from shuffledp_core.mixproof.hops import Analyst, Hop, Question
from shuffledp_core.mixproof.keys import NodeKey, NodeSecret, check_route, make_key
from shuffledp_core.mixproof.terms import MixTerms
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.onion.layers import binding, open_envelope, peel, seal_envelope
from shuffledp_core.onion.suites import suite_named

ROUND, CONTEXT = "00" * 16, bytes(32)

BAD_LAYER: Final = 3
"""Position at which a message of the user who is blamed says nothing."""


@dataclass
class Times:
    """Seconds of processor time: of all clients, of each node, of the analyst, and of tracing by
    all of them.
    """

    clients: float = 0.0
    nodes: list[float] = field(default_factory=list)
    analyst: float = 0.0
    blame: float = 0.0

    @property
    def round(self) -> float:
        """All of it."""
        return self.clients + sum(self.nodes) + self.analyst + self.blame


def timed(work: Callable[[], object]) -> float:
    """Seconds of processor time of all threads."""
    began = time.process_time()
    work()
    return time.process_time() - began


def plain_round(geometry: Geometry, users: int) -> Times:
    """Seals of so many users, what each node peels, and what the analyst reads."""
    suite = suite_named(geometry.suite)
    keys = [suite.generate() for _ in range(geometry.hops)]
    public, content = (
        [key for _, key in keys],
        [bytes(geometry.plain_bytes)] * geometry.messages_per_user,
    )
    envelopes: list[bytes] = []
    batches: list[bytes] = []

    def sealed() -> None:
        envelopes.extend(seal_envelope(geometry, ROUND, public, content) for _ in range(users))

    def opened() -> None:
        batches.append(
            b"".join(open_envelope(geometry, ROUND, keys[0][0], envelope) for envelope in envelopes)
        )

    def peeled(position: int) -> None:
        batches.append(peel(geometry, ROUND, position, keys[position - 1][0], batches.pop()))

    found = Times(clients=timed(sealed), nodes=[timed(opened)])
    found.nodes += [
        timed(lambda at=position: peeled(at))  # type: ignore[misc]
        for position in range(2, geometry.hops + 1)
    ]
    found.analyst = timed(lambda: decode(batches[-1], geometry, 2, users))
    return found


class MixproofRound:
    """A verified round of so many users.

    It may be played again, with one user whose message says nothing.
    """

    def __init__(self, geometry: Geometry, users: int) -> None:
        self._geometry = geometry
        names = tuple(f"node-{position}" for position in range(1, geometry.hops + 1))
        made: list[tuple[NodeSecret, NodeKey]] = []
        for position, name in enumerate(names, start=1):
            route = check_route(CONTEXT, names[: position - 1], [key for _, key in made])
            made.append(make_key(CONTEXT, name, position, route.blinding[-1], os.urandom))
        identities = [bindings.crypto_sign_keypair() for _ in range(geometry.hops + 1)]
        route = check_route(CONTEXT, names, [key for _, key in made])
        public = tuple(key for key, _ in identities)
        # One user may be excluded.
        self._terms = MixTerms(
            bytes(32), route, public, geometry.messages_per_user, 1, 2, users - 1, users
        )
        self._secrets = [secret for secret, _ in made]
        self._signers = [_signer(private) for _, private in identities]
        self._envelope_keys = suite_named(geometry.suite).generate()
        self._seeds = [hashlib.sha256(user.to_bytes(4, "big")).digest() for user in range(users)]
        self._sent: dict[bytes, tuple[Prepared, bytes]] = {}
        self._making = timed(self._make)

    def _make(self) -> None:
        for seed in self._seeds:
            self._send(self._honest(seed))

    def _honest(self, seed: bytes) -> Prepared:
        return make_claim(self._terms, [1] * self._terms.messages_per_user, seed, os.urandom)

    def _bad(self, seed: bytes) -> Prepared:
        secrets = [random_scalar(os.urandom) for _ in range(self._terms.messages_per_user)]
        records = [seal_record(self._terms, secret, 1) for secret in secrets[1:]]
        records.insert(0, spoiled_record(self._terms, secrets[0], BAD_LAYER))
        return sign_claim(self._terms, records, secrets, seed, os.urandom)

    def _send(self, made: Prepared) -> None:
        seal = suite_named(self._geometry.suite).sealer(self._envelope_keys[1], binding(ROUND, 1))
        self._sent[made.claim.credential] = made, seal(made.submission)

    def play(self, *, blamed: bool = False) -> Times:
        """One round, from the claims to the board; with a user who is named on the way."""
        if blamed:
            self._send(self._bad(self._seeds[0]))
        found, self._headers, self._transcripts = (
            Times(clients=self._making),
            list[Header](),
            list[Transcript](),
        )
        submissions: dict[bytes, bytes] = {}
        hops: list[Hop] = []
        self._claims = sorted(
            (made.claim for made, _ in self._sent.values()), key=lambda claim: claim.credential
        )
        self._enrolled = {claim.credential for claim in self._claims}
        receipts = timed(lambda: submissions.update(self._admitted()))
        self._list_signature = self._signers[0](
            signed_list(self._terms, list_digest(self._terms, self._claims))
        )
        records: tuple[bytes, ...] = ()

        def listed(position: int) -> None:
            hops.append(
                Hop(
                    self._terms,
                    self._checked(),
                    position,
                    self._secrets[position - 1],
                    self._signers[position - 1],
                )
            )

        def taken(hop: Hop, records: tuple[bytes, ...]) -> None:
            if hop.position == 1:
                hop.take(submissions)
            else:
                hop.receive(self._headers, self._transcripts, records)

        for position in range(1, self._terms.analyst):
            spent = receipts if position == 1 else 0.0
            spent += timed(lambda at=position: listed(at))  # type: ignore[misc]
            spent += timed(lambda records=records: taken(hops[-1], records))  # type: ignore[misc]
            found.blame += timed(lambda: self._settled(hops[-1], hops))
            out: list[tuple[Header, tuple[bytes, ...]]] = []
            spent += timed(lambda out=out: out.append(hops[-1].release(os.urandom)))  # type: ignore[misc]
            header, records = out[0]
            self._headers.append(header)
            found.nodes.append(spent)
        found.analyst = timed(lambda: self._read(records, hops))
        return found

    def _admitted(self) -> dict[bytes, bytes]:
        """What node 1 checks before its receipts; the submissions."""
        private = self._envelope_keys[0]
        opener = suite_named(self._geometry.suite).opener(private, binding(ROUND, 1))
        found = {}
        for made, sealed in self._sent.values():
            check_claim(self._terms, made.claim, self._enrolled)
            found[made.claim.credential] = opener(sealed)
            open_submission(self._terms, made.claim, found[made.claim.credential])
        return found

    def _checked(self) -> ClaimList:
        return check_list(self._terms, self._claims, self._enrolled, self._list_signature)

    def _settled(self, party: Hop | Analyst, hops: list[Hop]) -> None:
        accused = party.accuse(os.urandom)
        if accused:
            transcript = asyncio.run(
                traced(party.chain, party.position, accused, _Answers(hops).ask)
            )
            party.settle(transcript)
            self._transcripts.append(transcript)

    def _read(self, records: tuple[bytes, ...], hops: list[Hop]) -> None:
        analyst = Analyst(self._terms, self._checked(), self._signers[-1])
        analyst.receive(self._headers, self._transcripts, records)
        self._settled(analyst, hops)
        self._board = analyst.board()

    def verify(self) -> tuple[float, Chain]:
        """Seconds of somebody who checks what the last round published; and what that shows."""
        found: list[Chain] = []
        spent = timed(
            lambda: found.append(
                check_board(
                    self._terms, self._checked(), self._headers, self._transcripts, *self._board
                )
            )
        )
        return spent, found[0]

    @property
    def claims(self) -> list[Claim]:
        """Of the last round, by ascending credential."""
        return self._claims


class _Answers:
    """The nodes before an accuser, who are asked in turn."""

    def __init__(self, hops: list[Hop]) -> None:
        self._hops = hops

    async def ask(self, position: int, inquiry: Inquiry) -> Inquiry:
        hop = self._hops[position - 1]
        questions = {
            trace.origin.credential if trace.origin else b"": Question(
                inquiry.position, inquiry.headers, inquiry.transcripts, trace
            )
            for trace in inquiry.traces
        }

        def passed(passage: Passage) -> Passage:
            return hop.show_passage(questions[passage.credential], passage, os.urandom)

        if inquiry.passages:
            return Inquiry(
                inquiry.position,
                inquiry.headers,
                inquiry.transcripts,
                inquiry.traces,
                tuple(passed(passage) for passage in inquiry.passages),
            )
        traces = tuple(hop.show(question, os.urandom) for question in questions.values())
        return Inquiry(inquiry.position, inquiry.headers, inquiry.transcripts, traces)


def _signer(private: bytes) -> Callable[[bytes], bytes]:
    return lambda statement: bindings.crypto_sign(statement, private)[: bindings.crypto_sign_BYTES]
