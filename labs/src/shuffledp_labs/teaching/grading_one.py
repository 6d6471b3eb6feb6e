"""The process that grades one submission: `python -m shuffledp_labs.teaching.grading_one`, started
by `apart.Apart`.

It gets its task on standard input and answers on standard output with the points of the
predictions; the result itself is in the file that the task names, written after every check.
"""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from shuffledp_core.errors import ShuffleDPError
from shuffledp_labs.checking import LabRun, Watcher, run_checks, select_by_step
from shuffledp_labs.errors import LabUsageError
from shuffledp_labs.installed import lab as lab_of
from shuffledp_labs.instance import instance
from shuffledp_labs.lab import PREDICTION_POINTS, Lab
from shuffledp_labs.predictions import RECORD, load_record, read_valid_answers
from shuffledp_labs.results import LabResult, write_result
from shuffledp_labs.teaching.apart import end_with_the_one_who_waits


class _Writer(Watcher):
    def __init__(self, file: Path) -> None:
        self._file = file

    def writes(self, result: LabResult) -> None:
        write_result(self._file, result)


def grade_task(task: dict[str, Any]) -> dict[str, Any]:
    """Runs the checks of a task, and says what else there is to say."""
    lab = lab_of(task["lab"])
    folder = Path(task["folder"])
    nonce = bytes.fromhex(task["nonce"])
    run = LabRun(
        lab,
        folder / "work.py",
        instance(bytes.fromhex(task["key"]), lab.number, task["student"], nonce),
        task["student"],
        nonce,
        select_by_step(None, system=task["system"]),
    )
    answer: dict[str, Any] = {"predictions": prediction_points(lab, folder)}
    try:
        run_checks(run, _Writer(Path(task["result"])))
    except ShuffleDPError as error:
        answer["trouble"] = str(error)
    return answer


def predictions_of(lab: Lab, folder: Path) -> dict[str, Any]:
    """The predictions of a submission: those kept at the first run, else those of the file that can
    be understood.
    """
    try:
        recorded: dict[str, Any] = (
            load_record(folder)["answers"]
            if (folder / RECORD).is_file()
            else read_valid_answers(folder, lab)
        )
    except LabUsageError:
        return read_valid_answers(folder, lab)
    return recorded


def prediction_points(lab: Lab, folder: Path) -> int:
    """All points or none: any answer counts, and every question wants one."""
    answers = predictions_of(lab, folder)
    return (
        PREDICTION_POINTS
        if all(str(answers.get(prediction.key, "")).strip() for prediction in lab.predictions)
        else 0
    )


def main() -> None:
    """Reads the task, grades, answers."""
    end_with_the_one_who_waits()
    task = json.load(sys.stdin)
    with redirect_stdout(sys.stderr):  # what a check or a library prints is no answer
        answer = grade_task(task)
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
