"""A student's return value in words that fit into a message."""

from __future__ import annotations

from typing import Final

MOST: Final = 60
"""Characters of a value in a message."""


def short(value: object) -> str:
    """The value as Python writes it, cut.

    Its type where it cannot be written, as an integer of a million digits.
    """
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        return f"something of type {type(value).__name__}"
    return text if len(text) <= MOST else text[: MOST - 3] + "..."
