"""Intake of a node: submissions from clients, batches from the predecessor.

docs/protocol.md, sections "Submit" and "Batches".
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from shuffledp_core.documents.digests import document_digest
from shuffledp_core.documents.models import BatchHeader, Receipt, Roster
from shuffledp_core.documents.signed import Signed
from shuffledp_core.documents.submission import GenuineClaim, check_envelope
from shuffledp_core.errors import (
    BadBatchError,
    ClientFault,
    DocumentError,
    InvalidSubmissionError,
    ShuffleDPError,
)
from shuffledp_core.runtime.files import PART, erase
from shuffledp_core.runtime.keys import Identity
from shuffledp_core.runtime.tasks import finish_if_cancelled, in_thread
from shuffledp_core.transport.receiving import Chunks, check_digest, let_through, receive
from shuffledp_shuffler.admission import Admission
from shuffledp_shuffler.checks import check_batch, check_claims
from shuffledp_shuffler.live import LiveRound
from shuffledp_shuffler.spool import Submission, different_submission
from shuffledp_shuffler.uploads import Uploads


class WholeSubmission(NamedTuple):
    """A submission that came in one message: signed credential and claim, sealed envelope."""

    credential: bytes
    claim: bytes
    envelope: bytes


@dataclass(frozen=True)
class _CheckedClaim:
    """A genuine claim, with its signed credential.

    `refusal`: the reason why a new submission is refused; a repetition of an accepted submission
    still gets its receipt.
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
        """Begin to check and store a submission; return a future of its signed receipt.

        The envelope comes in one message (bytes), or as the chunks of a stream. The steps refine
        those of docs/protocol.md, "Submit":

        1. For one message: fewer than `waiting_submissions` others are being checked.
        2. Credential and claim are genuine (core's `check_claim`).
        3. The round is open and not full; the credential has not expired and is not withdrawn.
        4. If a submission of this credential was accepted before, a repetition of it gets the
           receipt, whatever the result of step 3, and any other submission is refused. Neither
           envelope nor proofs are checked then.
        5. Only one call of a credential goes on at a time; a call that waited for another one
           repeats step 4.
        6. For a stream: there is room for an envelope, whose length is fixed, and it arrives
           complete, in order and in time.
        7. In a verified round it is this credential's turn (`ProofTurns`).
        8. The envelope has the round's length and the claim's digest; it opens; no record is
           repeated, and in a verified round the proofs hold.
        9. The round is still open, and the submission is stored on disk, once per credential. Only
           then is the receipt signed, because it is evidence against this node.

        In a plain round, one message goes through steps 1 to 3, 8 and 9 only; from step 2 on this
        happens in the spool's thread, in groups with others. It never waits in between, and step 9
        recognises repetitions.

        Raises, at once or from the future:
            RoundStateError: this node takes no submissions in this round (yet).
            BusyError: step 1, 5, 6 or 7; a repetition may succeed.
            MalformedDocumentError, UnknownCredentialError: step 2.
            SubmissionClosedError: step 3 or 9. WithdrawnCredentialError: step 3.
            DifferentSubmissionError: step 4 or 9.
            InvalidSubmissionError: step 2, 6, 8 or 9. BadClaimError: step 8.
        """
        length = live.require_terms().geometry.envelope_bytes
        live.require_spool()
        if not isinstance(envelope, bytes):
            arriving = self.uploads.arriving(envelope, length)
            return _begin(live, self._accept_in_turn(live, credential, claim, arriving))
        if not self.uploads.begin_messages(1):  # 1
            raise self.uploads.message_refusal()
        if live.claims is None:
            submission = WholeSubmission(credential, claim, envelope)
            receipt = _begin(live, self._accept_whole(live, submission))
        else:
            arrived = nullcontext(envelope)
            receipt = _begin(live, self._accept_in_turn(live, credential, claim, arrived))
        receipt.add_done_callback(lambda _: self.uploads.end_messages(1))
        return receipt

    async def _accept_whole(self, live: LiveRound, submission: WholeSubmission) -> Signed:
        checks = _MessageChecks(self, live)
        (outcome,) = await live.require_spool().store_all(
            checks, [submission], len(submission.envelope)
        )
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def accept_all(
        self, live: LiveRound, submissions: Sequence[WholeSubmission]
    ) -> asyncio.Future[list[Signed | Exception]]:
        """Vectorised `accept` of one-message submissions, at most `MAX_GROUP`.

        The future gives the receipt of each, or the error that `accept` would raise.

        Raises:
            RoundStateError: this node takes no submissions in this round (yet).
            UnknownRoundError: the round was deleted.
        """
        spool = live.require_spool()
        if live.claims is not None:
            return asyncio.ensure_future(self._accept_each(live, submissions))
        begun = self.uploads.begin_messages(len(submissions))  # 1
        refusal = self.uploads.message_refusal()
        try:
            weight = sum(len(submission.envelope) for submission in submissions[:begun])
            stored = spool.store_all(_MessageChecks(self, live), submissions[:begun], weight)
        except ShuffleDPError:
            self.uploads.end_messages(begun)
            raise

        async def answers() -> list[Signed | Exception]:
            try:
                outcomes = await stored
            finally:
                self.uploads.end_messages(begun)
            if any(isinstance(outcome, Signed) for outcome in outcomes):
                live.touch()
            return [*outcomes, *[refusal] * (len(submissions) - begun)]

        return asyncio.ensure_future(answers())

    async def _accept_each(
        self, live: LiveRound, submissions: Sequence[WholeSubmission]
    ) -> list[Signed | Exception]:
        async def accept(submission: WholeSubmission) -> Signed:
            return await self.accept(live, *submission)

        accepting = [asyncio.ensure_future(accept(submission)) for submission in submissions]
        outcomes = await asyncio.gather(*accepting, return_exceptions=True)
        failures = [outcome for outcome in outcomes if not isinstance(outcome, Signed | Exception)]
        if failures:  # cancelled
            raise failures[0]
        return [outcome for outcome in outcomes if isinstance(outcome, Signed | Exception)]

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

    def _check_claim(self, live: LiveRound, credential: bytes, claim: bytes) -> _CheckedClaim:
        (checked,) = self.check_claims(live, [(credential, claim)])
        if isinstance(checked, ShuffleDPError):
            raise checked
        return checked

    def check_claims(
        self, live: LiveRound, pairs: Sequence[tuple[bytes, bytes]]
    ) -> list[_CheckedClaim | ShuffleDPError]:
        """Steps 2 and 3 of `accept` for each (credential, claim): the claim, or its refusal."""
        now = self.clock()
        # Before the signatures are checked: a call that overlaps the opening is too early.
        closed = live.refusal(now)
        frames = [_parse_frames(*pair) for pair in pairs]
        parsed = [frame for frame in frames if not isinstance(frame, ShuffleDPError)]
        claims = check_claims(live.require_terms(), self.roster, parsed)
        genuine = [claim.credential for claim in claims if isinstance(claim, GenuineClaim)]
        refusals = iter(self.admission.refusals(genuine, now))
        checked: Iterator[_CheckedClaim | ShuffleDPError] = (
            _CheckedClaim(credential, claim.name, claim.digest, closed or next(refusals))
            if isinstance(claim, GenuineClaim)
            else claim
            for (credential, _), claim in zip(parsed, claims, strict=True)
        )
        return [frame if isinstance(frame, ShuffleDPError) else next(checked) for frame in frames]

    async def _find_receipt(
        self, live: LiveRound, claimed: _CheckedClaim, refusal: ShuffleDPError | None
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
        self, live: LiveRound, claimed: _CheckedClaim, envelope: bytes
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


class _MessageChecks:
    """Steps 2, 3 and 8 of `Submissions.accept` for submissions to a plain round, and the receipts.

    Signatures are checked and envelopes opened for a group of submissions at a time, with the same
    outcome for each as by itself.
    """

    def __init__(self, submissions: Submissions, live: LiveRound) -> None:
        self._submissions = submissions
        self._live = live

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _MessageChecks)
            and self._submissions is other._submissions
            and self._live is other._live
        )

    def __hash__(self) -> int:
        return hash((id(self._submissions), id(self._live)))

    def check(self, items: Sequence[WholeSubmission]) -> Sequence[Submission | Exception]:
        """See `spool.Steps`."""
        pairs = [(item.credential, item.claim) for item in items]
        claims = self._submissions.check_claims(self._live, pairs)  # 2, 3
        checked = [
            self._check_digest(claim, item.envelope)  # 8
            for claim, item in zip(claims, items, strict=True)
        ]
        indices = [
            index
            for index, submission in enumerate(checked)
            if isinstance(submission, Submission) and submission.refusal is None
        ]
        if not indices:  # repetitions alone, maybe, and of a round whose key is erased
            return checked
        refusals = self._live.check_envelopes([items[index].envelope for index in indices])
        for index, refusal in zip(indices, refusals, strict=True):
            if refusal is not None:
                checked[index] = refusal
        return checked

    def _check_digest(
        self, claim: _CheckedClaim | ShuffleDPError, envelope: bytes
    ) -> Submission | ShuffleDPError:
        if isinstance(claim, ShuffleDPError):
            return claim
        try:
            if claim.refusal is None:
                _check_digest(self._live, claim, envelope)
        except InvalidSubmissionError as error:
            return error
        return Submission(claim.name, claim.digest, envelope, claim.refusal)

    def answer(self, stored: Sequence[Submission]) -> list[Signed]:
        """Sign a receipt for each stored submission; see `spool.Steps`."""
        round_id = self._live.record.round_id
        receipts = [
            Receipt(
                round_id=round_id,
                credential=submission.credential,
                submission_digest=submission.digest,
            )
            for submission in stored
        ]
        return self._submissions.identity.sign_all(receipts)


def _begin(live: LiveRound, accepting: Coroutine[Any, Any, Signed]) -> asyncio.Future[Signed]:
    """Begin to accept a submission; notify the round's watchers once it has a receipt."""

    def finish(answer: asyncio.Future[Signed]) -> None:
        if not answer.cancelled() and answer.exception() is None:
            live.touch()

    receipt = asyncio.ensure_future(accepting)
    receipt.add_done_callback(finish)
    return receipt


def _parse_frames(credential: bytes, claim: bytes) -> tuple[Signed, Signed] | DocumentError:
    try:
        return Signed.from_bytes(credential), Signed.from_bytes(claim)
    except DocumentError as error:
        return error


def _check_envelope(live: LiveRound, claimed: _CheckedClaim, envelope: bytes) -> None:
    """Check that the envelope of a genuine claim opens: `Submissions.accept`, step 8."""
    _check_digest(live, claimed, envelope)
    if live.claims is not None:
        live.claims.check(claimed.credential, envelope, live.require_key())
        return
    (refusal,) = live.check_envelopes([envelope])
    if refusal is not None:
        raise refusal


def _check_digest(live: LiveRound, claimed: _CheckedClaim, envelope: bytes) -> None:
    length = live.require_terms().geometry.envelope_bytes
    if len(envelope) != length:
        raise InvalidSubmissionError(f"the envelope must have {length} bytes, not {len(envelope)}")
    check_envelope(claimed.digest, envelope)


@dataclass(frozen=True)
class Batches:
    """Intake of batches from predecessors; they arrive in the folder `uploads`."""

    uploads: Path

    async def take(
        self, live: LiveRound, peer: str, signed: Signed, header: BatchHeader, chunks: Chunks
    ) -> bool:
        """Receive, verify and commit a batch.

        Returns True if the batch was committed now, False if it repeats one that was committed
        before.

        1. The header fits the round and comes from our predecessor (`check_batch`).
        2. The batch is the first one, or a repetition of the committed one. The bytes of a
           repetition are read to the end: a sender that gets the answer while it writes may take it
           for a failure, and would repeat forever.
        3. Exactly the announced bytes arrive, with the announced digest; they are flushed to disk.
        4. The round is still waiting for a batch; batch and header become the round's in one step.

        Raises:
            BadBatchError, AccessDenied, RoundStateError: a check failed. After any error the round
            continues to wait for its batch.
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
            f"round {record.round_id} already has a batch with a different header; only one "
            "batch is mixed per round"
        )
    return True
