"""Results of a lab's checks, written by `check` and `grade` after every check."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

import msgspec

from shuffledp_core.runtime.files import write_atomic
from shuffledp_labs.errors import LabUsageError
from shuffledp_labs.reading import read_bounded

MAX_RESULT: Final = 2**20
"""Longest file of a result in bytes; one that was handed in may be anything."""

Outcome = Literal["passed", "failed", "not-reached", "left-out", "error"]


class CheckResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Result of one check.

    Attributes:
        name: name of the check.
        points: points that it gave.
        of: points that it can give.
        outcome: "error" is a fault of the grader or the machine, "left-out" was not asked for.
        message: what was observed, or what is wrong and where to read.
        seconds: duration of the check.
    """

    name: str
    points: int
    of: int
    outcome: Outcome
    message: str
    seconds: float


class LabResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Results of all checks of one run.

    Attributes:
        lab: number of the lab.
        student: name under which the student is enrolled; "" in practice.
        nonce: nonce of the instance in hex; with the course's key, it draws the same instance
            again.
        digest: SHA-256 of work.py, in hex.
        points: points of all checks, of 75.
        checks: results of the checks, in order.
        box: the sandbox that the program ran in.
        finished: whether all selected checks have run.
    """

    lab: int
    student: str
    nonce: str
    digest: str
    points: int
    checks: tuple[CheckResult, ...]
    box: str = ""
    finished: bool = False

    @property
    def partial(self) -> bool:
        """True if this run omitted some checks."""
        return any(check.outcome == "left-out" for check in self.checks)

    @property
    def possible(self) -> int:
        """Largest number of points that the checks of this run can give."""
        return sum(check.of for check in self.checks if check.outcome != "left-out")


def write_result(file: Path, result: LabResult) -> None:
    """Write a result atomically."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(file, msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n")


def read_result(file: Path) -> LabResult:
    """Read the result of a graded run; the `LabUsageError` for a bad file says why."""
    try:
        return msgspec.json.decode(read_bounded(file, MAX_RESULT), type=LabResult)
    except FileNotFoundError:
        raise LabUsageError(f"{file} is not there: run `shuffledp lab check` first") from None
    except OSError as error:
        raise LabUsageError(
            f"{file} cannot be read ({error.strerror}): run `shuffledp lab check` again"
        ) from None
    except msgspec.MsgspecError as error:
        raise LabUsageError(f"{file} is not a result of a lab: {error}") from None
