"""Simulated users of a remote deployment, round after round: `shuffledp fleet`."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncGenerator
from concurrent.futures import ProcessPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

import numpy as np
import structlog
from numpy.typing import NDArray
from rich.console import Console

from shuffledp.columns import Column
from shuffledp.progress import Stages
from shuffledp.question_files import load_wording
from shuffledp.records import load_answers, load_records, read_rows
from shuffledp_client.transport import AnalystReader, Backoff, listen_for_announcements
from shuffledp_client.verification import CheckedRound
from shuffledp_core.documents.signed import Signed
from shuffledp_core.documents.wording import QuestionWording
from shuffledp_core.errors import (
    RoundStateError,
    ShuffleDPError,
    SubmissionClosedError,
    UnknownRoundError,
    UnreachableError,
    UsageError,
)
from shuffledp_core.runtime.clock import system_clock
from shuffledp_core.runtime.config import BrokerConfig
from shuffledp_core.runtime.logs import configure_logs
from shuffledp_core.transport.tls import CLIENT
from shuffledp_ops.keys.pki import open_deployment
from shuffledp_ops.rounds.running import read_result
from shuffledp_sim.users.fleet import DeployedSystem, Fleet, System, verified_for
from shuffledp_sim.users.memory import Memory
from shuffledp_sim.users.sealing import sealing_pool

ANNOUNCEMENT_SECONDS: Final = 10.0
"""Time for the broker before the analyst is asked as well: the broker is untrusted and may be
silent.
"""

POLL_SECONDS: Final = 1.0
"""Interval between two questions to the analyst, for a round without a broker, or for a result."""

RESULT_SECONDS: Final = 3600.0
"""Time a round may take to end after its closing time, before its users give up on it."""

TOO_LATE: Final = (SubmissionClosedError, RoundStateError)
"""Errors of a user who comes after the round was full, was closed, or has been erased: normal among
several fleets.
"""

_ONE_ATTEMPT: Final = Backoff(attempts=1)
_NO_CAP: Final = 2**62


class FleetStopped(ShuffleDPError):  # noqa: N818 - it says what happened
    """A fleet for one round was stopped before the round ended."""


@dataclass(frozen=True)
class FleetOptions:
    """The options of `shuffledp fleet`.

    Attributes:
        keys: the deployment's folder, with the enrolment key: the fleet enrols its own users.
        broker: the broker that announces rounds; None to poll the analyst.
        population: the population in which the users are enrolled.
        users: number of users.
        offset: rows of the data to leave to others.
        data: CSV file; None: the built-in sample.
        column: column of whole numbers in the file.
        max_value: larger values are capped; None: only the round's domain caps.
        once: end with the first round.
        question: file of the question that the users answer from all fields of their rows; None:
            they answer with the column.
        records: the users answer each question in words from the fields of their rows.
    """

    keys: Path
    broker: BrokerConfig | None
    population: str
    users: int
    offset: int
    data: Path | None
    column: str | None
    max_value: int | None
    once: bool
    question: Path | None = None
    records: bool = False

    def __post_init__(self) -> None:
        if self.records and self.data is None:
            raise UsageError("--records needs the file with the records: name one with --data")
        if self.records and (self.column is not None or self.question is not None):
            raise UsageError(
                "--records answers every question from all columns: leave --column and --question "
                "out"
            )


def parse_broker(text: str) -> BrokerConfig:
    """Parse a broker's address, "host:port" or "host" (port 1883). Raises `UsageError`."""
    host, _, port = text.partition(":")
    if not host or not (port or "1883").isdecimal() or not 0 < int(port or 1883) < 65536:
        raise UsageError(f"a broker must be host or host:port, not {text!r}")
    return BrokerConfig(host=host, port=int(port or 1883))


def run_fleet_command(options: FleetOptions) -> None:
    """Play the users until SIGTERM or SIGINT; with `once`, until the first round has ended.

    A log line a round.

    Raises:
        ShuffleDPError: with `once`, whatever ended the round, or `FleetStopped`; otherwise only for
            bad options.
    """
    configure_logs("info")
    deployment = open_deployment(options.keys)
    deployment.roster.population(options.population)
    system = DeployedSystem(deployment, options.population, options.broker)
    answers = RecordValues(options) if options.records else FixedValues(_load(options))
    asyncio.run(_until_signal(system, answers, once=options.once))


def _load(options: FleetOptions) -> NDArray[np.int64]:
    column = load_values(options)
    _log_drawn(column)
    return column.values


class FleetValues(Protocol):
    """The values that a fleet's users hold."""

    @property
    def users(self) -> int:
        """Number of users."""

    def of_round(self, wording: QuestionWording | None) -> NDArray[np.int64]:
        """The values for a round's question, shape (users,), int64, from 0 up.

        Raises:
            UsageError: the users have no answer to it.
        """


@dataclass(frozen=True, eq=False)
class FixedValues:
    """Values that are the same in every round: of a column, or for one question."""

    values: NDArray[np.int64]

    @property
    def users(self) -> int:
        """Number of users."""
        return len(self.values)

    def of_round(self, wording: QuestionWording | None) -> NDArray[np.int64]:  # noqa: ARG002
        """The fixed values."""
        return self.values


class RecordValues:
    """Values from records: every question's wording is answered from its fields."""

    def __init__(self, options: FleetOptions) -> None:
        if options.data is None:
            raise ValueError("records come from a file")
        self._options = options
        next(read_rows(options.data, ()), None)  # a file that cannot be read is refused at once

    @property
    def users(self) -> int:
        """Number of users."""
        return self._options.users

    def of_round(self, wording: QuestionWording | None) -> NDArray[np.int64]:
        """The values for a question, from the same records in every round."""
        options = self._options
        if wording is None or options.data is None:
            raise UsageError(
                "the round has no question in words, which records could answer: run the fleet "
                "with --column"
            )
        rows = options.offset + options.users
        column = load_records(options.data, wording, users=rows, draw=True)
        _log_drawn(column)
        return column.values[options.offset :]


def _log_drawn(column: Column) -> None:
    if column.drawn_from is not None:
        structlog.get_logger().info(
            "users drawn with replacement", users=len(column.values), drawn_from=column.drawn_from
        )


def load_values(options: FleetOptions) -> Column:
    """Load the users' values, from 0 to `max_value`.

    Drawn with replacement where offset and users exceed the rows.

    Fleets that draw from one file, each behind the others' users by its offset, still have users of
    their own.
    """
    rows = options.offset + options.users
    cap = options.max_value or _NO_CAP
    wording = None
    if options.question is not None:
        wording = load_wording(options.question, is_sum=False)
    column = load_answers(options.data, options.column, wording, users=rows, max_value=cap)
    return replace(column, values=column.values[options.offset :])


async def _until_signal(system: System, answers: FleetValues, *, once: bool) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    with sealing_pool() as pool:
        work = asyncio.ensure_future(play(system, answers, pool, once=once))
        waiter = asyncio.ensure_future(stopped.wait())
        try:
            await asyncio.wait({work, waiter}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
            elif once:
                raise FleetStopped("stopped before the round had ended")
        finally:
            work.cancel()
            waiter.cancel()
            await asyncio.gather(work, waiter, return_exceptions=True)


async def play(
    system: System, answers: FleetValues, pool: ProcessPoolExecutor, *, once: bool
) -> None:
    """Take part in each new round of the system with users that have these values.

    One log line a round.

    The users are the same people in all rounds: a response that devices keep, each keeps until this
    returns.

    Args:
        system: the system in which the rounds run.
        answers: answers of the users; values are capped to each round's domain.
        pool: sealing processes.
        once: return after the first round.

    Raises:
        ShuffleDPError: with `once`, whatever ended the round. Otherwise it is logged, and the next
            round is awaited.
    """
    log = structlog.get_logger()
    log.info("simulated users wait for a round", users=answers.users, population=system.population)
    memory = Memory(answers.users)
    async with aclosing(new_rounds(system)) as rounds:
        async for verified in rounds:
            try:
                values = answers.of_round(verified.certificate.question_wording)
                await play_round(system, verified, values, pool, memory)
            except ShuffleDPError as error:
                if once:
                    raise
                kind = type(error).__name__
                log.error(  # noqa: TRY400
                    "the simulated users' round failed",
                    round=verified.round_id,
                    error=kind,
                    reason=str(error),
                )
            if once:
                return


async def new_rounds(system: System) -> AsyncGenerator[CheckedRound, None]:
    """Yield each new open round once, verified, as broker or analyst announce it."""
    announced: set[str] = set()
    roster, keys = system.deployment.roster, system.deployment.keys_of(CLIENT)
    async with AnalystReader.of(keys, roster, _ONE_ATTEMPT) as analyst:
        while True:
            async with aclosing(_candidates(system, analyst)) as candidates:
                async for candidate in candidates:
                    try:
                        verified = verified_for(system, candidate)
                        fresh = verified.round_id not in announced and not await _has_ended(
                            analyst, verified.round_id
                        )
                    except ShuffleDPError as error:
                        structlog.get_logger().debug("announcement skipped", reason=str(error))
                        continue
                    announced.add(verified.round_id)
                    if fresh:
                        yield verified


async def _candidates(system: System, analyst: AnalystReader) -> AsyncGenerator[bytes, None]:
    """Yield unverified announcements: for some seconds the broker's, then the analyst's."""
    began = asyncio.get_running_loop().time()
    if system.broker is not None:
        name = system.deployment.roster.deployment
        async with aclosing(
            listen_for_announcements(system.broker, name, None, ANNOUNCEMENT_SECONDS)
        ) as candidates:
            async for candidate in candidates:
                yield candidate
    try:
        yield await analyst.announcement()
    except ShuffleDPError as error:
        structlog.get_logger().debug("no round at the analyst", reason=str(error))
    if asyncio.get_running_loop().time() < began + POLL_SECONDS:
        await asyncio.sleep(POLL_SECONDS)


async def _has_ended(analyst: AnalystReader, round_id: str) -> bool:
    try:
        await analyst.result(round_id)
    except UnknownRoundError:
        return False
    return True


async def play_round(
    system: System,
    verified: CheckedRound,
    values: NDArray[np.int64],
    pool: ProcessPoolExecutor,
    memory: Memory,
) -> None:
    """Play all users in one round: they submit, wait for the result and check it.

    Raises:
        ShuffleDPError: a user's error, other than that the round was full or over; or what ended
            the round.
    """
    largest = verified.mechanism.domain - 1
    capped = int((values > largest).sum())
    inside = np.minimum(values, largest)
    # Where there is no terminal, standard error is the log, and a line of it is JSON.
    with Stages(Console(stderr=True, quiet=not sys.stderr.isatty())) as stages:
        fleet = Fleet(
            system, verified.round_id, inside, pool, stages, {}, tolerated=TOO_LATE, memory=memory
        )
        await fleet.submit(verified)
        signed = await _result(system, verified)
        read_result(system.deployment, signed)
        if fleet.accepted:
            await fleet.verify(signed)
        stages.finish()
    structlog.get_logger().info(
        "round verified",
        round=verified.round_id,
        users=len(values),
        accepted=fleet.accepted,
        refused=dict(fleet.refused),
        capped=capped,
        largest=largest,
    )


async def _result(system: System, verified: CheckedRound) -> Signed:
    """Wait for the signed result, unverified.

    Raises `UnreachableError` if it does not come.
    """
    until = verified.closes_at + int(1000 * RESULT_SECONDS)
    async with AnalystReader.of(
        system.deployment.keys_of(CLIENT), system.deployment.roster
    ) as analyst:
        while system_clock() < until:
            try:
                return await analyst.result(verified.round_id)
            except UnknownRoundError:
                await asyncio.sleep(POLL_SECONDS)
    raise UnreachableError(
        f"round {verified.round_id} did not end within {RESULT_SECONDS:g} s after its closing time"
    )
