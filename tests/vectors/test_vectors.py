"""The test vectors: of one form, made again by the generator, and answered by this code as they
say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import make_vectors
import pytest
from jsonschema import Draft202012Validator
from vector_answers import ANSWERS, answer
from vector_runner import FILES, FOLDER, find_difference, load_cases

from shuffledp_core import errors
from shuffledp_core.mechanisms import MECHANISMS

SCHEMA: dict[str, Any] = json.loads((FOLDER / "schema.json").read_text(encoding="utf-8"))


def all_cases() -> Iterator[tuple[str, dict[str, Any]]]:
    for name in FILES:
        for case in load_cases(name):
            yield name, case


@pytest.mark.parametrize("name", FILES)
def test_every_file_has_the_form_of_the_schema(name: str) -> None:
    data = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    Draft202012Validator(SCHEMA).validate(data)
    names = [(case["kind"], case["name"]) for case in data["cases"]]
    assert len(set(names)) == len(names)


COMPUTED = {"documents", "rounds", "questions", "logs", "results", "verified"}
"""Files whose signed documents hold computed numbers: of these another machine's mathematics may
make other last digits, and with them other signatures and digests."""


@pytest.mark.parametrize("name", FILES)
def test_the_generator_makes_the_files_again(name: str) -> None:
    again = json.loads(make_vectors.make_text(name))["cases"]
    cases = load_cases(name)
    assert [case["name"] for case in again] == [case["name"] for case in cases]
    for repeated, case in zip(again, cases, strict=True):
        assert set(repeated["expect"]) == set(case["expect"])
        assert repeated["expect"].get("error") == case["expect"].get("error")
        if name not in COMPUTED:
            assert repeated["input"] == case["input"]
            assert find_difference(case, repeated["expect"]) is None


@pytest.mark.parametrize("name", FILES)
def test_this_code_answers_every_case_as_it_says(name: str) -> None:
    differences = {
        case["name"]: difference
        for case in load_cases(name)
        if (difference := find_difference(case, answer(case["kind"], case["input"]))) is not None
    }
    assert differences == {}


def test_every_kind_and_mechanism_occurs_and_every_error_is_one_of_the_project() -> None:
    kinds = Counter(case["kind"] for _, case in all_cases())
    assert set(kinds) == set(SCHEMA["$defs"]["kind"]["enum"]) == set(ANSWERS)
    sampled = {
        case["input"]["mechanism"]["mechanism"]
        for _, case in all_cases()
        if case["kind"] == "sample"
    }
    assert sampled == set(MECHANISMS)
    refusals = {case["expect"]["error"] for _, case in all_cases() if "error" in case["expect"]}
    assert len(refusals) >= 15
    assert all(issubclass(getattr(errors, name), errors.ShuffleDPError) for name in refusals)


def test_most_kinds_have_cases_that_must_be_refused() -> None:
    refused = {case["kind"] for _, case in all_cases() if "error" in case["expect"]}
    only_positive = {"seal", "seeded", "integers", "law", "numbers", "claim", "rounding"}
    assert refused == set(ANSWERS) - only_positive


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        ({"ok": {"a": 1}}, {"ok": {"a": 2}}),
        ({"ok": {"a": 1}}, {"ok": {"a": "1"}}),
        ({"ok": {"a": [1, 2]}}, {"ok": {"a": [1]}}),
        ({"ok": {"a": 1}}, {"ok": {"b": 1}}),
        ({"ok": {"a": 1e-7}}, {"ok": {"a": 1.00001e-7 + 1e-10}}),
        ({"ok": {"a": None}}, {"ok": {"a": 0}}),
        ({"ok": {"a": True}}, {"ok": {"a": 1}}),
        ({"ok": {}}, {"error": "SignatureError"}),
        ({"error": "SignatureError"}, {"ok": {}}),
        ({"error": "SignatureError"}, {"error": "RoundKeyError"}),
    ],
)
def test_the_runner_sees_every_difference(expected: dict[str, Any], actual: dict[str, Any]) -> None:
    assert find_difference({"expect": expected}, actual) is not None
    assert find_difference({"expect": expected}, expected) is None


def test_the_runner_runs_a_command() -> None:
    """As docs/reference/vectors.md says, with this project's own answers as the command."""
    finished = subprocess.run(
        [
            sys.executable,
            str(FOLDER / "vector_runner.py"),
            sys.executable,
            str(FOLDER / "vector_answers.py"),
        ],
        env=os.environ | {"PYTHONPATH": f"{FOLDER.parent / 'client'}:{FOLDER}"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "0 different, 0 unsupported" in finished.stdout
