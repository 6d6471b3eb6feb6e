"""Proofs on disk that a round's plan certificate is in the witnessed public log. docs/log.md."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from shuffledp_core.documents.models import (
    Announcement,
    Certificate,
    LogTerms,
    Manifest,
    Result,
    Roster,
)
from shuffledp_core.documents.signed import Signed
from shuffledp_core.errors import LogProofError
from shuffledp_core.runtime.files import read_file
from shuffledp_core.runtime.keys import verify_from
from shuffledp_core.transparency.cosignatures import check_cosignature, witness_key
from shuffledp_core.transparency.logged import (
    CosignedCheckpoint,
    check_logged_once,
    check_result_logged,
)
from shuffledp_core.transparency.notes import parse_note
from shuffledp_core.transparency.proofs import MAX_PROOF_BYTES, InclusionProof

LOG_PROOF: Final = "log.tlog-proof"
"""File of a round's folder with the proof that its announcement carried."""

RESULT_PROOF: Final = "result.tlog-proof"
"""File of a round's folder with the proof that its result is in the public log."""


@dataclass(frozen=True)
class LogPosition:
    """Position of a round's plan certificate in the public log, from a verified proof.

    Attributes:
        entry: number of its entry, from 0.
        origin: the log's name.
        size: number of entries that the proof's checkpoint covers.
        root: root of their Merkle tree, hex.
        cosigned_at: witnesses that signed the checkpoint, and when, in milliseconds since 1970.
        unsigned: the other witnesses that the roster names.
        threshold: number of witnesses that must sign.
    """

    entry: int
    origin: str
    size: int
    root: str
    cosigned_at: tuple[tuple[str, int], ...]
    unsigned: tuple[str, ...]
    threshold: int


def check_proof_beside(
    folder: Path, plan_certificate: Signed | None, roster: Roster
) -> CosignedCheckpoint | None:
    """Check the proof in a round's folder; return its checkpoint, or None without one.

    Raises:
        ConfigError: the file cannot be read.
        DocumentError: the proof does not show that the plan certificate is in the public log.
    """
    file = folder / LOG_PROOF
    if roster.log_terms is None or plan_certificate is None or not file.is_file():
        return None
    proof = read_file(file, "proof of the public log", MAX_PROOF_BYTES)
    return _check_proof(proof, plan_certificate, roster)


def check_result_proof_beside(folder: Path, signed: Signed, roster: Roster) -> bool:
    """Check the proof in a folder that its result is logged; return False without one.

    Also False if no witnesses are named.

    Raises:
        ConfigError: the file cannot be read.
        DocumentError: the proof does not show that this result is in the public log.
    """
    file = folder / RESULT_PROOF
    if roster.log_terms is None or not file.is_file():
        return False
    check_result_proof(read_file(file, "proof of the public log", MAX_PROOF_BYTES), signed, roster)
    return True


def check_result_proof(proof: bytes, signed: Signed, roster: Roster) -> LogPosition:
    """Check a proof that this result is in the public log; return its position.

    The roster must name witnesses. Raises `DocumentError` if the proof does not show it.
    """
    result = verify_from(roster.analyst, signed, Result)
    if result.plan_certificate is None:
        raise LogProofError(f"round {result.round_id} failed, so its result is in no public log")
    plan = verify_from(roster.accountant, result.plan_certificate, Certificate)
    logged = check_result_logged(proof, roster, plan.population, signed)
    return _position(InclusionProof.from_bytes(proof), logged, roster)


def check_announced_proof(announcement: Announcement, roster: Roster) -> CosignedCheckpoint:
    """Check an announcement's proof, required by its roster; return the checkpoint.

    Raises:
        DocumentError: there is no proof, or it does not show that the plan certificate is in the
            public log.
    """
    manifest = verify_from(roster.analyst, announcement.manifest, Manifest)
    if not isinstance(announcement.log, str):
        raise LogProofError(
            f"the announcement of round {manifest.round_id} has no proof that the round is in "
            "the public log, although the roster names the log's witnesses; do not take part"
        )
    return _check_proof(announcement.log.encode(), manifest.certificate, roster)


def locate_announced(announcement: Announcement, roster: Roster) -> LogPosition | None:
    """Check an announcement's proof; return its position, or None without witnesses.

    Raises as `check_announced_proof`.
    """
    if roster.log_terms is None:
        return None
    logged = check_announced_proof(announcement, roster)
    shown = InclusionProof.from_bytes(str(announcement.log).encode())
    return _position(shown, logged, roster)


def _position(shown: InclusionProof, logged: CosignedCheckpoint, roster: Roster) -> LogPosition:
    terms = roster.log_terms
    if terms is None:
        raise ValueError("a checked proof has witnesses")
    note = parse_note(shown.note)
    times = tuple(
        (
            witness.name,
            1000
            * check_cosignature(note, witness_key(witness.name, bytes.fromhex(witness.public_key))),
        )
        for witness in terms.witnesses
        if witness.name in logged.witnesses
    )
    return LogPosition(
        entry=shown.index,
        origin=logged.checkpoint.origin,
        size=logged.checkpoint.size,
        root=logged.checkpoint.root.hex(),
        cosigned_at=times,
        unsigned=tuple(
            witness.name for witness in terms.witnesses if witness.name not in logged.witnesses
        ),
        threshold=terms.threshold,
    )


def _check_proof(proof: bytes, plan_certificate: Signed, roster: Roster) -> CosignedCheckpoint:
    plan = verify_from(roster.accountant, plan_certificate, Certificate)
    return check_logged_once(proof, roster, plan.population, plan.round_id, plan_certificate)


def missing_proof(folder: Path, name: str = LOG_PROOF) -> LogProofError:
    """The error for a folder without a proof in a deployment whose roster names witnesses."""
    proved = "plan certificate" if name == LOG_PROOF else "result"
    return LogProofError(
        f"{folder} has no {name}, which proves that the {proved} is in the public log, although "
        "the roster names the log's witnesses; fetch the round again with `shuffledp results "
        "show KEYS ROUND --out FOLDER`; for a round that is older than the witnesses, use the "
        "roster of its time"
    )


def describe_checkpoint(logged: CosignedCheckpoint, terms: LogTerms) -> str:
    """The line in `shuffledp verify` about the plan certificate in the public log."""
    return (
        f"public log: the plan certificate is in {logged.checkpoint.origin} at size "
        f"{logged.checkpoint.size:,}, signed by {', '.join(logged.witnesses)} "
        f"({terms.threshold} of {len(terms.witnesses)} witnesses are needed)"
    )


def unchecked_log() -> str:
    """The line in `shuffledp verify` about a document checked without its folder."""
    return "public log: NOT checked; its proof is in the round's folder: shuffledp verify FOLDER"
