"""What a page's device remembers of the public log, in Debian's Chromium; docs/log.md."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import msgspec
import pytest
from browser_pages import CHROMIUM, NO_CHROMIUM, running_chromium
from client_rounds import POPULATION, ROUND_ID
from log_vectors import LogDraft, log_terms, witnessed_roster
from page_world import CODE, PageGateway, attempt, open_device
from playwright.sync_api import Browser, BrowserContext, Page
from vector_world import make_roster

from shuffledp_core.documents.digests import document_digest
from shuffledp_core.documents.models import EndedLog
from shuffledp_core.documents.signed import to_json
from shuffledp_core.transparency.entries import result_entry

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM)

CHECK = f"(await device.check('{ROUND_ID}')).found"
SIZE = "Number((await device.question()).log.size)"
KEPT = """async () => {
    const opening = indexedDB.open('shuffledp');
    await new Promise((resolve) => { opening.onsuccess = resolve; });
    const settings = opening.result.transaction('settings').objectStore('settings');
    const names = settings.getAllKeys();
    await new Promise((resolve) => { names.onsuccess = resolve; });
    return names.result.filter((name) => name.startsWith('log ')).map((name) => name.slice(69));
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_chromium() as running:
        yield running


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A browser profile of its own."""
    opened = browser.new_context()
    yield opened
    opened.close()


def witnessed(context: BrowserContext) -> tuple[PageGateway, LogDraft]:
    """A gateway whose roster has witnesses, and a log with the round that it announces."""
    roster = witnessed_roster()
    gateway = PageGateway(roster=roster)
    gateway.serve(context)
    return gateway, LogDraft(gateway.draft.signed_certificate(), roster, size=51, index=50)


def show(gateway: PageGateway, log: LogDraft, page: Page) -> int | str:
    """The size of the log that a page believes in, or why it refuses."""
    announced = msgspec.structs.replace(gateway.draft.announcement(), log=log.text())
    gateway.announcement = to_json(announced)
    answer: int | str = attempt(page, SIZE)
    return answer


def test_a_page_remembers_the_log_and_refuses_another_history_in_every_tab(
    context: BrowserContext,
) -> None:
    gateway, log = witnessed(context)
    page = open_device(context)
    assert show(gateway, replace(log, size=90), page) == 90
    # An earlier state of the same log, as caches give it, does not take the place of the newest.
    assert show(gateway, log, page) == 51
    assert page.evaluate(KEPT) == ["demo"]
    page.close()
    again = open_device(context)
    for size in (51, 90, 91):
        fork = replace(log, size=size, history="fork")
        assert show(gateway, fork, again) == "LogProofError"
    assert again.evaluate(KEPT) == ["demo", "demo conflict"]
    assert show(gateway, replace(log, size=100), again) == 100


def test_a_page_takes_part_in_no_round_without_enough_witnesses(context: BrowserContext) -> None:
    gateway, log = witnessed(context)
    page = open_device(context)
    assert attempt(page, SIZE) == "LogProofError"
    assert show(gateway, replace(log, witnesses=("witness-1",)), page) == "LogProofError"
    assert show(gateway, log, page) == 51


def test_a_page_follows_the_log_that_the_root_has_ended(context: BrowserContext) -> None:
    gateway, log = witnessed(context)
    page = open_device(context)
    assert show(gateway, log, page) == 51
    root = log.tree().root().hex()
    for serial, ended, expected in (
        (4, EndedLog(size=50, root=root), "LogProofError"),
        (5, EndedLog(size=51, root=root), 3),
    ):
        gateway.roster = make_roster(serial=serial, log=log_terms(ended=(ended,)))
        following = replace(log, roster=gateway.roster, size=3, index=1)
        assert show(gateway, following, open_device(context)) == expected


def test_a_page_believes_no_result_but_the_one_in_the_log(context: BrowserContext) -> None:
    gateway, log = witnessed(context)
    page = open_device(context)
    attempt(page, f"device.enrol('{CODE}')")
    assert show(gateway, log, page) == 51
    assert attempt(page, "device.answer(await device.question(), 2)")["messages"] == 1
    gateway.end()
    assert gateway.result is not None
    entry = result_entry(POPULATION, ROUND_ID, document_digest(gateway.result)).to_bytes()
    logged = replace(log, size=60, last=entry)
    for lie in (
        None,  # no proof
        log,  # of the round's reservation
        replace(logged, last=entry.replace(b"published", b"reserved")),
        replace(logged, witnesses=("witness-1",)),
        replace(logged, history="fork"),
    ):
        gateway.log = msgspec.UNSET if lie is None else lie.text()
        assert attempt(page, CHECK) == "LogProofError"
    gateway.log = logged.text()
    assert attempt(page, CHECK) == 1
    assert show(gateway, replace(log, size=55), page) == 55  # the newer one is remembered
    assert show(gateway, replace(log, size=60), page) == "LogProofError"


@pytest.mark.parametrize(
    ("named", "expected"), [("ab" * 32, "FalseResultError"), (None, "MalformedDocumentError")]
)
def test_a_page_believes_no_result_of_another_manifest_than_it_answered_under(
    context: BrowserContext, named: str | None, expected: str
) -> None:
    gateway, log = witnessed(context)
    page = open_device(context)
    attempt(page, f"device.enrol('{CODE}')")
    assert show(gateway, log, page) == 51
    assert attempt(page, "device.answer(await device.question(), 2)")["messages"] == 1
    gateway.end(manifest_digest=named or msgspec.UNSET)
    assert gateway.result is not None
    entry = result_entry(POPULATION, ROUND_ID, document_digest(gateway.result)).to_bytes()
    gateway.log = replace(log, size=60, last=entry).text()
    assert attempt(page, CHECK) == expected
