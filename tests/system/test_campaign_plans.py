"""Campaigns before anything runs: dates, prices against a real ledger, and files that are wrong."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from datetime import date
from pathlib import Path

import msgspec
import pytest
from campaigns import FIRST, WEEK, campaign_file
from commands import Shell
from hypothesis import given
from hypothesis import strategies as st

from shuffledp_accountant.ledger.charges import Budget, Reservation
from shuffledp_accountant.ledger.ledger import Ledger
from shuffledp_core.documents.signed import from_json, to_json
from shuffledp_core.errors import (
    BudgetExceeded,
    CannotCertify,
    ConfigError,
    UsageError,
)
from shuffledp_core.privacy import Adjacency, CompositionRule
from shuffledp_core.vocabulary import Mix
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
from shuffledp_ops.campaigns.config import CampaignQuestion, Schedule, load_campaign
from shuffledp_ops.campaigns.schedule import QuestionDate, moments
from shuffledp_ops.campaigns.state import (
    CampaignState,
    DateEntry,
)
from shuffledp_ops.keys.pki import create_deployment
from shuffledp_privacy.analysis import Cost, calibrated

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
    limit: float, composition: CompositionRule, spent: Counter[Cost] | None = None
) -> PopulationAccount:
    return PopulationAccount(
        "demo", limit, 1e-4, Adjacency.STANDARD, composition, Counter(spent or {})
    )


def test_the_largest_local_epsilon_is_part_of_the_plan_and_of_its_cost() -> None:
    nodes = ("node-1", "node-2")
    assert question().plan(nodes, 1.0).epsilon_local is msgspec.UNSET
    limited = question(mechanism="node-histogram", max_value=20, epsilon_local=6.0)
    plan = limited.plan(nodes, 1.0)
    assert plan.epsilon_local == 6.0
    assert 5.9 < calibrated(plan).local_epsilon(1) <= 6.0


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


@pytest.mark.parametrize("composition", list(CompositionRule))
def test_what_the_plan_carries_is_what_the_ledger_takes(
    composition: CompositionRule, tmp_path: Path
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


def test_bounded_noise_that_takes_all_of_the_budgets_delta_is_named_with_its_remedy() -> None:
    def course(delta: float) -> BudgetCourse:
        asked = question(mechanism="node-histogram", delta=delta)
        priced = price(asked, asked.plan(NODES, 0.01))
        dates = [QuestionDate("hours", number, number) for number in range(10)]
        whole = account(4.5, CompositionRule.ADAPTIVE, Counter())
        return BudgetCourse(whole, dates, {"hours": priced})

    wide = course(1e-4)
    with pytest.raises(BudgetExceeded, match=r"plan a delta of at most 1\.0e-06 for the 10 rounds"):
        check_outlook(Outlook(wide.questions, (wide,)))
    narrow = course(1e-6)
    check_outlook(Outlook(narrow.questions, (narrow,)))


@pytest.mark.parametrize(
    "composition",
    [CompositionRule.ADAPTIVE, pytest.param(CompositionRule.FIXED, marks=pytest.mark.slow)],
)
def test_a_total_is_used_up_to_its_third_digit_and_not_exceeded(
    composition: CompositionRule,
) -> None:
    times, total = 12, 3.0
    found = price_question(
        question(epsilon=None, total_epsilon=total), NODES, account(100.0, composition), times
    )
    whole = account(total, composition)
    assert whole.spent_epsilon(Counter({found.cost: times})) <= total
    more = price(question(), question().plan(NODES, found.plan.epsilon * 1.02))
    assert whole.spent_epsilon(Counter({more.cost: times})) > total
    assert total / times < found.plan.epsilon < total


@pytest.mark.parametrize("composition", CompositionRule)
@pytest.mark.parametrize("mechanism", ["node-histogram", "node-sum"])
def test_a_total_divides_delta_among_rounds_with_bounded_noise(
    mechanism: str, composition: CompositionRule
) -> None:
    times, total = 52, 1.0
    asked = question(mechanism=mechanism, epsilon=None, total_epsilon=total)
    found = price_question(asked, NODES, account(100.0, composition), times)
    # With an equal division of ε each round would get .0192.
    assert found.plan.epsilon > 1.3 * total / times
    assert found.plan.delta * times <= asked.delta
    whole = account(total, composition)
    assert whole.covers(Counter({found.cost: times}))
    more = price(asked, asked.plan(NODES, found.plan.epsilon * 1.05, found.plan.delta))
    assert not whole.covers(Counter({more.cost: times}))
    # At the δ of the total, each round's noise ends with about that probability.
    ends = price(asked, asked.plan(NODES, total / times))
    assert not account(3.0, composition).covers(Counter({ends.cost: times}))


def test_a_total_that_leaves_nothing_for_each_round_is_refused() -> None:
    with pytest.raises(CannotCertify, match=r"hours.*(leave each less|ask|epsilon)"):
        price_question(
            question(epsilon=None, total_epsilon=0.02),
            NODES,
            account(1.0, CompositionRule.FIXED),
            1000,
        )


def test_an_infinite_price_carries_nothing() -> None:
    one = price(question(), question().plan(NODES, 1.0))
    course = BudgetCourse(
        account(1e-3, CompositionRule.ADAPTIVE), [QuestionDate("hours", 1, 1)], {"hours": one}
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
    assert hours[1].cost.mechanism.response_name == visits[1].cost.mechanism.response_name
    with pytest.raises(
        ConfigError, match="'hours' and 'visits' have the same number, question = 0"
    ):
        look_ahead(campaign, {}, [], dict([hours, visits]))
    for other in (kept("visits", question=1), kept("visits", population="others")):
        look_ahead(campaign, {}, [], dict([hours, other]))
    with pytest.raises(UsageError, match="'sums': rr-shuffle memoises no response"):
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
    "not a valid name for a campaign": ('name = "weekly"', 'name = "../weekly"'),
    "not a valid name for a question": ('name = "hours"', 'name = "Hours a week"'),
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
    "at must be a time of day": ('at = "09:00"', 'at = "24:00"'),
    "such as \"09:00\"": ('at = "09:00"', 'at = "0٩:00"'),
    "zone 'Europe/Bärlin' is not known": ('"Europe/Berlin"', '"Europe/Bärlin"'),
    "zone '../../etc/passwd' is not known": ('"Europe/Berlin"', '"../../etc/passwd"'),
    "years 2000 to 2200": ("from = 2030-03-01", "from = 9999-03-01"),
    "Expected `date`": ("from = 2030-03-01", "from = 7"),
    "unknown mechanism 'guess'": ('"krr-histogram"', '"guess"'),
    "needs either epsilon": ("epsilon = 3.0", ""),
    "or total_epsilon, for all rounds": ("epsilon = 3.0", "epsilon = 3.0\ntotal_epsilon = 4.0"),
    "epsilon must be above 0 and at most 100, not nan": ("epsilon = 3.0", "epsilon = nan"),
    "not -1.0": ("epsilon = 3.0", "epsilon = -1.0"),
    "epsilon_local must be above 0 and at most 30": ("epsilon = 3.0",
        "epsilon = 3.0\nepsilon_local = 0.0"),
    "delta must be from 1e-12": ("delta = 1e-3", "delta = 1.0"),
    "min_reports must be from 1 to max_reports": ("min_reports = 5", "min_reports = 6"),
    "colluding must be from 0": ("min_reports = 5", "min_reports = 5\ncolluding = 5"),
    "open_seconds must be above 0": ("open_seconds = 120", "open_seconds = 0"),
    "retries must be from 0 to 10": ("open_seconds = 120", "open_seconds = 120\nretries = 11"),
    "Invalid enum value 'shrug'": ("open_seconds = 120",
        'open_seconds = 120\nafter_failure = "shrug"'),
    "Invalid enum value 'checked'": ("open_seconds = 120", 'open_seconds = 120\nmix = "checked"'),
    "unknown suite 'rot13'": ("open_seconds = 120", 'open_seconds = 120\nsuite = "rot13"'),
    "'hours': verified mixing cannot use the suite": (
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
