"""Grades one submission in its own process.

`python -m shuffledp_labs.teaching.autograder SERVICE LAB FOLDER` runs inside a grading service. It
always writes the file that the service expects, with the error if there was one: a service shows a
missing file to students as a failure of theirs. With the number of a pipe as the only argument it
grades a task of `lab grade` (`apart`). The result is then in the file that the task names, written
after every check; the answer on standard output has the points of the predictions.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
from contextlib import redirect_stdout
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from shuffledp_core.errors import ShuffleDPError
from shuffledp_labs.checking import LabRun, Watcher, run_checks, select_by_step
from shuffledp_labs.installed import lab as lab_of
from shuffledp_labs.instance import KEY_BYTES, instance
from shuffledp_labs.lab import PREDICTION_POINTS, Lab
from shuffledp_labs.predictions import prediction_points
from shuffledp_labs.results import LabResult, write_result
from shuffledp_labs.teaching.apart import end_with_the_one_who_waits
from shuffledp_labs.teaching.course import load_key
from shuffledp_labs.teaching.exports.classroom import result_json
from shuffledp_labs.teaching.exports.gradescope import results_json
from shuffledp_labs.teaching.exports.table import TableRow
from shuffledp_labs.teaching.grading import Grading, grade, require_sandbox, write_json
from shuffledp_labs.teaching.submissions import StudentSubmission, find_submissions, student_name

TROUBLE: Final = "Your instructor has to look at this: the autograder says: "


def main() -> int:
    """Run the mode that the arguments name; return the exit code.

    Services expect 0 whenever there is a result.
    """
    if len(sys.argv) == 2:  # the number of a pipe: started by `apart.Apart`
        answer_task()
        return 0
    service, number, folder, *options = sys.argv[1:]
    run = {"gradescope": on_gradescope, "classroom50": on_classroom50}[service]
    run(lab_of(int(number)), Path(folder), system="--no-system" not in options)
    return 0


def on_gradescope(lab: Lab, root: Path, *, system: bool) -> None:
    """Grade `root/submission`, and write `root/results/results.json`."""
    results = root / "results"
    results.mkdir(exist_ok=True)
    file = results / "results.json"
    try:
        require_sandbox()
        row = _grade_one(
            lab,
            root / "submission",
            _key(root),
            _on_metadata(root),
            results / ".work",
            system=system,
        )
    except (ShuffleDPError, OSError) as error:
        row = TableRow("", None, trouble=str(error))
    if row.result is None:
        write_json(file, {"score": 0, "output": TROUBLE + row.trouble, "output_format": "text"})
        return
    content = results_json(row.result, _titles(lab), (row.predictions, PREDICTION_POINTS))
    if row.trouble:
        content["output"] = f"{TROUBLE}{row.trouble} {content['output']}"
    write_json(file, content)


def on_classroom50(lab: Lab, folder: Path, *, system: bool) -> None:
    """Grade the checkout, and write its result.json.

    Raises:
        ShuffleDPError: there is no result; the runner then makes one that says so.
    """
    environment = dict(os.environ)
    student = student_name(environment.get("OWNER") or environment.get("USERNAME") or "student")
    row = _grade_one(
        lab,
        folder,
        secrets.token_bytes(KEY_BYTES),
        student,
        folder / ".lab" / "graded",
        system=system,
    )
    if row.result is None:
        raise ShuffleDPError(row.trouble)
    content = result_json(
        row.result, (row.predictions, PREDICTION_POINTS), environment, datetime.now(UTC)
    )
    write_json(folder / "result.json", content)


def _grade_one(
    lab: Lab, folder: Path, key: bytes, student: str, out: Path, *, system: bool
) -> TableRow:
    (submission,) = (
        [StudentSubmission(student, folder)]
        if (folder / "work.py").is_file()
        else [_find_submission(folder, student)]
    )
    (row,) = grade(
        Grading(lab, key, out, system=system, again=True), [submission], 1, lambda _done, _of: None
    )
    return row


def _find_submission(folder: Path, student: str) -> StudentSubmission:
    """Find the work.py in a submission, which may be inside a folder."""
    for candidate in find_submissions(folder):
        if candidate.folder is not None:
            return StudentSubmission(student, candidate.folder)
    return StudentSubmission(student, None, "there is no work.py in this submission")


def _key(root: Path) -> bytes:
    file = root / "source" / "course.key"
    return load_key(file) if file.exists() else secrets.token_bytes(KEY_BYTES)


def _on_metadata(root: Path) -> str:
    """Name of the submitting student or group, according to Gradescope."""
    try:
        metadata: dict[str, Any] = json.loads((root / "submission_metadata.json").read_bytes())
        people = sorted(str(user["email"]) for user in metadata["users"])
    except (OSError, ValueError, KeyError, TypeError):
        people = []
    return student_name("+".join(people) or "student")


def answer_task() -> None:
    """Read a task of `lab grade` from standard input, grade it, and answer on standard output."""
    end_with_the_one_who_waits()
    task = json.load(sys.stdin)
    with redirect_stdout(sys.stderr):  # anything that a check or a library prints is not an answer
        answer = grade_task(task)
    sys.stdout.write(json.dumps(answer))


class _Writer(Watcher):
    def __init__(self, file: Path) -> None:
        self._file = file

    def writes(self, result: LabResult) -> None:
        write_result(self._file, result)


def grade_task(task: dict[str, Any]) -> dict[str, Any]:
    """Run the checks of a task; return the answer to write to standard output."""
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


def _titles(lab: Lab) -> dict[str, str]:
    return {check.name: check.title for check in lab.checks}


if __name__ == "__main__":
    sys.exit(main())
