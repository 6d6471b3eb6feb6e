"""The terms of a verified round from its signed documents: docs/protocol.md, "Verified rounds"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from shuffledp_core.documents.digests import document_digest
from shuffledp_core.documents.models import Certificate, Manifest, MixingKey, Roster, RoundKey
from shuffledp_core.documents.signed import Signed
from shuffledp_core.errors import ForeignDocumentError, RoundKeyError
from shuffledp_core.mixproof.keys import NodeKey, Route, check_route, route_context
from shuffledp_core.mixproof.terms import MixTerms

_HEX: Final = re.compile(r"([0-9a-f]{2})*")


def mixing_key(
    key: NodeKey, enrolment_key: str, withdrawals: int, withdrawals_digest: str
) -> MixingKey:
    """The part of a round key that carries a node's public keys for provable mixing."""
    return MixingKey(
        blinding=key.blinding.hex(),
        blinding_proof=key.blinding_proof.hex(),
        opening=key.opening.hex(),
        opening_proof=key.opening_proof.hex(),
        enrolment_key=enrolment_key,
        withdrawals=withdrawals,
        withdrawals_digest=withdrawals_digest,
    )


def mixing_part(key: RoundKey) -> MixingKey:
    """The mixing part of a round key; raises `RoundKeyError` if it has none."""
    if not isinstance(key.mixing, MixingKey):
        raise RoundKeyError(f"the round key of {key.node[:80]!r} has no keys for verified mixing")
    return key.mixing


def _node_key(key: RoundKey) -> NodeKey:
    part = mixing_part(key)
    fields = (part.blinding, part.blinding_proof, part.opening, part.opening_proof)
    if not all(_HEX.fullmatch(field) for field in fields):
        raise RoundKeyError(f"the mixing keys of {key.node[:80]!r} are not lower-case hex")
    return NodeKey(*map(bytes.fromhex, fields))


def check_keys(
    deployment: str, round_id: str, certificate: Signed, keys: Sequence[RoundKey]
) -> Route:
    """Checks the mixing keys of the first nodes of a route, or of all, K1 to K3.

    Raises:
        RoundKeyError: a check failed; the message names the node.
    """
    context = route_context(deployment, round_id, document_digest(certificate))
    return check_route(context, [key.node for key in keys], [_node_key(key) for key in keys])


def check_mix(certificate: Certificate, keys: Sequence[RoundKey]) -> None:
    """Raise `RoundKeyError` unless exactly the keys of a verified round carry mixing keys."""
    for key in keys:
        if isinstance(key.mixing, MixingKey) != certificate.verified:
            raise RoundKeyError(
                f"the round key of {key.node[:80]!r} is not for the kind of mixing that the "
                "certificate names"
            )


def check_enrolment_key(certificate: Certificate, entry: RoundKey, roster: Roster) -> None:
    """Check that the roster has the enrolment key that node 1 uses for a verified round's claims.

    With another key no one on node 1's list would be enrolled, and an honest node 1 would seem to
    have listed made-up users. This party cannot tell whether node 1 or the author of the roster is
    wrong, so the error names no party.

    Raises:
        ForeignDocumentError: the roster gives the population another enrolment key than the round
            uses, or has no such population.
    """
    name = certificate.population
    if mixing_part(entry).enrolment_key != roster.population(name).enrolment_key:
        raise ForeignDocumentError(
            f"this roster's enrolment key of {name!r} is not the one that the round uses, so the "
            "round's claims cannot be verified: use the roster of the round's time, or open a "
            "new round once all parties have the new roster"
        )


def mix_terms(
    signed: Signed,
    manifest: Manifest,
    certificate: Certificate,
    keys: Sequence[RoundKey],
    roster: Roster,
) -> MixTerms:
    """The terms of a verified round, from its signed documents.

    `signed` is the manifest as it travels, all documents are checked otherwise.

    Raises:
        RoundKeyError: K1 to K3, naming the node.
        ForeignDocumentError: as `check_enrolment_key`.
    """
    check_enrolment_key(certificate, keys[0], roster)
    route = check_keys(manifest.deployment, manifest.round_id, manifest.certificate, keys)
    parties = [*(roster.party(key.node) for key in keys), roster.analyst]
    return MixTerms(
        manifest=bytes.fromhex(document_digest(signed)),
        route=route,
        identities=tuple(bytes.fromhex(party.identity_key) for party in parties),
        messages_per_user=manifest.geometry.messages_per_user,
        symbol_bytes=manifest.geometry.symbol_bytes,
        alphabet=certificate.mechanism.alphabet,
        min_reports=manifest.min_reports,
        max_reports=manifest.max_reports,
        dummies=manifest.geometry.dummies_per_node,
    )
