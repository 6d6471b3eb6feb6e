"""Implementation of `shuffledp campaign`."""

from __future__ import annotations

import asyncio
import json
import math
import sys
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

from shuffledp.progress import working
from shuffledp_core.errors import ConfigError, NotInstalledError, OutputError, RoundFailed
from shuffledp_core.runtime.files import write_atomic
from shuffledp_core.vocabulary import Mix
from shuffledp_ops.campaigns.budget import Outlook, check_outlook
from shuffledp_ops.campaigns.clock import Calendar, SystemCalendar
from shuffledp_ops.campaigns.config import Campaign, load_campaign, zone_named
from shuffledp_ops.campaigns.results import INDEX, write_results
from shuffledp_ops.campaigns.running import CampaignRunner, begin, check_same, outlook_of
from shuffledp_ops.campaigns.state import CampaignState, CampaignStore, DateEntry
from shuffledp_ops.rounds.saving import writable_folder
from shuffledp_ops.rounds.telemetry import TelemetryExporter

PLAN: Final = "plan.json"
BUDGET: Final = "budget.png"

_OUT: Final = "`out` in the campaign's file"

_WIDE: Final = 130
"""Width of the tables, in characters, where there is no terminal."""


def run_plan(file: Path, *, as_json: bool) -> None:
    """Print what the campaign costs, and draw the budget over its dates.

    Calls no party but the accountant.

    Raises:
        BudgetExceeded: after everything is printed, if the budget does not cover the campaign.
        ShuffleDPError: the file is invalid, a price cannot be computed, or the accountant cannot be
            reached.
    """
    campaign = load_campaign(file)
    state = CampaignStore(campaign.folder).load()
    if state is not None:
        check_same(campaign, state)
    with writable_folder(campaign.folder, _OUT), working("planning"):
        outlook = asyncio.run(outlook_of(campaign, state))
        plan = _plan(outlook)
        write_plan(campaign, outlook, plan)
    if as_json:
        sys.stdout.write(json.dumps(plan, indent=2) + "\n")
    else:
        _print_plan(campaign, outlook)
    sys.stdout.flush()
    check_outlook(outlook)


def run_campaign(
    file: Path,
    *,
    once: bool,
    go_on: bool,
    otlp_endpoint: str | None = None,
    calendar: Calendar | None = None,
) -> None:
    """Run the campaign; see `CampaignRunner.run_dates`.

    Its tables, pictures and page are regenerated after each date. The trace of each round is sent
    to the collector at `otlp_endpoint`; if that fails, a warning is printed.

    Raises:
        ConfigError: the file is invalid or was changed, or the campaign is already running.
        BudgetExceeded: the budget does not cover it; no round is opened.
        RoundFailed: a date has no answer, or the campaign is stopped.
        ShuffleDPError: as `CampaignRunner.run_dates`.
    """
    campaign = load_campaign(file)
    calendar = calendar or SystemCalendar()
    exporter = None if otlp_endpoint is None else TelemetryExporter(otlp_endpoint)
    store = CampaignStore(campaign.folder)
    with writable_folder(campaign.folder, _OUT), store.lock():
        asyncio.run(_run_campaign(campaign, store, calendar, exporter, once=once, go_on=go_on))


async def _run_campaign(
    campaign: Campaign,
    store: CampaignStore,
    calendar: Calendar,
    exporter: TelemetryExporter | None,
    *,
    once: bool,
    go_on: bool,
) -> None:
    state = store.load()
    if state is None:
        state = await _begin_campaign(campaign, store, calendar)
    check_same(campaign, state)
    if go_on and state.stopped is not None:
        state = msgspec.structs.replace(state, stopped=None)
        store.save(state)
    runner = CampaignRunner(campaign, store, state, calendar, _say, exporter)
    runner.on_outcome = lambda: write_results(campaign, runner.state, store.folder)
    runner.on_outcome()
    try:
        await runner.run_dates(once=once, go_on=go_on)
    finally:
        runner.on_outcome()
    _say(f"results: {store.folder / INDEX}")
    if runner.failures:
        raise RoundFailed(
            f"{runner.failures} of the dates have no answer; see `shuffledp campaign status`"
        )


async def _begin_campaign(
    campaign: Campaign, store: CampaignStore, calendar: Calendar
) -> CampaignState:
    """Plan a campaign that the budgets cover, and write its first state to disk."""
    with working("planning"):
        outlook = await outlook_of(campaign, None)
        write_plan(campaign, outlook, _plan(outlook))
        check_outlook(outlook)
    state = begin(
        campaign, {name: priced.plan for name, priced in outlook.questions.items()}, calendar.now()
    )
    store.save(state)
    _say(f"campaign {campaign.name!r} begins: {len(state.entries)} dates")
    return state


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def write_plan(campaign: Campaign, outlook: Outlook, plan: dict[str, Any]) -> None:
    """Write the plan as JSON and as a picture into the campaign's folder. Raises `OutputError`.

    Without matplotlib, the extra `plot`, there is no picture.
    """
    from shuffledp_ops.campaigns.pictures import draw_budget

    try:
        write_atomic(campaign.folder / PLAN, json.dumps(plan, indent=2).encode() + b"\n")
        with suppress(NotInstalledError):
            write_atomic(campaign.folder / BUDGET, draw_budget(outlook))
    except OSError as error:
        raise OutputError(
            f"cannot write the plan into {campaign.folder}: {error.strerror}; free space there"
        ) from error


def _plan(outlook: Outlook) -> dict[str, Any]:
    return {
        "questions": [
            {
                "name": name,
                "plan": msgspec.to_builtins(priced.plan),
                "epsilon_certified": _finite(priced.analysis.bounds.certified),
                "epsilon_corrupted": _finite(priced.analysis.corrupted.epsilon),
                "standard_error": priced.analysis.error,
                "messages_per_user": priced.cost.mechanism.messages_per_user,
            }
            for name, priced in outlook.questions.items()
        ],
        "populations": [
            {
                "name": course.account.population,
                "limit": course.account.limit,
                "delta": course.account.delta,
                "composition": course.account.composition.value,
                "adjacency": course.account.adjacency.value,
                "rounds": len(course.dates),
                "spent_before": _finite(course.before),
                "spent_after": _finite(course.after),
                "fits": course.fits,
                "course": [{"at": at, "spent": _finite(spent)} for at, spent in course.spending()],
            }
            for course in outlook.courses
        ],
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _print_plan(campaign: Campaign, outlook: Outlook) -> None:
    console = Console(width=None if sys.stdout.isatty() else _WIDE)
    show_mixing = any(priced.question.mix is not Mix.PLAIN for priced in outlook.questions.values())
    headings = (
        "question",
        "population",
        "rounds left",
        "mechanism",
        "ε each",
        "δ",
        "± s.e.",
        "messages each",
    )
    questions = _table(*headings, *(["mixing"] if show_mixing else []))
    for name, priced in outlook.questions.items():
        left = sum(date.question == name for course in outlook.courses for date in course.dates)
        plan, error = priced.plan, f"{priced.analysis.error:,.1f}"
        messages = f"{priced.cost.mechanism.messages_per_user:,}"
        cells = (
            plan.population,
            f"{left:,}",
            plan.mechanism,
            f"{plan.epsilon:g}",
            f"{plan.delta:g}",
            error,
            messages,
        )
        questions.add_row(name, *cells, *([priced.question.mix.value] if show_mixing else []))
    console.print(questions)
    people = _table(
        "population", "spent now", "after the last date", "limit", "δ", "composition", ""
    )
    for course in outlook.courses:
        account = course.account
        verdict = "fits" if course.fits else "does NOT fit"
        after = "no bound" if math.isinf(course.after) else f"{course.after:.4g}"
        row = (
            f"{course.before:.4g}",
            after,
            f"{account.limit:g}",
            f"{account.delta:g}",
            account.composition.value,
        )
        people.add_row(account.population, *row, verdict)
    console.print(people)
    console.print(f"The budget over time: {campaign.folder / BUDGET}", soft_wrap=True, markup=False)


def run_status(file: Path, *, as_json: bool) -> None:
    """Print every date and its state, as recorded on disk; calls no party.

    Raises:
        ConfigError: the file is invalid or was changed, or the campaign has not begun.
    """
    campaign = load_campaign(file)
    state = CampaignStore(campaign.folder).load()
    if state is None:
        raise ConfigError(
            f"campaign {campaign.name!r} has not begun: `shuffledp campaign run {file}`"
        )
    check_same(campaign, state)
    if as_json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(state)).decode() + "\n")
        return
    console = Console(width=None if sys.stdout.isatty() else _WIDE)
    console.print(_status_table(campaign, state))
    if state.stopped is not None:
        console.print(f"Stopped: {state.stopped}. Resume: --go-on", markup=False, soft_wrap=True)
    console.print(f"Results: {campaign.folder / INDEX}", markup=False, soft_wrap=True)


def _status_table(campaign: Campaign, state: CampaignState) -> Table:
    table = _table("date", "question", "outcome", "tries", "round", "reports", "ε spent", "charge")
    for entry in state.entries:
        zone = zone_named(campaign.schedule_of(campaign.question(entry.question)).zone)
        when = datetime.fromtimestamp(entry.at / 1000, zone)
        table.add_row(f"{when:%Y-%m-%d %H:%M}", entry.question, *_status(entry))
    return table


def _status(entry: DateEntry) -> tuple[str, ...]:
    last = entry.last
    if last is None:
        return (entry.outcome.value, "", "", "", "", "")
    stage = last.stage.value if last.running else entry.outcome.value
    return (
        f"{stage}: {last.error}" if last.error else stage,
        str(len(entry.attempts)),
        last.round_id[:8],
        "" if last.accepted is None else f"{last.accepted:,}",
        "" if last.spent is None else f"{last.spent:.4g}",
        last.charge or "",
    )


def _table(*headings: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table
