"""The submissions of a class: folders, students, and digests."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import chain, count
from pathlib import Path
from typing import Final
from unicodedata import normalize

from shuffledp_labs import predictions
from shuffledp_labs.errors import LabUsageError
from shuffledp_labs.student.source import WORK, digest_of_program

DEPTH: Final = 3
"""How far below a student's folder work.py may be: alice/lab-3/work.py, or what a learning platform
wraps around it.
"""

_STRANGE: Final = re.compile(r"[^\w.@+-]+")

NAME_LENGTH: Final = 80


@dataclass(frozen=True)
class StudentSubmission:
    """One student's submission: the folder with work.py, or an error for the instructor.

    Attributes:
        student: a name that no other submission of the class has.
        folder: with work.py; None if it cannot be graded.
        trouble: why not.
    """

    student: str
    folder: Path | None
    trouble: str = ""

    @property
    def digest(self) -> str:
        """Digest of the files that determine the points; a change requires regrading.

        Raises:
            OSError: the program cannot be read or is too long.
        """
        if self.folder is None:
            return ""
        return sha256(
            f"{digest_of_program(self.folder / WORK)} {self._digest_predictions()}".encode()
        ).hexdigest()

    def _digest_predictions(self) -> str:
        assert self.folder is not None  # noqa: S101 - `digest` has looked
        try:
            return predictions.digest_of(self.folder / predictions.FILE)
        except OSError:  # predictions that cannot be read give no points
            return ""


def find_submissions(folder: Path) -> tuple[StudentSubmission, ...]:
    """All submissions in a folder, one per subfolder, named after the subfolder.

    A folder without work.py, or with two, is a submission that cannot be graded, and says so in the
    results.
    """
    if not folder.is_dir():
        raise LabUsageError(
            f"{folder} is not a folder; give the one that holds a folder for each student"
        )
    submissions = tuple(
        sorted(_with_own_names(_read_folder(folder)), key=lambda submission: submission.student)
    )
    if not submissions:
        raise LabUsageError(
            f"{folder} is empty; it holds a folder for each student, with {WORK} in it"
        )
    return submissions


def student_name(text: str) -> str:
    """Make a name valid for files and columns, and different from the results' file names."""
    name = _STRANGE.sub("_", normalize("NFC", text)).lstrip(".-_")[:NAME_LENGTH] or "nameless"
    return f"{name}_" if name.lower().endswith(".csv") else name


def _with_own_names(submissions: Iterable[StudentSubmission]) -> Iterator[StudentSubmission]:
    """Number repeated names, so that each submission has a unique row and folder."""
    taken: set[str] = set()
    for submission in submissions:
        numbered = (f"{submission.student}_{number}" for number in count(2))
        student = next(
            name for name in chain([submission.student], numbered) if name.casefold() not in taken
        )
        taken.add(student.casefold())
        yield replace(submission, student=student)


def _read_folder(folder: Path) -> Iterator[StudentSubmission]:
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith((".", "__")):
            continue
        if entry.is_dir() and not entry.is_symlink():
            yield _in_folder(entry)


def _in_folder(entry: Path) -> StudentSubmission:
    student = student_name(entry.name)
    works = [
        file
        for depth in range(DEPTH)
        for file in sorted(entry.glob("*/" * depth + WORK))
        if _plain(file, entry)
    ]
    if len(works) == 1:
        return StudentSubmission(student, works[0].parent)
    if not works:
        return StudentSubmission(student, None, f"there is no {WORK}")
    listed = ", ".join(str(file.relative_to(entry)) for file in works[:3])
    return StudentSubmission(student, None, f"there is more than one {WORK}: {listed}")


def _plain(file: Path, entry: Path) -> bool:
    """Return True for a regular file inside the submission, not a link elsewhere."""
    return (
        file.is_file() and not file.is_symlink() and file.resolve().is_relative_to(entry.resolve())
    )
