"""Calls to the nodes and the accountant.

Every call has its own channel, so that a restarted party is found at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Sequence,
)
from contextlib import aclosing, asynccontextmanager
from typing import Final, TypeVar

import grpc
import structlog

from shuffledp_analyst.config import AnalystConfig
from shuffledp_analyst.progress import DONE, FAILED, MIXING, OPEN, RELAYING, NodeStatus
from shuffledp_core.documents.models import Discard, Party, Roster, RoundPlan
from shuffledp_core.documents.signed import Signed, to_json
from shuffledp_core.errors import ForeignDocumentError, ShuffleDPError, UnreachableError
from shuffledp_core.runtime.keys import verify_from
from shuffledp_core.transport.chunks import chunks
from shuffledp_core.transport.instances import Instances, now
from shuffledp_core.transport.receiving import gather
from shuffledp_core.transport.rpc_errors import translate_errors
from shuffledp_core.transport.tls import channel_to
from shuffledp_proto.v1 import (
    accountant_pb2,
    accountant_pb2_grpc,
    batch_pb2,
    node_pb2,
    node_pb2_grpc,
)

RETRY_SECONDS: Final = 0.2
"""First pause before an unanswered call is repeated; it doubles up to `MAX_RETRY_SECONDS`."""

MAX_RETRY_SECONDS: Final = 5.0

_PHASES: Final = {
    node_pb2.ROUND_PHASE_OPEN: OPEN,
    node_pb2.ROUND_PHASE_MIXING: MIXING,
    node_pb2.ROUND_PHASE_RELAYING: RELAYING,
    node_pb2.ROUND_PHASE_DONE: DONE,
    node_pb2.ROUND_PHASE_FAILED: FAILED,
}

T = TypeVar("T")


class Peers:
    """Calls to the other parties of the deployment. Errors are typed; see `rpc_errors`."""

    def __init__(self, config: AnalystConfig, roster: Roster) -> None:
        self._config = config
        self.roster = roster
        self.history_memory = config.history_memory
        self._instances = Instances()
        self.accountant: Party = roster.accountant

    def node(self, name: str) -> Party:
        """The roster's entry of a node."""
        return self.roster.party(name)

    @asynccontextmanager
    async def _nodes(self, name: str) -> AsyncIterator[node_pb2_grpc.NodeAsyncStub]:
        async with self._channel(self.node(name)) as channel:
            yield node_pb2_grpc.NodeStub(channel)

    @asynccontextmanager
    async def _accountants(self) -> AsyncIterator[accountant_pb2_grpc.AccountantAsyncStub]:
        async with self._channel(self.accountant) as channel:
            yield accountant_pb2_grpc.AccountantStub(channel)

    @asynccontextmanager
    async def _channel(self, party: Party) -> AsyncIterator[grpc.aio.Channel]:
        """Context with a channel to the party.

        Errors in this block name the party, because a result shows only their text.
        """
        async with channel_to(party, self._config.keys, self.roster) as channel:
            sent_at = now()
            try:
                async with translate_errors(party.name):
                    try:
                        yield channel
                    except grpc.aio.AioRpcError as error:
                        if (
                            party != self.accountant
                        ):  # several may share one ledger, behind one address
                            self._instances.check(
                                party.name, error.trailing_metadata() or (), sent_at
                            )
                        raise
            except ShuffleDPError as error:
                if str(error).startswith(party.name):
                    raise
                raise type(error)(f"{party.name}: {error}") from error

    async def certify(self, round_id: str, plan: RoundPlan) -> tuple[Signed, bytes]:
        """Request the plan's certificate, which charges the ledger; unverified.

        Also returns the proof that it is in the public log, which is empty if devices need none.
        """
        request = accountant_pb2.CertifyRequest(round_id=round_id, plan=to_json(plan))
        async with self._accountants() as stub:
            response = await stub.Certify(request, timeout=self._config.certify_seconds)
        return Signed.from_bytes(response.certificate), response.log_proof

    async def settle(
        self, round_id: str, accepted: int, headers: Sequence[Signed], invalid: int
    ) -> Signed:
        """Request the final certificate, from the batch headers of all nodes in route order.

        The certificate is not verified yet.
        """
        request = accountant_pb2.SettleRequest(
            round_id=round_id,
            accepted=accepted,
            headers=[header.to_bytes() for header in headers],
            invalid=invalid,
        )
        async with self._accountants() as stub:
            response = await stub.Settle(request, timeout=self._config.certify_seconds)
        return Signed.from_bytes(response.certificate)

    async def log_result(self, round_id: str, digest: str) -> bytes:
        """Have a result added to the public log; return the proof of that.

        The proof is not verified yet; it is empty if devices need none.
        """
        request = accountant_pb2.LogResultRequest(round_id=round_id, digest=digest)
        async with self._accountants() as stub:
            response = await stub.LogResult(request, timeout=self._config.call_seconds)
        return response.log_proof

    async def release(self, round_id: str, discards: Sequence[Signed]) -> None:
        """Ask the accountant to release the round's reservation."""
        request = accountant_pb2.ReleaseRequest(
            round_id=round_id, discards=[discard.to_bytes() for discard in discards]
        )
        async with self._accountants() as stub:
            await stub.Release(request, timeout=self._config.call_seconds)

    async def prepare(
        self,
        name: str,
        position: int,
        certificate: Signed,
        suite: str,
        before: Sequence[Signed] = (),
    ) -> Signed:
        """Request a node's round key; unverified.

        `before`: the round keys of the nodes before this one, in a verified round.
        """
        route = [key.to_bytes() for key in before]
        request = node_pb2.PrepareRoundRequest(
            certificate=certificate.to_bytes(), position=position, suite=suite, route=route
        )
        async with self._nodes(name) as stub:
            sent_at = now()
            call = stub.PrepareRound(request, timeout=self._config.call_seconds)
            response = await call
            self._instances.check(name, await call.trailing_metadata(), sent_at)
        return Signed.from_bytes(response.round_key)

    async def set_manifest(self, name: str, manifest: Signed) -> Signed:
        """Request a node's countersignature of the manifest; unverified."""
        request = node_pb2.SetManifestRequest(manifest=manifest.to_bytes())
        async with self._nodes(name) as stub:
            sent_at = now()
            call = stub.SetManifest(request, timeout=self._config.call_seconds)
            response = await call
            self._instances.check(name, await call.trailing_metadata(), sent_at)
        return Signed.from_bytes(response.countersignature)

    async def close(self, name: str, round_id: str) -> int:
        """Close the submissions at the entry node; return the number that it accepted."""
        async with self._nodes(name) as stub:
            response = await stub.CloseRound(
                node_pb2.CloseRoundRequest(round_id=round_id), timeout=self._config.call_seconds
            )
        return response.accepted

    async def delete(self, name: str, round_id: str) -> tuple[Signed, bool]:
        """Delete a round at a node; return its discard, and True if the node sent anything."""
        async with self._nodes(name) as stub:
            response = await stub.DeleteRound(
                node_pb2.DeleteRoundRequest(round_id=round_id), timeout=self._config.call_seconds
            )
        signed = Signed.from_bytes(response.discard)
        discard = verify_from(self.node(name), signed, Discard)
        # A genuine discard of another round must not pass for this one: the accountant releases on
        # these.
        if (discard.round_id, discard.node) != (round_id, name):
            raise ForeignDocumentError(
                f"{name} answered with a discard of round {discard.round_id}, not of {round_id}"
            )
        return signed, discard.forwarded

    async def dummies(self, name: str, round_id: str, most: int) -> bytes:
        """Fetch a node's claim and sealed dummies, unverified, of limited length."""
        async with self._nodes(name) as stub:
            request = node_pb2.GetDummiesRequest(round_id=round_id)
            return await gather(
                _pieces(stub.GetDummies(request, timeout=self._config.mix_timeout_seconds)), most
            )

    async def set_dummies(self, entry: str, round_id: str, dummies: bytes) -> None:
        """Send the entry node the claim and sealed dummies of another node."""

        async def requests() -> AsyncIterator[node_pb2.SetDummiesRequest]:
            yield node_pb2.SetDummiesRequest(round_id=round_id)
            for offset, data in chunks(dummies):
                yield node_pb2.SetDummiesRequest(chunk=batch_pb2.Chunk(offset=offset, data=data))

        async with self._nodes(entry) as stub:
            await stub.SetDummies(requests(), timeout=self._config.mix_timeout_seconds)

    async def accusation(self, name: str, round_id: str, most: int) -> bytes:
        """Fetch a node's packed, unverified accusation, of limited length."""
        async with self._nodes(name) as stub:
            request = node_pb2.GetAccusationRequest(round_id=round_id)
            return await gather(
                _pieces(stub.GetAccusation(request, timeout=self._config.mix_timeout_seconds)), most
            )

    async def answer(self, name: str, round_id: str, inquiry: bytes, most: int) -> bytes:
        """Fetch a node's packed, unverified answer to an inquiry, of limited length."""

        async def requests() -> AsyncIterator[node_pb2.AnswerRequest]:
            yield node_pb2.AnswerRequest(round_id=round_id)
            for offset, data in chunks(inquiry):
                yield node_pb2.AnswerRequest(chunk=batch_pb2.Chunk(offset=offset, data=data))

        async with self._nodes(name) as stub:
            return await gather(
                _pieces(stub.Answer(requests(), timeout=self._config.mix_timeout_seconds)), most
            )

    async def settle_accusation(self, name: str, round_id: str, transcript: bytes) -> None:
        """Send a node the transcript of its accusation."""

        async def requests() -> AsyncIterator[node_pb2.SettleAccusationRequest]:
            yield node_pb2.SettleAccusationRequest(round_id=round_id)
            for offset, data in chunks(transcript):
                yield node_pb2.SettleAccusationRequest(
                    chunk=batch_pb2.Chunk(offset=offset, data=data)
                )

        async with self._nodes(name) as stub:
            await stub.SettleAccusation(requests(), timeout=self._config.mix_timeout_seconds)

    async def watch(self, name: str, round_id: str) -> AsyncIterator[NodeStatus]:
        """Yield a node's status at every change, across its restarts, until the round ends.

        Raises:
            UnreachableError: the node was unreachable for longer than `recovery_seconds`.
            UnknownRoundError: the node has lost the round.
        """
        loop = asyncio.get_running_loop()
        lost: float | None = None
        pause = RETRY_SECONDS
        while True:
            try:
                async with aclosing(self._watch_once(name, round_id)) as statuses:
                    async for status in statuses:
                        lost, pause = None, RETRY_SECONDS
                        yield status
                        if status.last:
                            return
            except UnreachableError as error:
                if lost is not None and loop.time() - lost > self._config.recovery_seconds:
                    raise UnreachableError(
                        f"{name} has been unreachable for more than "
                        f"{self._config.recovery_seconds} s: {error}"
                    ) from error
            # Also where the stream just ended, as that of a deleted round does: the next call says
            # why.
            lost = loop.time() if lost is None else lost
            await asyncio.sleep(pause)
            pause = min(2 * pause, MAX_RETRY_SECONDS)

    async def _watch_once(self, name: str, round_id: str) -> AsyncGenerator[NodeStatus]:
        async with self._nodes(name) as stub:
            async for status in stub.WatchRound(node_pb2.WatchRoundRequest(round_id=round_id)):
                yield NodeStatus(
                    phase=_PHASES.get(status.phase, ""),
                    accepted=status.accepted,
                    done=status.done,
                    total=status.total,
                    seconds={MIXING: status.mixing_seconds, RELAYING: status.relaying_seconds},
                    error=status.error,
                    reason=status.reason,
                    header=status.header,
                    accused=status.accused,
                )

    async def persistently(
        self, call: Callable[[], Awaitable[T]], seconds: float | None = None
    ) -> T:
        """Repeat an idempotent call until its party answers.

        Args:
            call: the call to repeat.
            seconds: how long to repeat it; None for `recovery_seconds`.

        Raises:
            UnreachableError: the party did not answer in that time. Other errors are raised at
                once.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (self._config.recovery_seconds if seconds is None else seconds)
        pause = RETRY_SECONDS
        while True:
            try:
                return await call()
            except UnreachableError as error:
                if loop.time() + pause > deadline:
                    raise
                structlog.get_logger().warning("party unreachable; retrying", reason=str(error))
            await asyncio.sleep(pause)
            pause = min(2 * pause, MAX_RETRY_SECONDS)


async def _pieces(
    answers: AsyncIterable[node_pb2.GetAccusationResponse]
    | AsyncIterable[node_pb2.AnswerResponse]
    | AsyncIterable[node_pb2.GetDummiesResponse],
) -> AsyncIterator[tuple[int, bytes]]:
    async for answer in answers:
        yield answer.chunk.offset, answer.chunk.data
