"""Checks of the names of clients and populations, which become names of folders and files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from shuffledp_core.errors import UsageError

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


def check_name(name: str, what: str) -> str:
    """Return a name that is fit to name a folder; raise `UsageError` for any other."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name[:80]!r} is not a valid name for a {what}: use 1 to 64 of a-z, 0-9, '.', '_' "
            "and '-', and begin with a letter or digit"
        )
    return name


def check_names(names: Sequence[str], what: str) -> None:
    """Checks that all names are valid and different; raises `UsageError` otherwise."""
    for name in names:
        check_name(name, what)
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise UsageError(f"the {what} {twice[0]!r} is given twice")
