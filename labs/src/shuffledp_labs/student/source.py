"""The text of a student's program: work.py, and modules of the student's own next to it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from shuffledp_labs.errors import LabUsageError
from shuffledp_labs.reading import read_bounded

WORK: Final = "work.py"

MAX_SOURCE: Final = 2**20
"""Longest file in bytes."""

MAX_HELPERS: Final = 20
"""Most modules next to work.py."""


@dataclass(frozen=True)
class ProgramSource:
    """The source of a student's program: work.py and its modules.

    Attributes:
        work: the text of work.py.
        helpers: the text of each module next to it, by the module's name.
    """

    work: str
    helpers: tuple[tuple[str, str], ...] = ()

    @property
    def listing(self) -> str:
        """The whole source as one text, for a reader."""
        return self.work + "".join(
            f"\n\n# ---- {name}.py ----\n{text}" for name, text in self.helpers
        )


def read_source(file: Path) -> ProgramSource:
    """Read a student's work.py and the modules next to it.

    Raises:
        LabUsageError: a file cannot be read, is too long or is not UTF-8, or there are too many.
    """
    return ProgramSource(
        _text(file), tuple((helper.stem, _text(helper)) for helper in _helpers(file))
    )


def digest_of_program(file: Path) -> str:
    """SHA-256 of work.py and the modules next to it, in hex; without modules, the file's.

    Raises:
        OSError: a file cannot be read or is too long.
    """
    digest = hashlib.sha256(read_bounded(file, MAX_SOURCE))
    for helper in _helpers(file):
        data = read_bounded(helper, MAX_SOURCE)
        digest.update(f"\0{helper.name}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()


def _helpers(file: Path) -> Iterator[Path]:
    """The modules next to a work.py; none for a program under another name."""
    if file.name != WORK:
        return
    modules = [
        helper
        for helper in sorted(file.parent.glob("*.py"))
        if helper.name != file.name
        and helper.stem.isidentifier()
        and helper.is_file()
        and not helper.is_symlink()
    ]
    if len(modules) > MAX_HELPERS:
        raise LabUsageError(
            f"{file.parent} holds {len(modules)} Python files beside {file.name}; at most "
            f"{MAX_HELPERS} are allowed: move those that it does not import elsewhere"
        )
    yield from modules


def _text(file: Path) -> str:
    try:
        # A byte order mark, which some editors write, is no part of the text.
        return (
            read_bounded(file, MAX_SOURCE)
            .decode("utf-8-sig")
            .replace("\r\n", "\n")
            .replace("\r", "\n")
        )
    except UnicodeDecodeError:
        raise LabUsageError(f"{file} is not UTF-8 text: save it as UTF-8 in your editor") from None
    except OSError as error:
        raise LabUsageError(
            f"{file} cannot be read ({error.strerror}): start in the folder that `lab start` made"
        ) from None
