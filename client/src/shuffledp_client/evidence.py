"""Evidence that messages were inside an acknowledged envelope and are not on the board. Pure.

A receipt says that an envelope was accepted, and nothing about its contents: a user who invents
messages could point at their absence. With symbols and seed anyone can seal the envelope again and
compare its digest with the receipt's. If they agree, the messages were in it, every layer opens,
and an honest route would have brought them to the board. The evidence reveals the user's randomised
report; the value itself stays protected by that report's noise. docs/protocol.md, section
"Evidence".
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt

from shuffledp_client.encoding import add_tags
from shuffledp_client.submission import PreparedSubmission, seal
from shuffledp_client.verification import RoundDocuments, verify_documents
from shuffledp_core.documents.digests import digest
from shuffledp_core.documents.models import (
    Announcement,
    BatchHeader,
    Discard,
    Manifest,
    Receipt,
    Result,
    Roster,
)
from shuffledp_core.documents.signed import Signed, from_json
from shuffledp_core.documents.submission import check_submission
from shuffledp_core.errors import (
    DocumentError,
    EvidenceError,
    InvalidSubmissionError,
    UnknownCredentialError,
)
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.onion.seeds import SEED_BYTES, stream
from shuffledp_core.onion.suites import suite_named
from shuffledp_core.runtime.keys import parse_hex_key, verify_from
from shuffledp_core.vocabulary import Mix, Role


class Evidence(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A submission in the clear: signed documents, and the secret `symbols` and `seed`."""

    announcement: Announcement
    credential: Signed
    claim: Signed
    receipt: Signed
    result: Signed
    symbols: bytes
    seed: bytes

    def __repr__(self) -> str:
        # Without symbols and seed, which say what the user reported.
        return f"<Evidence of {self.credential.signer}>"


@dataclass(frozen=True)
class ShownEvidence:
    """What evidence proves: number of missing messages, and the parties to blame.

    One of these parties removed them.
    """

    round_id: str
    missing: int
    messages: int
    suspects: tuple[str, ...]


def gather(
    submission: PreparedSubmission, announcement: Announcement, receipt: Signed, result: Signed
) -> Evidence:
    """Collect the evidence of a submission in one bundle.

    Raises:
        EvidenceError: the suite draws its own ephemeral keys, so that no one could check what the
            envelope held; the bundle would give the report away and show nothing.
    """
    _check_reproducible(submission.geometry)
    return Evidence(
        announcement=announcement,
        credential=submission.credential,
        claim=submission.claim,
        receipt=receipt,
        result=result,
        symbols=submission.symbols,
        seed=submission.seed,
    )


def check_evidence(evidence: Evidence, roster: Roster, board: bytes) -> ShownEvidence:
    """Check that a bundle proves that a party cheated; docs/protocol.md, section "Evidence".

    1. Manifest, certificate, round keys and countersignatures are genuine and belong together.
    2. Symbols and seed are of this round's lengths, every symbol is inside the alphabet, the suite
       is reproducible.
    3. Sealed again under the manifest's round keys they give the envelope of claim and receipt:
       credential and claim are genuine, and the entry node signed that it has accepted exactly
       this.
    4. The analyst signed a result of this round, and it published this board.
    5. At least one message is nowhere on the board. A message that is there twice shows nothing
       here: an accomplice of the user may have sent the copy.

    Returns:
        The number of missing messages, and the parties of which one is responsible: the nodes of
        the route, and the analyst unless the last node signed for this board.

    Raises:
        EvidenceError: step 2, 3, 4 or 5.
        DocumentError: a document is not genuine (any step).
    """
    population = evidence.credential.signer
    # Only the certificate's population is held against this name here; the credential itself is
    # verified in step 3.
    documents = verify_documents(evidence.announcement, roster, population)  # 1
    geometry, round_id = documents.manifest.geometry, documents.manifest.round_id
    messages = _messages(evidence, documents)  # 2
    _check_acknowledged(evidence, documents, roster)  # 3
    result = verify_from(roster.analyst, evidence.result, Result)  # 4
    if (result.deployment, result.round_id) != (documents.manifest.deployment, round_id):
        raise EvidenceError(
            f"the result is of round {result.round_id[:80]}, but the receipt is of round {round_id}"
        )
    if result.board_digest is None:
        raise EvidenceError("the round failed and has no board, so no receipt can have been broken")
    if digest(board) != result.board_digest or len(board) % geometry.plain_bytes:
        raise EvidenceError(
            "the board is not the one whose digest the analyst signed; fetch it again"
        )
    missing = int(_absent(geometry, board, messages).sum())  # 5
    if not missing:
        raise EvidenceError(
            "every message of the submission is on the board, so nothing proves that this user "
            "was cheated (a second copy of a message may come from an accomplice)"
        )
    return ShownEvidence(
        round_id, missing, geometry.messages_per_user, _suspects(result, documents)
    )


def still_open(
    announcement: Announcement, roster: Roster, discards: tuple[Signed, ...]
) -> tuple[str, ...]:
    """Nodes of a round that have not signed a discard, and so may still forward its messages.

    While there is one, a board of the round may exist or appear, so the analyst's statement that
    the round failed settles nothing. Discards that are not genuine are ignored.
    """
    manifest = from_json(announcement.manifest.body, Manifest)
    unforwarded = {
        signed.signer for signed in discards if _is_clean(signed, roster, manifest.round_id)
    }
    return tuple(key.signer for key in manifest.route if key.signer not in unforwarded)


def _is_clean(signed: Signed, roster: Roster, round_id: str) -> bool:
    try:
        discard = verify_from(roster.party(signed.signer), signed, Discard)
    except DocumentError:
        return False
    return (discard.round_id, discard.node, discard.forwarded) == (round_id, signed.signer, False)


def _check_reproducible(geometry: Geometry) -> None:
    if geometry.mix == Mix.VERIFIED:
        raise EvidenceError(
            "a verified round needs no such evidence: its list of claims, headers and board are "
            "published, and `shuffledp verify` names who changed them. A receipt for a "
            "submission that is not on the list is evidence by itself"
        )
    if not suite_named(geometry.suite).reproducible:
        raise EvidenceError(
            f"the round used the suite {geometry.suite}, whose library does not reveal the "
            "ephemeral keys it draws, so the content of an envelope cannot be proved to others. "
            "Only rounds with sealed-box give evidence"
        )


def _messages(evidence: Evidence, documents: RoundDocuments) -> bytes:
    geometry, alphabet = documents.manifest.geometry, documents.certificate.mechanism.alphabet
    _check_reproducible(geometry)
    width = geometry.symbol_bytes
    if (
        len(evidence.seed) != SEED_BYTES
        or len(evidence.symbols) != width * geometry.messages_per_user
    ):
        raise EvidenceError(
            "the seed or the number of symbols does not have the length that this round needs"
        )
    symbols = (
        evidence.symbols[start : start + width] for start in range(0, len(evidence.symbols), width)
    )
    if any(int.from_bytes(symbol, "big") >= alphabet for symbol in symbols):
        raise EvidenceError(
            "a symbol is outside the round's alphabet: no honest client sends it, and no analyst "
            "counts it"
        )
    return b"".join(add_tags(geometry, evidence.symbols, stream(evidence.seed)))


def _check_acknowledged(evidence: Evidence, documents: RoundDocuments, roster: Roster) -> None:
    geometry, round_id = documents.manifest.geometry, documents.manifest.round_id
    population = roster.population(evidence.credential.signer)
    enrolment = parse_hex_key(population.enrolment_key, f"enrolment key of {population.name!r}")
    # The same digest means the same envelope, and that opens to no other messages under the round
    # keys.
    envelope = seal(geometry, round_id, documents.public_keys, evidence.symbols, evidence.seed)
    try:
        who = check_submission(
            round_id, population.name, enrolment, evidence.credential, evidence.claim, envelope
        )
    except (InvalidSubmissionError, UnknownCredentialError) as error:
        raise EvidenceError(
            f"the credential's key did not sign a claim to these messages: {error}"
        ) from error
    receipt = verify_from(documents.route[0], evidence.receipt, Receipt)
    if (receipt.round_id, receipt.credential, receipt.submission_digest) != (
        round_id,
        who,
        digest(envelope),
    ):
        raise EvidenceError(
            "the receipt is for another submission than the one that these messages make"
        )


def _absent(geometry: Geometry, board: bytes, messages: bytes) -> npt.NDArray[np.bool_]:
    """Mask of the messages that are not on the board.

    numpy ignores trailing zero bytes of an `S` item; items of one width stay distinct all the same.
    """
    rows = f"S{geometry.plain_bytes}"
    absent: npt.NDArray[np.bool_] = np.isin(
        np.frombuffer(messages, rows), np.frombuffer(board, rows), invert=True
    )
    return absent


def _suspects(result: Result, documents: RoundDocuments) -> tuple[str, ...]:
    nodes = tuple(party.name for party in documents.route)
    # the last node's header over this very board clears the analyst: it published what it was given
    try:
        last = verify_from(documents.route[-1], result.headers[-1], BatchHeader)
    except (DocumentError, IndexError):
        return (*nodes, Role.ANALYST)
    delivered = (last.round_id, last.digest) == (result.round_id, result.board_digest)
    return nodes if delivered else (*nodes, Role.ANALYST)
