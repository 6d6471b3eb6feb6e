"""The client's calls: announcements from the broker or the analyst, submissions, results, boards.

Only `UnreachableError` is retried; a party's own refusal is final. Submitting is idempotent, so a
lost answer costs nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterator,
)
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Final, Protocol, Self, TypeVar

import grpc
import structlog

from shuffledp_client.blocks import submission_header
from shuffledp_client.submission import PreparedSubmission, check_receipt
from shuffledp_client.verification import CheckedRound
from shuffledp_core.documents.models import Party, Roster
from shuffledp_core.documents.signed import Signed
from shuffledp_core.errors import BrokerError, ShuffleDPError, UnreachableError
from shuffledp_core.runtime.config import BrokerConfig
from shuffledp_core.sampling.randomness import RandomIntegers
from shuffledp_core.transport.announce import listening, manifest_topic
from shuffledp_core.transport.chunks import WHOLE_BYTES, Offsets, chunks
from shuffledp_core.transport.requests import require_readable
from shuffledp_core.transport.rpc_errors import translate_errors
from shuffledp_core.transport.tls import channel_to
from shuffledp_proto.v1 import analyst_pb2, analyst_pb2_grpc, batch_pb2, node_pb2, node_pb2_grpc

CALL_SECONDS: Final = 60.0
"""Deadline of one call: an envelope of a few mebibytes over a slow line, and the node's disk."""

BOARD_SECONDS: Final = 1800.0
"""Deadline of a whole board: 10^8 messages of 17 bytes over 10 Mbit/s take 23 minutes."""

_JITTER_STEPS: Final = 2**16

T = TypeVar("T")

PieceT = TypeVar("PieceT", analyst_pb2.GetBoardResponse, analyst_pb2.GetHistoryResponse)


@dataclass(frozen=True)
class Backoff:
    """Exponential backoff with jitter, for a limited number of attempts.

    `attempts` in all; limits double from `first` to `longest` seconds.

    Each pause is drawn uniformly from half of its limit to all of it: devices that lost the same
    node come back spread, and a node that is back within half of all limits, 15 seconds, is found
    by every one of them. A server's retry-after delay, capped at `patience`, is added to
    each pause.

    No attempt begins later than `within` seconds after the first one failed. So a call that may
    take s seconds ends within 2 s + `within`, retries and all: twelve minutes by default, for a
    board 70. The first failure counts and not the close of the round: an entry node gives the
    receipt of what it accepted after that, too.
    """

    attempts: int = 8
    first: float = 0.25
    longest: float = 15.0
    patience: float = 60.0
    within: float = 600.0

    def pauses(self, integers: RandomIntegers) -> Iterator[float]:
        """Seconds to wait before each attempt except the first."""
        for attempt in range(self.attempts - 1):
            share = (_JITTER_STEPS + integers.below(_JITTER_STEPS)) / (2 * _JITTER_STEPS)
            yield min(self.first * 2**attempt, self.longest) * share


async def with_retries(call: Callable[[], Awaitable[T]], backoff: Backoff) -> T:
    """Make a call, and repeat it while the party is unreachable.

    Raises the last `UnreachableError`.
    """
    pauses: Iterator[float] | None = None
    until = 0.0
    while True:
        try:
            return await call()
        except UnreachableError as error:
            if pauses is None:  # not before: nearly every call needs none
                pauses = backoff.pauses(RandomIntegers())
                until = monotonic() + backoff.within
            pause = next(pauses, None)
            if pause is None:
                raise
            pause += min(error.wait_seconds, backoff.patience)
            if monotonic() + pause > until:
                raise
            structlog.get_logger().info(
                "call failed; retrying", seconds=round(pause, 2), reason=str(error)
            )
            await asyncio.sleep(pause)


@dataclass(frozen=True)
class RoundEnd:
    """The signed result of a round and related documents, all unverified.

    Attributes:
        result: the analyst's.
        discards: the discards that nodes have signed so far.
        log: the proof that the result is in the public log; None without one.
    """

    result: Signed
    discards: tuple[Signed, ...] = ()
    log: bytes | None = None


class _Caller:
    """A channel to one party. Use as an async context manager.

    `own_connection`: shared with no other channel.
    """

    def __init__(
        self,
        party: Party,
        keys: Path,
        roster: Roster,
        backoff: Backoff | None = None,
        *,
        own_connection: bool = False,
    ) -> None:
        self._party = party
        self._channel: grpc.aio.Channel = channel_to(
            party, keys, roster, own_connection=own_connection
        )
        self._backoff = backoff or Backoff()

    async def ready(self) -> None:
        """Wait until the connection is established, so that no later call waits for it.

        Raises `UnreachableError`.
        """
        try:
            async with asyncio.timeout(CALL_SECONDS):
                await self._channel.channel_ready()
        except TimeoutError as error:
            raise UnreachableError(
                f"cannot connect to {self._party.name} at {self._party.address}"
            ) from error

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._channel.close()


class EntryNode(_Caller):
    """A channel to the entry node, for any number of submissions at once."""

    _offers_whole = True

    async def submit(self, prepared: PreparedSubmission) -> Signed:
        """Send a submission, with retries, and return the checked receipt.

        Raises:
            UnreachableError: no attempt was answered.
            ShuffleDPError: whatever the node refused it with.
            DocumentError: the receipt is not this submission's.
        """
        receipt = await with_retries(lambda: self._send(prepared), self._backoff)
        check_receipt(prepared, self._party, receipt)
        return receipt

    async def _send(self, prepared: PreparedSubmission) -> Signed:
        return await self.deliver(
            prepared.round_id, prepared.credential, prepared.claim, prepared.envelope
        )

    async def deliver(
        self, round_id: str, credential: Signed, claim: Signed, envelope: bytes
    ) -> Signed:
        """Send a sealed submission once; return the unverified receipt.

        Errors as `submit`, but for the receipt's.
        """
        stub, party = node_pb2_grpc.NodeStub(self._channel), self._party.name
        header = submission_header(round_id, credential, claim)
        request = node_pb2.SubmitWholeRequest(header=header, envelope=envelope)
        async with translate_errors(party):
            if self._offers_whole and request.ByteSize() <= WHOLE_BYTES:
                try:
                    receipt = require_readable(
                        await stub.SubmitWhole(request, timeout=CALL_SECONDS), party
                    ).receipt
                    return Signed.from_bytes(receipt)
                except grpc.aio.AioRpcError as error:
                    if error.code() is not grpc.StatusCode.UNIMPLEMENTED:
                        raise
                    # A node of an earlier release: it takes the same submission as a stream, and is
                    # not asked again.
                    self._offers_whole = False
            pieces = _requests(header, envelope)
            receipt = require_readable(
                await stub.Submit(pieces, timeout=CALL_SECONDS), party
            ).receipt
        return Signed.from_bytes(receipt)


async def _requests(
    header: node_pb2.SubmissionHeader, envelope: bytes
) -> AsyncIterator[node_pb2.SubmitRequest]:
    yield node_pb2.SubmitRequest(header=header)
    for offset, data in chunks(envelope):
        yield node_pb2.SubmitRequest(chunk=batch_pb2.Chunk(offset=offset, data=data))


class AnalystReader(_Caller):
    """Reads the documents that the analyst publishes, without verifying them."""

    @classmethod
    def of(cls, keys: Path, roster: Roster, backoff: Backoff | None = None) -> Self:
        """A reader for the analyst in the roster."""
        return cls(roster.analyst, keys, roster, backoff)

    @property
    def _stub(self) -> analyst_pb2_grpc.AnalystAsyncStub:
        return analyst_pb2_grpc.AnalystStub(self._channel)

    async def announcement(self, round_id: str | None = None) -> bytes:
        """The announcement of this round, or of the newest open one. Raises `UnknownRoundError`."""
        request = analyst_pb2.GetManifestRequest(round_id=round_id or "")

        async def call() -> bytes:
            async with translate_errors(self._party.name):
                answer = await self._stub.GetManifest(request, timeout=CALL_SECONDS)
            return require_readable(answer, self._party.name).announcement

        return await with_retries(call, self._backoff)

    async def result(self, round_id: str) -> Signed:
        """The signed result. Raises `UnknownRoundError` until the round has ended."""
        return (await self.ending(round_id)).result

    async def ending(self, round_id: str) -> RoundEnd:
        """The signed result with related documents. Errors as `result`."""
        request = analyst_pb2.GetResultRequest(round_id=round_id)

        async def call() -> analyst_pb2.GetResultResponse:
            async with translate_errors(self._party.name):
                answer = await self._stub.GetResult(request, timeout=CALL_SECONDS)
            return require_readable(answer, self._party.name)

        answer = await with_retries(call, self._backoff)
        return RoundEnd(
            Signed.from_bytes(answer.result),
            tuple(Signed.from_bytes(discard) for discard in answer.discards),
            answer.log_proof or None,
        )

    async def board(self, round_id: str, length: int) -> bytes:
        """The published board of `length` bytes.

        Raises `BadBatchError` if another length arrives.
        """
        return await self._collect(lambda: self.pieces(round_id), length)

    async def tile(self, round_id: str, index: int) -> bytes:
        """A tile of the published board. Raises `UnknownRoundError` if there is none."""
        request = analyst_pb2.GetTileRequest(round_id=round_id, index=index)

        async def call() -> bytes:
            async with translate_errors(self._party.name):
                answer = await self._stub.GetTile(request, timeout=CALL_SECONDS)
            return require_readable(answer, self._party.name).tile

        return await with_retries(call, self._backoff)

    async def history(self, round_id: str, length: int) -> bytes:
        """The history of a verified round, of `length` bytes.

        Raises `BadBatchError` if another length arrives.
        """
        request = analyst_pb2.GetHistoryRequest(round_id=round_id)
        return await self._collect(
            lambda: self._pieces(self._stub.GetHistory(request, timeout=BOARD_SECONDS)), length
        )

    async def _collect(
        self, stream: Callable[[], AsyncIterable[tuple[int, bytes]]], length: int
    ) -> bytes:
        async def call() -> bytes:
            # Anew for each attempt; more than the announced length is refused as it comes, before
            # it fills the memory.
            offsets = Offsets(length)
            pieces = list[bytes]()
            async for offset, data in stream():
                offsets.accept(offset, len(data))
                pieces.append(data)
            offsets.finish()
            return b"".join(pieces)

        return await with_retries(call, self._backoff)

    def pieces(self, round_id: str) -> AsyncGenerator[tuple[int, bytes], None]:
        """The published board in pieces with offsets, without retries."""
        request = analyst_pb2.GetBoardRequest(round_id=round_id)
        return self._pieces(self._stub.GetBoard(request, timeout=BOARD_SECONDS))

    async def _pieces(
        self, answers: AsyncIterable[PieceT]
    ) -> AsyncGenerator[tuple[int, bytes], None]:
        async with translate_errors(self._party.name):
            async for answer in answers:
                piece = require_readable(answer, self._party.name)
                yield piece.offset, piece.data


class Announcing(Protocol):
    """A source of the analyst's announcements, such as `AnalystReader`."""

    async def announcement(self, round_id: str | None = None) -> bytes:
        """The announcement of a round; see `AnalystReader.announcement`."""
        ...


async def listen_for_announcements(
    broker: BrokerConfig, deployment: str, round_id: str | None, seconds: float
) -> AsyncGenerator[bytes, None]:
    """Announcements that the broker retains for this round (None: any), for `seconds`.

    Ends early if the broker is unreachable.

    The broker is untrusted: these are candidates to verify, and their absence means nothing.
    """
    clock = asyncio.get_running_loop().time
    deadline = clock() + seconds
    topic = manifest_topic(deployment, round_id or "+")
    try:
        async with AsyncExitStack() as stack:
            async with asyncio.timeout_at(deadline):
                payloads = await stack.enter_async_context(listening(broker, topic))
            while clock() < deadline:  # a flood may never let the time-out have its turn
                async with asyncio.timeout_at(
                    deadline
                ):  # never around the yield: it is not our task that runs there
                    payload = await anext(payloads)
                yield payload
    except (TimeoutError, BrokerError, StopAsyncIteration) as error:
        structlog.get_logger().debug(
            "connection to the broker ended", host=broker.host, reason=type(error).__name__
        )


async def find_round(
    roster: Roster,
    keys: Path,
    broker: BrokerConfig | None,
    verified: Callable[[bytes], CheckedRound],
    *,
    round_id: str | None = None,
    broker_seconds: float = 3.0,
    backoff: Backoff | None = None,
    reader: Callable[[], AbstractAsyncContextManager[Announcing]] | None = None,
) -> CheckedRound:
    """Find and verify this round, or one that is open now.

    The broker is asked first; announcements that do not verify are skipped, because anyone may have
    published them there. The analyst's answer decides, and its errors are raised.

    Args:
        roster: roster of the deployment.
        keys: folder with the caller's TLS key.
        broker: None: only the analyst is asked.
        verified: parses and verifies announcement bytes, or raises.
        round_id: None accepts any open round.
        broker_seconds: how long to wait for the broker.
        backoff: how often and how long calls to the analyst are repeated.
        reader: how to read from the analyst; None for a gRPC channel to it.
    """
    if broker is not None:
        async with aclosing(
            listen_for_announcements(broker, roster.deployment, round_id, broker_seconds)
        ) as candidates:
            async for candidate in candidates:
                try:
                    return verified(candidate)
                except ShuffleDPError as error:
                    structlog.get_logger().info("announcement skipped", reason=str(error))
    async with AnalystReader.of(keys, roster, backoff) if reader is None else reader() as analyst:
        return verified(await analyst.announcement(round_id))
