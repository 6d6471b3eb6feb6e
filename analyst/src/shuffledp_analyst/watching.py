"""The watchers of a round's nodes, which run alongside its stages; their errors fail the round."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from shuffledp_analyst.progress import ACCEPTING, DONE, FAILED, OPEN, Event
from shuffledp_analyst.round import RoundStage
from shuffledp_analyst.running import RunningRound
from shuffledp_core.documents.headers import check_size
from shuffledp_core.documents.signed import Signed
from shuffledp_core.errors import (
    MalformedDocumentError,
    NodeFault,
    RoundStateError,
    ShuffleDPError,
    by_code,
)


async def run_beside(
    running: RunningRound, work: Callable[[RunningRound, str], Awaitable[None]], name: str
) -> None:
    """Run a task about one node alongside the round's stages; the round fails if the task does."""
    try:
        await work(running, name)
    except ShuffleDPError as error:
        running.fail(error)
    # Nothing awaits this task: without this the round would wait for its deadline.
    except Exception as error:  # noqa: BLE001
        running.fail_unforeseen(error)


async def watch_node(running: RunningRound, name: str) -> None:
    """Follow one node until it has finished; raise its failure."""
    is_entry = name == running.round.plan.route[0]
    async for status in running.services.peers.watch(name, running.round_id):
        running.statuses[name] = status
        if status.phase == FAILED:
            raise by_code(status.error)(f"{name}: {status.reason or 'it gave no reason'}")
        if status.accused:
            _trace(running, name)
        if is_entry and status.phase == OPEN:
            _count_reports(running, status.accepted)
        running.progress.report_work(name, status)
        if status.phase == DONE:
            _keep_header(running, name, status.header)


def _trace(running: RunningRound, name: str) -> None:
    """Start to trace the records that a node accuses, unless they are being traced already."""
    _require_provable(running, name)
    if name not in running.traces or running.traces[name].done():
        running.log.warning("records failed to decrypt", node=name)
        running.traces[name] = asyncio.ensure_future(run_beside(running, _settle_accusation, name))


def _require_provable(running: RunningRound, name: str) -> None:
    if not running.certified()[1].verified:
        raise NodeFault(f"{name} accuses records in a plain round, where accusations do not exist")


async def _settle_accusation(running: RunningRound, name: str) -> None:
    try:
        await running.mixing().settle(name)
    except RoundStateError as error:  # the node has gone on, or failed: its status says which
        running.log.info(
            "accusation not traced: the node no longer waits for it", node=name, reason=str(error)
        )


def _keep_header(running: RunningRound, name: str, data: bytes) -> None:
    """Store a node's header of the batch that it relayed.

    All headers are verified together, before the settlement.
    """
    try:
        check_size(name, len(data))  # it goes into the result
        running.headers[name] = Signed.from_bytes(data)
    except MalformedDocumentError as error:
        raise NodeFault(
            f"{name} has finished but sent no valid header of the batch that it relayed: {error}"
        ) from error
    if len(running.headers) == len(running.round.plan.route):
        running.relayed.set()


def _count_reports(running: RunningRound, accepted: int) -> None:
    most = running.round.plan.max_reports
    if running.round.stage is RoundStage.OPEN:
        running.progress.report(Event(ACCEPTING, done=accepted, total=most))
    if accepted >= most:
        running.close_now.set()
