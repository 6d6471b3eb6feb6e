"""A page in Debian's Chromium that has the module of a page's device, and answers test vectors."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser, Page, Route, sync_playwright

from shuffledp_client.web import MODULE, RECORD, read_web_file

CHROMIUM: Final = shutil.which("chromium")
NO_CHROMIUM: Final = "Debian's chromium is not installed"
ANSWERS: Final = Path(__file__).with_name("answers.js")
ASK: Final = """async cases => {
    const {answer} = await import('/answers.js');
    const answers = [];
    for (const one of cases) answers.push(await answer(one));
    return answers;
}"""


@contextmanager
def running_chromium() -> Iterator[Browser]:
    """Debian's Chromium, headless; one in a process at a time."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def module_page(browser: Browser, module: str, record: str | None = None) -> Iterator[Page]:
    """A page of a secure context, without any network, with this text as the module.

    `record` is the text of the file for records; None for the package's own.
    """
    served = {
        f"/{MODULE}": module,
        f"/{RECORD}": read_web_file(RECORD).decode() if record is None else record,
        "/answers.js": ANSWERS.read_text(encoding="utf-8"),
    }

    def fulfill(route: Route) -> None:
        path = route.request.url.removeprefix("http://localhost")
        if path in served:
            route.fulfill(body=served[path], content_type="text/javascript")
        else:
            route.fulfill(body="<!doctype html><title>Vectors</title>", content_type="text/html")

    context = browser.new_context()
    try:
        page = context.new_page()
        page.route("**/*", fulfill)
        page.goto("http://localhost/")
        yield page
    finally:
        context.close()


def ask(page: Page, cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The module's answers to cases."""
    answers: list[dict[str, Any]] = page.evaluate(ASK, cases)
    return answers
