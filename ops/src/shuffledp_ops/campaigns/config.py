"""The file of a campaign: its questions, populations, schedules and prices.

Pure but for reading the file.
"""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, date, tzinfo
from enum import StrEnum
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import msgspec
from msgspec import UNSET

from shuffledp_core.documents.models import RoundPlan
from shuffledp_core.documents.wording import QuestionWording
from shuffledp_core.errors import ConfigError, ShuffleDPError
from shuffledp_core.mechanisms import MECHANISMS
from shuffledp_core.onion.suites import check_suite
from shuffledp_core.privacy import Adjacency
from shuffledp_core.questions.described import convert_question
from shuffledp_core.runtime.config import Section, parse_config
from shuffledp_core.runtime.files import read_file, size_of
from shuffledp_core.vocabulary import DEFAULT_SUITE, Mix
from shuffledp_ops.keys.names import check_name, check_names
from shuffledp_privacy.calibration.target import MOST_LOCAL
from shuffledp_privacy.splitting import ends_of_noise

MOST_BYTES: Final = 2**18
"""Longest file of a campaign; those of people have a few hundred bytes."""

MOST_DATES: Final = 1000
"""Most dates of one schedule."""

MOST_QUESTIONS: Final = 50

_HOUR: Final = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]")
_MOST_SECONDS: Final = 366 * 86400


class AfterFailure(StrEnum):
    """What the campaign does after a date without an answer, once all retries have failed.

    It continues with the next date, or stops until the operator restarts it.
    """

    SKIP = "skip"
    STOP = "stop"


class MissedPolicy(StrEnum):
    """What happens to a date that passed while the program did not run: skip it, or run it late."""

    SKIP = "skip"
    RUN = "run"


def zone_named(name: str) -> tzinfo:
    """The time zone of that name. Raises `ValueError`."""
    if name == "UTC":  # known everywhere, also where no zones are installed
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:  # OSError: a folder of zones, such as "Europe"
        raise ValueError(
            f"time zone {name[:80]!r} is not known on this machine; use a name such as "
            '"Europe/Berlin" or "UTC", or install tzdata'
        ) from error


class Schedule(Section, frozen=True, kw_only=True):
    """Dates of a question: every `every_days` days at an hour in a time zone, from a first date.

    `rounds` dates, or all up to `until`; one of the two. `at` is the hour on the clocks of that
    zone, summer and winter.
    """

    first: date = msgspec.field(name="from")
    at: str = "09:00"
    zone: str = "UTC"
    every_days: int = 7
    rounds: int | None = None
    until: date | None = None

    def __post_init__(self) -> None:
        if not _HOUR.fullmatch(self.at):
            raise ValueError(f'at must be a time of day such as "09:00", not {self.at[:80]!r}')
        zone_named(self.zone)
        if not 1 <= self.every_days <= 366:
            raise ValueError(f"every_days must be from 1 to 366, not {self.every_days}")
        if (self.rounds is None) == (self.until is None):
            raise ValueError(
                "a schedule needs either rounds, their number, or until, its last date; give "
                "one of the two"
            )
        if not 2000 <= self.first.year <= 2200:
            raise ValueError(f"from must be in the years 2000 to 2200, not {self.first}")
        if self.until is not None and self.until < self.first:
            raise ValueError(f"until {self.until} is before from {self.first}")
        if not 1 <= self.count <= MOST_DATES:
            raise ValueError(f"a schedule has 1 to {MOST_DATES} dates, not {self.count}")

    @property
    def count(self) -> int:
        """Number of dates."""
        if self.rounds is not None:
            return self.rounds
        last = self.until or self.first
        return (last - self.first).days // self.every_days + 1


class CampaignQuestion(Section, frozen=True, kw_only=True):
    """One question of a campaign. ε is in nats, δ a probability.

    `colluding` is 5% of `min_reports` by default.

    `epsilon_local` is the largest ε_L that is accepted, the guarantee if every node is corrupt; by
    default any.

    `epsilon` is that of each round. `total_epsilon`, used instead, is that of all rounds together
    at `delta`, and each round's is computed from it (`round_delta`). `wording` is the question in
    words, which devices show and the accountant signs; `max_value` then follows from it.
    `description` describes one over a schema instead (`shuffledp_core.questions`); it also gives a
    mechanism, if none is named. `candidates` is a file of texts, one in each line, which are looked
    up in the answers to an open list; it may change while the campaign runs. `field` names the
    answers in text and pictures; by default the sentence of `wording`. A date whose round failed is
    retried `retries` times, each after `retry_seconds`. `question` is a number that distinguishes
    the memoised responses of different questions, for mechanisms with such responses. With `mix`
    "verified" anyone can check the mixing.
    """

    name: str
    mechanism: str = ""
    max_value: int | None = None
    min_reports: int
    max_reports: int
    epsilon: float | None = None
    total_epsilon: float | None = None
    delta: float = 1e-6
    adjacency: Adjacency = Adjacency.STANDARD
    max_distance: int | None = None
    epsilon_local: float | None = None
    colluding: int | None = None
    population: str = "demo"
    question: int = 0
    field: str = "value"
    wording: QuestionWording | None = None
    description: dict[str, Any] | None = None
    candidates: Path | None = None
    route: tuple[str, ...] | None = None
    suite: str = DEFAULT_SUITE
    mix: Mix = Mix.PLAIN
    open_seconds: float = 3600.0
    retries: int = 0
    retry_seconds: float = 600.0
    after_failure: AfterFailure = AfterFailure.SKIP
    schedule: Schedule | None = None

    def __post_init__(self) -> None:
        check_name(self.name, "question")
        self._compile()
        if not self.mechanism:
            raise ValueError(
                f"question {self.name!r} needs a mechanism, such as node-histogram, or a "
                "[questions.description] that gives one"
            )
        if self.mechanism not in MECHANISMS:
            raise ValueError(
                f"unknown mechanism {self.mechanism[:80]!r}; choose one of {', '.join(MECHANISMS)}"
            )
        if self.max_value is None and self.wording is None:
            raise ValueError(
                f"question {self.name!r} needs max_value, or words in [questions.wording] or "
                "[questions.description]"
            )
        most = MECHANISMS[self.mechanism].most_size
        if not 1 <= self.largest <= most:
            raise ValueError(f"max_value must be from 1 to {most}, not {self.largest}")
        self._check_guarantee()
        if not 0 <= self.question < 2**31:
            raise ValueError(
                f"question must be a number from 0 to {2**31 - 1}, not {self.question}"
            )
        if not 0 <= self.retries <= 10:
            raise ValueError(f"retries must be from 0 to 10, not {self.retries}")
        if not 0 <= self.retry_seconds <= _MOST_SECONDS:
            raise ValueError(f"retry_seconds must be from 0 to a year, not {self.retry_seconds}")
        if self.candidates is not None and not (self.wording and self.wording.is_open):
            raise ValueError(
                f"question {self.name!r} has candidates, which only an open list has: leave them "
                'out, or ask = "strings"'
            )
        if not 1 <= len(self.field) <= 200:
            raise ValueError(f"field must have 1 to 200 characters, not {len(self.field)}")
        self._check_suite()
        self.plan(("node-1", "node-2"), 1.0)  # the rules of a plan on counts and times

    def _compile(self) -> None:
        if self.description is None:
            return
        if self.wording is not None:
            raise ValueError(
                f"question {self.name!r} has both a wording and a description: give only one"
            )
        try:
            compiled = convert_question(self.description)
        except ShuffleDPError as error:
            raise ValueError(f"question {self.name!r}: {error}") from error
        # From here on it is a question in words: the campaign's digest has these.
        msgspec.structs.force_setattr(self, "wording", compiled.wording)
        if not self.mechanism:
            msgspec.structs.force_setattr(self, "mechanism", compiled.mechanism)
        msgspec.structs.force_setattr(self, "description", None)

    @property
    def largest(self) -> int:
        """The largest value: `max_value`, or the last symbol of the question in words."""
        if self.max_value is not None:
            return self.max_value
        return 0 if self.wording is None else self.wording.size - 1

    @property
    def subject(self) -> str:
        """The quantity that is asked for, in words: `field`, or else the question's sentence."""
        if self.wording is None or self.field != "value":
            return self.field
        return self.wording.text

    def _check_guarantee(self) -> None:
        if (self.epsilon is None) == (self.total_epsilon is None):
            raise ValueError(
                f"question {self.name!r} needs either epsilon, for each round, or total_epsilon, "
                "for all rounds together"
            )
        price = self.epsilon if self.epsilon is not None else self.total_epsilon
        if price is None or not 0 < price <= 100:
            raise ValueError(f"epsilon must be above 0 and at most 100, not {price}")
        if not 1e-12 <= self.delta < 1:
            raise ValueError(f"delta must be from 1e-12 to below 1, not {self.delta}")
        if self.epsilon_local is not None and not 0 < self.epsilon_local <= MOST_LOCAL:
            raise ValueError(
                f"epsilon_local must be above 0 and at most {MOST_LOCAL:g}, not "
                f"{self.epsilon_local}"
            )

    def _check_suite(self) -> None:
        try:
            check_suite(self.suite, self.mix)
        except ShuffleDPError as error:
            raise ValueError(f"question {self.name!r}: {error}") from error

    def round_delta(self, times: int) -> float:
        """δ of each of `times` rounds: `delta`, or a part of it for noise of nodes under a total.

        Bounded noise reveals the value with a probability of up to the round's δ, and these add up
        over the rounds. Guarantees that come from a crowd do not depend on the δ they are stated
        at.
        """
        if self.total_epsilon is None or MECHANISMS[self.mechanism].needs_crowd:
            return self.delta
        return ends_of_noise(self.delta, times)

    def plan(self, nodes: tuple[str, ...], epsilon: float, delta: float | None = None) -> RoundPlan:
        """The plan of each round of the question, over the question's route or else `nodes`.

        δ is the question's by default. Raises `ValueError`.
        """
        return RoundPlan(
            population=self.population,
            mechanism=self.mechanism,
            size=MECHANISMS[self.mechanism].size_for(self.largest),
            epsilon=epsilon,
            delta=self.delta if delta is None else delta,
            adjacency=self.adjacency,
            max_distance=self.max_distance,
            min_reports=self.min_reports,
            max_reports=self.max_reports,
            colluding=self.min_reports // 20 if self.colluding is None else self.colluding,
            route=self.route or nodes,
            suite=self.suite,
            mix=self.mix,
            open_seconds=self.open_seconds,
            question=self.question,
            epsilon_local=UNSET if self.epsilon_local is None else self.epsilon_local,
            wording=UNSET if self.wording is None else self.wording,
        )


class Campaign(Section, frozen=True, kw_only=True):
    """A campaign.

    `keys` is the deployment's key folder; results are in `out`/campaign-NAME (default: beside the
    file).

    A date that could not be begun within `grace_seconds` is missed; `missed` says what happens to
    it.
    """

    name: str
    keys: Path
    schedule: Schedule
    questions: tuple[CampaignQuestion, ...]
    out: Path | None = None
    missed: MissedPolicy = MissedPolicy.SKIP
    grace_seconds: float = 3600.0

    def __post_init__(self) -> None:
        check_name(self.name, "campaign")
        if not 1 <= len(self.questions) <= MOST_QUESTIONS:
            raise ValueError(
                f"a campaign has 1 to {MOST_QUESTIONS} [[questions]], not {len(self.questions)}"
            )
        check_names([question.name for question in self.questions], "question")
        if any(question.name == "budget" for question in self.questions):
            raise ValueError(
                'a question cannot be named "budget", because the plan\'s picture has that name; '
                "give it another name"
            )
        if not 1 <= self.grace_seconds <= _MOST_SECONDS:
            raise ValueError(f"grace_seconds must be from 1 to a year, not {self.grace_seconds}")

    @property
    def folder(self) -> Path:
        """Folder that the campaign writes its files to."""
        return (self.out or Path("out")) / f"campaign-{self.name}"

    def question(self, name: str) -> CampaignQuestion:
        """The question of that name."""
        return next(question for question in self.questions if question.name == name)

    def schedule_of(self, question: CampaignQuestion) -> Schedule:
        """The question's own schedule, or else the campaign's."""
        return question.schedule or self.schedule

    @property
    def digest(self) -> str:
        """Digest of the settings that must not change once a campaign runs: all but file locations.

        Values equal to the default are left out, so that a key added by a later version does not
        affect running campaigns.
        """
        fields = {
            name: value
            for name, value in _changed_fields(self).items()
            if name not in {"keys", "out"}
        }
        # What is looked up in an answer changes nothing that people are asked.
        fields["questions"] = [
            {name: value for name, value in question.items() if name != "candidates"}
            for question in fields["questions"]
        ]
        return hashlib.sha256(
            msgspec.json.encode(fields, enc_hook=str, order="deterministic")
        ).hexdigest()


def _changed_fields(section: Section) -> dict[str, Any]:
    """The fields of a section and its subsections whose values are not the defaults."""

    def plain(value: Any) -> Any:
        if isinstance(value, Section):
            return _changed_fields(value)
        return [plain(item) for item in value] if isinstance(value, tuple) else value

    fields = ((field, getattr(section, field.name)) for field in msgspec.structs.fields(section))
    return {field.encode_name: plain(value) for field, value in fields if value != field.default}


def load_campaign(file: Path) -> Campaign:
    """Read a campaign from a TOML file; paths are relative to its folder. Raises `ConfigError`."""
    if size_of(file) > MOST_BYTES:
        raise ConfigError(
            f"{file} has more than {MOST_BYTES} bytes, more than a campaign file may have; check "
            "the path"
        )
    base = file.resolve().parent
    campaign = parse_config(read_file(file, "campaign"), Campaign, str(file), base)
    return (
        campaign
        if campaign.out is not None
        else msgspec.structs.replace(campaign, out=base / "out")
    )
