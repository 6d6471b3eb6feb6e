"""The folder in which a student works: `lab start` creates it, other commands find it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from shuffledp_core.runtime.files import write_atomic
from shuffledp_labs.errors import LabUsageError
from shuffledp_labs.instance import KEY_BYTES
from shuffledp_labs.lab import Lab

MARK: Final = Path(".lab", "lab.json")
KEY: Final = Path(".lab", "key")
RESULT: Final = Path("out", "result.json")
PARTIAL: Final = Path("out", "partial.json")

HANDED_OUT: Final = {
    "handout.md": "README.md",
    "work.py": "work.py",
    "predict.toml": "predict.toml",
} | {"report.md": "report.md"}
"""Files of a lab's package, by the names that the student sees."""


class Mark(msgspec.Struct, frozen=True):
    """The owner and the lab of a student's folder."""

    lab: int
    student: str = ""


@dataclass(frozen=True)
class WorkFolder:
    """A student's folder for one lab.

    Attributes:
        path: path of the folder.
        student: name that was given to `lab start`.
    """

    path: Path
    student: str

    @property
    def work(self) -> Path:
        """Path of the student's program."""
        return self.path / "work.py"

    @property
    def out(self) -> Path:
        """Folder of pictures and results."""
        return self.path / "out"

    @property
    def result(self) -> Path:
        """Path of the result of the last complete `lab check`."""
        return self.path / RESULT

    @property
    def partial(self) -> Path:
        """Path of the result of the last `lab check` that omitted some checks."""
        return self.path / PARTIAL

    def practice_key(self) -> bytes:
        """The key that determines practice instances, created at first use."""
        file = self.path / KEY
        if not file.is_file() or file.stat().st_size != KEY_BYTES:
            file.parent.mkdir(exist_ok=True)
            write_atomic(file, os.urandom(KEY_BYTES))
        return file.read_bytes()


def start(lab: Lab, folder: Path | None = None, student: str = "") -> WorkFolder:
    """Create the folder of a lab.

    What is there already stays as it is: existing work is never overwritten.
    """
    path = folder or Path(f"lab-{lab.number}")
    mark = path / MARK
    if mark.exists():
        raise LabUsageError(
            f"{path} is there already, with your work in it: go on there, or name another with "
            "--folder"
        )
    if path.exists() and any(path.iterdir() if path.is_dir() else [path]):
        raise LabUsageError(
            f"{path} is there already and is not empty: name another folder with --folder"
        )
    path.mkdir(parents=True, exist_ok=True)
    for name, shown in HANDED_OUT.items():
        (path / shown).write_bytes(lab.file(name).read_bytes())
    for picture in lab.pictures():
        (path / picture.name).write_bytes(picture.read_bytes())
    data = lab.file("data")
    if data.is_dir():
        (path / "data").mkdir()
        for entry in data.iterdir():
            if entry.is_file() and not entry.name.startswith(("_", ".")):
                (path / "data" / entry.name).write_bytes(entry.read_bytes())
    mark.parent.mkdir()
    write_atomic(
        mark, msgspec.json.encode(Mark(lab.number, student))
    )  # last: a folder with it is complete
    return WorkFolder(path, student)


def find(number: int, folder: Path | None = None) -> WorkFolder:
    """Find the student's folder of a lab: the given one, lab-N here, or the current one."""
    for path in (folder,) if folder else (Path(f"lab-{number}"), Path()):
        try:
            mark = msgspec.json.decode((path / MARK).read_bytes(), type=Mark)
        except (OSError, msgspec.MsgspecError):
            continue
        if mark.lab == number:
            return WorkFolder(path, mark.student)
    where = f"{folder} is no" if folder else "there is no"
    raise LabUsageError(f"{where} folder of lab {number}: `shuffledp lab start {number}` makes one")
