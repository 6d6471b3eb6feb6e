"""The clock that limits student programs: time without the waits for a processor.

On a busy machine a program that is right would otherwise run out of time, and the one with the most
calls first.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Final

MOST_GRANTED: Final = 0.9
"""Most of a wait that counts as one for a processor: a program that never ends is ended at last."""

_granted = [0.0]
"""Seconds that were taken out of the time of this process so far."""


def now() -> float:
    """Seconds on this process's clock: those of `time.monotonic()` without granted ones."""
    return time.monotonic() - _granted[0]


def processor_wait(pid: int) -> float:
    """Seconds for which a process, all below it, and this one have waited for a processor so far.

    Of their main threads; 0 where the system does not tell (other systems than Linux).
    """
    total = _wait_of("self")
    waiting = [str(pid)]
    while waiting:
        process = waiting.pop()
        total += _wait_of(process)
        with suppress(OSError):
            waiting += Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return total


def _wait_of(process: str) -> float:
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{process}/schedstat").read_text().split()[1]) / 1e9
    return 0.0


class ProcessorWaits:
    """The waits of one program for a processor, which are granted when its time is over."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._seen = processor_wait(pid)
        self._looked = time.monotonic()

    def grant(self) -> float:
        """Take the waits since the last call out of the clock; return their seconds."""
        seen, looked = processor_wait(self._pid), time.monotonic()
        # A process that has ended takes its waits with it.
        seconds = max(0.0, min(seen - self._seen, MOST_GRANTED * (looked - self._looked)))
        self._seen, self._looked = seen, looked
        _granted[0] += seconds
        return seconds
