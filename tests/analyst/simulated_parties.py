"""A simulated accountant and simulated nodes for the analyst under test: real gRPC, TLS and
documents, chosen faults.

They verify what they receive as the real parties do and sign what they answer; only the onions are
left out."""

# ruff: noqa: ARG002, N802 - gRPC names the methods and hands every one a request and a context

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import grpc
from grpc.aio import Server

from shuffledp_core.documents.digests import digest, document_digest
from shuffledp_core.documents.headers import check_headers
from shuffledp_core.documents.losses import NO_LOSSES, Losses, honest_reports
from shuffledp_core.documents.models import (
    BatchHeader,
    Certificate,
    CorruptedGuarantee,
    Countersignature,
    Discard,
    EpsilonBounds,
    LedgerPosition,
    Manifest,
    RoundKey,
    RoundPlan,
)
from shuffledp_core.documents.signed import Signed, from_json, sign
from shuffledp_core.errors import (
    BudgetExceeded,
    LedgerAwayError,
    LedgerError,
    PolicyRefusal,
    RoundStateError,
    ShuffleDPError,
    TooFewReportsError,
    UnknownRoundError,
)
from shuffledp_core.mechanisms import KRRHistogram, Mechanism, RRShuffle
from shuffledp_core.onion.suites import suite_named
from shuffledp_core.runtime.clock import system_clock
from shuffledp_core.runtime.keys import verify_from
from shuffledp_core.transport.rpc_errors import TypedErrors
from shuffledp_core.transport.tls import server_credentials, server_options
from shuffledp_core.transport.tls_files import TLSFiles
from shuffledp_core.vocabulary import Mix
from shuffledp_ops.keys.pki import Deployment
from shuffledp_proto.v1 import accountant_pb2, accountant_pb2_grpc, node_pb2, node_pb2_grpc

ROUTE = ("node-1", "node-2", "node-3")
ANALYST_ONLY = frozenset({"analyst"})
Context = grpc.aio.ServicerContext[Any, Any]


class Happened:
    """Wakes whoever waits for something among the simulated parties."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def now(self) -> asyncio.Event:
        """What will be set at the next change."""
        return self._event

    def touch(self) -> None:
        self._event.set()
        self._event = asyncio.Event()

    async def until(self, predicate: Callable[[], bool]) -> None:
        """Returns once the predicate holds; the test's own time limit ends a wait in vain."""
        while not predicate():
            await self._event.wait()


@dataclass
class Served:
    """A gRPC server that can die and come back at its address."""

    deployment: Deployment
    name: str
    service: str
    faults: set[str] = field(default_factory=set)
    happened: Happened = field(default_factory=Happened)
    address: str = ""
    """Where it listens, if not where the roster says."""
    _server: Server | None = None

    def register(self, server: Server) -> None:
        raise NotImplementedError

    async def start(self) -> None:
        roster = self.deployment.roster
        methods = [f"/{self.service}/{name}" for name in dir(self) if name[0].isupper()]
        self._server = grpc.aio.server(
            interceptors=[TypedErrors(roster, dict.fromkeys(methods, ANALYST_ONLY))],
            options=server_options(),
        )
        self.register(self._server)
        credentials = server_credentials(
            TLSFiles.load(self.deployment.keys_of(self.name), roster.tls_authority)
        )
        self._server.add_secure_port(self.address or roster.party(self.name).address, credentials)
        await self._server.start()

    async def die(self) -> None:
        if self._server is not None:
            await self._server.stop(None)
            self._server = None


@dataclass
class SimulatedAccountant(Served, accountant_pb2_grpc.AccountantServicer):
    """Certifies any plan, and keeps a ledger that a test can read.

    Faults: "refuses", "wrong-key", "other-plan",
    "not-holding", "no-settlement", "other-settlement", "dies-at-settlement",
    "away-at-settlement", "no-ledger"."""

    service: str = "shuffledp_proto.v1.Accountant"
    plans: dict[str, RoundPlan] = field(default_factory=dict)
    ledger: dict[str, str] = field(default_factory=dict)
    settlements: list[str] = field(default_factory=list)
    """Every round that a settlement was asked for."""
    logged: list[tuple[str, str]] = field(default_factory=list)
    """Every round whose result was to be logged, with its digest."""

    def register(self, server: Server) -> None:
        accountant_pb2_grpc.add_AccountantServicer_to_server(self, server)

    def mechanism(self, asked: RoundPlan) -> Mechanism:
        if asked.mechanism == KRRHistogram.kind:
            return KRRHistogram(symbols=asked.size, blanket=Fraction(1, 2))
        return RRShuffle(max_value=asked.size, randomise=Fraction(1, 4))

    def certificate(
        self, round_id: str, stage: str, users: int, losses: Losses = NO_LOSSES
    ) -> bytes:
        asked = self.plans[round_id]
        more = stage == "final" and "forgets-losses" in self.faults
        document = Certificate(
            deployment=self.deployment.roster.deployment,
            round_id=round_id,
            stage=stage,
            population=asked.population,
            mechanism=self.mechanism(asked),
            users=users,
            honest=honest_reports(
                users,
                asked.min_reports,
                asked.honest,
                self.mechanism(asked),
                losses,
                verified=asked.mix == Mix.VERIFIED,
            )
            + more,
            route=asked.route,
            adjacency=asked.adjacency,
            max_distance=asked.size,
            delta=asked.delta,
            epsilon=EpsilonBounds(certified=0.9, attained=0.8),
            corrupted=CorruptedGuarantee(epsilon=2.0, delta=0.0),
            standard_error=1.0,
            assumptions=(),
            basis=(),
            holds="not-holding" not in self.faults,
            ledger=LedgerPosition(entry=1, spent=0.9, delta=1e-5, limit=5.0),
            issued_at=system_clock(),
            expires_at=system_clock() + 3_600_000,
            dropped=losses.dropped,
            invalid=losses.invalid,
        )
        signer = "node-1" if "wrong-key" in self.faults else self.name
        key = self.deployment.identity_of(signer).key
        return sign(document, self.name, key).to_bytes()

    async def Certify(
        self, request: accountant_pb2.CertifyRequest, context: Context
    ) -> accountant_pb2.CertifyResponse:
        if "refuses" in self.faults:
            raise BudgetExceeded("asked for 1.0, but 0.25 is left of 5.0")
        asked = from_json(request.plan, RoundPlan)
        self.plans[request.round_id] = asked
        self.ledger[request.round_id] = "reserved"
        users = asked.min_reports + ("other-plan" in self.faults)
        return accountant_pb2.CertifyResponse(
            certificate=self.certificate(request.round_id, "plan", users)
        )

    async def Settle(
        self, request: accountant_pb2.SettleRequest, context: Context
    ) -> accountant_pb2.SettleResponse:
        self.settlements.append(request.round_id)
        self.happened.touch()
        if "hangs-at-settlement" in self.faults:
            await asyncio.Event().wait()
        if "dies-at-settlement" in self.faults:
            self.faults.clear()
            await context.abort(grpc.StatusCode.UNAVAILABLE, "restarting")
        if "away-at-settlement" in self.faults:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "away")
        if "no-settlement" in self.faults:
            raise BudgetExceeded("the ledger says no")
        if self.ledger.get(request.round_id) not in {"reserved", "settled"}:
            raise UnknownRoundError("never certified here")
        asked = self.plans[request.round_id]
        route = [self.deployment.roster.party(name) for name in asked.route]
        words = [Signed.from_bytes(header) for header in request.headers]
        messages = self.mechanism(asked).messages_per_user
        losses = Losses(
            check_headers(words, route, request.round_id, messages, request.accepted),
            request.invalid,
        )
        self.ledger[request.round_id] = "settled"
        users = request.accepted + ("other-settlement" in self.faults)
        return accountant_pb2.SettleResponse(
            certificate=self.certificate(request.round_id, "final", users, losses)
        )

    async def LogResult(
        self, request: accountant_pb2.LogResultRequest, context: Context
    ) -> accountant_pb2.LogResultResponse:
        if "no-log" in self.faults:
            raise LedgerAwayError("too few witnesses have cosigned the public log")
        self.logged.append((request.round_id, request.digest))
        self.happened.touch()
        return accountant_pb2.LogResultResponse()

    async def Release(
        self, request: accountant_pb2.ReleaseRequest, context: Context
    ) -> accountant_pb2.ReleaseResponse:
        if "no-ledger" in self.faults:
            self.faults.clear()
            raise LedgerError("the database is away for a moment")
        if request.round_id not in self.plans:
            raise UnknownRoundError("never certified here")
        missing = set(self.plans[request.round_id].route)
        for data in request.discards:
            signed = Signed.from_bytes(data)
            discard = verify_from(self.deployment.roster.party(signed.signer), signed, Discard)
            assert discard.round_id == request.round_id
            if discard.forwarded:
                raise RoundStateError(f"{discard.node} has already forwarded")
            missing.discard(discard.node)
        if missing or self.ledger[request.round_id] != "reserved":
            raise RoundStateError(f"not to be released: {missing}")
        self.ledger[request.round_id] = "released"
        self.happened.touch()
        return accountant_pb2.ReleaseResponse()

    async def GetBudget(
        self, request: accountant_pb2.GetBudgetRequest, context: Context
    ) -> accountant_pb2.GetBudgetResponse:
        return accountant_pb2.GetBudgetResponse()


@dataclass
class NodeRound:
    """One round at a simulated node."""

    key: Signed
    manifest: Signed | None = None
    phase: int = node_pb2.ROUND_PHASE_PREPARED
    forwarded: bool = False
    error: ShuffleDPError | None = None
    reports: list[list[bytes]] = field(default_factory=list)
    header: bytes = b""


@dataclass
class SimulatedNode(Served, node_pb2_grpc.NodeServicer):
    """A node that keeps its rounds when it dies. Faults: "refuses", "wrong-key", "wrong-position",
    "other-manifest", "wrong-discard", "overcounts"; of its batch header: "no-header",
    "forged-header", "header-of-another-round", "header-of-another-position", "header-counts-more",
    "header-counts-records"; "late" (done only when told); and of the last one, at delivery:
    "short", "drops", "copies", "wrong-digest", "bad-symbol",
    "not-mine", "silent", "torn-once", "fails", "loses"; "accuses"."""

    service: str = "shuffledp_proto.v1.Node"
    rounds: dict[str, NodeRound] = field(default_factory=dict)
    mix: Callable[[str], Coroutine[Any, Any, None]] | None = None
    """What a closed entry node sets off; the world's."""
    discarded: dict[str, bytes] = field(default_factory=dict)
    rant: str = ""
    """What it says for a reason, when it has one."""
    dropped: int = 0
    """Onions that this node and those before it say they dropped in every round."""
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def register(self, server: Server) -> None:
        node_pb2_grpc.add_NodeServicer_to_server(self, server)

    def phase(self, round_id: str, phase: int) -> None:
        self.rounds[round_id].phase = phase
        self.happened.touch()

    def done(self, round_id: str, users: int, data: bytes) -> None:
        """The batch of so many reports is relayed; the header says so, but for the faults."""
        more, records = "header-counts-more" in self.faults, "header-counts-records" in self.faults
        document = BatchHeader(
            round_id="ab" * 16 if "header-of-another-round" in self.faults else round_id,
            position=ROUTE.index(self.name) + 2 + ("header-of-another-position" in self.faults),
            users=users + more,
            records=(users + more) * self.manifest(round_id).geometry.messages_per_user
            + records
            - self.dropped,
            digest=digest(data),
            dropped=self.dropped,
        )
        key = self.deployment.identity_of(
            "analyst" if "forged-header" in self.faults else self.name
        ).key
        if "no-header" not in self.faults:
            self.rounds[round_id].header = sign(document, self.name, key).to_bytes()
        self.phase(round_id, node_pb2.ROUND_PHASE_DONE)

    def fail(self, round_id: str, error: ShuffleDPError) -> None:
        self.rounds[round_id].error = error
        self.phase(round_id, node_pb2.ROUND_PHASE_FAILED)

    def known(self, round_id: str) -> NodeRound:
        if round_id not in self.rounds:
            raise UnknownRoundError(f"round {round_id} is not known here")
        return self.rounds[round_id]

    async def PrepareRound(
        self, request: node_pb2.PrepareRoundRequest, context: Context
    ) -> node_pb2.PrepareRoundResponse:
        if "refuses" in self.faults:
            raise PolicyRefusal("this node takes no part in rounds on Fridays")
        signed = Signed.from_bytes(request.certificate)
        certificate = verify_from(self.deployment.roster.accountant, signed, Certificate)
        assert certificate.round_id not in self.discarded
        assert certificate.stage == "plan"
        _, public = suite_named(request.suite).generate()
        key = RoundKey(
            deployment=certificate.deployment,
            round_id=certificate.round_id,
            node=self.name,
            position=request.position + ("wrong-position" in self.faults),
            suite=request.suite,
            public_key=public.hex(),
            certificate_digest=document_digest(signed),
            corrupt="corrupt" in self.faults,
        )
        signer = "accountant" if "wrong-key" in self.faults else self.name
        answer = self.deployment.identity_of(signer).sign(key)
        self.rounds[certificate.round_id] = NodeRound(answer)
        return node_pb2.PrepareRoundResponse(round_key=answer.to_bytes())

    async def SetManifest(
        self, request: node_pb2.SetManifestRequest, context: Context
    ) -> node_pb2.SetManifestResponse:
        signed = Signed.from_bytes(request.manifest)
        manifest = verify_from(self.deployment.roster.analyst, signed, Manifest)
        mine = self.known(manifest.round_id)
        assert mine.key in manifest.route
        assert [
            verify_from(self.deployment.roster.party(key.signer), key, RoundKey).position
            for key in manifest.route
        ]
        assert manifest.opens_at < manifest.closes_at
        mine.manifest = signed
        self.phase(manifest.round_id, node_pb2.ROUND_PHASE_OPEN)
        word = Countersignature(
            round_id=manifest.round_id,
            node=self.name,
            manifest_digest="00" if "other-manifest" in self.faults else document_digest(signed),
        )
        countersignature = self.deployment.identity_of(self.name).sign(word)
        return node_pb2.SetManifestResponse(countersignature=countersignature.to_bytes())

    async def CloseRound(
        self, request: node_pb2.CloseRoundRequest, context: Context
    ) -> node_pb2.CloseRoundResponse:
        mine = self.known(request.round_id)
        manifest = self.manifest(request.round_id)
        if len(mine.reports) < manifest.min_reports:
            error = TooFewReportsError(
                f"{len(mine.reports)} reports are fewer than {manifest.min_reports}"
            )
            self.fail(request.round_id, error)
            raise error
        if mine.phase == node_pb2.ROUND_PHASE_OPEN:
            self.phase(request.round_id, node_pb2.ROUND_PHASE_MIXING)
            assert self.mix is not None
            self._tasks.append(asyncio.ensure_future(self.mix(request.round_id)))
        return node_pb2.CloseRoundResponse(
            accepted=len(mine.reports) + 1000 * ("overcounts" in self.faults)
        )

    async def DeleteRound(
        self, request: node_pb2.DeleteRoundRequest, context: Context
    ) -> node_pb2.DeleteRoundResponse:
        if request.round_id not in self.discarded:
            mine = self.rounds.pop(request.round_id, None)
            forwarded = mine is not None and mine.forwarded
            document = Discard(round_id=request.round_id, node=self.name, forwarded=forwarded)
            signer = "accountant" if "wrong-discard" in self.faults else self.name
            self.discarded[request.round_id] = (
                self.deployment.identity_of(signer).sign(document).to_bytes()
            )
            self.happened.touch()
        return node_pb2.DeleteRoundResponse(discard=self.discarded[request.round_id])

    async def GetAccusation(
        self, request: node_pb2.GetAccusationRequest, context: Context
    ) -> AsyncIterator[node_pb2.GetAccusationResponse]:
        raise RoundStateError("plain rounds accuse nobody")
        yield node_pb2.GetAccusationResponse()

    async def Answer(
        self, request_iterator: AsyncIterator[node_pb2.AnswerRequest], context: Context
    ) -> AsyncIterator[node_pb2.AnswerResponse]:
        raise RoundStateError("plain rounds accuse nobody")
        yield node_pb2.AnswerResponse()

    async def SettleAccusation(
        self, request_iterator: AsyncIterator[node_pb2.SettleAccusationRequest], context: Context
    ) -> node_pb2.SettleAccusationResponse:
        raise RoundStateError("plain rounds accuse nobody")

    async def GetDummies(
        self, request: node_pb2.GetDummiesRequest, context: Context
    ) -> AsyncIterator[node_pb2.GetDummiesResponse]:
        raise RoundStateError("nodes of plain rounds send no dummies")
        yield node_pb2.GetDummiesResponse()

    async def SetDummies(
        self, request_iterator: AsyncIterator[node_pb2.SetDummiesRequest], context: Context
    ) -> node_pb2.SetDummiesResponse:
        raise RoundStateError("nodes of plain rounds send no dummies")

    async def WatchRound(
        self, request: node_pb2.WatchRoundRequest, context: Context
    ) -> AsyncIterator[node_pb2.WatchRoundResponse]:
        self.known(request.round_id)
        while request.round_id in self.rounds:
            changed, mine = self.happened.now(), self.rounds[request.round_id]
            yield node_pb2.WatchRoundResponse(
                phase=node_pb2.RoundPhase.ValueType(mine.phase),
                accepted=len(mine.reports),
                done=7 if mine.phase == node_pb2.ROUND_PHASE_MIXING else 0,
                total=9,
                mixing_seconds=0.25 if mine.phase == node_pb2.ROUND_PHASE_DONE else 0.0,
                relaying_seconds=0.5 if mine.phase == node_pb2.ROUND_PHASE_DONE else 0.0,
                error="" if mine.error is None else type(mine.error).__name__,
                reason="" if mine.error is None else self.rant or str(mine.error),
                header=mine.header,
                accused=1 if "accuses" in self.faults else 0,
            )
            if mine.phase in {node_pb2.ROUND_PHASE_DONE, node_pb2.ROUND_PHASE_FAILED}:
                return
            await changed.wait()

    def manifest(self, round_id: str) -> Manifest:
        signed = self.known(round_id).manifest
        assert signed is not None
        return from_json(signed.body, Manifest)

    async def Submit(
        self, request_iterator: AsyncIterator[node_pb2.SubmitRequest], context: Context
    ) -> node_pb2.SubmitResponse:
        raise RoundStateError("simulated reports come from the test itself")

    def SubmitMany(
        self, request_iterator: AsyncIterator[node_pb2.SubmitManyRequest], context: Context
    ) -> AsyncIterator[node_pb2.SubmitManyResponse]:
        raise RoundStateError("simulated reports come from the test itself")

    async def SubmitWhole(
        self, request: node_pb2.SubmitWholeRequest, context: Context
    ) -> node_pb2.SubmitWholeResponse:
        raise RoundStateError("simulated reports come from the test itself")

    async def shut(self) -> None:
        await self.die()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
