"""Entry points of installed packages, read once: each look-up goes through the metadata of all of
them.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoints, entry_points
from typing import Any


def entry_points_of(group: str) -> EntryPoints:
    """The entry points of a group, of every package that was installed when the first group was
    asked for.
    """
    selected: EntryPoints = _everything().select(group=group)
    return selected


@cache
def _everything() -> Any:  # of EntryPoints, or up to Python 3.11 of what selects from them
    return entry_points()
