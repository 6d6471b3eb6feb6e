"""Code of the processes that seal submissions for a fleet.

Imports only the client's pure part, so that a worker starts in a moment.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from typing import Any, TypeAlias, TypeVar

from shuffledp_client.blocks import Block, make_blocks
from shuffledp_client.submission import (
    Member,
    PreparedSubmission,
    prepare_all,
    prepare_with_messages,
)
from shuffledp_client.verification import CheckedRound
from shuffledp_core.errors import UnreachableError
from shuffledp_core.runtime.workers import WorkerPool, begin, cores

WORKERS = cores()
"""Sealing processes: one per core."""

Progress: TypeAlias = Callable[[int, int], None]
"""A callback with the number of pieces of work done, and their total."""

Result = TypeVar("Result")


def seal_users(
    verified: CheckedRound,
    users: Sequence[tuple[int, Member]],
    responses: Sequence[int] | None = None,
) -> list[PreparedSubmission]:
    """Randomise and seal the values of some users, as their devices do; see `prepare_all`."""
    return prepare_all(verified, users, kept_responses=responses)


@dataclass(frozen=True)
class SealedUsers:
    """Sealed submissions of some users: in blocks, and single ones too large for a message."""

    blocks: list[Block]
    long: list[PreparedSubmission]
    sample: PreparedSubmission
    """One of them all."""


def seal_blocks(
    verified: CheckedRound,
    users: Sequence[tuple[int, Member]],
    responses: Sequence[int] | None = None,
) -> SealedUsers:
    """`seal_users` with the submissions in blocks, ready for a long stream."""
    prepared = prepare_with_messages(verified, users, kept_responses=responses)
    blocks, long = make_blocks(prepared)
    return SealedUsers(blocks, long, prepared[0][0])


class _DeafPool(WorkerPool):
    """A process pool that never receives Ctrl-C, even while it starts: the parent ends it."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """See `Executor.submit`; the first call starts the processes."""
        with _ctrl_c_held_back():
            return super().submit(fn, *args, **kwargs)

    def __exit__(self, *_: object) -> None:
        """Cancel calls that have not begun, and wait for the others.

        A pool that is not waited for may end while the interpreter does, which then prints a
        traceback.
        """
        self.shutdown(cancel_futures=True)


@contextmanager
def _ctrl_c_held_back() -> Iterator[None]:
    """Context that blocks SIGINT: processes started in it inherit that, this one gets it later."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def sealing_pool() -> ProcessPoolExecutor:
    """A pool of one sealing process per core, not yet started; use as a context manager."""
    # at its own start it unblocks SIGINT, which `submit` has blocked
    resource_tracker.ensure_running()
    context = multiprocessing.get_context("spawn")
    return _DeafPool(WORKERS, mp_context=context, initializer=begin)


def run_chunks(
    pool: ProcessPoolExecutor,
    chunks: Sequence[tuple[Callable[[], Result], int]],
    progress: Progress | None,
) -> list[Result]:
    """Run all calls; return their results in order.

    Those not yet begun are given up when one fails.

    Args:
        pool: worker processes that run the calls, which must therefore be picklable.
        chunks: each call with the pieces of work in it.
        progress: called with pieces.
    """
    sizes = {pool.submit(call): size for call, size in chunks}
    done, total = 0, sum(sizes.values())
    try:
        for future in as_completed(sizes):
            future.result()
            done += sizes[future]
            if progress is not None:
                progress(done, total)
    finally:
        for future in sizes:
            future.cancel()
    return [future.result() for future in sizes]


async def warm(pool: ProcessPoolExecutor) -> None:
    """Return once every sealing process runs. Raises `UnreachableError` if one died."""
    loop = asyncio.get_running_loop()
    try:
        await asyncio.gather(*(loop.run_in_executor(pool, os.getpid) for _ in range(WORKERS)))
    except BrokenProcessPool as error:
        raise UnreachableError(
            "a sealing process died as it started; is the machine out of memory?"
        ) from error
