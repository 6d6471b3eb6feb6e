"""Signals that unwind a command as Ctrl-C does, so that the command cleans up before it ends.

Whatever is under way is unwound, so that temporary folders with their keys are removed and
processes stopped, by the same `with` and `finally` as after an error. Only SIGKILL leaves no time
for that (docs/operations.md).
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass
class Interruption:
    """The signal that ended the command, if one did."""

    number: int | None = None

    @property
    def exit_code(self) -> int | None:
        """Exit code by the convention of shells for a program that a signal has ended.

        None without one.
        """
        return None if self.number is None else 128 + self.number


def is_cancellation(error: BaseException) -> bool:
    """Return True for the `asyncio.CancelledError` of a command that a signal ended."""
    return isinstance(error, getattr(sys.modules.get("asyncio"), "CancelledError", ()))


@contextmanager
def unwinding() -> Iterator[Interruption]:
    """Context in which the first terminating signal unwinds the block.

    Further signals wait for that.

    In an event loop every task is cancelled (an exception in the midst of one would be caught by
    no task), elsewhere `KeyboardInterrupt` is raised: it, or `asyncio.CancelledError`, comes out of
    the block in the end.

    Signals that are ignored stay so: a shell ignores Ctrl-C for commands in the background, nohup
    the hang-up.
    """
    interruption = Interruption()

    def leave(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the interface of handlers
        for ending in _ENDING:
            signal.signal(ending, signal.SIG_IGN)
        interruption.number = number
        # Not imported here: most commands have no loop, and asyncio takes a tenth of their time.
        asyncio: Any = sys.modules.get("asyncio")
        if not hasattr(asyncio, "get_running_loop"):  # or is being imported
            raise KeyboardInterrupt
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise KeyboardInterrupt from None
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.call_soon_threadsafe(lambda: None)  # it may be waiting for something else

    usual = (signal.SIG_DFL, signal.default_int_handler)
    before = {
        number: signal.signal(number, leave)
        for number in _ENDING
        if signal.getsignal(number) in usual
    }
    try:
        yield interruption
    finally:
        for ending, handler in before.items():
            signal.signal(ending, handler)
