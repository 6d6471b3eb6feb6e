"""Finds transports that outlive the event loop of the test that opened them.

asyncio reports such a transport when the garbage collector finds it: during any later test, which
the report then fails in place of the test that opened it. A connection that was told to close needs
a few more steps of its loop; how many depends on its peer and on the load of the machine. The loop
gets them here, so that only transports that neither side has closed are reported.
"""

from __future__ import annotations

import asyncio
import os
import time
from asyncio import sslproto
from collections.abc import Callable, Generator
from typing import Any
from weakref import WeakKeyDictionary

import pytest

LONGEST_WAIT_SECONDS = 10


class OpenTransports:
    """Transports of this process, and the test during which each was opened.

    A pytest plugin: the teardown of a test fails if a loop that is closed by then has left
    transports open, and names them and the tests that opened them.
    """

    def __init__(self) -> None:
        self._opened: WeakKeyDictionary[Any, str] = WeakKeyDictionary()

    def watch(self, kind: type[Any]) -> None:
        """Record every object of this kind, and of those derived from it, that is made."""
        make: Callable[..., None] = kind.__init__

        def recorded(transport: Any, *arguments: Any, **named: Any) -> None:
            make(transport, *arguments, **named)
            # "path::test (phase)"; empty outside of tests.
            self._opened[transport] = os.environ.get("PYTEST_CURRENT_TEST", "no test")

        kind.__init__ = recorded

    def let_end(self, kind: type[asyncio.SelectorEventLoop]) -> None:
        """Before a loop of this kind is closed, wait until its transports have ended.

        One that neither side has closed is reported after LONGEST_WAIT_SECONDS.
        """
        close = kind.close

        def after_transports(loop: asyncio.SelectorEventLoop) -> None:
            end = time.monotonic() + LONGEST_WAIT_SECONDS
            while self._has_open(loop) and time.monotonic() < end:
                loop.run_until_complete(asyncio.sleep(0.001))
            close(loop)

        kind.close = after_transports  # type: ignore[method-assign, assignment]

    def _has_open(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether this loop can still run and has open transports."""
        return not (loop.is_closed() or loop.is_running()) and any(
            getattr(transport, "_loop", None) is loop and _is_open(transport)
            for transport in list(self._opened)
        )

    def take_left(self) -> list[str]:
        """Close what closed loops have left open; each with the test that opened it."""
        left = []
        for transport, test in list(self._opened.items()):
            loop = getattr(transport, "_loop", None)
            if loop is None or not loop.is_closed():
                continue
            if _is_open(transport):
                left.append(f"{transport!r}, opened in {test}")
                _close(transport)
            self._opened.pop(transport, None)
        return left

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self) -> Generator[None]:
        """Look after all fixtures are done, the event loop among them."""
        yield
        left = self.take_left()
        if left:
            pytest.fail("transports outlive their event loop: " + "; ".join(left), pytrace=False)


def _is_open(transport: Any) -> bool:
    """Whether asyncio would report it: the attributes that its `__del__` methods look at."""
    held = (getattr(transport, name, None) for name in ("_sock", "_pipe"))
    return any(thing is not None for thing in held) or getattr(transport, "_closed", True) is False


def _close(transport: Any) -> None:
    """Close it without its loop, so that it is reported here only."""
    for name in ("_sock", "_pipe"):
        if getattr(transport, name, None) is not None:
            getattr(transport, name).close()
            setattr(transport, name, None)
    for name in ("_closed", "_closing"):  # a stream's writer looks at the second
        if hasattr(transport, name):
            setattr(transport, name, True)


def watch_transports() -> OpenTransports:
    """A plugin that watches all transports of asyncio, those of TLS included."""
    found = OpenTransports()
    found.watch(asyncio.BaseTransport)
    found.watch(sslproto._SSLProtocolTransport)  # it does not call BaseTransport's
    found.let_end(asyncio.SelectorEventLoop)
    return found
