"""The flood of a real deployment's round in lab 6, up to the network.

Tests/deploy plays it whole, in containers.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import KRRHistogram, Mechanism, RRShuffle
from shuffledp_labs.errors import BadAnswer
from shuffledp_labs.lab06_surrounded.flooding import Flooding, _call_submissions, _plan, flood
from shuffledp_labs.lab06_surrounded.guessing import Flood
from shuffledp_labs.student.process import StudentProgram

KRR = KRRHistogram(symbols=4, blanket=Fraction(1, 2))


def a_round(mechanism: Mechanism) -> Any:
    return SimpleNamespace(mechanism=mechanism, certificate=SimpleNamespace(users=20))


def test_a_students_file_gets_the_plan_that_the_lab_documents() -> None:
    plan = _plan(a_round(KRR), 19, [10, 17, 29, 44])
    prior = tuple(Fraction(weight, 100) for weight in (10, 17, 29, 44))
    assert plan == Flood(20, 19, 4, Fraction(5, 8), prior).plan
    assert _plan(a_round(KRR), 19, None)["prior"] == (Fraction(1, 4),) * 4


@pytest.mark.parametrize(
    ("mechanism", "prior", "says"),
    [
        (
            RRShuffle(max_value=3, randomise=Fraction(1, 2)),
            None,
            "rr-shuffle; lab 6 floods rounds of krr-histogram",
        ),
        (KRR, [1, 2], "4 values"),
        (KRR, [-1, 1, 1, 1], "none below 0"),
        (KRR, [0, 0, 0, 0], "none below 0"),
    ],
    ids=["sum", "short", "negative", "nothing"],
)
def test_what_the_lab_cannot_flood_is_refused(
    mechanism: Mechanism, prior: list[int] | None, says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        _plan(a_round(mechanism), 19, prior)


def test_no_account_is_no_flood(tmp_path: Path) -> None:
    with (
        pytest.raises(UsageError, match="one account at least"),
        StudentProgram(tmp_path / "none", tmp_path) as none,
    ):
        flood(none, [], None)


def test_only_one_symbol_for_each_account_is_sent(tmp_path: Path) -> None:
    work = tmp_path / "work.py"
    work.write_text("def submissions(plan):\n    return plan['wanted']\n")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with StudentProgram(work, scratch) as program:
        for wrong in ((0, 1), (0, 1, 4), (0, 1, -1), (0, 1, True), 3, None):
            with pytest.raises(BadAnswer, match="3 whole numbers from 0 to 3"):
                _call_submissions(program, {"accounts": 3, "symbols": 4, "wanted": wrong})
        assert _call_submissions(program, {"accounts": 3, "symbols": 4, "wanted": (0, 1, 3)}) == (
            0,
            1,
            3,
        )


def test_what_is_left_is_the_board_without_the_accounts() -> None:
    assert Flooding((3, 2, 1, 0), (3, 1, 0, 0), 1).others_sent == (0, 1, 1, 0)
