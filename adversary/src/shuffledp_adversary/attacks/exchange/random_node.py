"""A malicious node of a verified round that deviates once, at random.

Otherwise it follows the protocol.

Most of the time it signs its changed output again. The deviation may also be a wrong step of a
trace, or an accusation of a record that decrypts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Final

import msgspec

from shuffledp_adversary.attacks.exchange.framing import leave_accusation
from shuffledp_adversary.attacks.exchange.random_changes import (
    change_field,
    change_records,
    flip_bit,
)
from shuffledp_core.documents.digests import digest
from shuffledp_core.documents.models import BatchHeader, Roster
from shuffledp_core.mixproof.blame import Case, signed_answer, signed_moves
from shuffledp_core.mixproof.chain import Chain, follow
from shuffledp_core.mixproof.evidence import AccusedRecord, Moves, Passage, Trace
from shuffledp_core.mixproof.headers import Header, Signer, make_header, signed_header
from shuffledp_core.mixproof.history import (
    History,
    Inquiry,
    check_history,
    pack_document,
    unpack_document,
)
from shuffledp_core.mixproof.manifests import mixing_part
from shuffledp_core.mixproof.terms import MixTerms
from shuffledp_core.mixproof.trees import Tree
from shuffledp_core.runtime.files import write_atomic
from shuffledp_core.runtime.keys import Identity
from shuffledp_core.sampling.randomness import system_random
from shuffledp_shuffler.live import LiveRound

WHERE: Final = (
    "records",
    "records",
    "header",
    "history",
    "bytes",
    "accusation",
    "answer",
    "answer",
)
"""Targets of the change: its records with or without a new header, a field of its header, data that
others signed, any bit of its output, its accusation, or its answer."""

_AGAIN: Final = 0.8
"""Probability that it signs its changed output again."""


class RandomCheat:
    """One round's deviation, drawn from the adversary's seed."""

    def __init__(self, live: LiveRound, identity: Identity, roster: Roster, seed: str) -> None:
        self._live, self._identity, self._roster = live, identity, roster
        self._draw = Random(seed)  # noqa: S311 - chooses a tampering; no secret
        self.where = self._draw.choice(WHERE)
        if self.where == "accusation" and live.record.is_entry:
            self.where = "records"  # node 1 opens nothing that it could accuse

    @property
    def _mixing(self) -> MixTerms:
        mixing = self._live.require_terms().mixing
        if mixing is None:
            raise ValueError(
                "this tampering needs a verified round, but the round's mixing is plain"
            )
        return mixing

    @property
    def _sign(self) -> Signer:
        return self._identity.sign_bytes

    # -------------------------------------------------- before and after its own mixing

    def accuse(self) -> None:
        """Store an accusation of a valid record where an honest node stores its own.

        It happens before the node mixes.
        """
        if self.where != "accusation" or self._live.folder.accusation.exists():
            return
        leave_accusation(
            self._live,
            self._identity,
            self._roster,
            choose=self._draw.randrange,
            change=self._maybe_changed,
        )

    def _maybe_changed(self, accused: AccusedRecord) -> AccusedRecord:
        return accused if self._draw.random() < 1 - _AGAIN else change_field(accused, self._draw)

    def output(self, header: BatchHeader) -> BatchHeader:
        """Change the output; return the header of the changed output."""
        length = header.history if isinstance(header.history, int) else 0
        data = self._live.folder.outgoing.read_bytes()
        width = self._mixing.record_bytes(header.position)
        history = History.from_bytes(data[:length])
        records = [data[at : at + width] for at in range(length, len(data), width)]
        changes: dict[str, Callable[[], bytes]] = {
            "records": lambda: self._other_records(history, records),
            "header": lambda: (
                self._with_header(history, self._other_header(history)) + data[length:]
            ),
            "history": lambda: self._other_history(history).to_bytes() + data[length:],
            "bytes": lambda: flip_bit(data, self._draw),
        }
        if self.where not in changes:
            return header
        sent = changes[self.where]()
        write_atomic(self._live.folder.outgoing, sent)
        # The history's length is signed beside the digest: records alone change the rest.
        before = len(sent) - len(data) if self.where in {"header", "history"} else 0
        count = (len(sent) - length - before) // width
        return msgspec.structs.replace(
            header,
            records=count,
            users=count // self._mixing.messages_per_user,
            digest=digest(sent),
            history=length + before,
        )

    def _other_records(self, history: History, records: list[bytes]) -> bytes:
        changed = change_records(records, self._draw)
        header = history.headers[-1]
        if self._draw.random() < _AGAIN:
            incoming = self._chain(history, history.headers[:-1]).total
            stated = replace(header, count=len(changed), root=Tree(changed).root)
            secret = self._live.require_secret().blinding
            header = make_header(self._mixing, stated, incoming, secret, self._sign, system_random)
        return self._with_header(history, header) + b"".join(changed)

    def _other_header(self, history: History) -> Header:
        header = history.headers[-1]
        changed = change_field(header, self._draw)
        if changed.signature == header.signature and self._draw.random() < _AGAIN:
            changed = replace(changed, signature=self._sign(signed_header(self._mixing, changed)))
        return changed

    def _other_history(self, history: History) -> History:
        if len(history.headers) > 1 and self._draw.random() < 0.4:
            first = change_field(history.headers[0], self._draw)
            return replace(history, headers=(first, *history.headers[1:]))
        if history.transcripts and self._draw.random() < 0.5:
            return replace(history, transcripts=history.transcripts[:-1])
        return self._other_list(history)

    def _other_list(self, history: History) -> History:
        claims = list(history.claims)
        at = self._draw.randrange(len(history.claims))
        changes: list[Callable[[], History]] = [
            lambda: replace(history, list_signature=flip_bit(history.list_signature, self._draw)),
            lambda: replace(
                history, enrolment_signature=flip_bit(history.enrolment_signature, self._draw)
            ),
            lambda: replace(
                history,
                claims=(*claims[:at], flip_bit(claims[at], self._draw), *claims[at + 1 :]),
            ),
            lambda: replace(history, claims=(*claims[:at], *claims[at + 1 :])),
        ]
        return self._draw.choice(changes)()

    @staticmethod
    def _with_header(history: History, header: Header) -> bytes:
        return replace(history, headers=(*history.headers[:-1], header)).to_bytes()

    def _chain(self, history: History, headers: tuple[Header, ...]) -> Chain:
        terms = self._live.require_terms()
        population = self._roster.population(terms.certificate.population)
        claim_list = check_history(
            history, terms.manifest, self._mixing, population, mixing_part(terms.route[0])
        )
        return follow(self._mixing, claim_list, headers, history.transcripts)

    # -------------------------------------------------- what it answers

    def answer(self, honest: bytes) -> bytes:
        """Change one thing in an honest answer, and sign the result."""
        if self.where != "answer":
            return honest
        inquiry = unpack_document(honest, Inquiry)
        length = (
            msgspec.json.decode(self._live.record.outgoing.body)["history"]
            if self._live.record.outgoing
            else 0
        )
        own_history = History.from_bytes(self._live.folder.outgoing.read_bytes()[:length])
        case = self._chain(
            replace(own_history, transcripts=inquiry.transcripts), inquiry.headers
        ).case
        if inquiry.passages:
            at = self._draw.randrange(len(inquiry.passages))
            passages = list(inquiry.passages)
            passages[at] = self._other_passage(case, passages[at])
            return pack_document(replace(inquiry, passages=tuple(passages)))
        traces = list(inquiry.traces)
        at = self._draw.randrange(len(inquiry.traces))
        traces[at] = self._other_trace(case, traces[at])
        return pack_document(replace(inquiry, traces=tuple(traces)))

    def _other_trace(self, case: Case, trace: Trace) -> Trace:
        position = self._live.record.position
        if trace.origin is not None:
            origin = change_field(replace(trace.origin, signature=b""), self._draw)
            before = replace(trace, origin=None)
            return replace(
                before,
                origin=replace(
                    origin, signature=self._sign(signed_answer(case, position, before, origin))
                ),
            )
        step, earlier = (
            change_field(replace(trace.steps[-1], signature=b""), self._draw),
            trace.steps[:-1],
        )
        so_far = replace(trace, steps=earlier)
        signature = self._sign(signed_answer(case, position, so_far, step))
        return replace(trace, steps=(*earlier, replace(step, signature=signature)))

    def _other_passage(self, case: Case, passage: Passage) -> Passage:
        moves = list(passage.hops[-1].moves)
        before = replace(passage, hops=passage.hops[:-1])
        at = self._draw.randrange(len(moves))
        moves[at] = change_field(moves[at], self._draw)
        answered = Moves(tuple(moves))
        signature = self._sign(signed_moves(case, self._live.record.position, before, answered))
        return replace(passage, hops=(*before.hops, replace(answered, signature=signature)))
