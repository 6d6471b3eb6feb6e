"""State machine of one round at the analyst. Pure: no clocks, no sockets, no files.

Legal orders of calls, from `Stage.PLANNED`:

    open -> end_submissions -> close and deliver, in either order -> begin_decoding ->
    begin_certifying -> publish

`fail` is legal in every stage except the final ones, PUBLISHED and FAILED. A call in any other
order raises `RoundStateError` and changes nothing. docs/protocol.md, section "Rounds".
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import UNSET

from shuffledp_core.documents.losses import most_dropped
from shuffledp_core.documents.models import BatchHeader, RoundPlan
from shuffledp_core.errors import (
    BadBatchError,
    CountMismatchError,
    ForeignDocumentError,
    RoundStateError,
)
from shuffledp_core.onion.geometry import Geometry


class RoundStage(StrEnum):
    """Stage of a round at the analyst."""

    PLANNED = "planned"
    OPEN = "open"
    CLOSING = "closing"
    DECODING = "decoding"
    CERTIFYING = "certifying"
    PUBLISHED = "published"
    FAILED = "failed"


class RoundLifecycle:
    """State of one round: its plan, number of accepted reports, and delivered batch."""

    def __init__(self, round_id: str, plan: RoundPlan) -> None:
        self.round_id = round_id
        self.plan = plan
        self.stage = RoundStage.PLANNED
        self.geometry: Geometry | None = None
        self.accepted: int | None = None
        self.batch: BatchHeader | None = None
        self.most_history = 0

    @property
    def has_ended(self) -> bool:
        """True if the round is published or has failed."""
        return self.stage in {RoundStage.PUBLISHED, RoundStage.FAILED}

    def _require(self, *stages: RoundStage) -> None:
        if self.stage not in stages:
            raise RoundStateError(
                f"round {self.round_id} is {self.stage}, but this call needs it to be "
                f"{' or '.join(stages)}",
            )

    def open(self, geometry: Geometry, most_history: int = 0) -> None:
        """Record that every node countersigned; submissions are accepted. PLANNED -> OPEN.

        `most_history`: largest length in bytes of the history in front of a verified round's
        records.
        """
        self._require(RoundStage.PLANNED)
        self.geometry = geometry
        self.most_history = most_history
        self.stage = RoundStage.OPEN

    def end_submissions(self) -> None:
        """Record that the entry node is about to be told to close. OPEN -> CLOSING."""
        self._require(RoundStage.OPEN)
        self.stage = RoundStage.CLOSING

    def close(self, accepted: int) -> None:
        """Record that the entry node closed with `accepted` reports. Stays CLOSING.

        Raises:
            CountMismatchError: `accepted` is not a number that the manifest allows, or not that of
                the delivered batch.
        """
        self._require(RoundStage.CLOSING)
        if not self.plan.min_reports <= accepted <= self.plan.max_reports:
            raise CountMismatchError(
                f"the entry node reports {accepted} accepted submissions, but the manifest "
                f"allows {self.plan.min_reports} to {self.plan.max_reports}"
            )
        # Whichever comes second compares: after a restart the batch may be there before the entry
        # node answers.
        if self.batch is not None and not self.most_history:
            self._check_users(self.batch.users, accepted)
        self.accepted = accepted

    def check_batch(self, header: BatchHeader) -> int:
        """Check a genuine batch header; return the length in bytes of its batch. Stays CLOSING.

        1. It is for this round and for the position behind the last node.
        2. Its number of reports is the one that the entry node accepted. If that is not known yet,
           and in a verified round, whose list of claims states it, the number only has to be one
           that the manifest allows.
        3. Its number of records is reports times messages per report, plus the dummies of every
           node, less the dropped ones, which are not too many.
        4. Only in a verified round is there a history in front of the records, and it is not too
           long.

        Raises:
            ForeignDocumentError: step 1.
            CountMismatchError: step 2.
            BadBatchError: step 3 or 4.
        """
        self._require(RoundStage.CLOSING)
        if self.geometry is None:
            raise ValueError("a closing round has a geometry")
        if (header.round_id, header.position) != (self.round_id, self.geometry.hops + 1):  # 1
            raise ForeignDocumentError(
                f"the batch is for position {header.position} of round {header.round_id}, "
                f"not for position {self.geometry.hops + 1} of round {self.round_id}"
            )
        # In a verified round the list gives their number, and evidence shows who was left out: a
        # node that counts otherwise is named when the batch is decrypted, not only noticed.
        if self.accepted is not None and not self.most_history:  # 2
            self._check_users(header.users, self.accepted)
        elif not self.plan.min_reports <= header.users <= self.plan.max_reports:
            raise CountMismatchError(
                f"the batch holds {header.users} reports, but the manifest allows "
                f"{self.plan.min_reports} to {self.plan.max_reports}"
            )
        messages = self.geometry.messages_per_user  # 3
        most = most_dropped(header.users, self.plan.honest, messages)
        if header.dropped and self.most_history:
            raise BadBatchError(
                f"the batch header states {header.dropped} dropped messages, but in a verified "
                "round no node may drop any"
            )
        if not 0 <= header.dropped <= most or header.records != self.geometry.count_records(
            header.position, header.users, header.dropped
        ):
            raise BadBatchError(
                f"the batch header states {header.records} records and {header.dropped} dropped "
                f"ones (at most {most} are allowed), which does not match {header.users} reports "
                f"of {messages} messages and {self.geometry.dummies_per_node} dummies of each of "
                f"{self.geometry.hops} nodes"
            )
        return self._history_bytes(header) + header.records * self.geometry.record_bytes(
            self.geometry.hops + 1
        )

    def _history_bytes(self, header: BatchHeader) -> int:
        """Step 4 of `check_batch`: number of bytes before the records, in a verified round."""
        history = 0 if header.history is UNSET else header.history
        if (
            not isinstance(history, int)
            or (history > 0) != (self.most_history > 0)
            or history > self.most_history
        ):
            raise BadBatchError(
                f"the batch header states a history of {history} bytes; in this round it may "
                f"have at most {self.most_history}"
            )
        return history

    def deliver(self, header: BatchHeader) -> None:
        """Record that the batch of a checked header is complete and on disk. Stays CLOSING."""
        self._require(RoundStage.CLOSING)
        if self.batch is not None:
            raise RoundStateError(f"round {self.round_id} already has its batch")
        if self.accepted is not None and not self.most_history:
            self._check_users(header.users, self.accepted)
        self.batch = header

    def begin_decoding(self) -> tuple[int, BatchHeader]:
        """Begin decoding; return the number of accepted reports and the batch's header.

        CLOSING -> DECODING.
        """
        self._require(RoundStage.CLOSING)
        if self.accepted is None or self.batch is None:
            raise RoundStateError(f"round {self.round_id} has not been closed and delivered yet")
        self.stage = RoundStage.DECODING
        return self.accepted, self.batch

    def begin_certifying(self) -> None:
        """Record that the board is checked and counted. DECODING -> CERTIFYING."""
        self._require(RoundStage.DECODING)
        self.stage = RoundStage.CERTIFYING

    def publish(self) -> None:
        """Record that the result is on disk. CERTIFYING -> PUBLISHED."""
        self._require(RoundStage.CERTIFYING)
        self.stage = RoundStage.PUBLISHED

    def fail(self) -> None:
        """End the round without a result, in any stage but PUBLISHED and FAILED."""
        self._require(
            *(
                stage
                for stage in RoundStage
                if stage not in {RoundStage.PUBLISHED, RoundStage.FAILED}
            )
        )
        self.stage = RoundStage.FAILED

    @staticmethod
    def _check_users(delivered: int, accepted: int) -> None:
        if delivered == accepted:
            return
        raise CountMismatchError(
            f"the last node delivered {delivered} reports, but the entry node accepted "
            f"{accepted}: a node on the route removed or added some"
        )
