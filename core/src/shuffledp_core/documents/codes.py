"""One-time codes that a browser exchanges for a credential, and the list of their digests."""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from typing import Final

from shuffledp_core.errors import ConfigError
from shuffledp_core.vocabulary import PROTOCOL

CODE_BYTES: Final = 10
"""80 random bits: guessing 2^20 codes a second for a year finds one of a million with probability
below 2^-14.
"""

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_LABEL: Final = f"{PROTOCOL}/enrolment-code\0".encode()


def make_code() -> str:
    """A fresh code, in groups of four letters and digits."""
    text = base64.b32encode(secrets.token_bytes(CODE_BYTES)).decode()
    return "-".join(text[start : start + 4] for start in range(0, len(text), 4))


def code_digest(code: str) -> str:
    """The digest under which a code is listed; capitals, hyphens and spaces do not matter."""
    letters = "".join(code.upper().replace("-", " ").split())
    return hashlib.sha256(_LABEL + letters.encode(errors="replace")).hexdigest()


def parse_code_list(data: bytes) -> dict[str, int]:
    """Digests of codes, and when each expires (ms since 1970); lines of "DIGEST MILLISECONDS".

    Raises `ConfigError` for anything else.
    """
    codes = {}
    for number, line in enumerate(data.decode(errors="replace").splitlines(), start=1):
        digest, _, expires = line.partition(" ")
        if not _DIGEST.fullmatch(digest) or not (expires.isascii() and expires.isdecimal()):
            raise ConfigError(
                f"line {number} of the list of codes is not of the form DIGEST MILLISECONDS"
            )
        codes[digest] = int(expires)
    return codes
