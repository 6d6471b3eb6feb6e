"""The entry node's checks of claims, before a receipt: docs/mixing.md, C1 to C4 and L4."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from shuffledp_core.documents.models import Manifest, Population, RoundKey
from shuffledp_core.documents.signed import Signed
from shuffledp_core.errors import BadBatchError, BadClaimError, InvalidSubmissionError
from shuffledp_core.mixproof.claiming import (
    EnrolledClaim,
    Enrolment,
    read_withdrawals,
    unpack_claim,
)
from shuffledp_core.mixproof.claims import check_claim, open_submission
from shuffledp_core.mixproof.faults import user
from shuffledp_core.mixproof.manifests import mixing_part
from shuffledp_core.mixproof.terms import MixTerms
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.onion.layers import binding
from shuffledp_core.onion.suites import suite_named


def split_submission(geometry: Geometry, submission: bytes) -> tuple[EnrolledClaim, bytes]:
    """Split a submission into the claim and the sealed envelope after it."""
    return unpack_claim(geometry, submission[: geometry.claim_bytes]), submission[
        geometry.claim_bytes :
    ]


def open_sealed(geometry: Geometry, round_id: str, private_key: bytes, sealed: bytes) -> bytes:
    """Decrypt the envelope of a claim: seed and records. Raises `InvalidSubmissionError`."""
    try:
        return suite_named(geometry.suite).opener(private_key, binding(round_id, 1))(sealed)
    except BadBatchError as error:
        raise InvalidSubmissionError(
            "the envelope does not open under this round's key: it is damaged or sealed for "
            "another round"
        ) from error


@dataclass(frozen=True)
class ClaimCheck:
    """Checks of submissions to a verified round at its entry node.

    `check` may be called from any thread, `guard` only from one.
    """

    manifest: Manifest
    mixing: MixTerms
    enrolment: Enrolment
    owners: dict[bytes, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        manifest: Manifest,
        mixing: MixTerms,
        population: Population,
        own_key: RoundKey,
        withdrawals: bytes,
    ) -> ClaimCheck:
        """The checks of a round, with the list of withdrawals that `own_key` names.

        Raises `DocumentError` if `withdrawals` is not that list.
        """
        withdrawn = read_withdrawals(withdrawals, population, mixing_part(own_key))
        return cls(manifest, mixing, Enrolment(population, manifest.closes_at, withdrawn))

    def check(self, credential: Signed, submission: bytes, private_key: bytes) -> None:
        """Check a submission whose credential and length are already checked.

        1. The claim is signed by the credential, and is the document that every verifier will
           check.
        2. C1: the credential is still enrolled when the round closes, according to the round's list
           of withdrawals.
        3. C1 to C3, as every verifier checks them.
        4. C4: the envelope opens to the records of the claim.

        Raises:
            BadClaimError: one of steps 1 to 4 failed.
            InvalidSubmissionError: the envelope does not open.
        """
        geometry = self.manifest.geometry
        enrolled, sealed = split_submission(geometry, submission)
        if enrolled.credential(self.enrolment.population.name) != credential:  # 1
            raise BadClaimError(
                "the claim is not of the credential that came with it; send both again unchanged"
            )
        refusal = self.enrolment.refusal(enrolled)  # 2
        if refusal is not None:
            raise refusal
        check_claim(self.mixing, enrolled.claim, {enrolled.claim.credential})  # 3
        opened = open_sealed(geometry, self.manifest.round_id, private_key, sealed)
        open_submission(self.mixing, enrolled.claim, opened)  # 4

    def guard(self, credential: str, submission: bytes) -> BadClaimError | None:
        """The refusal of a claim with a key of an already accepted claim, L4; None to accept it.

        The keys of accepted claims are remembered. Otherwise two claims with a common key would
        both get a receipt, although they cannot be on one list.
        """
        keys = split_submission(self.manifest.geometry, submission)[0].claim.key_list
        # The same credential again: what it was admitted with before may never have reached the
        # disk.
        if any(self.owners.get(key, credential) != credential for key in keys):
            return BadClaimError(
                f"{user(bytes.fromhex(credential))}: claims a key that another user has already "
                "claimed"
            )
        self.owners.update(dict.fromkeys(keys, credential))
        return None

    def remember(self, envelopes: Path, accepted: int) -> None:
        """Remember the keys of submissions that were accepted before a restart."""
        size = self.manifest.geometry.envelope_bytes
        with envelopes.open("rb") as file:
            for _ in range(accepted):
                submission = file.read(size)
                claim = split_submission(self.manifest.geometry, submission)[0].claim
                self.owners.update(dict.fromkeys(claim.key_list, claim.credential.hex()))
