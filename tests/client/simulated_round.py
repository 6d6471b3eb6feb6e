"""A whole round behind real gRPC over mutual TLS: an entry node and an analyst, with core's own
checks.

It opens envelopes with every node's key at once, so it is no mix; all that a client can see of one
is the same. What it can do wrong, on demand: lose answers, be away, publish a board with messages
changed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import grpc
from client_rounds import POPULATION, ROUND_ID, Draft, peel_all, settled

from shuffledp_core.documents.digests import digest
from shuffledp_core.documents.models import Discard, Receipt, Result
from shuffledp_core.documents.signed import Signed, to_json
from shuffledp_core.documents.submission import check_submission
from shuffledp_core.errors import (
    DifferentSubmissionError,
    ShuffleDPError,
    UnknownRoundError,
    UnreachableError,
)
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.runtime.config import ServiceConfig
from shuffledp_core.transparency.board_tiles import TiledBoard
from shuffledp_core.transport.chunks import Offsets, chunks
from shuffledp_core.transport.service import Service
from shuffledp_core.transport.tls import CLIENT
from shuffledp_proto.v1 import analyst_pb2, analyst_pb2_grpc, node_pb2, node_pb2_grpc

RULES = {
    f"/shuffledp_proto.v1.{method}": frozenset({CLIENT})
    for method in (
        "Node/Submit",
        "Node/SubmitWhole",
        "Node/SubmitMany",
        "Analyst/GetManifest",
        "Analyst/GetResult",
        "Analyst/GetBoard",
        "Analyst/GetTile",
    )
}


@dataclass
class SimulatedRound:
    """One round of a `Draft`. Use as an async context manager; `end` publishes."""

    draft: Draft
    state: Path
    lost_answers: int = 0
    """So many submissions are stored, but their receipt never arrives."""
    calls: int = 0
    broken_after: int | None = None
    """The first long stream ends in the middle: so many of its submissions are answered, and one
    more is stored.
    """
    times: int = 1
    """So often each submission of a long stream is answered."""
    gateways: int = 0
    """Long streams that were opened."""
    opened: asyncio.Event = field(default_factory=asyncio.Event)
    streams: int = 0
    """Of these calls, those that came in chunks."""
    accepted: dict[str, bytes] = field(default_factory=dict)
    stored: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once there is one."""
    result: Signed | None = None
    discards: tuple[Signed, ...] = ()
    board: bytes = b""
    boards: int = 0
    """How often it was asked for."""
    offers_whole: bool = True
    """False: an entry node that does not know the call `SubmitWhole`."""
    unimplemented: int = 0
    """How often it was asked all the same."""
    piece: int = 100
    """Bytes of the board that are sent at a time."""
    announcement: bytes = b""
    asked_tiles: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.announcement = to_json(self.draft.announcement())
        self.services: list[Service] = []

    def _service(self, name: str, register: Callable[[grpc.aio.Server], None]) -> Service:
        deployment = self.draft.deployment
        config = ServiceConfig(
            name=name,
            keys=deployment.keys_of(name),
            roster=deployment.roster_file,
            root_key=deployment.root_key,
            listen=deployment.roster.party(name).address,
            state=self.state,
        )
        return Service(config, deployment.roster, RULES, [], register)

    def _register_entry(self, server: grpc.aio.Server) -> None:
        node_pb2_grpc.add_NodeServicer_to_server(_Entry(self), server)  # type: ignore[abstract] # the rest is refused

    def _register_analyst(self, server: grpc.aio.Server) -> None:
        analyst_pb2_grpc.add_AnalystServicer_to_server(_Analyst(self), server)

    async def __aenter__(self) -> Self:
        self.services = [
            self._service("node-1", self._register_entry),
            self._service("analyst", self._register_analyst),
        ]
        for service in self.services:
            await service.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for service in self.services:
            await service.stop()

    def end(self, change: Callable[[list[bytes]], list[bytes]] = lambda rows: rows) -> None:
        """Publishes everybody's messages in random order, changed on the way if asked to."""
        width = 17
        plain = b"".join(peel_all(self.draft, envelope) for envelope in self.accepted.values())
        rows = change([plain[start : start + width] for start in range(0, len(plain), width)])
        random.shuffle(rows)
        self.board = b"".join(rows)
        root = self.tiles().root.hex()
        self.publish(**settled(self.draft, self.board, len(self.accepted)), tiles_root=root)

    def tiles(self) -> TiledBoard:
        """The board in tiles."""
        draft = self.draft
        return TiledBoard.of(
            self.board, Geometry.of(draft.mechanism, draft.suite, len(draft.route))
        )

    def publish(self, **fields: Any) -> None:
        """Signs a result with these fields."""
        deployment = self.draft.deployment.roster.deployment
        self.result = self.draft.signed_by(
            "analyst", Result(deployment=deployment, round_id=ROUND_ID, **fields)
        )

    def fail(self, words: str = "") -> None:
        """The analyst says that the round failed.

        Node by node, "k" signed that it kept all, "f" that it forwarded.
        """
        self.publish(
            outcome="failed", error="TooFewReportsError", reason="1 report, 100 are needed"
        )
        self.discards = tuple(
            self.draft.signed_by(node, Discard(round_id=ROUND_ID, node=node, forwarded=word == "f"))
            for node, word in zip(self.draft.route, words, strict=False)
        )

    def accept(self, header: node_pb2.SubmissionHeader, envelope: bytes) -> Signed:
        """What the entry node does with a submission that arrived whole."""
        credential, claim = Signed.from_bytes(header.credential), Signed.from_bytes(header.claim)
        enrolment = bytes.fromhex(self.draft.deployment.roster.population(POPULATION).enrolment_key)
        who = check_submission(header.round_id, POPULATION, enrolment, credential, claim, envelope)
        if self.accepted.setdefault(who, envelope) != envelope:
            raise DifferentSubmissionError(
                "another submission of this credential was accepted before"
            )
        self.stored.set()
        if self.calls <= self.lost_answers:
            raise UnreachableError("the answer is lost")
        receipt = Receipt(round_id=ROUND_ID, credential=who, submission_digest=digest(envelope))
        return self.draft.signed_by("node-1", receipt)


class _Entry(node_pb2_grpc.NodeServicer):
    def __init__(self, simulated: SimulatedRound) -> None:
        self._round = simulated

    async def Submit(  # noqa: N802
        self, requests: AsyncIterator[node_pb2.SubmitRequest], _: Any
    ) -> node_pb2.SubmitResponse:
        self._round.calls += 1
        self._round.streams += 1
        parts = [part async for part in requests]
        header, pieces = parts[0].header, [part.chunk for part in parts[1:]]
        offsets = Offsets(sum(len(piece.data) for piece in pieces))
        for piece in pieces:
            offsets.accept(piece.offset, len(piece.data))
        receipt = self._round.accept(header, b"".join(piece.data for piece in pieces))
        return node_pb2.SubmitResponse(receipt=receipt.to_bytes())

    async def SubmitWhole(  # noqa: N802
        self, request: node_pb2.SubmitWholeRequest, context: Any
    ) -> node_pb2.SubmitWholeResponse:
        if not self._round.offers_whole:
            self._round.unimplemented += 1
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
        self._round.calls += 1
        return node_pb2.SubmitWholeResponse(
            receipt=self._round.accept(request.header, request.envelope).to_bytes()
        )

    async def SubmitMany(  # noqa: N802
        self, requests: AsyncIterator[node_pb2.SubmitManyRequest], _: Any
    ) -> AsyncIterator[node_pb2.SubmitManyResponse]:
        self._round.calls += 1
        self._round.gateways += 1
        self._round.opened.set()
        answered = 0
        async for request in requests:
            for submission in request.submissions:
                answer = self._answer(submission)
                if answered == self._round.broken_after and self._round.gateways == 1:
                    raise UnreachableError("the node goes away")
                answered += 1
                yield node_pb2.SubmitManyResponse(answers=[answer] * self._round.times)

    def _answer(self, request: node_pb2.SubmitWholeRequest) -> node_pb2.SubmissionAnswer:
        try:
            return node_pb2.SubmissionAnswer(
                receipt=self._round.accept(request.header, request.envelope).to_bytes()
            )
        except ShuffleDPError as error:
            refusal = node_pb2.Refusal(error=type(error).__name__, reason=str(error))
            return node_pb2.SubmissionAnswer(refusal=refusal)


class _Analyst(analyst_pb2_grpc.AnalystServicer):
    def __init__(self, simulated: SimulatedRound) -> None:
        self._round = simulated

    async def GetManifest(  # noqa: N802
        self, request: analyst_pb2.GetManifestRequest, _: Any
    ) -> analyst_pb2.GetManifestResponse:
        self._known(request.round_id or ROUND_ID)
        return analyst_pb2.GetManifestResponse(announcement=self._round.announcement)

    async def GetResult(  # noqa: N802
        self, request: analyst_pb2.GetResultRequest, _: Any
    ) -> analyst_pb2.GetResultResponse:
        self._known(request.round_id)
        if self._round.result is None:
            raise UnknownRoundError("the round has not ended yet")
        discards = [one.to_bytes() for one in self._round.discards]
        return analyst_pb2.GetResultResponse(
            result=self._round.result.to_bytes(), discards=discards
        )

    async def GetBoard(  # noqa: N802
        self, request: analyst_pb2.GetBoardRequest, _: Any
    ) -> AsyncIterator[analyst_pb2.GetBoardResponse]:
        self._known(request.round_id)
        self._round.boards += 1
        for offset, data in chunks(self._round.board, self._round.piece):
            yield analyst_pb2.GetBoardResponse(offset=offset, data=data)

    async def GetTile(  # noqa: N802
        self, request: analyst_pb2.GetTileRequest, _: Any
    ) -> analyst_pb2.GetTileResponse:
        self._known(request.round_id)
        self._round.asked_tiles.append(request.index)
        tiles = self._round.tiles()
        if request.index >> tiles.bits:
            raise UnknownRoundError(f"there is no tile {request.index}")
        return analyst_pb2.GetTileResponse(tile=tiles.tile(request.index))

    async def GetHistory(  # noqa: N802
        self, request: analyst_pb2.GetHistoryRequest, _: Any
    ) -> AsyncIterator[analyst_pb2.GetHistoryResponse]:
        raise UnknownRoundError(f"round {request.round_id} is a plain one")
        yield analyst_pb2.GetHistoryResponse()

    def _known(self, round_id: str) -> None:
        if round_id != ROUND_ID:
            raise UnknownRoundError(f"round {round_id} is not known here")


def without(count: int) -> Callable[[list[bytes]], list[bytes]]:
    """A change of the board: the first `count` messages get another symbol."""

    def change(rows: Sequence[bytes]) -> list[bytes]:
        return [
            bytes([row[0] ^ 1]) + row[1:] if place < count else row
            for place, row in enumerate(rows)
        ]

    return change
