"""Worker processes of a pool: how many there may be, and how one starts."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from multiprocessing.connection import wait


def cores() -> int:
    """Processors that this process may use; macOS tells only how many there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def begin() -> None:
    """Initialises a worker: it never outlives its parent, and leaves Ctrl-C to it.

    A worker waits for work on a pipe whose other end it holds itself, so it does not notice a killed parent there.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_follow, args=(parent.sentinel,), daemon=True).start()


def _follow(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)  # the parent was killed: nobody waits for what this process computes
