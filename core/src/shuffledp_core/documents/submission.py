"""The claim that a client signs over its envelope, and the entry node's checks of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from shuffledp_core.documents.digests import digest
from shuffledp_core.documents.models import Credential
from shuffledp_core.documents.signed import Document, Signed, verify_all
from shuffledp_core.errors import (
    ClientFault,
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


@dataclass(frozen=True)
class GenuineClaim:
    """A claim that its credential signed: the credential, its id, and the envelope's digest."""

    credential: Credential
    name: str
    digest: str


def check_claim(
    round_id: str, population: str, enrolment_key: bytes, credential: Signed, claim: Signed
) -> GenuineClaim:
    """Checks a claim before its envelope has arrived.

    The first steps of docs/protocol.md, "Submit".

    1. The credential is signed by the population's enrolment key, and is for this population.
    2. The claim is signed by the credential's key.
    3. The claim names this round and this credential.

    Raises:
        UnknownCredentialError: step 1.
        InvalidSubmissionError: step 2 or 3.
    """
    (checked,) = check_claims(round_id, population, enrolment_key, [(credential, claim)])
    if isinstance(checked, ClientFault):
        raise checked
    return checked


def check_claims(
    round_id: str, population: str, enrolment_key: bytes, pairs: Sequence[tuple[Signed, Signed]]
) -> list[GenuineClaim | ClientFault]:
    """Vectorised `check_claim` of (credential, claim): the genuine claim or the error of each."""
    owners = _check_credentials(population, enrolment_key, [credential for credential, _ in pairs])
    # A credential is no secret, entry nodes see it: only its key's signature shows that its owner
    # sent this.
    signed = [
        (claim, credential_id(owner), bytes.fromhex(owner.public_key))
        for (_, claim), owner in zip(pairs, owners, strict=True)
        if isinstance(owner, Credential)
    ]
    claims = iter(verify_all(signed, SubmissionClaim))  # 2
    return [
        _check_named(round_id, owner, next(claims)) if isinstance(owner, Credential) else owner
        for owner in owners
    ]


def _check_credentials(
    population: str, enrolment_key: bytes, credentials: Sequence[Signed]
) -> list[Credential | ClientFault]:
    """Step 1 of `check_claim` for each credential."""
    signed = [(credential, population, enrolment_key) for credential in credentials]
    return [_check_owner(population, owner) for owner in verify_all(signed, Credential)]


def _check_owner(
    population: str, owner: Credential | DocumentError
) -> Credential | UnknownCredentialError:
    if isinstance(owner, DocumentError):
        return UnknownCredentialError(
            f"the credential does not belong to population {population!r}: {owner}; enrol again"
        )
    # The signature covers label and body, not the signer's name: where two populations share an
    # enrolment key, only this field tells their credentials apart.
    if owner.population != population:
        return UnknownCredentialError(
            f"the credential is for population {owner.population!r}, not {population!r}"
        )
    return owner


def _check_named(
    round_id: str, owner: Credential, claim: SubmissionClaim | DocumentError
) -> GenuineClaim | InvalidSubmissionError:
    name = credential_id(owner)
    if isinstance(claim, DocumentError):
        return InvalidSubmissionError(f"the claim is not signed by its credential's key: {claim}")
    if claim.round_id != round_id:  # 3
        return InvalidSubmissionError(
            f"the submission is for round {claim.round_id}, not {round_id}"
        )
    if claim.credential != name:
        return InvalidSubmissionError(
            "the claim names a different credential from the one that came with it"
        )
    return GenuineClaim(owner, name, claim.envelope_digest)


def check_envelope(claimed: str, envelope: bytes) -> None:
    """Checks that an envelope is the one of a checked claim. Raises `InvalidSubmissionError`."""
    if claimed != digest(envelope):
        raise InvalidSubmissionError(
            "the envelope is not the one that the claim signs for; send both again unchanged"
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
    genuine = check_claim(round_id, population, enrolment_key, credential, claim)
    check_envelope(genuine.digest, envelope)
    return genuine.name
