"""The stages of an open round: submissions, batch, decoding, settlement, publication."""

from __future__ import annotations

import asyncio
import time
from typing import Final

import msgspec
import numpy as np

from shuffledp_analyst.disk import write_when_room
from shuffledp_analyst.metrics import PUBLISHED
from shuffledp_analyst.opening import check_final_certificate
from shuffledp_analyst.progress import ACCEPTING, CERTIFYING, DECODING, Event
from shuffledp_analyst.round import RoundStage
from shuffledp_analyst.running import RunningRound
from shuffledp_analyst.watching import run_beside
from shuffledp_core.answering.decoding import Bytes, decode
from shuffledp_core.answering.estimation import estimate
from shuffledp_core.documents.digests import digest, document_digest
from shuffledp_core.documents.headers import check_headers
from shuffledp_core.documents.losses import Losses
from shuffledp_core.documents.models import BatchHeader, HistoryDigest, Result
from shuffledp_core.errors import (
    CountMismatchError,
    RoundFailed,
    ShuffleDPError,
    UnansweredError,
    UnreachableError,
)
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.runtime.tasks import in_thread
from shuffledp_core.transparency.board_tiles import TiledBoard
from shuffledp_core.vocabulary import Mix, Outcome

MAX_ATTEMPTS: Final = 3
"""Number of attempts to decode a batch if each of them kills the process."""


async def accept_submissions(running: RunningRound) -> None:
    """Wait for the closing time, then close submissions at the entry node.

    In a verified round with dummies, it meanwhile gets those of the other nodes.
    """
    services, plan = running.services, running.round.plan
    started = time.monotonic()
    if running.round.stage is RoundStage.OPEN:
        await _collect_dummies(running)
        # Before the call, whose answer a crash may lose: the entry node may then have closed, and
        # sent its batch.
        await running.write(running.files.mark_closing)
        running.round.end_submissions()
    accepted = await services.peers.persistently(
        lambda: services.peers.close(plan.route[0], running.round_id)
    )
    running.round.close(accepted)
    services.withdraw(running.round_id)
    seconds = time.monotonic() - started
    running.progress.report(
        Event(ACCEPTING, done=accepted, total=plan.max_reports, seconds=seconds)
    )
    running.log.info("submissions closed", accepted=accepted)


async def _collect_dummies(running: RunningRound) -> None:
    geometry = running.announced()[1].geometry
    senders = running.round.plan.route[1:]
    if not (geometry.mix == Mix.VERIFIED and geometry.dummies_per_node):
        senders = ()
    # Beside the submissions: a node that does not send its dummies fails the round at once.
    bringing = [
        asyncio.ensure_future(run_beside(running, _bring_dummies, name)) for name in senders
    ]
    try:
        await _await_closing_time(running)
        await asyncio.gather(*bringing)
    finally:
        for task in bringing:
            task.cancel()


async def _bring_dummies(running: RunningRound, name: str) -> None:
    """Forward the dummies of the node with this name to the entry node, which checks them."""
    peers, round_id = running.services.peers, running.round_id
    entry = running.round.plan.route[0]
    most = running.announced()[1].geometry.dummies_bytes
    try:
        dummies = await peers.persistently(lambda: peers.dummies(name, round_id, most))
    except ShuffleDPError as error:  # an unsigned answer proves no guilt
        raise UnansweredError(f"no answer from {name}: {error}") from error
    await peers.persistently(lambda: peers.set_dummies(entry, round_id, dummies))


async def _await_closing_time(running: RunningRound) -> None:
    left = (running.announced()[1].closes_at - running.services.clock()) / 1000
    try:
        await asyncio.wait_for(running.close_now.wait(), max(left, 0.0))
    except TimeoutError:
        running.log.info("closing time reached")


async def await_batch(running: RunningRound) -> float:
    """Wait for the batch; return the deadline of mixing, in the event loop's time."""
    services = running.services
    seconds = services.config.mix_timeout_seconds
    # From the disk: a round that kills this process repeatedly before it has its batch ends at some
    # time.
    now = services.clock()
    closed_at = await running.write(running.files.closed_at, now)
    left = seconds - max(0, now - closed_at) / 1000
    # Perhaps delivered to an earlier process: the nodes need time to report again that they are
    # done.
    if running.delivered.is_set():
        left = max(left, services.config.recovery_seconds)
    deadline = asyncio.get_running_loop().time() + left
    try:
        async with asyncio.timeout_at(deadline):
            await running.delivered.wait()
    except TimeoutError as error:
        raise UnreachableError(
            f"the last node, {running.round.plan.route[-1]}, delivered no batch within {seconds} "
            "s after submissions closed; check the nodes' status, or raise mix_timeout_seconds"
        ) from error
    return deadline


async def await_headers(running: RunningRound, deadline: float) -> None:
    """Wait until every node has reported its batch header."""
    try:
        async with asyncio.timeout_at(deadline):
            await running.relayed.wait()
    except TimeoutError as error:
        missing = [name for name in running.round.plan.route if name not in running.headers]
        seconds = running.services.config.mix_timeout_seconds
        raise UnreachableError(
            f"{', '.join(missing)}: not done within {seconds} s after submissions closed, "
            "although the batch has arrived; check the nodes' status, or raise "
            "mix_timeout_seconds"
        ) from error


async def decode_batch(running: RunningRound) -> Result:
    """Decode the batch and estimate the answer; return a result without final certificate."""
    services, plan = running.services, running.round.plan
    started = time.monotonic()
    batch = running.round.begin_decoding()[1]
    # Counted on disk before decoding begins: an out-of-memory kill leaves no other chance.
    attempts = await running.write(running.files.batch.count_attempt)
    if attempts > MAX_ATTEMPTS:
        raise RoundFailed(
            f"the analyst crashed {MAX_ATTEMPTS} times while decoding this batch; it may be out of "
            "memory: raise its memory limit, then open a new round"
        )
    signed, certificate = running.certified()
    mechanism = certificate.mechanism
    geometry = Geometry.of(mechanism, plan.suite, len(plan.route), plan.mix)
    running.progress.report(Event(DECODING, total=batch.records))
    packed, board_digest, history, accepted = await _board(running, batch)
    board = await asyncio.to_thread(
        decode,
        packed,
        geometry,
        mechanism.alphabet,
        accepted,
        batch.dropped,
        mechanism.counts_of,
    )
    answer = await asyncio.to_thread(
        estimate,
        mechanism,
        board.counts,
        accepted,
        batch.dropped + board.invalid,
        nodes=geometry.hops,
    )
    if batch.dropped or board.invalid:
        running.log.warning(
            "messages lost",
            dropped=batch.dropped,
            outside_alphabet=board.outside,
            repeated_tags=board.repeated,
        )
    rows = np.frombuffer(packed, dtype=np.uint8)
    tiled = await asyncio.to_thread(TiledBoard.of, rows, geometry)
    await running.write(running.files.tiles.keep, tiled)
    running.files.batch.forget_attempts()
    seconds = time.monotonic() - started
    running.progress.report(Event(DECODING, "", board.messages, board.messages, seconds))
    services.metrics.messages.inc(board.messages)
    return Result(
        deployment=services.deployment,
        round_id=running.round_id,
        outcome=Outcome.PUBLISHED,
        accepted=accepted,
        messages=board.messages,
        board_digest=board_digest,
        estimate=answer,
        plan_certificate=signed,
        dropped=batch.dropped,
        outside_alphabet=board.outside,
        repeated_tags=board.repeated,
        history=history,
        tiles_root=tiled.root.hex(),
        manifest_digest=document_digest(running.announced()[0]),
    )


async def _board(
    running: RunningRound, batch: BatchHeader
) -> tuple[Bytes, str, HistoryDigest | msgspec.UnsetType, int]:
    """The board, its digest, the history's digest (verified rounds only), and report count.

    In a verified round the batch is decrypted first, and users whose messages fail to decrypt are
    left out.
    """
    services = running.services
    path = running.files.batch.path
    if not running.certified()[1].verified:
        packed = np.memmap(path, dtype=np.uint8, mode="r")
        return packed, batch.digest, msgspec.UNSET, batch.users
    data = await in_thread(path.read_bytes)
    opened = await running.mixing().open(batch, data, services.identity)
    await running.write(running.files.batch.keep_opened, opened.board, opened.history)
    history = HistoryDigest(digest=digest(opened.history), length=len(opened.history))
    return opened.board, digest(opened.board), history, opened.users


async def settle(running: RunningRound, draft: Result) -> Result:
    """Check all headers, have the accountant settle the round, and add the final certificate."""
    peers, round_id = running.services.peers, running.round_id
    started = time.monotonic()
    running.round.begin_certifying()
    running.progress.report(Event(CERTIFYING, total=1))
    certificate = running.certified()[1]
    losses = Losses(draft.dropped, draft.outside_alphabet + draft.repeated_tags)
    route = running.round.plan.route
    headers = [running.headers[name] for name in route]
    nodes = [peers.node(name) for name in route]
    # The accountant checks the same; here the last node's own batch is known, and its header is
    # compared with it.
    dropped = check_headers(
        headers,
        nodes,
        round_id,
        certificate.mechanism.messages_per_user,
        draft.accepted,
        excluding=certificate.verified,
        dummies_per_node=certificate.mechanism.dummies_per_node,
    )
    if dropped != losses.dropped:
        raise CountMismatchError(
            f"the last node delivered a batch with {losses.dropped} onions dropped, but now "
            f"reports {dropped}"
        )
    # The answer is there, and its budget is spent whatever happens: nothing is gained by giving up.
    signed = await peers.persistently(
        lambda: peers.settle(round_id, draft.accepted, headers, losses.invalid),
        running.services.config.settle_seconds,
    )
    check_final_certificate(signed, peers.accountant, certificate, draft.accepted, losses)
    seconds = time.monotonic() - started
    running.progress.report(Event(CERTIFYING, "", 1, 1, seconds))
    return msgspec.structs.replace(draft, final_certificate=signed, headers=tuple(headers))


async def publish(running: RunningRound, result: Result) -> None:
    """Publish the result; this is the round's commit point.

    An abort that was acknowledged just before still counts.
    """
    services = running.services
    signed = services.identity.sign(result)
    closed_at = await running.write(running.files.closed_at, services.clock())

    async def write_result() -> None:
        # No `await` in here: an abort comes before, and counts, or finds the round ended.
        if running.failure.done():
            raise running.failure.result()
        services.unlogged.add(running.round_id)
        running.files.publish(signed)
        running.round.publish()

    await write_when_room(write_result)
    services.metrics.rounds.labels(PUBLISHED).inc()
    services.metrics.seconds.observe(max(0, services.clock() - closed_at) / 1000)
    running.log.info(
        "published",
        accepted=result.accepted,
        messages=result.messages,
        seconds=running.progress.durations(),
    )
