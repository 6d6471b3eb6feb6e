"""Check that no page of the site loads anything from elsewhere.

Run `python docs/site/offline.py FOLDER`.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Final

_LOADING: Final = {
    "audio",
    "embed",
    "iframe",
    "image",
    "img",
    "input",
    "link",
    "object",
    "script",
    "source",
    "use",
    "video",
}
"""References that a browser fetches by itself; links that a reader follows are not among them."""

_ELSEWHERE: Final = re.compile(r"\s*(https?:)?//", flags=re.IGNORECASE)
_IN_STYLE: Final = re.compile(
    r"""(?:url\(\s*|@import\s+)["']?(?:https?:)?//""", flags=re.IGNORECASE
)


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note every address outside the site that the tag would load."""
        for name, value in attrs:
            if value and name == "style" and _IN_STYLE.search(value):
                self.loaded.append(value)
            if (
                tag in _LOADING
                and name in {"data", "href", "poster", "src", "srcset", "xlink:href"}
                and value
            ):
                self.loaded += [value] if _ELSEWHERE.match(value) else []


def from_elsewhere(folder: Path) -> list[str]:
    """One line for each outside address that a page or style sheet would load."""
    loads = []
    for file in sorted(folder.rglob("*.html")):
        page = _Page()
        page.feed(file.read_text())
        loads += [f"{file} loads {address}" for address in page.loaded]
    return loads + [
        f"{file} loads what is elsewhere"
        for file in folder.rglob("*.css")
        if _IN_STYLE.search(file.read_text())
    ]


if __name__ == "__main__":
    (site,) = sys.argv[1:]
    loaded = from_elsewhere(Path(site))
    sys.exit("\n".join(loaded) or 0)
