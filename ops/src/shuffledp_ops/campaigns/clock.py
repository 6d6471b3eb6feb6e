"""The clock of a campaign: it tells the time and waits for the next date; tests set their own."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from shuffledp_core.runtime.clock import system_clock

LOOK_SECONDS: Final = 60.0
"""Longest sleep, after which a changed clock or a resumed machine is noticed."""


class Calendar(Protocol):
    """Tells the time, in milliseconds since 1970, and waits."""

    def now(self) -> int:
        """The current time, in milliseconds since 1970."""

    async def sleep_towards(self, moment: int) -> None:
        """Return at `moment` or earlier; the caller checks the clock again."""


class SystemCalendar:
    """The clock of this machine."""

    def now(self) -> int:
        """The current time, in milliseconds since 1970."""
        return system_clock()

    async def sleep_towards(self, moment: int) -> None:
        """Sleep until `moment`, but at most `LOOK_SECONDS`."""
        await asyncio.sleep(min(max(moment - self.now(), 0) / 1000, LOOK_SECONDS))
