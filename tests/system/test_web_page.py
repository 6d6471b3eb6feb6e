"""Web pages in a round of a running deployment, together with Python devices, from a code to the
result, in Debian's Chromium."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import os
import shutil
import signal
import urllib.request
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from time import monotonic
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, expect, sync_playwright
from rounds_for_tests import ended, small_plan, submit_some

from shuffledp_client.web import MODULE, integrity_of
from shuffledp_core.documents.magnitudes import SymbolMagnitudes
from shuffledp_core.documents.models import Result
from shuffledp_core.documents.open_list import SymbolHashes
from shuffledp_core.documents.signed import Signed
from shuffledp_core.documents.wording import (
    QuestionAxis,
    QuestionWording,
    SymbolMeaning,
    SymbolNames,
    SymbolRanges,
    SymbolScale,
)
from shuffledp_core.runtime.keys import verify_from
from shuffledp_core.transport.tls import GATEWAY
from shuffledp_core.vocabulary import Mix
from shuffledp_ops.keys.codes import add_codes, code_list
from shuffledp_ops.rounds.running import control_of, open_round
from shuffledp_sim.system.ports import Ports
from shuffledp_sim.system.processes import LocalProcess, LocalSystem

CHROMIUM = shutil.which("chromium")
PHONE: ViewportSize = {"width": 390, "height": 844}
DESKTOP: ViewportSize = {"width": 1100, "height": 900}
MINUTE = 60_000
PAGES = 6
DEVICES = 34
MANY_PAGES = 50
MANY_DEVICES = 500

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Debian's chromium is not installed"),
]


def question_of(system: LocalSystem) -> str:
    policy = {"epsilon": 5, "delta": 1e-2, "epsilon_corrupted": "inf"}
    return f"""<shuffledp-question root-key="{system.deployment.root_key}"
        population="{system.population}" policy='{json.dumps(policy)}'>
        <p slot="question">How did you sleep last night?</p>
        <option value="0">Very well</option><option value="1">Well</option>
        <option value="2">Badly</option><option value="3">Hardly at all</option>
        </shuffledp-question>"""


@pytest.fixture(scope="module")
def pages_at(running: LocalSystem, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a gateway for pages, a process as an operator starts it."""
    folder = tmp_path_factory.mktemp("gateway")
    deployment, population = running.deployment, running.population
    (folder / "question.html").write_text(question_of(running))
    add_codes(deployment, 1, dt.datetime.now(dt.UTC) + dt.timedelta(days=1))
    with Ports(2) as ports:
        devices, pages = (f"127.0.0.1:{port}" for port in ports.numbers)
        config = folder / "gateway.toml"
        config.write_text(
            f'keys = "{deployment.keys_of(GATEWAY)}"\nroster = "{deployment.roster_file}"\n'
            f'root_key = "{deployment.root_key}"\nlisten = "{devices}"\nstate = "state"\n'
            "requests_per_minute = 100000\n"
            f'[web]\nlisten = "{pages}"\nquestion = "question.html"\n'
            f'[web.enrolment]\npopulation = "{population}"\n'
            f'key = "{deployment.folder / "enrolment" / population}"\n'
            f'codes = "{code_list(deployment, population)}"\n'
        )
        command = ["shuffledp_client.gateway.cli", "--config", str(config)]
        process = LocalProcess("gateway", command, folder / "gateway.log")
        process.start()
        try:
            until_it_answers(f"http://{pages}/healthz")
            yield f"http://{pages}"
            assert process.alive, process.last_words()
        finally:
            process.signal_group(signal.SIGTERM)
            process.wait(10)


def until_it_answers(url: str) -> None:
    """No answer within four minutes is a hang."""
    last = monotonic() + 240
    while True:
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - our own address
                assert answer.status == 200
                return
        except OSError:
            assert monotonic() < last


@pytest.fixture(scope="module")
def browser(pages_at: str) -> Iterator[Browser]:
    """Debian's Chromium; begun after the system, which needs a loop of its own in this thread."""
    assert pages_at
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield started
        started.close()


def aside(work: Coroutine[Any, Any, Any]) -> Any:
    """Runs a coroutine in another thread: the browser's driver has a loop in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result(240)


async def opened(
    system: LocalSystem,
    suite: str,
    mechanism: str = "krr-histogram",
    reports: int = PAGES + DEVICES,
    mix: Mix = Mix.PLAIN,
    **changes: object,
) -> str:
    async with control_of(system.deployment) as control:
        fields = {
            "mechanism": mechanism,
            "size": 4,
            "suite": suite,
            "mix": mix,
            "min_reports": reports,
            "max_reports": reports,
            "open_seconds": 3600.0,
        }
        plan = small_plan(system, **(fields | changes))
        return (await open_round(control, plan)).round_id


def visit(context: BrowserContext, address: str, complaints: list[str]) -> Page:
    page = context.new_page()
    page.set_default_timeout(4 * MINUTE)
    page.on(
        "console",
        lambda message: complaints.append(message.text) if message.type == "error" else None,
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(f"{address}/v1/web/example.html")
    return page


def answer(page: Page, code: str, label: str) -> None:
    """Everything that a person does until the receipt is there."""
    page.get_by_label("Your code").fill(code)
    page.get_by_role("button", name="Use this code").click()
    page.get_by_label(label, exact=True).check()
    page.get_by_role("button", name="Prepare my answer").click()
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_text("Your answer has arrived")).to_be_visible(timeout=4 * MINUTE)


@pytest.mark.parametrize(
    ("suite", "mix"),
    [("hpke-mlkem768-x25519", Mix.PLAIN), ("hpke", Mix.PLAIN), ("hpke", Mix.VERIFIED)],
)
def test_pages_and_python_devices_answer_one_round_and_every_page_finds_its_message(
    browser: Browser,
    running: LocalSystem,
    pages_at: str,
    pool: ProcessPoolExecutor,
    suite: str,
    mix: Mix,
) -> None:
    round_id = aside(opened(running, suite, mix=mix))
    codes = add_codes(running.deployment, PAGES, dt.datetime.now(dt.UTC) + dt.timedelta(days=1))
    complaints: list[str] = []
    contexts = [
        browser.new_context(viewport=PHONE if number % 2 else DESKTOP) for number in range(PAGES)
    ]
    pages = [visit(context, pages_at, complaints) for context in contexts]
    for page, code in zip(pages, codes, strict=True):
        answer(page, code, "Badly")
    aside(submit_some(running, pool, round_id, DEVICES))
    signed: Signed = aside(ended(running, round_id))
    result = verify_from(running.deployment.roster.analyst, signed, Result)
    assert (result.accepted, result.dropped) == (PAGES + DEVICES, 0)
    for page in pages:
        page.get_by_role("button", name="Look for the result").click()
        expect(page.get_by_text(f"{PAGES + DEVICES} people took part")).to_be_visible()
        expect(page.get_by_role("row")).to_have_count(5)
        assert Axe().run(page).violations_count == 0
    assert complaints == []
    for context in contexts:
        context.close()


def one_axis(name: str, unit: str, symbols: SymbolMeaning) -> QuestionWording:
    axis = QuestionAxis(field=name, unit=unit, symbols=symbols)
    return QuestionWording(id=name, text=f"What is your {name}?", axes=(axis,))


SPENT = QuestionAxis(
    field="spent", unit="EUR", symbols=SymbolMagnitudes(step="0.5", parts=2, size=9)
)
MEANS = QuestionAxis(field="means", unit="", symbols=SymbolNames(names=("bike", "train")))


def choose_means(page: Page) -> None:
    page.get_by_label("train").check()
    page.get_by_label("spent (EUR)").fill("3.1")


def choose_two(page: Page) -> None:
    page.get_by_label("train").check()
    page.get_by_label("15–60 min").check()


def type_number(page: Page) -> None:
    page.locator("input[name=value], input[name=field-0]").fill("37")


def type_text(page: Page) -> None:
    page.get_by_label("medicine").fill("Aspirin")


def choose_badly(page: Page) -> None:
    page.get_by_label("Badly", exact=True).check()


@dataclass(frozen=True)
class PlayedRound:
    """A sort of round: what is planned beyond the usual, what a person does, and what is shown."""

    plan: dict[str, object]
    choose: Callable[[Page], None]
    shown: str
    messages: int = 1


def make_worded_round(
    mechanism: str, wording: QuestionWording, choose: Callable[[Page], None], shown: str, sent: int
) -> PlayedRound:
    size = wording.size - (mechanism == "local-laplace")
    plan: dict[str, object] = {"mechanism": mechanism, "size": size, "wording": wording}
    return PlayedRound(plan, choose, shown, sent)


TRAVEL = QuestionWording(
    id="travel",
    text="How do you travel, and how long?",
    axes=(
        MEANS,
        QuestionAxis(
            field="time", unit="min", symbols=SymbolRanges(edges=("0", "15", "60", "inf"))
        ),
    ),
)
SPENDING = QuestionWording(id="spending", text="How much do you spend?", axes=(MEANS, SPENT))
AGES = SymbolRanges(edges=tuple(map(str, range(0, 153, 2))))
LIST = SymbolHashes(salt="5a" * 16, columns=2, bits=4)
BLANKET = {"epsilon_local": 3.0, "epsilon": 2.5}
SORTS = {
    "local-laplace": make_worded_round(
        "local-laplace",
        one_axis("weight", "kg", SymbolScale(start="0", step="0.5", size=101)),
        type_number,
        "Mean kg",
        1,
    ),
    "columns": make_worded_round("node-columns", TRAVEL, choose_two, "time: 15–60 min", 2),
    "tree": make_worded_round(
        "node-tree", one_axis("age", "years", AGES), type_number, "36–38 years", 2
    ),
    "magnitudes": make_worded_round(
        "node-histogram", SPENDING, choose_means, "train, about 3 EUR", 1
    ),
    "open list": make_worded_round(
        "node-columns", one_axis("medicine", "", LIST), type_text, "look them up", 2
    ),
    "blanket and nodes": PlayedRound(
        {"mechanism": "node-histogram", **BLANKET}, choose_badly, "Badly"
    ),
    "verified, blanket and users": PlayedRound(
        {"mechanism": "dummy-histogram", "mix": Mix.VERIFIED, **BLANKET}, choose_badly, "Badly", 0
    ),
}
"""Rounds whose mechanism or words are in a part of the module."""


def test_one_page_takes_part_in_a_round_of_every_sort(
    browser: Browser, running: LocalSystem, pages_at: str, pool: ProcessPoolExecutor
) -> None:
    """With three Python devices in each, to the result; all of its messages are on the board."""
    (code,) = add_codes(running.deployment, 1, dt.datetime.now(dt.UTC) + dt.timedelta(days=1))
    context = browser.new_context(viewport=PHONE)
    complaints: list[str] = []
    for sort, played in SORTS.items():
        changes = {"delta": 1e-5, "suite": "hpke", "reports": 4, **played.plan}
        round_id = aside(opened(running, **changes))  # type: ignore[arg-type]
        page = visit(context, pages_at, complaints)
        asked = page.get_by_role("button", name="Prepare my answer")
        if sort == next(iter(SORTS)):
            page.get_by_label("Your code").fill(code)
            page.get_by_role("button", name="Use this code").click()
        expect(asked).to_be_visible(timeout=MINUTE)
        played.choose(page)
        asked.click()
        page.get_by_role("button", name="Send").click()
        expect(page.get_by_text("Your answer has arrived")).to_be_visible(timeout=4 * MINUTE)
        aside(submit_some(running, pool, round_id, 3))
        signed: Signed = aside(ended(running, round_id))
        result = verify_from(running.deployment.roster.analyst, signed, Result)
        assert (result.accepted, result.dropped) == (4, 0)
        page.get_by_role("button", name="Look for the result").click()
        sent = "Your message is" if played.messages == 1 else f"Your {played.messages or ''}"
        expect(page.get_by_text(f"4 people took part. {sent}")).to_be_visible(timeout=MINUTE)
        named = page.get_by_role("cell", name=played.shown, exact=True)
        told = page.get_by_role("paragraph").filter(has_text=played.shown)
        expect(named.or_(told)).to_be_visible()
        assert Axe().run(page).violations_count == 0
        page.close()
    assert complaints == []
    context.close()


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mix", [Mix.PLAIN, Mix.VERIFIED])
def test_fifty_browsers_and_five_hundred_devices_lose_nothing_among_noise_of_nodes(
    browser: Browser, running: LocalSystem, pages_at: str, pool: ProcessPoolExecutor, mix: Mix
) -> None:
    """With the mechanism of `shuffledp demo`; every page finds its message and the answer."""
    everyone = MANY_PAGES + MANY_DEVICES
    round_id = aside(opened(running, "hpke", "node-histogram", everyone, mix))
    tomorrow = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)
    complaints: list[str] = []
    pages = []
    for code in add_codes(running.deployment, MANY_PAGES, tomorrow):
        pages.append(visit(browser.new_context(viewport=PHONE), pages_at, complaints))
        answer(pages[-1], code, "Badly")
    aside(submit_some(running, pool, round_id, MANY_DEVICES))
    signed: Signed = aside(ended(running, round_id))
    result = verify_from(running.deployment.roster.analyst, signed, Result)
    assert (result.accepted, result.dropped) == (everyone, 0)
    assert result.messages > everyone
    for page in pages:
        page.get_by_role("button", name="Look for the result").click()
        expect(page.get_by_text(f"{everyone} people took part. Your message is")).to_be_visible()
        page.context.close()
    assert complaints == []


def test_a_page_of_another_server_runs_the_pinned_module_only(
    browser: Browser, pages_at: str
) -> None:
    """With its digest as `integrity` the browser runs the module; with another it does not."""
    context = browser.new_context()
    good = integrity_of(MODULE)
    flipped = good[:-5] + ("A" if good[-5] != "A" else "B") + good[-4:]
    outcomes = []
    for integrity in (good, flipped):
        page = context.new_page()
        page.goto(f"{pages_at}/healthz")
        outcomes.append(
            page.evaluate(
                """async ([url, integrity]) => new Promise((resolve) => {
                    const script = document.createElement('script');
                    Object.assign(script, {type: 'module', src: url, integrity});
                    script.onload = () => resolve('run');
                    script.onerror = () => resolve('refused');
                    document.head.append(script);
                })""",
                [f"{pages_at}/v1/web/{MODULE}", integrity],
            )
        )
    assert outcomes == ["run", "refused"]
    context.close()
