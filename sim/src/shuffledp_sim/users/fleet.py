"""Fleets of simulated users with real credentials, client code and submissions.

Each user has its own key and credential, randomises and seals its own value in a worker process,
and uploads over one of a few long streams, as the devices behind a gateway do. Memory is bounded by
what is under way, but for the messages that each user keeps to verify the board.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import cycle
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from shuffledp.progress import Stages
from shuffledp_client.blocks import Block
from shuffledp_client.board import check_board, check_result
from shuffledp_client.long_stream import LongStream
from shuffledp_client.policy import Policy
from shuffledp_client.submission import Member, PreparedSubmission
from shuffledp_client.transport import AnalystReader, find_round
from shuffledp_client.verification import CheckedRound, parse_announcement, verify_round
from shuffledp_core.documents.signed import Signed
from shuffledp_core.errors import ShuffleDPError
from shuffledp_core.runtime.clock import system_clock
from shuffledp_core.runtime.config import BrokerConfig
from shuffledp_core.transport.tls import CLIENT
from shuffledp_ops.keys.pki import Deployment, enrol_users
from shuffledp_sim.users.memory import Memory
from shuffledp_sim.users.sealing import WORKERS, seal_blocks

CONNECTIONS: Final = 4
"""TLS connections to the entry node; users share them as they would share a carrier's address."""

BLOCKS: Final = 2 * CONNECTIONS
"""Blocks under way at once: of each connection one is being answered while another one arrives."""

MOST_UPLOADS: Final = 512
"""Submissions under way at once that travel alone; a node lets 1,024 wait."""

UPLOAD_BYTES: Final = 2**22
"""Bytes under way at once: of large envelopes, fewer than `MOST_UPLOADS`."""

FEWEST_UPLOADS: Final = 32
"""Submissions under way at once, however large they are."""

ONIONS_PER_TASK: Final = 4000
"""Work handed to a sealing process at once: about a third of a second."""

ANY_ROUND: Final = Policy(
    epsilon=1e6,
    delta=0.5,
    epsilon_corrupted=math.inf,
    distance=1,
    operators=1,
    messages=1_000_000,
    allow_corrupt=True,
)
"""Policy of simulated users, who take part in every round; real users choose their own limits."""


class FleetFailed(ShuffleDPError):  # noqa: N818 - it says what happened
    """A process of the simulator died, not a process of the system."""


class System(Protocol):
    """A running system, as simulated users see it.

    `processes.LocalSystem` is one, `DeployedSystem` another.
    """

    @property
    def deployment(self) -> Deployment:
        """The system's keys, with the enrolment key of the population."""
        ...

    @property
    def population(self) -> str:
        """The population in which the users are enrolled."""
        ...

    @property
    def broker(self) -> BrokerConfig | None:
        """The broker that announces rounds; None to ask only the analyst."""
        ...


@dataclass(frozen=True)
class DeployedSystem:
    """A system whose processes run elsewhere."""

    deployment: Deployment
    population: str
    broker: BrokerConfig | None


class Fleet:
    """Simulated users for one round, one per value.

    Args:
        system: the system in which the round runs.
        round_id: the round to take part in.
        values: shape (users,), int64, inside the round's domain.
        pool: sealing processes (`sealing.sealing_pool`).
        stages: display of the progress.
        seconds: gets "sealing", the time until the last envelope was sealed, and "upload", from
            then until the last receipt (most uploads happen while others still seal).
        tolerated: refusals that are counted in `refused` and end nothing; any other error of a user
            ends `submit`.
        memory: the responses that these users keep from round to round; None: they were never asked
            before.

    Attributes:
        accepted: users who hold a checked receipt.
        refused: users who were refused, by the name of the error.
    """

    def __init__(
        self,
        system: System,
        round_id: str,
        values: NDArray[np.int64],
        pool: ProcessPoolExecutor,
        stages: Stages,
        seconds: dict[str, float],
        *,
        tolerated: tuple[type[ShuffleDPError], ...] = (),
        memory: Memory | None = None,
    ) -> None:
        self.accepted = 0
        self.refused: Counter[str] = Counter()
        self._tolerated = tolerated
        self._memory = memory or Memory(len(values))
        self._pool = pool
        self._system = system
        self._round_id = round_id
        self._values = values
        self._stages = stages
        self._seconds = seconds
        self._keys = system.deployment.keys_of(CLIENT)
        self._roster = system.deployment.roster
        self.credentials: list[bytes] = []
        """Credentials of the users that have begun to submit, in the order of their values; ground
        truth of attacks.
        """
        self._sent_messages: list[bytes] = []
        self._sample: PreparedSubmission | None = None
        self._sealed = 0

    async def find_round(self) -> CheckedRound:
        """Find and verify the round, as every client does."""

        def verified(data: bytes) -> CheckedRound:
            return verified_for(self._system, data, self._round_id)

        return await find_round(
            self._roster, self._keys, self._system.broker, verified, round_id=self._round_id
        )

    async def submit(self, verified: CheckedRound | None = None) -> None:
        """Seal and submit for every user.

        Returns when each holds a checked receipt or was refused as tolerated.

        Args:
            verified: the round when the caller has found it already.

        Raises:
            ShuffleDPError: the error of the first user that failed, or a sealing process died.
        """
        try:
            await self._seal_and_upload(verified or await self.find_round(), time.perf_counter())
        except BrokenProcessPool as error:
            raise FleetFailed(
                "a sealing process of the simulator died; is the machine out of memory?"
            ) from error

    async def _seal_and_upload(self, verified: CheckedRound, began: float) -> None:
        loop = asyncio.get_running_loop()
        # One piece in work and one waiting for each process: no process is idle, and no more is
        # held in memory.
        places = asyncio.Semaphore(2 * WORKERS)
        by_size = UPLOAD_BYTES // verified.geometry.envelope_bytes
        uploads = asyncio.Semaphore(min(MOST_UPLOADS, max(FEWEST_UPLOADS, by_size)))
        blocks = asyncio.Semaphore(BLOCKS)
        async with AsyncExitStack() as stack:
            entries = cycle(
                [
                    await stack.enter_async_context(
                        LongStream(verified.entry, self._keys, self._roster)
                    )
                    for _ in range(CONNECTIONS)
                ]
            )

            async def chunk(first: int, users: Sequence[tuple[int, Member]]) -> None:
                # its place is free when all is uploaded: a slow node must not let sealed envelopes
                # pile up
                try:
                    values = [value for value, _ in users]
                    responses = await self._memory.recall(
                        self._pool, verified.mechanism, first, values
                    )
                    sealed = await loop.run_in_executor(
                        self._pool, seal_blocks, verified, users, responses
                    )
                    self._count_sealed(len(users), began)
                    self._sample = self._sample or sealed.sample
                    async with _together() as group:
                        for block in sealed.blocks:
                            group.create_task(upload_block(block))
                        for submission in sealed.long:
                            group.create_task(upload(submission))
                finally:
                    places.release()

            async def upload_block(block: Block) -> None:
                async with blocks:
                    outcomes = await next(entries).submit_block(block)
                for messages, error in zip(block.messages, outcomes, strict=True):
                    self._count(messages, error)
                self._show_uploads()

            async def upload(submission: PreparedSubmission) -> None:
                async with uploads:
                    error = await _submit(next(entries), submission)
                self._count(submission.messages, error)
                self._show_uploads()

            async with _together() as group:
                first = 0
                for users in self._chunks(verified):
                    await places.acquire()
                    group.create_task(chunk(first, users))
                    first += len(users)
        self._seconds["upload"] = time.perf_counter() - began - self._seconds["sealing"]

    def _count(self, messages: bytes, error: ShuffleDPError | None) -> None:
        """Count one user's outcome; `messages` are its messages as on the board."""
        if error is None:
            self.accepted += 1
            self._sent_messages.append(messages)
        elif isinstance(error, self._tolerated):
            self.refused[type(error).__name__] += 1
        else:
            raise error

    def _show_uploads(self) -> None:
        self._stages.update("upload", self.accepted + self.refused.total(), len(self._values))

    def _chunks(self, verified: CheckedRound) -> Iterator[list[tuple[int, Member]]]:
        for users in enrolled_users(self._system, verified, self._values):
            self.credentials += [member.public_key for _, member in users]
            yield users

    def _count_sealed(self, users: int, began: float) -> None:
        self._sealed += users
        self._stages.update("sealing", self._sealed, len(self._values))
        if self._sealed == len(self._values):
            self._seconds["sealing"] = time.perf_counter() - began

    async def verify(self, signed: Signed) -> None:
        """Check for every accepted user that the result is genuine and the board complete.

        Raises:
            DocumentError, CountMismatchError, BadBatchError, ReceiptMissingError: a check failed,
                as in a single client.
        """
        if self._sample is None:
            raise ValueError("no user has submitted yet")
        verified = check_result(self._sample, self._roster, signed)
        geometry = self._sample.geometry
        async with AnalystReader.of(self._keys, self._roster) as analyst:
            board = await analyst.board(
                self._round_id, verified.result.messages * geometry.plain_bytes
            )
        check_board(verified, geometry, board, self._sent_messages)


def enrolled_users(
    system: System, verified: CheckedRound, values: NDArray[np.int64]
) -> Iterator[list[tuple[int, Member]]]:
    """Yield batches of (value, member), with a freshly enrolled member for each value.

    Yields them in pieces for one sealing task each.
    """
    onions = verified.geometry.messages_per_user * (verified.geometry.hops - 1) + 1
    size = max(1, min(ONIONS_PER_TASK // onions, -(-len(values) // (4 * WORKERS))))
    enrolment = system.deployment.enrolment_of(system.population)
    for first in range(0, len(values), size):
        piece = values[first : first + size].tolist()
        members = [Member(*pair) for pair in enrol_users(enrolment, len(piece))]
        yield list(zip(piece, members, strict=True))


def verified_for(system: System, data: bytes, round_id: str | None = None) -> CheckedRound:
    """Parse and verify an announcement as every user of the system does; see `verify_round`."""
    announcement, roster = parse_announcement(data), system.deployment.roster
    return verify_round(
        announcement, roster, ANY_ROUND, system.population, system_clock(), round_id
    )


async def _submit(entry: LongStream, submission: PreparedSubmission) -> ShuffleDPError | None:
    try:
        await entry.submit(submission)
    except ShuffleDPError as error:
        return error
    return None


@asynccontextmanager
async def _together() -> AsyncIterator[asyncio.TaskGroup]:
    """A task group that raises its first failure alone, not as an exception group."""
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
