"""A malicious node of a verified round, which replaces its honest output.

It has the secrets of its own position, so that the messages it makes up decrypt at every later
node, and it signs list and header again. It cannot prove a false sum of keys.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from shuffledp_adversary.attacks.exchange import dummies
from shuffledp_adversary.attacks.exchange.tampering import (
    CROWD,
    TAMPERINGS,
    Pool,
    exchange,
    shrink,
    split_records,
)
from shuffledp_core.documents.digests import digest
from shuffledp_core.documents.models import BatchHeader, Credential, Roster
from shuffledp_core.documents.signed import sign
from shuffledp_core.mixproof.chain import follow
from shuffledp_core.mixproof.claiming import (
    EnrolledClaim,
    enrolled_claim,
    pack_claim,
    signed_enrolments,
)
from shuffledp_core.mixproof.claims import (
    ClaimList,
    board_message,
    list_digest,
    make_claim,
    signed_list,
)
from shuffledp_core.mixproof.group import Element, element, multiply, random_scalar, total
from shuffledp_core.mixproof.headers import make_header
from shuffledp_core.mixproof.history import History, check_history
from shuffledp_core.mixproof.hops import Hop
from shuffledp_core.mixproof.manifests import mixing_part
from shuffledp_core.mixproof.terms import MixTerms
from shuffledp_core.mixproof.terms import split_record as parts_of
from shuffledp_core.mixproof.trees import Tree
from shuffledp_core.runtime.files import write_atomic
from shuffledp_core.runtime.keys import Identity
from shuffledp_core.sampling.randomness import system_random
from shuffledp_shuffler.live import LiveRound
from shuffledp_shuffler.mixproof.claims import open_sealed, split_submission

KNOWN = frozenset({"copy", "mark", "substitute", "exchange", "isolate", "shrink", "grow", CROWD})
"""Tamperings that make sense where there are no receipt tags and the last node sees no symbol."""

_OF_DUMMIES: Final = {dummies.DROP: shrink, dummies.EXCHANGE: exchange}
"""What is done to a dummy of the last node by an order about it."""


@dataclass(frozen=True)
class MixproofPool(Pool):
    """A pool of records `key || box`."""

    mixing: MixTerms | None = None

    def forge(self, symbol: int) -> bytes:
        """See `Pool.forge`: the record decrypts at every later party."""
        terms = self.mixing
        if terms is None:
            raise ValueError("the pool of a verified round needs the round's mixing terms")
        secret = random_scalar(system_random)
        message = board_message(terms, secret, symbol)
        self.made_up.append(message)
        key, box = parts_of(message)
        box = terms.seal(terms.analyst, Element(key), box)
        for position in range(terms.hops, max(self.position, 1), -1):
            box = terms.seal(position, multiply(secret, terms.route.opener(position)[1]), box)
        return multiply(secret, terms.route.blinding[self.position]) + box


def tampered_batch(
    live: LiveRound,
    identity: Identity,
    roster: Roster,
    header: BatchHeader,
    order: str,
    leave: Callable[[list[bytes]], None],
) -> BatchHeader:
    """Change `live.folder.outgoing` as ordered; return the header of what is then sent.

    `leave` receives the messages that were made up.
    """
    if order not in KNOWN | dummies.ORDERS:
        raise ValueError(f"unknown tampering of a verified round: {order!r}")
    if order == CROWD:
        return _crowd(live, identity, header, leave)
    if order == dummies.FORGE:
        return dummies.forged_batch(live, identity, header)
    if order in _OF_DUMMIES:
        return exchanged_batch(
            live, identity, roster, header, _OF_DUMMIES[order], leave, dummies.records_of_last_node
        )
    return exchanged_batch(live, identity, roster, header, TAMPERINGS[order], leave)


def exchanged_batch(
    live: LiveRound,
    identity: Identity,
    roster: Roster,
    header: BatchHeader,
    tamper: Callable[[MixproofPool], list[bytes]],
    leave: Callable[[list[bytes]], None],
    victim: Callable[[LiveRound, list[bytes]], list[bytes]] | None = None,
) -> BatchHeader:
    """Replace the honest output by the result of `tamper`, with a newly signed header.

    `victim` chooses the attacked records; None: those of a user. See `tampered_batch`.
    """
    terms = live.require_terms()
    length = header.history if isinstance(header.history, int) else 0
    data = live.folder.outgoing.read_bytes()
    history = History.from_bytes(data[:length])
    mixing = _terms(live)
    records = split_records(data[length:], terms.geometry.record_bytes(header.position))
    pool = MixproofPool(
        geometry=terms.geometry,
        round_id=header.round_id,
        public_keys=[],
        position=terms.position,
        records=records,
        victim=(victim or _victim)(live, records),
        mixing=mixing,
    )
    changed = tamper(pool)
    leave(pool.made_up)
    claim_list = check_history(
        history,
        terms.manifest,
        mixing,
        roster.population(terms.certificate.population),
        mixing_part(terms.route[0]),
    )
    incoming = follow(mixing, claim_list, history.headers[:-1], history.transcripts).total
    stated = replace(history.headers[-1], count=len(changed), root=Tree(changed).root)
    secret = live.require_secret().blinding
    signed_header = make_header(
        mixing, stated, incoming, secret, identity.sign_bytes, system_random
    )
    return _commit(
        live, header, replace(history, headers=(*history.headers[:-1], signed_header)), changed
    )


def _commit(
    live: LiveRound, header: BatchHeader, history: History, records: Sequence[bytes]
) -> BatchHeader:
    packed = history.to_bytes()
    batch = packed + b"".join(records)
    write_atomic(live.folder.outgoing, batch)
    mixing = _terms(live)
    users = (len(records) - mixing.count_messages(0)) // mixing.messages_per_user
    return msgspec.structs.replace(
        header, users=users, records=len(records), digest=digest(batch), history=len(packed)
    )


def _terms(live: LiveRound) -> MixTerms:
    mixing = live.require_terms().mixing
    if mixing is None:
        raise ValueError("this tampering needs a verified round, but the round's mixing is plain")
    return mixing


def _victim(live: LiveRound, records: list[bytes]) -> list[bytes]:
    """The victim's records, those of the first claim in the spool; only node 1 knows them."""
    if not live.record.is_entry:
        return records[:1]
    geometry = live.require_terms().geometry
    claim = split_submission(
        geometry, live.folder.envelopes.read_bytes()[: geometry.envelope_bytes]
    )[0].claim
    secret = live.require_secret().blinding
    keys = {multiply(secret, element(key)) for key in claim.key_list}
    return [record for record in records if parts_of(record)[0] in keys]


def _crowd(
    live: LiveRound, identity: Identity, header: BatchHeader, leave: Callable[[list[bytes]], None]
) -> BatchHeader:
    """List the victim and invented, unenrolled users, and mix their records honestly."""
    geometry = live.require_terms().geometry
    mixing = _terms(live)
    spooled = live.folder.envelopes.read_bytes()[: geometry.envelope_bytes]
    victim, sealed = split_submission(geometry, spooled)
    submissions = {
        victim.claim.credential: open_sealed(geometry, header.round_id, live.require_key(), sealed)
    }
    claims: list[EnrolledClaim] = [victim]
    shown: list[bytes] = []
    for _ in range(live.record.accepted - 1):
        key = Ed25519PrivateKey.generate()
        enrolment_key = Ed25519PrivateKey.generate()
        name = key.public_key().public_bytes_raw().hex()
        population = live.require_terms().certificate.population
        credential = sign(
            Credential(population=population, public_key=name), population, enrolment_key
        )
        prepared = make_claim(
            mixing, [0] * geometry.messages_per_user, key.private_bytes_raw(), system_random
        )
        claims.append(enrolled_claim(prepared.claim, credential))
        submissions[prepared.claim.credential] = prepared.submission
        shown += prepared.messages
    claims.sort(key=lambda enrolled: enrolled.claim.credential)
    plain = [enrolled.claim for enrolled in claims]
    listed_digest = list_digest(mixing, plain)
    claim_list = ClaimList(
        listed_digest,
        tuple(plain),
        total(key for claim in plain for key in claim.key_list),
        len(plain),
    )
    hop = Hop(mixing, claim_list, 1, live.require_secret(), identity.sign_bytes)
    hop.take(submissions)
    hop.accuse(system_random)
    first, records = hop.release(system_random)
    leave(shown)
    signature = identity.sign_bytes(signed_list(mixing, listed_digest))
    enrolments = identity.sign_bytes(signed_enrolments(mixing, claims))
    history = History(
        b"", signature, enrolments, tuple(pack_claim(enrolled) for enrolled in claims), (first,)
    )
    return _commit(live, header, history, records)
