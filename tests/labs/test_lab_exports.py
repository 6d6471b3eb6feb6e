"""Results as other programs take them: each validator is written from the service's own
specification."""

import csv
import io
from datetime import UTC, datetime
from typing import Any

import pytest

from shuffledp_core.errors import ConfigError
from shuffledp_labs.results import CheckResult, LabResult
from shuffledp_labs.teaching.exports.classroom import result_json
from shuffledp_labs.teaching.exports.gradescope import results_json
from shuffledp_labs.teaching.exports.table import TableRow, table

CHECKS = (
    CheckResult("B-law", 25, 25, "passed", "5 laws, equal in rationals", 1.5),
    CheckResult("C-mean", 0, 30, "failed", "the mean is off by 1/3", 0.5),
    CheckResult("D-guess", 0, 10, "not-reached", "needs C-mean first", 0.0),
    CheckResult("E-round", 0, 10, "error", "no free port", 0.1),
)
RESULT = LabResult(1, "ada", "00" * 16, "ab" * 32, 25, CHECKS, "bubblewrap", finished=True)
TITLES = {"B-law": "the law is exact"}
RUNNER = {
    "CLASSROOM": "privacy",
    "ASSIGNMENT": "lab-1",
    "SUBMISSION_TAG": "submit/2026-11-01T10-00-00Z-abcdef0",
    "COMMIT_URL": "https://github.com/o/r/commit/abc",
    "RELEASE_URL": "https://github.com/o/r/releases/tag/x",
}


def assert_gradescope(content: dict[str, Any]) -> None:
    """The fields of gradescope-autograders.readthedocs.io/en/latest/specs/, and no others."""
    visible = {"hidden", "after_due_date", "after_published", "visible"}
    formats = {"text", "html", "simple_format", "md", "ansi"}
    assert content.keys() <= {
        "score", "execution_time", "output", "output_format", "test_output_format",
        "test_name_format", "visibility",
        "stdout_visibility", "extra_data", "tests", "leaderboard",
    }  # fmt: skip
    assert isinstance(content["score"], int)
    assert content.get("visibility", "visible") in visible
    assert (
        content.get("stdout_visibility", "hidden") == "hidden"
    )  # what a submission prints must not be able to talk
    for test in content.get("tests", ()):
        assert test.keys() <= {
            "score", "max_score", "status", "name", "name_format", "number", "output",
            "output_format", "tags",
            "visibility", "extra_data",
        }  # fmt: skip
        assert 0 <= test["score"] <= test["max_score"]
        assert test["status"] in {"passed", "failed"}
        assert test["output_format"] in formats
        assert test["visibility"] in visible


def assert_classroom50(content: dict[str, Any]) -> None:
    """What `collect-scores` of Classroom 50 asks of a result, but for the fields that its runner
    stamps."""
    assert content["schema"] == "classroom50/result/v1"
    for field in (
        "classroom",
        "assignment",
        "submission",
        "commit",
        "release",
        "review",
        "datetime",
    ):
        assert isinstance(content[field], str)
        assert content[field]
    datetime.strptime(content["datetime"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    assert content["submission"].startswith("submit/")
    for one in (content, *content["tests"]):
        assert type(one["score"]) is int
        assert type(one["max-score"]) is int
        assert 0 <= one["score"] <= one["max-score"]
    for test in content["tests"]:
        assert type(test["passed"]) is bool
        assert test["test-name"]


def test_a_result_is_one_that_gradescope_takes() -> None:
    content = results_json(RESULT, TITLES, (5, 5))
    assert_gradescope(content)
    assert content["score"] == 30
    assert sum(test["max_score"] for test in content["tests"]) == 80
    assert [test["status"] for test in content["tests"]] == [
        "passed",
        "passed",
        "failed",
        "failed",
        "failed",
    ]
    assert content["tests"][1]["name"] == "B-law: the law is exact"
    assert "off by 1/3" in content["tests"][2]["output"]
    assert content["extra_data"]["nonce"] == "00" * 16


def test_a_result_is_one_that_classroom_50_takes() -> None:
    content = result_json(RESULT, (0, 5), RUNNER, datetime(2026, 11, 1, 12, tzinfo=UTC))
    assert_classroom50(content)
    assert (content["score"], content["max-score"]) == (25, 80)
    assert content["review"] == RUNNER["COMMIT_URL"]


def test_outside_of_its_runner_classroom_50_gets_no_result() -> None:
    with pytest.raises(ConfigError, match="COMMIT_URL"):
        result_json(RESULT, (5, 5), RUNNER | {"COMMIT_URL": ""}, datetime(2026, 11, 1, tzinfo=UTC))


def test_the_table_has_a_row_for_everybody_sorted_and_with_the_points_of_each_check() -> None:
    text = table(
        [TableRow("bob", None, trouble="no work.py"), TableRow("ada", RESULT, 5)],
        [check.name for check in CHECKS],
    )
    ada, bob = csv.DictReader(io.StringIO(text))
    assert (ada["student"], ada["points"], ada["B-law"], ada["E-round"], ada["trouble"]) == (
        "ada",
        "30",
        "25",
        "0",
        "",
    )
    assert (bob["student"], bob["points"], bob["trouble"]) == ("bob", "0", "no work.py")
    assert ada["explanations"] == ""


def test_no_cell_of_the_table_is_a_formula() -> None:
    text = table(
        [
            TableRow("ada", None, trouble='=HYPERLINK("https://example.org")'),
            TableRow("@sum", None),
        ],
        [],
    )
    for row in csv.reader(io.StringIO(text)):
        assert not any(cell.startswith(("=", "+", "-", "@")) for cell in row)
