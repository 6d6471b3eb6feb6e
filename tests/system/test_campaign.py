"""`shuffledp campaign` on a real system: weeks of rounds on a moved clock, and every way to be
interrupted."""

from __future__ import annotations

import asyncio
import contextlib
import csv
import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from campaigns import (
    FIRST,
    USERS,
    WEEK,
    Killed,
    MortalStore,
    MovedCalendar,
    SetCalendar,
    campaign_file,
    people,
    rounds_of,
    runner_of,
)
from commands import Shell
from rounds_for_tests import restart, submit_some, within_a_minute

from shuffledp import verify
from shuffledp_core.errors import BudgetExceeded, RoundFailed
from shuffledp_ops.campaigns.account import PopulationAccount, read_account
from shuffledp_ops.campaigns.commands import run_campaign
from shuffledp_ops.campaigns.config import load_campaign
from shuffledp_ops.campaigns.results import write_results
from shuffledp_ops.campaigns.running import CampaignRunner, outlook_of
from shuffledp_ops.campaigns.state import AttemptStage, CampaignStore, DateOutcome
from shuffledp_ops.rounds.running import abort_round, control_of
from shuffledp_sim.system.nursery import Nursery
from shuffledp_sim.system.processes import LocalBudget, LocalSystem

LIMIT = 60.0


@pytest.fixture(scope="module")
def running(
    tmp_path_factory: pytest.TempPathFactory, nursery: Nursery | None
) -> Iterator[LocalSystem]:
    """A system whose ledger has a limit that campaigns of a few rounds do not reach."""
    folder = tmp_path_factory.mktemp("campaigns")
    settings: dict[str, dict[str, float | str]] = {
        "analyst": {"discard_seconds": 5.0},
        "node": {"relay_seconds": 20.0},
    }
    local = LocalSystem(
        folder,
        nodes=2,
        budget=LocalBudget(LIMIT, 1e-2),
        settings=settings,
        nursery=nursery,
    )
    try:
        asyncio.run(local.start())
        yield local
    finally:
        local.stop()


@pytest.fixture
def keys(running: LocalSystem) -> Path:
    return running.deployment.folder


async def account_of(system: LocalSystem) -> PopulationAccount:
    return await read_account(system.deployment, system.population)


async def test_a_weekly_campaign_asks_on_its_dates_and_costs_what_was_planned(
    system: LocalSystem, pool: ProcessPoolExecutor, keys: Path, tmp_path: Path
) -> None:
    changes = (
        ("epsilon = 3.0", "total_epsilon = 6.0"),
        ('"krr-histogram"', '"node-histogram"'),  # its rounds get a part of the total's delta each
    )
    file = campaign_file(tmp_path, keys, changes)
    calendar, before = MovedCalendar(FIRST - WEEK), await rounds_of(system)
    (course,) = (await outlook_of(load_campaign(file), None)).courses
    assert course.account.limit > 6.0
    runner = await runner_of(file, calendar)
    async with people(system, pool):
        await within_a_minute(runner.run_dates(once=False))
    # In Berlin it is nine o'clock each time; summer time begins on the last Sunday of March, after
    # the third date.
    assert calendar.waited == [FIRST, FIRST + WEEK, FIRST + 2 * WEEK]
    entries = runner.state.entries
    assert [entry.outcome for entry in entries] == [DateOutcome.PUBLISHED] * 3
    asked = [entry.attempts[0].round_id for entry in entries]
    assert [round_id for round_id, _ in await rounds_of(system)] == asked[::-1] + [
        one for one, _ in before
    ]
    after = await account_of(system)
    assert (
        after.spent_epsilon() == course.after
    )  # to the last bit: composed by the same code over the same costs
    assert entries[-1].attempts[0].spent == after.spent_epsilon()
    assert all(after.charges[round_id] == "settled" for round_id in asked)

    folder = runner.store.folder
    write_results(runner.campaign, runner.state, folder)
    with (folder / "hours.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [(row["date"], row["value"]) for row in rows[::4]] == [
        ("2030-03-01T09:00:00+01:00", "0"), ("2030-03-08T09:00:00+01:00", "0"),
        ("2030-03-15T09:00:00+01:00", "0"),
    ]  # fmt: skip
    assert all((folder / row["report"]).is_file() for row in rows)
    assert all(
        float(row["low_95"]) <= float(row["high_95"]) and row["reports"] == str(USERS)
        for row in rows
    )
    page = (folder / "index.html").read_text()
    assert page.count(">report</a>") == 3
    assert (folder / "hours.png").read_bytes().startswith(b"\x89PNG")
    # Started again it has nothing to do, and asks nobody.
    again = await runner_of(file, calendar)
    await again.run_dates(once=False)
    assert again.state == runner.state


async def test_a_question_of_verified_rounds_leaves_what_their_mixing_is_checked_by(
    system: LocalSystem, pool: ProcessPoolExecutor, keys: Path, tmp_path: Path
) -> None:
    file = campaign_file(
        tmp_path, keys, (("rounds = 3", "rounds = 1"),), question='mix = "verified"'
    )
    runner = await runner_of(file, MovedCalendar(FIRST))
    async with people(system, pool):
        await within_a_minute(runner.run_dates(once=False))
    (entry,) = runner.state.entries
    assert entry.outcome is DateOutcome.PUBLISHED
    (attempt,) = entry.attempts
    checked = verify(runner.store.round_folder(attempt.round_id))
    lines = [line for one in checked for line in one.lines if line.startswith("mixing:")]
    assert lines[0].split()[1] == str(USERS), lines


@pytest.mark.parametrize("after", [True, False], ids=["just after", "just before"])
async def test_killed_at_every_write_it_opens_and_charges_every_round_once(
    system: LocalSystem, pool: ProcessPoolExecutor, keys: Path, tmp_path: Path, *, after: bool
) -> None:
    file = campaign_file(tmp_path, keys, (("rounds = 3", "rounds = 2"),))
    calendar, before, deaths = MovedCalendar(FIRST), await rounds_of(system), 0
    charged = set((await account_of(system)).charges)

    async def live() -> bool:
        # Just before the first write there is no progress: that process dies at its second.
        runner = await runner_of(
            file, calendar, lambda folder: MortalStore(folder, 1 if after else 2, after=after)
        )
        with contextlib.suppress(Killed):
            await runner.run_dates(once=False)
            return False
        return True

    async with people(system, pool):
        while await within_a_minute(live()):
            deaths += 1
    assert deaths >= 3
    state = CampaignStore(load_campaign(file).folder).load()
    assert state is not None
    assert [(entry.outcome, len(entry.attempts)) for entry in state.entries] == [
        (DateOutcome.PUBLISHED, 1)
    ] * 2
    asked = [entry.attempts[0].round_id for entry in state.entries]
    found = [one for one in await rounds_of(system) if one not in before]
    assert found == [(round_id, "published") for round_id in reversed(asked)]
    assert set((await account_of(system)).charges) - charged == set(asked)


def start(file: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "shuffledp.cli", "campaign", "run", str(file)],
        stderr=subprocess.PIPE,
        text=True,
    )


def line_with(process: subprocess.Popen[str], words: str) -> str:
    assert process.stderr is not None
    return next(line for line in process.stderr if words in line)


@pytest.mark.slow
def test_the_command_killed_in_a_round_and_between_rounds_goes_on_where_it_was(
    running: LocalSystem, pool: ProcessPoolExecutor, keys: Path, tmp_path: Path
) -> None:
    """The first date was ten days ago and is asked late; the second is in a year."""
    began = datetime.now(UTC).date() - timedelta(days=10)
    dates = (("from = 2030-03-01", f"from = {began}"), ("every_days = 7", "every_days = 366"))
    file = campaign_file(
        tmp_path, keys, (*dates, ("rounds = 3", "rounds = 2")), general='missed = "run"'
    )
    known = {one for one, _ in asyncio.run(rounds_of(running))}
    with start(file) as first:
        try:
            round_id = line_with(first, "is open").split()[1]
        finally:
            first.kill()
    assert first.returncode == -signal.SIGKILL
    with start(file) as second:
        try:
            asyncio.run(submit_some(running, pool, round_id, USERS))
            line_with(second, "number 1: published")
            line_with(second, "number 2")
        finally:
            second.kill()
    state = CampaignStore(load_campaign(file).folder).load()
    assert state is not None
    assert [entry.outcome for entry in state.entries] == [DateOutcome.PUBLISHED, DateOutcome.DUE]
    assert {one for one, _ in asyncio.run(rounds_of(running))} - known == {round_id}


async def test_too_few_reports_cost_nothing_and_are_tried_again(
    system: LocalSystem, keys: Path, tmp_path: Path
) -> None:
    question = 'retries = 1\nretry_seconds = 3600\nafter_failure = "skip"'
    changes = (("open_seconds = 120", "open_seconds = 0.5"), ("rounds = 3", "rounds = 1"))
    file = campaign_file(tmp_path, keys, changes, question=question)
    calendar, said = MovedCalendar(FIRST), list[str]()
    before = (await account_of(system)).spent_epsilon()
    runner = await runner_of(file, calendar, said=said)
    await within_a_minute(runner.run_dates(once=False))
    (entry,) = runner.state.entries
    assert entry.outcome is DateOutcome.FAILED
    assert runner.failures == 1
    assert [one.error for one in entry.attempts] == ["TooFewReportsError"] * 2
    assert [one.charge for one in entry.attempts] == ["released"] * 2
    assert calendar.waited == [FIRST + 3_600_000]
    assert (await account_of(system)).spent_epsilon() == before == entry.attempts[1].spent
    write_results(runner.campaign, runner.state, runner.store.folder)
    assert "TooFewReportsError" in (runner.store.folder / "hours.csv").read_text()
    assert "TooFewReportsError" in (runner.store.folder / "index.html").read_text()


@pytest.mark.slow
async def test_a_retry_finds_the_people_who_come_later(
    system: LocalSystem, pool: ProcessPoolExecutor, keys: Path, tmp_path: Path
) -> None:
    """The analyst's operator gives the first round up; the second is answered."""
    file = campaign_file(tmp_path, keys, (("rounds = 3", "rounds = 1"),), question="retries = 2")
    runner = await runner_of(file, MovedCalendar(FIRST))
    running = asyncio.ensure_future(runner.run_dates(once=False))
    round_id = await open_round_of(runner)
    async with control_of(system.deployment) as control:
        await abort_round(control, round_id, "a test")
    async with people(system, pool):
        await within_a_minute(running)
    (entry,) = runner.state.entries
    assert [(one.stage, one.error) for one in entry.attempts] == [
        (AttemptStage.FAILED, "RoundFailed"), (AttemptStage.PUBLISHED, None),
    ]  # fmt: skip
    assert entry.outcome is DateOutcome.PUBLISHED
    assert runner.failures == 0


async def open_round_of(runner: CampaignRunner) -> str:
    """The round that the runner has opened."""
    async with asyncio.timeout(240):
        while True:
            last = runner.state.entries[0].last
            if last is not None and last.stage is AttemptStage.OPEN:
                return last.round_id
            await asyncio.sleep(0.05)


async def test_a_campaign_that_stops_stays_stopped_until_somebody_has_looked(
    system: LocalSystem, keys: Path, tmp_path: Path
) -> None:
    changes = (("open_seconds = 120", "open_seconds = 0.5"), ("rounds = 3", "rounds = 2"))
    file = campaign_file(tmp_path, keys, changes, question='after_failure = "stop"')
    calendar, known = MovedCalendar(FIRST), await rounds_of(system)
    runner = await runner_of(file, calendar)
    with pytest.raises(RoundFailed, match="the campaign is stopped: see"):
        await within_a_minute(runner.run_dates(once=False))
    assert calendar.waited == []
    for _ in range(2):
        with pytest.raises(RoundFailed, match="was stopped: hours, number 1"):
            await asyncio.to_thread(run_campaign, file, once=False, go_on=False, calendar=calendar)
    assert len(await rounds_of(system)) == len(known) + 1
    with pytest.raises(RoundFailed, match="hours, number 2"):
        await asyncio.to_thread(run_campaign, file, once=False, go_on=True, calendar=calendar)
    assert len(await rounds_of(system)) == len(known) + 2


def test_a_budget_that_does_not_suffice_is_refused_before_anybody_is_asked(
    running: LocalSystem, keys: Path, tmp_path: Path, shuffledp: Shell
) -> None:
    file = campaign_file(
        tmp_path, keys, (("rounds = 3", "rounds = 300"), ("every_days = 7", "every_days = 1"))
    )
    known = asyncio.run(rounds_of(running))
    for words in (("plan",), ("run",), ("run", "--once")):
        code, _, errors = shuffledp("campaign", words[0], str(file), *words[1:])
        assert code == BudgetExceeded.exit_code, errors
        assert "does not cover the campaign" in errors
    (course,) = asyncio.run(outlook_of(load_campaign(file), None)).courses
    carried, enough = course.dates_covered(), course.sufficient_limit()
    assert 0 < carried < 300
    assert f"it covers the first {carried} of them" in errors
    assert course.account.covers(course.costs(carried))
    assert not course.account.covers(course.costs(carried + 1))
    assert enough is not None
    assert f"a budget of epsilon {enough:.4g} would cover all" in errors
    assert course.account.covers(course.costs(), enough)
    assert asyncio.run(rounds_of(running)) == known
    folder = load_campaign(file).folder
    assert not (folder / "state.json").exists()
    plan = json.loads((folder / "plan.json").read_text())
    assert plan["populations"][0]["fits"] is False
    assert (folder / "budget.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
async def test_what_others_spend_meanwhile_stops_the_campaign_before_its_next_date(
    system: LocalSystem, pool: ProcessPoolExecutor, keys: Path, tmp_path: Path
) -> None:
    """A second campaign is planned for the same people: what is left carries one of the two."""
    other = tmp_path / "other"
    other.mkdir()
    (course,) = (await outlook_of(load_campaign(campaign_file(tmp_path, keys)), None)).courses
    many = (("rounds = 3", "rounds = 300"), ("every_days = 7", "every_days = 1"))
    (wide,) = (await outlook_of(load_campaign(campaign_file(other, keys, many)), None)).courses
    fits = wide.dates_covered()
    assert fits > 3
    file = campaign_file(tmp_path, keys, (("rounds = 3", f"rounds = {fits}"),))
    runner = await runner_of(file, MovedCalendar(FIRST))
    async with people(system, pool):
        rival = await runner_of(
            campaign_file(other, keys, (("rounds = 3", "rounds = 1"),)), MovedCalendar(FIRST)
        )
        await within_a_minute(rival.run_dates(once=False))
    with pytest.raises(BudgetExceeded, match=f"it covers the first {fits - 1} of them"):
        await runner.run_dates(once=False)
    assert all(entry.attempts == () for entry in runner.state.entries)
    assert course.fits
    async with people(system, pool):
        await within_a_minute(runner.run_dates(once=True, go_on=True))
    assert [entry.outcome for entry in runner.state.entries][:2] == [
        DateOutcome.PUBLISHED,
        DateOutcome.DUE,
    ]


@pytest.mark.slow
async def test_an_analyst_that_is_restarted_in_a_round_is_waited_for(
    system: LocalSystem, pool: ProcessPoolExecutor, keys: Path, tmp_path: Path
) -> None:
    file = campaign_file(tmp_path, keys, (("rounds = 3", "rounds = 1"),))
    runner = await runner_of(file, MovedCalendar(FIRST))
    running = asyncio.ensure_future(runner.run_dates(once=False))
    round_id = await open_round_of(runner)
    system.processes["analyst"].kill()
    await restart(system, "analyst")
    await submit_some(system, pool, round_id, USERS)
    await within_a_minute(running)
    assert runner.state.entries[0].outcome is DateOutcome.PUBLISHED
    assert len(runner.state.entries[0].attempts) == 1


@pytest.mark.parametrize("missed", ["skip", pytest.param("run", marks=pytest.mark.slow)])
async def test_dates_that_passed_while_nothing_ran_are_left_out_or_asked_late(
    system: LocalSystem, pool: ProcessPoolExecutor, keys: Path, tmp_path: Path, missed: str
) -> None:
    file = campaign_file(
        tmp_path, keys, (("rounds = 3", "rounds = 2"),), general=f'missed = "{missed}"'
    )
    calendar, known = (
        MovedCalendar(FIRST + WEEK + 3_600_000),
        await rounds_of(system),
    )  # the second has an hour of grace
    runner = await runner_of(file, calendar)
    async with people(system, pool):
        await within_a_minute(runner.run_dates(once=True))
    late = DateOutcome.MISSED if missed == "skip" else DateOutcome.PUBLISHED
    assert [entry.outcome for entry in runner.state.entries] == [late, DateOutcome.PUBLISHED]
    assert len(await rounds_of(system)) == len(known) + (1 if missed == "skip" else 2)


async def test_dates_that_passed_after_a_round_that_nobody_followed_are_left_out(
    system: LocalSystem, pool: ProcessPoolExecutor, keys: Path, tmp_path: Path
) -> None:
    """Killed in the first round and started weeks later: the dates in between waited for
    nothing."""
    file = campaign_file(tmp_path, keys)
    calendar, known = MovedCalendar(FIRST), await rounds_of(system)
    runner = await runner_of(file, calendar, lambda folder: MortalStore(folder, 2, after=True))
    with pytest.raises(Killed):
        await runner.run_dates(once=False)
    calendar.time += 2 * WEEK + 2 * 3_600_000
    runner = await runner_of(file, calendar)
    assert [one.stage for one in runner.state.entries[0].attempts] == [AttemptStage.OPEN]
    async with people(system, pool):
        await within_a_minute(runner.run_dates(once=False))
    outcomes = [entry.outcome for entry in runner.state.entries]
    assert outcomes == [DateOutcome.PUBLISHED, DateOutcome.MISSED, DateOutcome.MISSED]
    assert len(await rounds_of(system)) == len(known) + 1


async def test_dates_that_a_clock_ahead_has_made_missed_are_asked_once_it_is_set_back(
    system: LocalSystem, pool: ProcessPoolExecutor, keys: Path, tmp_path: Path
) -> None:
    """A year ahead the campaign is over, and nobody was asked.

    Started again by the right clock, everybody is.
    """
    file = campaign_file(tmp_path, keys, (("rounds = 3", "rounds = 2"),))
    known, charged = await rounds_of(system), set((await account_of(system)).charges)
    ahead = await runner_of(file, MovedCalendar(FIRST + 52 * WEEK))
    await ahead.run_dates(once=False)
    assert [entry.outcome for entry in ahead.state.entries] == [DateOutcome.MISSED] * 2
    assert ahead.failures == 2
    calendar = MovedCalendar(FIRST - WEEK)
    runner = await runner_of(file, calendar)
    async with people(system, pool):
        await within_a_minute(runner.run_dates(once=False))
    assert calendar.waited == [FIRST, FIRST + WEEK]
    assert [(entry.outcome, len(entry.attempts)) for entry in runner.state.entries] == [
        (DateOutcome.PUBLISHED, 1)
    ] * 2
    assert runner.failures == 0
    asked = [entry.attempts[0].round_id for entry in runner.state.entries]
    assert [one for one, _ in await rounds_of(system)] == asked[::-1] + [one for one, _ in known]
    assert set((await account_of(system)).charges) - charged == set(asked)


async def test_a_clock_that_is_set_ahead_and_back_while_a_campaign_waits_has_no_date_asked_twice(
    system: LocalSystem, pool: ProcessPoolExecutor, keys: Path, tmp_path: Path
) -> None:
    """Ahead, the first date is asked and the second one missed.

    Set back, the second one is asked on its day.
    """
    file = campaign_file(tmp_path, keys)
    calendar = SetCalendar(FIRST - WEEK, FIRST, FIRST + WEEK + 2 * 3_600_000, FIRST - WEEK + 60_000)
    known, charged, said = (
        await rounds_of(system),
        set((await account_of(system)).charges),
        list[str](),
    )
    runner = await runner_of(file, calendar, said=said)
    async with people(system, pool):
        await within_a_minute(runner.run_dates(once=False))
    assert calendar.times == []
    assert calendar.waited == [FIRST + WEEK, FIRST + 2 * WEEK]
    assert "hours, number 2: missed" in said
    assert "the clock was ahead and was set back: 1 missed dates are due again" in said
    assert [(entry.outcome, len(entry.attempts)) for entry in runner.state.entries] == [
        (DateOutcome.PUBLISHED, 1)
    ] * 3
    assert runner.failures == 0
    asked = [entry.attempts[0].round_id for entry in runner.state.entries]
    assert [one for one, _ in await rounds_of(system)] == asked[::-1] + [one for one, _ in known]
    assert set((await account_of(system)).charges) - charged == set(asked)


async def test_a_round_that_was_never_opened_is_missed_when_it_is_too_late(
    system: LocalSystem, keys: Path, tmp_path: Path
) -> None:
    file = campaign_file(tmp_path, keys, (("rounds = 3", "rounds = 1"),))
    calendar, known = MovedCalendar(FIRST), await rounds_of(system)
    runner = await runner_of(file, calendar, lambda folder: MortalStore(folder, 1, after=True))
    with pytest.raises(Killed):
        await runner.run_dates(once=False)
    calendar.time += 2 * 3_600_000
    runner = await runner_of(file, calendar)
    assert [one.stage for one in runner.state.entries[0].attempts] == [AttemptStage.OPENING]
    await runner.run_dates(once=False)
    assert (runner.state.entries[0].outcome, runner.state.entries[0].attempts) == (
        DateOutcome.MISSED,
        (),
    )
    assert await rounds_of(system) == known


@pytest.mark.usefixtures("system")
async def test_several_questions_to_the_same_people_are_one_account(
    keys: Path, tmp_path: Path
) -> None:
    file = campaign_file(tmp_path, keys)
    question = file.read_text().partition("[[questions]]")[2]
    own = "[questions.schedule]\nfrom = 2030-03-02\nrounds = 5\nevery_days = 1\n"
    second = question.replace('"hours"', '"again"').replace("epsilon = 3.0", "epsilon = 1.0")
    file.write_text(f"{file.read_text()}[[questions]]{second}{own}")
    campaign = load_campaign(file)
    outlook = await outlook_of(campaign, None)
    (course,) = outlook.courses
    assert [date.question for date in course.dates] == ["hours", *["again"] * 5, "hours", "hours"]
    assert sorted(course.costs().values()) == [3, 5]
    alone = [
        course.account.spent_epsilon(course.costs() - Counter({cost: 9})) for cost in course.costs()
    ]
    assert max(alone) < course.after < sum(alone)
    assert [spent for _, spent in course.spending()] == sorted(
        spent for _, spent in course.spending()
    )


def test_two_at_once_are_refused(keys: Path, tmp_path: Path, shuffledp: Shell) -> None:
    file = campaign_file(tmp_path, keys)
    with CampaignStore(load_campaign(file).folder).lock():
        code, _, errors = shuffledp("campaign", "run", str(file))
    assert code == 2
    assert "this campaign is already running" in errors


def test_the_plan_and_the_status_are_shown(keys: Path, tmp_path: Path, shuffledp: Shell) -> None:
    file = campaign_file(tmp_path, keys)
    code, out, errors = shuffledp("campaign", "status", str(file))
    assert (code, "has not begun" in errors) == (2, True)
    code, out, errors = shuffledp("campaign", "plan", str(file))
    assert code == 0, errors
    assert "hours" in out
    assert "fits" in out
    assert "mixing" not in out
    code, out, errors = shuffledp("campaign", "plan", str(file), "--format", "json")
    plan = json.loads(out)
    assert plan["questions"][0]["plan"]["epsilon"] == 3.0
    assert [point["at"] for point in plan["populations"][0]["course"]] == [
        FIRST,
        FIRST + WEEK,
        FIRST + 2 * WEEK,
    ]
    asyncio.run(runner_of(file, MovedCalendar(FIRST - WEEK)))
    code, out, errors = shuffledp("campaign", "status", str(file))
    assert code == 0, errors
    assert out.count("due") == 3
    code, out, errors = shuffledp("campaign", "status", str(file), "--format", "json")
    assert [entry["at"] for entry in json.loads(out)["entries"]] == [
        FIRST,
        FIRST + WEEK,
        FIRST + 2 * WEEK,
    ]


def test_the_plan_says_which_questions_are_mixed_verified(
    keys: Path, tmp_path: Path, shuffledp: Shell
) -> None:
    file = campaign_file(tmp_path, keys)
    question = file.read_text().partition("[[questions]]")[2]
    checked = question.replace('"hours"', '"again"').replace(
        "epsilon = 3.0", 'epsilon = 1.0\nmix = "verified"'
    )
    file.write_text(f"{file.read_text()}[[questions]]{checked}")
    code, out, errors = shuffledp("campaign", "plan", str(file))
    assert code == 0, errors
    heading, hours, again = (
        next(line for line in out.splitlines() if word in line)
        for word in ("mixing", "hours", "again")
    )
    assert [line.split()[-1] for line in (heading, hours, again)] == ["mixing", "plain", "verified"]
    _, out, _ = shuffledp("campaign", "plan", str(file), "--format", "json")
    assert [one["plan"].get("mix") for one in json.loads(out)["questions"]] == [None, "verified"]
