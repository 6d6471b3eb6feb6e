"""A round in memory: its record, the task that works on it, and its watchers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from shuffledp_core.errors import (
    InvalidSubmissionError,
    RoundStateError,
    ShuffleDPError,
    SubmissionClosedError,
    UnknownRoundError,
)
from shuffledp_core.mixproof.hops import Hop
from shuffledp_core.mixproof.keys import NodeSecret
from shuffledp_core.onion.layers import ENVELOPE_DOES_NOT_OPEN, open_envelopes
from shuffledp_core.runtime.tasks import in_thread
from shuffledp_shuffler.checks import Terms
from shuffledp_shuffler.metrics import NodeMetrics
from shuffledp_shuffler.mixproof.claims import ClaimCheck
from shuffledp_shuffler.mixproof.settling import TranscriptExchange
from shuffledp_shuffler.round_state import Phase, RoundRecord
from shuffledp_shuffler.spool import Spool
from shuffledp_shuffler.store import RoundFolder
from shuffledp_shuffler.turns import ProofTurns

WATCH_SECONDS: Final = 0.1
"""Changes within this time, in seconds, reach a watcher as one."""

IDLE_SECONDS: Final = 300.0
"""How long, in seconds, the hop that made an answer is cached for the next inquiry: the other nodes
answer in between.
"""


@dataclass(frozen=True)
class RoundSnapshot:
    """Status of a round for watchers: the record, and counts that change more often."""

    record: RoundRecord
    accepted: int
    done: int
    total: int
    accused: int = 0


class LiveRound:
    """One round of a running node. Its caller holds `lock` to decide on and commit a step."""

    def __init__(self, folder: RoundFolder, record: RoundRecord, metrics: NodeMetrics) -> None:
        self.folder = folder
        self.record = record
        self.lock = asyncio.Lock()
        self.upload_lock = asyncio.Lock()
        self.answering = asyncio.Lock()
        self.drawing = asyncio.Lock()
        self.private_key: bytes | None = None
        self.secret: NodeSecret | None = None
        self.claims: ClaimCheck | None = None
        self.turns = ProofTurns()
        self.terms: Terms | None = None
        self.spool: Spool | None = None
        self.job: asyncio.Task[None] | None = None
        self.settlement = TranscriptExchange(self.touch)
        self.deleted = False
        self._hop: Hop | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._metrics = metrics
        self._done = 0
        self._total = 0
        self._changed = asyncio.Event()

    def require_terms(self) -> Terms:
        """The verified manifest; raises `RoundStateError` before there is one."""
        if self.terms is None:
            raise RoundStateError(
                f"round {self.record.round_id} has no manifest yet; send it first"
            )
        return self.terms

    def require_spool(self) -> Spool:
        """The accepted submissions; raises `RoundStateError` on a node that takes none."""
        if self.spool is None:
            raise RoundStateError(
                f"this node is at position {self.record.position} of round "
                f"{self.record.round_id}; submissions go to the entry node, once it has the "
                "manifest"
            )
        return self.spool

    def require_key(self) -> bytes:
        """The private round key; raises `RoundStateError` once it is erased."""
        if self.private_key is None:
            raise RoundStateError(
                f"the key of round {self.record.round_id} has been erased ({self.record.phase})"
            )
        return self.private_key

    def check_envelopes(
        self, envelopes: Sequence[bytes]
    ) -> Sequence[InvalidSubmissionError | None]:
        """The refusal of each envelope of a plain round, or None; opens all in one batch.

        All envelopes must have the round's length.

        Raises `RoundStateError` once the round key is erased.
        """
        geometry, round_id = self.require_terms().geometry, self.record.round_id
        opened = open_envelopes(geometry, round_id, self.require_key(), envelopes)
        return [_refusal_of(records, geometry.record_bytes(2)) for records in opened]

    def require_secret(self) -> NodeSecret:
        """The secrets of a verified round; raises `RoundStateError` once they are erased."""
        if self.secret is None:
            raise RoundStateError(
                f"the secrets of round {self.record.round_id} have been erased "
                f"({self.record.phase})"
            )
        return self.secret

    def lend_hop(self) -> Hop | None:
        """Take the cached hop out of the cache; None if there is none.

        The hop is then not erased while the caller uses it.
        """
        hop, self._hop = self._hop, None
        self.forget_hop()
        return hop

    def keep_hop(self, hop: Hop) -> None:
        """Cache the hop after an answer, for further inquiries within `IDLE_SECONDS`.

        If the round's secrets are erased, the hop is erased instead.
        """
        self.forget_hop()
        if self.secret is None or self.deleted:  # while it answered
            hop.erase()
            return
        self._hop = hop
        self._idle = asyncio.get_running_loop().call_later(IDLE_SECONDS, self.forget_hop)

    def forget_hop(self) -> None:
        """Erase the cached hop, if any: the next inquiry reads the batch again from disk."""
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if self._hop is not None:
            self._hop.erase()
            self._hop = None

    def forget_secrets(self) -> None:
        """Erase round key, secrets and cached hop from memory.

        The caller must erase them from the disk.
        """
        self.private_key = self.secret = None
        self.forget_hop()

    def require_present(self) -> None:
        """Raise `UnknownRoundError` once the round is being deleted."""
        if self.deleted:
            raise UnknownRoundError(f"round {self.record.round_id} was deleted on this node")

    def refusal(self, now: int) -> SubmissionClosedError | None:
        """The refusal of a new submission at `now` (milliseconds since 1970).

        None while the round accepts submissions.
        """
        terms = self.require_terms()
        spool = self.require_spool()
        if self.record.phase is not Phase.OPEN:
            return SubmissionClosedError(
                f"round {self.record.round_id} is closed ({self.record.phase})"
            )
        if spool.accepted_count >= terms.manifest.max_reports:
            return SubmissionClosedError(
                f"round {self.record.round_id} is full: it has its maximum of "
                f"{spool.accepted_count} reports"
            )
        try:
            terms.require_open(now)
        except SubmissionClosedError as error:
            return error
        return None

    async def commit(self, record: RoundRecord) -> None:
        """Make the record the round's state on disk, then in memory, then notify watchers.

        This order ensures that no party learns of a step that a crash could still undo.
        """
        await in_thread(self.folder.commit, record)
        self.adopt(record)

    def adopt(self, record: RoundRecord) -> None:
        """Make a record that is already on disk the state in memory."""
        if record.phase is not self.record.phase:
            self._done = self._total = 0
            if record.has_ended:
                self._metrics.rounds_ended.labels(record.error or record.phase).inc()
        self.record = record
        if record.keyless:
            self.forget_secrets()
        self.touch()

    async def fail(self, error: ShuffleDPError) -> None:
        """End the round at this node as FAILED with this error; erase key and data."""
        log = structlog.get_logger()
        log.error(
            "round failed",
            round=self.record.round_id,
            error=type(error).__name__,
            reason=str(error),
        )
        record = self.record.fail(error)
        try:
            await in_thread(self.folder.give_up, record)
        except OSError as refused:
            log.exception(
                "cleanup after a failed round did not succeed",
                round=record.round_id,
                reason=str(refused),
            )
        self.adopt(record)  # whatever the disk says: this process does not go on with the round

    async def stop(self) -> None:
        """Stop everything that works on the round; its files no longer change."""
        self.forget_hop()
        if self.job is not None:
            self.job.cancel()
            # Not awaited itself, which would raise its cancellation here as if it were ours.
            await asyncio.wait({self.job})
        if self.spool is not None:
            await in_thread(self.spool.shut)
        self.touch()

    def count_proof_check(self) -> None:
        """Count one check of the proofs of a submission."""
        self._metrics.proof_checks.inc()

    def progress(self, done: int, total: int) -> None:
        """Report the number of records done in the current phase, out of `total`."""
        self._metrics.records.labels(self.record.phase).inc(
            max(0, done - self._done)
        )  # done again counts once
        self._done, self._total = done, total
        self.touch()

    def touch(self) -> None:
        """Wake the watchers."""
        self._changed.set()  # for all who wait now; those who come later wait for the next change
        self._changed = asyncio.Event()

    def snapshot(self) -> RoundSnapshot:
        """The current status of the round."""
        counting = self.spool is not None and self.record.phase is Phase.OPEN
        accepted = (
            self.spool.accepted_count
            if counting and self.spool is not None
            else self.record.accepted
        )
        return RoundSnapshot(
            self.record, accepted, self._done, self._total, self.settlement.accused
        )

    async def watch(self) -> AsyncGenerator[RoundSnapshot, None]:
        """Yield the status now and at each change, at most one per `WATCH_SECONDS`."""
        while not self.deleted:
            # Taken before the snapshot: a change in between then wakes us at once, and is not
            # missed.
            changed = self._changed
            now = self.snapshot()
            yield now
            if now.record.has_ended:
                return
            await changed.wait()
            await asyncio.sleep(WATCH_SECONDS)


def _refusal_of(records: bytes | None, width: int) -> InvalidSubmissionError | None:
    """The refusal of an envelope, or None; `records` is None if it failed to decrypt."""
    if records is None:
        return InvalidSubmissionError(ENVELOPE_DOES_NOT_OPEN)
    distinct = {records[start : start + width] for start in range(0, len(records), width)}
    # The mix would drop such copies and count them as lost messages of the round; here they cost
    # only their sender.
    if len(distinct) * width != len(records):
        return InvalidSubmissionError(
            "the envelope holds the same onion twice; seal each message separately"
        )
    return None
