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
from typing import TypeAlias

from shuffledp_core.documents.digests import document_digest
from shuffledp_core.documents.models import BatchHeader, Credential, Receipt, Roster
from shuffledp_core.documents.signed import Signed, from_json
from shuffledp_core.documents.submission import check_envelope
from shuffledp_core.errors import BadBatchError, ClientFault, InvalidSubmissionError, ShuffleDPError
from shuffledp_core.files import PART, erase
from shuffledp_core.keys import Identity
from shuffledp_core.onion.layers import open_envelope
from shuffledp_core.tasks import in_thread, uninterrupted
from shuffledp_core.transport.receiving import Chunks, check_digest, let_through, receive
from shuffledp_shuffler.admission import Admission
from shuffledp_shuffler.checks import check_batch, check_claim
from shuffledp_shuffler.live import LiveRound
from shuffledp_shuffler.spool import Submission, different_submission
from shuffledp_shuffler.uploads import Uploads

Arriving: TypeAlias = Callable[[], AbstractAsyncContextManager[bytes]]
"""Receives an envelope, and keeps room for it until the block ends."""


@dataclass(frozen=True)
class Submissions:
    """Intake of submissions. `clock` gives milliseconds since 1970."""

    identity: Identity
    roster: Roster
    clock: Callable[[], int]
    uploads: Uploads
    admission: Admission

    async def take(
        self, live: LiveRound, credential: bytes, claim: bytes, chunks: Chunks
    ) -> Signed:
        """Takes a submission and returns its signed receipt, once it is on disk.

        The same again for a repetition.

        1. Credential and claim are genuine (core's `check_claim`): nobody else gets any further.
        2. If this credential's submission was accepted before, its repetition gets the receipt and
           another one is refused. Neither envelope nor proofs are looked at.
        3. The round takes submissions now, and the credential still counts.
        4. It is the only call of this credential; one that waited for another repeats step 2.
        5. There is room for the envelope's one legal length, and it arrives whole, in order and in
           time.
        6. In a verified round it is this credential's turn (`ProofTurns`).
        7. It is the envelope of the claim; it opens; no record is repeated, and in a verified round
           the proofs hold.
        8. It is still open; spooled: on disk, once per credential.

        Raises:
            SubmissionClosedError, InvalidSubmissionError, UnknownCredentialError,
            DifferentSubmissionError.
            WithdrawnCredentialError: step 3. BadClaimError: step 7.
            MalformedDocumentError: credential or claim is no signed document.
            BusyError: step 4 or 5; asking again may help.
        """
        length = live.require_terms().geometry.envelope_bytes
        return await self._take(
            live, credential, claim, lambda: self.uploads.arriving(chunks, length)
        )

    async def take_whole(
        self, live: LiveRound, credential: bytes, claim: bytes, envelope: bytes
    ) -> Signed:
        """Takes a submission that has arrived in one message.

        Otherwise as `take`, whose steps these are.

        In a verified round these are the steps of `take`, less step 5. In a plain one all checks
        run in the spool's thread, in groups, together with what came before and after: nothing is
        waited for in between, so no call of the same credential has to take its turn.

        1. Not too many others are being checked.
        2. Credential and claim are genuine (step 1).
        3. The round takes submissions now, and the credential still counts (step 3); otherwise only
           a repetition of an accepted submission is answered, and the envelope is not opened.
        4. It has the envelope's one legal length, is that of the claim, and opens; no record is
           repeated (step 7).
        5. Spooled: on disk, once per credential (step 8). The receipt is signed behind the commit.

        Raises:
            As `take`.
        """
        # To its end even if the caller hangs up: what it holds is counted as long as it is here.
        return await uninterrupted(self.begin_whole(live, credential, claim, envelope))

    def begin_whole(
        self, live: LiveRound, credential: bytes, claim: bytes, envelope: bytes
    ) -> asyncio.Future[Signed]:
        """As `take_whole`, but returns at once: the future gives the receipt, or raises what
        `take_whole` raises.

        Raises:
            BusyError: step 1. RoundStateError: the round takes no submissions here.
        """
        live.require_terms()
        spool = live.require_spool()
        with ExitStack() as stack:
            stack.enter_context(self.uploads.message())  # 1
            receipt: asyncio.Future[Signed]
            if live.claims is None:
                receipt = spool.begin(
                    lambda: self._checked(live, credential, claim, envelope),
                    lambda stored: self._receipt(live, stored.credential, stored.digest),
                    len(envelope),
                )
            else:
                receipt = asyncio.ensure_future(
                    self._take(live, credential, claim, lambda: nullcontext(envelope))
                )
            counted = stack.pop_all()

        def ended(answer: asyncio.Future[Signed]) -> None:
            counted.close()
            if not answer.cancelled() and answer.exception() is None:
                live.touch()

        receipt.add_done_callback(ended)
        return receipt

    def _checked(
        self, live: LiveRound, credential: bytes, claim: bytes, envelope: bytes
    ) -> Submission:
        """Steps 2 to 4 of `take_whole` in a plain round."""
        terms = live.require_terms()
        documents = (Signed.from_bytes(credential), Signed.from_bytes(claim))
        name, claimed = check_claim(terms, self.roster, *documents)  # 2
        now = self.clock()
        refusal = live.refusal(now) or self.admission.refusal(
            from_json(documents[0].body, Credential), now
        )  # 3
        if refusal is None:  # 4
            _verify(live, documents[0], claimed, envelope)
        return Submission(name, claimed, envelope, refusal)

    async def _take(
        self, live: LiveRound, credential: bytes, claim: bytes, arriving: Arriving
    ) -> Signed:
        terms = live.require_terms()
        documents = (Signed.from_bytes(credential), Signed.from_bytes(claim))
        now = self.clock()
        closed = live.refusal(
            now
        )  # before the checks: a call that overlaps the opening is too early
        name, claimed = check_claim(terms, self.roster, *documents)  # 1
        refusal = closed or self.admission.refusal(from_json(documents[0].body, Credential), now)
        receipt = await self._settled(live, name, claimed, refusal)  # 2, 3
        if receipt is not None:
            return receipt
        async with self.uploads.turn(terms.manifest.round_id, name) as repeated:  # 4
            if repeated:
                receipt = await self._settled(live, name, claimed, None)
            if receipt is not None:
                return receipt
            async with arriving() as envelope:  # 5
                # To its end: a device that hangs up would otherwise get any number of checks for
                # nothing.
                return await uninterrupted(
                    self._accept(live, documents[0], name, claimed, envelope)
                )

    async def _accept(
        self, live: LiveRound, credential: Signed, name: str, claimed: str, envelope: bytes
    ) -> Signed:
        """Steps 6 to 8 of `take`."""
        try:
            await self._check(live, credential, name, claimed, envelope)  # 6, 7
            # The round may have closed or filled up meanwhile; from here to the disk the spool
            # decides.
            receipt = await self._settled(live, name, claimed, live.refusal(self.clock()))  # 8
            if receipt is not None:
                return receipt
            await live.require_spool().append(name, claimed, envelope)
        except ClientFault:
            live.turns.count_failure(name)
            raise
        live.touch()
        # Signed last: a receipt is evidence against this node, so it never comes before the
        # envelope is on disk.
        return self._receipt(live, name, claimed)

    async def _check(
        self, live: LiveRound, credential: Signed, name: str, claimed: str, envelope: bytes
    ) -> None:
        if live.claims is None:
            await asyncio.to_thread(_verify, live, credential, claimed, envelope)
            return
        async with live.turns.turn(name):
            # Waiting took its time: no processor time for a round that takes nothing any more.
            live.require_present()
            refusal = live.refusal(self.clock())
            if refusal is not None:
                raise refusal
            live.count_proof_check()
            await asyncio.to_thread(_verify, live, credential, claimed, envelope)

    async def _settled(
        self, live: LiveRound, name: str, claimed: str, refusal: ShuffleDPError | None
    ) -> Signed | None:
        """The receipt of the accepted submission that this one repeats; None for a new one.

        Raises:
            DifferentSubmissionError: another submission of this credential was accepted.
            ShuffleDPError: `refusal`, which a new submission is refused with.
        """
        accepted = await live.require_spool().find(name)
        if accepted is None:
            if refusal is not None:
                raise refusal
            return None
        if accepted != claimed:
            raise different_submission()
        return self._receipt(live, name, claimed)

    def _receipt(self, live: LiveRound, name: str, submitted: str) -> Signed:
        receipt = Receipt(
            round_id=live.record.round_id, credential=name, submission_digest=submitted
        )
        return self.identity.sign(receipt)


def _verify(live: LiveRound, credential: Signed, claimed: str, envelope: bytes) -> None:
    """Checks that the envelope of a genuine claim opens. Raises as `Submissions.take`, step 7."""
    terms = live.require_terms()
    if len(envelope) != terms.geometry.envelope_bytes:
        raise InvalidSubmissionError(
            f"the envelope must have {terms.geometry.envelope_bytes} bytes, not {len(envelope)}"
        )
    check_envelope(claimed, envelope)
    key = live.require_key()
    if live.claims is not None:
        live.claims.check(credential, envelope, key)
        return
    geometry = terms.geometry
    records = open_envelope(geometry, terms.manifest.round_id, key, envelope)
    width = geometry.record_bytes(2)
    # In the mix such copies would be dropped and use up the round's room for lost messages; here
    # they cost nobody else.
    if len(
        {records[start : start + width] for start in range(0, len(records), width)}
    ) * width != len(records):
        raise InvalidSubmissionError(
            "the envelope holds the same onion twice; seal every message by itself"
        )


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
        2. It is the first batch, or the committed one again, whose bytes are let through: a sender
           that is answered while it writes may take the answer for a failure, and would send it all
           for ever.
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
            live.record.received(signed, header.users)
            # Outside the round's folder until it is verified: what a crash leaves there is never
            # taken for a batch.
            upload = self.uploads / f"{secrets.token_hex(16)}{PART}"
            try:
                check_digest(header.digest, await receive(chunks, total, upload))  # 3
                # A sender that hangs up must not stop this between the rename and the record that
                # counts on it.
                await uninterrupted(self._commit(live, upload, signed, header.users))  # 4
            finally:
                await in_thread(erase, upload)
        return True

    async def _commit(self, live: LiveRound, upload: Path, signed: Signed, users: int) -> None:
        async with live.lock:
            # If it was deleted while the batch arrived, nothing of it may go on: the discard says
            # so.
            live.require_present()
            record = live.record.received(signed, users)
            await in_thread(live.folder.take_incoming, upload, record)
            live.adopt(record)


def _is_committed(live: LiveRound, signed: Signed) -> bool:
    record = live.record
    if record.incoming is None:
        return False
    if document_digest(record.incoming) != document_digest(signed):
        raise BadBatchError(
            f"round {record.round_id} already has a batch with another header; only one batch is "
            f"mixed per round"
        )
    return True
