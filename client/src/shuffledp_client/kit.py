"""The device kit: everything that an app needs to take part. docs/how-to/device-kit.md.

    async with await Device.load("alice.bundle") as device:
        async for question in device.questions():
            await device.answer(question, 5)

Everything that arrives is verified before it is used. A round gets at most one answer, whatever
crashes or is called twice. A submission is kept until its messages are found on the board; if they
are missing, it is the evidence.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import structlog

from shuffledp_client.board import CheckedResult
from shuffledp_client.config import ClientConfig
from shuffledp_client.device import DeviceSteps
from shuffledp_client.evidence import Evidence, check_evidence
from shuffledp_client.homes import home_of
from shuffledp_client.outcomes import Answered, Checked, Question, Standing
from shuffledp_client.polling import AnnouncementMemory, poll_pause
from shuffledp_client.transport import Backoff, listen_for_announcements
from shuffledp_client.verification import parse_announcement
from shuffledp_core.documents.signed import to_json
from shuffledp_core.errors import (
    ClientPolicyRefusal,
    ConfigError,
    EvidenceError,
    ReceiptMissingError,
    RoundFailed,
    RoundStateError,
    ShuffleDPError,
    SubmissionClosedError,
    UnknownRoundError,
    UsageError,
)
from shuffledp_core.runtime.clock import Clock, system_clock
from shuffledp_core.sampling.randomness import RandomIntegers

POLL_SECONDS: Final = 20.0
"""Mean interval at which `Device.questions` asks for open rounds.

Pauses are at most half as long again, so that no round of 40 s is missed without a broker.
"""


class Device:
    """One user's device. Use as an async context manager, or `close` it.

    Its methods raise typed `ShuffleDPError`s.

    Any method may be cancelled, and the process may be killed, at any moment: what was kept is sent
    again next time. Several processes may use one device's folder.

    Args:
        config: config of the device; `load` reads it.
        backoff: how often and how long calls to unreachable parties are repeated.
        clock: milliseconds since 1970 (UTC).
    """

    def __init__(
        self, config: ClientConfig, *, backoff: Backoff | None = None, clock: Clock = system_clock
    ) -> None:
        self._config = config
        self._clock = clock
        self._steps = DeviceSteps(config, backoff, clock)
        self._answering = asyncio.Lock()
        self._closed = False
        self._integers = RandomIntegers()

    @classmethod
    async def load(
        cls,
        place: str | os.PathLike[str],
        *,
        folder: str | os.PathLike[str] | None = None,
        backoff: Backoff | None = None,
    ) -> Self:
        """Load the device of a bundle, a device's folder, or a client.toml; see `homes.home_of`.

        Raises:
            ConfigError: there is no usable device; `StaleRosterError` if the device needs a later
                bundle.
            DocumentError: the roster is not under the bundle's root key.
        """
        home = None if folder is None else Path(folder)
        return cls(await asyncio.to_thread(home_of, Path(place), home), backoff=backoff)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Wait for an answer that is being sent, then close the device.

        Afterwards its methods raise `ValueError`.
        """
        async with self._answering:
            self._closed = True

    async def question(self, round_id: str | None = None) -> Question:
        """The question of this round, or of one that is open now, if this device may answer it.

        Raises:
            UnknownRoundError: there is no such round, or none is open.
            ClientPolicyRefusal: the round asks for more than the device's policy allows.
            SubmissionClosedError: the round is not open.
            DocumentError, RoundKeyError: one of the round's documents or keys does not verify.
            UnreachableError: no party answers.
        """
        return Question.of(await self._steps.find_round(round_id))

    async def questions(
        self,
        *,
        seconds: float | None = None,
        poll_seconds: float = POLL_SECONDS,
        refused: Callable[[ClientPolicyRefusal], object] | None = None,
    ) -> AsyncGenerator[Question, None]:
        """Yield open rounds that this device may answer and has not answered.

        Yields each once, as it comes.

        The broker, if the configuration names one, announces rounds at once; the analyst, or
        gateway, is asked every `poll_seconds` on average. While no party answers, pauses double
        up to a quarter of an hour, with full jitter. A round whose answer never got its receipt is
        yielded again: answering it sends the same answer again.

        Args:
            seconds: how long to wait in all; None for no limit.
            poll_seconds: mean interval of asking.
            refused: told of every round that the policy refuses, once.

        Raises:
            ConfigError: the device itself cannot continue: its roster (`StaleRosterError`) or TLS
                certificate has ended.
        """
        loop = asyncio.get_running_loop()
        until = math.inf if seconds is None else loop.time() + seconds
        seen, failures = AnnouncementMemory(), 0
        while True:
            candidate, answered = await self._newest()
            failures = 0 if answered else failures + 1
            if (
                candidate is not None
                and (question := self._acceptable(candidate, seen, refused)) is not None
            ):
                yield question
            rest = min(poll_pause(poll_seconds, failures, self._integers), until - loop.time())
            async with aclosing(self._candidates(rest)) as candidates:
                async for data in candidates:
                    if (question := self._acceptable(data, seen, refused)) is not None:
                        yield question
            if loop.time() >= until:
                return

    async def answer(self, question: Question | str, value: int) -> Answered:
        """Answer a question, or the round with this id, at most once in the device's lifetime.

        The answer is randomised, sealed and on disk before anything is sent. If one is kept from
        before, that one is sent again, whatever the value is now: a value that is randomised twice
        costs its user twice the ε.

        Raises:
            UsageError: the value is outside the question's range.
            RoundStateError: the round is over for this device.
            SubmissionClosedError: the round has closed.
            UnreachableError: no attempt was answered. The answer is kept; call again.
            ShuffleDPError: whatever `question` raises, and what the entry node refused it with.
        """
        if isinstance(value, bool) or not isinstance(value, int):
            raise UsageError(f"a value must be a whole number, not of type {type(value).__name__}")
        async with self._answering:
            self._require_open()
            if isinstance(question, str):
                done = await self._steps.submit(value, question)
            else:
                # Again, because time has passed since it was asked: roster and round must be
                # current when we answer.
                verified = None
                if self._steps.store.find(question.round_id) is None:
                    verified = self._steps.verified(
                        to_json(question.verified.announcement), question.round_id
                    )
                done = await self._steps.submit(value, question.round_id, verified=verified)
        return Answered(done.round_id, done.entry, done.messages, done.repeated)

    def pending(self) -> tuple[str, ...]:
        """The rounds whose answer this device has not found on the board yet."""
        return self._steps.store.rounds()

    async def check(
        self, round_id: str | None = None, *, wait: bool = False
    ) -> tuple[Checked, ...]:
        """Check the outcome of the answer to this round, or of the answers to all pending rounds.

        `wait`: for results that are not there yet, until the configuration's `wait_seconds` after
        the round's close.

        Raises:
            RoundStateError: the round is over for this device; `UnknownRoundError`: it was not
                answered from here.
        """
        self._require_open()
        if round_id is not None:
            self._steps.store.load(round_id)
        return tuple(
            [
                await self._check(pending, wait=wait)
                for pending in ([round_id] if round_id else self.pending())
            ]
        )

    async def evidence(self, round_id: str) -> tuple[Evidence, bytes]:
        """Checked evidence that messages with a receipt are missing, and the board.

        It reveals the randomised report.

        Raises:
            EvidenceError: the documents prove nothing; the message says why.
        """
        return await self._steps.evidence(round_id)

    def _require_open(self) -> None:
        if self._closed:
            raise ValueError("this device is closed; load it again")

    async def _check(self, round_id: str, *, wait: bool) -> Checked:
        try:
            result = await self._steps.verify(round_id, wait=wait)
        except ReceiptMissingError as error:
            return await self._missing(round_id, error)
        except RoundFailed as error:
            return Checked(round_id, Standing.FAILED, str(error), error=error)
        except UnknownRoundError as error:
            return Checked(round_id, Standing.WAITING, str(error), error=error)
        except SubmissionClosedError as error:
            # Only our own check erases; someone who merely says these words settles nothing.
            standing = Standing.UNCLEAR if round_id in self.pending() else Standing.LATE
            return Checked(round_id, standing, str(error), error=error)
        except ShuffleDPError as error:
            return Checked(round_id, Standing.UNCLEAR, str(error), error=error)
        return Checked(round_id, Standing.COUNTED, _messages_seen(result), result)

    async def _missing(self, round_id: str, error: ReceiptMissingError) -> Checked:
        """Report cheating only if it can be shown to others, or if the suite allows no evidence."""
        try:
            bundle, board = await self._steps.evidence(round_id)
            shown = check_evidence(bundle, self._steps.roster, board)
        except EvidenceError as unshown:
            words = f"{error}; there is no evidence for others: {unshown}"
            return Checked(round_id, Standing.MISSING, words, error=error)
        except ShuffleDPError as other:
            return Checked(round_id, Standing.UNCLEAR, str(other), error=other)
        return Checked(round_id, Standing.MISSING, str(error), shown=shown, error=error)

    async def _newest(self) -> tuple[bytes | None, bool]:
        """The announcement of the newest open round, if any, and True if any party answered."""
        try:
            return await self._steps.fetch_announcement(), True
        except UnknownRoundError:
            return None, True
        except ConfigError:
            raise
        except ShuffleDPError as error:  # also what a gateway or analyst says that makes no sense
            structlog.get_logger().info("no announcement available", reason=str(error))
            return None, False

    def _acceptable(
        self,
        data: bytes,
        seen: AnnouncementMemory,
        refused: Callable[[ClientPolicyRefusal], object] | None,
    ) -> Question | None:
        """The question in an announcement, if this device may answer it now; else None."""
        if seen.add(data) and not self._lacks_receipt(seen.round_of(data)):
            return None
        try:
            question = Question.of(self._steps.verified(data))
        except ClientPolicyRefusal as error:  # the last check: the manifest is genuine
            if refused is not None and not seen.add_manifest(parse_announcement(data).manifest):
                refused(error)
            return None
        except SubmissionClosedError:  # by our clock: a round that is not open yet will be
            seen.forget(data)
            return None
        except ShuffleDPError as error:  # anyone may have put it there
            structlog.get_logger().info("announcement skipped", reason=str(error))
            return None
        seen.record_round(data, question.round_id)
        try:
            stored = self._steps.store.find(question.round_id)
        except RoundStateError:
            return None
        is_repeated = seen.add_manifest(question.verified.announcement.manifest)
        is_open = not is_repeated if stored is None else stored.receipt is None
        return question if is_open else None

    def _lacks_receipt(self, round_id: str | None) -> bool:
        if round_id is None:
            return False
        try:
            stored = self._steps.store.find(round_id)
        except RoundStateError:
            return False
        return stored is not None and stored.receipt is None

    async def _candidates(self, seconds: float) -> AsyncGenerator[bytes, None]:
        """Yield the broker's announcements for `seconds`; without a broker, only wait."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        if self._config.broker is not None:
            deployment = self._steps.roster.deployment
            async with aclosing(
                listen_for_announcements(self._config.broker, deployment, None, seconds)
            ) as candidates:
                async for data in candidates:
                    yield data
        await asyncio.sleep(max(0.0, until - loop.time()))


def _messages_seen(result: CheckedResult) -> str:
    """Describe how many of a user's messages were found."""
    final, found = result.final, result.found or 0
    if found == final.mechanism.messages_per_user:
        return "all your messages are on the board, unchanged"
    if found:
        return f"{found} of your messages, drawn at random, is on the board, unchanged"
    return "the result is checked, and none of your messages was in the random tile of the board"
