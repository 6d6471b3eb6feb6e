"""Results for Classroom 50: `result.json` of the schema `classroom50/result/v1`.

https://github.com/foundation50/classroom50/wiki/Advanced-Autograding, read in November 2026.
Points are whole numbers there. `owner` and the type of the assignment are the runner's to add: it
knows them from
GitHub.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from shuffledp_core.errors import ConfigError
from shuffledp_labs.results import LabResult

SCHEMA: Final = "classroom50/result/v1"

_FROM_RUNNER: Final = {
    "classroom": "CLASSROOM",
    "assignment": "ASSIGNMENT",
    "submission": "SUBMISSION_TAG",
    "commit": "COMMIT_URL",
    "release": "RELEASE_URL",
}


def result_json(
    result: LabResult, predicted: tuple[int, int], environment: Mapping[str, str], now: datetime
) -> dict[str, Any]:
    """The contents of result.json, with facts from the runner's environment variables.

    Raises:
        ConfigError: an environment variable is missing, as it is outside the runner.
    """
    missing = [name for name in _FROM_RUNNER.values() if not environment.get(name)]
    if missing:
        raise ConfigError(
            f"the runner of Classroom 50 sets {', '.join(missing)}; this is not such a run"
        )
    given, of = predicted
    tests = [_test("Predictions", given, of, passed=given == of)]
    tests += [
        _test(check.name, check.points, check.of, passed=check.outcome == "passed")
        | {"said": check.message}
        for check in result.checks
    ]
    return {
        "schema": SCHEMA,
        **{field: environment[name] for field, name in _FROM_RUNNER.items()},
        "review": environment.get("REVIEW_URL") or environment["COMMIT_URL"],
        "datetime": now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "score": sum(test["score"] for test in tests),
        "max-score": sum(test["max-score"] for test in tests),
        "tests": tests,
    }


def _test(name: str, score: int, most: int, *, passed: bool) -> dict[str, Any]:
    return {"test-name": name, "passed": passed, "score": int(score), "max-score": int(most)}
