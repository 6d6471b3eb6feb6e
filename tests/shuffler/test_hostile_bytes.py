"""Any bytes, anywhere: one typed error each, and a round that goes on as if nothing had happened
(invariant 5)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shuffler_world import World

from shuffledp_core.documents.signed import Signed
from shuffledp_core.errors import ShuffleDPError
from shuffledp_core.transport.rpc_errors import translate_errors
from shuffledp_proto.v1 import batch_pb2, batch_pb2_grpc, node_pb2

hostile = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)

FRAMES = st.one_of(
    st.binary(max_size=300),
    st.builds(
        Signed,
        label=st.text(max_size=9),
        signer=st.text(max_size=9),
        body=st.text(),
        signature=st.text(),
    ).map(msgspec.json.encode),
)
"""Bytes, and bytes in the shape of a signed document."""

ODD_IDS = st.one_of(
    st.text(max_size=80), st.sampled_from(["", ".", "..", "../..", "a/b", "00ff", "\x00"])
)


@contextmanager
def closed(runner: asyncio.Runner, world: World) -> Iterator[World]:
    """The world, ended before its event loop whatever happens."""
    try:
        yield world
    finally:
        runner.run(world.close())


def is_typed(error: ShuffleDPError) -> bool:
    """`NodeFault` itself would be the translation of an unexpected failure inside the node."""
    return type(error).__name__ not in {"NodeFault", "ShuffleDPError", "UnreachableError"}


def test_no_bytes_crash_a_node_or_half_do_a_round(tmp_path: Path) -> None:  # noqa: C901 - five attacks, one node
    with asyncio.Runner() as runner, closed(runner, World(tmp_path)) as world:
        runner.run(world.start_analyst())
        runner.run(world.start())
        round_ = runner.run(world.open())

        @hostile
        @given(FRAMES, st.integers(0, 2**32 - 1), st.text(max_size=20))
        def prepare(frame: bytes, position: int, suite: str) -> None:
            async def call() -> None:
                async with translate_errors("node-1"):
                    await world.node("node-1").PrepareRound(
                        node_pb2.PrepareRoundRequest(
                            certificate=frame, position=position, suite=suite
                        )
                    )

            with pytest.raises(ShuffleDPError) as caught:
                runner.run(call())
            assert is_typed(caught.value), caught.value

        @hostile
        @given(FRAMES)
        def set_manifest(frame: bytes) -> None:
            async def call() -> None:
                async with translate_errors("node-1"):
                    await world.node("node-1").SetManifest(
                        node_pb2.SetManifestRequest(manifest=frame)
                    )

            with pytest.raises(ShuffleDPError) as caught:
                runner.run(call())
            assert is_typed(caught.value), caught.value

        @hostile
        @given(
            ODD_IDS | st.just(round_.round_id),
            FRAMES,
            FRAMES,
            st.lists(st.tuples(st.integers(0, 9), st.binary())),
        )
        def submit(
            round_id: str, credential: bytes, claim: bytes, pieces: list[tuple[int, bytes]]
        ) -> None:
            header = node_pb2.SubmissionHeader(
                round_id=round_id, credential=credential, claim=claim
            )
            parts = [node_pb2.SubmitRequest(header=header)]
            parts += [
                node_pb2.SubmitRequest(chunk=batch_pb2.Chunk(offset=at, data=data))
                for at, data in pieces
            ]
            with pytest.raises(ShuffleDPError) as caught:
                runner.run(world.send_submission(parts))
            assert is_typed(caught.value), caught.value

        @hostile
        @given(FRAMES, st.lists(st.tuples(st.integers(0, 9), st.binary())))
        def add_batch(frame: bytes, pieces: list[tuple[int, bytes]]) -> None:
            async def call() -> None:
                stub = batch_pb2_grpc.BatchSinkStub(world.channel("node-2", "node-1"))
                parts = [batch_pb2.AddBatchRequest(header=frame)]
                parts += [
                    batch_pb2.AddBatchRequest(chunk=batch_pb2.Chunk(offset=at, data=data))
                    for at, data in pieces
                ]
                async with translate_errors("node-2"):
                    await stub.AddBatch(iter(parts))

            with pytest.raises(ShuffleDPError) as caught:
                runner.run(call())
            assert is_typed(caught.value), caught.value

        @hostile
        @given(ODD_IDS)
        def close_round(round_id: str) -> None:
            with pytest.raises(ShuffleDPError) as caught:
                runner.run(world.close_round("node-1", round_id))
            assert is_typed(caught.value), caught.value

        for attack in (prepare, set_manifest, submit, add_batch, close_round):
            attack()

        submissions = [world.submission(round_) for _ in range(2)]
        for submission in submissions:
            runner.run(world.submit(submission))
        assert runner.run(world.close_round("node-1", round_.round_id)) == 2
        for name in world.names:
            assert runner.run(world.ended(name, round_.round_id)).phase == node_pb2.ROUND_PHASE_DONE
        messages = [message for submission in submissions for message in submission.messages]
        assert sorted(world.board(round_)) == sorted(messages)
