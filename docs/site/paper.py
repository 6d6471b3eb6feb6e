"""Print pages of the built site with Chromium.

Run `python docs/site/paper.py out/site/labs out/handouts --course "Security 2026"`.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import shutil
import sys
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from playwright.sync_api import PdfMargins


MARGINS: Final[PdfMargins] = {"top": "17mm", "bottom": "20mm", "left": "17mm", "right": "17mm"}


def footer(course: str, date: str) -> str:
    """HTML of the footer of every sheet: course, title, page number, and date.

    Chromium fills in elements of the classes title, pageNumber and totalPages.
    """
    parts = (
        escape(course),
        '<span class="title"></span>',
        'page <span class="pageNumber"></span> of <span class="totalPages"></span>',
        escape(date),
    )
    cells = "".join(f"<span>{part}</span>" for part in parts)
    style = (
        "width:100%;margin:0 17mm;display:flex;justify-content:space-between;font:8px sans-serif"
    )
    return f'<div style="{style}">{cells}</div>'


def print_pages(folder: Path, out: Path, chromium: str, foot: str) -> list[Path]:
    """A PDF of A4 sheets for each page of a folder of the site."""
    from playwright.sync_api import sync_playwright

    out.mkdir(parents=True, exist_ok=True)
    papers = []
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []  # root cannot have Chromium's sandbox
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        for page in sorted(folder.glob("*.html")):
            sheet = browser.new_page(color_scheme="light")
            sheet.goto(page.resolve().as_uri(), wait_until="networkidle")
            papers.append(out / f"{page.stem}.pdf")
            sheet.pdf(
                path=papers[-1],
                format="A4",
                margin=MARGINS,
                display_header_footer=True,
                header_template="<span></span>",
                footer_template=foot,
            )
            sheet.close()
        browser.close()
    return papers


def main() -> None:
    """Print the pages of a folder, and name the files that were written."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", type=Path, help="Folder of built pages.")
    parser.add_argument("out", type=Path, help="Folder of the PDFs.")
    parser.add_argument("--course", default="", help="Name of the course.")
    parser.add_argument("--date", default="", help="Date of the handout; default: today.")
    options = parser.parse_args()
    program = shutil.which("chromium")
    if program is None:
        sys.exit("handouts are printed by Chromium, which is not here: apt-get install chromium")
    date = options.date or dt.datetime.now(dt.UTC).date().isoformat()
    for pdf in print_pages(options.pages, options.out, program, footer(options.course, date)):
        sys.stdout.write(f"{pdf}\n")


if __name__ == "__main__":
    main()
