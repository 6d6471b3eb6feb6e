"""Limits on how often one address may call, and on how many bytes wait at one time.

Pure: the clock is a parameter.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from shuffledp_core.errors import BusyError
from shuffledp_core.runtime.addresses import network_of

MAX_ADDRESSES: Final = 100_000
"""Addresses that are remembered; beyond it the one that asked longest ago is forgotten."""


class Rate:
    """Token buckets by address: a burst of one minute's tokens, refilled evenly.

    `clock` is monotonic, in seconds.
    """

    def __init__(self, per_minute: int, clock: Callable[[], float]) -> None:
        self._burst = float(per_minute)
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, address: str) -> None:
        """Take one token of an address. Raises `BusyError` if there is none."""
        key = network_of(address)
        now = self._clock()
        tokens, since = self._buckets.pop(key, (self._burst, now))
        tokens = min(self._burst, tokens + (now - since) * self._burst / 60)
        allowed = tokens >= 1
        self._buckets[key] = (tokens - 1 if allowed else tokens, now)
        if len(self._buckets) > MAX_ADDRESSES:
            self._buckets.popitem(last=False)
        if not allowed:
            raise BusyError(
                f"your address sent more than {self._burst:g} requests in a minute; wait a minute"
            )


class Room:
    """A budget of bytes, shared by all bodies that are being received."""

    def __init__(self, size: int) -> None:
        self._left = size

    @contextmanager
    def place(self) -> Iterator[Callable[[int], None]]:
        """Context with a function that reserves bytes from the budget until the block ends.

        The function raises `BusyError` if the budget is used up.
        """
        taken = 0

        def take(size: int) -> None:
            nonlocal taken
            if size > self._left:
                raise BusyError(
                    "this gateway is already forwarding as many submissions as it may; send "
                    "yours again later"
                )
            self._left -= size
            taken += size

        try:
            yield take
        finally:
            self._left += taken
