"""How long a campaign asks an analyst that is away: since it went away, not since the round
began."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest

from shuffledp_core.documents.models import RoundPlan
from shuffledp_core.errors import NodeFault, UnreachableError
from shuffledp_core.transport.tls import server_credentials
from shuffledp_core.transport.tls_files import TLSFiles
from shuffledp_ops.campaigns import rounds
from shuffledp_ops.campaigns.rounds import run_round_to_end
from shuffledp_ops.keys.pki import Deployment, create_deployment
from shuffledp_proto.v1 import analyst_pb2
from shuffledp_sim.system.ports import Ports

ROUND = "0a" * 16

_PLAN = RoundPlan(
    population="demo",
    mechanism="krr-histogram",
    size=4,
    epsilon=3.0,
    delta=1e-3,
    min_reports=5,
    max_reports=5,
    colluding=0,
    route=("node-1", "node-2"),
)


class BreakingAnalyst:
    """An analyst that breaks every connection: after a word of the round, or before it.

    At last it fails otherwise.
    """

    def __init__(self, speaks: list[bool]) -> None:
        self.left = list(speaks)

    async def follow(
        self,
        request: analyst_pb2.FollowRoundRequest,
        context: grpc.aio.ServicerContext,  # type: ignore[type-arg]
    ) -> AsyncIterator[analyst_pb2.FollowRoundResponse]:
        """`FollowRound` of analyst.proto."""
        assert request.round_id == ROUND
        if not self.left:
            await context.abort(grpc.StatusCode.DATA_LOSS, "the disk is gone")
        if self.left.pop(0):
            yield analyst_pb2.FollowRoundResponse(stage="accepting", done=1)
        await context.abort(grpc.StatusCode.UNAVAILABLE, "restarting")


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    with Ports(1) as ports:
        addresses = dict.fromkeys(("node-1", "node-2", "accountant"), "127.0.0.1:1")
        yield create_deployment(
            tmp_path / "keys", {**addresses, "analyst": f"127.0.0.1:{ports.numbers[0]}"}
        )


@asynccontextmanager
async def serving(deployment: Deployment, analyst: BreakingAnalyst) -> AsyncIterator[None]:
    server = grpc.aio.server()
    follow = grpc.unary_stream_rpc_method_handler(
        analyst.follow,
        request_deserializer=analyst_pb2.FollowRoundRequest.FromString,
        response_serializer=analyst_pb2.FollowRoundResponse.SerializeToString,
    )
    control = grpc.method_handlers_generic_handler(
        "shuffledp_proto.v1.RoundControl", {"FollowRound": follow}
    )
    server.add_generic_rpc_handlers([control])
    files = TLSFiles.load(deployment.keys_of("analyst"), deployment.roster.tls_authority)
    server.add_secure_port(deployment.roster.analyst.address, server_credentials(files))
    await server.start()
    try:
        yield
    finally:
        await server.stop(None)


async def end_of(deployment: Deployment, analyst: BreakingAnalyst) -> None:
    """Follows the round with no patience at all: a party may be away once, and not be still away
    when asked again."""

    def never() -> bool:
        raise AssertionError("the round is known")

    async with serving(deployment, analyst), asyncio.timeout(240):
        await run_round_to_end(deployment, _PLAN, ROUND, never, lambda: None, patience=0.0)


async def test_an_analyst_that_speaks_in_between_is_asked_again_however_long_the_round_is(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "PAUSE_SECONDS", 0.01)
    analyst = BreakingAnalyst([True] * 5)
    with pytest.raises(NodeFault, match="the disk is gone"):
        await end_of(deployment, analyst)
    assert analyst.left == []


async def test_an_analyst_that_stays_away_is_given_up_by_the_command(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "PAUSE_SECONDS", 0.01)
    analyst = BreakingAnalyst([True, False, False, True])
    with pytest.raises(UnreachableError, match="restarting"):
        await end_of(deployment, analyst)
    assert analyst.left == [False, True]
