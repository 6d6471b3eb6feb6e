"""The claim that a client signs over its envelope, and the entry node's checks of it."""

from __future__ import annotations

from typing import ClassVar

from shuffledp_core.documents.digests import digest
from shuffledp_core.documents.models import Credential
from shuffledp_core.documents.signed import Document, Signed, verify
from shuffledp_core.errors import (
    DocumentError,
    InvalidSubmissionError,
    UnknownCredentialError,
)


class SubmissionClaim(Document, frozen=True, kw_only=True):
    """A client's statement, under its credential's key, that this envelope is its submission."""

    label: ClassVar[str] = "submission"
    round_id: str
    credential: str
    envelope_digest: str


def credential_id(credential: Credential) -> str:
    """The public name of a credential: its public key."""
    return credential.public_key


def check_claim(
    round_id: str, population: str, enrolment_key: bytes, credential: Signed, claim: Signed
) -> tuple[str, str]:
    """Checks a claim before its envelope has arrived: (credential id, digest of the envelope).

    The first steps of docs/protocol.md, "Submit".

    1. The credential is signed by the population's enrolment key, and is for this population.
    2. The claim is signed by the credential's key.
    3. The claim names this round and this credential.

    Raises:
        UnknownCredentialError: step 1.
        InvalidSubmissionError: step 2 or 3.
    """
    try:  # 1
        owner = verify(credential, Credential, population, enrolment_key)
    except DocumentError as error:
        raise UnknownCredentialError(
            f"the credential is not one of population {population!r}: {error}; enrol again"
        ) from error
    # The signature covers label and body, not the signer's name: where two populations share an
    # enrolment key, only this field tells their credentials apart.
    if owner.population != population:
        raise UnknownCredentialError(
            f"the credential is for population {owner.population!r}, not {population!r}"
        )
    name = credential_id(owner)
    try:  # 2
        # A credential is no secret, entry nodes see it: only its key's signature shows that its
        # owner sent this.
        named = verify(claim, SubmissionClaim, name, bytes.fromhex(owner.public_key))
    except (DocumentError, ValueError) as error:
        raise InvalidSubmissionError(
            f"the submission is not signed by its credential's key: {error}"
        ) from error
    if named.round_id != round_id:  # 3
        raise InvalidSubmissionError(
            f"the submission is for round {named.round_id}, not {round_id}"
        )
    if named.credential != name:
        raise InvalidSubmissionError(
            "the claim names another credential than the one that came with it"
        )
    return name, named.envelope_digest


def check_envelope(claimed: str, envelope: bytes) -> None:
    """Checks that an envelope is the one of a checked claim. Raises `InvalidSubmissionError`."""
    if claimed != digest(envelope):
        raise InvalidSubmissionError(
            "the envelope is not the one that was signed; send it again unchanged"
        )


def check_submission(
    round_id: str,
    population: str,
    enrolment_key: bytes,
    credential: Signed,
    claim: Signed,
    envelope: bytes,
) -> str:
    """The credential id of a submission that is genuine: `check_claim`, then `check_envelope`.

    Raises as they do.
    """
    name, claimed = check_claim(round_id, population, enrolment_key, credential, claim)
    check_envelope(claimed, envelope)
    return name
