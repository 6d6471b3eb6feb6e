"""Campaigns before anything runs: dates, prices against a real ledger, and files that are wrong."""

from __future__ import annotations

import hashlib
import itertools
import math
import tomllib
from collections import Counter
from datetime import UTC, date, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec
import numpy as np
import pytest
from campaigns import FIRST, WEEK, MovedCalendar, campaign_file
from commands import Shell
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from shuffledp_accountant.ledger.charges import Budget, Reservation
from shuffledp_accountant.ledger.ledger import Ledger
from shuffledp_core.documents.signed import from_json, to_json
from shuffledp_core.errors import (
    BudgetExceeded,
    CannotCertify,
    ConfigError,
    MalformedDocumentError,
    OutputError,
    RoundStateError,
    ShuffleDPError,
    UsageError,
)
from shuffledp_core.privacy import Adjacency, Composition
from shuffledp_core.vocabulary import Mix
from shuffledp_ops.campaigns import running
from shuffledp_ops.campaigns.account import PopulationAccount
from shuffledp_ops.campaigns.budget import (
    BudgetCourse,
    Outlook,
    PricedQuestion,
    check_outlook,
    largest,
    look_ahead,
    price,
    price_question,
)
from shuffledp_ops.campaigns.config import Campaign, CampaignQuestion, Schedule, load_campaign
from shuffledp_ops.campaigns.pictures import _draw_shares
from shuffledp_ops.campaigns.results import DatedAnswer, SavedAnswer, write_results
from shuffledp_ops.campaigns.rounds import RoundOutcome
from shuffledp_ops.campaigns.running import CampaignRunner, begin
from shuffledp_ops.campaigns.schedule import QuestionDate, moments
from shuffledp_ops.campaigns.state import (
    AttemptStage,
    CampaignState,
    CampaignStore,
    DateEntry,
    DateOutcome,
    RoundAttempt,
)
from shuffledp_ops.keys.pki import create_deployment
from shuffledp_privacy.analysis import Cost

NODES = ("node-1", "node-2")

ADDRESSES = dict.fromkeys((*NODES, "analyst", "accountant"), "127.0.0.1:1")


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keys of a deployment where nobody listens."""
    return create_deployment(tmp_path_factory.mktemp("nobody") / "keys", ADDRESSES).folder


def question(**changes: object) -> CampaignQuestion:
    fields: dict[str, object] = {
        "name": "hours", "mechanism": "krr-histogram", "max_value": 3, "min_reports": 50,
        "max_reports": 60,
        "epsilon": 1.0, "delta": 1e-4,
    }  # fmt: skip
    return msgspec.convert(
        {name: value for name, value in (fields | changes).items() if value is not None},
        CampaignQuestion,
    )


def account(
    limit: float, composition: Composition, spent: Counter[Cost] | None = None
) -> PopulationAccount:
    return PopulationAccount(
        "demo", limit, 1e-4, Adjacency.STANDARD, composition, Counter(spent or {})
    )


# ------------------------------------------------------------------------------------------------
# dates


def test_the_hour_is_that_of_the_zone_summer_and_winter() -> None:
    """In Berlin summer time begins on 29 March 2026: nine o'clock is 8:00 UTC before, and 7:00
    after."""
    found = moments(Schedule(first=date(2026, 3, 22), zone="Europe/Berlin", rounds=2))
    assert found[1] - found[0] == WEEK - 3_600_000


@pytest.mark.parametrize(
    ("day", "hour"), [(date(2026, 3, 29), "02:30"), (date(2026, 10, 25), "02:30")]
)
def test_an_hour_that_is_missing_or_there_twice_is_asked_once(day: date, hour: str) -> None:
    found = moments(Schedule(first=day, at=hour, zone="Europe/Berlin", every_days=1, rounds=3))
    assert len(set(found)) == 3
    assert found == sorted(found)


@given(
    first=st.dates(date(2001, 1, 1), date(2199, 1, 1)),
    every=st.integers(1, 366),
    rounds=st.integers(1, 60),
    zone=st.sampled_from(
        ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Pacific/Apia"]
    ),
)
def test_dates_rise_and_until_says_the_same_as_their_number(
    first: date, every: int, rounds: int, zone: str
) -> None:
    counted = Schedule(first=first, every_days=every, rounds=rounds, zone=zone)
    found = moments(counted)
    assert all(earlier < later for earlier, later in itertools.pairwise(found))
    last = date.fromordinal(first.toordinal() + every * (rounds - 1))
    assert moments(Schedule(first=first, every_days=every, until=last, zone=zone)) == found


# ------------------------------------------------------------------------------------------------
# prices


@given(low=st.floats(1e-3, 1e-2), high=st.floats(0.02, 100), cut=st.floats(1e-4, 200))
def test_the_largest_number_of_three_digits_is_found(low: float, high: float, cut: float) -> None:
    found = largest(lambda value: value <= cut, low, high)
    if found is None:
        assert cut < low * 1.006
        return
    assert found <= min(high, cut)
    assert found == float(f"{found:.2e}")
    assert found >= min(high, cut) / 1.0101


@pytest.mark.parametrize("composition", list(Composition))
def test_what_the_plan_carries_is_what_the_ledger_takes(
    composition: Composition, tmp_path: Path
) -> None:
    """One after the other, at a real ledger that has charged two other rounds before: to the last
    round, and ε."""
    limit = 4.5
    asked = {
        "hours": price(question(), question().plan(NODES, 1.0)),
        "sums": price(question(name="sums"), question(mechanism="rr-shuffle").plan(NODES, 0.8)),
    }
    other = price(question(), question().plan(NODES, 0.5)).cost
    budget = Budget(limit, 1e-4, Adjacency.STANDARD, composition)
    ledger = Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}", {"demo": budget}, lambda: 0)

    def charge(number: int, cost: object) -> None:
        ledger.reserve(
            Reservation(f"{number:032x}", "demo", str(number), cost, 1.0),  # type: ignore[arg-type]
            lambda _: b"signed",
        )

    charge(1, other)
    charge(2, other)
    dates = [QuestionDate(name, number, number) for number in range(1, 12) for name in asked]
    course = BudgetCourse(account(limit, composition, Counter({other: 2})), dates, asked)
    carried = course.dates_covered()
    assert 2 < carried < len(dates)
    for number in range(carried):
        charge(10 + number, asked[dates[number].question].cost)
        if number % 4 == 0:
            assert ledger.statement("demo").spent.certified == course.account.spent_epsilon(
                course.costs(number + 1)
            )
    with pytest.raises(BudgetExceeded):
        charge(1000, asked[dates[carried].question].cost)
    with pytest.raises(BudgetExceeded, match=f"covers the first {carried} of them"):
        check_outlook(Outlook(asked, (course,)))
    enough = course.sufficient_limit()
    assert enough is not None
    assert course.account.covers(course.costs(), enough)
    assert not course.account.covers(course.costs(), enough * 0.98)
    ledger.close()


@pytest.mark.parametrize(
    "composition", [Composition.ADAPTIVE, pytest.param(Composition.FIXED, marks=pytest.mark.slow)]
)
def test_a_total_is_used_up_to_its_third_digit_and_not_exceeded(composition: Composition) -> None:
    times, total = 12, 3.0
    found = price_question(
        question(epsilon=None, total_epsilon=total), NODES, account(100.0, composition), times
    )
    whole = account(total, composition)
    assert whole.spent_epsilon(Counter({found.cost: times})) <= total
    more = price(question(), question().plan(NODES, found.plan.epsilon * 1.02))
    assert whole.spent_epsilon(Counter({more.cost: times})) > total
    assert total / times < found.plan.epsilon < total


def test_a_total_that_leaves_nothing_for_each_round_is_refused() -> None:
    with pytest.raises(CannotCertify, match=r"hours.*(leave each less|ask|epsilon)"):
        price_question(
            question(epsilon=None, total_epsilon=0.02), NODES, account(1.0, Composition.FIXED), 1000
        )


def test_an_infinite_price_carries_nothing() -> None:
    one = price(question(), question().plan(NODES, 1.0))
    course = BudgetCourse(
        account(1e-3, Composition.ADAPTIVE), [QuestionDate("hours", 1, 1)], {"hours": one}
    )
    assert course.dates_covered() == 0
    assert not course.fits
    assert course.after > 1e-3 or math.isinf(course.after)


def kept(name: str, **changes: object) -> tuple[str, PricedQuestion]:
    fields = {"name": name, "mechanism": "rappor-histogram", "epsilon": 2.0} | changes
    asked = question(**fields)
    return name, price(asked, asked.plan(NODES, 2.0))


def test_two_questions_that_one_kept_response_would_answer_are_refused(tmp_path: Path) -> None:
    campaign = load_campaign(campaign_file(tmp_path, tmp_path))
    hours, visits = kept("hours"), kept("visits")
    assert hours[1].cost.mechanism.remembered == visits[1].cost.mechanism.remembered
    with pytest.raises(
        ConfigError, match="'hours' and 'visits' have the same number, question = 0"
    ):
        look_ahead(campaign, {}, [], dict([hours, visits]))
    for other in (kept("visits", question=1), kept("visits", population="others")):
        look_ahead(campaign, {}, [], dict([hours, other]))
    with pytest.raises(UsageError, match="'sums': rr-shuffle keeps no response"):
        price(question(name="sums"), question(mechanism="rr-shuffle", question=3).plan(NODES, 0.8))


@pytest.mark.parametrize("mix", list(Mix))
def test_the_mixing_of_a_question_is_that_of_its_plan_and_changes_no_price(mix: Mix) -> None:
    plain, asked = question().plan(NODES, 1.0), question(mix=mix.value)
    plan = asked.plan(NODES, 1.0)
    assert plan == msgspec.structs.replace(plain, mix=mix)
    assert (plan.mix == Mix.VERIFIED, plan == plain) == (mix is Mix.VERIFIED, mix is Mix.PLAIN)
    assert price(asked, plan).cost == price(question(), plain).cost
    entries = (DateEntry(question="hours", number=1, at=FIRST),)
    state = CampaignState(
        name="weekly", digest="", began_at=0, plans={"hours": plan}, entries=entries
    )
    assert from_json(to_json(state), CampaignState).plans == {"hours": plan}, (
        "as a campaign that goes on reads it"
    )


# ------------------------------------------------------------------------------------------------
# wrong files

WRONG = {
    "surprise": ('name = "weekly"', 'name = "weekly"\nsurprise = 1'),
    "not a name for a campaign": ('name = "weekly"', 'name = "../weekly"'),
    "not a name for a question": ('name = "hours"', 'name = "Hours a week"'),
    'cannot be named "budget"': ('name = "hours"', 'name = "budget"'),
    "missing required field `keys`": ('keys = "KEYS"', ""),
    "is not a deployment folder": ('keys = "KEYS"', 'keys = "nowhere"'),
    "either rounds": ("rounds = 3", "rounds = 3\nuntil = 2031-01-01"),
    "give one of the two": ("rounds = 3", ""),
    "has 1 to 1000 dates, not 0": ("rounds = 3", "rounds = 0"),
    "not 1001": ("rounds = 3", "rounds = 1001"),
    "is before from": ("rounds = 3", "until = 2029-01-01"),
    "every_days must be from 1 to 366": ("every_days = 7", "every_days = 0"),
    "Expected `int`": ("every_days = 7", "every_days = 3.5"),
    "at must be an hour": ('at = "09:00"', 'at = "24:00"'),
    "such as \"09:00\"": ('at = "09:00"', 'at = "0٩:00"'),
    "zone 'Europe/Bärlin' is not known": ('"Europe/Berlin"', '"Europe/Bärlin"'),
    "zone '../../etc/passwd' is not known": ('"Europe/Berlin"', '"../../etc/passwd"'),
    "years 2000 to 2200": ("from = 2030-03-01", "from = 9999-03-01"),
    "Expected `date`": ("from = 2030-03-01", "from = 7"),
    "unknown mechanism 'guess'": ('"krr-histogram"', '"guess"'),
    "needs either epsilon": ("epsilon = 3.0", ""),
    "or total_epsilon, of all of them": ("epsilon = 3.0", "epsilon = 3.0\ntotal_epsilon = 4.0"),
    "epsilon must be above 0 and at most 100, not nan": ("epsilon = 3.0", "epsilon = nan"),
    "not -1.0": ("epsilon = 3.0", "epsilon = -1.0"),
    "delta must be from 1e-12": ("delta = 1e-3", "delta = 1.0"),
    "min_reports must be from 1 to max_reports": ("min_reports = 5", "min_reports = 6"),
    "colluding must be from 0": ("min_reports = 5", "min_reports = 5\ncolluding = 5"),
    "open_seconds must be above 0": ("open_seconds = 120", "open_seconds = 0"),
    "retries must be from 0 to 10": ("open_seconds = 120", "open_seconds = 120\nretries = 11"),
    "Invalid enum value 'shrug'": ("open_seconds = 120",
        'open_seconds = 120\nafter_failure = "shrug"'),
    "Invalid enum value 'checked'": ("open_seconds = 120", 'open_seconds = 120\nmix = "checked"'),
    "unknown suite 'rot13'": ("open_seconds = 120", 'open_seconds = 120\nsuite = "rot13"'),
    "'hours': verified mixing does not go with the suite": (
        "open_seconds = 120", 'open_seconds = 120\nsuite = "hpke-mlkem768-x25519"\nmix = '
                              '"verified"',
    ),
    "grace_seconds must be": ('name = "weekly"', 'name = "weekly"\ngrace_seconds = 0'),
    "has no population 'others'": ("open_seconds = 120",
        'open_seconds = 120\npopulation = "others"'),
    "has no node node-9": ("open_seconds = 120", 'open_seconds = 120\nroute = ["node-1", '
                                                 '"node-9"]'),
    "at the end of a table declaration": ("[schedule]", "[schedule"),
}  # fmt: skip


@pytest.mark.parametrize("command", ["plan", "run"])
@pytest.mark.parametrize("says", WRONG)
def test_a_wrong_file_is_refused_with_its_reason_and_changes_nothing(
    shuffledp: Shell, keys: Path, tmp_path: Path, says: str, command: str
) -> None:
    old, new = WRONG[says]
    file = campaign_file(tmp_path, keys)
    text = file.read_text().replace(str(keys), "KEYS")
    assert old in text
    file.write_text(text.replace(old, new).replace("KEYS", str(keys)))
    code, out, errors = shuffledp("campaign", command, str(file))
    assert code == ConfigError.exit_code, errors
    assert says.lower() in errors.lower()
    assert out == ""
    assert [
        path.name for path in tmp_path.rglob("*") if path.is_file() and path.name != "lock"
    ] == ["weekly.toml"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["plan", "nothing.toml"], "cannot read the campaign nothing.toml"),
        (["run", "."], "cannot read the campaign"),
        (["status", "nothing.toml"], "cannot read the campaign"),
        (["pause", "weekly.toml"], "no command 'pause'; choose one of plan, run, status"),
        (["plan", "twice.toml"], "the question 'hours' is given twice"),
        (["plan", "long.toml"], "has more than 262144 bytes"),
    ],
)
def test_what_cannot_be_read_is_refused(
    shuffledp: Shell, keys: Path, tmp_path: Path, words: list[str], says: str
) -> None:
    text = campaign_file(tmp_path, keys).read_text()
    (tmp_path / "twice.toml").write_text(f"{text}[[questions]]{text.partition('[[questions]]')[2]}")
    (tmp_path / "long.toml").write_text(text + "#" * 2**18)
    code, _, errors = shuffledp("campaign", *words)
    assert code == 2, errors
    assert says in errors


def begun(campaign: Campaign) -> CampaignState:
    entry = DateEntry(
        question="hours",
        number=1,
        at=FIRST,
        attempts=(RoundAttempt(round_id="0" * 32, began_at=FIRST),),
    )
    plans = {"hours": question().plan(NODES, 3.0)}
    return CampaignState(
        name=campaign.name, digest=campaign.digest, began_at=1, plans=plans, entries=(entry,)
    )


@pytest.mark.parametrize("damage", [b"", b"{}", b"\xff", b"[" * 10_000, b'{"version": 2}'])
def test_a_damaged_state_is_refused_and_left_as_it_is(
    shuffledp: Shell, keys: Path, tmp_path: Path, damage: bytes
) -> None:
    file = campaign_file(tmp_path, keys)
    folder = load_campaign(file).folder
    folder.mkdir(parents=True)
    (folder / "state.json").write_bytes(damage)
    for command in ("plan", "run", "status"):
        code, _, errors = shuffledp("campaign", command, str(file))
        assert code == 2, errors
        assert "is damaged" in errors
    assert (folder / "state.json").read_bytes() == damage


@pytest.mark.parametrize("command", ["plan", "run"])
@pytest.mark.parametrize(
    ("dates", "plans"),
    [(1, []), (0, []), (0, ["hours", "visits"])],
    ids=["dates", "none", "too many"],
)
def test_a_state_without_the_plans_of_its_questions_is_damaged(
    shuffledp: Shell, keys: Path, tmp_path: Path, command: str, dates: int, plans: list[str]
) -> None:
    file = campaign_file(tmp_path, keys)
    campaign = load_campaign(file)
    campaign.folder.mkdir(parents=True)
    fields = msgspec.to_builtins(begun(campaign))
    plan = fields["plans"]["hours"]
    fields |= {"plans": dict.fromkeys(plans, plan)} | {"entries": fields["entries"][:dates]}
    (campaign.folder / "state.json").write_bytes(msgspec.json.encode(fields))
    code, _, errors = shuffledp("campaign", command, str(file))
    assert code == 2, errors
    assert "is damaged" in errors
    assert "Traceback" not in errors


MOMENTS = st.integers(0, 2**40)


@given(
    at=MOMENTS,
    grace=st.integers(1000, 2**35),
    late=st.integers(1, 2**35),
    more=st.integers(0, 2**35),
)
def test_a_missed_date_is_due_again_only_before_the_end_of_its_grace(
    at: int, grace: int, late: int, more: int
) -> None:
    """A date is missed when more than its grace has passed, so a clock that goes forward brings
    none back."""
    missed = DateEntry(question="hours", number=1, at=at, outcome=DateOutcome.MISSED)
    state = CampaignState(
        name="weekly",
        digest="",
        began_at=0,
        plans={"hours": question().plan(NODES, 1.0)},
        entries=(missed,),
    )
    closed = at + grace + late
    assert state.at_time(closed + more, grace) is state
    (seen,) = state.at_time(max(closed - late - more, 0), grace).entries
    assert seen == msgspec.structs.replace(missed, outcome=DateOutcome.DUE)


def test_what_was_asked_stays_as_it_is_and_waits_for_no_moment_that_a_clock_ahead_has_shown() -> (
    None
):
    year, grace = 366 * 86_400_000, 3_600_000
    failed = RoundAttempt(
        round_id="1" * 32,
        began_at=year,
        ended_at=year + 1,
        stage=AttemptStage.FAILED,
        error="RoundFailed",
    )
    published = msgspec.structs.replace(failed, stage=AttemptStage.PUBLISHED, error=None)
    opened = RoundAttempt(round_id="2" * 32, began_at=year, stage=AttemptStage.OPEN)
    asked = tuple(
        DateEntry(question="hours", number=number, at=year, outcome=outcome, attempts=(attempt,))
        for number, (outcome, attempt) in enumerate(
            [
                (DateOutcome.PUBLISHED, published),
                (DateOutcome.FAILED, failed),
                (DateOutcome.MISSED, failed),
                (DateOutcome.DUE, failed),
                (DateOutcome.DUE, opened),
            ],
            start=1,
        )
    )  # fmt: skip
    plans = {"hours": question().plan(NODES, 1.0)}
    state = CampaignState(
        name="weekly", digest="", began_at=0, plans=plans, entries=asked, ended_at=year + 1
    )
    assert state.at_time(year + 1, grace) is state
    seen = state.at_time(5, grace)
    assert seen.entries[:3] == asked[:3]
    assert seen.entries[3].last == msgspec.structs.replace(failed, began_at=5, ended_at=5)
    assert seen.entries[4].last == msgspec.structs.replace(opened, began_at=5)
    assert [entry.outcome for entry in seen.entries] == [entry.outcome for entry in asked]
    assert seen.ended_at == 5
    assert seen.at_time(5, grace) is seen


@pytest.mark.parametrize("command", ["plan", "run", "status"])
def test_a_file_that_was_changed_after_the_first_round_is_refused(
    shuffledp: Shell, keys: Path, tmp_path: Path, command: str
) -> None:
    campaign = load_campaign(campaign_file(tmp_path, keys))
    campaign.folder.mkdir(parents=True)
    CampaignStore(campaign.folder).save(begun(campaign))
    changed = campaign_file(
        tmp_path, keys, (("epsilon = 3.0", "epsilon = 3.1"), ('name = "hours"', 'name = "days"'))
    )
    code, _, errors = shuffledp("campaign", command, str(changed))
    assert code == 2, errors
    assert "was changed after its first round" in errors
    assert CampaignStore(campaign.folder).load() == begun(campaign)


def test_where_the_files_are_may_change(keys: Path, tmp_path: Path) -> None:
    campaign = load_campaign(campaign_file(tmp_path, keys))
    moved = msgspec.structs.replace(campaign, keys=tmp_path / "elsewhere", out=tmp_path / "results")
    assert moved.digest == campaign.digest
    assert moved.folder == tmp_path / "results" / "campaign-weekly"


def test_a_default_that_is_written_down_or_a_key_of_a_later_version_changes_nothing(
    keys: Path, tmp_path: Path
) -> None:
    campaign = load_campaign(campaign_file(tmp_path, keys))
    defaults = 'population = "demo"\nretries = 0\nmix = "plain"'
    spelt = campaign_file(tmp_path, keys, question=defaults, general="grace_seconds = 3600.0")
    assert load_campaign(spelt).digest == campaign.digest
    for question in (
        "retries = 1", 'population = "others"', "question = 1", 'route = ["node-1", "node-2"]',
        'mix = "verified"',
    ):  # fmt: skip
        assert (
            load_campaign(campaign_file(tmp_path, keys, question=question)).digest
            != campaign.digest
        )
    later = LaterQuestion(**msgspec.structs.asdict(campaign.questions[0]))
    assert msgspec.structs.replace(campaign, questions=(later,)).digest == campaign.digest


def test_the_digest_is_that_of_the_words_in_the_file_alone(keys: Path, tmp_path: Path) -> None:
    """So it is the one that a campaign began with, whatever keys there were then."""
    file = campaign_file(tmp_path, keys)
    said = tomllib.loads(file.read_text())
    del said["keys"]
    assert (said["schedule"].pop("at"), said["schedule"].pop("every_days")) == ("09:00", 7), (
        "as by default"
    )
    (asked,) = said["questions"]
    asked["open_seconds"] = float(asked["open_seconds"])
    told = msgspec.json.encode(said, order="deterministic")
    assert load_campaign(file).digest == hashlib.sha256(told).hexdigest()


class LaterQuestion(CampaignQuestion, frozen=True, kw_only=True):
    """As a later version might have it."""

    later: int = 0


ANSWER = {
    "accepted": 5,
    "estimate": [1.0, 2.0],
    "standard_error": [0.1, 0.1],
    "interval_95": [[0.0, 1.0], [2.0, 3.0]],
    "epsilon": 3.0,
    "delta": 1e-3,
}


@pytest.mark.parametrize(
    ("damage", "rows"),
    [
        ({}, 2),
        ({"standard_error": [0.1]}, 1),
        ({"interval_95": [[0.0, 1.0], [2.0]]}, 1),
        ({"estimate": 1.0}, 1),
        ({"estimate": [], "standard_error": [], "interval_95": [[], []]}, 1),
        ({"estimate": [1e300, 2.0]}, 1),
    ],
    ids=["whole", "errors", "intervals", "a number", "nothing", "huge"],
)
def test_a_damaged_report_is_a_gap(
    keys: Path, tmp_path: Path, damage: dict[str, object], rows: int
) -> None:
    campaign = load_campaign(campaign_file(tmp_path, keys))
    state = begun(campaign)
    published = msgspec.structs.replace(
        state.entries[0].attempts[0], stage=AttemptStage.PUBLISHED, accepted=5, ended_at=FIRST
    )
    state = state.with_entry(0, outcome=DateOutcome.PUBLISHED, attempts=(published,))
    folder = CampaignStore(campaign.folder).round_folder(published.round_id)
    folder.mkdir(parents=True)
    (folder / "report.json").write_bytes(msgspec.json.encode(ANSWER | damage))
    write_results(campaign, state, campaign.folder)
    assert len((campaign.folder / "hours.csv").read_text().splitlines()) == 1 + rows


class CountingStore(CampaignStore):
    """A folder that counts how often its state is written."""

    writes = 0

    def save(self, state: CampaignState) -> None:
        self.writes += 1
        super().save(state)


async def test_dates_that_passed_are_left_out_in_one_step(keys: Path, tmp_path: Path) -> None:
    """A thousand of them are not a thousand files of state and sets of pictures, each as long as
    all dates."""
    campaign = load_campaign(campaign_file(tmp_path, keys, (("rounds = 3", "rounds = 1000"),)))
    campaign.folder.mkdir(parents=True)
    store, said, told = CountingStore(campaign.folder), list[str](), list[int]()
    calendar = MovedCalendar(FIRST + 2000 * WEEK)
    runner = CampaignRunner(
        campaign,
        store,
        begin(campaign, {"hours": question().plan(NODES, 3.0)}, FIRST),
        calendar,
        said.append,
    )
    runner.on_outcome = lambda: told.append(runner.failures)
    await runner.run_dates(once=False)
    assert Counter(entry.outcome for entry in runner.state.entries) == {DateOutcome.MISSED: 1000}
    assert (store.writes, told, len(said)) == (1, [1000], 1000)
    assert said[-1] == "hours, number 1000: missed"
    assert calendar.waited == []


@pytest.mark.parametrize(
    "refusal",
    [
        UsageError,
        ConfigError,
        CannotCertify,
        BudgetExceeded,
        MalformedDocumentError,
        RoundStateError,
    ],
    ids=lambda refusal: refusal.__name__,
)
async def test_a_plan_that_nobody_takes_is_asked_for_once(
    refusal: type[ShuffleDPError], keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the accountant alone sees, in the round's own end: another try would hear the same."""
    campaign = load_campaign(
        campaign_file(tmp_path, keys, question="retries = 3\nretry_seconds = 60")
    )
    campaign.folder.mkdir(parents=True)
    asked = list[str]()

    async def refused(_: object, __: object, round_id: str, **___: object) -> RoundOutcome:
        asked.append(round_id)
        return RoundOutcome(error=refusal("it cannot be"))

    async def carried(*_: object) -> Outlook:
        return Outlook({}, ())

    monkeypatch.setattr(running, "run_round_to_end", refused)
    monkeypatch.setattr(running, "outlook_of", carried)
    store, state = (
        CampaignStore(campaign.folder),
        begin(campaign, {"hours": question().plan(NODES, 3.0)}, FIRST),
    )
    runner = CampaignRunner(campaign, store, state, MovedCalendar(FIRST), list[str]().append)
    with pytest.raises(ShuffleDPError, match="it cannot be; the campaign is stopped"):
        await runner.run_dates(once=True)
    assert len(asked) == 1
    kept = store.load()
    assert kept is not None
    assert kept.stopped


async def test_hours_are_told_on_the_clocks_of_the_file(keys: Path, tmp_path: Path) -> None:
    campaign = load_campaign(campaign_file(tmp_path, keys))
    campaign.folder.mkdir(parents=True)
    state, said = begin(campaign, {"hours": question().plan(NODES, 3.0)}, FIRST), list[str]()
    await CampaignRunner(
        campaign, CampaignStore(campaign.folder), state, MovedCalendar(FIRST - WEEK), said.append
    ).run_dates(once=True)
    assert said == ["nothing is due before 2030-03-01 09:00, Europe/Berlin"]


def test_an_interval_is_drawn_where_it_is_also_when_its_estimate_lies_outside(
    keys: Path, tmp_path: Path
) -> None:
    """An estimate is unbiased and may be negative; its interval is cut to what is possible."""
    state = begun(load_campaign(campaign_file(tmp_path, keys)))
    answer = SavedAnswer(
        10, (-2.0, 4.0, 12.0), (1.0,) * 3, ((0.0, 2.0, 7.0), (1.0, 6.0, 10.0)), 1.0, 1e-3
    )
    line = DatedAnswer(state.entries[0], datetime(2030, 3, 1, 9, tzinfo=UTC), answer)
    axes = Figure().subplots()
    _draw_shares(axes, [line])
    drawn = [
        [list(piece[:, 1]) for piece in one.get_segments()]
        for one in axes.collections
        if isinstance(one, LineCollection)
    ]
    assert drawn == [
        [pytest.approx([0.0, 10.0])],
        [pytest.approx([20.0, 60.0])],
        [pytest.approx([70.0, 100.0])],
    ]
    dots = np.concatenate(
        [one.get_ydata() for one in axes.lines if str(one.get_label()).startswith("value")]
    )
    assert dots.tolist() == pytest.approx([-20.0, 40.0, 120.0])


def test_zones_are_installed_where_the_tests_run() -> None:
    assert ZoneInfo("Europe/Berlin").key == "Europe/Berlin"


def test_a_step_that_cannot_be_written_down_is_not_taken(keys: Path, tmp_path: Path) -> None:
    campaign = load_campaign(campaign_file(tmp_path, keys))
    (campaign.folder / "state.json.part").mkdir(parents=True)  # in the way, also of root
    with pytest.raises(OutputError, match="no round is opened before it is recorded there"):
        CampaignStore(campaign.folder).save(begun(campaign))
    assert CampaignStore(campaign.folder).load() is None


def test_names_on_the_page_are_text_and_a_missing_report_is_a_gap(
    keys: Path, tmp_path: Path
) -> None:
    file = campaign_file(
        tmp_path, keys, (('field = "hours a week"', 'field = "<b>hours</b> $x$"'),)
    )
    campaign = load_campaign(file)
    campaign.folder.mkdir(parents=True)
    state = begun(campaign)
    published = msgspec.structs.replace(
        state.entries[0].attempts[0], stage=AttemptStage.PUBLISHED, accepted=5, ended_at=FIRST
    )
    state = state.with_entry(0, outcome=DateOutcome.PUBLISHED, attempts=(published,))
    write_results(
        campaign,
        msgspec.structs.replace(state, stopped="<script>alert(1)</script>"),
        campaign.folder,
    )
    page = (campaign.folder / "index.html").read_text()
    assert "<script" not in page
    assert "&lt;b&gt;hours&lt;/b&gt; $x$" in page
    assert (
        (campaign.folder / "hours.csv")
        .read_text()
        .splitlines()[1]
        .startswith("hours,1,2030-03-01T09:00:00+01:00")
    )
