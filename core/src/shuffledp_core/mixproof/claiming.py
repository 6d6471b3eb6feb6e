"""Claims on the wire: a claim with its enrolment, packed into a length fixed by the geometry.

A claim names a credential by its public key. Every party checks by the enrolment authority's
signature that it is enrolled. The credential's document has only one encoding, so expiry and
signature are enough to rebuild it. docs/protocol.md, "Verified rounds".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from shuffledp_core.documents.digests import document_digest
from shuffledp_core.documents.models import Credential, MixingKey, Population, Withdrawals
from shuffledp_core.documents.signed import Signed, from_json, to_json, verify
from shuffledp_core.errors import (
    BadClaimError,
    DocumentError,
    ForeignDocumentError,
    MalformedDocumentError,
)
from shuffledp_core.mixproof.claims import Claim
from shuffledp_core.mixproof.faults import user
from shuffledp_core.mixproof.group import WIDTH, digest_parts
from shuffledp_core.mixproof.terms import MixTerms
from shuffledp_core.onion.geometry import Geometry

_EXPIRY_BYTES: Final = 8
_SIGNATURE_BYTES: Final = 64
_PROOF_BYTES: Final = 64
_NEVER: Final = 2 ** (8 * _EXPIRY_BYTES) - 1
"""How "never" is written where a credential does not expire."""


@dataclass(frozen=True)
class EnrolledClaim:
    """A claim with proof that its credential is enrolled: expiry and signature.

    The expiry is in milliseconds since 1970, or None.
    """

    claim: Claim
    expires_at: int | None
    enrolment: bytes

    def credential(self, population: str) -> Signed:
        """The credential's document, as the enrolment authority signed it."""
        owner = Credential(
            population=population,
            public_key=self.claim.credential.hex(),
            expires_at=self.expires_at,
        )
        body = to_json(owner).decode()
        return Signed(
            label=Credential.label, signer=population, body=body, signature=self.enrolment.hex()
        )


def enrolled_claim(claim: Claim, credential: Signed) -> EnrolledClaim:
    """A claim with its credential's document.

    Raises:
        MalformedDocumentError: the document is not in the encoding of enrolment authorities, or its
            expiry does not fit into a claim: enrol again.
    """
    owner = from_json(credential.body, Credential)
    if owner.expires_at is not None and not 0 <= owner.expires_at < _NEVER:
        raise MalformedDocumentError(
            f"the credential expires at {owner.expires_at}, which does not fit into the 8 bytes "
            "of a claim: enrol again"
        )
    enrolled = EnrolledClaim(claim, owner.expires_at, bytes.fromhex(credential.signature))
    if enrolled.credential(owner.population) != credential:
        raise MalformedDocumentError(
            "the credential's document is not in the canonical encoding that verified rounds need: "
            "enrol again"
        )
    return enrolled


def pack_claim(enrolled: EnrolledClaim) -> bytes:
    """Encode a claim and its enrolment in `geometry.claim_bytes` bytes."""
    return _packed_expiry(enrolled) + enrolled.enrolment + b"".join(enrolled.claim.parts())


def unpack_claim(geometry: Geometry, data: bytes) -> EnrolledClaim:
    """The inverse of `pack_claim`; nothing is verified yet.

    Raises `BadClaimError` for another length.
    """
    _require_length(data, geometry.claim_bytes)
    enrolment_bytes = _EXPIRY_BYTES + _SIGNATURE_BYTES
    when = int.from_bytes(data[:_EXPIRY_BYTES], "big")
    enrolment = bytes(data[_EXPIRY_BYTES:enrolment_bytes])
    claim = _unpack_fields(data[enrolment_bytes:], geometry.messages_per_user)
    return EnrolledClaim(claim, None if when == _NEVER else when, enrolment)


def pack_dummies_claim(claim: Claim) -> bytes:
    """Encode a node's claim of its dummies in `geometry.dummies_claim_bytes` bytes."""
    return b"".join(claim.parts())


def unpack_dummies_claim(geometry: Geometry, data: bytes) -> Claim:
    """The inverse of `pack_dummies_claim`; nothing is verified yet.

    Raises `BadClaimError` for another length.
    """
    _require_length(data, geometry.dummies_claim_bytes)
    return _unpack_fields(data, geometry.dummies_per_node)


def _require_length(data: bytes, length: int) -> None:
    if len(data) != length:
        raise BadClaimError(f"no claim: expected {length} bytes, got {len(data)}")


def _unpack_fields(data: bytes, messages: int) -> Claim:
    fields = []
    start = 0
    for width in (WIDTH, WIDTH, _PROOF_BYTES, WIDTH * messages, _SIGNATURE_BYTES):
        fields.append(bytes(data[start : start + width]))
        start += width
    return Claim(*fields)


def signed_enrolments(terms: MixTerms, claims: Sequence[EnrolledClaim]) -> bytes:
    """The bytes that node 1 signs with its list: expiry and enrolment of each claim, in order.

    The claim that the credential signed contains neither. Without this signature anyone who relays
    the list could damage one of them, so that an honest node 1 seems to have listed a user who is
    not enrolled.
    """
    parts = [
        part
        for enrolled in claims
        for part in (enrolled.claim.credential, _packed_expiry(enrolled), enrolled.enrolment)
    ]
    return terms.statement("enrolments", 1, digest_parts("enrolments", terms.manifest, *parts))


def _packed_expiry(enrolled: EnrolledClaim) -> bytes:
    return (_NEVER if enrolled.expires_at is None else enrolled.expires_at).to_bytes(
        _EXPIRY_BYTES, "big"
    )


@dataclass(frozen=True)
class Enrolment:
    """Who may take part in one verified round (C1): population, closing time, withdrawals."""

    population: Population
    closes_at: int
    withdrawn: frozenset[bytes]

    def of(self, claims: Iterable[EnrolledClaim]) -> frozenset[bytes]:
        """The credentials of those claims that are enrolled."""
        return frozenset(
            enrolled.claim.credential for enrolled in claims if self.refusal(enrolled) is None
        )

    def refusal(self, enrolled: EnrolledClaim) -> BadClaimError | None:
        """The reason why a claim's credential is not valid when submissions close, as an error.

        None if it will be valid.
        """
        who = user(enrolled.claim.credential)
        if enrolled.claim.credential in self.withdrawn:
            return BadClaimError(
                f"{who}: is withdrawn by the list that this round uses; ask the enrolment "
                "authority for a new credential"
            )
        if enrolled.expires_at is not None and enrolled.expires_at <= self.closes_at:
            return BadClaimError(f"{who}: expires before this round closes; enrol again")
        key = bytes.fromhex(self.population.enrolment_key)
        try:
            verify(enrolled.credential(self.population.name), Credential, self.population.name, key)
        except DocumentError as error:
            return BadClaimError(f"{who}: is not enrolled in {self.population.name!r}: {error}")
        return None


def read_withdrawals(data: bytes, population: Population, key: MixingKey) -> frozenset[bytes]:
    """The withdrawn credentials in the list to which node 1's key commits; none without a list.

    1. It is signed by the population's enrolment key, for this population.
    2. It has the serial and the digest that the key names.

    Raises:
        DocumentError: step 1, as its branches.
        ForeignDocumentError: step 2.
    """
    if not data and not key.withdrawals:
        return frozenset()
    signed = Signed.from_bytes(data)
    withdrawals = verify(
        signed, Withdrawals, population.name, bytes.fromhex(population.enrolment_key)
    )  # 1
    named = (population.name, key.withdrawals, key.withdrawals_digest)
    if (withdrawals.population, withdrawals.serial, document_digest(signed)) != named:  # 2
        raise ForeignDocumentError(
            f"the list of withdrawn credentials is number {withdrawals.serial} of "
            f"{withdrawals.population[:80]!r}, but the round uses number {key.withdrawals} of "
            f"{population.name!r}"
        )
    return frozenset(map(bytes.fromhex, withdrawals.credentials))
