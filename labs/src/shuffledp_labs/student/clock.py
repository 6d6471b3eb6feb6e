"""The clock that limits student programs: time without the waits for a processor.

On a busy machine a program that is right would otherwise run out of time, and the one with the most
calls first.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Final

MOST_GRANTED: Final = 0.9
"""Most of a wait that counts as one for a processor: a program that never ends is ended at last."""


def now() -> float:
    """Seconds on the clock of this process: those of `time.monotonic()` without granted waits."""
    return time.monotonic() - ProcessorWaits.granted


def processor_wait(pid: int) -> float:
    """Seconds for which a process, its descendants and this process have waited for a processor.

    The waits of their main threads since their starts; 0 on systems other than Linux.
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
    """The waits of one program for a processor, which are granted when its time is over.

    Attributes:
        granted: seconds granted to all programs of this process so far.
    """

    granted: ClassVar[float] = 0.0

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
        ProcessorWaits.granted += seconds
        return seconds
