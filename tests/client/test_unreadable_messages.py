"""Bytes that are no protobuf: a quiet, counted refusal at the server, a typed error at the caller,
no traceback."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from client_rounds import ROUND_ID, Draft
from simulated_round import SimulatedRound

from shuffledp_client.transport import AnalystReader, Backoff
from shuffledp_core.errors import AccessDenied, MalformedRequestError, NodeFault
from shuffledp_core.runtime.config import ServiceConfig
from shuffledp_core.transport.rpc_errors import error_of_call
from shuffledp_core.transport.service import Service
from shuffledp_core.transport.tls import CLIENT, OPERATOR, channel_to
from shuffledp_ops.keys.pki import Deployment

NO_MESSAGE = b"\xff\xff\xff"
OURS = "/shuffledp_proto.v1."
CALLS = [
    ("analyst", "unary_unary", OURS + "Analyst/GetResult", CLIENT),
    ("analyst", "unary_stream", OURS + "Analyst/GetBoard", CLIENT),
    ("node-1", "stream_unary", OURS + "Node/Submit", CLIENT),
    ("node-1", "unary_unary", OURS + "Node/SubmitWhole", CLIENT),
    ("analyst", "unary_unary", "/grpc.health.v1.Health/Check", CLIENT),
    (
        "analyst",
        "unary_stream",
        "/grpc.health.v1.Health/Watch",
        OPERATOR,
    ),  # streams of health are not for devices
    (
        "analyst",
        "stream_stream",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        OPERATOR,
    ),
]


async def raw_call(
    deployment: Deployment, party: str, kind: str, method: str, caller: str
) -> grpc.aio.AioRpcError:
    """What a caller is told that sends bytes as they are."""

    async def stream() -> AsyncIterator[bytes]:
        yield NO_MESSAGE

    async with channel_to(
        deployment.roster.party(party), deployment.keys_of(caller), deployment.roster
    ) as channel:
        call: Any = getattr(channel, kind)(method)(
            NO_MESSAGE if kind.startswith("unary") else stream()
        )
        answers = call.__aiter__().__anext__() if kind.endswith("stream") else call
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await answers
    return caught.value


async def test_a_request_that_is_no_message_is_refused_counted_and_leaves_no_traceback(
    tmp_path: Path,
    deployment: Deployment,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Before: `DecodeError` escaped, status UNKNOWN, a traceback of some sixty lines a call in the
    log."""
    simulated = SimulatedRound(Draft(deployment), tmp_path)
    async with simulated:
        for party, kind, method, caller in CALLS:
            error = await raw_call(deployment, party, kind, method, caller)
            assert error.code() is grpc.StatusCode.INVALID_ARGUMENT, method
            if method.startswith(OURS):
                assert isinstance(error_of_call(error, party), MalformedRequestError)
        stranger = await raw_call(deployment, *CALLS[0][:3], OPERATOR)
        assert isinstance(
            error_of_call(stranger, "analyst"), AccessDenied
        )  # who may call at all is said first
        counts = {
            (sample.labels["method"], sample.labels["reason"])
            for service in simulated.services
            for metric in service.metrics.registry.collect()
            for sample in metric.samples
            if sample.name == "shuffledp_refusals_total"
        }
        registries = [service.metrics.registry for service in simulated.services]
        unexpected = [
            one.get_sample_value("shuffledp_unexpected_failures_total") for one in registries
        ]
    assert counts == {
        ("GetResult", "MalformedRequestError"),
        ("GetBoard", "MalformedRequestError"),
        ("Submit", "MalformedRequestError"),
        ("SubmitWhole", "MalformedRequestError"),
        ("GetResult", "AccessDenied"),
    }
    assert unexpected == [0, 0]
    assert [one for one in caplog.records if one.levelno >= logging.ERROR] == []
    said = capfd.readouterr()
    assert "Traceback" not in said.out + said.err


class _Garbage(grpc.GenericRpcHandler):
    """Answers every call with bytes that are no message."""

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[Any, Any]:
        async def answer(_request: bytes, _context: Any) -> bytes:
            return NO_MESSAGE

        async def stream(_request: bytes, _context: Any) -> AsyncIterator[bytes]:
            yield NO_MESSAGE

        if str(handler_call_details.method).endswith("GetBoard"):
            return grpc.unary_stream_rpc_method_handler(stream)
        return grpc.unary_unary_rpc_method_handler(answer)


def register_garbage(server: grpc.aio.Server) -> None:
    server.add_generic_rpc_handlers([_Garbage()])


async def test_an_answer_that_is_no_message_is_the_partys_fault(
    tmp_path: Path, deployment: Deployment
) -> None:
    """Before: grpcio hands out None, and the device died of an `AttributeError`."""
    config = ServiceConfig(
        name="analyst",
        keys=deployment.keys_of("analyst"),
        roster=deployment.roster_file,
        root_key=deployment.root_key,
        listen=deployment.roster.party("analyst").address,
        state=tmp_path,
    )
    rules = {
        f"{OURS}Analyst/{name}": frozenset({CLIENT})
        for name in ("GetManifest", "GetResult", "GetBoard")
    }
    service = Service(config, deployment.roster, rules, [], register_garbage)
    await service.start()
    try:
        async with AnalystReader.of(
            deployment.keys_of(CLIENT), deployment.roster, Backoff(attempts=1)
        ) as analyst:
            for call in (
                analyst.announcement(),
                analyst.result(ROUND_ID),
                analyst.board(ROUND_ID, 17),
            ):
                with pytest.raises(NodeFault, match="not a message"):
                    await call
    finally:
        await service.stop()
