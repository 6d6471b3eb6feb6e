"""The prediction that comes before the first run: any counts, and it is kept as it was."""

from __future__ import annotations

import hashlib
import json
import math
import re
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from shuffledp_core.files import write_atomic
from shuffledp_labs.errors import LabUsageError
from shuffledp_labs.lab import Lab, Prediction
from shuffledp_labs.reading import read_bounded

FILE: Final = "predict.toml"
KEPT: Final = Path(".lab", "predictions.json")
MAX_FILE: Final = 2**16


def keep(folder: Path, lab: Lab) -> dict[str, Any]:
    """The predictions that were made before the first run.

    Keeps those of the file when none are kept yet.

    Raises:
        LabUsageError: a question has no answer yet, or one of another kind or beyond its scale; the
            message names it.
    """
    kept = folder / KEPT
    if kept.is_file():
        return kept_of(folder)["answers"]  # type: ignore[no-any-return]
    answers = answered(folder, lab)
    for asked in lab.predictions:
        _refuse_other_scale(folder / FILE, asked, answers[asked.key])
    kept.parent.mkdir(exist_ok=True)
    write_atomic(
        kept,
        json.dumps({"digest": digest_of(folder / FILE), "answers": answers}, indent=1).encode(),
    )
    return answers


def kept_of(folder: Path) -> dict[str, Any]:
    """What is kept: the digest of the file at the first run, and its answers."""
    try:
        found: dict[str, Any] = json.loads(read_bounded(folder / KEPT, MAX_FILE))
        if type(found["answers"]) is dict:
            return found
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    raise LabUsageError(f"{folder / KEPT} cannot be read: erase it, and predict again")


def digest_of(file: Path) -> str:
    """SHA-256 of a file of predictions, in hex.

    Raises OSError where it cannot be read or is too long.
    """
    return hashlib.sha256(read_bounded(file, MAX_FILE)).hexdigest()


def _read(file: Path) -> dict[str, Any]:
    try:
        told = tomllib.loads(_with_leading_zeros(read_bounded(file, MAX_FILE).decode("utf-8-sig")))
    except OSError as error:
        raise LabUsageError(
            f"{file} cannot be read ({error.strerror}): `shuffledp lab start` makes it"
        ) from None
    except (ValueError, RecursionError) as error:  # TOML's and UTF-8's errors are ValueErrors
        raise LabUsageError(
            f"{file} cannot be understood: {error}. Write a number without unit and comma, such "
            f"as 0.5 or 1200, and "
            "everything else in double quotes"
        ) from None
    return told


def answered(folder: Path, lab: Lab) -> dict[str, Any]:
    """The answers in a folder's predict.toml, whatever the scale of a number.

    Other errors as `keep`.
    """
    told = _read(folder / FILE)
    return {
        asked.key: _answer(folder / FILE, asked, told.get(asked.key)) for asked in lab.predictions
    }


def understood(folder: Path, lab: Lab) -> dict[str, Any]:
    """Those answers in a folder's predict.toml that can be understood: a grader shows each,
    whatever the others are.
    """
    try:
        told = _read(folder / FILE)
    except LabUsageError:
        return {}
    answers = {}
    for asked in lab.predictions:
        with suppress(LabUsageError):
            answers[asked.key] = _answer(folder / FILE, asked, told.get(asked.key))
    return answers


def _with_leading_zeros(text: str) -> str:
    """With 0.15 for .15, which TOML does not have and the handouts do."""
    return re.sub(r"(?m)^(\s*[\w-]+\s*=\s*[+-]?)(?=\.\d)", r"\g<1>0", text)


def _number_in(text: str) -> float | str:
    """The number between the quotes that predict.toml is handed out with.

    The text itself where it is none.
    """
    try:
        return int(text) if text.strip().lstrip("+-").isdecimal() else float(text)
    except ValueError:
        return text


def _refuse_other_scale(file: Path, asked: Prediction, answer: Any) -> None:
    """Raises for a number beyond what its question counts, while the student can still mend it: 95
    for a share.
    """
    if asked.kind == "number" and math.isfinite(asked.most) and not 0 <= answer <= asked.most:
        hint = (
            f"; a share is not in percent: 95 % is `{asked.key} = 0.95`" if asked.most == 1 else ""
        )
        raise LabUsageError(
            f"{file}: `{asked.key}` lies from 0 to {asked.most:g}, so it cannot be {answer}{hint}"
        )


def _answer(file: Path, asked: Prediction, answer: Any) -> Any:
    if asked.kind == "number" and type(answer) is str and answer.strip():
        answer = _number_in(answer)
    if answer is None or answer == "":
        raise LabUsageError(
            f"{file}: predict first, `{asked.key}` has no answer yet ({asked.question})"
        )
    good = {
        "number": type(answer) in {int, float} and math.isfinite(answer),
        "choice": answer in asked.choices,
        "text": type(answer) is str,
    }[asked.kind]
    if not good:
        number = f"a number without quotes and unit, such as `{asked.key} = 12.5`"
        wanted = {
            "number": number,
            "choice": f"one of: {'; '.join(asked.choices)}",
            "text": "a text in quotes",
        }
        raise LabUsageError(
            f"{file}: `{asked.key}` has to be {wanted[asked.kind]}, not {str(answer)[:80]!r}"
        )
    return answer
