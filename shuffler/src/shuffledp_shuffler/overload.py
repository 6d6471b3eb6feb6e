"""Admission control of submissions: what would wait too long is refused before it is read.

A node that lets all callers wait answers when many have given up, and spends its time on calls
whose answers are not taken in. So the calls under way are bounded by the time that they
take: no more than `PATIENCE_SECONDS` of work at the rate at which calls have been ending. All
others are refused at once, each with the time after which there is room for it if all before it
come back as told. They are told somewhat too early, because an idle node loses more than a second
refusal costs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from shuffledp_core.errors import BusyError
from shuffledp_core.transport.crowd import host_of

PATIENCE_SECONDS: Final = 4.0
"""Work under way, in seconds, beyond which calls are refused."""

FEWEST: Final = 64
"""Calls that may be under way however slow they are: enough to fill groups that are stored, while
those before them are answered.
"""

OVERBOOKING: Final = 1.25
"""Callers told to come back, per call that ends meanwhile."""

MOST_WAIT_SECONDS: Final = 60.0
"""Longest retry-after; devices obey no longer one (`Backoff.patience`)."""

_WINDOW: Final = 32
"""Calls that end between two updates of the rate."""

_WEIGHT: Final = 0.3
"""Weight of the newest window in the rate."""


class SubmissionLimit:
    """Bound on the calls under way, in seconds of work. Used from one event loop.

    Addresses share it by dynamic thresholds (Choudhury and Hahne, 1998): an address may hold as
    many places as are free. So one address alone gets half of them, k addresses a (k + 1)th each,
    and a newcomer always finds room.
    """

    def __init__(self, most: int, clock: Callable[[], float]) -> None:
        """`most` calls at a time, however fast they are; `clock` is monotonic, in seconds."""
        self._most = most
        self._clock = clock
        self._places_of: Counter[str] = Counter()
        self._under_way = 0
        self._seconds = 0.0
        self._ended = 0
        self._busy_since = 0.0
        self._busy = 0.0
        self._promised = 0.0

    @property
    def under_way(self) -> int:
        """Number of calls under way."""
        return self._under_way

    @property
    def rate(self) -> float:
        """Calls that end a second while calls are under way; 0 before the first are measured."""
        return 1 / self._seconds if self._seconds else 0.0

    @property
    def places(self) -> int:
        """Number of calls that may be under way now."""
        if not self._seconds:
            return self._most
        return max(min(self._most, FEWEST), min(self._most, int(PATIENCE_SECONDS / self._seconds)))

    def require_room(self, peer: str) -> None:
        """Raises `BusyError`, with a retry-after, if the peer's address can hold no more."""
        if self._places_of[host_of(peer)] >= self.places - self._under_way:
            raise self._refusal()

    @contextmanager
    def hold(self, peer: str) -> Iterator[None]:
        """Holds a place while the block runs. Raises `BusyError` as `require_room`."""
        self.require_room(peer)
        address = host_of(peer)
        if not self._under_way:
            self._busy_since = self._clock()
        self._under_way += 1
        self._places_of[address] += 1
        try:
            yield
        finally:
            self._under_way -= 1
            self._places_of[address] -= 1
            if not self._places_of[address]:
                del self._places_of[address]
            self._count_end()

    def _count_end(self) -> None:
        now = self._clock()
        self._busy += now - self._busy_since
        self._busy_since = now
        self._ended += 1
        if self._ended < _WINDOW:
            return
        newest = max(self._busy / self._ended, 1e-6)
        self._seconds += (_WEIGHT if self._seconds else 1.0) * (newest - self._seconds)
        self._ended = 0
        self._busy = 0.0

    def _refusal(self) -> BusyError:
        """The refusal of one call: its turn comes after all that were told to wait before it."""
        now = self._clock()
        each = self._seconds or PATIENCE_SECONDS / self._most
        # When half of those under way have ended: devices come back later than told, by a pause of
        # their own.
        first = now + self._under_way * each / 2
        # Devices obey no longer delay: callers beyond it share the latest moment.
        latest = now + MOST_WAIT_SECONDS
        self._promised = min(max(self._promised, first) + each / OVERBOOKING, latest)
        error = BusyError(
            f"{self._under_way} submissions are being checked here, as many as there is time for; "
            f"send it again in {self._promised - now:.1f} s"
        )
        error.wait_seconds = self._promised - now
        return error
