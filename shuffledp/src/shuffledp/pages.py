"""Self-contained HTML pages, which load and run nothing and escape all foreign text.

Pure.
"""

from __future__ import annotations

import base64
import hashlib
from html import escape
from importlib.resources import files
from typing import Final

LONGEST: Final = 2000
"""Characters of a text of someone else's on a page."""


def as_html(text: object) -> str:
    """Escape a text for an HTML element or quoted attribute: printable, of bounded length.

    Marks that turn the direction of writing are not printable: they could make a name look like
    another.
    """
    words = str(text)
    words = words if len(words) <= LONGEST else words[: LONGEST - 1] + "…"
    return escape("".join(letter if letter.isprintable() else "�" for letter in words))


def self_contained(title: str, style: str, body: str, policy: str = "") -> str:
    """A whole page with a policy that forbids scripts, requests, forms and other styles.

    Args:
        title: any text.
        style: what the page adds to the style that all pages share: colours for light and dark, and
            for paper.
        body: HTML; all texts of others in it are `as_html`.
        policy: further directives of the Content-Security-Policy, for what this page has besides.
    """
    sheet = files("shuffledp").joinpath("data", "page.css").read_text(encoding="utf-8") + style
    digest = base64.b64encode(hashlib.sha256(sheet.encode()).digest()).decode()
    rules = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return _PAGE.format(
        title=as_html(title), policy=escape(rules + policy, quote=False), style=sheet, body=body
    )


_PAGE: Final = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
{body}
</body>
</html>
"""
