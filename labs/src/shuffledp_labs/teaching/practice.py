"""`lab check` and `lab run`: a student's own runs, on instances that are drawn for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from shuffledp_labs import predictions
from shuffledp_labs.checking import Run, chosen, run_checks, wanted
from shuffledp_labs.installed import lab as lab_of
from shuffledp_labs.instance import fresh_nonce, instance
from shuffledp_labs.lab import Showing
from shuffledp_labs.results import LabResult
from shuffledp_labs.student.pipes import scratch_folder
from shuffledp_labs.student.process import StudentProgram
from shuffledp_labs.student.source import read_source
from shuffledp_labs.teaching.starting import find
from shuffledp_labs.teaching.terminal import Screen


def check(
    number: int, folder: Path | None, step: str | None, *, system: bool, quiet: bool = False
) -> LabResult:
    """Runs the checks of a lab on a fresh instance, shows each, and keeps the results in the lab's
    folder.

    A run that leaves checks out has a file of its own, and never replaces the result of all of
    them.
    """
    lab, place = lab_of(number), find(number, folder)
    read_source(place.work)
    predictions.keep(place.path, lab)
    nonce = fresh_nonce()
    draws = instance(place.practice_key(), number, place.student, nonce)
    run = Run(lab, place.work, draws, place.student, nonce, wanted(step, system=system))
    whole = len(chosen(run)) == len(lab.checks)
    screen = Screen(place.result if whole else place.partial, quiet=quiet)
    result = run_checks(run, screen)
    screen.closes(result)
    return result


def show(number: int, folder: Path | None, progress: Callable[[str], None]) -> Path:
    """Runs the lab's system with the student's code in it, and draws a picture, whose path this
    is.
    """
    lab, place = lab_of(number), find(number, folder)
    read_source(place.work)
    predictions.keep(place.path, lab)
    place.out.mkdir(exist_ok=True)
    draws = instance(place.practice_key(), number, place.student, fresh_nonce())
    with scratch_folder() as scratch, StudentProgram(place.work, scratch) as program:
        return lab.show(
            Showing(place.work, place.out, draws.child("show"), program, scratch, progress)
        )
