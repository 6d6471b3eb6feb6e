"""Runs the checks of a lab in order, each with a fresh student process, and collects results."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from shuffledp_core.errors import ShuffleDPError
from shuffledp_labs.errors import CheckFailure, LabUsageError, StudentFault, StudentTimeout
from shuffledp_labs.instance import Draws
from shuffledp_labs.lab import Check, CheckAttempt, Lab
from shuffledp_labs.results import CheckResult, LabResult, Outcome
from shuffledp_labs.student import clock
from shuffledp_labs.student.pipes import scratch_folder
from shuffledp_labs.student.process import StudentProgram
from shuffledp_labs.student.source import digest_of_program, read_source

MAX_MESSAGE: Final = 2000
"""Characters of a message that are kept: it may quote what a program returned."""


class Watcher:
    """Observer of running checks; this base class does nothing."""

    def starts(self, check: Check) -> None:
        """Called when a check begins."""

    def progress(self, text: str) -> None:
        """Called with a line about the progress of the running check."""

    def ends(self, check: Check, result: CheckResult, printed: str) -> None:
        """Called when a check has ended; `printed` is the end of the program's output."""

    def writes(self, result: LabResult) -> None:
        """Called after every check with all results so far."""


@dataclass(frozen=True)
class LabRun:
    """A lab's instance, and which of its checks to run.

    Attributes:
        lab: the lab.
        work: the student's work.py.
        draws: the instance.
        student: name of the student, for the result.
        nonce: nonce of the instance, for the result.
        selects: predicate that selects checks; those that they need are run as well.
    """

    lab: Lab
    work: Path
    draws: Draws
    student: str = ""
    nonce: bytes = b""
    selects: Callable[[Check], bool] = lambda _: True


def select_by_step(step: str | None, *, system: bool) -> Callable[[Check], bool]:
    """Return a predicate for the checks of a step, or of all; `system` includes real systems."""
    return lambda check: (
        (step is None or check.step == step.upper()) and (system or not check.system)
    )


def run_checks(run: LabRun, watcher: Watcher) -> LabResult:
    """Run the selected checks; return the results of all checks.

    Raises:
        LabUsageError: the student's file cannot be read, or there is no such step.
    """
    read_source(run.work)
    names = names_to_run(run)
    digest = _digest(run.work)
    results = list[CheckResult]()
    box = ""
    for check in run.lab.checks:
        done, box_of_check = _check_result(run, check, names, results, watcher)
        box = box_of_check or box
        results.append(done)
        points = sum(result.points for result in results)
        finished = len(results) == len(run.lab.checks)
        result = LabResult(
            run.lab.number,
            run.student,
            run.nonce.hex(),
            digest,
            points,
            tuple(results),
            box,
            finished=finished,
        )
        watcher.writes(result)
    return result


def _digest(work: Path) -> str:
    try:
        return digest_of_program(work)
    except OSError as error:
        raise LabUsageError(f"{work} cannot be read ({error.strerror})") from None


def names_to_run(run: LabRun) -> set[str]:
    """Names of the selected checks and of their prerequisites.

    Raises:
        LabUsageError: there is no such step.
    """
    names: set[str] = set()
    for check in reversed(run.lab.checks):
        if check.name in names or run.selects(check):
            names |= {check.name, *check.needs}
    if not names:
        steps = ", ".join(sorted({check.step for check in run.lab.checks}))
        raise LabUsageError(
            f"lab {run.lab.number} has no check of this kind: its steps with checks are {steps}"
        )
    return names


def _check_result(
    run: LabRun, check: Check, names: set[str], before: list[CheckResult], watcher: Watcher
) -> tuple[CheckResult, str]:
    """The result of one check, and the name of the sandbox."""
    if check.name not in names:
        return CheckResult(check.name, 0, check.points, "left-out", "not asked for", 0.0), ""
    passed = {done_before.name for done_before in before if done_before.outcome == "passed"}
    if missing := [name for name in check.needs if name not in passed]:
        message = f"needs {' and '.join(missing)} first"
        done = CheckResult(check.name, 0, check.points, "not-reached", message, 0.0)
        watcher.ends(check, done, "")
        return done, ""
    watcher.starts(check)
    started = time.monotonic()
    outcome, message, printed, box = _attempt(run, check, watcher)
    points = check.points if outcome == "passed" else 0
    seconds = round(time.monotonic() - started, 2)
    done = CheckResult(check.name, points, check.points, outcome, message[:MAX_MESSAGE], seconds)
    watcher.ends(check, done, printed)
    return done, box


def _attempt(run: LabRun, check: Check, watcher: Watcher) -> tuple[Outcome, str, str, str]:
    """Run a check in its own folder; return outcome, message, printed output, and sandbox."""
    with scratch_folder() as scratch:
        with StudentProgram(run.work, scratch, until=clock.now() + check.seconds) as program:
            attempt = CheckAttempt(
                run.draws.child(check.name), program, scratch, watcher.progress, run.work
            )
            outcome, message = _outcome(check, attempt)
        return outcome, message, program.output, program.last_box


@contextmanager
def _processor_time(seconds: float) -> Iterator[None]:
    """Context that limits the processor time spent on a value that a program returned.

    Works in the main thread of this process only.

    Raises:
        StudentTimeout: the processor time was used up.
    """
    if math.isinf(seconds) or threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(_number: int, _frame: object) -> None:
        raise StudentTimeout(
            f"checking what it returned took more than {seconds:.0f} s of processor time: return "
            "smaller numbers, such as fractions with smaller denominators"
        )

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(
        signal.ITIMER_PROF, seconds, 1.0
    )  # again, should a destructor have swallowed the first
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _outcome(check: Check, attempt: CheckAttempt) -> tuple[Outcome, str]:
    try:
        with _processor_time(math.inf if check.system else check.seconds):
            return "passed", check.run(attempt) or "as it should be"
    except (CheckFailure, StudentFault) as failure:
        return "failed", str(failure)
    except ShuffleDPError as error:
        return "error", f"{type(error).__name__}: {error}"
    except Exception as error:  # noqa: BLE001 - a slip of this check costs its own points only, and says so
        return "error", f"this check is at fault, not you: {type(error).__name__}: {error}"
