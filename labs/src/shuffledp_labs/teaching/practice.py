"""`lab check` and `lab run`: a student's own runs, on fresh instances."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from shuffledp_core.errors import NotInstalledError
from shuffledp_labs import predictions
from shuffledp_labs.checking import LabRun, names_to_run, run_checks, select_by_step
from shuffledp_labs.installed import lab as lab_of
from shuffledp_labs.instance import fresh_nonce, instance
from shuffledp_labs.lab import ShowRun
from shuffledp_labs.results import LabResult
from shuffledp_labs.student.pipes import scratch_folder
from shuffledp_labs.student.process import StudentProgram
from shuffledp_labs.student.source import read_source
from shuffledp_labs.teaching.starting import find
from shuffledp_labs.teaching.terminal import Screen


def check(
    number: int, folder: Path | None, step: str | None, *, system: bool, quiet: bool = False
) -> LabResult:
    """Run a lab's checks on a fresh instance, show each result, and store them.

    A run that leaves checks out has a file of its own, and never replaces the result of all of
    them.
    """
    lab = lab_of(number)
    work_folder = find(number, folder)
    read_source(work_folder.work)
    predictions.record_predictions(work_folder.path, lab)
    nonce = fresh_nonce()
    draws = instance(work_folder.practice_key(), number, work_folder.student, nonce)
    run = LabRun(
        lab,
        work_folder.work,
        draws,
        work_folder.student,
        nonce,
        select_by_step(step, system=system),
    )
    complete = len(names_to_run(run)) == len(lab.checks)
    screen = Screen(work_folder.result if complete else work_folder.partial, quiet=quiet)
    result = run_checks(run, screen)
    screen.closes(result)
    return result


def show(number: int, folder: Path | None, progress: Callable[[str], None]) -> Path | None:
    """Run the lab's system with the student's code, draw a picture, and return its path.

    Without matplotlib, the extra `plot`, there is no picture, and the progress says so.
    """
    lab = lab_of(number)
    work_folder = find(number, folder)
    read_source(work_folder.work)
    predictions.record_predictions(work_folder.path, lab)
    work_folder.out.mkdir(exist_ok=True)
    draws = instance(work_folder.practice_key(), number, work_folder.student, fresh_nonce())
    with scratch_folder() as scratch, StudentProgram(work_folder.work, scratch) as program:
        run = ShowRun(
            work_folder.work, work_folder.out, draws.child("show"), program, scratch, progress
        )
        try:
            return lab.show(run)
        except NotInstalledError as missing:  # the labs draw when all else is done
            progress(f"no picture: {missing}")
            return None
