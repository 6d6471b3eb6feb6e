"""A course: its secret key, and the dates of its labs.

The key decides every instance that is graded (docs/how-to/teach-with-labs.md, "The key"). With
it one can draw a student's instance again, so it comes from the operating system's randomness, is
readable only by its owner, and is in no bundle but the one for Gradescope, if the instructor says
so.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Final

from shuffledp_core.errors import ConfigError, OutputError, UsageError
from shuffledp_core.runtime.config import Section, load_config
from shuffledp_core.runtime.files import read_file, write_new

KEY_BYTES: Final = 32
KEY_FILE: Final = "course.key"
COURSE_FILE: Final = "course.toml"

SHORT: Final = {
    "all": (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11),
    "security": (2, 3, 4, 6, 7, 11),
    "privacy": (1, 5, 6, 8, 9),
}
"""The courses that the guide for instructors proposes; each lab stands alone, so any other
selection is one, too.
"""


class PlannedLab(Section, frozen=True, kw_only=True):
    """A lab of a course: its number, first day, and last day for submissions."""

    number: int
    opens: date
    due: date

    def __post_init__(self) -> None:
        if self.number not in SHORT["all"]:
            raise ValueError(
                f"there is no lab {self.number}; labs are numbered 1 to {max(SHORT['all'])}"
            )
        if self.due < self.opens:
            raise ValueError(f"lab {self.number} is due {self.due}, before it opens {self.opens}")


class LabCourse(Section, frozen=True, kw_only=True):
    """The settings in `course.toml`; `key` is relative to that file.

    `late_points` are lost for each day after a lab is due, and later than `late_days` after it a
    submission gets none.
    """

    name: str
    key: Path = Path(KEY_FILE)
    late_days: int = 0
    late_points: int = 0
    labs: tuple[PlannedLab, ...] = ()

    def __post_init__(self) -> None:
        if not (0 <= self.late_days <= 366 and 0 <= self.late_points <= 100):
            raise ValueError("late_days is from 0 to 366, and late_points from 0 to 100")
        numbers = [lab.number for lab in self.labs]
        if len(set(numbers)) < len(numbers):
            raise ValueError("a lab is listed twice")

    def points_when_late(self, number: int, points: int, submitted: date) -> int:
        """Points of a submission after the deduction for late days.

        Raises:
            UsageError: the course does not do this lab.
        """
        late = (submitted - self.lab(number).due).days
        if late <= 0:
            return points
        return 0 if late > self.late_days else max(0, points - late * self.late_points)

    def lab(self, number: int) -> PlannedLab:
        """The plan of one lab; raises `UsageError` for a lab that is not in the course."""
        for planned in self.labs:
            if planned.number == number:
                return planned
        listed = ", ".join(str(planned.number) for planned in self.labs) or "none"
        raise UsageError(
            f"the course {self.name!r} has no lab {number} (it has: {listed}); add it to "
            f"{COURSE_FILE}"
        )


def plan(numbers: Sequence[int], first: date, days: int) -> tuple[PlannedLab, ...]:
    """Plan labs one after another, `days` days each; one opens when the last is due."""
    return tuple(
        PlannedLab(
            number=number, opens=first + timedelta(days * i), due=first + timedelta(days * (i + 1))
        )
        for i, number in enumerate(numbers)
    )


def numbers_of(text: str) -> tuple[int, ...]:
    """Parse the labs named by `all`, `security`, `privacy` or a list such as 1,3,7.

    Raises `UsageError` for anything else.
    """
    if text in SHORT:
        return SHORT[text]
    words = [word.strip() for word in text.split(",")]
    numbers = tuple(int(word) for word in words if word.isdecimal())
    if (
        len(numbers) != len(words)
        or not set(numbers) <= set(SHORT["all"])
        or len(set(numbers)) < len(numbers)
    ):
        raise UsageError(
            f"--labs is one of {', '.join(SHORT)}, or different numbers from 1 to "
            f"{max(SHORT['all'])} such as "
            f"1,3,7, not {text!r}"
        )
    return numbers


def init_course(folder: Path, name: str, labs: Iterable[PlannedLab]) -> None:
    """Create a course's folder with a key, a plan, and a .gitignore for the key.

    Existing files are never overwritten: without the key, no result of the course could be
    repeated.
    """
    text = _as_toml(name, tuple(labs))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_new(folder / KEY_FILE, f"{secrets.token_hex(KEY_BYTES)}\n".encode())
        write_new(folder / COURSE_FILE, text.encode())
        with (folder / ".gitignore").open("a") as file:
            file.write(f"/{KEY_FILE}\n")
    except FileExistsError as error:
        raise OutputError(
            f"{error.filename} exists already; give another folder, or go on with that course"
        ) from error
    except OSError as error:
        raise OutputError(
            f"cannot write {folder}: {error.strerror}; give another folder"
        ) from error


def load_course(folder: Path) -> LabCourse:
    """Load the course from a folder, or from its `course.toml`."""
    return load_config(folder / COURSE_FILE if folder.is_dir() else folder, LabCourse)


def load_key(path: Path) -> bytes:
    """Load the key of a course.

    Raises `ConfigError` if it is none, or when others than its owner may read it.
    """
    text = read_file(path, "course key").decode("ascii", errors="replace").strip()
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise ConfigError(
            f"{path} holds no course key of {2 * KEY_BYTES} hex digits; `shuffledp lab course "
            "init` makes one"
        )
    if path.stat().st_mode & 0o077:
        raise ConfigError(
            f"others than its owner may read {path}: chmod 600 {path}, or begin a course with a "
            "new key"
        )
    return key


def _as_toml(name: str, labs: tuple[PlannedLab, ...]) -> str:
    if not name.isprintable() or '"' in name or "\\" in name:
        raise UsageError(
            f"the name of a course is one line without quotes and backslashes, not {name!r}"
        )
    lines = [
        f'name = "{name}"',
        f'key = "{KEY_FILE}"  # secret: its readers know every instance before it is drawn',
        "late_days = 0  # days after `due` on which a lab may still be handed in",
        "late_points = 0  # of 100, lost for each of these days",
        "",
        "# The day on which a lab is handed out, and the last one on which it may be handed in.",
    ]
    for lab in labs:
        lines += [
            "[[labs]]",
            f"number = {lab.number}",
            f"opens = {lab.opens}",
            f"due = {lab.due}",
            "",
        ]
    return "\n".join(lines).rstrip() + "\n"
