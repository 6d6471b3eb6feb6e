"""Lab 10: composition against enumeration, the model, the locks, the broken accountants, the
handout's numbers."""

from __future__ import annotations

import importlib.util
import math
import subprocess
import sys
from itertools import product
from pathlib import Path
from types import ModuleType

import mpmath
import pytest

from shuffledp_labs.checking import LabRun, Watcher, run_checks, select_by_step
from shuffledp_labs.errors import CheckFailure
from shuffledp_labs.instance import Draws
from shuffledp_labs.lab05_again.budget import days_allowed
from shuffledp_labs.lab10_spend import LAB
from shuffledp_labs.lab10_spend.accountants import FAULTS, open_sealed
from shuffledp_labs.lab10_spend.checks import KILLS, KILLS_VARIABLE, kills
from shuffledp_labs.lab10_spend.exact import basic, exact_epsilon, sharper, textbook
from shuffledp_labs.lab10_spend.model import Call, Model, draw_history
from shuffledp_labs.lab10_spend.show import BUDGET, accountant, one_day
from shuffledp_labs.lab10_spend.together import is_locked
from shuffledp_labs.lab10_spend.trying import Signer

HANDOUT = " ".join(LAB.file("handout.md").read_text(encoding="utf-8").split())
INSTRUCTOR = " ".join(LAB.file("instructor.md").read_text(encoding="utf-8").split())
OTHER = Path(__file__).with_name("other_work_10.py")


def loaded(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def enumerated_delta(rounds: tuple[float, ...], epsilon: float) -> float:
    """δ at ε of randomised response in every round, from all 2^n outcomes."""
    with mpmath.workdps(40):
        total = mpmath.mpf(0)
        for signs in product((1, -1), repeat=len(rounds)):
            here = mpmath.fprod(
                1 / (1 + mpmath.exp(-s * mpmath.mpf(e))) for s, e in zip(signs, rounds, strict=True)
            )
            there = mpmath.fprod(
                1 / (1 + mpmath.exp(s * mpmath.mpf(e))) for s, e in zip(signs, rounds, strict=True)
            )
            total += max(mpmath.mpf(0), here - mpmath.exp(mpmath.mpf(epsilon)) * there)
        return float(total)


@pytest.mark.parametrize(
    "rounds", [(0.7,), (0.3, 0.9), (0.2,) * 7, (0.1, 2.0, 0.5, 0.5, 0.1), (3.0,) * 5]
)
@pytest.mark.parametrize("delta", [1e-6, 1e-3, 0.1])
def test_the_exact_epsilon_is_that_of_all_outcomes(rounds: tuple[float, ...], delta: float) -> None:
    epsilon = exact_epsilon(rounds, delta)
    found = enumerated_delta(rounds, epsilon)
    # At ε = 0 the rounds may do with less than δ.
    assert found == pytest.approx(delta, rel=1e-9) or (epsilon == 0 and found <= delta)


def test_without_a_delta_the_exact_epsilon_is_the_sum_and_without_rounds_it_is_nothing() -> None:
    assert exact_epsilon((0.3, 0.4, 1.1), 0.0) == pytest.approx(1.8, rel=1e-12)
    assert exact_epsilon((), 0.0) == exact_epsilon((), 1e-3) == 0.0


@pytest.mark.parametrize("delta", [1e-8, 1e-4, 0.05])
@pytest.mark.parametrize("rounds", [(0.05,) * 80, (0.8,) * 40, (0.1,) * 30 + (0.6,) * 9])
def test_both_closed_forms_are_sound(rounds: tuple[float, ...], delta: float) -> None:
    assert exact_epsilon(rounds, delta) <= sharper(rounds, delta) <= textbook(rounds, delta)
    assert exact_epsilon(rounds, delta) <= basic(rounds)


def test_the_table_of_the_handout_is_computed() -> None:
    rounds = (0.773,) * 100
    assert round(one_day(), 3) == 0.773
    values = {
        "the plain sum": basic(rounds),
        "+ tail": textbook(rounds, 1e-3),
        "tanh(ε_i/2) + tail": sharper(rounds, 1e-3),
        "2015)": exact_epsilon(rounds, 1e-3),
        "certified .773 each": accountant(100),
    }
    for row, value in values.items():
        assert f"{row} | {value:.1f} |" in HANDOUT
        assert f"{value:.1f}" in INSTRUCTOR
    first = math.fsum(epsilon * math.expm1(epsilon) for epsilon in rounds)
    assert f"{first:.1f} of the 118.9" in INSTRUCTOR


def test_the_sharper_form_helps_from_35_rounds_on_and_the_textbooks_never() -> None:
    lists = [(0.773,) * count for count in range(1, 120)]
    assert [len(rounds) for rounds in lists if sharper(rounds, 1e-3) < basic(rounds)] == list(
        range(35, 120)
    )
    assert all(textbook(rounds, 1e-3) > basic(rounds) for rounds in lists)
    assert 0.773 * math.expm1(0.773) > 0.773  # its first term alone, for any number of rounds
    assert "from 35 rounds on" in HANDOUT
    assert "from 35 rounds on" in INSTRUCTOR


def test_a_ledger_that_adds_up_pays_for_fewer_days() -> None:
    assert BUDGET // one_day() == 3
    assert days_allowed(BUDGET, 20, 100) == 11
    assert (
        "Your ledger adds up, and covers 3 days; the accountant's composes, and covers 11."
        in HANDOUT
    )


def test_the_instructors_example_of_small_rounds() -> None:
    rounds = (0.1,) * 100
    said = (textbook(rounds, 1e-5), sharper(rounds, 1e-5), exact_epsilon(rounds, 1e-5))
    assert "sum 10, textbook {:.2f}, sharper {:.2f}, exact {:.2f}".format(*said) in INSTRUCTOR


def test_the_handout_has_the_number_of_kills() -> None:
    assert f"SIGKILL during a call, {KILLS} times" in HANDOUT
    assert f"`{KILLS_VARIABLE}=200`" in INSTRUCTOR


def test_the_number_of_kills_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, count in (("200", 200), ("0", 1), ("", KILLS), ("many", KILLS)):
        monkeypatch.setenv(KILLS_VARIABLE, text)
        assert kills() == count


def test_a_drawn_history_meets_every_rule() -> None:
    for seed in range(10):
        budget, calls = draw_history(Draws(bytes([seed])), 40)
        assert len(calls) == 60
        model, met = Model(budget), set()
        for call in calls:
            why = model.refusal(call)
            met.add((call.method, why))
            if not why:
                model.do(call)
            assert 0 <= model.total_spent <= budget
        assert met >= {
            ("reserve", ""),
            ("reserve", "more than the budget covers"),
            ("reserve", "a known round at another cost"),
            ("reserve", "a released round"),
            ("settle", "an unknown round"),
            ("settle", "a released round"),
            ("release", "a settled round"),
            ("release", ""),
            ("settle", ""),
        }


def test_a_budget_may_be_used_up_exactly() -> None:
    model = Model(10)
    assert model.refusal(Call("reserve", "a", 11))
    assert not model.refusal(Call("reserve", "a", 10))


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_a_lock_of_another_process_is_seen(mode: str, tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    program = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("PRAGMA journal_mode = " + sys.argv[2])
db.execute("CREATE TABLE t (x)")
for step in ("BEGIN", "SELECT * FROM t", "ROLLBACK", "BEGIN IMMEDIATE"):
    db.execute(step)
    print(flush=True)
    input()
"""
    command = [sys.executable, "-c", program, str(file), mode]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        seen = []
        for _ in range(4):
            process.stdout.readline()
            seen.append(is_locked(file))
            process.stdin.write("\n")
            process.stdin.flush()
    assert seen == [False, False, False, True]
    assert not is_locked(file)
    assert not is_locked(tmp_path / "absent.db")


def test_a_seal_says_its_total_and_is_never_the_same() -> None:
    signer = Signer(Draws(b"seals"))
    first, second = signer.sign(5), signer.sign(5)
    assert first != second
    assert signer.issued == {first: 5, second: 5}
    with pytest.raises(CheckFailure, match="one whole number"):
        signer.sign("5")


@pytest.mark.parametrize("fault", FAULTS)
def test_a_sealed_accountant_has_its_fault_and_no_other(fault: str) -> None:
    with open_sealed(fault, 18, 2.0) as accountant_:
        assert (
            loaded(OTHER).judge(
                2.0,
                accountant_.reserve,
                accountant_.both,
                accountant_.settle,
                accountant_.release,
                accountant_.spent_epsilon,
            )
            == fault
        )


def test_a_ledger_of_another_form_passes() -> None:
    # It signs outside of any transaction, and compares a revision before it charges.
    result = run_checks(
        LabRun(LAB, OTHER, Draws(b"another form"), selects=select_by_step("C", system=False)),
        Watcher(),
    )
    assert {
        check.name: check.message
        for check in result.checks
        if check.outcome not in {"passed", "left-out"}
    } == {}
