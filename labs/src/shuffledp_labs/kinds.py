"""The type of a student's return value in words, for messages about a wrong type."""

from __future__ import annotations

from typing import Any


def kind_of(value: Any) -> str:
    """The type of a value in words; for a list, also the types of its items.

    Lists and tuples of a student's both arrive as tuples.
    """
    if not isinstance(value, tuple | list):
        return type(value).__name__
    inside = sorted({type(part).__name__ for part in value})
    return f"a list with {', '.join(inside)}" if inside else "an empty list"


def is_list_of_bytes(value: Any) -> bool:
    """Return True if a value is a list or tuple that contains only bytes."""
    return isinstance(value, tuple | list) and all(isinstance(part, bytes) for part in value)
