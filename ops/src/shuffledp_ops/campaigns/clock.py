"""The clock of a campaign: which date it is, and waiting for the next. Tests move one by hand."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from shuffledp_core.runtime.clock import system_clock

LOOK_SECONDS: Final = 60.0
"""Longest sleep, after which a changed clock or a resumed machine is noticed."""


class Calendar(Protocol):
    """Tells the time, in milliseconds since 1970, and waits."""

    def now(self) -> int:
        """The time."""

    async def sleep_towards(self, moment: int) -> None:
        """Return at `moment` or earlier; the caller checks the clock again."""


class SystemCalendar:
    """The machine's own clock."""

    def now(self) -> int:
        """The time."""
        return system_clock()

    async def sleep_towards(self, moment: int) -> None:
        """Returns when it is `moment`, or `LOOK_SECONDS` from now, whichever comes first."""
        await asyncio.sleep(min(max(moment - self.now(), 0) / 1000, LOOK_SECONDS))
