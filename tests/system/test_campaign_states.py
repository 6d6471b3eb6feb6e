"""The state of a campaign on disk: damage, changes of its file, dates that passed."""

from __future__ import annotations

import csv
import hashlib
import tomllib
from collections import Counter
from datetime import UTC, datetime
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
from test_campaign_plans import ADDRESSES, NODES, question

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
from shuffledp_ops.campaigns import running
from shuffledp_ops.campaigns.budget import (
    Outlook,
)
from shuffledp_ops.campaigns.config import Campaign, CampaignQuestion, load_campaign
from shuffledp_ops.campaigns.pictures import _draw_shares
from shuffledp_ops.campaigns.results import DatedAnswer, write_results
from shuffledp_ops.campaigns.rounds import RoundOutcome
from shuffledp_ops.campaigns.running import CampaignRunner, begin
from shuffledp_ops.campaigns.state import (
    AttemptStage,
    CampaignState,
    CampaignStore,
    DateEntry,
    DateOutcome,
    RoundAttempt,
)
from shuffledp_ops.keys.pki import create_deployment
from shuffledp_ops.results.saved import COLUMNS, SavedAnswer


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keys of a deployment where nobody listens."""
    return create_deployment(tmp_path_factory.mktemp("nobody") / "keys", ADDRESSES).folder


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
    for changed in (
        "retries = 1", 'population = "others"', "question = 1", 'route = ["node-1", "node-2"]',
        'mix = "verified"',
    ):  # fmt: skip
        assert (
            load_campaign(campaign_file(tmp_path, keys, question=changed)).digest != campaign.digest
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


WORDS = """
[questions.wording]
id = "sleep"
text = "How many hours did you sleep last night, naps in the afternoon and dozing included?"
axes = [{ field = "$h$", unit = "h", symbols = { kind = "ranges", edges = ["0", "6.5", "inf"] } }]
"""


DESCRIPTION = """
[questions.description]
ask = "table"
of = ["sex", "sleep"]
[questions.description.fields.sex]
names = ["f", "m"]
[questions.description.fields.sleep]
unit = "h"
edges = [0, 6.5, inf]
[questions.description.where]
sleep = { below = 20 }
"""


def test_a_described_question_is_asked_in_words(keys: Path, tmp_path: Path) -> None:
    changes = (("max_value = 3\n", ""), ("krr-histogram", "node-histogram"))
    campaign = load_campaign(campaign_file(tmp_path, keys, changes, question=DESCRIPTION))
    (question,) = campaign.questions
    plan = question.plan(("node-1", "node-2"), 1.0)
    assert (plan.size, plan.wording) == (5, question.wording)
    assert question.wording is not None
    assert question.wording.fields == ("sex", "sleep")
    for wrong, words in {
        DESCRIPTION.replace('"table"', '"tables"'): "there is no ask = 'tables'",
        DESCRIPTION + WORDS: "both a wording and a description",
    }.items():
        with pytest.raises(ConfigError, match=words):
            load_campaign(campaign_file(tmp_path, keys, changes, question=wrong))


def test_a_described_question_gives_the_mechanism_that_serves_it(
    keys: Path, tmp_path: Path
) -> None:
    description = DESCRIPTION.replace('"table"', '"quantiles"').replace(
        '["sex", "sleep"]', '"sleep"'
    )
    changes = (("max_value = 3\n", ""), ('mechanism = "krr-histogram"\n', ""))
    campaign = load_campaign(campaign_file(tmp_path, keys, changes, question=description))
    assert campaign.questions[0].mechanism == "node-tree"
    named = (changes[0], ("krr-histogram", "node-histogram"))
    campaign = load_campaign(campaign_file(tmp_path, keys, named, question=description))
    assert campaign.questions[0].mechanism == "node-histogram"
    with pytest.raises(ConfigError, match="needs a mechanism, such as node-histogram, or a"):
        load_campaign(campaign_file(tmp_path, keys, changes, question=WORDS))


def test_a_question_in_words_is_in_plans_tables_and_pages(keys: Path, tmp_path: Path) -> None:
    without = load_campaign(campaign_file(tmp_path, keys))
    changes = (("max_value = 3\n", ""), ('field = "hours a week"\n', ""))
    campaign = load_campaign(campaign_file(tmp_path, keys, changes, question=WORDS))
    (question,) = campaign.questions
    assert campaign.digest != without.digest
    plan = question.plan(("node-1", "node-2"), 1.0)
    assert plan.size == 2
    assert plan.wording == question.wording
    state = begun(campaign)
    published = msgspec.structs.replace(
        state.entries[0].attempts[0], stage=AttemptStage.PUBLISHED, accepted=5, ended_at=FIRST
    )
    state = state.with_entry(0, outcome=DateOutcome.PUBLISHED, attempts=(published,))
    folder = CampaignStore(campaign.folder).round_folder(published.round_id)
    folder.mkdir(parents=True)
    words = {"question": "sleep", "unit": "h", "labels": ["0–6.5 h", "6.5 or more h"]}
    saved = ANSWER | words | {"round": published.round_id, "certified_at": FIRST}
    (folder / "report.json").write_bytes(msgspec.json.encode(saved))
    write_results(campaign, state, campaign.folder)
    with (campaign.folder / "hours.csv").open(newline="") as stream:
        table = csv.DictReader(stream)
        rows = list(table)
    assert tuple(table.fieldnames or ())[-len(COLUMNS) :] == COLUMNS
    assert [(row["name"], row["question"], row["label"], row["unit"]) for row in rows[:2]] == [
        ("hours", "sleep", "0–6.5 h", "h"),
        ("hours", "sleep", "6.5 or more h", "h"),
    ]
    assert rows[0]["time"] == "2030-03-01T08:00:00+00:00"
    page = (campaign.folder / "index.html").read_text()
    assert "How many hours did you sleep last night" in page
    assert "6.5 or more h: 40.0% ± 2.0%" in page


def test_a_question_without_a_size_is_refused(keys: Path, tmp_path: Path) -> None:
    file = campaign_file(tmp_path, keys, (("max_value = 3\n", ""),))
    with pytest.raises(ConfigError, match="needs max_value, or words in"):
        load_campaign(file)
    file = campaign_file(tmp_path, keys, question=WORDS)
    with pytest.raises(ConfigError, match="gives 2 symbols a meaning, but the mechanism has 4"):
        load_campaign(file)


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
        accepted=10, estimate=(-2.0, 4.0, 12.0), standard_error=(1.0,) * 3,
        interval_95=((0.0, 2.0, 7.0), (1.0, 6.0, 10.0)), epsilon=1.0, delta=1e-3,
    )  # fmt: skip
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
    with pytest.raises(OutputError, match="no round is opened unless it is recorded there"):
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
