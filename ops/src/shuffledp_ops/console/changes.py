"""The newest snapshot, and a way for many viewers to wait for the next one."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from shuffledp_ops.console.model import ConsoleSnapshot


class Changes:
    """The newest snapshot and its version.

    A waiting caller is woken by every change; several changes before it resumes count as one.
    """

    def __init__(self) -> None:
        self.snapshot = ConsoleSnapshot()
        self.version = 0
        self._woken = asyncio.Event()

    def publish(self, snapshot: ConsoleSnapshot) -> None:
        """Replace the snapshot and wake those who wait.

        A snapshot that differs only in its time wakes no one.
        """
        same = replace(snapshot, at=self.snapshot.at) == self.snapshot and self.version > 0
        self.snapshot = snapshot
        if same:
            return
        self.version += 1
        self._woken.set()
        self._woken = asyncio.Event()

    async def wait_for_change(self, since: int) -> int:
        """Return the version as soon as it differs from `since`."""
        while self.version == since:
            await self._woken.wait()
        return self.version
