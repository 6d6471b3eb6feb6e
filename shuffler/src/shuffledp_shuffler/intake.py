"""What comes in as a stream: submissions from clients, batches from the predecessor.

docs/protocol.md, sections "Submit" and "Batches".
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from shuffledp_core.documents.digests import digest, document_digest
from shuffledp_core.documents.models import BatchHeader, Receipt, Roster
from shuffledp_core.documents.signed import Signed
from shuffledp_core.documents.submission import check_submission
from shuffledp_core.errors import BadBatchError, InvalidSubmissionError, SubmissionClosedError
from shuffledp_core.keys import Identity
from shuffledp_core.onion.layers import open_envelope
from shuffledp_core.tasks import in_thread, uninterrupted
from shuffledp_core.transport.chunks import Offsets
from shuffledp_shuffler.checks import Terms, check_batch, check_claim
from shuffledp_shuffler.files import PART, erase
from shuffledp_shuffler.live import LiveRound
from shuffledp_shuffler.spool import different_submission

Chunks = AsyncIterator[tuple[int, bytes]]
"""(offset, bytes) as they arrive."""


@dataclass(frozen=True)
class Submissions:
    """Takes submissions. `clock` gives milliseconds since 1970; `patience` bounds a call, in seconds."""

    identity: Identity
    roster: Roster
    clock: Callable[[], int]
    patience: float

    async def take(self, live: LiveRound, credential: bytes, claim: bytes, chunks: Chunks) -> Signed:
        """The signed receipt, once the submission is on disk; the same again for the same submission.

        1. The round takes submissions now; otherwise only a repetition of an accepted one is answered, and nothing
           of the envelope is read.
        2. The envelope arrives whole, in order and in time; memory is bounded by its one legal length.
        3. Credential and claim are genuine (core's `check_submission`); the envelope opens; no record is repeated.
        4. It is still open; spooled: on disk, once per credential.

        Raises:
            SubmissionClosedError, InvalidSubmissionError, UnknownCredentialError, DifferentSubmissionError.
            MalformedDocumentError: credential or claim is no signed document.
        """
        terms = live.require_terms()
        documents = (Signed.from_bytes(credential), Signed.from_bytes(claim))
        refusal = live.refusal(self.clock())
        if refusal is not None:  # 1
            return await self._repeated(live, *documents, refusal)
        key = live.require_key()
        envelope = await self._gather(chunks, terms.geometry.envelope_bytes)  # 2
        name = await asyncio.to_thread(_verify, terms, self.roster, *documents, envelope, key)  # 3
        refusal = live.refusal(self.clock())
        if refusal is not None:  # 4
            return await self._repeated(live, *documents, refusal)
        submitted = digest(envelope)
        await live.require_spool().append(name, submitted, envelope)
        live.touch()
        return self._receipt(live, name, submitted)

    async def _repeated(
        self, live: LiveRound, credential: Signed, claim: Signed, refusal: SubmissionClosedError
    ) -> Signed:
        name, claimed = check_claim(live.require_terms(), self.roster, credential, claim)
        accepted = await live.require_spool().find(name)
        if accepted is None:
            raise refusal
        if accepted != claimed:
            raise different_submission()
        return self._receipt(live, name, claimed)

    def _receipt(self, live: LiveRound, name: str, submitted: str) -> Signed:
        receipt = Receipt(round_id=live.record.round_id, credential=name, submission_digest=submitted)
        return self.identity.sign(receipt)

    async def _gather(self, chunks: Chunks, total: int) -> bytes:
        offsets, envelope = Offsets(total), bytearray()
        try:
            async with asyncio.timeout(self.patience):
                async for offset, data in chunks:
                    offsets.accept(offset, len(data))
                    envelope += data
            offsets.finish()
        except BadBatchError as error:
            raise InvalidSubmissionError(f"the envelope must have {total} bytes: {error}") from error
        except TimeoutError as error:
            raise InvalidSubmissionError(f"the envelope did not arrive within {self.patience:g} s") from error
        return bytes(envelope)


def _verify(terms: Terms, roster: Roster, credential: Signed, claim: Signed, envelope: bytes, key: bytes) -> str:
    """The credential id of a submission that is genuine and opens. Raises as `Submissions.take`, step 3."""
    population = roster.population(terms.certificate.population)
    round_id, geometry = terms.manifest.round_id, terms.geometry
    enrolment = bytes.fromhex(population.enrolment_key)
    name = check_submission(round_id, population.name, enrolment, credential, claim, envelope)
    records = open_envelope(geometry, round_id, key, envelope)
    width = geometry.record_bytes(2)
    if len({records[start : start + width] for start in range(0, len(records), width)}) * width != len(records):
        raise InvalidSubmissionError("the envelope holds the same onion twice; seal every message by itself")
    return name


@dataclass(frozen=True)
class Batches:
    """Takes batches from predecessors. `uploads` is where they arrive."""

    uploads: Path

    async def take(self, live: LiveRound, peer: str, signed: Signed, header: BatchHeader, chunks: Chunks) -> bool:
        """Whether a new batch was committed; False for the repetition of one that was.

        1. The header fits the round and comes from our predecessor (`check_batch`).
        2. It is the first batch, or the committed one again, whose bytes are let through: a sender that is answered
           while it writes may take the answer for a failure, and would send it all for ever.
        3. Exactly the announced bytes arrive, with the announced digest; they are flushed to disk.
        4. The round is still waiting for it; the batch and its header become the round's, at once.

        Raises:
            BadBatchError, AccessDenied, RoundStateError. Whatever fails, the round waits on as before.
        """
        total = check_batch(header, peer, live.require_terms())  # 1
        async with live.upload_lock:
            if _is_committed(live, signed):  # 2
                await _let_through(chunks, total)
                return False
            live.record.received(signed, header.users)
            upload = self.uploads / f"{secrets.token_hex(16)}{PART}"
            try:
                await self._receive(upload, total, header.digest, chunks)  # 3
                await uninterrupted(self._commit(live, upload, signed, header.users))  # 4
            finally:
                await in_thread(erase, upload)
        return True

    async def _receive(self, upload: Path, total: int, expected: str, chunks: Chunks) -> None:
        offsets, found = Offsets(total), hashlib.sha256()

        def store(data: bytes) -> None:
            found.update(data)
            file.write(data)

        file: BinaryIO
        with os.fdopen(os.open(upload, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            async for offset, data in chunks:
                offsets.accept(offset, len(data))
                await in_thread(store, data)
            offsets.finish()
            if found.hexdigest() != expected:
                raise BadBatchError(
                    f"the batch has digest {found.hexdigest()}, its header says {expected}; send it again"
                )
            file.flush()
            await in_thread(os.fsync, file.fileno())

    async def _commit(self, live: LiveRound, upload: Path, signed: Signed, users: int) -> None:
        async with live.lock:
            live.require_present()
            record = live.record.received(signed, users)
            await in_thread(live.folder.take_incoming, upload, record)
            live.adopt(record)


async def _let_through(chunks: Chunks, total: int) -> None:
    offsets = Offsets(total)
    async for offset, data in chunks:
        offsets.accept(offset, len(data))


def _is_committed(live: LiveRound, signed: Signed) -> bool:
    record = live.record
    if record.incoming is None:
        return False
    if document_digest(record.incoming) != document_digest(signed):
        raise BadBatchError(
            f"round {record.round_id} already has a batch with another header; only one batch is mixed per round"
        )
    return True
