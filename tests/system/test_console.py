"""The console without a deployment: wrong inputs to its command, who may send a form, what errors
mean."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import msgspec
import pytest
from commands import Shell
from composed import REPOSITORY
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from shuffledp_core.errors import (
    AccessDenied,
    MalformedDocumentError,
    NodeFault,
    ShuffleDPError,
    UsageError,
    by_code,
)
from shuffledp_core.mechanisms import MECHANISMS
from shuffledp_core.vocabulary import Mix
from shuffledp_ops.console import budgets, progress
from shuffledp_ops.console.actions import DEFAULTS, plan_of
from shuffledp_ops.console.advice import advice
from shuffledp_ops.console.changes import Changes
from shuffledp_ops.console.command import Listening
from shuffledp_ops.console.desk import Desk
from shuffledp_ops.console.forms import ask, confirm_open
from shuffledp_ops.console.frame import Viewer, frame_page, mishap
from shuffledp_ops.console.guards import LOOPBACK, RequestGuard
from shuffledp_ops.console.model import (
    BudgetCharge,
    ConsoleSnapshot,
    PopulationBudget,
    RoundInfo,
    StageProgress,
)
from shuffledp_ops.console.overview import overview
from shuffledp_ops.console.saved import SavedRounds
from shuffledp_ops.console.sessions import LIFE, Session, Sessions
from shuffledp_ops.console.watching import DeploymentWatch
from shuffledp_ops.console.web import Pages, application
from shuffledp_ops.keys.pki import Deployment, create_deployment
from shuffledp_proto.v1 import analyst_pb2

HOSTILE = "</main><script>alert(1)</script>\u202e\"'&"


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """Keys of a deployment of which nothing runs."""
    names = ("node-1", "node-2", "analyst", "accountant")
    with_ports = {name: f"127.0.0.1:{port}" for port, name in enumerate(names, start=1)}
    return create_deployment(tmp_path_factory.mktemp("console") / "keys", with_ports)


@pytest.fixture
def folders(tmp_path: Path, deployment: Deployment) -> Iterator[dict[str, str]]:
    """Places that a person may name by mistake."""
    keys = deployment.folder
    for name in ("empty", "round", "public", "forged", "one-file"):
        (tmp_path / name).mkdir()
    (tmp_path / "a-file").write_text("x")
    (tmp_path / "round" / "result.json").write_text("{}")
    for name in ("roster.json", "root.pub"):
        for folder in ("round", "public", "forged"):
            (tmp_path / folder / name).write_bytes((keys / name).read_bytes())
    (tmp_path / "forged" / "operator").mkdir()
    (tmp_path / "forged" / "roster.json").write_bytes(
        (keys / "roster.json").read_bytes().replace(b"A", b"B", 1)
    )
    (tmp_path / "one-file" / "operator").mkdir()
    (tmp_path / "looking" / "viewer").mkdir(parents=True)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        places = {name.name: str(name) for name in tmp_path.iterdir()}
        yield places | {"keys": str(keys), "taken": str(taken.getsockname()[1])}


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["nowhere"], 2, "is not a folder; name a deployment's key folder"),
        (["{a-file}"], 2, "is not a folder; name a deployment's key folder"),
        (["{empty}"], 2, "nor saved rounds; `shuffledp demo` saves a round"),
        (["x" * 300], 2, "File name too long"),
        (["{round}"], 2, "is the folder of a single round; name the folder that contains it"),
        (["{public}"], 2, "has no operator/ or viewer/ with TLS files"),
        (["{looking}", "--operate"], 2, "has only a viewer's; leave it out"),
        (["{one-file}"], 2, "no roster.json and no root.pub"),
        (["{forged}"], 1, "roster"),
        (["{empty}", "--operate"], 2, "--operate needs a deployment's key folder"),
        (["{keys}", "--port", "{taken}"], 2, "choose another --port"),
        (["{keys}", "--port", "70000"], 2, "65535"),
        (["{keys}", "--host", "192.0.2.1"], 2, "or --plaintext"),
        (
            ["{keys}", "--host", "no.such.host.invalid", "--plaintext"],
            2,
            "is not an address of this machine",
        ),
        (["{keys}", "--tls-certificate", "{a-file}"], 2, "must be given together"),
        (
            ["{keys}", "--tls-certificate", "no.pem", "--tls-key", "no.pem"],
            2,
            "the TLS file no.pem does not exist",
        ),
        (
            ["{keys}", "--tls-certificate", "{a-file}", "--tls-key", "{a-file}"],
            2,
            "the TLS files cannot be used",
        ),
        (["{keys}"], 1, "Is the deployment up"),
    ],
)
def test_a_wrong_input_is_one_sentence_and_nothing_is_served(
    shuffledp: Shell, folders: dict[str, str], words: list[str], code: int, said: str
) -> None:
    given = [re.sub(r"\{([\w-]+)\}", lambda name: folders[name[1]], word) for word in words]
    exit_code, out, err = shuffledp("console", *given)
    assert (exit_code, out) == (code, "")
    assert said in " ".join(err.split())
    assert "Traceback" not in err


VIEWER = Viewer("x", live=True, version="1")
FIELDS = {**DEFAULTS, "population": "demo", "min_reports": "100", "max_reports": "200"}


def test_a_form_becomes_the_plan_of_the_command(deployment: Deployment) -> None:
    plan = plan_of(FIELDS, deployment.roster)
    assert (plan.min_reports, plan.max_reports, plan.colluding) == (100, 200, 5)
    assert (plan.open_seconds, plan.epsilon, plan.delta) == (600, 1, 1e-6)
    assert plan.route == ("node-1", "node-2")
    assert plan.size == MECHANISMS[plan.mechanism].size_for(20)
    assert not MECHANISMS[plan.mechanism].needs_crowd  # a newcomer knows no number of liars
    assert not plan.allow_corrupt
    assert plan_of({**FIELDS, "colluding": "7"}, deployment.roster).colluding == 7
    assert plan.question == 0
    assert plan.epsilon_local is msgspec.UNSET
    assert plan_of({**FIELDS, "epsilon_local": "6.5"}, deployment.roster).epsilon_local == 6.5


def test_a_form_asks_for_the_number_of_the_question_and_carries_it_on(
    deployment: Deployment,
) -> None:
    viewer, fields = (
        Viewer("x", live=True, version="1"),
        {**FIELDS, "mechanism": "rappor-histogram", "question": "7"},
    )
    assert 'name="question" value="0"' in ask(viewer, deployment.roster, {})
    plan = plan_of(fields, deployment.roster)
    assert plan.question == 7
    page = confirm_open(viewer, plan, fields, None, "token")
    assert "<dt>question number</dt><dd>7</dd>" in page
    assert 'name="question" value="7"' in page


@pytest.mark.parametrize(
    ("mix", "said"), [(Mix.PLAIN, "plain"), (Mix.VERIFIED, "verified: anyone can check it")]
)
def test_a_form_asks_how_to_mix_and_carries_it_on(
    deployment: Deployment, mix: Mix, said: str
) -> None:
    viewer, fields = Viewer("x", live=True, version="1"), {**FIELDS, "mix": mix.value}
    assert '<option value="plain" selected>plain</option><option value="verified">' in ask(
        viewer, deployment.roster, {}
    )
    assert f'<option value="{mix.value}" selected>' in ask(viewer, deployment.roster, fields)
    plan = plan_of(fields, deployment.roster)
    assert plan == msgspec.structs.replace(plan_of(FIELDS, deployment.roster), mix=mix)
    assert (plan.mix == Mix.VERIFIED) == (mix is Mix.VERIFIED)
    page = confirm_open(viewer, plan, fields, None, "token")
    assert f"<dt>mixing</dt><dd>{said}</dd>" in page
    assert f'name="mix" value="{mix.value}"' in page


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("population", ["", "others", HOSTILE]),
        ("mechanism", ["", "no-such"]),
        ("mix", ["", "Verified", HOSTILE]),
        ("max_value", ["", "0", "-1", "1.5", "١٢", "9" * 30]),
        ("epsilon", ["", "0", "-1", "nan", "inf", "1e400", "one"]),
        ("delta", ["0", "nan"]),
        ("min_reports", ["", "0", "x"]),
        ("max_reports", ["99", ""]),
        ("colluding", ["-1", "100", "x"]),
        ("open_minutes", ["0", "nan", "1e9"]),
        ("question", ["", "-1", "1.5", "9" * 30]),
    ],
)
def test_a_wrong_field_is_named(deployment: Deployment, field: str, values: list[str]) -> None:
    for value in values:
        with pytest.raises(UsageError) as refusal:
            plan_of({**FIELDS, field: value}, deployment.roster)
        assert field.replace("open_minutes", "open_")[:5] in str(refusal.value)


@pytest.mark.parametrize(
    ("field", "label"),
    [
        ("population", "Population"),
        ("mechanism", "Mechanism"),
        ("mix", "Mixing"),
        ("min_reports", "Minimum reports"),
    ],
)
def test_a_refusal_calls_a_field_what_the_page_calls_it(
    deployment: Deployment, field: str, label: str
) -> None:
    with pytest.raises(UsageError) as refused:
        plan_of({**FIELDS, field: "x"}, deployment.roster)
    page = ask(Viewer("x", live=True, version="1"), deployment.roster, {}, str(refused.value))
    assert f'<label for="{field}">{label}</label>' in page
    assert f'role="alert">“{label}”: ' in page
    assert 'role="alert">no more' in ask(
        Viewer("x", live=True, version="1"), deployment.roster, {}, "no more: x"
    )


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"content-length": "8193"}, 413),
        ({"content-length": ""}, 413),
        ({"transfer-encoding": "chunked"}, 413),
        ({"origin": "http://localhost:3000"}, 403),
        ({"origin": "null"}, 403),
        ({"host": "evil.example:8765", "origin": "http://evil.example:8765"}, 421),
    ],
)
async def test_a_form_is_short_says_how_long_it_is_and_comes_from_here(
    headers: dict[str, str], status: int
) -> None:
    async def taken(request: Request) -> Response:
        return PlainTextResponse(str(len(await request.body())))

    guarded = RequestGuard(
        Starlette(routes=[Route("/open", taken, methods=["POST"])]), LOOPBACK, tls=False
    )
    sent = {
        "host": "localhost:8765",
        "origin": "http://localhost:8765",
        "content-length": "3",
    } | headers
    sent["content-type"] = "application/x-www-form-urlencoded"
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(guarded), base_url="http://localhost:8765"
    ) as client:
        assert (await client.post("/open", content=b"a=b", headers=sent)).status_code == status


async def test_two_consoles_of_one_machine_do_not_sign_each_other_out(
    deployment: Deployment,
) -> None:
    """A browser gives the cookies of a host to all of its ports."""
    watch, cookies = DeploymentWatch(deployment.folder), httpx.Cookies()
    consoles = {}
    for port in (8765, 8766):
        sessions = Sessions(lambda: 0.0)
        pages = Pages(watch, sessions)
        app = application(
            pages, Desk(pages, watch, sessions, tls=False).routes(), LOOPBACK, tls=False
        )
        base = f"http://localhost:{port}"
        consoles[port] = client = httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url=base
        )
        cookies.update((await client.get("/sign-in", params={"key": sessions.key})).cookies)
    for client in consoles.values():
        answer = await client.get(
            "/open", headers={"cookie": "; ".join(f"{one}={cookies[one]}" for one in cookies)}
        )
        assert answer.status_code == 200
        assert (
            await client.get("/open", headers={"cookie": "shuffledp-console=1"})
        ).status_code == 403
        await client.aclose()


def test_a_session_needs_the_key_ends_and_forgets_the_oldest() -> None:
    now = [0.0]
    sessions = Sessions(lambda: now[0])
    for wrong in ("", sessions.key[:-1], "ä"):
        with pytest.raises(AccessDenied):
            sessions.begin(wrong)
    names = [sessions.begin(sessions.key) for _ in range(17)]
    assert len(set(names)) == 17
    assert sessions.find(names[0]) is None
    assert sessions.find(names[1]) is not None
    assert sessions.find(None) is None
    now[0] = LIFE
    assert sessions.find(names[-1]) is None


def test_a_token_is_good_once_and_in_its_session_alone() -> None:
    mine, other = Session(1.0), Session(1.0)
    token = mine.token()
    with pytest.raises(AccessDenied):
        other.redeem(token)
    mine.redeem(token)
    for spent in (token, ""):
        with pytest.raises(AccessDenied):
            mine.redeem(spent)
    first = mine.token()
    for _ in range(64):
        mine.token()
    with pytest.raises(AccessDenied):
        mine.redeem(first)


def below(kind: type[ShuffleDPError]) -> Iterator[type[ShuffleDPError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from below(child)


def test_every_error_says_what_to_do() -> None:
    for kind in below(ShuffleDPError):
        said = advice(kind.__name__)
        assert said.happened.endswith(".")
        assert said.do.endswith(".")
    assert advice("NoSuchError") == advice("ShuffleDPError")
    assert advice("SignatureError") == advice("DocumentError"), "that of its branch"


def test_the_operations_guide_has_advice_for_no_error_that_the_console_knows_nothing_of() -> None:
    guide = (REPOSITORY / "docs" / "operations.md").read_text()
    table = guide.split("| what you see | what happened | what to do |")[1].split("\n\n")[0]
    cells = re.findall(r"^\| (`.*?) \|", table, flags=re.MULTILINE)
    names = [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]
    assert len(names) > 12
    for name in names:
        assert advice(name) != advice("ShuffleDPError"), name


def test_a_party_that_was_caught_cheating_is_not_said_to_have_a_full_disk() -> None:
    for name in ("BadListError", "BadHopError", "BadBlameError", "BadBatchError", "RoundKeyError"):
        assert by_code(name) in below(NodeFault)
        assert advice(name) not in {advice("NodeFault"), advice("ShuffleDPError")}, name
    assert advice("UnansweredError") != advice("RoundFailed")


@pytest.mark.parametrize(
    ("listening", "asked"),
    [
        (Listening("192.0.2.7", plaintext=True), "192.0.2.7:8765"),
        (Listening("2001:db8::7", plaintext=True), "[2001:db8::7]:8765"),
        (Listening("0.0.0.0", plaintext=True), "127.0.0.1:8765"),  # noqa: S104
        (Listening("::", plaintext=True), "127.0.0.1:8765"),
        (
            Listening("192.0.2.7", plaintext=True, names=("console.example.org",)),
            "console.example.org:8765",
        ),
    ],
)
async def test_it_answers_at_the_address_that_it_prints(listening: Listening, asked: str) -> None:
    assert listening.address == f"http://{asked}"
    guarded = RequestGuard(PlainTextResponse("here"), listening.known_as, tls=False)
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(guarded), base_url=listening.address
    ) as client:
        assert (await client.get("/")).status_code == 200
        assert (await client.get("/", headers={"host": "evil.example:8765"})).status_code == 421
        assert (await client.get("/", headers={"host": "0.0.0.0:8765"})).status_code == 421


def test_what_others_wrote_is_text_on_every_page() -> None:
    one = RoundInfo(
        "0" * 32,
        0,
        HOSTILE,
        HOSTILE,
        "running",
        steps={("mixing", HOSTILE): StageProgress("mixing", HOSTILE, 1, 3, 0.0)},
    )
    budget = PopulationBudget(
        HOSTILE,
        1.0,
        1e-6,
        0.5,
        0.5,
        HOSTILE,
        {HOSTILE: 1},
        (BudgetCharge(1, HOSTILE, HOSTILE, 0.5, 0.0),),
    )
    snapshot = ConsoleSnapshot(1, (one,), budgets=(budget,))
    viewer = Viewer(HOSTILE, live=True, version=HOSTILE, operates=True)
    parts = [progress.card(viewer, one), *budgets.section(snapshot), mishap(HOSTILE, HOSTILE)]
    for page in (frame_page(viewer, HOSTILE, parts), budgets.page(viewer, snapshot, budget)):
        assert page.count("<script") == 1, "the console's own"
        assert page.count("</main>") == 1
        assert "\u202e" not in page


class Lister:
    """An analyst that lists what it likes."""

    def __init__(self, *rounds: analyst_pb2.RoundSummary) -> None:
        self._rounds = rounds

    async def ListRounds(self, _: object, timeout: float) -> analyst_pb2.ListRoundsResponse:  # noqa: N802, ASYNC109
        assert timeout
        return analyst_pb2.ListRoundsResponse(rounds=self._rounds)


async def test_an_analyst_that_lists_what_cannot_be_is_an_error_or_text(
    deployment: Deployment,
) -> None:
    watch = DeploymentWatch(deployment.folder)
    with pytest.raises(MalformedDocumentError):
        await watch._list(Lister(analyst_pb2.RoundSummary(round_id='"><script>')))  # type: ignore[arg-type]
    assert not watch._rounds
    odd = analyst_pb2.RoundSummary(
        round_id="0" * 32,
        opened_at=2**62,
        population=HOSTILE,
        mechanism=HOSTILE,
        outcome=HOSTILE,
        error=HOSTILE,
    )
    await watch._list(Lister(odd))  # type: ignore[arg-type]
    page = overview(
        Viewer("x", live=True, version="1"), ConsoleSnapshot(1, tuple(watch._rounds.values()))
    )
    assert page.count("<script") == 1
    assert "cannot be read" in page


async def test_what_an_analyst_says_of_a_round_is_bounded(deployment: Deployment) -> None:
    watch, round_id = DeploymentWatch(deployment.folder), "0" * 32
    watch._rounds[round_id] = RoundInfo(round_id, 1, "demo", "geo-shuffle", "running")
    for node in ["node-1", "n" * 10_000, *map(str, range(3000))]:
        watch._progress(
            round_id, analyst_pb2.FollowRoundResponse(stage="mixing", node=node, done=1, total=2)
        )
    watch._progress(
        round_id, analyst_pb2.FollowRoundResponse(stage="mixing", node="node-1", done=2, total=2)
    )
    steps = watch._rounds[round_id].steps
    assert len(steps) == 1000
    assert steps["mixing", "node-1"].done == 2
    assert max(len(node) for _, node in steps) < 10_000


def test_a_spent_budget_and_one_without_a_limit_are_said_as_they_are() -> None:
    budget = PopulationBudget("us", 2.0, 1e-6, 2.0, 0.0, "adaptive", {"settled": 3}, ())
    spent = "".join(budgets.section(ConsoleSnapshot(1, budgets=(budget,))))
    assert "Nothing is left:" in spent
    assert 'width="1000.0"' in spent
    endless = "".join(
        budgets.section(
            ConsoleSnapshot(1, budgets=(replace(budget, limit=1e9, spent=float("inf")),))
        )
    )
    assert "no finite bound" in endless
    assert "limits nothing in practice" in endless


async def test_a_change_wakes_and_the_passing_of_time_does_not() -> None:
    changes = Changes()
    changes.publish(ConsoleSnapshot(1))
    assert await changes.wait_for_change(0) == 1
    changes.publish(ConsoleSnapshot(2))
    assert (changes.version, changes.snapshot.at) == (1, 2)
    changes.publish(ConsoleSnapshot(3, more=True))
    assert await changes.wait_for_change(1) == 2


def test_a_folder_of_saved_rounds_that_goes_away_is_said_so_and_comes_back(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    one = folder / ("0" * 32)
    one.mkdir(parents=True)
    (one / "result.json").write_text("{}")
    saved = SavedRounds(folder)
    saved.look()
    assert [known.outcome for known in saved.snapshot.rounds] == ["unreadable"]
    folder.rename(tmp_path / "elsewhere")
    saved.look()
    assert [trouble.what for trouble in saved.snapshot.troubles] == ["out"]
    assert len(saved.snapshot.rounds) == 1, "what was known last is still shown"
    assert "No answer from out" in overview(
        Viewer(saved.title, live=False, version="1"), saved.snapshot
    )
    (tmp_path / "elsewhere").rename(folder)
    saved.look()
    assert not saved.snapshot.troubles
