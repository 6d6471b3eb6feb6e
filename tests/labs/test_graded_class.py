"""A class with ten hostile submissions is graded to a complete table; they cost only themselves.

`make test-class CLASS=200` grades so many; `make test-slow` grades twelve, of which ten are
hostile. `make test` runs hostile programs one by one (`test_box_of_another_user.py`,
`test_student_program.py`) and grades a class of hostile folders (`test_hostile_submissions.py`).
"""

from __future__ import annotations

import csv
import os
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner
from wrong_programs import solution

from shuffledp.cli import app
from shuffledp_labs.installed import lab as lab_of
from shuffledp_labs.lab import CHECK_POINTS
from shuffledp_labs.teaching.course import init_course

LAB = 8
"""Its checks are the shortest, and none needs a running system."""

SUBMISSIONS = int(os.environ.get("LAB_CLASS", "12"))
FULL = SUBMISSIONS > 12
JOBS = 2

pytestmark = [pytest.mark.slow, pytest.mark.timeout(0 if FULL else 1200)]

BEGINNING = """
import os
import socket
import subprocess
import time
from fractions import Fraction

"""
FUNCTIONS = """

def delta(*given):
    return attack()


def worst(*given):
    return attack()


def refute(*given):
    return attack()
"""

ATTACKS = {
    "imports-answers": """
def attack():
    from shuffledp_labs.lab08_theorem.exact import delta_of
    return delta_of
""",
    "opens-socket": """
def attack():
    with socket.create_connection(("127.0.0.1", 22), timeout=1):
        return 1
""",
    "writes-results": """
def attack():
    for folder in ("/tmp", "..", "../..", os.path.expanduser("~")):
        try:
            with open(os.path.join(folder, "results.csv"), "w") as file:
                file.write("student,points\\nwrites-results,80\\n")
        except OSError:
            pass
    return 1
""",
    "forks": """
def attack():
    while True:
        os.fork()
""",
    "eats-memory": """
def attack():
    return bytearray(10**12)
""",
    "prints-much": """
def attack():
    for _ in range(1024):
        print("x" * 2**20)
    return 1
""",
    "huge-fraction": """
def attack():
    return Fraction(2**23_000_000 + 1, 3)
""",
    "many-digits": """
def attack():
    return 10**5000
""",
    "sparse-file": "",
    "results.csv": """
def attack():
    os._exit(0)
""",
}
SLEEPS = """
def attack():
    time.sleep(10**6)
"""


def hand_in(folder: Path) -> set[str]:
    """Ten hostile submissions, and right ones for the rest of the class, whose names it returns."""
    assert len(ATTACKS) == 10
    for name, attack in ATTACKS.items():
        place = folder / name
        place.mkdir(parents=True)
        source = SLEEPS if FULL and name == "many-digits" else attack
        (place / "work.py").write_text(BEGINNING + source + FUNCTIONS)
    with (folder / "sparse-file" / "work.py").open("wb") as file:
        file.truncate(40 * 2**30)
    right = solution(f"{LAB:02}").read_text()
    honest = {f"student-{number:03}" for number in range(SUBMISSIONS - len(ATTACKS))}
    for name in honest:
        place = folder / name
        place.mkdir()
        (place / "work.py").write_text(right)
    return honest


def test_a_class_with_ten_hostile_submissions_has_a_complete_table(tmp_path: Path) -> None:
    honest = hand_in(tmp_path / "in")
    init_course(tmp_path / "course", "Course", ())
    key = tmp_path / "course" / "course.key"
    graded = tmp_path / "graded"
    words = ["lab", "grade", str(LAB), "--submissions", str(tmp_path / "in"), "--key", str(key)]
    begin = time.monotonic()
    done = CliRunner().invoke(
        app, [*words, "--out", str(graded), "--jobs", str(JOBS), "--no-system"]
    )
    seconds = time.monotonic() - begin
    print(f"{SUBMISSIONS} submissions, {JOBS} at a time: {seconds:.0f} s")  # noqa: T201
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    with (graded / "results.csv").open() as file:
        # The submission results.csv is graded under another name: that one is the table's.
        rows = {row["student"].removesuffix("_"): row for row in csv.DictReader(file)}
    assert rows.keys() == honest | ATTACKS.keys()
    points = {name: int(row["points"]) for name, row in rows.items()}
    assert {points[name] for name in ATTACKS} == {0}
    assert {points[name] for name in honest} == {CHECK_POINTS}
    assert "larger than" in rows["sparse-file"]["trouble"]
    assert not any(rows[name]["trouble"] for name in honest)
    assert not any(check.system for check in lab_of(LAB).checks)
    with (graded / "checks.csv").open() as file:
        counts = {row.pop("check"): row for row in csv.DictReader(file)}
    assert list(counts) == [check.name for check in lab_of(LAB).checks]
    for row in counts.values():
        assert int(row["passed"]) == len(honest)
        assert int(row["ungraded"]) == 1  # the file that is too large
        assert sum(map(int, row.values())) == SUBMISSIONS
