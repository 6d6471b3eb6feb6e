"""Worker processes of a pool: how many there may be, and how one starts."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.connection import wait as wait_for
from typing import Any, Final

from shuffledp_core.runtime.core_dumps import forbid_core_dumps

_BROKEN_SECONDS: Final = 0.05
"""Interval at which a pool that shuts down is asked whether it has broken, before Python 3.11.5."""


def cores() -> int:
    """Number of processors that this process may use; on macOS, the number of all processors."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def begin() -> None:
    """Initialise a worker that ends with its parent, ignores Ctrl-C, and leaves no core dump.

    A worker holds both ends of the pipe on which it waits for work, so it would not notice there
    that its parent was killed.
    """
    forbid_core_dumps()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_follow, args=(parent.sentinel,), daemon=True).start()


def _follow(sentinel: int) -> None:
    wait_for([sentinel])
    os._exit(1)  # the parent was killed: no one waits for what this process computes


class WorkerPool(ProcessPoolExecutor):
    """A process pool whose `shutdown` returns even if a worker was killed.

    Before Python 3.11.5 it could wait without end: a thread of the pool kept writing a task to a
    pipe that no living process read (https://github.com/python/cpython/issues/94777). Tasks larger
    than a pipe's 64 KiB trigger that.
    """

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002
        """See `Executor.shutdown`."""
        if sys.version_info < (3, 11, 5) and wait:
            self._shut_down_unblocked(cancel_futures=cancel_futures)
        super().shutdown(wait, cancel_futures=cancel_futures)

    def _shut_down_unblocked(self, *, cancel_futures: bool) -> None:
        internals: Any = self
        manager = internals._executor_manager_thread  # noqa: SLF001
        tasks = internals._call_queue  # noqa: SLF001
        super().shutdown(wait=False, cancel_futures=cancel_futures)
        while manager is not None and manager.is_alive():
            if internals._broken:  # noqa: SLF001
                # As Python 3.11.5 does: the thread that writes tasks gets EPIPE and ends.
                tasks._reader.close()  # noqa: SLF001
            manager.join(_BROKEN_SECONDS)
