"""The overlay `web` as docs/how-to/web.md has people use it, from a code to the result.

The person is Debian's Chromium. About 60 s.
"""

from __future__ import annotations

import os
import shutil

import pytest
from composed import REPOSITORY, START_SECONDS, USERS, WITH_PAGES, Composed, until
from playwright.sync_api import Page, expect, sync_playwright

CHROMIUM = shutil.which("chromium")
SCREENSHOTS = REPOSITORY / "out" / "browser"
GUIDE = (REPOSITORY / "docs" / "how-to" / "web.md").read_text()

pytestmark = [
    pytest.mark.docker,
    pytest.mark.skipif(CHROMIUM is None, reason="Debian's chromium is not installed"),
    pytest.mark.skipif(not WITH_PAGES, reason="for a schedule: NIGHTLY=1 make test-docker"),
]


def is_asked(page: Page) -> bool:
    """Look again for a question; True once there is one."""
    look = page.get_by_role("button", name="Look again")
    choice = page.get_by_label("Badly", exact=True)
    expect(look.or_(choice)).to_be_enabled()
    if choice.is_visible():
        return True
    look.click()
    return False


def test_a_person_answers_on_a_page_and_finds_the_message_on_the_board(
    deployment: Composed,
) -> None:
    for line in ("make up OVERLAYS=web", "run --rm codes", "make question OVERLAYS=web"):
        assert line in GUIDE
    deployment.until_healthy("proxy")
    (code,) = deployment.compose("run", "--rm", "-T", "codes").split()
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with (
        sync_playwright() as playwright,
        deployment.making("question", MAX_VALUE="2") as question,
    ):
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        # The certificate was made for this machine, and the page tells people to continue.
        page = browser.new_page(ignore_https_errors=True, viewport={"width": 390, "height": 844})
        page.set_default_timeout(START_SECONDS * 1000)
        expect.set_options(timeout=START_SECONDS * 1000)
        page.goto(f"https://localhost:{deployment.environment['PAGES_PORT']}/v1/web/example.html")
        page.get_by_label("Your code").fill(code)
        page.get_by_role("button", name="Use this code").click()
        until(lambda: is_asked(page), "the page asks")
        page.get_by_label("Badly", exact=True).check()
        page.get_by_role("button", name="Prepare my answer").click()
        page.get_by_role("button", name="Send").click()
        expect(page.get_by_text("Your answer has arrived")).to_be_visible()
        _, errors = question.communicate(timeout=START_SECONDS)
        assert question.returncode == 0, errors
        page.get_by_role("button", name="Look for the result").click()
        expect(page.get_by_text(f"{USERS + 1} people took part. Your message is")).to_be_visible()
        page.screenshot(path=SCREENSHOTS / "question.png", full_page=True)
        browser.close()
