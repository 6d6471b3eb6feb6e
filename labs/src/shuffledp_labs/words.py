"""Formats a student's return value for messages."""

from __future__ import annotations

from typing import Final

MOST: Final = 60
"""Characters of a value in a message."""


def short(value: object) -> str:
    """The value's `repr`, truncated.

    For a value without one, such as an integer of a million digits, its type.
    """
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        return f"something of type {type(value).__name__}"
    return text if len(text) <= MOST else text[: MOST - 3] + "..."
