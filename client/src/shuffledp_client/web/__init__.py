"""The device for web pages: one ES module, an element that asks a question, and an example page.

Pages load the module in its small form, which `build.py` makes of the source. docs/how-to/web.md,
docs/reference/devices.md.
"""

from __future__ import annotations

import base64
import hashlib
from importlib import resources
from typing import Final

MODULE: Final = "shuffledp.min.js"
SOURCE: Final = "shuffledp.js"
"""The readable module, from which `MODULE` is built; it works as well."""
WIDGET: Final = "shuffledp-question.js"
RECORD: Final = "shuffledp-record.js"
"""Answers from records; beside the module, as most pages have none."""
EXAMPLE: Final = "example.html"


def read_web_file(name: str) -> bytes:
    """The bytes of one of this package's files."""
    return (resources.files(__package__) / name).read_bytes()


def integrity_of(name: str) -> str:
    """The value of `integrity` by which a page pins a file (subresource integrity)."""
    digest = hashlib.sha384(read_web_file(name)).digest()
    return f"sha384-{base64.b64encode(digest).decode()}"
