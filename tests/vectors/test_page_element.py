"""The element <shuffledp-question> in Debian's Chromium, from a code to the result."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from browser_pages import CHROMIUM, NO_CHROMIUM, running_chromium
from client_rounds import NOW, make_certificate
from page_world import ASKED, CODE, PageGateway
from playwright.sync_api import Browser, Page, ViewportSize, expect
from wording_vectors import MINUTES

from shuffledp_client.http_api import problem_of
from shuffledp_core.documents.signed import to_json
from shuffledp_core.documents.wording import QuestionAxis, QuestionWording, SymbolNames
from shuffledp_core.errors import UnknownRoundError

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM)

PHONE: ViewportSize = {"width": 390, "height": 844}
DESKTOP: ViewportSize = {"width": 1100, "height": 900}
MINUTE = 60_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_chromium() as running:
        yield running


def check_page(page: Page) -> None:
    """Nothing is wider than the page, and axe finds nothing."""
    widths = page.evaluate("() => [document.documentElement.scrollWidth, innerWidth]")
    assert widths[0] <= widths[1]
    report = Axe().run(page)
    assert report.violations_count == 0, report.generate_report()


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_a_person_enrols_answers_and_sees_the_result(browser: Browser, size: ViewportSize) -> None:
    gateway = PageGateway()
    context = browser.new_context(viewport=size)
    context.clock.set_fixed_time(NOW / 1000)
    gateway.serve(context)
    page = context.new_page()
    page.set_default_timeout(MINUTE)
    page.goto("http://localhost/question")
    page.get_by_label("Your code").fill(CODE)
    check_page(page)
    page.get_by_role("button", name="Use this code").click()
    page.get_by_label("Badly").check()
    guarantee = page.locator(".guarantee p")
    expect(guarantee).to_have_count(2)
    expect(guarantee.first).to_contain_text("90 of 100 answers are honest people's")
    expect(guarantee.last).to_contain_text("your device's own noise")
    check_page(page)
    page.get_by_role("button", name="Prepare my answer").click()
    shown = page.locator("pre").inner_text()
    check_page(page)
    assert gateway.bodies == []
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_text("Your answer has arrived")).to_be_visible()
    assert gateway.bodies == [shown.encode()]
    assert set(json.loads(shown)) == {"credential", "claim", "envelope"}
    # Another visit finds it there, and no second answer is asked for.
    page.reload()
    look = page.get_by_role("button", name="Look for the result")
    look.click()
    expect(page.get_by_text("the round has not ended yet")).to_be_visible()
    gateway.end()
    look.click()
    expect(page.get_by_text("1 person took part. Your message is")).to_be_visible()
    expect(page.get_by_role("row")).to_have_count(5)
    check_page(page)
    page.reload()
    expect(page.get_by_text("You have answered this question")).to_be_visible()
    context.close()


def test_a_question_in_words_takes_the_place_of_the_pages_own(browser: Browser) -> None:
    gateway = PageGateway(wording=MINUTES)
    context = browser.new_context(viewport=PHONE)
    context.clock.set_fixed_time(NOW / 1000)
    gateway.serve(context)
    page = context.new_page()
    page.set_default_timeout(MINUTE)
    page.goto("http://localhost/question")
    page.get_by_label("Your code").fill(CODE)
    page.get_by_role("button", name="Use this code").click()
    expect(page.get_by_text("How many minutes did you use the app today?")).to_be_visible()
    expect(page.get_by_text("Question minutes-used: minutes_used (min)")).to_be_visible()
    expect(page.get_by_role("radio")).to_have_count(4)
    page.get_by_label("60 or more min").check()
    check_page(page)
    page.get_by_role("button", name="Prepare my answer").click()
    expect(page.get_by_text("the sealed answer says: ")).to_contain_text(" min")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_text("Your answer has arrived")).to_be_visible()
    look = page.get_by_role("button", name="Look for the result")
    draft = gateway.draft
    wordless = make_certificate(draft.deployment, ASKED, stage="final", users=1, route=draft.route)
    gateway.end(final_certificate=draft.signed_by("accountant", wordless))
    look.click()
    expect(page.get_by_role("status")).to_contain_text("is for another question")
    check_page(page)
    gateway.end()
    look.click()
    expect(page.get_by_role("row", name="60 or more min")).to_be_visible()
    check_page(page)
    context.close()


def test_a_page_that_is_opened_before_the_round_can_look_again(browser: Browser) -> None:
    gateway = PageGateway()
    problem = problem_of(UnknownRoundError("no round is open"))
    gateway.lies["announcement"] = lambda _: (404, "application/problem+json", to_json(problem))
    context = browser.new_context(viewport=PHONE)
    context.clock.set_fixed_time(NOW / 1000)
    gateway.serve(context)
    page = context.new_page()
    page.set_default_timeout(MINUTE)
    page.goto("http://localhost/question")
    page.get_by_label("Your code").fill(CODE)
    page.get_by_role("button", name="Use this code").click()
    expect(page.get_by_text("There is no question at the moment")).to_be_visible()
    check_page(page)
    look = page.get_by_role("button", name="Look again")
    look.click()
    expect(page.get_by_text("There is no question at the moment")).to_be_visible()
    gateway.lies.clear()
    look.click()
    expect(page.get_by_label("Badly")).to_be_visible()
    expect(page.get_by_role("status")).to_be_empty()
    context.close()


def test_words_without_spaces_stay_within_a_phone(browser: Browser) -> None:
    """The longest words that a certificate can have."""
    names = SymbolNames(names=tuple(letter * 100 for letter in "abcd"))
    axis = QuestionAxis(field="f" * 100, unit="u" * 32, symbols=names)
    gateway = PageGateway(wording=QuestionWording(id="i" * 64, text="t" * 300, axes=(axis,)))
    context = browser.new_context(viewport=PHONE)
    context.clock.set_fixed_time(NOW / 1000)
    gateway.serve(context)
    page = context.new_page()
    page.set_default_timeout(MINUTE)
    page.goto("http://localhost/question")
    page.get_by_label("Your code").fill(CODE)
    page.get_by_role("button", name="Use this code").click()
    page.get_by_label("a" * 100).check()
    check_page(page)
    page.get_by_role("button", name="Prepare my answer").click()
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_text("Your answer has arrived")).to_be_visible()
    gateway.end()
    page.get_by_role("button", name="Look for the result").click()
    expect(page.get_by_role("row")).to_have_count(5)
    check_page(page)
    context.close()


def test_a_wrong_code_and_a_round_beyond_the_policy_are_said_in_words(browser: Browser) -> None:
    gateway = PageGateway()
    context = browser.new_context(viewport=PHONE)
    context.clock.set_fixed_time(NOW / 1000)
    gateway.serve(context)
    page = context.new_page()
    page.set_default_timeout(MINUTE)
    page.goto("http://localhost/question")
    page.get_by_label("Your code").fill("WRONG")
    page.get_by_role("button", name="Use this code").click()
    expect(page.get_by_role("status")).to_contain_text("AccessDenied")
    page.get_by_label("Your code").fill(CODE)
    page.get_by_role("button", name="Use this code").click()
    expect(page.get_by_label("Badly")).to_be_visible()
    page.evaluate("""() => {
        const asked = document.querySelector('shuffledp-question');
        const stricter = asked.cloneNode(true);
        stricter.setAttribute('policy', '{"epsilon": 0.1, "delta": 1e-6, "epsilon_corrupted": 1}');
        asked.replaceWith(stricter);
    }""")
    expect(page.get_by_role("status")).to_contain_text("your policy does not allow this round")
    assert gateway.bodies == []
    context.close()
