"""Every lab that is there: its solution gets all points, its stub none, and each wrong program
loses its check.

`make test-labs INSTANCES=200 SYSTEMS=20` draws so many fresh instances; `make test` draws one, and
starts no systems. Of a lab's wrong programs it runs the first; `make test-slow` runs the others,
which take 2 minutes of a processor."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from wrong_programs import solution, wrong_programs

from shuffledp_labs.checking import LabRun, Watcher, run_checks, select_by_step
from shuffledp_labs.installed import all_labs, lab
from shuffledp_labs.instance import fresh_nonce, instance
from shuffledp_labs.lab import CHECK_POINTS, Check, Lab
from shuffledp_labs.results import LabResult
from shuffledp_labs.teaching.starting import start

INSTANCES = int(os.environ.get("LAB_INSTANCES", "1"))
SYSTEMS = int(os.environ.get("LAB_SYSTEMS", "0"))
LABS = {f"{each.number:02}": each for each in all_labs()}
WRONG = {f"{number}/{each.name}": each for number in LABS for each in wrong_programs(number)}
FIRST = {next(name for name in WRONG if name.startswith(number)) for number in LABS}

pytestmark = pytest.mark.timeout(0 if INSTANCES + SYSTEMS > 1 else 1200)


def checked(of: Lab, work: Path, chosen: Callable[[Check], bool]) -> LabResult:
    nonce = fresh_nonce()
    run = LabRun(
        of,
        work,
        instance(b"the key of these tests", of.number, "tests", nonce),
        "tests",
        nonce,
        chosen,
    )
    return run_checks(run, Watcher())


@pytest.mark.parametrize("number", LABS)
def test_the_solution_gets_all_points(number: str) -> None:
    for turn in range(max(INSTANCES, SYSTEMS)):
        systems = turn < SYSTEMS
        result = checked(LABS[number], solution(number), select_by_step(None, system=systems))
        lost = [check for check in result.checks if check.outcome not in {"passed", "left-out"}]
        assert not lost, f"nonce {result.nonce}"
        assert result.points == sum(
            check.points for check in LABS[number].checks if systems or not check.system
        )


@pytest.mark.parametrize("number", LABS)
def test_the_stub_gets_none_and_says_what_to_write(number: str, tmp_path: Path) -> None:
    place = start(LABS[number], tmp_path / "lab")
    result = checked(LABS[number], place.work, select_by_step(None, system=SYSTEMS > 0))
    assert result.points == 0
    for check in result.checks:
        assert check.outcome in {"failed", "not-reached", "left-out"}, check.message
        assert "Traceback" not in check.message


@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(name, marks=() if name in FIRST or INSTANCES > 1 else pytest.mark.slow)
        for name in WRONG
    ],
)
def test_a_wrong_program_loses_its_check_every_time_and_no_other(
    mutant: str, tmp_path: Path
) -> None:
    """On the first instance with the checks before it, which it has to pass.

    Before a term (more than one instance) all checks without a system run on it, and only the named
    ones fail. On the other instances the check runs alone.
    """
    wrong = WRONG[mutant]
    lab_of = LABS[wrong.lab]
    (check,) = (check for check in lab_of.checks if check.name == wrong.loses)
    file = tmp_path / "work.py"
    file.write_text(wrong.text)
    for _ in range(min(SYSTEMS, INSTANCES) if check.system else INSTANCES):
        result = checked(
            lab_of,
            file,
            lambda each: each.name == wrong.loses or (INSTANCES > 1 and not each.system),
        )
        failures = {each.name: each.message for each in result.checks if each.outcome == "failed"}
        assert wrong.loses in failures, f"nonce {result.nonce}"
        assert failures.keys() <= {wrong.loses, *wrong.also}, f"{failures}; nonce {result.nonce}"
        lab_of = replace(LABS[wrong.lab], checks=(replace(check, needs=(), points=CHECK_POINTS),))


def test_wrong_programs_use_no_name_that_their_solution_no_longer_has(tmp_path: Path) -> None:
    """Such a program fails by a NameError, loses its check for that alone, and shows nothing about
    the check."""
    for mutant, wrong in WRONG.items():
        (tmp_path / f"{mutant.replace('/', '_')}.py").write_text(wrong.text)
    command = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--isolated",
        "--quiet",
        "--output-format",
        "concise",
    ]
    found = subprocess.run(
        [*command, "--select", "F821,F823", tmp_path], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.parametrize("number", LABS)
def test_a_lab_is_whole(number: str) -> None:
    """Six wrong programs at least, files for students and teachers, no check that fails by chance
    above 1e-9."""
    of = LABS[number]
    assert len([name for name in WRONG if name.startswith(number)]) >= 6
    assert all(check.chance <= 1e-9 for check in of.checks)
    assert len(of.explanations) == 2
    assert lab(of.number) is of
    for name in ("handout.md", "work.py", "predict.toml", "report.md", "instructor.md"):
        assert of.file(name).is_file(), name
    handout = of.file("handout.md").read_text()
    for check in of.checks:
        assert check.name in handout, (
            f"the handout of lab {number} has to say what {check.name} grades"
        )
