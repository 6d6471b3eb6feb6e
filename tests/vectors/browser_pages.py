"""A page in Debian's Chromium that has the module of a page's device, and answers test vectors."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser, Page, Route, sync_playwright

from shuffledp_client.web import SCRIPTS, read_web_file

CHROMIUM: Final = shutil.which("chromium")
NO_CHROMIUM: Final = "Debian's chromium is not installed"
ANSWERS: Final = Path(__file__).with_name("answers.js")
ASK: Final = """async ([folder, cases]) => {
    const {answer} = await import(`${folder}/answers.js`);
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


class VectorPage:
    """A page of a secure context, without any network, that runs modules of a device.

    A module is a folder of its own on the page's server, so that the page imports each by itself:
    another page would cost more than all answers.
    """

    def __init__(self, page: Page) -> None:
        self._page = page
        self._served: dict[str, str] = {}
        page.route("**/*", self._fulfill)
        page.goto("http://localhost/")

    def serve(self, changed: Mapping[str, str] | None = None) -> str:
        """Serve the package's files, some of them changed; return the folder for `ask`."""
        folder = f"/{len(self._served)}"
        files = {name: read_web_file(name).decode() for name in SCRIPTS} | dict(changed or {})
        self._served |= {f"{folder}/{name}": text for name, text in files.items()}
        self._served[f"{folder}/answers.js"] = ANSWERS.read_text(encoding="utf-8")
        return folder

    def ask(self, folder: str, cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The answers of the module in this folder."""
        answers: list[dict[str, Any]] = self._page.evaluate(ASK, [folder, cases])
        return answers

    def _fulfill(self, route: Route) -> None:
        text = self._served.get(route.request.url.removeprefix("http://localhost"))
        if text is None:
            route.fulfill(body="<!doctype html><title>Vectors</title>", content_type="text/html")
        else:
            route.fulfill(body=text, content_type="text/javascript")


@contextmanager
def vector_page(browser: Browser) -> Iterator[VectorPage]:
    """A page with a profile of its own."""
    context = browser.new_context()
    try:
        yield VectorPage(context.new_page())
    finally:
        context.close()
