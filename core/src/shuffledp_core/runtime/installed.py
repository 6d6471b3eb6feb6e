"""Entry points of installed packages, read once, as each look-up reads all metadata."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoints, entry_points
from typing import Any


def entry_points_of(group: str) -> EntryPoints:
    """The entry points of a group, of all packages that were installed at the first call."""
    selected: EntryPoints = _everything().select(group=group)
    return selected


@cache
def _everything() -> Any:  # of EntryPoints, or up to Python 3.11 of what selects from them
    return entry_points()
