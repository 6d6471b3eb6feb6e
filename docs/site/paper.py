"""Print pages of the built site with Chromium.

Run `python docs/site/paper.py out/site/labs out/handouts`.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from playwright.sync_api import PdfMargins


MARGINS: Final[PdfMargins] = {"top": "17mm", "bottom": "17mm", "left": "17mm", "right": "17mm"}


def print_pages(folder: Path, out: Path, chromium: str) -> list[Path]:
    """A PDF of A4 sheets for each page of a folder of the site."""
    from playwright.sync_api import sync_playwright

    out.mkdir(parents=True, exist_ok=True)
    made = []
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []  # root cannot have Chromium's sandbox
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        for page in sorted(folder.glob("*.html")):
            sheet = browser.new_page(color_scheme="light")
            sheet.goto(page.resolve().as_uri(), wait_until="networkidle")
            made.append(out / f"{page.stem}.pdf")
            sheet.pdf(path=made[-1], format="A4", margin=MARGINS)
            sheet.close()
        browser.close()
    return made


if __name__ == "__main__":
    pages, papers = sys.argv[1:]
    program = shutil.which("chromium")
    if program is None:
        sys.exit("handouts are printed by Chromium, which is not here: apt-get install chromium")
    for paper in print_pages(Path(pages), Path(papers), program):
        sys.stdout.write(f"{paper}\n")
