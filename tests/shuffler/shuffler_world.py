"""A deployment around the mix nodes under test: real keys, TLS, gRPC and files.

The test plays analyst and clients.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import secrets
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import grpc
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from shuffledp_core.documents.digests import digest, document_digest
from shuffledp_core.documents.models import (
    BatchHeader,
    Certificate,
    CorruptedGuarantee,
    Credential,
    EpsilonBounds,
    LedgerPosition,
    Manifest,
    Receipt,
    RoundKey,
)
from shuffledp_core.documents.signed import Signed, from_json, sign
from shuffledp_core.documents.submission import SubmissionClaim
from shuffledp_core.mechanisms import Mechanism, RRShuffle
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.onion.layers import binding, seal_envelope
from shuffledp_core.onion.suites import suite_named
from shuffledp_core.privacy import Adjacency
from shuffledp_core.runtime.clock import system_clock
from shuffledp_core.runtime.keys import verify_from
from shuffledp_core.transport.chunks import chunks
from shuffledp_core.transport.rpc_errors import Rules, TypedErrors, translate_errors
from shuffledp_core.transport.service import Service
from shuffledp_core.transport.tls import channel_to, server_credentials, server_options
from shuffledp_core.transport.tls_files import TLSFiles
from shuffledp_ops.keys.pki import Deployment, create_deployment
from shuffledp_proto.v1 import batch_pb2, batch_pb2_grpc, node_pb2, node_pb2_grpc
from shuffledp_shuffler.app import build
from shuffledp_shuffler.config import NodeConfig
from shuffledp_shuffler.node import MixNode
from shuffledp_shuffler.peeling import ItemT, PeelPool, ResultT, WorkersLost
from shuffledp_shuffler.round_state import RoundRecord
from shuffledp_sim.system.ports import Ports

MECHANISM = RRShuffle(max_value=3, randomise=Fraction(1, 4))
POPULATION = "demo"


class KeptPool(PeelPool):
    """The pool of all nodes in this process, which keeps its worker when a node is shut.

    A worker takes longer to start than to peel all batches of a test. It ends with this process."""

    def close(self) -> None:
        pass

    async def map(
        self,
        work: Callable[[ItemT], ResultT],
        items: Iterable[ItemT],
        store: Callable[[ResultT], Awaitable[None]],
    ) -> None:
        try:
            await super().map(work, items, store)
        except WorkersLost:
            super().close()
            raise


POOL = KeptPool(1)


async def _listening(address: str, process: asyncio.subprocess.Process) -> None:
    host, _, port = address.rpartition(":")
    while process.returncode is None:
        try:
            _, writer = await asyncio.open_connection(host, int(port))
        except OSError:
            await asyncio.sleep(0.02)
        else:
            writer.close()
            return
    raise AssertionError(f"the node ended with code {process.returncode} before it listened")


@dataclass
class Round:
    """A round as the analyst sees it."""

    round_id: str
    certificate: Signed
    geometry: Geometry
    keys: tuple[Signed, ...] = ()
    manifest: Signed | None = None

    def public_keys(self) -> list[bytes]:
        return [bytes.fromhex(from_json(key.body, RoundKey).public_key) for key in self.keys]


@dataclass
class Submission:
    """What one user sends, and the plain messages inside."""

    header: node_pb2.SubmissionHeader
    envelope: bytes
    messages: list[bytes]
    credential: str


@dataclass
class User:
    key: Ed25519PrivateKey
    credential: Signed


class AnalystSink(batch_pb2_grpc.BatchSinkServicer):
    """The analyst's end: keeps every batch it is given, by round, after checking it as an analyst
    would."""

    def __init__(self, deployment: Deployment, last: str) -> None:
        self._last = deployment.roster.party(last)
        self.batches: dict[str, bytes] = {}
        self.calls = 0
        self.arrived = asyncio.Event()

    async def AddBatch(  # noqa: N802
        self, request_iterator: AsyncIterator[batch_pb2.AddBatchRequest], context: Any
    ) -> batch_pb2.AddBatchResponse:
        del context
        first = await anext(aiter(request_iterator))
        header = verify_from(self._last, Signed.from_bytes(first.header), BatchHeader)
        data = b"".join([request.chunk.data async for request in request_iterator])
        assert hashlib.sha256(data).hexdigest() == header.digest
        self.calls += 1
        self.batches[header.round_id] = data
        self.arrived.set()
        return batch_pb2.AddBatchResponse()


@dataclass
class Running:
    """A node in this process."""

    node: MixNode
    service: Service


class World:
    """Nodes "node-1".."node-L", by default two; nothing runs until it is started."""

    def __init__(self, folder: Path, nodes: int = 2) -> None:
        self.folder = folder
        self.names = [f"node-{index}" for index in range(1, nodes + 1)]
        names = (*self.names, "analyst", "accountant")
        self._ports = Ports(len(names))
        addresses = {
            name: f"127.0.0.1:{port}" for name, port in zip(names, self._ports.numbers, strict=True)
        }
        self.deployment = create_deployment(folder / "keys", addresses, population=POPULATION)
        self.roster = self.deployment.roster
        self.sink = AnalystSink(self.deployment, self.names[-1])
        self.entries = itertools.count(1)
        """Ledger entries of the certificates."""
        self.ahead = 0
        """Milliseconds by which the clocks of nodes in this process are ahead."""
        self.streams = False
        """Submits in chunks, as a device does with a large envelope, and not in one message."""
        self.corrupt: dict[str, Path] = {}
        """Where nodes in this process that are corrupt write what they know."""
        self.running: dict[str, Running] = {}
        self._sink_server: grpc.aio.Server | None = None
        self._processes: list[asyncio.subprocess.Process] = []
        self._channels: dict[tuple[str, str], grpc.aio.Channel] = {}
        self._enrolment = self.deployment.enrolment_of(POPULATION)

    # ---------------------------------------------------------------- processes and servers

    def config(self, name: str, **options: Any) -> NodeConfig:
        return NodeConfig(
            **({"workers": 1} | options),
            name=name,
            keys=self.deployment.keys_of(name),
            roster=self.deployment.roster_file,
            root_key=self.deployment.root_key,
            listen=self.roster.party(name).address,
            state=self.folder / "state" / name,
            log_level="error",
        )

    async def start(self, *names: str, **options: Any) -> None:
        for name in names or self.names:
            clock = lambda: system_clock() + self.ahead  # noqa: E731 - read when it is asked
            node, service = build(
                self.config(name, **options),
                clock,
                corrupt=self.corrupt.get(name),
                pool=None if "workers" in options else POOL,
            )
            await node.recover()
            await service.start()
            self.running[name] = Running(node, service)

    async def stop(self, name: str) -> None:
        running = self.running.pop(name)
        await running.service.server.stop(0)
        await running.node.shut()

    async def start_process(
        self, name: str, stderr: int | None = None, **options: Any
    ) -> asyncio.subprocess.Process:
        """The node's own program, as an operator runs it; returns once it answers."""
        config = self.config(name, **options)
        lines = [
            f'{key} = "{getattr(config, key)}"'
            for key in ("name", "keys", "roster", "root_key", "listen", "state")
        ]
        lines += [
            'log_level = "error"',
            *(f"{key} = {value}" for key, value in options.items() if key != "mixing"),
        ]
        lines += ["[mixing]", f"memory = {config.mixing.memory}"]
        path = self.folder / f"{name}.toml"
        path.write_text("\n".join(lines))
        command = Path(sys.executable).parent / "shuffledp-shuffler"
        corrupt = ["--corrupt", str(self.corrupt[name])] if name in self.corrupt else []
        process = await asyncio.create_subprocess_exec(
            str(command), "--config", str(path), *corrupt, stderr=stderr
        )
        self._processes.append(process)
        await _listening(self.roster.party(name).address, process)
        return process

    async def kill(self, process: asyncio.subprocess.Process) -> None:
        """kill -9, and no connection left that would wait for its own time to reconnect."""
        if process.returncode is None:
            process.kill()
        await process.wait()
        await self.hang_up()

    async def hang_up(self) -> None:
        for channel in self._channels.values():
            await channel.close()
        self._channels.clear()

    def record(self, name: str, round_id: str) -> RoundRecord:
        """What the node's disk says."""
        path = self.folder / "state" / name / "rounds" / round_id / "record.json"
        return from_json(path.read_bytes(), RoundRecord)

    async def start_analyst(self) -> None:
        rules: Rules = {"/shuffledp_proto.v1.BatchSink/AddBatch": frozenset({"node"})}
        server = grpc.aio.server(
            interceptors=[TypedErrors(self.roster, rules)], options=server_options()
        )
        batch_pb2_grpc.add_BatchSinkServicer_to_server(self.sink, server)
        credentials = server_credentials(
            TLSFiles.load(self.deployment.keys_of("analyst"), self.roster.tls_authority)
        )
        server.add_secure_port(self.roster.analyst.address, credentials)
        await server.start()
        self._sink_server = server

    async def close(self) -> None:
        await self.hang_up()
        for name in list(self.running):
            await self.stop(name)
        for process in self._processes:
            if process.returncode is None:
                process.kill()
            await process.wait()
        if self._sink_server is not None:
            await self._sink_server.stop(0)
        self._ports.close()

    # ---------------------------------------------------------------- calls

    def channel(self, name: str, caller: str = "analyst") -> grpc.aio.Channel:
        key = (name, caller)
        if key not in self._channels:
            self._channels[key] = channel_to(
                self.roster.party(name), self.deployment.keys_of(caller), self.roster
            )
        return self._channels[key]

    def node(self, name: str, caller: str = "analyst") -> node_pb2_grpc.NodeAsyncStub:
        return node_pb2_grpc.NodeStub(self.channel(name, caller))

    async def prepare(
        self, name: str, certificate: Signed, position: int, suite: str = "sealed-box"
    ) -> Signed:
        request = node_pb2.PrepareRoundRequest(
            certificate=certificate.to_bytes(), position=position, suite=suite
        )
        async with translate_errors(name):
            return Signed.from_bytes((await self.node(name).PrepareRound(request)).round_key)

    async def set_manifest(self, name: str, manifest: Signed) -> Signed:
        async with translate_errors(name):
            answer = await self.node(name).SetManifest(
                node_pb2.SetManifestRequest(manifest=manifest.to_bytes())
            )
        return Signed.from_bytes(answer.countersignature)

    async def close_round(self, name: str, round_id: str) -> int:
        async with translate_errors(name):
            return int(
                (
                    await self.node(name).CloseRound(node_pb2.CloseRoundRequest(round_id=round_id))
                ).accepted
            )

    async def delete(self, name: str, round_id: str) -> Signed:
        async with translate_errors(name):
            answer = await self.node(name).DeleteRound(
                node_pb2.DeleteRoundRequest(round_id=round_id)
            )
        return Signed.from_bytes(answer.discard)

    async def watch(self, name: str, round_id: str) -> AsyncIterator[node_pb2.WatchRoundResponse]:
        async with translate_errors(name):
            async for status in self.node(name).WatchRound(
                node_pb2.WatchRoundRequest(round_id=round_id)
            ):
                yield status

    async def until(self, name: str, round_id: str, *phases: int) -> node_pb2.WatchRoundResponse:
        async for status in self.watch(name, round_id):
            if status.phase in phases:
                return status
        raise AssertionError("the stream ended in another phase")

    async def ended(self, name: str, round_id: str) -> node_pb2.WatchRoundResponse:
        return await self.until(
            name, round_id, node_pb2.ROUND_PHASE_DONE, node_pb2.ROUND_PHASE_FAILED
        )

    async def status(self, name: str, round_id: str) -> node_pb2.WatchRoundResponse:
        async for status in self.watch(name, round_id):
            return status
        raise AssertionError("no status")

    async def submit(
        self, submission: Submission, name: str = "node-1", caller: str = "client"
    ) -> Receipt:
        if not self.streams:
            whole = node_pb2.SubmitWholeRequest(
                header=submission.header, envelope=submission.envelope
            )
            return verify_from(
                self.roster.party(name), await self.send_whole(whole, name, caller), Receipt
            )
        parts = [node_pb2.SubmitRequest(header=submission.header)]
        parts += [
            node_pb2.SubmitRequest(chunk=batch_pb2.Chunk(offset=offset, data=data))
            for offset, data in chunks(submission.envelope, max(200, len(submission.envelope) // 3))
        ]
        signed = await self.send_submission(parts, name, caller)
        return verify_from(self.roster.party(name), signed, Receipt)

    async def send_submission(
        self, parts: Iterable[node_pb2.SubmitRequest], name: str = "node-1", caller: str = "client"
    ) -> Signed:
        async with translate_errors(name):
            return Signed.from_bytes(
                (await self.node(name, caller).Submit(iter(list(parts)))).receipt
            )

    async def send_whole(
        self, whole: node_pb2.SubmitWholeRequest, name: str = "node-1", caller: str = "client"
    ) -> Signed:
        async with translate_errors(name):
            return Signed.from_bytes((await self.node(name, caller).SubmitWhole(whole)).receipt)

    async def add_batch(
        self, header: Signed | bytes, data: bytes, name: str = "node-2", caller: str = "node-1"
    ) -> None:
        raw = header if isinstance(header, bytes) else header.to_bytes()
        parts = [batch_pb2.AddBatchRequest(header=raw)]
        parts += [
            batch_pb2.AddBatchRequest(chunk=batch_pb2.Chunk(offset=offset, data=piece))
            for offset, piece in chunks(data)
        ]
        async with translate_errors(name):
            await batch_pb2_grpc.BatchSinkStub(self.channel(name, caller)).AddBatch(iter(parts))

    # ---------------------------------------------------------------- documents

    def round(self, mechanism: Mechanism = MECHANISM, **changes: Any) -> Round:
        round_id = secrets.token_hex(16)
        fields: dict[str, Any] = {
            "deployment": self.roster.deployment,
            "round_id": round_id,
            "stage": "plan",
            "population": POPULATION,
            "mechanism": mechanism,
            "users": 2,
            "honest": 2,
            "route": tuple(self.names),
            "adjacency": Adjacency.STANDARD,
            "max_distance": 3,
            "delta": 1e-6,
            "epsilon": EpsilonBounds(certified=1.0, attained=0.9),
            "corrupted": CorruptedGuarantee(epsilon=4.0, delta=0.0),
            "standard_error": 1.0,
            "assumptions": (),
            "basis": (),
            "holds": True,
            "ledger": LedgerPosition(entry=next(self.entries), spent=1.0, delta=1e-6, limit=10.0),
            "issued_at": system_clock(),
            "expires_at": system_clock() + 3_600_000,
        } | changes
        certificate = self.deployment.identity_of("accountant").sign(Certificate(**fields))
        geometry = Geometry.of(mechanism, "sealed-box", len(self.names))
        return Round(fields["round_id"], certificate, geometry)

    def manifest(self, round_: Round, **changes: Any) -> Signed:
        fields: dict[str, Any] = {
            "deployment": self.roster.deployment,
            "round_id": round_.round_id,
            "certificate": round_.certificate,
            "route": round_.keys,
            "geometry": round_.geometry,
            "min_reports": 2,
            "max_reports": 1000,
            "opens_at": system_clock() - 1000,
            "closes_at": system_clock() + 600_000,
        } | changes
        return self.deployment.identity_of("analyst").sign(Manifest(**fields))

    async def prepare_all(self, round_: Round) -> Round:
        keys = [
            await self.prepare(name, round_.certificate, place)
            for place, name in enumerate(self.names, 1)
        ]
        round_.keys = tuple(keys)
        return round_

    async def open(self, mechanism: Mechanism = MECHANISM, **changes: Any) -> Round:
        """A round that every node has countersigned; `changes` are of the manifest."""
        round_ = await self.prepare_all(self.round(mechanism))
        round_.manifest = self.manifest(round_, **changes)
        for name in self.names:
            await self.set_manifest(name, round_.manifest)
        return round_

    def user(self) -> User:
        key = Ed25519PrivateKey.generate()
        credential = Credential(
            population=POPULATION, public_key=key.public_key().public_bytes_raw().hex()
        )
        return User(key, self._enrolment.sign(credential))

    def messages(self, geometry: Geometry) -> list[bytes]:
        return [
            bytes(geometry.symbol_bytes) + secrets.token_bytes(16)
            for _ in range(geometry.messages_per_user)
        ]

    def submission(
        self,
        round_: Round,
        user: User | None = None,
        *,
        envelope: bytes | None = None,
        round_id: str | None = None,
    ) -> Submission:
        who = user or self.user()
        messages = self.messages(round_.geometry)
        sealed = envelope
        if sealed is None:
            sealed = seal_envelope(round_.geometry, round_.round_id, round_.public_keys(), messages)
        name = who.key.public_key().public_bytes_raw().hex()
        said = round_id or round_.round_id
        claim = SubmissionClaim(round_id=said, credential=name, envelope_digest=digest(sealed))
        header = node_pb2.SubmissionHeader(
            round_id=round_.round_id,
            credential=who.credential.to_bytes(),
            claim=sign(claim, name, who.key).to_bytes(),
        )
        return Submission(header, sealed, messages, name)

    def header(
        self, round_: Round, data: bytes, reports: int, signer: str = "node-1", **changes: Any
    ) -> Signed:
        fields: dict[str, Any] = {
            "round_id": round_.round_id,
            "position": 2,
            "users": reports,
            "records": reports * round_.geometry.messages_per_user,
            "digest": digest(data),
        } | changes
        return self.deployment.identity_of(signer).sign(BatchHeader(**fields))

    def board(self, round_: Round) -> list[bytes]:
        """The plain messages the analyst got, in mixed order."""
        data, width = self.sink.batches[round_.round_id], round_.geometry.plain_bytes
        return [data[start : start + width] for start in range(0, len(data), width)]


def garbage_inside(round_: Round) -> bytes:
    """An envelope that the entry node opens, around onions that do not."""
    inside = secrets.token_bytes(
        round_.geometry.messages_per_user * round_.geometry.record_bytes(2)
    )
    return suite_named(round_.geometry.suite).sealer(
        round_.public_keys()[0], binding(round_.round_id, 1)
    )(inside)


def manifest_digest(round_: Round) -> str:
    assert round_.manifest is not None
    return document_digest(round_.manifest)
