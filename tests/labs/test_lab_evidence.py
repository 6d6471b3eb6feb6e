"""What the instructor's documents say about the checks is generated, complete and up to date."""

import ast
import json
import tomllib
from hashlib import sha256

import instructor_pages
import pytest
from effects import affected_steps
from mutation import OUTCOMES, changes_of
from wrong_programs import solution, wrong_programs

from shuffledp_labs.installed import all_labs
from shuffledp_labs.lab import Lab

LABS = list(all_labs())
EACH_LAB = pytest.mark.parametrize("lab", LABS, ids=lambda lab: str(lab.number))


def test_the_generated_pages_are_up_to_date() -> None:
    for file, text in instructor_pages.pages():
        remedy = f"{file.name}: run python labs/evidence/instructor_pages.py"
        assert file.read_text(encoding="utf-8") == text, remedy


@EACH_LAB
def test_every_check_without_a_system_has_a_wrong_program_that_loses_it(lab: Lab) -> None:
    programs = list(wrong_programs(f"{lab.number:02}"))
    losing = {wrong.loses for wrong in programs}
    assert {check.name for check in lab.checks if not check.system} <= losing
    names = {check.name for check in lab.checks}
    for wrong in programs:
        assert {wrong.loses, *wrong.also} <= names, wrong.name
        assert bool(wrong.also) == bool(wrong.reason), wrong.name
        assert wrong.loses not in wrong.also, wrong.name


@EACH_LAB
def test_a_wrong_program_affects_the_steps_of_the_checks_that_it_loses(lab: Lab) -> None:
    right = solution(f"{lab.number:02}").read_text()
    tested = {check.name for check in lab.checks if not check.system}
    for wrong in wrong_programs(f"{lab.number:02}"):
        steps = affected_steps(lab, right, wrong.text)
        lost = {wrong.loses, *wrong.also} & tested
        assert {name[0] for name in lost} <= steps, wrong.name


def test_mutation_testing_covers_every_solution_as_it_is() -> None:
    outcomes = json.loads(OUTCOMES.read_text())
    assert outcomes.keys() == {f"{lab.number:02}" for lab in LABS}
    for number, outcome in outcomes.items():
        digest = sha256(solution(number).read_bytes()).hexdigest()
        remedy = f"run python labs/evidence/mutation.py {int(number)}, then instructor_pages.py"
        assert outcome["solution"] == digest, remedy
        survivors = len(outcome["survivors"])
        assert sum(outcome["noticed"].values()) + survivors == outcome["tried"]


def test_every_survivor_has_a_reason_and_no_reason_is_left_over() -> None:
    outcomes = json.loads(OUTCOMES.read_text())
    reasons = tomllib.loads(instructor_pages.REASONS.read_text(encoding="utf-8"))
    survivors = {(lab, key) for lab, outcome in outcomes.items() for key in outcome["survivors"]}
    explained = {(lab, key) for lab, entries in reasons.items() for key in entries}
    assert survivors == explained
    assert all(text.strip() for entries in reasons.values() for text in entries.values())


def test_a_change_is_one_place_and_another_program() -> None:
    source = (
        "def f(x):\n    'doc'\n    if x < 1 and not x:\n        return x + 2\n    return True\n"
    )
    keys = {(change.old, change.new) for change in changes_of(source)}
    assert ("if x < 1 and (not x):", "if x <= 1 and (not x):") in keys
    assert ("if x < 1 and (not x):", "if x < 1 or not x:") in keys
    assert ("if x < 1 and (not x):", "if x < 1 and x:") in keys
    assert ("if x < 1 and (not x):", "if x < 2 and (not x):") in keys
    assert ("return x + 2", "return x - 2") in keys
    assert ("return x + 2", "return None") in keys
    assert ("return True", "return False") in keys
    programs = [change.text for change in changes_of(source)]
    assert len(set(programs)) == len(programs)
    assert ast.unparse(ast.parse(source)) not in programs
