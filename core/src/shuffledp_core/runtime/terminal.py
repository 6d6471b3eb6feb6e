"""Output of command lines: text for terminals that lack its letters, and a last error line."""

from __future__ import annotations

import codecs
import contextlib
import io
import sys
import unicodedata
from typing import Final

_PLAIN: Final = {
    "ε": "eps", "δ": "delta", "σ": "sigma", "λ": "lambda", "Σ": "sum", "±": "+/-", "≤": "<=",
    "≥": ">=", "∞": "inf",
    "–": "-", "—": "-", "…": "...", "×": "x", "·": ".", "•": "*", "✓": "ok", "µ": "u", "μ": "u",
    "→": "->", "²": "^2",
    "“": '"', "”": '"', "‘": "'", "’": "'",
}  # fmt: skip
"""Letters and signs of the field in ASCII."""

_HANDLER: Final = "shuffledp-plain"


def _plain(error: UnicodeError) -> tuple[str, int]:
    """Encoding error handler that writes symbols as ASCII words, and letters without accents."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(_letter, error.object[error.start : error.end])), error.end


def _letter(letter: str) -> str:
    if letter in _PLAIN:
        return _PLAIN[letter]
    if "─" <= letter <= "╿":  # box drawing
        return {"─": "-", "━": "-", "═": "=", "│": "|", "┃": "|", "║": "|"}.get(letter, "+")
    bare = unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode()
    return bare or "?"


def prepare_terminal() -> None:
    """Makes standard output and error accept every text, whatever their encoding."""
    codecs.register_error(_HANDLER, _plain)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not stream.encoding.lower().startswith("utf"):
            stream.reconfigure(errors=_HANDLER)


def say_error(line: str) -> None:
    """Write a last line to standard error, if the terminal still takes it."""
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


def explain(error: OSError) -> str:
    """Description of an error of the operating system, with the file it is about."""
    reason = error.strerror or str(error) or type(error).__name__
    if isinstance(error, BrokenPipeError):
        return "the reader of the output has gone"
    return reason if error.filename is None else f"{error.filename}: {reason}"
