"""Dummies of the nodes in a verified round: docs/mixing.md, "Dummies".

Each node draws its dummies once, stores them on disk before anyone gets them, and claims them as a
user claims its messages. The analyst passes them to the entry node, which adds the claims to its
list.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from shuffledp_core.errors import BadClaimError, NodeFault, RoundStateError
from shuffledp_core.mixproof.claiming import (
    EnrolledClaim,
    pack_dummies_claim,
    unpack_dummies_claim,
)
from shuffledp_core.mixproof.claims import (
    Claim,
    ClaimList,
    check_dummies_claim,
    make_dummies_claim,
    open_submission,
)
from shuffledp_core.mixproof.faults import node
from shuffledp_core.mixproof.terms import MixTerms
from shuffledp_core.onion.layers import binding
from shuffledp_core.onion.suites import suite_named
from shuffledp_core.runtime.files import size_of, write_atomic
from shuffledp_core.runtime.keys import Identity
from shuffledp_core.runtime.tasks import in_thread
from shuffledp_core.sampling.randomness import RandomIntegers, system_random
from shuffledp_shuffler.dummies import draw_symbols
from shuffledp_shuffler.live import LiveRound
from shuffledp_shuffler.mixproof.claims import open_sealed
from shuffledp_shuffler.round_state import ENTRY, Phase


async def dummies_of(live: LiveRound, identity: Identity) -> bytes:
    """This node's claim and sealed dummies for the entry node; drawn at the first call.

    D1: they are on disk before they are returned, and every later call returns the same.

    Raises:
        RoundStateError: the nodes of this round send no dummies, or its secrets are erased.
        NodeFault: the disk of this node is damaged.
    """
    _mixing_with_dummies(live)
    live.require_secret()
    async with live.drawing:
        live.require_present()
        return await in_thread(_read_or_draw, live, identity)


def _mixing_with_dummies(live: LiveRound) -> MixTerms:
    mixing = live.require_terms().mixing
    if mixing is None or not mixing.dummies:
        raise RoundStateError(
            f"the mechanism of round {live.record.round_id} has no dummies of nodes"
        )
    return mixing


def _read_or_draw(live: LiveRound, identity: Identity) -> bytes:
    terms = live.require_terms()
    path = live.folder.dummies
    if path.exists():
        return _load(path, terms.geometry.dummies_bytes, live.record.round_id)
    mixing = _mixing_with_dummies(live)
    symbols = draw_symbols(terms.certificate.mechanism, RandomIntegers(system_random))
    prepared = make_dummies_claim(
        mixing, terms.position, symbols, identity.sign_bytes, system_random
    )
    seal = suite_named(terms.geometry.suite).sealer(
        terms.public_keys[0], binding(live.record.round_id, ENTRY)
    )
    data = pack_dummies_claim(prepared.claim) + seal(prepared.submission)
    write_atomic(path, data)
    return data


def _load(path: Path, length: int, round_id: str) -> bytes:
    # A second draw would be a second claim, and the list has room for one.
    if size_of(path) != length:
        raise NodeFault(
            f"the dummies of round {round_id} have {size_of(path)} bytes instead of {length}: "
            "the disk of this node is damaged; run the round again"
        )
    return path.read_bytes()


def require_wanted(live: LiveRound) -> None:
    """Raise `RoundStateError` on a node that takes no other nodes' dummies in this round."""
    _mixing_with_dummies(live)
    live.require_spool()


async def keep_dummies(live: LiveRound, data: bytes) -> None:
    """At the entry node, store the claim and sealed dummies of another node, once.

    1. D2: they have the round's length, and are claimed by another node of the route.
    2. They are the first ones of that node, or repeat them.
    3. C1 to C3, as every verifier checks them.
    4. C4: the sealed part opens to the records of the claim.

    Raises:
        BadClaimError: a check failed; the message names the node if the node signed the claim.
        InvalidSubmissionError: the sealed part does not open.
        RoundStateError: the submissions are closed.
    """
    require_wanted(live)
    mixing = _mixing_with_dummies(live)
    geometry = live.require_terms().geometry
    claim = unpack_dummies_claim(geometry, data[: geometry.dummies_claim_bytes])  # 1
    others = mixing.node_credentials[ENTRY:]
    if len(data) != geometry.dummies_bytes or claim.credential not in others:
        raise BadClaimError(
            "no claim: these are not the dummies of another node on this round's route"
        )
    position = others.index(claim.credential) + ENTRY + 1
    path = live.folder.dummies_of(position)
    async with live.drawing:
        live.require_present()
        if path.exists():  # 2
            if await in_thread(path.read_bytes) != data:
                raise BadClaimError(
                    f"{node(position, mixing.hops)}: sends different dummies than before; a node "
                    "draws them once per round"
                )
            return
        if live.record.phase is not Phase.OPEN:
            raise RoundStateError(
                f"round {live.record.round_id} is {live.record.phase} and takes no more dummies"
            )
        await in_thread(_check, live, mixing, position, claim, data)  # 3, 4
        await in_thread(write_atomic, path, data)


def _check(live: LiveRound, mixing: MixTerms, position: int, claim: Claim, data: bytes) -> None:
    check_dummies_claim(mixing, position, claim)
    open_submission(mixing, claim, _open(live, data))


def _open(live: LiveRound, data: bytes) -> bytes:
    geometry = live.require_terms().geometry
    sealed = data[geometry.dummies_claim_bytes :]
    return open_sealed(geometry, live.record.round_id, live.require_key(), sealed)


def require_all_dummies(live: LiveRound) -> None:
    """Raise `RoundStateError` if a node's dummies are missing at the entry node, D2."""
    mixing = live.require_terms().mixing
    if mixing is None or not mixing.dummies:
        return
    missing = [
        live.require_terms().route[position - 1].node
        for position in range(ENTRY + 1, mixing.hops + 1)
        if not live.folder.dummies_of(position).exists()
    ]
    if missing:
        raise RoundStateError(
            f"round {live.record.round_id} cannot be mixed without the dummies of "
            f"{', '.join(missing)}: send them first"
        )


def listed_dummies(live: LiveRound, users: Sequence[EnrolledClaim]) -> dict[bytes, Claim]:
    """At the entry node, the claims of all nodes' dummies in route order, by credential.

    Raises:
        BadClaimError: a node claims a key of another claim, D2; the message names the node.
    """
    mixing = live.require_terms().mixing
    if mixing is None or not mixing.dummies:
        return {}
    geometry = live.require_terms().geometry
    claims = {}
    seen = set(chain.from_iterable(enrolled.claim.key_list for enrolled in users))
    for position in range(ENTRY, mixing.hops + 1):
        packed = _load(
            live.folder.dummies_of(position), geometry.dummies_bytes, live.record.round_id
        )
        claim = unpack_dummies_claim(geometry, packed[: geometry.dummies_claim_bytes])
        # Who proved to know the secret of such a key has it from the other party.
        if not seen.isdisjoint(claim.key_list):
            raise BadClaimError(
                f"{node(position, mixing.hops)}: claims a key that another party claims"
            )
        seen.update(claim.key_list)
        claims[claim.credential] = claim
    return claims


def dummies_sent(live: LiveRound) -> dict[bytes, bytes]:
    """At the entry node, the seed and records of every node's dummies, by credential."""
    mixing = live.require_terms().mixing
    return {
        credential: _open(live, live.folder.dummies_of(position).read_bytes())
        for position, credential in enumerate(
            () if mixing is None else mixing.node_credentials, start=ENTRY
        )
    }


def require_own_dummies(live: LiveRound, listed: ClaimList) -> None:
    """Check that a list has the claim of this node's dummies that is on its disk, D4.

    Raises:
        NodeFault: the list has another claim. Nothing is forwarded.
    """
    mixing = live.require_terms().mixing
    if mixing is None or not mixing.dummies:
        return
    claim = pack_dummies_claim(listed.claims[listed.users + live.record.position - 1])
    path = live.folder.dummies
    drawn = path.read_bytes() if path.exists() else b""
    if drawn[: len(claim)] != claim:
        raise NodeFault(
            "the list has dummies with this node's signature that this node did not draw: its "
            "state was restored, or its identity key is used elsewhere; nothing is forwarded; "
            "run the round again"
        )
