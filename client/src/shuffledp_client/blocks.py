"""Blocks of submissions that one message of a long stream carries, for simulated users.

A block is made where the submissions are sealed, so that what is passed between processes is the
message itself, and its receipts are checked together. Each submission is checked, stored and
answered as if it were alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from shuffledp_client.submission import PreparedSubmission, expected_receipt, find_receipt_errors
from shuffledp_core.documents.models import Party, Receipt
from shuffledp_core.documents.signed import Signed
from shuffledp_core.errors import ShuffleDPError
from shuffledp_core.transport.chunks import WHOLE_BYTES
from shuffledp_proto.v1 import node_pb2


def submission_header(
    round_id: str, credential: Signed, claim: Signed
) -> node_pb2.SubmissionHeader:
    """The message that precedes an envelope in a submission."""
    return node_pb2.SubmissionHeader(
        round_id=round_id, credential=credential.to_bytes(), claim=claim.to_bytes()
    )


@dataclass(frozen=True)
class Block:
    """Several users' submissions to one round, in the order in which they are sent.

    Attributes:
        request: a serialised `SubmitManyRequest`.
        expected: the receipt that each submission must get.
        messages: each user's packed messages as they will be on the board; secret.
    """

    request: bytes = field(repr=False)
    expected: tuple[Receipt, ...]
    messages: tuple[bytes, ...] = field(repr=False)

    def __len__(self) -> int:
        return len(self.expected)

    def parse(self) -> list[node_pb2.SubmitWholeRequest]:
        """Parse the submissions of the block as sent."""
        return list(node_pb2.SubmitManyRequest.FromString(self.request).submissions)

    def check_receipts(
        self, entry: Party, answers: Sequence[Signed | ShuffleDPError]
    ) -> list[ShuffleDPError | None]:
        """For each submission its refusal, or the fault of its receipt; None for a good receipt.

        See `submission.check_receipt`.
        """
        receipts = [
            (expected, answer)
            for expected, answer in zip(self.expected, answers, strict=True)
            if isinstance(answer, Signed)
        ]
        errors = iter(find_receipt_errors(entry, receipts))
        return [next(errors) if isinstance(answer, Signed) else answer for answer in answers]


def make_blocks(
    prepared: Sequence[tuple[PreparedSubmission, bytes]],
) -> tuple[list[Block], list[PreparedSubmission]]:
    """Blocks of the submissions that fit into a message, in order; and the remaining ones.

    `prepared` are submissions with their messages.
    """
    long: list[PreparedSubmission] = []
    fitting: list[_PackedSubmission] = []
    for submission, messages in prepared:
        header = submission_header(submission.round_id, submission.credential, submission.claim)
        request = node_pb2.SubmitWholeRequest(header=header, envelope=submission.envelope)
        length = request.ByteSize()
        if length > WHOLE_BYTES:
            long.append(submission)
        else:
            fitting.append(
                _PackedSubmission(request, length, expected_receipt(submission), messages)
            )
    return [_make_block(group) for group in _groups(fitting)], long


class _PackedSubmission(NamedTuple):
    """A submission as it is sent, with the length of its request in bytes."""

    request: node_pb2.SubmitWholeRequest
    length: int
    expected: Receipt
    messages: bytes


def _make_block(group: Sequence[_PackedSubmission]) -> Block:
    message = node_pb2.SubmitManyRequest(submissions=[packed.request for packed in group])
    return Block(
        message.SerializeToString(),
        tuple(packed.expected for packed in group),
        tuple(packed.messages for packed in group),
    )


def _groups(fitting: Sequence[_PackedSubmission]) -> Iterator[list[_PackedSubmission]]:
    """Split submissions into runs of at most `WHOLE_BYTES`, a device's limit for one message."""
    group: list[_PackedSubmission] = []
    length = 0
    for packed in fitting:
        length += packed.length
        if group and length > WHOLE_BYTES:
            yield group
            group, length = [], packed.length
        group.append(packed)
    if group:
        yield group
