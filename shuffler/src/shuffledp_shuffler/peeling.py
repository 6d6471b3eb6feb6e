"""A pool of worker processes that peel batches, and seal dummies, on all processors.

The workers are processes, not threads: on 2 cores, threads together take 28.7 µs per onion and
processes 18.9 µs, of which X25519 alone needs 16.3 µs.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import TypeVar

from shuffledp_core.errors import NodeFault
from shuffledp_core.runtime.workers import WorkerPool, begin
from shuffledp_shuffler.peel_worker import Layer, PeeledChunk, peel_chunk

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

CHUNK_BYTES = 2**19
"""Packed bytes per task: a few thousand onions, whose 0.1 s of work makes the cost of passing them
on negligible.
"""


class WorkersLost(NodeFault):
    """A worker process died, for example killed or out of memory.

    The work on disk is intact and can be done again.
    """


class PeelPool:
    """Worker processes that start at first use, and again after a failure."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._pool: WorkerPool | None = None

    async def warm(self) -> None:
        """Start the workers now, so that the first round does not wait for them."""
        pool = self._running_pool()
        loop = asyncio.get_running_loop()
        await asyncio.gather(*(loop.run_in_executor(pool, os.getpid) for _ in range(self.workers)))

    async def peel(
        self, layer: Layer, pieces: Iterable[bytes], store: Callable[[PeeledChunk], Awaitable[None]]
    ) -> None:
        """Peel every piece; pass the results to `store`, in order, one by one.

        Needs memory for a few pieces per worker.

        Raises:
            WorkersLost: a worker died. NodeFault: see `peel_chunk`.
        """
        await self.map(partial(peel_chunk, layer), pieces, store)

    async def map(
        self,
        work: Callable[[ItemT], ResultT],
        items: Iterable[ItemT],
        store: Callable[[ResultT], Awaitable[None]],
    ) -> None:
        """Apply `work` to every item; pass the results to `store`, in order, one by one.

        Needs memory for a few items and results per worker.

        Raises:
            WorkersLost: a worker died. Errors of `work` are raised, too.
        """
        pool = self._running_pool()
        loop = asyncio.get_running_loop()
        window: deque[asyncio.Future[ResultT]] = deque()
        try:
            for item in items:
                window.append(loop.run_in_executor(pool, work, item))
                # One item in work and one waiting: no worker is ever idle.
                if len(window) >= 2 * self.workers:
                    # Taken out only when it is done: a cancellation in between leaves it to the
                    # `finally` below.
                    await store(await window[0])
                    window.popleft()
            while window:
                await store(await window[0])
                window.popleft()
        except BrokenProcessPool as error:
            # Another round may have replaced the broken pool already; its workers are not ours to
            # end.
            if self._pool is pool:
                self.close()
            raise WorkersLost(
                "a peeling process died; see the system's log for out-of-memory kills"
            ) from error
        finally:
            for future in window:
                future.cancel()
            await asyncio.gather(*window, return_exceptions=True)

    def close(self) -> None:
        """End the workers; the next `peel` starts new ones."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=True, cancel_futures=True)

    def _running_pool(self) -> WorkerPool:
        if self._pool is None:
            # A fork would copy gRPC's threads, locks and sockets.
            context = multiprocessing.get_context("spawn")
            self._pool = WorkerPool(self.workers, mp_context=context, initializer=begin)
        return self._pool
