"""A campaign at work: one date after the other, whatever stops it in between.

Every step is written down before it is taken (`state`), so that after any end the next start goes
on where this one was: an open round is followed, a date that has an answer is not asked again.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
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
    by_code,
)
from shuffledp_ops.campaigns.account import Account, read_account
from shuffledp_ops.campaigns.budget import (
    Outlook,
    check_outlook,
    check_plans,
    look_ahead,
    price,
    priced,
)
from shuffledp_ops.campaigns.clock import Calendar
from shuffledp_ops.campaigns.config import AfterFailure, Campaign, Missed, Question, zone_named
from shuffledp_ops.campaigns.rounds import HOPELESS, Ended, NeverOpenedError, round_to_its_end
from shuffledp_ops.campaigns.schedule import dates
from shuffledp_ops.campaigns.state import Attempt, Entry, Outcome, Stage, State, Store
from shuffledp_ops.keys.pki import Deployment, open_deployment
from shuffledp_ops.rounds.operate import trusted_files
from shuffledp_ops.rounds.saving import save_round

STOPPED: Final = (
    "look at `shuffledp campaign status`, then go on with `shuffledp campaign run --go-on`"
)


async def outlook_of(campaign: Campaign, state: State | None) -> Outlook:
    """The outlook over all dates that are not charged yet.

    Of a campaign that has begun with the plans it began with.

    Raises:
        ConfigError: a question that cannot be asked of this deployment.
        CannotCertify: one whose price cannot be had.
        ShuffleDPError: the accountant cannot be asked.
    """
    deployment = open_deployment(campaign.keys)
    roster = deployment.roster
    nodes = tuple(node.name for node in roster.nodes())
    check_plans(campaign, [population.name for population in roster.populations], nodes)
    accounts = await _accounts(deployment, campaign)
    if state is None:
        plan = dates(campaign)
        asked = {
            question.name: priced(
                question, nodes, accounts[question.population], campaign.schedule_of(question).count
            )
            for question in campaign.questions
        }
        return look_ahead(campaign, accounts, plan, asked)
    charged = {round_id for account in accounts.values() for round_id in account.charges}
    asked = {
        question.name: price(question, state.plans[question.name])
        for question in campaign.questions
    }
    return look_ahead(campaign, accounts, state.unpaid(charged), asked)


async def _accounts(deployment: Deployment, campaign: Campaign) -> Mapping[str, Account]:
    populations = dict.fromkeys(question.population for question in campaign.questions)
    return {population: await read_account(deployment, population) for population in populations}


def begin(campaign: Campaign, plans: Mapping[str, RoundPlan], now: int) -> State:
    """The state of a campaign before its first round."""
    entries = tuple(
        Entry(question=one.question, number=one.number, at=one.at) for one in dates(campaign)
    )
    return State(
        name=campaign.name, digest=campaign.digest, began_at=now, plans=dict(plans), entries=entries
    )


def check_same(campaign: Campaign, state: State) -> None:
    """Raises `ConfigError` unless the file is still what the campaign began with, and the state of
    its questions.
    """
    if state.digest != campaign.digest:
        raise ConfigError(
            f"the file of campaign {campaign.name!r} was changed since its first round, and its "
            f"budget was planned for "
            "what it said then: put it back, or give the new one another name"
        )
    if state.plans.keys() != {question.name for question in campaign.questions}:
        raise ConfigError(
            f"state.json of campaign {campaign.name!r} is damaged: its plans are not those of the "
            f"file's questions; "
            "put a copy of it back"
        )


@dataclass
class Runner:
    """Runs one campaign; its `store` is locked by the caller.

    Attributes:
        campaign: as in its file.
        store: its folder.
        state: how it stands; always what is on disk.
        calendar: the clock.
        say: takes one line for people.
        ended: called after each date with an outcome, and once for all that are left out together.
        unanswered: places of the dates that were left without an answer since this runner was made.
        opened: rounds that this runner opened, and has followed ever since.
        checked: whether what is left is known to fit into the ledgers, or somebody knows that it
            does not.
    """

    campaign: Campaign
    store: Store
    state: State
    calendar: Calendar
    say: Callable[[str], None]
    ended: Callable[[], None] = lambda: None
    unanswered: set[int] = field(default_factory=set)
    opened: set[str] = field(default_factory=set)
    checked: bool = False

    @property
    def failed(self) -> int:
        """Number of dates that this runner left without an answer."""
        return len(self.unanswered)

    async def run(self, *, once: bool, go_on: bool = False) -> None:
        """Asks every date when it comes, to the last one; with `once` only those that are due now.

        1. A round that was under way is followed to its end.
        2. Dates for which it is too late are left out, where the file says so.
        3. What is left must fit into the ledgers; with `go_on`, somebody knows that it does not.
        4. One date after the other. Where the clock was ahead, and is set back, the dates that it
           made missed are due again, and 3 is done again.

        Raises:
            BudgetExceeded: step 3; or a ledger refused a round that was planned for.
            RoundFailed: the campaign was stopped, now or before.
            ShuffleDPError: the operator's own keys or files are wrong, or the analyst stays away.
        """
        if self.state.stopped is not None:
            raise RoundFailed(
                f"campaign {self.campaign.name!r} was stopped: {self.state.stopped}; {STOPPED}"
            )
        self._set_right()
        place = self.state.next_due()
        if place is not None and self._running(place):  # 1
            await self._settle(place)
        self._leave_out()  # 2
        while (place := self.state.next_due()) is not None:  # 4
            entry = self.state.entries[place]
            if once and self._from(place) > self.calendar.now():
                self.say(f"nothing is due before {self._when(entry, self._from(place))}")
                return
            if not self.checked:  # 3
                await self._check(go_on=go_on)
            self.say(
                f"{entry.question}, number {entry.number}, is due at {self._when(entry, entry.at)}"
            )
            await self._settle(place)
            self._set_right()

    def _leave_out(self) -> None:
        """Closes all dates that passed while nothing ran, in one step: there may be a thousand."""
        left_out = {
            place
            for place, entry in enumerate(self.state.entries)
            if entry.outcome is Outcome.DUE and not entry.attempts and self._late(entry.at)
        }
        if not left_out:
            return
        entries = tuple(
            msgspec.structs.replace(entry, outcome=Outcome.MISSED) if place in left_out else entry
            for place, entry in enumerate(self.state.entries)
        )
        self._write(msgspec.structs.replace(self.state, entries=entries))
        self.unanswered |= left_out
        self.ended()
        for place in sorted(left_out):
            self.say(f"{entries[place].question}, number {entries[place].number}: {Outcome.MISSED}")

    async def _check(self, *, go_on: bool) -> None:
        try:
            check_outlook(await outlook_of(self.campaign, self.state))
        except BudgetExceeded as error:
            if not go_on:
                raise BudgetExceeded(f"{error}; or ask those that it carries: --go-on") from error
            self.say(f"going on all the same: {error}")
        self.checked = True

    def _when(self, entry: Entry, moment: int) -> str:
        """A time on the clocks of the question's zone, as in its file."""
        zone = self.campaign.schedule_of(self.campaign.question(entry.question)).zone
        return f"{datetime.fromtimestamp(moment / 1000, zone_named(zone)):%Y-%m-%d %H:%M}, {zone}"

    def _running(self, place: int) -> bool:
        last = self.state.entries[place].last
        return last is not None and last.running

    def _write(self, state: State) -> None:
        self.store.write(state)
        self.state = state

    def _set_right(self) -> bool:
        """Sees all dates by the clock as it is now, `State.at_time`.

        True if some that were missed are due again.
        """
        state = self.state.at_time(self.calendar.now(), self._grace)
        if state is self.state:
            return False
        places = [
            place
            for place, (old, new) in enumerate(zip(self.state.entries, state.entries, strict=True))
            if old.outcome is not new.outcome
        ]
        self._write(state)
        if not places:
            return False
        self.unanswered.difference_update(places)
        self.checked = False
        self.ended()
        self.say(
            f"the clock was ahead and was set back: {len(places)} of the dates that were missed "
            f"are still to come"
        )
        return True

    @property
    def _grace(self) -> int:
        """Milliseconds."""
        return round(self.campaign.grace_seconds * 1000)

    def _from(self, place: int) -> int:
        """When the next attempt of a date may begin.

        While an earlier round is open, nobody is late.
        """
        entry = self.state.entries[place]
        question = self.campaign.question(entry.question)
        if entry.last is None:
            return entry.at
        return (entry.last.ended_at or entry.last.began_at) + round(question.retry_seconds * 1000)

    def _late(self, since: int) -> bool:
        begins = max(since, self.state.ended_at)
        return self.campaign.missed is Missed.SKIP and self.calendar.now() - begins > self._grace

    async def _settle(self, place: int) -> None:
        """Brings one date to its outcome. What is next follows from what is written down alone."""
        question = self.campaign.question(self.state.entries[place].question)
        while self.state.entries[place].outcome is Outcome.DUE:
            last = self.state.entries[place].last
            if last is None or not last.running:
                if last is not None and not await self._again(place, question, _error_of(last)):
                    self._give_up(place, question, _error_of(last))
                    return
                if not await self._begin(place):
                    return
            await self._attempt(place, question)

    async def _begin(self, place: int) -> bool:
        """Waits for a date, or for another try, and writes a new attempt down.

        Returns False where it is too late for it, or another date may be due before it, since the
        clock was set back.
        """
        while (since := self._from(place)) > self.calendar.now():
            await self.calendar.sleep_towards(since)
            if self._set_right():
                return False
        if self._late(since):
            self._close(
                place, Outcome.FAILED if self.state.entries[place].attempts else Outcome.MISSED
            )
            return False
        # Written down before the analyst hears of it: after a crash it is asked for by this name.
        attempt = Attempt(round_id=secrets.token_hex(16), began_at=self.calendar.now())
        self._write(self.state.with_attempt(place, attempt))
        return True

    async def _attempt(self, place: int, question: Question) -> None:
        """Brings the newest attempt to its end, wherever an earlier process left it."""
        attempt = self.state.entries[place].last
        if attempt is None:
            raise ValueError("an attempt is written down before it is made")

        def opened() -> None:
            self.opened.add(attempt.round_id)
            self._write(
                self.state.with_attempt(place, msgspec.structs.replace(attempt, stage=Stage.OPEN))
            )
            self.say(f"round {attempt.round_id} is open for {question.open_seconds:g} s")

        try:
            ended = await round_to_its_end(
                # Opened anew for each round: over a year keys and roster are renewed.
                open_deployment(self.campaign.keys),
                self.state.plans[question.name],
                attempt.round_id,
                may_open=lambda: (
                    attempt.stage is Stage.OPENING and not self._late(attempt.began_at)
                ),
                opened=opened,
            )
        except NeverOpenedError:
            if attempt.stage is Stage.OPENING:
                before = self.state.entries[place].attempts[:-1]
                self._close(place, Outcome.FAILED if before else Outcome.MISSED, attempts=before)
                return
            words = (
                f"the analyst no longer knows round {attempt.round_id}, which was open: look at "
                f"its state folder"
            )
            ended = Ended(error=UnknownRoundError(words))
        await self._keep(place, attempt, ended)

    async def _keep(self, place: int, attempt: Attempt, ended: Ended) -> None:
        """Saves a round's documents, then writes down how it ended."""
        report, error = ended.report, ended.error
        if report is not None:
            folder = self.store.round_folder(attempt.round_id)
            try:
                folder.parent.mkdir(exist_ok=True)
                save_round(report, folder, trusted_files(self.campaign.keys))
            except OSError as failure:
                raise OutputError(
                    f"round {attempt.round_id} is published, and its documents cannot be written "
                    f"into {folder}: "
                    f"{failure.strerror}; make room, and run the campaign again: it asks for "
                    f"nothing twice"
                ) from failure
        question = self.campaign.question(self.state.entries[place].question)
        spent, charge = await self._charged(question, attempt.round_id)
        finished = msgspec.structs.replace(
            attempt,
            stage=Stage.FAILED if report is None else Stage.PUBLISHED,
            ended_at=self.calendar.now(),
            error=None if error is None else type(error).__name__,
            reason=None if error is None else str(error),
            accepted=None if report is None else report.accepted,
            spent=spent,
            charge=charge,
        )
        attempts = (*self.state.entries[place].attempts[:-1], finished)
        state = msgspec.structs.replace(self.state, ended_at=self._ended_at(attempt, question))
        if report is None:
            self._write(state.with_entry(place, attempts=attempts))
        else:  # in one: an answer that is written down is never asked for again
            self.state = state
            self._close(place, Outcome.PUBLISHED, attempts=attempts)

    def _ended_at(self, attempt: Attempt, question: Question) -> int:
        """When a round ended: now.

        Of one that an earlier process left, no later than its submissions could close.

        It may have ended while nothing ran, and no date waited for it then.
        """
        now = self.calendar.now()
        if attempt.round_id in self.opened:
            return now
        return min(now, attempt.began_at + round(question.open_seconds * 1000))

    async def _charged(self, question: Question, round_id: str) -> tuple[float | None, str | None]:
        """The population's ε after a round, and what became of its charge.

        None where nobody answers.
        """
        try:
            deployment = open_deployment(self.campaign.keys)
            account = await read_account(deployment, question.population)
        except ShuffleDPError:
            return None, None
        return account.spent(), account.charges.get(round_id, "none")

    async def _again(self, place: int, question: Question, error: ShuffleDPError) -> bool:
        """True if a failed date is tried again: it may help, and leaves the budget of all later
        dates whole.
        """
        attempts = self.state.entries[place].attempts
        if len(attempts) > question.retries or isinstance(error, (*HOPELESS, PolicyRefusal)):
            return False
        try:
            check_outlook(await outlook_of(self.campaign, self.state))
        except BudgetExceeded:
            self.say(f"{question.name}: no budget for another try; it would be missing at the end")
            return False
        self.say(f"{question.name}: {error}; another try in {question.retry_seconds:g} s")
        return True

    def _give_up(self, place: int, question: Question, error: ShuffleDPError) -> None:
        hopeless = isinstance(error, (*HOPELESS, PolicyRefusal))
        stopped = hopeless or question.after_failure is AfterFailure.STOP
        entry = self.state.entries[place]
        words = f"{entry.question}, number {entry.number}, has no answer: {error}"
        changed = self.state.with_entry(place, outcome=Outcome.FAILED)
        self._write(msgspec.structs.replace(changed, stopped=words) if stopped else changed)
        self.unanswered.add(place)
        self.ended()
        self.say(words)
        if not stopped:
            return
        if isinstance(error, PolicyRefusal):
            raise type(error)(f"{words}; the campaign is stopped: {STOPPED}")
        raise RoundFailed(f"{words}; the campaign is stopped: {STOPPED}")

    def _close(self, place: int, outcome: Outcome, **changes: Any) -> None:
        self._write(self.state.with_entry(place, outcome=outcome, **changes))
        entry = self.state.entries[place]
        if outcome is not Outcome.PUBLISHED:
            self.unanswered.add(place)
        self.ended()
        self.say(f"{entry.question}, number {entry.number}: {outcome}")


def _error_of(attempt: Attempt) -> ShuffleDPError:
    return by_code(attempt.error or "RoundFailed")(attempt.reason or "no reason is known")
