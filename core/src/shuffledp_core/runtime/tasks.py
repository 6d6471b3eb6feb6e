"""Coroutines and threads that finish even when their caller is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


async def finish_if_cancelled(work: Awaitable[_T]) -> _T:
    """Await `work`; a cancellation takes effect only after `work` has ended by itself."""
    task = asyncio.ensure_future(work)
    try:
        # Without the shield a cancelled call would stop the work between two writes that belong
        # together.
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        # `wait` cancels nothing: a second cancellation ends this waiting alone, and the work still
        # runs to its end.
        await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # no one is left to hear it
        raise


async def in_thread(function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Runs blocking work off the event loop.

    When cancelled, first waits until the thread has ended.
    """
    return await finish_if_cancelled(asyncio.to_thread(function, *args, **kwargs))
