"""The console of a running deployment in Debian's Chromium: a round from its form to its chart, and
who may do that."""

from __future__ import annotations

import asyncio
import http.client
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Coroutine, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, expect, sync_playwright
from rounds_for_tests import submit_some

from shuffledp_core.documents.signed import Signed
from shuffledp_core.vocabulary import Mix
from shuffledp_ops.console.frame import Viewer
from shuffledp_ops.console.overview import overview
from shuffledp_ops.console.saved import SavedRounds
from shuffledp_ops.console.web import MOST_STREAMS
from shuffledp_ops.keys.pki import create_deployment
from shuffledp_ops.results.fetching import fetch
from shuffledp_ops.rounds.operate import save, trusted_files
from shuffledp_ops.rounds.running import control_of
from shuffledp_proto.v1 import analyst_pb2
from shuffledp_sim.system.ports import Ports
from shuffledp_sim.system.processes import LocalSystem

CHROMIUM = shutil.which("chromium")
PHONE: ViewportSize = {"width": 360, "height": 740}
DESKTOP: ViewportSize = {"width": 1100, "height": 800}
MINUTE = 60_000
FEWEST, MOST = 20, 30

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Debian's chromium is not installed"),
]


@dataclass(frozen=True)
class Served:
    """A console that runs: its port, and the link that an operator opens."""

    port: int
    link: str

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(
        self, path: str, method: str = "GET", body: str | None = None, **headers: str
    ) -> tuple[int, str]:
        """One request by hand; header names with _ for -. Status and body."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=240)) as connection:
            connection.request(
                method,
                path,
                body,
                {name.replace("_", "-"): value for name, value in headers.items()},
            )
            answer = connection.getresponse()
            return answer.status, answer.read().decode()


@pytest.fixture(scope="module")
def served(running: LocalSystem) -> Iterator[Served]:
    """The command itself, as an operator starts it."""
    ports = Ports(1)
    command = [
        sys.executable,
        "-m",
        "shuffledp.cli",
        "console",
        str(running.deployment.folder),
        "--operate",
    ]
    with subprocess.Popen(
        [*command, "--port", str(ports.numbers[0])], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline(), process.stdout.readline()]
            yield Served(ports.numbers[0], re.findall(r"\S+/sign-in\S+", lines[1])[0])
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 128 + signal.SIGTERM
        finally:
            process.kill()
            ports.close()


@pytest.fixture(scope="module")
def browser(served: Served) -> Iterator[Browser]:
    """Debian's Chromium; begun after the system, which needs a loop of its own in this thread."""
    assert served.port
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield started
        started.close()


@pytest.fixture(scope="module")
def operator(browser: Browser, served: Served) -> Iterator[BrowserContext]:
    """A browser that is signed in."""
    context = browser.new_context(viewport=DESKTOP)
    page = context.new_page()
    page.goto(served.link)
    assert page.url == f"{served.base}/", "the key stays in no address"
    page.close()
    yield context
    context.close()


@pytest.fixture
def page(operator: BrowserContext) -> Iterator[Page]:
    """A fresh page of the operator's; whatever the browser complains about fails the test."""
    fresh = operator.new_page()
    complaints: list[str] = []
    fresh.on(
        "console",
        lambda message: complaints.append(message.text) if message.type == "error" else None,
    )
    fresh.on("pageerror", lambda error: complaints.append(str(error)))
    yield fresh
    fresh.close()
    assert not complaints


def aside(work: Coroutine[Any, Any, Any]) -> Any:
    """Runs a coroutine in another thread: the browser's driver has a loop in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result(120)


def fill(page: Page, served: Served, mix: Mix = Mix.PLAIN) -> None:
    """The form of a small round, up to its last button."""
    page.goto(f"{served.base}/open")
    page.select_option("#mechanism", "krr-histogram")
    if mix is not Mix.PLAIN:
        page.select_option("#mix", mix.value)
    fields = {
        "max_value": 3,
        "epsilon": 4,
        "delta": 1e-3,
        "min_reports": FEWEST,
        "max_reports": MOST,
    }
    for name, value in fields.items():
        page.fill(f"#{name}", str(value))
    page.click("text=Review plan")


def open_round(page: Page, served: Served, mix: Mix = Mix.PLAIN) -> str:
    """Opens a round by the form; its id."""
    fill(page, served, mix)
    page.click("button:has-text('Open the round')")
    page.wait_for_url("**/rounds/**", timeout=MINUTE)
    return page.url.split("/")[-2]


@pytest.fixture(scope="module")
def answered(
    operator: BrowserContext, served: Served, running: LocalSystem, pool: ProcessPoolExecutor
) -> str:
    """A round that was opened, watched and published; the checks on the way are the test of it."""
    page = operator.new_page()
    round_id = open_round(page, served)
    arrived = page.locator(".arrived")
    expect(arrived).to_contain_text(
        f"0 of at least {FEWEST} devices: {FEWEST} more are needed", timeout=MINUTE
    )
    page.evaluate("document.title = 'the same page'")  # it would go with a reload
    aside(submit_some(running, pool, round_id, 12))
    expect(arrived).to_contain_text(
        f"12 of at least {FEWEST} devices: 8 more are needed", timeout=MINUTE
    )
    assert page.title() == "the same page", "the script exchanges parts, it does not reload"
    aside(submit_some(running, pool, round_id, MOST - 12))  # so many that the round closes
    expect(page.locator("h1")).to_have_text("Histogram of demo", timeout=MINUTE)
    page.close()
    return round_id


def test_a_round_is_opened_watched_and_read_with_its_chart(
    page: Page, served: Served, answered: str
) -> None:
    page.goto(f"{served.base}/rounds/{answered}/")
    assert page.locator("svg.chart.wide .bar").first.is_visible()
    text = page.inner_text("main")
    for words in (
        f"of {MOST} people",
        "While at least one of the 3 nodes is honest",
        "shuffledp verify result.json",
    ):
        assert words in text
    status, document = served.ask(f"/rounds/{answered}/result.json")
    assert status == 200
    assert Signed.from_bytes(document.encode()).signer == "analyst"


def test_the_first_page_has_the_answer_and_the_account(
    page: Page, served: Served, answered: str
) -> None:
    page.goto(served.base)
    expect(page.locator("#newest .chart.wide")).to_be_visible(timeout=MINUTE)
    row = page.locator("#rounds tr", has_text=answered[:8])
    expect(row).to_contain_text("published")
    expect(row).to_contain_text(str(MOST))
    page.click("#budgets h3 a")
    expect(page.locator("h1")).to_contain_text("Privacy budget of “demo”")
    expect(page.locator("#charges tr", has_text=answered[:8])).to_contain_text("settled")
    assert page.locator("#time svg.wide").is_visible()


def test_a_round_is_given_up_and_the_page_says_why_and_what_to_do(
    page: Page, served: Served, answered: str
) -> None:
    round_id = open_round(page, served)
    assert round_id != answered
    page.click("text=Cancel round")
    page.fill("#reason", "a <b>rehearsal</b>")
    page.click("button:has-text('Cancel round')")
    page.wait_for_url(f"**/rounds/{round_id}/")
    expect(page.locator("h1")).to_contain_text("no answer", timeout=MINUTE)
    expect(page.locator("#why")).to_contain_text("a <b>rehearsal</b>", timeout=MINUTE)
    expect(page.locator("#why")).to_contain_text("What to do:")
    page.goto(served.base)
    expect(page.locator("#troubles")).to_contain_text(f"Round {round_id[:8]} failed")


def test_submissions_are_ended_and_too_few_are_explained(
    page: Page, served: Served, answered: str
) -> None:
    round_id = open_round(page, served)
    assert round_id != answered
    page.click("text=Close submissions now")
    assert "fewer reports than the minimum" in page.inner_text("main")
    page.click("button:has-text('Close submissions')")
    expect(page.locator("#why")).to_contain_text("TooFewReportsError", timeout=MINUTE)
    expect(page.locator("#why")).to_contain_text("Fewer people answered than the round's minimum")
    expect(page.locator("#why")).to_contain_text("given back: every node", timeout=MINUTE)


def test_without_javascript_all_of_it_is_there_to_be_loaded_again(
    browser: Browser, served: Served, answered: str
) -> None:
    context = browser.new_context(java_script_enabled=False, viewport=DESKTOP)
    page = context.new_page()
    page.goto(served.link)
    assert "load it again" in page.inner_text("main")
    assert answered[:8] in page.inner_text("#rounds")
    assert page.locator("#newest .chart.wide").is_visible()
    fill(page, served)
    assert "Open this round?" in page.inner_text("h1")
    context.close()


def test_no_page_is_wider_than_a_telephone(
    served: Served, operator: BrowserContext, answered: str
) -> None:
    page = operator.new_page()
    page.set_viewport_size(PHONE)
    for path in (
        "/",
        f"/rounds/{answered}/",
        "/populations/demo/",
        "/open",
        "/open/confirm?epsilon=x",
        "/rounds/x/",
    ):
        page.goto(served.base + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], path
    page.close()


WCAG = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_against_wcag(
    served: Served, operator: BrowserContext, answered: str, scheme: str
) -> None:
    """Deque's axe, its rules of levels A and AA and its best practices, on every page of the
    console."""
    page = operator.new_page()
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    for path in (
        "/",
        f"/rounds/{answered}/",
        "/populations/demo/",
        "/open",
        "/open/confirm?epsilon=x",
        "/rounds/x/",
    ):
        page.goto(served.base + path)
        checked = Axe().run(page, options=WCAG).response
        assert len(checked["passes"]) > 10, path
        found = [
            (one["id"], one["help"], [node["target"] for node in one["nodes"]])
            for one in checked["violations"]
        ]
        assert not found, (path, found)
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    ("field", "values", "answer"),
    [
        (
            "smoker | age",
            "names: yes; no | ranges: 0, 18, inf",
            "“smoker”: yes, no; “age”: 0 or more; all others: none of these",
        ),
        ("homepage", "texts", "“homepage”: any text of up to 256 characters"),
    ],
)
def test_a_question_over_records_is_typed_and_reviewed(
    served: Served, operator: BrowserContext, scheme: str, field: str, values: str, answer: str
) -> None:
    page = operator.new_page()
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.goto(f"{served.base}/open")
    page.get_by_label("Minimum reports").fill("20")
    page.get_by_label("Maximum reports").fill("40")
    page.get_by_label("Identifier of the question").fill("typed")
    page.get_by_label("Question", exact=True).fill("Who are you?")
    page.get_by_label("Field", exact=True).fill(field)
    page.get_by_label("Meaning of the values").fill(values)
    page.get_by_role("button", name="Review plan").click()
    assert answer in page.inner_text("dl")
    assert page.get_by_role("button", name="Open the round").is_visible()
    checked = Axe().run(page, options=WCAG).response
    assert checked["passes"]
    assert checked["violations"] == []
    page.close()


CONTRAST = """() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = (c) => c.slice(0, 3).map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (node) => {
    for (let n = node; n; n = n.parentElement) {
      const c = parse(getComputedStyle(n).backgroundColor);
      if (c.length === 3 || c[3] === 1) return c;
      if (c[3] > 0) throw new Error("half transparent: " + n.className);
    }
    return matchMedia("(prefers-color-scheme: dark)").matches ? [0, 0, 0] : [255, 255, 255];
  };
  const found = [];
  for (const node of document.querySelectorAll("body *")) {
    const words = [...node.childNodes].filter((n) => n.nodeType === 3 && n.data.trim()).map((n) => n.data).join(" ");
    const value = node.matches("input") ? node.value : words;
    if (!value || !node.getClientRects().length) continue;
    const style = getComputedStyle(node);
    const colour = parse(node instanceof SVGElement ? style.fill : style.color);
    const [a, b] = [light(colour), light(behind(node))].sort((x, y) => y - x);
    found.push([(a + 0.05) / (b + 0.05), value.trim().slice(0, 40), node.tagName + "." + node.className]);
  }
  return found;
}"""  # noqa: E501


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_has_the_contrast_of_wcag_aa(
    page: Page, served: Served, answered: str, scheme: str
) -> None:
    """4.5 to 1 for every text, also for large ones, which may have less.

    Computed from what the browser draws.
    """
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    seen = 0
    for path in ("/", f"/rounds/{answered}/", "/populations/demo/", "/open"):
        page.goto(served.base + path)
        found = page.evaluate(CONTRAST)
        seen += len(found)
        assert not [one for one in found if one[0] < 4.5], path
    assert seen > 100


def test_everything_is_reached_by_the_keyboard_and_shows_it(page: Page, served: Served) -> None:
    page.goto(f"{served.base}/open")
    wanted = page.locator("a[href], button, input:not([type=hidden]), select").count()
    reached = []
    for _ in range(wanted):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate(
                "[document.activeElement.outerHTML, "
                "getComputedStyle(document.activeElement).outlineStyle]"
            )
        )
    assert len({html for html, _ in reached}) == wanted
    assert {outline for _, outline in reached} == {"solid"}
    assert "Skip to the content" in reached[0][0]
    assert page.locator("label").count() == page.locator("input, select").count()


FORM = {"Content_Type": "application/x-www-form-urlencoded"}


def test_a_form_that_is_forged_sent_twice_or_not_signed_in_does_nothing(
    page: Page, served: Served, running: LocalSystem, answered: str
) -> None:
    async def rounds() -> int:
        async with control_of(running.deployment) as control:
            return len((await control.ListRounds(analyst_pb2.ListRoundsRequest())).rounds)

    before = aside(rounds())
    fill(page, served)
    page.locator("form").first.wait_for()  # the confirmation may still be loading
    fields = page.evaluate(
        "new URLSearchParams(new FormData(document.querySelector('form'))).toString()"
    )
    cookies = "; ".join(f"{one['name']}={one['value']}" for one in page.context.cookies())
    own = {"Origin": served.base, "Cookie": cookies, **FORM}
    spoiled = re.sub(r"token=[^&]*", "token=", fields)
    assert served.ask("/open", "POST", fields, **own | {"Origin": "http://evil.example"})[0] == 403
    assert served.ask("/open", "POST", fields, Cookie=cookies, **FORM)[0] == 403, "no origin"
    assert served.ask("/open", "POST", fields, Origin=served.base, **FORM)[0] == 403, "no session"
    assert served.ask("/open", "POST", spoiled, **own)[0] == 403, "no token"
    assert served.ask("/open", "POST", fields, **own | {"Content_Type": "text/plain"})[0] == 415
    assert served.ask("/open", "POST", fields + "&x=" + "x" * 9000, **own)[0] == 413
    assert served.ask("/open", "PUT", fields, **own)[0] == 405
    wrong = fields.replace("epsilon=4", "epsilon=nan")
    assert served.ask("/open", "POST", wrong, **own)[0] == 400
    assert served.ask("/open", "POST", fields, **own)[0] == 403, (
        "its token was used up by the one before"
    )
    assert served.ask(f"/rounds/{answered}/abort", "POST", "token=x", **own)[0] == 403
    assert aside(rounds()) == before


def test_a_foreign_name_that_leads_here_is_refused(served: Served) -> None:
    for host in (
        "evil.example",
        f"evil.example:{served.port}",
        f"localhost.evil.example:{served.port}",
        "",
    ):
        status, words = served.ask("/", Host=host)
        assert status == 421, host
        assert "demo" not in words
    for host in ("localhost", f"127.0.0.1:{served.port}", f"[::1]:{served.port}", "LOCALHOST:1"):
        assert served.ask("/", Host=host)[0] == 200, host


def test_who_is_not_signed_in_reads_and_no_more(served: Served, answered: str) -> None:
    status, words = served.ask("/")
    assert status == 200
    assert answered[:8] in words
    key = served.link.partition("key=")[2]
    for path in ("/", f"/rounds/{answered}/", "/populations/demo/"):
        assert key not in served.ask(path)[1]
    for path in (
        "/open",
        "/open/confirm",
        f"/rounds/{answered}/abort",
        f"/sign-in?key={key[:-1]}",
        "/sign-in?key=ä",
    ):
        assert served.ask(path.replace("ä", "%C3%A4"))[0] == 403, path
    for path in (
        "/nothing",
        "/rounds/../../etc/passwd/",
        f"/rounds/{'0' * 32}/",
        f"/rounds/{answered}/tls-key.pem",
    ):
        assert served.ask(path)[0] == 404, path


def test_streams_are_bounded_and_their_places_come_back(served: Served) -> None:
    def stream(stack: ExitStack) -> http.client.HTTPResponse:
        connection = stack.enter_context(
            closing(http.client.HTTPConnection("127.0.0.1", served.port, timeout=240))
        )
        connection.request("GET", "/events")
        return connection.getresponse()

    with ExitStack() as stack:
        taken = [stream(stack) for _ in range(MOST_STREAMS)]
        assert taken[0].readline().startswith(b"data: ")
        assert stream(stack).status == 503
        full = [one for one in taken if one.status == 200]
        assert len(full) >= MOST_STREAMS - 2, "but for those of pages of other tests"
    with ExitStack() as stack:
        while stream(stack).status != 200:  # as soon as the server notices that the others are gone
            pass


def test_an_analyst_that_goes_away_is_said_so_and_comes_back(
    page: Page, served: Served, running: LocalSystem, answered: str
) -> None:
    page.goto(served.base)
    running.processes["analyst"].kill()
    try:
        expect(page.locator("#troubles")).to_contain_text("No answer from analyst", timeout=MINUTE)
        expect(page.locator("#troubles")).to_contain_text("What to do:")
        expect(page.locator("#rounds")).to_contain_text(answered[:8])
    finally:
        running.processes[
            "analyst"
        ].start()  # in this thread: a child ends with the thread that began it
        aside(running.until_healthy("analyst"))
    expect(page.locator("#troubles")).not_to_contain_text("No answer", timeout=MINUTE)


def test_keys_of_another_deployment_open_nothing(running: LocalSystem, tmp_path: Path) -> None:
    addresses = {party.name: party.address for party in running.deployment.roster.parties}
    create_deployment(tmp_path / "other", addresses)
    command = [sys.executable, "-m", "shuffledp.cli", "console", str(tmp_path / "other")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 1
    assert "analyst does not answer" in done.stderr
    assert "belong to this deployment?" in done.stderr
    assert not done.stdout


def test_saved_rounds_are_shown_alone_and_a_changed_one_is_not_believed(
    running: LocalSystem, answered: str, tmp_path: Path
) -> None:
    deployment = running.deployment
    report = aside(fetch(deployment, answered)).report
    save(report, tmp_path, deployment.folder, trusted_files(deployment.folder))
    forged = tmp_path / ("0" * 32)
    shutil.copytree(tmp_path / answered, forged)
    (forged / "result.json").write_bytes(
        (forged / "result.json").read_bytes().replace(b"A", b"B", 1)
    )
    saved = SavedRounds(tmp_path)
    saved.look()
    outcomes = {one.round_id: (one.outcome, one.error) for one in saved.snapshot.rounds}
    assert outcomes[answered] == ("published", "")
    assert outcomes["0" * 32][0] == "unreadable"
    assert outcomes["0" * 32][1].endswith("Error")
    page = overview(Viewer(saved.title, live=False, version="1"), saved.snapshot)
    assert answered in page
    assert "svg" in page
    assert "Privacy budgets" not in page
    version = saved.version
    saved.look()
    assert saved.version == version, "nothing is new"
    shutil.rmtree(forged)
    saved.look()
    assert len(saved.snapshot.rounds) == 1
    assert saved.version == version + 1
    opened = aside(saved.open(answered))
    assert opened.report.accepted == MOST
    assert {"result.json", "roster.json", "root.pub", "manifest.json"} <= opened.files.keys()


def test_a_round_is_opened_verified_and_its_page_says_so(
    page: Page, served: Served, running: LocalSystem, pool: ProcessPoolExecutor
) -> None:
    round_id = open_round(page, served, Mix.VERIFIED)
    aside(submit_some(running, pool, round_id, MOST))
    expect(page.locator("h1")).to_have_text("Histogram of demo", timeout=MINUTE)
    assert aside(fetch(running.deployment, round_id)).report.final.verified
    expect(page.locator("main")).to_contain_text("verified: anyone can check its correctness")
