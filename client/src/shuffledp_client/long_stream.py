"""Submission for many devices over one stream, for simulated users and gateways.

Documents, checks and answers are the same as if each device submitted by itself; only calls are
saved. Our own HTTPS gateway makes one call for each submission, because the end of a stream would
end the wait of all devices on it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TypeAlias

import grpc

from shuffledp_client.blocks import Block, submission_header
from shuffledp_client.transport import CALL_SECONDS, EntryNode, with_retries
from shuffledp_core.documents.signed import Signed
from shuffledp_core.errors import NodeFault, ShuffleDPError, UnreachableError, by_code
from shuffledp_core.transport.chunks import WHOLE_BYTES
from shuffledp_core.transport.requests import require_readable
from shuffledp_core.transport.rpc_errors import error_of_call
from shuffledp_proto.v1 import node_pb2, node_pb2_grpc

_Call: TypeAlias = grpc.aio.StreamStreamCall[
    node_pb2.SubmitManyRequest, node_pb2.SubmitManyResponse
]


class LongStream(EntryNode):
    """A channel to the entry node for many devices, with any number of submissions at once.

    A broken stream is opened again and unanswered submissions are sent again, which costs nothing.
    A submission that is too long for one message is sent in pieces, as by a device.
    """

    _stream: _Stream | None = None

    async def deliver(
        self, round_id: str, credential: Signed, claim: Signed, envelope: bytes
    ) -> Signed:
        """Send a sealed submission once; return the unverified receipt.

        Errors as `EntryNode.deliver`.
        """
        header = submission_header(round_id, credential, claim)
        request = node_pb2.SubmitWholeRequest(header=header, envelope=envelope)
        if request.ByteSize() > WHOLE_BYTES:
            return await super().deliver(round_id, credential, claim, envelope)
        (answer,) = await self._open_stream().answers([request])
        if isinstance(answer, ShuffleDPError):
            raise answer
        return answer

    async def submit_block(self, block: Block) -> list[ShuffleDPError | None]:
        """Send a block, with retries; return each submission's refusal or receipt error, or None.

        Returns for each submission None, or what `EntryNode.submit` would raise for it.
        """
        try:
            answers = await with_retries(lambda: self._deliver_block(block), self._backoff)
        except UnreachableError as error:
            return [error] * len(block)
        # Refused for want of room, for example: these go alone, with pauses.
        for index, answer in enumerate(answers):
            if isinstance(answer, UnreachableError):
                answers[index] = await self._submit_alone(block.parse()[index])
        return block.check_receipts(self._party, answers)

    async def _deliver_block(self, block: Block) -> list[Signed | ShuffleDPError]:
        return await self._open_stream().answers(block.parse())

    async def _submit_alone(self, request: node_pb2.SubmitWholeRequest) -> Signed | ShuffleDPError:
        header = request.header
        try:
            return await with_retries(
                lambda: self.deliver(
                    header.round_id,
                    Signed.from_bytes(header.credential),
                    Signed.from_bytes(header.claim),
                    request.envelope,
                ),
                self._backoff,
            )
        except ShuffleDPError as error:
            return error

    def _open_stream(self) -> _Stream:
        if self._stream is None or self._stream.is_ended:
            self._stream = _Stream(
                node_pb2_grpc.NodeStub(self._channel).SubmitMany(), self._party.name
            )
        return self._stream

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._stream is not None:
            await self._stream.close()
        await super().__aexit__(kind, error, trace)


@dataclass(eq=False)
class _PendingSubmissions:
    """Submissions that are answered together, and the future for their answers."""

    submissions: Sequence[node_pb2.SubmitWholeRequest]
    settled: asyncio.Future[list[Signed | ShuffleDPError]]
    answers: list[Signed | ShuffleDPError] = field(default_factory=list)
    length: int = 0

    def take(self, answer: node_pb2.SubmissionAnswer) -> bool:
        """Store the next answer; return True after the last one."""
        try:
            self.answers.append(_receipt(answer))
        except ShuffleDPError as error:
            self.answers.append(error)
        if len(self.answers) < len(self.submissions):
            return False
        if not self.settled.done():  # the caller may have gone
            self.settled.set_result(self.answers)
        return True

    def fail(self, error: ShuffleDPError) -> None:
        """Give all submissions without an answer the error that ended the stream."""
        if not self.settled.done():
            self.settled.set_exception(error)
            self.settled.exception()  # the caller may have gone: then no one awaits it


class _Stream:
    """A single stream, whose answers arrive in the order of its submissions.

    Submissions that wait at the same time are sent in one message.
    """

    def __init__(self, call: _Call, party: str) -> None:
        self._call = call
        self._party = party
        self._unsent: deque[_PendingSubmissions] = deque()
        self._waiting: deque[_PendingSubmissions] = deque()
        self._more = asyncio.Event()
        self._end: ShuffleDPError | None = None
        self._writing = asyncio.create_task(self._write())
        self._reading = asyncio.create_task(self._read_answers())

    @property
    def is_ended(self) -> bool:
        """True if the stream accepts no more submissions."""
        return self._end is not None

    async def answers(
        self, submissions: Sequence[node_pb2.SubmitWholeRequest]
    ) -> list[Signed | ShuffleDPError]:
        """Send submissions in one message; return the receipt or the refusal of each.

        They fit into one message. Raises what ended the stream.
        """
        settled: asyncio.Future[list[Signed | ShuffleDPError]]
        settled = asyncio.get_running_loop().create_future()
        length = sum(submission.ByteSize() for submission in submissions)
        self._unsent.append(_PendingSubmissions(submissions, settled, length=length))
        self._more.set()
        try:
            async with asyncio.timeout(CALL_SECONDS):
                return await settled
        except TimeoutError as error:
            self._call.cancel()  # what stands behind it in the line would wait as long
            raise UnreachableError(
                f"{self._party} did not answer within {CALL_SECONDS:g} s"
            ) from error

    async def close(self) -> None:
        """End the stream; submissions without an answer are abandoned."""
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    async def _write(self) -> None:
        """Send queued submissions until cancelled.

        A task of its own: a caller that is cancelled then leaves no message half written.
        """
        while True:
            await self._more.wait()
            self._more.clear()
            while message := self._message():
                try:
                    await self._call.write(message)
                except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
                    # The stream has ended. Why is read, behind the answers that came before; who
                    # waits hears it then.
                    return

    def _message(self) -> node_pb2.SubmitManyRequest | None:
        """The next submissions that fit into a message.

        Their answers are waited for from here on.
        """
        group: list[node_pb2.SubmitWholeRequest] = []
        length = 0
        while self._unsent:
            pending = self._unsent[0]
            length += pending.length
            if group and length > WHOLE_BYTES:
                break
            self._unsent.popleft()
            if not pending.settled.done():  # the caller may have gone
                group += pending.submissions
                self._waiting.append(pending)
        return node_pb2.SubmitManyRequest(submissions=group) if group else None

    async def _read_answers(self) -> None:
        end: ShuffleDPError = UnreachableError(
            f"{self._party} ended the stream without an answer; send it again"
        )
        try:
            async for response in self._call:
                for answer in require_readable(response, self._party).answers:
                    self._settle(answer)
        except grpc.aio.AioRpcError as error:
            end = error_of_call(error, self._party)
        except ShuffleDPError as error:
            end = error
        except asyncio.CancelledError:
            end = UnreachableError(
                f"the stream to {self._party} was closed before it was answered; send again"
            )
            raise
        finally:
            self._end = end
            self._call.cancel()
            self._writing.cancel()
            for pending in (*self._waiting, *self._unsent):
                pending.fail(end)

    def _settle(self, answer: node_pb2.SubmissionAnswer) -> None:
        if not self._waiting:
            raise NodeFault(f"{self._party} sent more answers than there were submissions")
        if self._waiting[0].take(answer):
            self._waiting.popleft()


def _receipt(answer: node_pb2.SubmissionAnswer) -> Signed:
    if answer.WhichOneof("answer") == "refusal":
        raise by_code(answer.refusal.error)(answer.refusal.reason or "no details")
    return Signed.from_bytes(answer.receipt)
