"""The order in which a verified round's entry node checks proofs, fair between credentials.

Two signatures and a look-up cost a fraction of a millisecond. The proofs of a claim cost one scalar
multiplication per message, and a device can send a different claim in every call. So a round's
proofs are checked one at a time, and the next check goes to the credential with the fewest failed
checks. A device that never sent a false proof waits for the check under way and for at most one
check of every other credential.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass(eq=False)
class _Waiter:
    credential: str
    called: asyncio.Future[None] = field(repr=False)


class ProofTurns:
    """Queue of one round's credentials for the check of a claim. Used from one event loop."""

    def __init__(self) -> None:
        self._failed: Counter[str] = Counter()
        self._waiting: list[_Waiter] = []
        self._busy = False

    @property
    def waiting(self) -> int:
        """Number of submissions that wait for their proofs to be checked."""
        return len(self._waiting)

    def count_failure(self, credential: str) -> None:
        """Rank the credential behind all that have fewer failed checks.

        Call it for enrolled credentials only.
        """
        self._failed[credential] += 1

    @asynccontextmanager
    async def turn(self, credential: str) -> AsyncIterator[None]:
        """Context that waits until no check is running and no waiting credential has precedence."""
        if self._busy:
            await self._wait(_Waiter(credential, asyncio.get_running_loop().create_future()))
        self._busy = True
        try:
            yield
        finally:
            self._call_next()

    async def _wait(self, waiter: _Waiter) -> None:
        self._waiting.append(waiter)
        try:
            await waiter.called
        except asyncio.CancelledError:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            else:  # called and cancelled at once: the turn goes to the next one
                self._call_next()
            raise

    def _call_next(self) -> None:
        candidates = [waiter for waiter in self._waiting if not waiter.called.done()]
        self._busy = bool(candidates)
        if candidates:
            # `min` keeps the order of arrival among equals.
            first = min(candidates, key=lambda waiter: self._failed[waiter.credential])
            self._waiting.remove(first)
            first.called.set_result(None)
