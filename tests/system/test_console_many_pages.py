"""More pages of a console in one browser than it has connections to one address."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest
import uvicorn
from playwright.sync_api import Page, expect, sync_playwright

from shuffledp_ops.console.guards import LOOPBACK
from shuffledp_ops.console.saved import SavedRounds
from shuffledp_ops.console.web import Pages, application

CHROMIUM = shutil.which("chromium")
MINUTE = 60_000
CONNECTIONS = 6
"""That browsers make to one address."""

HIDDEN = "Object.defineProperty(Document.prototype, 'hidden', { get: () => window.away === true })"
"""Without a screen, every page says that it is looked at."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Debian's chromium is not installed"),
]


@contextmanager
def served(saved: SavedRounds) -> Iterator[str]:
    """The pages of saved rounds, from a thread; their address."""
    app = application(Pages(saved), [], LOOPBACK, tls=False)
    server = uvicorn.Server(
        uvicorn.Config(app, lifespan="off", log_config=None, timeout_graceful_shutdown=1)
    )
    with socket.create_server(
        ("127.0.0.1", 0)
    ) as listening:  # who comes before the thread is ready waits
        thread = Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
        finally:
            server.should_exit = True
            thread.join()


def looked_at(page: Page, *, yes: bool) -> None:
    page.evaluate(
        "yes => { window.away = !yes; document.dispatchEvent(new Event('visibilitychange')) }", yes
    )


def leave(folder: Path, number: int) -> None:
    """A folder as of a round, which cannot be read."""
    (folder / f"{number:032x}").mkdir()
    (folder / f"{number:032x}" / "result.json").write_text("{}")


def test_pages_that_nobody_looks_at_leave_their_connections_to_the_others(tmp_path: Path) -> None:
    leave(tmp_path, 1)
    saved = SavedRounds(tmp_path)
    saved.look()
    with served(saved) as address, sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        context = browser.new_context()
        context.add_init_script(HIDDEN)
        pages = []
        for _ in range(CONNECTIONS + 2):
            page = context.new_page()
            page.goto(address, timeout=MINUTE)
            expect(page.locator("#state")).to_have_text("live", timeout=MINUTE)
            looked_at(page, yes=False)
            pages.append(page)
        leave(tmp_path, 2)
        saved.look()  # nobody waits for it: no page has a stream
        looked_at(pages[0], yes=True)
        expect(pages[0].locator("#rounds tbody tr")).to_have_count(2, timeout=MINUTE)
        expect(pages[1].locator("#rounds tbody tr")).to_have_count(1)
        browser.close()
