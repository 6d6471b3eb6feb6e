"""Checks that a round is in the public log. docs/log.md, "What devices check"."""

from __future__ import annotations

from dataclasses import dataclass

from shuffledp_core.documents.digests import document_digest
from shuffledp_core.documents.models import EndedLog, LogTerms, Result, Roster
from shuffledp_core.documents.signed import Signed
from shuffledp_core.errors import FalseResultError, LogProofError, MalformedDocumentError
from shuffledp_core.runtime.keys import verify_from
from shuffledp_core.transparency.cosignatures import cosigners, witness_key
from shuffledp_core.transparency.entries import (
    LedgerLogEntry,
    log_key_of,
    log_keys_of,
    reservation_entry,
    result_entry,
)
from shuffledp_core.transparency.notes import (
    Checkpoint,
    Note,
    NoteKey,
    check_note,
    is_signed_by_namesake,
    parse_checkpoint,
    parse_note,
)
from shuffledp_core.transparency.proofs import InclusionProof
from shuffledp_core.transparency.tree import check_inclusion, leaf_hash
from shuffledp_core.transparency.windows import LogWindow


@dataclass(frozen=True)
class CosignedCheckpoint:
    """A checkpoint with enough witnesses, the names of those that signed it, and its window."""

    checkpoint: Checkpoint
    witnesses: tuple[str, ...]
    window: LogWindow


def read_cosigned(proof: InclusionProof, key: NoteKey, terms: LogTerms) -> CosignedCheckpoint:
    """The checkpoint of a proof, after checking that the log and enough witnesses signed it.

    Raises:
        MalformedDocumentError: these bytes are no checkpoint.
        SignatureError: the log did not sign it.
        LogProofError: the checkpoint is another log's, fewer witnesses than the threshold signed
            it, or the window does not belong to it.
    """
    note = parse_note(proof.note)
    checkpoint = parse_checkpoint(check_note(note, key))
    if checkpoint.origin != key.name:
        raise LogProofError(
            f"the checkpoint is of the log {checkpoint.origin}, expected {key.name}"
        )
    names = tuple(key.name for key in known_cosigners(note, terms))
    if len(names) < terms.threshold:
        raise LogProofError(
            f"{len(names)} of the log's {len(terms.witnesses)} witnesses signed its checkpoint of "
            f"{checkpoint.size:,} entries, and {terms.threshold} are needed"
            f"{' (signed: ' + ', '.join(names) + ')' if names else ''}; do not rely on this round"
        )
    window = LogWindow.from_bytes(proof.extra, checkpoint.size)
    window.check(checkpoint)
    return CosignedCheckpoint(checkpoint, names, window)


def known_cosigners(note: Note, terms: LogTerms) -> tuple[NoteKey, ...]:
    """The witnesses in `terms` with a valid cosignature on a checkpoint."""
    keys = [
        witness_key(witness.name, bytes.fromhex(witness.public_key)) for witness in terms.witnesses
    ]
    return cosigners(note, keys)


def check_logged(
    proof: str, roster: Roster, population: str, round_id: str, certificate: Signed
) -> CosignedCheckpoint:
    """Check that a round's reservation is in the public log; return the checkpoint.

    1. The checkpoint is signed by the accountant for this deployment's present log, and by enough
       of the witnesses that the roster names.
    2. The entry that this very certificate determines is in the log of that checkpoint.

    Raises:
        MalformedDocumentError: the proof cannot be parsed.
        SignatureError: the log did not sign the checkpoint.
        LogProofError: step 1 or 2.
    """
    shown = InclusionProof.from_bytes(proof.encode())
    entry = reservation_entry(population, round_id, certificate)
    return _check_entry(shown, log_key_of(roster), roster, entry)


def check_logged_once(
    proof: bytes, roster: Roster, population: str, round_id: str, certificate: Signed
) -> CosignedCheckpoint:
    """`check_logged` for a saved proof, whose log may be one that the roster has ended.

    Raises as `check_logged`, and `LogProofError` if the roster says that its log ended differently.
    """
    return _check_entry_once(proof, roster, reservation_entry(population, round_id, certificate))


def check_result_logged(
    proof: bytes, roster: Roster, population: str, signed: Signed
) -> CosignedCheckpoint:
    """Check that exactly this result is in a public log; return the checkpoint.

    The steps of `check_logged`, for the entry that the signed result determines; the log may be
    one that the roster has ended.

    Raises:
        MalformedDocumentError: the proof or the result cannot be parsed.
        ForeignDocumentError, SignatureError: the result is not the analyst's, or the checkpoint not
            the log's.
        LogProofError: the proof does not show the result, or the roster says that its log ended
            differently.
    """
    result = verify_from(roster.analyst, signed, Result)
    entry = result_entry(population, result.round_id, document_digest(signed))
    return _check_entry_once(proof, roster, entry)


def check_result_manifest(result: Result, manifest: Signed, roster: Roster) -> None:
    """Check that a completed result names this manifest as its round's.

    A result that is in the public log thereby has its manifest there. Results of earlier versions
    name none, and are accepted only if the roster names no witnesses.

    Raises:
        MalformedDocumentError: the result names no manifest.
        FalseResultError: the result names another manifest.
    """
    named = result.manifest_digest
    if not isinstance(named, str):
        if roster.log_terms is None:
            return
        raise MalformedDocumentError(
            f"the result of round {result.round_id} does not name its manifest, so others may "
            "have been shown a different one; the analyst runs an earlier version, or hides the "
            "manifest"
        )
    if document_digest(manifest) != named:
        raise FalseResultError(
            f"the result of round {result.round_id} is of a different manifest from the one "
            "shown here: analyst and nodes signed two for one round; keep both: they are "
            "evidence"
        )


def _check_entry_once(proof: bytes, roster: Roster, entry: LedgerLogEntry) -> CosignedCheckpoint:
    shown = InclusionProof.from_bytes(proof)
    origin = parse_note(shown.note).text.partition("\n")[0]
    keys = log_keys_of(roster)
    key = next((key for key in keys if key.name == origin), keys[-1])
    cosigned = _check_entry(shown, key, roster, entry)
    if roster.log_terms is not None and key != keys[-1]:
        check_ended(cosigned.checkpoint, roster.log_terms.ended[keys.index(key)])
    return cosigned


def _check_entry(
    shown: InclusionProof, key: NoteKey, roster: Roster, entry: LedgerLogEntry
) -> CosignedCheckpoint:
    terms = roster.log_terms
    if terms is None:
        raise LogProofError(
            f"the roster of {roster.deployment!r} names no witnesses for its public log"
        )
    cosigned = read_cosigned(shown, key, terms)  # 1
    checkpoint = cosigned.checkpoint
    try:
        data = entry.to_bytes()
    except ValueError as error:
        raise LogProofError(
            f"the round's entry is in none of the deployment's logs: {error}"
        ) from error
    leaf = leaf_hash(data)
    check_inclusion(leaf, shown.index, checkpoint.size, shown.hashes, checkpoint.root)  # 2
    return cosigned


def read_remembered(proof: bytes, roster: Roster) -> CosignedCheckpoint | None:
    """The checkpoint of a proof that a device kept; None if its log has ended.

    Raises:
        DocumentError: the kept proof is damaged, or not signed as the roster says.
        LogProofError: the roster says that the log ended, and with fewer entries than it showed.
    """
    terms = roster.log_terms
    if terms is None:
        return None
    shown = InclusionProof.from_bytes(proof)
    origin = parse_note(shown.note).text.partition("\n")[0]
    for earlier, ended in zip(log_keys_of(roster), terms.ended, strict=False):
        if origin == earlier.name:
            check_ended(parse_checkpoint(check_note(parse_note(shown.note), earlier)), ended)
            return None
    # Not by how many witnesses: those of the roster may have changed since.
    checkpoint = parse_checkpoint(check_note(parse_note(shown.note), log_key_of(roster)))
    return CosignedCheckpoint(checkpoint, (), LogWindow.from_bytes(shown.extra, checkpoint.size))


def is_signed_by_former_key(proof: bytes, roster: Roster) -> bool:
    """True if a former key of this deployment, no longer in the roster, signed the kept proof.

    Raises:
        MalformedDocumentError: the kept proof cannot be parsed.
    """
    note = parse_note(InclusionProof.from_bytes(proof).note)
    origin = note.text.partition("\n")[0]
    return any(
        key.name == origin and is_signed_by_namesake(note, key) for key in log_keys_of(roster)
    )


def check_ended(checkpoint: Checkpoint, ended: EndedLog) -> None:
    """Check that a checkpoint agrees with the end of its log; `LogProofError` if it does not."""
    is_same = checkpoint.size < ended.size or checkpoint.root.hex() == ended.root
    if checkpoint.size > ended.size or not is_same:
        raise LogProofError(
            f"the roster states that the log {checkpoint.origin} ended at size {ended.size:,}, "
            f"and the checkpoint of size {checkpoint.size:,} does not belong to that log: do not "
            "rely on rounds of this deployment"
        )


def check_same_history(shown: CosignedCheckpoint, remembered: CosignedCheckpoint) -> None:
    """Check that two checkpoints belong to one history, as far as their windows reach.

    Beyond the windows, only the witnesses have checked that the log only grew.

    Raises:
        LogProofError: the two show different histories.
    """
    newer, older = shown, remembered
    if newer.checkpoint.size < older.checkpoint.size:
        newer, older = older, newer
    size = older.checkpoint.size
    if size >= newer.window.base and newer.window.root(size) != older.checkpoint.root:
        raise LogProofError(
            f"the public log of {shown.checkpoint.size:,} entries does not extend the one of "
            f"{remembered.checkpoint.size:,} that this device saw before, so they are "
            "two histories: the ledger was set back, or its accountant lies; do not take part"
        )
