"""Limits on callers that keep a service waiting: on their number, and on the time.

A service waits twice for a caller: for its request, and until it has received the answer. Both cost
memory, so both are bounded in number and in time (`Limits`). When there is no room left, one of the
many is evicted (`Crowd`): an honest caller needs one call for a short time, whereas an attacker who
wants to lock out others must keep many calls waiting.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

import grpc

from shuffledp_core.errors import BusyError
from shuffledp_core.runtime.config import Limits
from shuffledp_core.transport.connections import Connections
from shuffledp_core.transport.crowd import Crowd

Context = grpc.aio.ServicerContext[Any, Any]
T = TypeVar("T")


class Line:
    """Callers whose requests have not arrived: at most `places`, each for at most `seconds`."""

    def __init__(self, places: int, seconds: float) -> None:
        self._places = places
        self._seconds = seconds
        self._waiting: Crowd[asyncio.Timeout] = Crowd()

    async def wait(self, arrival: Awaitable[T], peer: str) -> T:
        """Wait for a caller's request to arrive.

        Raises `BusyError` if it does not come in time, or when others need the place.
        """
        evicted = False
        try:
            async with asyncio.timeout(self._seconds) as scope:
                self._enter(scope, peer)
                try:
                    return await arrival
                finally:
                    # Read before we take ourselves out: only an eviction has done so already.
                    evicted = scope not in self._waiting
                    self._waiting.discard(scope)
        except TimeoutError as error:
            if evicted:
                raise BusyError(
                    "this party is busy with other callers; call again, and send without pauses"
                ) from error
            raise BusyError(
                f"the call's request did not begin within {self._seconds:g} s; call again, and "
                "send without pauses"
            ) from error

    def _enter(self, scope: asyncio.Timeout, peer: str) -> None:
        self._waiting.add(scope, peer)
        if len(self._waiting) > self._places:
            _evict_from(self._waiting)


class Slots:
    """Slots for long answers, `places` in all, shared fairly between addresses.

    When all are taken, a newcomer gets a slot of the address that holds most, provided that this
    address then still holds as many as the newcomer's. Otherwise the newcomer is refused, so that
    callers with equal shares never evict each other in turn.
    """

    def __init__(self, places: int) -> None:
        self._places = places
        self._waiting_calls: Crowd[asyncio.Timeout] = Crowd()

    @asynccontextmanager
    async def hold(self, peer: str) -> AsyncIterator[None]:
        """Hold a slot while the block runs.

        Raises:
            BusyError: on entry, if no slot is free and no address holds more than its share; later,
                if the slot is given to another address, which cancels the block.
        """
        scope = asyncio.timeout(None)
        try:
            async with scope:
                self._enter(scope, peer)
                try:
                    yield
                finally:
                    self._waiting_calls.discard(scope)
        except TimeoutError as error:
            if not scope.expired():
                raise  # the block's own
            raise BusyError(
                "this call was ended because another address needed its slot for a long answer; "
                "retry later"
            ) from error

    def _enter(self, scope: asyncio.Timeout, peer: str) -> None:
        if len(self._waiting_calls) >= self._places:
            if not self._waiting_calls.has_larger_share(peer):
                raise BusyError(f"all {self._places} slots for long answers are taken; retry later")
            _evict_from(self._waiting_calls)
        self._waiting_calls.add(scope, peer)


def _evict_from(crowd: Crowd[asyncio.Timeout]) -> None:
    leaving = crowd.take_one()
    if not leaving.expired():
        # In the past: the evicted caller's own time-out fires, in its own task, and nothing is
        # cancelled here.
        leaving.reschedule(0.0)


class Doorway:
    """All calls to one service that are under way, and its `connections`."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.connections = Connections(limits, self._give_up_overdue)
        self._lines: dict[str, Line] = {}
        self._unread: Crowd[Context] = Crowd()
        self._since: dict[Context, float] = {}
        self._of_parties: Counter[str] = Counter()

    def enter(self, context: Context, peer: str, party: str | None) -> None:
        """Register a call by `party`, or by a device if that is None.

        Raises `BusyError` for one too many of a party or operator.
        """
        self.connections.begin(peer, known=party is not None)
        _when_over(context, lambda: self.connections.end(peer))
        if party is not None:
            # Counted, with its callback, before it may be refused: a refused call ends like any
            # other and is taken off.
            self._of_parties[party] += 1
            _when_over(context, lambda: self._of_parties.subtract([party]))
            if self._of_parties[party] > self._limits.party_calls:
                raise BusyError(
                    f"{party!r} already has {self._limits.party_calls} calls under way, the "
                    "maximum; end some of them"
                )

    def line(self, who: str) -> Line:
        """The waiting line for callers of one kind while their requests arrive."""
        return self._lines.setdefault(
            who, Line(self._limits.silent_calls, self._limits.request_seconds)
        )

    @contextmanager
    def sending(self, context: Context) -> Iterator[None]:
        """Context that sends a message of a stream and ends when the caller has received it."""
        self._waits(context)
        try:
            yield
        finally:
            self._taken_in(context)

    def mark_answered(self, context: Context) -> None:
        """Record that a call's only answer is about to be sent.

        The caller has received it when the call is over.
        """
        self._waits(context)
        _when_over(context, lambda: self._taken_in(context))

    def _waits(self, context: Context) -> None:
        self._unread.add(context, context.peer())
        self._since[context] = time.monotonic()
        if len(self._unread) > self._limits.unread_answers:
            self._give_up(self._unread.take_one())

    def _taken_in(self, context: Context) -> None:
        self._unread.discard(context)
        self._since.pop(context, None)

    def _give_up_overdue(self) -> None:
        latest = time.monotonic() - self._limits.answer_seconds
        for context in [context for context, since in self._since.items() if since <= latest]:
            self._give_up(context)

    def _give_up(self, context: Context) -> None:
        self._taken_in(context)
        # The connection, not the call: gRPC keeps an answer that no one takes in for as long as its
        # connection lives.
        self.connections.hang_up(context.peer())


def _when_over(context: Context, then: Callable[[], object]) -> None:
    context.add_done_callback(lambda _context: then())  # type: ignore[arg-type] # the stubs want a class of their own
