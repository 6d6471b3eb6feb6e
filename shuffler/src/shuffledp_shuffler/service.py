"""gRPC services of a mix node, which only translate between messages and `MixNode` calls."""

# ruff: noqa: ARG002, N802 - gRPC names the methods and hands every one a context

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from itertools import groupby
from typing import Any, Final

import grpc
import structlog

from shuffledp_core.documents.signed import Signed
from shuffledp_core.errors import (
    DiskError,
    InvalidSubmissionError,
    MalformedRequestError,
)
from shuffledp_core.runtime.tasks import finish_if_cancelled
from shuffledp_core.transport.chunks import WHOLE_BYTES, chunks
from shuffledp_core.transport.receiving import batch_chunks, read_header
from shuffledp_core.transport.rpc_errors import Rules
from shuffledp_core.transport.tls import CLIENT, peer_name
from shuffledp_core.vocabulary import Role
from shuffledp_proto.v1 import batch_pb2, batch_pb2_grpc, node_pb2, node_pb2_grpc
from shuffledp_shuffler.gateways import Answer, Begun, Gateways
from shuffledp_shuffler.intake import WholeSubmission
from shuffledp_shuffler.live import RoundSnapshot
from shuffledp_shuffler.node import MixNode
from shuffledp_shuffler.round_state import Phase

Context = grpc.aio.ServicerContext[Any, Any]

_ANALYST: Final = frozenset({Role.ANALYST})

_SUBMIT_MANY: Final = "/shuffledp_proto.v1.Node/SubmitMany"

RULES: Final[Rules] = {
    "/shuffledp_proto.v1.Node/PrepareRound": _ANALYST,
    "/shuffledp_proto.v1.Node/SetManifest": _ANALYST,
    "/shuffledp_proto.v1.Node/Submit": frozenset({CLIENT}),
    "/shuffledp_proto.v1.Node/SubmitWhole": frozenset({CLIENT}),
    _SUBMIT_MANY: frozenset({CLIENT}),
    "/shuffledp_proto.v1.Node/CloseRound": _ANALYST,
    "/shuffledp_proto.v1.Node/DeleteRound": _ANALYST,
    "/shuffledp_proto.v1.Node/WatchRound": _ANALYST,
    "/shuffledp_proto.v1.Node/GetDummies": _ANALYST,
    "/shuffledp_proto.v1.Node/SetDummies": _ANALYST,
    "/shuffledp_proto.v1.Node/GetAccusation": _ANALYST,
    "/shuffledp_proto.v1.Node/Answer": _ANALYST,
    "/shuffledp_proto.v1.Node/SettleAccusation": _ANALYST,
    "/shuffledp_proto.v1.BatchSink/AddBatch": frozenset({Role.NODE}),
}
"""Roles that may call each method."""

NAMES: Final = ("shuffledp_proto.v1.Node", "shuffledp_proto.v1.BatchSink")
"""Full service names, for reflection."""

_PHASES: Final = {
    Phase.PREPARED: node_pb2.ROUND_PHASE_PREPARED,
    Phase.OPEN: node_pb2.ROUND_PHASE_OPEN,
    Phase.MIXING: node_pb2.ROUND_PHASE_MIXING,
    Phase.RELAYING: node_pb2.ROUND_PHASE_RELAYING,
    Phase.DONE: node_pb2.ROUND_PHASE_DONE,
    Phase.FAILED: node_pb2.ROUND_PHASE_FAILED,
}


@contextmanager
def _disk_faults() -> Iterator[None]:
    """Context that raises disk failures as `DiskError`."""
    try:
        yield
    except OSError as error:
        structlog.get_logger().error("disk failure in the state folder", reason=str(error))
        raise DiskError(
            f"the disk of this node failed ({error.strerror}); try again later"
        ) from error


class NodeServicer(node_pb2_grpc.NodeServicer):
    """The service that the analyst and the clients call."""

    def __init__(self, node: MixNode, refused: Callable[[str, Exception], None]) -> None:
        """`refused` is called with the method and error of each submission refused in a stream."""
        self._node = node
        self._refused = refused
        self._gateways = Gateways(self._begin)

    async def PrepareRound(
        self, request: node_pb2.PrepareRoundRequest, context: Context
    ) -> node_pb2.PrepareRoundResponse:
        """Check a round's certificate, and return a new key pair's signed key; see node.proto."""
        with _disk_faults():
            key = await self._node.prepare(
                request.certificate, request.position, request.suite, tuple(request.route)
            )
        return node_pb2.PrepareRoundResponse(round_key=key.to_bytes())

    async def SetManifest(
        self, request: node_pb2.SetManifestRequest, context: Context
    ) -> node_pb2.SetManifestResponse:
        """Check a manifest against the prepared key, and countersign it; see node.proto."""
        with _disk_faults():
            countersignature = await self._node.set_manifest(request.manifest)
        return node_pb2.SetManifestResponse(countersignature=countersignature.to_bytes())

    async def Submit(
        self, request_iterator: AsyncIterator[node_pb2.SubmitRequest], context: Context
    ) -> node_pb2.SubmitResponse:
        """Take one submission in chunks, and return the signed receipt; see node.proto."""
        first = await anext(aiter(request_iterator), None)
        if first is None or first.WhichOneof("part") != "header":
            raise InvalidSubmissionError("a submission must begin with its header")
        header = first.header
        with _disk_faults():
            receipt = await self._node.submit(
                header.round_id, header.credential, header.claim, _envelope(request_iterator)
            )
        return node_pb2.SubmitResponse(receipt=receipt.to_bytes())

    async def SubmitWhole(
        self, request: node_pb2.SubmitWholeRequest, context: Context
    ) -> node_pb2.SubmitWholeResponse:
        """Take one submission in one message, and return the signed receipt; see node.proto."""
        _require_short(request.ByteSize())
        header = request.header
        with _disk_faults():
            # Not cancelled with its caller: it stays counted until its checks have ended.
            receipt = await finish_if_cancelled(
                self._node.submit(
                    header.round_id, header.credential, header.claim, request.envelope
                )
            )
        return node_pb2.SubmitWholeResponse(receipt=receipt.to_bytes())

    async def SubmitMany(
        self, request_iterator: AsyncIterator[node_pb2.SubmitManyRequest], context: Context
    ) -> AsyncIterator[node_pb2.SubmitManyResponse]:
        """Take the submissions of many devices over one stream; see node.proto."""
        with _disk_faults():
            async with aclosing(self._gateways.answers(_submissions(request_iterator))) as groups:
                async for group in groups:
                    yield node_pb2.SubmitManyResponse(
                        answers=[self._answer_message(answer) for answer in group]
                    )

    def _begin(self, requests: Sequence[node_pb2.SubmitWholeRequest]) -> Begun:
        """Begin to check the submissions of one message of a stream."""
        parts = [
            self._begin_some(round_id, fits=fits, requests=list(group))
            for (round_id, fits), group in groupby(
                requests,
                key=lambda request: (request.header.round_id, request.ByteSize() <= WHOLE_BYTES),
            )
        ]

        async def outcomes() -> list[Signed | Exception]:
            return [outcome for part in parts for outcome in await part]

        return parts[0] if len(parts) == 1 else asyncio.ensure_future(outcomes())

    def _begin_some(
        self, round_id: str, *, fits: bool, requests: list[node_pb2.SubmitWholeRequest]
    ) -> Begun:
        if not fits:
            refused = asyncio.get_running_loop().create_future()
            refused.set_result([_too_long(request.ByteSize()) for request in requests])
            return refused
        submissions = [
            WholeSubmission(request.header.credential, request.header.claim, request.envelope)
            for request in requests
        ]
        return self._node.submit_all(round_id, submissions)

    def _answer_message(self, answer: Answer) -> node_pb2.SubmissionAnswer:
        if isinstance(answer, Signed):
            return node_pb2.SubmissionAnswer(receipt=answer.to_bytes())
        self._refused(_SUBMIT_MANY, answer)
        refusal = node_pb2.Refusal(error=type(answer).__name__, reason=str(answer))
        return node_pb2.SubmissionAnswer(refusal=refusal)

    async def CloseRound(
        self, request: node_pb2.CloseRoundRequest, context: Context
    ) -> node_pb2.CloseRoundResponse:
        """Close submissions, then mix and relay them if there are enough; see node.proto."""
        with _disk_faults():
            accepted = await self._node.close_round(request.round_id)
        return node_pb2.CloseRoundResponse(accepted=accepted)

    async def DeleteRound(
        self, request: node_pb2.DeleteRoundRequest, context: Context
    ) -> node_pb2.DeleteRoundResponse:
        """Erase a round's key and data, and return a signed discard; see node.proto."""
        with _disk_faults():
            discard = await self._node.delete(request.round_id)
        return node_pb2.DeleteRoundResponse(discard=discard.to_bytes())

    async def WatchRound(
        self, request: node_pb2.WatchRoundRequest, context: Context
    ) -> AsyncIterator[node_pb2.WatchRoundResponse]:
        """Stream a round's status, now and at every change, until it ends; see node.proto."""
        async with aclosing(self._node.watch(request.round_id)) as snapshots:
            async for snapshot in snapshots:
                yield _status(snapshot)

    async def GetDummies(
        self, request: node_pb2.GetDummiesRequest, context: Context
    ) -> AsyncIterator[node_pb2.GetDummiesResponse]:
        """Return this node's claim and dummies, sealed for the entry node; see node.proto."""
        with _disk_faults():
            data = await self._node.dummies(request.round_id)
        for offset, piece in chunks(data):
            yield node_pb2.GetDummiesResponse(chunk=batch_pb2.Chunk(offset=offset, data=piece))

    async def SetDummies(
        self, request_iterator: AsyncIterator[node_pb2.SetDummiesRequest], context: Context
    ) -> node_pb2.SetDummiesResponse:
        """Take another node's claim and dummies at the entry node; see node.proto."""
        first = await anext(aiter(request_iterator), None)
        with _disk_faults():
            await self._node.set_dummies(_read_round_id(first), _pieces(request_iterator))
        return node_pb2.SetDummiesResponse()

    async def GetAccusation(
        self, request: node_pb2.GetAccusationRequest, context: Context
    ) -> AsyncIterator[node_pb2.GetAccusationResponse]:
        """Return the input records that do not decrypt at this node; see node.proto."""
        with _disk_faults():
            data = await self._node.accusation(request.round_id)
        for offset, piece in chunks(data):
            yield node_pb2.GetAccusationResponse(chunk=batch_pb2.Chunk(offset=offset, data=piece))

    async def Answer(
        self, request_iterator: AsyncIterator[node_pb2.AnswerRequest], context: Context
    ) -> AsyncIterator[node_pb2.AnswerResponse]:
        """Answer another node's accusation with traces and passages; see node.proto."""
        first = await anext(aiter(request_iterator), None)
        with _disk_faults():
            data = await self._node.answer(_read_round_id(first), _pieces(request_iterator))
        for offset, piece in chunks(data):
            yield node_pb2.AnswerResponse(chunk=batch_pb2.Chunk(offset=offset, data=piece))

    async def SettleAccusation(
        self, request_iterator: AsyncIterator[node_pb2.SettleAccusationRequest], context: Context
    ) -> node_pb2.SettleAccusationResponse:
        """End this node's accusation by the transcript of all answers; see node.proto."""
        first = await anext(aiter(request_iterator), None)
        await self._node.settle_accusation(_read_round_id(first), _pieces(request_iterator))
        return node_pb2.SettleAccusationResponse()


class BatchSinkServicer(batch_pb2_grpc.BatchSinkServicer):
    """The service that the predecessor on the route calls."""

    def __init__(self, node: MixNode) -> None:
        self._node = node

    async def AddBatch(
        self, request_iterator: AsyncIterator[batch_pb2.AddBatchRequest], context: Context
    ) -> batch_pb2.AddBatchResponse:
        """Receive a batch in chunks; answer when it is verified and on disk; see batch.proto."""
        header = await read_header(request_iterator)
        with _disk_faults():
            await self._node.add_batch(header, peer_name(context), batch_chunks(request_iterator))
        return batch_pb2.AddBatchResponse()


async def _envelope(
    requests: AsyncIterator[node_pb2.SubmitRequest],
) -> AsyncIterator[tuple[int, bytes]]:
    async for request in requests:
        if request.WhichOneof("part") != "chunk":
            raise InvalidSubmissionError("only chunks may follow a submission's header")
        yield request.chunk.offset, request.chunk.data


async def _submissions(
    messages: AsyncIterator[node_pb2.SubmitManyRequest],
) -> AsyncIterator[Sequence[node_pb2.SubmitWholeRequest]]:
    async for message in messages:
        if not message.submissions:
            raise MalformedRequestError(
                "a message on the stream contains no submission; send at least one in each"
            )
        yield message.submissions


def _require_short(length: int) -> None:
    if length > WHOLE_BYTES:
        raise _too_long(length)


def _too_long(length: int) -> InvalidSubmissionError:
    return InvalidSubmissionError(
        f"a submission of {length} bytes came in one message, which may carry at most "
        f"{WHOLE_BYTES}; stream it in chunks"
    )


_Asking = node_pb2.AnswerRequest | node_pb2.SettleAccusationRequest | node_pb2.SetDummiesRequest


def _read_round_id(first: _Asking | None) -> str:
    if first is None or first.WhichOneof("part") != "round_id":
        raise MalformedRequestError("the call must begin with the id of its round")
    return first.round_id


async def _pieces(requests: AsyncIterator[_Asking]) -> AsyncIterator[tuple[int, bytes]]:
    async for request in requests:
        if request.WhichOneof("part") != "chunk":
            raise MalformedRequestError("only chunks may follow the round id of this call")
        yield request.chunk.offset, request.chunk.data


def _status(snapshot: RoundSnapshot) -> node_pb2.WatchRoundResponse:
    record = snapshot.record
    # Shown only then: the final certificate rests on it, and until the next hop has the batch the
    # round may fail.
    relayed = record.outgoing if record.phase is Phase.DONE else None
    return node_pb2.WatchRoundResponse(
        phase=_PHASES[record.phase],
        accepted=snapshot.accepted,
        done=snapshot.done,
        total=snapshot.total,
        mixing_seconds=record.mixing_seconds,
        relaying_seconds=record.relaying_seconds,
        error=record.error or "",
        reason=record.reason or "",
        header=b"" if relayed is None else relayed.to_bytes(),
        corrupt=record.own_key().corrupt,
        accused=snapshot.accused,
    )
