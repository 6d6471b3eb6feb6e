"""Run the test vectors against any implementation.

    python tests/vectors/vector_runner.py COMMAND [ARGUMENT ..]

The command reads one case on each line of its standard input, `{"kind": .., "input": {..}}`, and
writes one answer on each line of its output: `{"ok": {..}}`, `{"error": "NameOfTheError"}`, or
`{"unsupported": "why"}` for what it does not implement. Status 1: an answer differs.
docs/reference/vectors.md.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parent

FILES: Final = (
    "signatures", "documents", "rounds", "questions", "logs", "layers", "envelopes", "geometries",
    "integers", "samplers", "laws", "numbers", "claims", "receipts", "results", "tiles",
    "verified",
)  # fmt: skip
"""Every file of vectors but mixing.json, which has a form of its own."""

RELATIVE: Final = 1e-6
"""Largest relative difference of a computed number that is not whole."""

SMALLEST: Final = 1e-11
"""Numbers this small count as equal: what floating point leaves of a difference."""


def load_cases(name: str) -> list[dict[str, Any]]:
    """All cases of one file."""
    data = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return list(data["cases"])


def find_difference(case: dict[str, Any], answer: dict[str, Any]) -> str | None:
    """Describe how an answer differs from the case's; None if it does not."""
    expected = case["expect"]
    if set(answer) != set(expected):
        return f"expected {expected}, got {answer}"
    if "error" in expected:
        wrong = answer["error"] != expected["error"]
        return f"expected {expected['error']}, got {answer['error']}" if wrong else None
    return _compare(expected["ok"], answer["ok"], case.get("within", {}), "ok")


def _compare(expected: Any, actual: Any, within: dict[str, float], path: str) -> str | None:
    if isinstance(expected, dict) and isinstance(actual, dict):
        if set(expected) != set(actual):
            return f"{path} has the fields {sorted(actual)}, not {sorted(expected)}"
        pairs = [(f"{path}.{key}", expected[key], actual[key]) for key in expected]
    elif isinstance(expected, list) and isinstance(actual, list):
        if len(expected) != len(actual):
            return f"{path} has {len(actual)} entries, not {len(expected)}"
        numbered = zip(expected, actual, strict=True)
        pairs = [(f"{path}[{index}]", *pair) for index, pair in enumerate(numbered)]
    else:
        field = path.rpartition(".")[2].partition("[")[0]
        equal = _is_close(expected, actual, within.get(field, 0.0))
        return None if equal else f"{path} is {actual!r}, not {expected!r}"
    return next(
        filter(None, (_compare(left, right, within, at) for at, left, right in pairs)), None
    )


def _is_close(expected: Any, actual: Any, slack: float) -> bool:
    numbers = all(
        isinstance(value, int | float) and not isinstance(value, bool)
        for value in (expected, actual)
    )
    if not numbers:
        return type(expected) is type(actual) and bool(expected == actual)
    return math.isclose(expected, actual, rel_tol=RELATIVE, abs_tol=slack + SMALLEST)


def main(command: list[str]) -> int:
    """Run all files against a command; print what differs."""
    cases = [(name, case) for name in FILES for case in load_cases(name)]
    questions = "".join(
        json.dumps({"kind": case["kind"], "input": case["input"]}) + "\n" for _, case in cases
    )
    finished = subprocess.run(command, input=questions, capture_output=True, text=True, check=True)
    answers = [json.loads(line) for line in finished.stdout.splitlines()]
    if len(answers) != len(cases):
        sys.stdout.write(f"{len(answers)} answers to {len(cases)} cases\n")
        return 1
    different = unsupported = 0
    for (name, case), answer in zip(cases, answers, strict=True):
        if "unsupported" in answer:
            unsupported += 1
            continue
        difference = find_difference(case, answer)
        if difference is not None:
            different += 1
            sys.stdout.write(f"{name}: {case['name']}: {difference}\n")
    sys.stdout.write(
        f"{len(cases)} cases: {len(cases) - different - unsupported} as expected, "
        f"{different} different, {unsupported} unsupported\n"
    )
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
