"""Intake of streams: submissions from clients, batches from the predecessor.

docs/protocol.md, sections "Submit" and "Batches".
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path

from shuffledp_core.documents.digests import document_digest
from shuffledp_core.documents.models import BatchHeader, Credential, Receipt, Roster
from shuffledp_core.documents.signed import Signed, from_json
from shuffledp_core.documents.submission import check_envelope
from shuffledp_core.errors import BadBatchError, ClientFault, InvalidSubmissionError, ShuffleDPError
from shuffledp_core.runtime.files import PART, erase
from shuffledp_core.runtime.keys import Identity
from shuffledp_core.runtime.tasks import finish_if_cancelled, in_thread
from shuffledp_core.transport.receiving import Chunks, check_digest, let_through, receive
from shuffledp_shuffler.admission import Admission
from shuffledp_shuffler.checks import check_batch, check_claim
from shuffledp_shuffler.live import LiveRound
from shuffledp_shuffler.spool import Submission, different_submission
from shuffledp_shuffler.uploads import Uploads


@dataclass(frozen=True)
class _GenuineClaim:
    """A claim that its credential signed: the credential's name and the envelope's digest.

    `refusal`: why a new submission is refused; a repetition of an accepted one is still answered.
    """

    credential: Signed
    name: str
    digest: str
    refusal: ShuffleDPError | None


@dataclass(frozen=True)
class Submissions:
    """Intake of submissions. `clock` gives milliseconds since 1970."""

    identity: Identity
    roster: Roster
    clock: Callable[[], int]
    uploads: Uploads
    admission: Admission

    def accept(
        self, live: LiveRound, credential: bytes, claim: bytes, envelope: bytes | Chunks
    ) -> asyncio.Future[Signed]:
        """Begins to check and store a submission; the future gives its signed receipt.

        The envelope comes in one message (bytes), or as the chunks of a stream. The steps refine
        those of docs/protocol.md, "Submit":

        1. A message: fewer than `waiting_submissions` others are being checked.
        2. Credential and claim are genuine (core's `check_claim`).
        3. The round is open and not full; the credential has not expired and is not withdrawn.
        4. If this credential's submission was accepted before, its repetition gets the receipt,
           whatever step 3 says, and any other is refused. Neither envelope nor proofs are checked.
        5. It is the only call of this credential; one that waited for another repeats step 4.
        6. A stream: there is room for the envelope's one legal length, and it arrives complete, in
           order and in time.
        7. In a verified round it is this credential's turn (`ProofTurns`).
        8. The envelope has the round's length and the claim's digest; it opens; no record is
           repeated, and in a verified round the proofs hold.
        9. The round is still open, and the submission is stored: on disk, once per credential. Only
           then the receipt is signed, since it is evidence against this node.

        A message to a plain round takes steps 1 to 3, 8 and 9 only, from 2 on in the spool's
        thread, in groups with others: it never waits in between, and step 9 recognises repetitions.

        Raises, at once or from the future:
            RoundStateError: this node takes no submissions in this round (yet).
            BusyError: step 1, 5, 6 or 7; a repetition may succeed.
            MalformedDocumentError, UnknownCredentialError: step 2.
            SubmissionClosedError: step 3 or 9. WithdrawnCredentialError: step 3.
            DifferentSubmissionError: step 4 or 9.
            InvalidSubmissionError: step 2, 6, 8 or 9. BadClaimError: step 8.
        """
        length = live.require_terms().geometry.envelope_bytes
        spool = live.require_spool()
        with ExitStack() as stack:
            receipt: asyncio.Future[Signed]
            if not isinstance(envelope, bytes):
                arriving = self.uploads.arriving(envelope, length)
                receipt = asyncio.ensure_future(
                    self._accept_in_turn(live, credential, claim, arriving)
                )
            else:
                stack.enter_context(self.uploads.message())  # 1
                if live.claims is None:
                    receipt = spool.store(
                        lambda: self._check_message(live, credential, claim, envelope),
                        lambda stored: self._receipt(live, stored.credential, stored.digest),
                        len(envelope),
                        live.check_envelopes,
                    )
                else:
                    receipt = asyncio.ensure_future(
                        self._accept_in_turn(live, credential, claim, nullcontext(envelope))
                    )
            counted = stack.pop_all()

        def finish(answer: asyncio.Future[Signed]) -> None:
            counted.close()
            if not answer.cancelled() and answer.exception() is None:
                live.touch()

        receipt.add_done_callback(finish)
        return receipt

    def _check_message(
        self, live: LiveRound, credential: bytes, claim: bytes, envelope: bytes
    ) -> Submission:
        claimed = self._check_claim(live, credential, claim)  # 2, 3
        if claimed.refusal is None:
            _check_digest(live, claimed, envelope)  # 8; it is opened with others of its group
        return Submission(claimed.name, claimed.digest, envelope, claimed.refusal)

    async def _accept_in_turn(
        self,
        live: LiveRound,
        credential: bytes,
        claim: bytes,
        arriving: AbstractAsyncContextManager[bytes],
    ) -> Signed:
        claimed = self._check_claim(live, credential, claim)  # 2, 3
        receipt = await self._find_receipt(live, claimed, claimed.refusal)  # 4
        if receipt is not None:
            return receipt
        async with self.uploads.turn(live.record.round_id, claimed.name) as has_waited:  # 5
            if has_waited:
                receipt = await self._find_receipt(live, claimed, None)
            if receipt is not None:
                return receipt
            async with arriving as envelope:  # 6
                # Not cancelled with its caller: a device that hangs up would otherwise get any
                # number of checks for nothing.
                return await finish_if_cancelled(self._check_and_store(live, claimed, envelope))

    def _check_claim(self, live: LiveRound, credential: bytes, claim: bytes) -> _GenuineClaim:
        signed = Signed.from_bytes(credential)
        signed_claim = Signed.from_bytes(claim)
        now = self.clock()
        # Before the signatures are checked: a call that overlaps the opening is too early.
        closed = live.refusal(now)
        name, digest = check_claim(live.require_terms(), self.roster, signed, signed_claim)
        refusal = closed or self.admission.refusal(from_json(signed.body, Credential), now)
        return _GenuineClaim(signed, name, digest, refusal)

    async def _find_receipt(
        self, live: LiveRound, claimed: _GenuineClaim, refusal: ShuffleDPError | None
    ) -> Signed | None:
        """The receipt of the accepted submission that this one repeats; None for a new one.

        Raises:
            DifferentSubmissionError: another submission of this credential was accepted.
            ShuffleDPError: `refusal`, for a new submission.
        """
        accepted = await live.require_spool().find(claimed.name)
        if accepted is None:
            if refusal is not None:
                raise refusal
            return None
        if accepted != claimed.digest:
            raise different_submission()
        return self._receipt(live, claimed.name, claimed.digest)

    async def _check_and_store(
        self, live: LiveRound, claimed: _GenuineClaim, envelope: bytes
    ) -> Signed:
        """Steps 7 to 9 of `accept`."""
        try:
            if live.claims is None:
                await asyncio.to_thread(_check_envelope, live, claimed, envelope)  # 8
            else:
                async with live.turns.turn(claimed.name):  # 7
                    # Waiting took its time: spend no processor time on a round that is closed.
                    live.require_present()
                    refusal = live.refusal(self.clock())
                    if refusal is not None:
                        raise refusal
                    live.count_proof_check()
                    await asyncio.to_thread(_check_envelope, live, claimed, envelope)  # 8
            # The round may have closed or filled up since step 3.
            refusal = live.refusal(self.clock())
            submission = Submission(claimed.name, claimed.digest, envelope, refusal)
            return await live.require_spool().store(  # 9
                lambda: submission,
                lambda stored: self._receipt(live, stored.credential, stored.digest),
                len(envelope),
            )
        except ClientFault:
            live.turns.count_failure(claimed.name)
            raise

    def _receipt(self, live: LiveRound, name: str, digest: str) -> Signed:
        receipt = Receipt(round_id=live.record.round_id, credential=name, submission_digest=digest)
        return self.identity.sign(receipt)


def _check_envelope(live: LiveRound, claimed: _GenuineClaim, envelope: bytes) -> None:
    """Checks that the envelope of a genuine claim opens: `Submissions.accept`, step 8."""
    _check_digest(live, claimed, envelope)
    if live.claims is not None:
        live.claims.check(claimed.credential, envelope, live.require_key())
        return
    (refusal,) = live.check_envelopes([envelope])
    if refusal is not None:
        raise refusal


def _check_digest(live: LiveRound, claimed: _GenuineClaim, envelope: bytes) -> None:
    length = live.require_terms().geometry.envelope_bytes
    if len(envelope) != length:
        raise InvalidSubmissionError(f"the envelope must have {length} bytes, not {len(envelope)}")
    check_envelope(claimed.digest, envelope)


@dataclass(frozen=True)
class Batches:
    """Intake of batches from predecessors. `uploads` is the folder where they arrive."""

    uploads: Path

    async def take(
        self, live: LiveRound, peer: str, signed: Signed, header: BatchHeader, chunks: Chunks
    ) -> bool:
        """Takes a batch.

        True if it was committed now, False for the repetition of one that was before.

        1. The header fits the round and comes from our predecessor (`check_batch`).
        2. It is the first batch, or a repetition of the committed one. The bytes of a repetition
           are read to the end: a sender that is answered while it writes may mistake the answer for
           a failure, and would repeat forever.
        3. Exactly the announced bytes arrive, with the announced digest; they are flushed to disk.
        4. The round is still waiting for it; the batch and its header become the round's, at once.

        Raises:
            BadBatchError, AccessDenied, RoundStateError. Whatever fails, the round waits on as
            before.
        """
        total = check_batch(header, peer, live.require_terms())  # 1
        # One upload at a time: a sender that comes again waits, finds its batch committed, and is
        # only let through.
        async with live.upload_lock:
            if _is_committed(live, signed):  # 2
                await let_through(chunks, total)
                return False
            # For its checks alone: a batch that the round cannot take now is refused before its
            # bytes are read.
            live.record.receive(signed, header.users)
            # Outside the round's folder until it is verified: what a crash leaves there is never
            # taken for a batch.
            upload = self.uploads / f"{secrets.token_hex(16)}{PART}"
            try:
                check_digest(header.digest, await receive(chunks, total, upload))  # 3
                # A sender that hangs up must not stop this between the rename and the record that
                # counts on it.
                await finish_if_cancelled(self._commit(live, upload, signed, header.users))  # 4
            finally:
                await in_thread(erase, upload)
        return True

    async def _commit(self, live: LiveRound, upload: Path, signed: Signed, users: int) -> None:
        async with live.lock:
            # If it was deleted while the batch arrived, nothing of it may go on: the discard says
            # so.
            live.require_present()
            record = live.record.receive(signed, users)
            await in_thread(live.folder.take_incoming, upload, record)
            live.adopt(record)


def _is_committed(live: LiveRound, signed: Signed) -> bool:
    record = live.record
    if record.incoming is None:
        return False
    if document_digest(record.incoming) != document_digest(signed):
        raise BadBatchError(
            f"round {record.round_id} already has a batch with another header; only one batch is "
            "mixed per round"
        )
    return True
