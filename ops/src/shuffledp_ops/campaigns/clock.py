"""The clock of a campaign: which date it is, and waiting for the next. Tests move one by hand."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from shuffledp_core.clock import system_clock

LOOK_SECONDS: Final = 60.0
"""Longest sleep: a clock that is set, or a machine that wakes up, is noticed so soon."""


class Calendar(Protocol):
    """Tells the time, in milliseconds since 1970, and waits."""

    def now(self) -> int:
        """The time."""

    async def sleep_until(self, moment: int) -> None:
        """Returns when it is `moment`, or later."""


class SystemCalendar:
    """The machine's own clock."""

    def now(self) -> int:
        """The time."""
        return system_clock()

    async def sleep_until(self, moment: int) -> None:
        """Returns when it is `moment`, or later."""
        while (left := moment - self.now()) > 0:  # noqa: ASYNC110 - a clock sets no event
            await asyncio.sleep(min(left / 1000, LOOK_SECONDS))
