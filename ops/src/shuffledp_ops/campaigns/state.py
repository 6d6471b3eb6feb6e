"""What a campaign has asked so far, on disk: written before anything is asked, so that a crash
forgets nothing.

A round's identifier is drawn and written down first; whoever starts again asks the analyst for it,
and opens nothing twice. The values are pure; `Store` has the files and the lock.
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
from shuffledp_core.files import write_atomic
from shuffledp_core.state import claim_state
from shuffledp_ops.campaigns.schedule import Date

STATE: Final = "state.json"
ROUNDS: Final = "rounds"
"""Folder of the rounds' documents and reports, below the campaign's."""


Moment: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**47)]
"""Milliseconds since 1970, in a year that a calendar has."""


class Outcome(StrEnum):
    """How a date stands."""

    DUE = "due"
    PUBLISHED = "published"
    FAILED = "failed"
    MISSED = "missed"


class Stage(StrEnum):
    """How one attempt, which is one round, stands."""

    OPENING = "opening"
    OPEN = "open"
    PUBLISHED = "published"
    FAILED = "failed"


class Attempt(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A round that was asked for. Times in milliseconds by the campaign's clock.

    `error` and `reason` are a failed round's; `spent` is the population's ε after it, `charge` what
    became of its own charge; None where the accountant could not be asked.
    """

    round_id: str
    began_at: Moment
    stage: Stage = Stage.OPENING
    ended_at: Moment | None = None
    error: str | None = None
    reason: str | None = None
    accepted: int | None = None
    spent: float | None = None
    charge: str | None = None

    @property
    def running(self) -> bool:
        """True while it may still be open."""
        return self.stage in {Stage.OPENING, Stage.OPEN}

    @property
    def latest(self) -> int:
        """When it ended, or where it has not, began."""
        return self.began_at if self.ended_at is None else self.ended_at


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One date of a question with its attempts, in their order."""

    question: str
    number: int
    at: Moment
    outcome: Outcome = Outcome.DUE
    attempts: tuple[Attempt, ...] = ()

    @property
    def last(self) -> Attempt | None:
        """The newest attempt."""
        return self.attempts[-1] if self.attempts else None

    @property
    def date(self) -> Date:
        """When, of what."""
        return Date(self.question, self.number, self.at)

    def at_time(self, now: int, grace: int) -> Entry:
        """See `State.at_time`."""
        if self.outcome is Outcome.MISSED and not self.attempts and now - self.at <= grace:
            return msgspec.structs.replace(self, outcome=Outcome.DUE)
        last = self.last
        if self.outcome is not Outcome.DUE or last is None or last.latest <= now:
            return self
        ended_at = None if last.ended_at is None else min(last.ended_at, now)
        seen = msgspec.structs.replace(last, began_at=min(last.began_at, now), ended_at=ended_at)
        return msgspec.structs.replace(self, attempts=(*self.attempts[:-1], seen))


class State(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A campaign that has begun.

    `digest` is its file's, `plans` are the questions', fixed from the beginning on.

    `ended_at` is when its last round ended; `stopped` says why somebody has to look before it goes
    on.
    """

    version: int = 1
    name: str
    digest: str
    began_at: Moment
    plans: dict[str, RoundPlan]
    entries: tuple[Entry, ...]
    ended_at: Moment = 0
    stopped: str | None = None

    def __post_init__(self) -> None:
        if self.version != 1:
            raise ValueError(
                f"version {self.version} is not understood; this software writes version 1"
            )
        unplanned = {entry.question for entry in self.entries} - self.plans.keys()
        if unplanned:
            raise ValueError(f"question {min(unplanned)[:80]!r} has dates and no plan")

    def next_due(self) -> int | None:
        """Place of the first date that is still due; None: the campaign is over."""
        return next(
            (place for place, entry in enumerate(self.entries) if entry.outcome is Outcome.DUE),
            None,
        )

    def with_entry(self, place: int, **changes: Any) -> State:
        """The same with one date changed."""
        entries = list(self.entries)
        entries[place] = msgspec.structs.replace(entries[place], **changes)
        return msgspec.structs.replace(self, entries=tuple(entries))

    def with_attempt(self, place: int, attempt: Attempt) -> State:
        """The same with a new attempt, or with its newest one changed where the round is the
        same.
        """
        known = self.entries[place].attempts
        kept = known[:-1] if known and known[-1].round_id == attempt.round_id else known
        return self.with_entry(place, attempts=(*kept, attempt))

    def at_time(self, now: int, grace: int) -> State:
        """The same as seen at `now`, where the clock may have been ahead when it was written.

        All in milliseconds.

        1. A date that was missed, and whose time with its `grace` is not over, is still to come. No
           round was opened for it, so nobody is asked twice and nothing is charged twice. What was
           asked stays as it is.
        2. Nothing has happened later than now: retries and lateness are counted from now at the
           latest.

        While clocks only go forward this changes nothing.
        """
        entries = tuple(entry.at_time(now, grace) for entry in self.entries)
        if entries == self.entries and self.ended_at <= now:
            return self
        return msgspec.structs.replace(self, entries=entries, ended_at=min(self.ended_at, now))

    def unpaid(self, charged: set[str]) -> list[Date]:
        """Dates whose rounds are still to be charged, given the rounds that are."""
        return [
            entry.date
            for entry in self.entries
            if entry.outcome is Outcome.DUE
            and not (
                entry.last is not None and entry.last.running and entry.last.round_id in charged
            )
        ]


class Store:
    """The folder of one campaign."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the campaign's lock; the kernel lets go of it when the process dies.

        Raises:
            ConfigError: another process runs this campaign, or the folder cannot be used.
        """
        try:
            lock = claim_state(self.folder)
        except ConfigError as error:
            raise ConfigError(
                f"this campaign runs already, or its folder cannot be used: {error}"
            ) from error
        try:
            yield
        finally:
            os.close(lock)

    def read(self) -> State | None:
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
            return from_json(data, State)
        except MalformedDocumentError as error:
            raise ConfigError(
                f"{self.folder / STATE} is damaged ({error}): put a copy of it back. Without it "
                f"the campaign would ask "
                "and pay again for dates that it has asked for; `shuffledp results list` says which"
            ) from error

    def write(self, state: State) -> None:
        """Replaces the state on disk, whole. Raises `OutputError`."""
        try:
            write_atomic(self.folder / STATE, to_json(state))
        except OSError as error:
            raise OutputError(
                f"cannot write {self.folder / STATE}: {error.strerror}; nothing is asked before "
                f"it is written down"
            ) from error

    def round_folder(self, round_id: str) -> Path:
        """Folder of a round's documents."""
        return self.folder / ROUNDS / round_id
