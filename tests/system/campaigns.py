"""Small campaigns for tests, on a clock that is moved by hand."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from rounds_for_tests import small_values

from shuffledp_ops.campaigns.config import Campaign, load_campaign
from shuffledp_ops.campaigns.running import CampaignRunner, begin, check_same, outlook_of
from shuffledp_ops.campaigns.state import CampaignState, CampaignStore
from shuffledp_ops.results.fetching import summaries
from shuffledp_sim.system.processes import LocalSystem
from shuffledp_sim.users.play import FixedValues, play

USERS = 5
WEEK = 7 * 86_400_000

CAMPAIGN = """
name = "weekly"
keys = "{keys}"
{general}
[schedule]
from = 2030-03-01
at = "09:00"
zone = "Europe/Berlin"
every_days = 7
rounds = 3
{schedule}
[[questions]]
name = "hours"
field = "hours a week"
mechanism = "krr-histogram"
max_value = 3
min_reports = 5
max_reports = 5
epsilon = 3.0
delta = 1e-3
open_seconds = 120
{question}
"""

FIRST = round(datetime(2030, 3, 1, 8, tzinfo=UTC).timestamp() * 1000)
"""Nine o'clock in Berlin, in winter."""


def campaign_file(
    folder: Path, keys: Path, changes: tuple[tuple[str, str], ...] = (), **parts: str
) -> Path:
    """Writes a campaign of three weeks; `parts` are added lines, `changes` replace some."""
    text = CAMPAIGN.format(**{"keys": keys, "general": "", "schedule": "", "question": ""} | parts)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    file = folder / "weekly.toml"
    file.write_text(text)
    return file


class MovedCalendar:
    """A clock that stands still until somebody waits for a moment, and is then at that moment."""

    def __init__(self, now: int) -> None:
        self.time = now
        self.waited: list[int] = []

    def now(self) -> int:
        return self.time

    async def sleep_towards(self, moment: int) -> None:
        if moment > self.time:
            self.waited.append(moment)
            self.time = moment


class SetCalendar(MovedCalendar):
    """A clock that somebody sets while the campaign waits: to each of these times, and then no
    more."""

    def __init__(self, now: int, *times: int) -> None:
        super().__init__(now)
        self.times = list(times)

    async def sleep_towards(self, moment: int) -> None:
        if self.times:
            self.time = self.times.pop(0)
        else:
            await super().sleep_towards(moment)


class Killed(BaseException):
    """The process is no more."""


class MortalStore(CampaignStore):
    """A folder whose process is killed at one of its writes: just before it, or just after."""

    def __init__(self, folder: Path, write: int, *, after: bool) -> None:
        super().__init__(folder)
        self._left, self._after = write, after

    def save(self, state: CampaignState) -> None:
        self._left -= 1
        if self._left or self._after:
            super().save(state)
        if not self._left:
            raise Killed


async def runner_of(
    file: Path,
    calendar: MovedCalendar,
    make: Callable[[Path], CampaignStore] = CampaignStore,
    said: list[str] | None = None,
) -> CampaignRunner:
    """What a process that starts now works with: everything else it knows is on the disk."""
    campaign: Campaign = load_campaign(file)
    campaign.folder.mkdir(parents=True, exist_ok=True)
    state = CampaignStore(campaign.folder).load()
    if state is None:
        outlook = await outlook_of(campaign, None)
        state = begin(
            campaign,
            {name: priced.plan for name, priced in outlook.questions.items()},
            calendar.now(),
        )
        CampaignStore(campaign.folder).save(state)
    check_same(campaign, state)
    return CampaignRunner(
        campaign, make(campaign.folder), state, calendar, (said if said is not None else []).append
    )


@asynccontextmanager
async def people(
    system: LocalSystem, pool: ProcessPoolExecutor, users: int = USERS
) -> AsyncIterator[None]:
    """Simulated people who take part in every round that is announced."""
    playing = asyncio.ensure_future(
        play(system, FixedValues(small_values(users)), pool, once=False)
    )
    try:
        yield
    finally:
        playing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await playing


async def rounds_of(system: LocalSystem) -> list[tuple[str, str]]:
    """All rounds of the analyst, newest first, with their outcome."""
    return [(one.round_id, one.outcome) async for one in summaries(system.deployment)]
