"""Results for Gradescope: `results.json`.

https://gradescope-autograders.readthedocs.io/en/latest/specs/, read in November 2026.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from shuffledp_labs.results import LabResult

_OUTCOME_TEXTS: Final = {
    "passed": "Passed.",
    "failed": "Failed.",
    "not-reached": "Not reached: a check that this one builds on has not passed.",
    "left-out": "Left out of this run.",
    "error": "The check itself could not be carried out; tell your instructor.",
}


def results_json(
    result: LabResult, titles: Mapping[str, str], predicted: tuple[int, int]
) -> dict[str, Any]:
    """The contents of results.json.

    `predicted` are the points for the predictions, and the most points for them.

    All of it is shown to the student: the output of a check contains no secrets.
    """
    given, of = predicted
    tests = [
        _test(
            "Predictions",
            given,
            of,
            "Any prediction counts, if it was made before the lab.",
            passed=given == of,
        )
    ]
    for check in result.checks:
        output = " ".join(part for part in (_OUTCOME_TEXTS[check.outcome], check.message) if part)
        name = f"{check.name}: {titles.get(check.name, '')}".rstrip(": ")
        tests.append(_test(name, check.points, check.of, output, passed=check.outcome == "passed"))
    return {
        "score": sum(test["score"] for test in tests),
        "execution_time": round(sum(check.seconds for check in result.checks)),
        "output": f"Instance {result.nonce}. The explanations, 20 points, are judged by a person.",
        "output_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": tests,
        "extra_data": {
            "lab": result.lab,
            "student": result.student,
            "nonce": result.nonce,
            "digest": result.digest,
        },
    }


def _test(name: str, score: int, most: int, output: str, *, passed: bool) -> dict[str, Any]:
    return {
        "name": name,
        "score": score,
        "max_score": most,
        "status": "passed" if passed else "failed",
        "output": output,
        "output_format": "text",
        "visibility": "visible",
    }
