"""Runs a campaign, one date after the other; it can be stopped and resumed at any time.

Every step is recorded before it is taken (`state`), so that the next run resumes where this one
ended: it follows an open round, and does not repeat a date that has an answer.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Final

import msgspec

from shuffledp_core.documents.models import RoundPlan
from shuffledp_core.errors import (
    BudgetExceeded,
    ConfigError,
    OutputError,
    PolicyRefusal,
    RoundFailed,
    ShuffleDPError,
    UnknownRoundError,
    UsageError,
    by_code,
)
from shuffledp_ops.campaigns.account import PopulationAccount, read_account
from shuffledp_ops.campaigns.budget import (
    Outlook,
    check_outlook,
    check_plans,
    look_ahead,
    price,
    price_question,
)
from shuffledp_ops.campaigns.clock import Calendar
from shuffledp_ops.campaigns.config import (
    AfterFailure,
    Campaign,
    CampaignQuestion,
    MissedPolicy,
    zone_named,
)
from shuffledp_ops.campaigns.rounds import (
    HOPELESS,
    NeverOpenedError,
    RoundOutcome,
    run_round_to_end,
)
from shuffledp_ops.campaigns.schedule import dates
from shuffledp_ops.campaigns.state import (
    AttemptStage,
    CampaignState,
    CampaignStore,
    DateEntry,
    DateOutcome,
    RoundAttempt,
)
from shuffledp_ops.keys.pki import Deployment, open_deployment
from shuffledp_ops.rounds.operate import trusted_files
from shuffledp_ops.rounds.report import RoundReport
from shuffledp_ops.rounds.reporting import look_up
from shuffledp_ops.rounds.saving import save_round
from shuffledp_ops.rounds.telemetry import TelemetryExporter, export_trace

STOPPED: Final = (
    "see `shuffledp campaign status`, then resume with `shuffledp campaign run --go-on`"
)


async def outlook_of(campaign: Campaign, state: CampaignState | None) -> Outlook:
    """The outlook over all dates still to be charged, with the stored plans of a begun campaign.

    Raises:
        ConfigError: a question does not fit this deployment.
        CannotCertify: a question's price cannot be computed.
        ShuffleDPError: the accountant cannot be reached.
    """
    deployment = open_deployment(campaign.keys)
    roster = deployment.roster
    nodes = tuple(node.name for node in roster.nodes())
    check_plans(campaign, [population.name for population in roster.populations], nodes)
    accounts = await _accounts(deployment, campaign)
    if state is None:
        plan = dates(campaign)
        questions = {
            question.name: price_question(
                question, nodes, accounts[question.population], campaign.schedule_of(question).count
            )
            for question in campaign.questions
        }
        return look_ahead(campaign, accounts, plan, questions)
    charged = {round_id for account in accounts.values() for round_id in account.charges}
    questions = {
        question.name: price(question, state.plans[question.name])
        for question in campaign.questions
    }
    return look_ahead(campaign, accounts, state.unpaid(charged), questions)


async def _accounts(deployment: Deployment, campaign: Campaign) -> Mapping[str, PopulationAccount]:
    populations = dict.fromkeys(question.population for question in campaign.questions)
    return {population: await read_account(deployment, population) for population in populations}


def begin(campaign: Campaign, plans: Mapping[str, RoundPlan], now: int) -> CampaignState:
    """The state of a campaign before its first round."""
    entries = tuple(
        DateEntry(question=date.question, number=date.number, at=date.at)
        for date in dates(campaign)
    )
    return CampaignState(
        name=campaign.name, digest=campaign.digest, began_at=now, plans=dict(plans), entries=entries
    )


def check_same(campaign: Campaign, state: CampaignState) -> None:
    """Raise `ConfigError` if the file changed since the campaign began, or the state differs."""
    if state.digest != campaign.digest:
        raise ConfigError(
            f"the file of campaign {campaign.name!r} was changed after its first round, but the "
            "budget was planned for its former contents: restore the file, or give the changed "
            "campaign another name"
        )
    if state.plans.keys() != {question.name for question in campaign.questions}:
        raise ConfigError(
            f"state.json of campaign {campaign.name!r} is damaged: it has plans for other "
            "questions than the campaign's file; restore a copy"
        )


@dataclass
class CampaignRunner:
    """Runs one campaign; the caller holds the lock of `store`.

    Attributes:
        campaign: the campaign's file.
        store: folder of the campaign.
        state: state of the campaign, always identical to the one on disk.
        calendar: the clock.
        say: writes one line for the operator.
        exporter: sends the trace of each round; None for no traces.
        on_outcome: called after each date's outcome, and once for dates that are skipped together.
        unanswered: indexes of the dates that this runner left without an answer.
        opened: rounds that this runner opened and has followed without interruption.
        checked: True once the remaining dates are known to fit the budgets, or the operator has
            accepted that they do not.
    """

    campaign: Campaign
    store: CampaignStore
    state: CampaignState
    calendar: Calendar
    say: Callable[[str], None]
    exporter: TelemetryExporter | None = None
    on_outcome: Callable[[], None] = lambda: None
    unanswered: set[int] = field(default_factory=set)
    opened: set[str] = field(default_factory=set)
    checked: bool = False

    @property
    def failures(self) -> int:
        """Number of dates that this runner left without an answer."""
        return len(self.unanswered)

    async def run_dates(self, *, once: bool, go_on: bool = False) -> None:
        """Run the rounds of all dates as they come; with `once`, only of dates that are due now.

        1. Follow a round that was in progress to its end.
        2. Skip dates for which it is too late, if the file says so.
        3. Check that the remaining dates fit the budgets; `go_on` continues even if they do not.
        4. Run one date after the other. If the clock was ahead and is set back, the dates that were
           missed for that reason become due again, and step 3 is repeated.

        Raises:
            BudgetExceeded: step 3 failed, or a ledger refused a round that was planned.
            RoundFailed: the campaign was stopped, now or before.
            ShuffleDPError: the operator's own keys or files are invalid, or the analyst cannot be
                reached.
        """
        if self.state.stopped is not None:
            raise RoundFailed(
                f"campaign {self.campaign.name!r} was stopped: {self.state.stopped}; {STOPPED}"
            )
        self._apply_clock()
        index = self.state.next_due()
        if index is not None and self._is_running(index):  # 1
            await self._settle(index)
        self._skip_missed()  # 2
        while (index := self.state.next_due()) is not None:  # 4
            entry = self.state.entries[index]
            if once and self._earliest_start(index) > self.calendar.now():
                self.say(f"nothing is due before {self._when(entry, self._earliest_start(index))}")
                return
            if not self.checked:  # 3
                await self._check(go_on=go_on)
            self.say(
                f"{entry.question}, number {entry.number}, is due at {self._when(entry, entry.at)}"
            )
            await self._settle(index)
            self._apply_clock()

    def _skip_missed(self) -> None:
        """Close all dates that passed while no program ran; in one step, as they may be many."""
        left_out = {
            index
            for index, entry in enumerate(self.state.entries)
            if entry.outcome is DateOutcome.DUE and not entry.attempts and self._is_late(entry.at)
        }
        if not left_out:
            return
        entries = tuple(
            msgspec.structs.replace(entry, outcome=DateOutcome.MISSED)
            if index in left_out
            else entry
            for index, entry in enumerate(self.state.entries)
        )
        self._write(msgspec.structs.replace(self.state, entries=entries))
        self.unanswered |= left_out
        self.on_outcome()
        for index in sorted(left_out):
            self.say(
                f"{entries[index].question}, number {entries[index].number}: {DateOutcome.MISSED}"
            )

    async def _check(self, *, go_on: bool) -> None:
        try:
            check_outlook(await outlook_of(self.campaign, self.state))
        except BudgetExceeded as error:
            if not go_on:
                raise BudgetExceeded(
                    f"{error}; or add --go-on to run only the dates that the budget covers"
                ) from error
            self.say(f"continuing nevertheless: {error}")
        self.checked = True

    def _when(self, entry: DateEntry, moment: int) -> str:
        """Format a moment in the time zone of the entry's question."""
        zone = self.campaign.schedule_of(self.campaign.question(entry.question)).zone
        return f"{datetime.fromtimestamp(moment / 1000, zone_named(zone)):%Y-%m-%d %H:%M}, {zone}"

    def _is_running(self, index: int) -> bool:
        last = self.state.entries[index].last
        return last is not None and last.running

    def _write(self, state: CampaignState) -> None:
        self.store.save(state)
        self.state = state

    def _apply_clock(self) -> bool:
        """Correct all dates for the present clock (`CampaignState.at_time`).

        Returns True if some missed dates are due again.
        """
        state = self.state.at_time(self.calendar.now(), self._grace)
        if state is self.state:
            return False
        indexes = [
            index
            for index, (old, new) in enumerate(zip(self.state.entries, state.entries, strict=True))
            if old.outcome is not new.outcome
        ]
        self._write(state)
        if not indexes:
            return False
        self.unanswered.difference_update(indexes)
        self.checked = False
        self.on_outcome()
        self.say(f"the clock was ahead and was set back: {len(indexes)} missed dates are due again")
        return True

    @property
    def _grace(self) -> int:
        """Grace period of the campaign's dates, in milliseconds."""
        return round(self.campaign.grace_seconds * 1000)

    def _earliest_start(self, index: int) -> int:
        """Earliest time of the next attempt of a date."""
        entry = self.state.entries[index]
        question = self.campaign.question(entry.question)
        if entry.last is None:
            return entry.at
        return (entry.last.ended_at or entry.last.began_at) + round(question.retry_seconds * 1000)

    def _is_late(self, since: int) -> bool:
        begins = max(since, self.state.ended_at)
        return (
            self.campaign.missed is MissedPolicy.SKIP and self.calendar.now() - begins > self._grace
        )

    async def _settle(self, index: int) -> None:
        """Run one date until its outcome; each step depends only on the recorded state."""
        question = self.campaign.question(self.state.entries[index].question)
        while self.state.entries[index].outcome is DateOutcome.DUE:
            last = self.state.entries[index].last
            if last is None or not last.running:
                if last is not None and not await self._should_retry(
                    index, question, _error_of(last)
                ):
                    self._fail_date(index, question, _error_of(last))
                    return
                if not await self._begin(index):
                    return
            await self._attempt(index, question)

    async def _begin(self, index: int) -> bool:
        """Wait for a date or for its next attempt, and record a new attempt.

        Returns False if it is too late, or if another date may now be due earlier because the clock
        was set back.
        """
        while (since := self._earliest_start(index)) > self.calendar.now():
            await self.calendar.sleep_towards(since)
            if self._apply_clock():
                return False
        if self._is_late(since):
            self._close(
                index,
                DateOutcome.FAILED if self.state.entries[index].attempts else DateOutcome.MISSED,
            )
            return False
        # Recorded before the analyst is called: after a crash the round is looked up by this id.
        attempt = RoundAttempt(round_id=secrets.token_hex(16), began_at=self.calendar.now())
        self._write(self.state.with_attempt(index, attempt))
        return True

    async def _attempt(self, index: int, question: CampaignQuestion) -> None:
        """Run the newest attempt to its end, from the point where an earlier process stopped."""
        attempt = self.state.entries[index].last
        if attempt is None:
            raise ValueError("an attempt is recorded before it is made")

        def record_opening() -> None:
            self.opened.add(attempt.round_id)
            self._write(
                self.state.with_attempt(
                    index, msgspec.structs.replace(attempt, stage=AttemptStage.OPEN)
                )
            )
            self.say(f"round {attempt.round_id} is open for {question.open_seconds:g} s")

        # Read again for each round: during a campaign, keys and roster are renewed.
        deployment, plan = open_deployment(self.campaign.keys), self.state.plans[question.name]
        try:
            outcome = await run_round_to_end(
                deployment,
                plan,
                attempt.round_id,
                may_open=lambda: (
                    attempt.stage is AttemptStage.OPENING and not self._is_late(attempt.began_at)
                ),
                on_opened=record_opening,
                on_ended=partial(
                    export_trace,
                    self.exporter,
                    deployment.roster.deployment,
                    plan,
                    attempt.round_id,
                ),
            )
        except NeverOpenedError:
            if attempt.stage is AttemptStage.OPENING:
                before = self.state.entries[index].attempts[:-1]
                self._close(
                    index, DateOutcome.FAILED if before else DateOutcome.MISSED, attempts=before
                )
                return
            words = (
                f"the analyst has lost round {attempt.round_id}, which was open: check its state "
                "folder"
            )
            outcome = RoundOutcome(error=UnknownRoundError(words))
        await self._keep(index, attempt, outcome)

    async def _keep(self, index: int, attempt: RoundAttempt, outcome: RoundOutcome) -> None:
        """Save a round's documents, then record its outcome."""
        report, error = outcome.report, outcome.error
        if report is not None:
            question = self.campaign.question(self.state.entries[index].question)
            report = _add_texts(report, question, self.say)
            folder = self.store.round_folder(attempt.round_id)
            try:
                folder.parent.mkdir(exist_ok=True)
                save_round(report, folder, trusted_files(self.campaign.keys))
            except OSError as failure:
                raise OutputError(
                    f"round {attempt.round_id} is published, but its documents cannot be written "
                    f"into {folder}: {failure.strerror}; free space, and run the campaign again: "
                    "it repeats no round"
                ) from failure
        question = self.campaign.question(self.state.entries[index].question)
        spent, charge = await self._read_charge(question, attempt.round_id)
        finished = msgspec.structs.replace(
            attempt,
            stage=AttemptStage.FAILED if report is None else AttemptStage.PUBLISHED,
            ended_at=self.calendar.now(),
            error=None if error is None else type(error).__name__,
            reason=None if error is None else str(error),
            accepted=None if report is None else report.accepted,
            spent=spent,
            charge=charge,
        )
        attempts = (*self.state.entries[index].attempts[:-1], finished)
        state = msgspec.structs.replace(self.state, ended_at=self._ended_at(attempt, question))
        if report is None:
            self._write(state.with_entry(index, attempts=attempts))
        else:  # in one write: a date whose answer is recorded is not repeated
            self.state = state
            self._close(index, DateOutcome.PUBLISHED, attempts=attempts)

    def _ended_at(self, attempt: RoundAttempt, question: CampaignQuestion) -> int:
        """End of a round: now, but at the latest its closing time if an earlier process ran it.

        Such a round may have ended while nothing ran; then no later date had to wait for it.
        """
        now = self.calendar.now()
        if attempt.round_id in self.opened:
            return now
        return min(now, attempt.began_at + round(question.open_seconds * 1000))

    async def _read_charge(
        self, question: CampaignQuestion, round_id: str
    ) -> tuple[float | None, str | None]:
        """The population's ε after a round and the state of its charge; None if unreachable."""
        try:
            deployment = open_deployment(self.campaign.keys)
            account = await read_account(deployment, question.population)
        except ShuffleDPError:
            return None, None
        return account.spent_epsilon(), account.charges.get(round_id, "none")

    async def _should_retry(
        self, index: int, question: CampaignQuestion, error: ShuffleDPError
    ) -> bool:
        """True if a retry can help and leaves enough budget for all later dates."""
        attempts = self.state.entries[index].attempts
        if len(attempts) > question.retries or isinstance(error, (*HOPELESS, PolicyRefusal)):
            return False
        try:
            check_outlook(await outlook_of(self.campaign, self.state))
        except BudgetExceeded:
            self.say(f"{question.name}: no retry, because later dates need the remaining budget")
            return False
        self.say(f"{question.name}: {error}; retry in {question.retry_seconds:g} s")
        return True

    def _fail_date(self, index: int, question: CampaignQuestion, error: ShuffleDPError) -> None:
        hopeless = isinstance(error, (*HOPELESS, PolicyRefusal))
        stopped = hopeless or question.after_failure is AfterFailure.STOP
        entry = self.state.entries[index]
        words = f"{entry.question}, number {entry.number}, has no answer: {error}"
        changed = self.state.with_entry(index, outcome=DateOutcome.FAILED)
        self._write(msgspec.structs.replace(changed, stopped=words) if stopped else changed)
        self.unanswered.add(index)
        self.on_outcome()
        self.say(words)
        if not stopped:
            return
        if isinstance(error, PolicyRefusal):
            raise type(error)(f"{words}; the campaign is stopped: {STOPPED}")
        raise RoundFailed(f"{words}; the campaign is stopped: {STOPPED}")

    def _close(self, index: int, outcome: DateOutcome, **changes: Any) -> None:
        self._write(self.state.with_entry(index, outcome=outcome, **changes))
        entry = self.state.entries[index]
        if outcome is not DateOutcome.PUBLISHED:
            self.unanswered.add(index)
        self.on_outcome()
        self.say(f"{entry.question}, number {entry.number}: {outcome}")


def _add_texts(
    report: RoundReport, question: CampaignQuestion, say: Callable[[str], None]
) -> RoundReport:
    """Add to a report the frequent texts among its question's candidates, if it has any."""
    if question.candidates is None:
        return report
    try:
        return look_up(report, question.candidates)
    except UsageError as error:  # the answer is published: it is saved without them
        say(f"{question.name}: {error}; later: `shuffledp report FOLDER --candidates FILE`")
        return report


def _error_of(attempt: RoundAttempt) -> ShuffleDPError:
    return by_code(attempt.error or "RoundFailed")(attempt.reason or "no reason was recorded")
