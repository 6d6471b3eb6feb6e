"""Lifetime of a running round: its stages in order, and node watchers that run alongside."""

from __future__ import annotations

import asyncio
from typing import Any

from shuffledp_analyst.announcing import open_round
from shuffledp_analyst.ending import end_failed, end_published
from shuffledp_analyst.round import RoundStage
from shuffledp_analyst.running import RunningRound
from shuffledp_analyst.stages import (
    accept_submissions,
    await_batch,
    await_headers,
    decode_batch,
    publish,
    settle,
)
from shuffledp_analyst.watching import run_beside, watch_node
from shuffledp_core.errors import ShuffleDPError


async def run_round(running: RunningRound) -> None:
    """Run a planned or resumed round until nothing is left to do or the process stops."""
    watchers: list[asyncio.Task[None]] = []
    life = asyncio.ensure_future(_run_stages(running, watchers))
    ends: set[asyncio.Future[Any]] = {life, running.failure}
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        tasks = (life, *watchers, *running.traces.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    _adopt_failure(running, life)
    services, round_id, route = running.services, running.round_id, running.round.plan.route
    if running.round.stage is RoundStage.PUBLISHED:
        await end_published(services, round_id, route, running.progress)
        return
    error = running.failure.result()
    running.log.warning(
        "round failed",
        error=type(error).__name__,
        reason=str(error),
        stage=running.round.stage,
        seconds=running.progress.durations(),
    )
    running.round.fail()
    if not running.opened.done():
        running.opened.set_exception(error)
        running.opened.exception()  # retrieved: the caller that opened the round may be gone
    await end_failed(services, round_id, route, error, running.progress)


async def _run_stages(running: RunningRound, watchers: list[asyncio.Task[None]]) -> None:
    announcement = await open_round(running) if running.round.stage is RoundStage.PLANNED else None
    watchers += [
        asyncio.ensure_future(run_beside(running, watch_node, name))
        for name in running.round.plan.route
    ]
    if announcement is not None:
        running.opened.set_result(announcement)
    await accept_submissions(running)
    deadline = await await_batch(running)
    draft = await decode_batch(running)
    await await_headers(running, deadline)
    await publish(running, await settle(running, draft))


def _adopt_failure(running: RunningRound, life: asyncio.Task[None]) -> None:
    """Record the error that ended the stages as the round's failure, unless it has one already."""
    error = None if life.cancelled() else life.exception()
    if isinstance(error, ShuffleDPError):
        running.fail(error)
    elif error is not None:
        running.fail_unforeseen(error)
