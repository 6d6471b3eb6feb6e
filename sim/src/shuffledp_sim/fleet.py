"""A fleet of simulated users: real credentials, the real client code, real submissions.

Each user has its own key and credential, randomises and seals its own value in a worker process, and uploads over
one of a few shared connections. Memory is bounded by what is under way, but for the messages that each user keeps
to verify the board.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AsyncExitStack
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shuffledp_client.board import check_board, check_result
from shuffledp_client.policy import Policy
from shuffledp_client.submission import Member, PreparedSubmission
from shuffledp_client.transport import AnalystReader, EntryNode, find_round
from shuffledp_client.verification import VerifiedRound, parse_announcement, verify_round
from shuffledp_core.clock import system_clock
from shuffledp_core.documents.signed import Signed
from shuffledp_core.errors import ShuffleDPError
from shuffledp_core.transport.tls import CLIENT
from shuffledp_sim.pki import issue_credentials
from shuffledp_sim.processes import LocalSystem
from shuffledp_sim.progress import Stages
from shuffledp_sim.sealing import WORKERS, seal_users

CONNECTIONS: Final = 4
"""TLS connections to the entry node; users share them as they would share a carrier's address."""

UPLOADS: Final = 32
"""Submissions under way at once."""

ONIONS_PER_TASK: Final = 4000
"""Work handed to a sealing process at once: about a third of a second."""

ANY_ROUND: Final = Policy(
    epsilon=1e6, delta=0.5, epsilon_corrupted=math.inf, distance=1, operators=1, messages=1_000_000
)
"""Simulated users take part in whatever the experiment asks; real users choose their own limits."""


class FleetFailed(ShuffleDPError):  # noqa: N818 - it says what happened
    """A process of the simulator died, not one of the system's."""


class Fleet:
    """One user per value, for one round.

    Args:
        system: the running processes.
        round_id: the round to take part in.
        values: shape (users,), int64, inside the round's domain.
        pool: sealing processes (`sealing.sealing_pool`).
        stages: where progress is shown.
        seconds: gets "sealing", the time until the last envelope was sealed, and "upload", from then until the
            last receipt (most uploads happen while others still seal).
    """

    def __init__(
        self,
        system: LocalSystem,
        round_id: str,
        values: NDArray[np.int64],
        pool: ProcessPoolExecutor,
        stages: Stages,
        seconds: dict[str, float],
    ) -> None:
        self._pool = pool
        self._system = system
        self._round_id = round_id
        self._values = values
        self._stages = stages
        self._seconds = seconds
        self._keys = system.deployment.keys_of(CLIENT)
        self._roster = system.deployment.roster
        self._kept: list[bytes] = []
        self._sample: PreparedSubmission | None = None
        self._sealed = self._uploaded = 0

    async def find_round(self) -> VerifiedRound:
        """The verified round, as every client finds it."""

        def verified(data: bytes) -> VerifiedRound:
            population, now = self._system.population, system_clock()
            return verify_round(parse_announcement(data), self._roster, ANY_ROUND, population, now, self._round_id)

        return await find_round(self._roster, self._keys, self._system.broker, verified, round_id=self._round_id)

    async def submit(self) -> None:
        """Every user seals and submits; returns when each holds a checked receipt.

        Raises:
            ShuffleDPError: what the first failing user was told, or a sealing process died.
        """
        verified = await self.find_round()
        try:
            await self._seal_and_upload(verified, time.perf_counter())
        except BrokenProcessPool as error:
            raise FleetFailed("a sealing process of the simulator died; is the machine out of memory?") from error

    async def _seal_and_upload(self, verified: VerifiedRound, began: float) -> None:
        loop = asyncio.get_running_loop()
        places = asyncio.Semaphore(2 * WORKERS)
        uploads = asyncio.Semaphore(UPLOADS)
        async with AsyncExitStack() as stack:
            entries = [
                await stack.enter_async_context(EntryNode(verified.entry, self._keys, self._roster))
                for _ in range(CONNECTIONS)
            ]

            async def chunk(users: Sequence[tuple[int, Member]]) -> None:
                try:
                    prepared = await loop.run_in_executor(self._pool, seal_users, verified, users)
                finally:
                    places.release()
                self._count_sealed(len(users), began)
                await asyncio.gather(*(upload(one) for one in prepared))

            async def upload(one: PreparedSubmission) -> None:
                async with uploads:
                    await entries[self._uploaded % CONNECTIONS].submit(one)
                self._kept.append(one.messages)
                self._sample = one
                self._uploaded += 1
                self._stages.update("upload", self._uploaded, len(self._values))

            tasks = []
            for users in self._chunks(verified):
                await places.acquire()
                tasks.append(asyncio.ensure_future(chunk(users)))
            await _all_or_first_failure(tasks)
        self._seconds["upload"] = time.perf_counter() - began - self._seconds["sealing"]

    def _chunks(self, verified: VerifiedRound) -> Iterator[list[tuple[int, Member]]]:
        onions = verified.geometry.messages_per_user * (verified.geometry.hops - 1) + 1
        size = max(1, min(ONIONS_PER_TASK // onions, -(-len(self._values) // (4 * WORKERS))))
        enrolment = self._system.deployment.enrolment_of(self._system.population)
        members = (Member.of(*pair) for pair in issue_credentials(enrolment, len(self._values)))
        users = zip(self._values.tolist(), members, strict=True)
        while piece := list(islice(users, size)):
            yield piece

    def _count_sealed(self, users: int, began: float) -> None:
        self._sealed += users
        self._stages.update("sealing", self._sealed, len(self._values))
        if self._sealed == len(self._values):
            self._seconds["sealing"] = time.perf_counter() - began

    async def verify(self, signed: Signed) -> None:
        """Every user checks the result, and that its messages are on the published board, once and unchanged.

        Raises:
            DocumentError, CountMismatchError, BadBatchError, ReceiptMissingError: as a single client would.
        """
        if self._sample is None:
            raise ValueError("nobody has submitted")
        verified = check_result(self._sample, self._roster, signed)
        geometry = self._sample.geometry
        async with AnalystReader.of(self._keys, self._roster) as analyst:
            board = await analyst.board(self._round_id, verified.result.messages * geometry.plain_bytes)
        check_board(verified, geometry, board, self._kept)


async def _all_or_first_failure(tasks: Sequence[asyncio.Task[None]]) -> None:
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
