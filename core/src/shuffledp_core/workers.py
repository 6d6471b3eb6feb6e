"""Start of a pool's worker process."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from multiprocessing.connection import wait


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
