"""The device for web pages: an ES module, its parts, an element, and an example page.

Pages load the module in its small form, which `build.py` makes of the source. The module loads a
part when a round needs it, under the digest that `build.py` writes into the module.
docs/how-to/web.md, docs/reference/devices.md.
"""

from __future__ import annotations

import base64
import hashlib
from importlib import resources
from typing import Final

MODULE: Final = "shuffledp.min.js"
SOURCE: Final = "shuffledp.js"
"""The readable module, from which `MODULE` is built; it works as well."""
PARTS: Final = {
    "shuffledp-log.min.js": "shuffledp-log.js",
    "shuffledp-mechanisms.min.js": "shuffledp-mechanisms.js",
    "shuffledp-verified.min.js": "shuffledp-verified.js",
}
"""What the module loads only where a round needs it, each with its source."""
WIDGET: Final = "shuffledp-question.js"
RECORD: Final = "shuffledp-record.js"
"""Answers from records; beside the module, as most pages have none."""
EXAMPLE: Final = "example.html"
SCRIPTS: Final = (MODULE, *PARTS, WIDGET, RECORD, SOURCE, *PARTS.values())
"""Every file of JavaScript, as a page's own server has to serve it."""


def read_web_file(name: str) -> bytes:
    """The bytes of one of this package's files."""
    return (resources.files(__package__) / name).read_bytes()


def integrity_of(name: str) -> str:
    """The value of `integrity` with which a page pins a file (subresource integrity)."""
    return integrity(read_web_file(name))


def integrity(data: bytes) -> str:
    """The value of `integrity` for a file with this content."""
    return f"sha384-{base64.b64encode(hashlib.sha384(data).digest()).decode()}"
