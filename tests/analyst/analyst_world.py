"""An analyst among simulated nodes and a simulated accountant: real gRPC, real TLS, real documents,
chosen faults.

A test hands the plain messages of a report to the entry node, and the last node delivers them.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import grpc
from simulated_parties import ROUTE, Happened, SimulatedAccountant, SimulatedNode

from shuffledp_analyst.app import AnalystServer, assemble
from shuffledp_analyst.config import AnalystConfig
from shuffledp_core.documents.digests import digest
from shuffledp_core.documents.models import BatchHeader, Result, RoundPlan
from shuffledp_core.documents.signed import Signed, to_json
from shuffledp_core.errors import BadBatchError, ShuffleDPError
from shuffledp_core.runtime.keys import verify_from
from shuffledp_core.transport.chunks import chunks
from shuffledp_core.transport.rpc_errors import translate_errors
from shuffledp_core.transport.tls import channel_to
from shuffledp_ops.keys.pki import create_deployment
from shuffledp_proto.v1 import analyst_pb2, analyst_pb2_grpc, batch_pb2, batch_pb2_grpc, node_pb2
from shuffledp_sim.system.ports import Ports

MIX_SECONDS: Final = 1000.0
"""A round's time for mixing: far beyond `HANG_SECONDS`, so that no test waits for its end."""

HANG_SECONDS: Final = 240.0
"""Time after which a test has failed; a busy machine needs a part of it."""


def plan(**changes: Any) -> RoundPlan:
    fields: dict[str, Any] = {
        "population": "demo",
        "mechanism": "rr-shuffle",
        "size": 3,
        "epsilon": 1.0,
        "delta": 1e-6,
        "min_reports": 3,
        "max_reports": 100,
        "colluding": 1,
        "route": ROUTE,
        "open_seconds": 600.0,
    } | changes
    return RoundPlan(**fields)


def leap(seconds: float) -> None:
    """Sets the clock of the running event loop forward: whoever waits for a time waits so much
    less."""
    loop = asyncio.get_running_loop()
    now = loop.time
    loop.time = lambda: now() + seconds  # type: ignore[method-assign]


class World:
    """One deployment: three simulated nodes, a simulated accountant, the real analyst, and an
    operator."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.folder = folder
        names = (*ROUTE, "analyst", "accountant")
        self._ports = Ports(len(names))
        addresses = {
            name: f"127.0.0.1:{port}" for name, port in zip(names, self._ports.numbers, strict=True)
        }
        self.deployment = create_deployment(folder / "keys", addresses)
        self.roster = self.deployment.roster
        self.happened = Happened()
        self.nodes = {
            name: SimulatedNode(self.deployment, name, happened=self.happened) for name in ROUTE
        }
        for node in self.nodes.values():
            node.mix = self.mix
        self.accountant = SimulatedAccountant(self.deployment, "accountant", happened=self.happened)
        self.options: dict[str, Any] = {
            "recovery_seconds": 20.0,
            "mix_timeout_seconds": MIX_SECONDS,
        } | options
        self._analyst: AnalystServer | None = None
        self._background: list[asyncio.Future[None]] = []

    @property
    def entry(self) -> SimulatedNode:
        return self.nodes[ROUTE[0]]

    @property
    def last(self) -> SimulatedNode:
        return self.nodes[ROUTE[-1]]

    def config(self) -> AnalystConfig:
        return AnalystConfig(
            name="analyst",
            keys=self.deployment.keys_of("analyst"),
            roster=self.deployment.roster_file,
            root_key=self.deployment.root_key,
            listen=self.roster.analyst.address,
            state=self.folder / "state",
            **self.options,
        )

    async def start(self, *, analyst: bool = True) -> None:
        for served in (*self.nodes.values(), self.accountant):
            await served.start()
        if analyst:
            await self.start_analyst()

    async def start_analyst(self, *, resumed: bool = True) -> None:
        """`resumed=False`: it answers, and has not looked at its records yet."""
        self._analyst = assemble(self.config())
        await self._analyst.service.start()
        self._background = [
            asyncio.ensure_future(run()) for run in self._analyst.background if resumed
        ]

    async def stop_analyst(self) -> None:
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        if self._analyst is not None:
            await self._analyst.service.server.stop(None)
            self._analyst = None

    async def close(self) -> None:
        await self.stop_analyst()
        for node in self.nodes.values():
            await node.shut()
        await self.accountant.die()
        self._ports.close()

    # ------------------------------------------------------------------ what users and nodes do

    def report(self, round_id: str, symbols: list[int]) -> list[bytes]:
        """One user's report reaches the entry node; its plain messages."""
        geometry = self.entry.manifest(round_id).geometry
        messages = [
            symbol.to_bytes(geometry.symbol_bytes, "big") + secrets.token_bytes(16)
            for symbol in symbols
        ]
        self.entry.rounds[round_id].reports.append(messages)
        self.happened.touch()
        return messages

    def reports(self, round_id: str, count: int, ones: int = 1) -> set[bytes]:
        """`count` users of an RR round with three bits, `ones` of them 1."""
        sent = [self.report(round_id, [1] * ones + [0] * (3 - ones)) for _ in range(count)]
        return {message for messages in sent for message in messages}

    async def mix(self, round_id: str) -> None:
        """The whole chain at once: every node forwards, the last one delivers."""
        reports = self.entry.rounds[round_id].reports
        for name in ROUTE[:-1]:
            node = self.nodes[name]
            node.rounds[round_id].forwarded = True
            if "late" not in node.faults:
                node.done(round_id, len(reports), name.encode())
        if "silent" in self.last.faults:
            return
        if "loses" in self.last.faults:
            del self.last.rounds[round_id]
            self.happened.touch()
            return
        if "fails" in self.last.faults:
            self.last.fail(round_id, BadBatchError("an onion does not open"))
            return
        self.last.phase(round_id, node_pb2.ROUND_PHASE_MIXING)
        self.last.phase(round_id, node_pb2.ROUND_PHASE_RELAYING)
        self.last.rounds[round_id].forwarded = True
        messages = [message for report in reports for message in report]
        random.shuffle(messages)
        messages = messages[self.last.dropped :]
        try:
            await self.deliver(round_id, messages, len(reports))
        except ShuffleDPError as error:
            if round_id in self.last.rounds:
                self.last.fail(round_id, error)
        else:
            # An analyst that gives the round up deletes it here as soon as it has the batch.
            if "late" not in self.last.faults and round_id in self.last.rounds:
                self.last.done(round_id, len(reports), b"".join(messages))

    async def deliver(self, round_id: str, messages: list[bytes], users: int) -> None:
        """The last node's AddBatch, with its faults."""
        faults = self.last.faults
        if "copies" in faults:
            messages = [*messages[:-1], messages[0]]
        if "bad-symbol" in faults:
            messages = [*messages[:-1], b"\x02" + messages[-1][1:]]
        if "drops" in faults:
            per_user = len(messages) // users
            messages, users = messages[per_user:], users - 1
        data = b"".join(messages)
        header = BatchHeader(
            round_id=round_id,
            position=len(ROUTE) + 1,
            users=users,
            records=len(messages),
            dropped=self.last.dropped,
            digest=digest(b"" if "wrong-digest" in faults else data),
        )
        signer = "node-1" if "not-mine" in faults else self.last.name
        signed = self.deployment.identity_of(signer).sign(header)
        if "torn-once" in faults:
            faults.clear()
            with contextlib.suppress(ShuffleDPError):
                await self.add_batch(signer, signed, data[:-5])
        await self.add_batch(signer, signed, data[:-1] if "short" in faults else data)

    async def add_batch(self, sender: str, header: Signed, data: bytes, size: int = 40) -> None:
        """One AddBatch to the analyst, in chunks of `size` bytes, written one by one as a node
        does."""
        async with self.channel(sender) as channel, translate_errors("analyst"):
            call = batch_pb2_grpc.BatchSinkStub(channel).AddBatch()
            try:
                await call.write(batch_pb2.AddBatchRequest(header=header.to_bytes()))
                for offset, piece in chunks(data, size):
                    await call.write(
                        batch_pb2.AddBatchRequest(chunk=batch_pb2.Chunk(offset=offset, data=piece))
                    )
                await call.done_writing()
            except asyncio.InvalidStateError:
                pass  # the analyst has answered already
            await call

    # ------------------------------------------------------------------ what the operator and
    # clients do

    def channel(self, caller: str) -> grpc.aio.Channel:
        return channel_to(self.roster.analyst, self.deployment.keys_of(caller), self.roster)

    @contextlib.asynccontextmanager
    async def control(
        self, caller: str = "operator"
    ) -> AsyncIterator[analyst_pb2_grpc.RoundControlAsyncStub]:
        async with self.channel(caller) as channel, translate_errors("analyst"):
            yield analyst_pb2_grpc.RoundControlStub(channel)

    @contextlib.asynccontextmanager
    async def reading(
        self, caller: str = "client"
    ) -> AsyncIterator[analyst_pb2_grpc.AnalystAsyncStub]:
        async with self.channel(caller) as channel, translate_errors("analyst"):
            yield analyst_pb2_grpc.AnalystStub(channel)

    async def open(self, **changes: Any) -> str:
        async with self.control() as stub:
            opened = await stub.OpenRound(
                analyst_pb2.OpenRoundRequest(plan=to_json(plan(**changes)))
            )
        return opened.round_id

    async def end_submissions(self, round_id: str) -> None:
        async with self.control() as stub:
            await stub.EndSubmissions(analyst_pb2.EndSubmissionsRequest(round_id=round_id))

    async def abort(self, round_id: str) -> None:
        async with self.control() as stub:
            await stub.AbortRound(analyst_pb2.AbortRoundRequest(round_id=round_id, reason="a test"))

    async def events(self, round_id: str) -> list[analyst_pb2.FollowRoundResponse]:
        async with self.control() as stub:
            return [
                event
                async for event in stub.FollowRound(
                    analyst_pb2.FollowRoundRequest(round_id=round_id)
                )
            ]

    def read(self, data: bytes) -> Result:
        return verify_from(self.roster.analyst, Signed.from_bytes(data), Result)

    async def ended(self, round_id: str) -> Result:
        """Follows a round to its end; the result, which must be the one that clients get, too."""
        result = (await self.events(round_id))[-1].result
        async with self.reading() as stub:
            assert (
                await stub.GetResult(analyst_pb2.GetResultRequest(round_id=round_id))
            ).result == result
        return self.read(result)

    async def board(self, round_id: str) -> bytes:
        async with self.reading() as stub:
            parts = [
                part async for part in stub.GetBoard(analyst_pb2.GetBoardRequest(round_id=round_id))
            ]
        assert [part.offset for part in parts] == [
            sum(len(earlier.data) for earlier in parts[:index]) for index in range(len(parts))
        ]
        return b"".join(part.data for part in parts)

    async def whole_round(self, count: int = 5, **changes: Any) -> Result:
        """Opens a round, plays `count` users, closes it, and waits for its end."""
        round_id = await self.open(**changes)
        self.reports(round_id, count)
        await self.end_submissions(round_id)
        return await self.ended(round_id)
