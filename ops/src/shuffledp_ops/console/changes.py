"""A snapshot that many viewers wait for."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from shuffledp_ops.console.model import Snapshot


class Changes:
    """The newest snapshot and its version.

    Whoever waits is woken by every change, and misses those in between.
    """

    def __init__(self) -> None:
        self.snapshot = Snapshot()
        self.version = 0
        self._woken = asyncio.Event()

    def put(self, snapshot: Snapshot) -> None:
        """Replaces the snapshot.

        That it is newer is no change by itself: its time alone wakes nobody.
        """
        same = replace(snapshot, at=self.snapshot.at) == self.snapshot and self.version > 0
        self.snapshot = snapshot
        if same:
            return
        self.version += 1
        self._woken.set()
        self._woken = asyncio.Event()

    async def changed(self, since: int) -> int:
        """Returns the version as soon as it is another than `since`."""
        while self.version == since:
            await self._woken.wait()
        return self.version
