"""Predictions before the first run: any answer gives points, and later changes do not count."""

from __future__ import annotations

import hashlib
import json
import math
import re
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from shuffledp_core.runtime.files import write_atomic
from shuffledp_labs.errors import LabUsageError
from shuffledp_labs.lab import PREDICTION_POINTS, Lab, Prediction
from shuffledp_labs.reading import read_bounded

FILE: Final = "predict.toml"
RECORD: Final = Path(".lab", "predictions.json")
MAX_FILE: Final = 2**16


def record_predictions(folder: Path, lab: Lab) -> dict[str, Any]:
    """The predictions made before the first run; recorded at the first call.

    Keeps those of the file when none are kept yet.

    Raises:
        LabUsageError: a question has no answer yet, or one of another kind or beyond its scale; the
            message names it.
    """
    record = folder / RECORD
    if record.is_file():
        return load_record(folder)["answers"]  # type: ignore[no-any-return]
    answers = read_answers(folder, lab)
    for prediction in lab.predictions:
        _refuse_other_scale(folder / FILE, prediction, answers[prediction.key])
    record.parent.mkdir(exist_ok=True)
    write_atomic(
        record,
        json.dumps({"digest": digest_of(folder / FILE), "answers": answers}, indent=1).encode(),
    )
    return answers


def load_record(folder: Path) -> dict[str, Any]:
    """Load the recorded predictions: the file's digest at the first run, and its answers."""
    try:
        record: dict[str, Any] = json.loads(read_bounded(folder / RECORD, MAX_FILE))
        if type(record["answers"]) is dict:
            return record
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    raise LabUsageError(f"{folder / RECORD} cannot be read: erase it, and predict again")


def predictions_of(lab: Lab, folder: Path) -> dict[str, Any]:
    """The valid predictions in a submission.

    They are those recorded at the first run, else the valid ones of the file.
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
    """All points if every question has an answer, right or wrong; otherwise 0."""
    answers = predictions_of(lab, folder)
    return (
        PREDICTION_POINTS
        if all(str(answers.get(prediction.key, "")).strip() for prediction in lab.predictions)
        else 0
    )


def digest_of(file: Path) -> str:
    """SHA-256 of a file of predictions, in hex.

    Raises OSError where it cannot be read or is too long.
    """
    return hashlib.sha256(read_bounded(file, MAX_FILE)).hexdigest()


def _load_file(file: Path) -> dict[str, Any]:
    try:
        content = tomllib.loads(
            _with_leading_zeros(read_bounded(file, MAX_FILE).decode("utf-8-sig"))
        )
    except OSError as error:
        raise LabUsageError(
            f"{file} cannot be read ({error.strerror}): `shuffledp lab start` makes it"
        ) from None
    except (ValueError, RecursionError) as error:  # TOML's and UTF-8's errors are ValueErrors
        raise LabUsageError(
            f"{file} cannot be understood: {error}. Write a number without unit and comma, such "
            "as 0.5 or 1200, and everything else in double quotes"
        ) from None
    return content


def read_answers(folder: Path, lab: Lab) -> dict[str, Any]:
    """Read the answers in a folder's predict.toml, without checking the scale of numbers.

    Other errors as `record_predictions`.
    """
    content = _load_file(folder / FILE)
    return {
        prediction.key: _answer(folder / FILE, prediction, content.get(prediction.key))
        for prediction in lab.predictions
    }


def read_valid_answers(folder: Path, lab: Lab) -> dict[str, Any]:
    """Read the valid answers in a folder's predict.toml, for a grader."""
    try:
        content = _load_file(folder / FILE)
    except LabUsageError:
        return {}
    answers = {}
    for prediction in lab.predictions:
        with suppress(LabUsageError):
            answers[prediction.key] = _answer(
                folder / FILE, prediction, content.get(prediction.key)
            )
    return answers


def _with_leading_zeros(text: str) -> str:
    """Rewrite .15 as 0.15, because TOML does not allow the handouts' form."""
    return re.sub(r"(?m)^(\s*[\w-]+\s*=\s*[+-]?)(?=\.\d)", r"\g<1>0", text)


def _number_in(text: str) -> float | str:
    """Parse the number between the quotes in which predict.toml is handed out.

    The text itself where it is none.
    """
    try:
        return int(text) if text.strip().lstrip("+-").isdecimal() else float(text)
    except ValueError:
        return text


def _refuse_other_scale(file: Path, prediction: Prediction, answer: Any) -> None:
    """Raise for a number outside its question's scale, such as 95 for a share.

    The student can still correct it.
    """
    if (
        prediction.kind == "number"
        and math.isfinite(prediction.most)
        and not 0 <= answer <= prediction.most
    ):
        hint = (
            f"; a share is not in percent: 95% is `{prediction.key} = 0.95`"
            if prediction.most == 1
            else ""
        )
        raise LabUsageError(
            f"{file}: `{prediction.key}` lies from 0 to {prediction.most:g}, so it cannot be "
            f"{answer}{hint}"
        )


def _answer(file: Path, prediction: Prediction, answer: Any) -> Any:
    if prediction.kind == "number" and type(answer) is str and answer.strip():
        answer = _number_in(answer)
    if answer is None or answer == "":
        raise LabUsageError(
            f"{file}: predict first, `{prediction.key}` has no answer yet ({prediction.question})"
        )
    good = {
        "number": type(answer) in {int, float} and math.isfinite(answer),
        "choice": answer in prediction.choices,
        "text": type(answer) is str,
    }[prediction.kind]
    if not good:
        number = f"a number without quotes and unit, such as `{prediction.key} = 12.5`"
        expected = {
            "number": number,
            "choice": f"one of: {'; '.join(prediction.choices)}",
            "text": "a text in quotes",
        }
        raise LabUsageError(
            f"{file}: `{prediction.key}` has to be {expected[prediction.kind]}, "
            f"not {str(answer)[:80]!r}"
        )
    return answer
