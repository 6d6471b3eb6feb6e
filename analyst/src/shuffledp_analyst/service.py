"""gRPC services of the analyst: public documents, the operator's control, and the batch sink."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Final

import grpc

from shuffledp_analyst.config import AnalystConfig
from shuffledp_analyst.coordinator import Coordinator
from shuffledp_analyst.metrics import AnalystMetrics
from shuffledp_core.documents.models import Roster
from shuffledp_core.transport.rpc_errors import Context, Rules
from shuffledp_core.transport.service import Service
from shuffledp_core.transport.tls import CLIENT, OPERATOR, VIEWER, peer_name
from shuffledp_core.vocabulary import Role
from shuffledp_proto.v1 import analyst_pb2, analyst_pb2_grpc, batch_pb2, batch_pb2_grpc

_ANALYST: Final = "shuffledp_proto.v1.Analyst"
_CONTROL: Final = "shuffledp_proto.v1.RoundControl"
_SINK: Final = "shuffledp_proto.v1.BatchSink"

NAMES: Final = (_ANALYST, _CONTROL, _SINK)
"""Full service names, for reflection."""

RULES: Final[Rules] = {
    **{
        f"/{_ANALYST}/{method}": frozenset({CLIENT, OPERATOR, VIEWER})
        for method in ("GetManifest", "GetResult", "GetBoard", "GetTile", "GetHistory")
    },
    **{
        f"/{_CONTROL}/{method}": frozenset({OPERATOR})
        for method in ("OpenRound", "EndSubmissions", "AbortRound")
    },
    **{
        f"/{_CONTROL}/{method}": frozenset({OPERATOR, VIEWER})
        for method in ("FollowRound", "ListRounds")
    },
    f"/{_SINK}/AddBatch": frozenset({Role.NODE}),
}
"""Roles that may call each method."""


class AnalystService(analyst_pb2_grpc.AnalystServicer):
    """The public service for manifests, results and boards."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator

    async def GetManifest(  # noqa: N802 - the name in the .proto
        self,
        request: analyst_pb2.GetManifestRequest,
        context: Context,  # noqa: ARG002
    ) -> analyst_pb2.GetManifestResponse:
        """Return the announcement of a round, or of the newest open one; see analyst.proto."""
        return analyst_pb2.GetManifestResponse(
            announcement=self._coordinator.announcement(request.round_id)
        )

    async def GetResult(  # noqa: N802
        self,
        request: analyst_pb2.GetResultRequest,
        context: Context,  # noqa: ARG002
    ) -> analyst_pb2.GetResultResponse:
        """Return the signed result of a round that has ended; see analyst.proto."""
        shown = self._coordinator.ending(request.round_id)
        return analyst_pb2.GetResultResponse(**shown._asdict())

    async def GetBoard(  # noqa: N802
        self,
        request: analyst_pb2.GetBoardRequest,
        context: Context,  # noqa: ARG002
    ) -> AsyncIterator[analyst_pb2.GetBoardResponse]:
        """Stream the published board, every plain message in mixed order; see analyst.proto."""
        async for offset, data in self._coordinator.board(request.round_id):
            yield analyst_pb2.GetBoardResponse(offset=offset, data=data)

    async def GetTile(  # noqa: N802
        self,
        request: analyst_pb2.GetTileRequest,
        context: Context,  # noqa: ARG002
    ) -> analyst_pb2.GetTileResponse:
        """Return one tile of the published board; see analyst.proto."""
        return analyst_pb2.GetTileResponse(
            tile=await asyncio.to_thread(self._coordinator.tile, request.round_id, request.index)
        )

    async def GetHistory(  # noqa: N802
        self,
        request: analyst_pb2.GetHistoryRequest,
        context: Context,  # noqa: ARG002
    ) -> AsyncIterator[analyst_pb2.GetHistoryResponse]:
        """Stream a verified round's history, which proves its board; see analyst.proto."""
        async for offset, data in self._coordinator.history(request.round_id):
            yield analyst_pb2.GetHistoryResponse(offset=offset, data=data)


class RoundControlService(analyst_pb2_grpc.RoundControlServicer):
    """The service with which an operator controls rounds."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator

    async def OpenRound(  # noqa: N802
        self,
        request: analyst_pb2.OpenRoundRequest,
        context: Context,  # noqa: ARG002
    ) -> analyst_pb2.OpenRoundResponse:
        """Open a round: certificate, round keys, manifest, announcement; see analyst.proto."""
        round_id, announcement = await self._coordinator.open(request.plan, request.round_id)
        return analyst_pb2.OpenRoundResponse(round_id=round_id, announcement=announcement)

    async def FollowRound(  # noqa: N802
        self,
        request: analyst_pb2.FollowRoundRequest,
        context: Context,  # noqa: ARG002
    ) -> AsyncIterator[analyst_pb2.FollowRoundResponse]:
        """Stream a round's events until its end; the last has the result; see analyst.proto."""
        async for event in self._coordinator.follow(request.round_id):
            yield analyst_pb2.FollowRoundResponse(
                stage=event.stage,
                node=event.node,
                done=event.done,
                total=event.total,
                seconds=event.seconds,
                result=event.result,
            )

    async def EndSubmissions(  # noqa: N802
        self,
        request: analyst_pb2.EndSubmissionsRequest,
        context: Context,  # noqa: ARG002
    ) -> analyst_pb2.EndSubmissionsResponse:
        """Close a round's submissions before the manifest's closing time; see analyst.proto."""
        self._coordinator.end_submissions(request.round_id)
        return analyst_pb2.EndSubmissionsResponse()

    async def AbortRound(  # noqa: N802
        self,
        request: analyst_pb2.AbortRoundRequest,
        context: Context,  # noqa: ARG002
    ) -> analyst_pb2.AbortRoundResponse:
        """Cancel a round, and release its budget where that is sound; see analyst.proto."""
        self._coordinator.abort(request.round_id, request.reason)
        return analyst_pb2.AbortRoundResponse()

    async def ListRounds(  # noqa: N802
        self,
        request: analyst_pb2.ListRoundsRequest,
        context: Context,  # noqa: ARG002
    ) -> analyst_pb2.ListRoundsResponse:
        """Return a page of this analyst's rounds, the newest first; see analyst.proto."""
        page, more = await self._coordinator.page_of_rounds(request.after, request.limit)
        rounds = [analyst_pb2.RoundSummary(**asdict(summary)) for summary in page]
        return analyst_pb2.ListRoundsResponse(rounds=rounds, more=more)


class BatchSinkService(batch_pb2_grpc.BatchSinkServicer):
    """The service that receives the last node's batch."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator

    async def AddBatch(  # noqa: N802
        self, request_iterator: AsyncIterator[batch_pb2.AddBatchRequest], context: Context
    ) -> batch_pb2.AddBatchResponse:
        """Receive a batch in chunks; answer when it is verified and on disk; see batch.proto."""
        await self._coordinator.deliver(peer_name(context), request_iterator)
        return batch_pb2.AddBatchResponse()


def make_service(
    config: AnalystConfig, roster: Roster, coordinator: Coordinator, metrics: AnalystMetrics
) -> Service:
    """The gRPC server of the analyst, not started."""

    def register(server: grpc.aio.Server) -> None:
        analyst_pb2_grpc.add_AnalystServicer_to_server(AnalystService(coordinator), server)
        analyst_pb2_grpc.add_RoundControlServicer_to_server(
            RoundControlService(coordinator), server
        )
        batch_pb2_grpc.add_BatchSinkServicer_to_server(BatchSinkService(coordinator), server)

    return Service(config, roster, RULES, NAMES, register, metrics)
