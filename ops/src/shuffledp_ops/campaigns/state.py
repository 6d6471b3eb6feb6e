"""The state of a campaign on disk, written before each step so that a crash loses nothing.

A round's identifier is drawn and recorded first. After a restart the analyst is asked for it, so
that no round is opened twice. The values are pure; `CampaignStore` has the files and the lock.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import msgspec

from shuffledp_core.documents.models import RoundPlan
from shuffledp_core.documents.signed import from_json, to_json
from shuffledp_core.errors import ConfigError, MalformedDocumentError, OutputError
from shuffledp_core.runtime.files import write_atomic
from shuffledp_core.runtime.state import claim_state
from shuffledp_ops.campaigns.schedule import QuestionDate

STATE: Final = "state.json"
ROUNDS: Final = "rounds"
"""Folder of the rounds' documents and reports, below the campaign's."""


Moment: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**47)]
"""Milliseconds since 1970, in a year that a calendar has."""


class DateOutcome(StrEnum):
    """State of a date of a campaign."""

    DUE = "due"
    PUBLISHED = "published"
    FAILED = "failed"
    MISSED = "missed"


class AttemptStage(StrEnum):
    """State of an attempt, that is, of one round."""

    OPENING = "opening"
    OPEN = "open"
    PUBLISHED = "published"
    FAILED = "failed"


class RoundAttempt(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A round that was requested. Times are in milliseconds by the campaign's clock.

    `error` and `reason` are set for a failed round. `spent` is the population's ε after the round,
    `charge` the state of its charge; both are None if the accountant could not be reached.
    """

    round_id: str
    began_at: Moment
    stage: AttemptStage = AttemptStage.OPENING
    ended_at: Moment | None = None
    error: str | None = None
    reason: str | None = None
    accepted: int | None = None
    spent: float | None = None
    charge: str | None = None

    @property
    def running(self) -> bool:
        """True while the round may still be open."""
        return self.stage in {AttemptStage.OPENING, AttemptStage.OPEN}

    @property
    def latest(self) -> int:
        """Time of the attempt's end, or of its beginning if it has not ended."""
        return self.began_at if self.ended_at is None else self.ended_at


class DateEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One date of a question, with its attempts in order."""

    question: str
    number: int
    at: Moment
    outcome: DateOutcome = DateOutcome.DUE
    attempts: tuple[RoundAttempt, ...] = ()

    @property
    def last(self) -> RoundAttempt | None:
        """The newest attempt."""
        return self.attempts[-1] if self.attempts else None

    @property
    def date(self) -> QuestionDate:
        """The date of the question that this entry records."""
        return QuestionDate(self.question, self.number, self.at)

    def at_time(self, now: int, grace: int) -> DateEntry:
        """See `CampaignState.at_time`."""
        if self.outcome is DateOutcome.MISSED and not self.attempts and now - self.at <= grace:
            return msgspec.structs.replace(self, outcome=DateOutcome.DUE)
        last = self.last
        if self.outcome is not DateOutcome.DUE or last is None or last.latest <= now:
            return self
        ended_at = None if last.ended_at is None else min(last.ended_at, now)
        seen = msgspec.structs.replace(last, began_at=min(last.began_at, now), ended_at=ended_at)
        return msgspec.structs.replace(self, attempts=(*self.attempts[:-1], seen))


class CampaignState(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """State of a campaign that has begun.

    `digest` is that of its file; `plans`, one per question, are fixed from the beginning.
    `ended_at` is the end of its last round; `stopped` is the reason why it needs an operator's
    decision before it continues.
    """

    version: int = 1
    name: str
    digest: str
    began_at: Moment
    plans: dict[str, RoundPlan]
    entries: tuple[DateEntry, ...]
    ended_at: Moment = 0
    stopped: str | None = None

    def __post_init__(self) -> None:
        if self.version != 1:
            raise ValueError(
                f"version {self.version} of a campaign's state is not supported; this software "
                "uses version 1"
            )
        unplanned = {entry.question for entry in self.entries} - self.plans.keys()
        if unplanned:
            raise ValueError(f"question {min(unplanned)[:80]!r} has dates but no plan")

    def next_due(self) -> int | None:
        """Index of the first date that is still due; None if the campaign is over."""
        return next(
            (index for index, entry in enumerate(self.entries) if entry.outcome is DateOutcome.DUE),
            None,
        )

    def with_entry(self, index: int, **changes: Any) -> CampaignState:
        """A copy with one date changed."""
        entries = list(self.entries)
        entries[index] = msgspec.structs.replace(entries[index], **changes)
        return msgspec.structs.replace(self, entries=tuple(entries))

    def with_attempt(self, index: int, attempt: RoundAttempt) -> CampaignState:
        """A copy with a new attempt, or with the newest one replaced if the round is the same."""
        attempts = self.entries[index].attempts
        if attempts and attempts[-1].round_id == attempt.round_id:
            attempts = attempts[:-1]
        return self.with_entry(index, attempts=(*attempts, attempt))

    def at_time(self, now: int, grace: int) -> CampaignState:
        """A copy with times corrected (ms) that were written while the clock was ahead.

        1. A missed date whose time plus `grace` is not over becomes due again. No round was opened
           for it, so no one is asked twice and nothing is charged twice. Dates with an attempt stay
           as they are.
        2. No recorded time is later than `now`, so that retries and lateness count from now at the
           latest.

        While clocks only go forward this changes nothing.
        """
        entries = tuple(entry.at_time(now, grace) for entry in self.entries)
        if entries == self.entries and self.ended_at <= now:
            return self
        return msgspec.structs.replace(self, entries=entries, ended_at=min(self.ended_at, now))

    def unpaid(self, charged: set[str]) -> list[QuestionDate]:
        """Dates that are due and not charged yet; `charged` has the ids of charged rounds."""
        return [
            entry.date
            for entry in self.entries
            if entry.outcome is DateOutcome.DUE
            and not (
                entry.last is not None and entry.last.running and entry.last.round_id in charged
            )
        ]


class CampaignStore:
    """The folder of one campaign on disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the campaign's lock, which the kernel releases if the process dies.

        Raises:
            ConfigError: another process runs this campaign, or the folder cannot be used.
        """
        try:
            lock = claim_state(self.folder)
        except ConfigError as error:
            raise ConfigError(
                f"this campaign is already running, or its folder cannot be used: {error}"
            ) from error
        try:
            yield
        finally:
            os.close(lock)

    def load(self) -> CampaignState | None:
        """The state; None before the first round. Raises `ConfigError` for a damaged file."""
        try:
            data = (self.folder / STATE).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ConfigError(
                f"cannot read {self.folder / STATE}: {error.strerror}; check its permissions"
            ) from error
        try:
            return from_json(data, CampaignState)
        except MalformedDocumentError as error:
            raise ConfigError(
                f"{self.folder / STATE} is damaged ({error}): restore a copy. Without it the "
                "campaign would repeat and charge dates a second time; `shuffledp results list` "
                "shows which rounds it has opened"
            ) from error

    def save(self, state: CampaignState) -> None:
        """Replace the state on disk atomically. Raises `OutputError`."""
        try:
            write_atomic(self.folder / STATE, to_json(state))
        except OSError as error:
            raise OutputError(
                f"cannot write {self.folder / STATE}: {error.strerror}; no round is opened "
                "unless it is recorded there first"
            ) from error

    def round_folder(self, round_id: str) -> Path:
        """Folder of a round's documents."""
        return self.folder / ROUNDS / round_id
