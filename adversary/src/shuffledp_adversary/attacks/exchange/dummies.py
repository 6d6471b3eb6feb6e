"""A malicious node that cheats with the dummies of a verified round: its own, or another node's."""

from __future__ import annotations

import os
from typing import Final

import msgspec

from shuffledp_core.documents.digests import digest
from shuffledp_core.documents.models import BatchHeader
from shuffledp_core.errors import RoundStateError
from shuffledp_core.mixproof.claiming import (
    pack_claim,
    pack_dummies_claim,
    signed_enrolments,
)
from shuffledp_core.mixproof.claims import (
    ClaimList,
    list_digest,
    make_dummies_claim,
    seal_record,
    sign_claim,
    signed_list,
)
from shuffledp_core.mixproof.group import element, multiply, random_scalar, total
from shuffledp_core.mixproof.history import History
from shuffledp_core.mixproof.hops import Hop
from shuffledp_core.mixproof.terms import MixTerms, split_record
from shuffledp_core.onion.layers import binding
from shuffledp_core.onion.suites import suite_named
from shuffledp_core.runtime.files import write_atomic
from shuffledp_core.runtime.keys import Identity
from shuffledp_core.sampling.randomness import system_random
from shuffledp_shuffler.live import LiveRound
from shuffledp_shuffler.mixproof.dummies import dummies_sent, listed_dummies
from shuffledp_shuffler.mixproof.mixing import read_spool

WITHHOLD: Final = "withhold-dummies"
"""Order to send no dummies."""

BREAK: Final = "break-dummies"
"""Order to claim dummies of which one does not open at node 2."""

FORGE: Final = "forge-dummies"
"""Order to node 1 to list dummies of its own in the place of the last node's."""

DROP: Final = "drop-dummy"
"""Order to node 1 to drop one dummy of the last node from its output."""

EXCHANGE: Final = "exchange-dummy"
"""Order to node 1 to send a message of its own in the place of a dummy of the last node."""

CRASH: Final = "crash-with-dummies"
"""Order to end the process when the dummies are drawn, before anyone gets them."""

OWN: Final = frozenset({WITHHOLD, BREAK, CRASH})
"""Orders about the node's own dummies."""

ORDERS: Final = frozenset({*OWN, FORGE, DROP, EXCHANGE})


def mixing_of(live: LiveRound) -> MixTerms:
    """The terms of a verified round."""
    mixing = live.require_terms().mixing
    if mixing is None:
        raise ValueError("this tampering needs a verified round, but the round's mixing is plain")
    return mixing


def leave_broken_dummies(live: LiveRound, identity: Identity) -> None:
    """Carry out the order `BREAK`, once per round: store broken dummies for the node to send."""
    if live.folder.dummies.exists():
        return
    mixing = mixing_of(live)
    secrets = [random_scalar(system_random) for _ in range(mixing.dummies)]
    records = [seal_record(mixing, secret, 0) for secret in secrets]
    records[0] = records[0][:-1] + bytes([records[0][-1] ^ 1])
    seed = identity.key.private_bytes_raw()
    prepared = sign_claim(mixing, records, secrets, seed, system_random)
    terms = live.require_terms()
    seal = suite_named(terms.geometry.suite).sealer(
        terms.public_keys[0], binding(live.record.round_id, 1)
    )
    write_atomic(
        live.folder.dummies, pack_dummies_claim(prepared.claim) + seal(prepared.submission)
    )


def obey_before_sending(order: str | None, live: LiveRound, identity: Identity) -> None:
    """Carry out an order about this node's own dummies, before it sends them."""
    if order == WITHHOLD:
        raise RoundStateError("this node sends no dummies")
    if order == BREAK:
        leave_broken_dummies(live, identity)


def obey_after_drawing(order: str | None) -> None:
    """Carry out the order `CRASH`: end the process at once, as `kill -9` does."""
    if order == CRASH:
        os._exit(9)


def records_of_last_node(live: LiveRound, records: list[bytes]) -> list[bytes]:
    """One dummy of the last node among node 1's output records; node 1 can recognise it."""
    secret = live.require_secret().blinding
    claim = list(listed_dummies(live, ()).values())[-1]
    key = multiply(secret, element(claim.key_list[0]))
    return [record for record in records if split_record(record)[0] == key]


def forged_batch(live: LiveRound, identity: Identity, header: BatchHeader) -> BatchHeader:
    """Carry out the order `FORGE`: list and mix forged dummies instead of the last node's."""
    mixing = mixing_of(live)
    claims, records = read_spool(live)
    honest = list(listed_dummies(live, claims).values())
    prepared = make_dummies_claim(
        mixing, mixing.hops, [0] * mixing.dummies, identity.sign_bytes, system_random
    )
    dummies = (*honest[:-1], prepared.claim)
    listed = (*(enrolled.claim for enrolled in claims), *dummies)
    listed_digest = list_digest(mixing, listed)
    keys = total(key for claim in listed for key in claim.key_list)
    claim_list = ClaimList(listed_digest, listed, keys, len(claims))
    hop = Hop(mixing, claim_list, 1, live.require_secret(), identity.sign_bytes)
    hop.take(records | dummies_sent(live) | {prepared.claim.credential: prepared.submission})
    hop.accuse(system_random)
    first, sent = hop.release(system_random)
    history = History(
        b"",
        identity.sign_bytes(signed_list(mixing, listed_digest)),
        identity.sign_bytes(signed_enrolments(mixing, claims)),
        (*map(pack_claim, claims), *map(pack_dummies_claim, dummies)),
        (first,),
    )
    packed = history.to_bytes()
    batch = packed + b"".join(sent)
    write_atomic(live.folder.outgoing, batch)
    return msgspec.structs.replace(header, digest=digest(batch), history=len(packed))
