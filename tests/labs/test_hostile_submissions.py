"""Submissions made to hurt a class: each is one row of the results, and the others are graded all
the same."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shuffledp.cli import app
from shuffledp_labs.checking import LabRun, Watcher, run_checks
from shuffledp_labs.errors import BadAnswer, StudentCrash
from shuffledp_labs.installed import lab as lab_of
from shuffledp_labs.instance import Draws
from shuffledp_labs.lab import Check, CheckAttempt, Lab
from shuffledp_labs.student.pipes import scratch_folder
from shuffledp_labs.student.process import StudentProgram
from shuffledp_labs.teaching.course import init_course

GIBIBYTES_40 = 40 * 2**30


def hand_in(folder: Path, student: str, source: str = "def (") -> Path:
    place = folder / student
    place.mkdir(parents=True)
    (place / "work.py").write_text(source)
    return place


def sparse(file: Path) -> None:
    with file.open("wb") as handle:
        handle.truncate(GIBIBYTES_40)


def hostile_class(folder: Path) -> None:
    """One honest student, and what else a folder can hold."""
    hand_in(folder, "ada")
    sparse(hand_in(folder, "sparse-work") / "work.py")
    sparse(hand_in(folder, "sparse-predictions") / "predict.toml")
    place = hand_in(folder, "sparse-kept")
    (place / ".lab").mkdir()
    sparse(place / ".lab" / "predictions.json")
    hand_in(folder, "results.csv")
    hand_in(folder, "a b")
    hand_in(folder, "a_b")
    os.mkfifo(hand_in(folder, "pipe") / "predict.toml")
    (hand_in(folder, "device") / "predict.toml").symlink_to("/dev/zero")
    place = hand_in(folder, "picture")
    (place / "out" / "picture.png").mkdir(parents=True)
    (place / "report.md").mkdir()
    hand_in(folder, "y" * 60 + "é" * 60)


def test_a_class_with_hostile_submissions_has_a_row_for_each_and_a_report_for_the_others(
    tmp_path: Path,
) -> None:
    hostile_class(tmp_path / "in")
    init_course(tmp_path / "course", "Course", ())
    words = [
        "lab",
        "grade",
        "8",
        "--submissions",
        str(tmp_path / "in"),
        "--out",
        str(tmp_path / "graded"),
    ]
    done = CliRunner().invoke(
        app, [*words, "--key", str(tmp_path / "course" / "course.key"), "--jobs", "2", "--reports"]
    )
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    with (tmp_path / "graded" / "results.csv").open() as file:
        rows = {row["student"]: row for row in csv.DictReader(file)}
    assert len(rows) == len(list((tmp_path / "in").iterdir()))
    assert {row["points"] for row in rows.values()} == {"0"}
    assert "larger than" in rows["sparse-work"]["trouble"]
    graded = {name for name, row in rows.items() if row["nonce"]}
    assert graded == rows.keys() - {"sparse-work"}
    for name in graded:
        assert (tmp_path / "graded" / name / "report.html").is_file(), name


NUMBERS = """
import os
from fractions import Fraction


def digits():
    return 10**5000


def fraction():
    return Fraction(2**23_000_000 + 1, 3)


def nested():
    return [[] for _ in range(300_000)]


def forged(body):
    for number in range(3, 64):
        try:
            os.write(number, len(body).to_bytes(4, "big") + body)
        except OSError:
            pass
    return 0


def small():
    return 1
"""


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StudentProgram]:
    file = tmp_path_factory.mktemp("numbers") / "work.py"
    file.write_text(NUMBERS)
    with scratch_folder() as scratch, StudentProgram(file, scratch) as program:
        yield program


@pytest.mark.parametrize("name", ["digits", "fraction"])
def test_a_number_of_many_digits_is_a_fault_of_the_student_that_says_how_many_may_be(
    numbers: StudentProgram, name: str
) -> None:
    with pytest.raises(BadAnswer, match=f"{name} gave a number of .* bits; the limit is 8,192"):
        numbers.call(name, seconds=120)


def test_an_answer_of_very_many_lists_is_a_fault_of_the_student(numbers: StudentProgram) -> None:
    with pytest.raises(BadAnswer, match="lists and dicts; the limit is 262,144"):
        numbers.call("nested", seconds=120)


@pytest.mark.parametrize(
    "value",
    [
        b'{"i":"0x%s"}' % (b"f" * 3000),
        b"9" * 4000,
        b'{"f":[{"i":"0x%s"},3]}' % (b"f" * 3000),
        b"[%s]" % (b"[]," * 2**18),
    ],
    ids=["tagged", "plain", "fraction", "lists"],
)
def test_a_frame_of_its_own_is_held_to_the_same_bounds(
    numbers: StudentProgram, value: bytes
) -> None:
    with pytest.raises(StudentCrash, match="something of its own"):
        numbers.call("forged", b'["done",%s,""]' % value.replace(b",]", b"]"), seconds=120)


def add_up(_: CheckAttempt) -> str:
    """A check that computes without end on numbers that are each within the bounds."""
    total = Fraction(0)
    while True:
        total += Fraction(1, 3**5000 + total.numerator % 1000)


def test_a_check_that_computes_too_long_on_what_it_was_given_costs_that_check_alone(
    tmp_path: Path,
) -> None:
    (tmp_path / "work.py").write_text(NUMBERS)
    first = Check("B-add", 5, "", add_up, seconds=1.0)
    rest = Check("C-rest", 70, "", lambda attempt: str(attempt.program.call("small")))
    model = lab_of(8)
    fields = {name: getattr(model, name) for name in Lab.__dataclass_fields__}
    run = LabRun(Lab(**fields | {"checks": (first, rest)}), tmp_path / "work.py", Draws(b"a"))
    added, other = run_checks(run, Watcher()).checks
    assert added.outcome == "failed"
    assert "more than 1 s of processor time" in added.message
    assert other.outcome == "passed"


def test_messages_are_as_long_as_a_reader_reads(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text("def delta(*_):\n    return 'x' * 10**6\n")
    result = run_checks(LabRun(lab_of(8), tmp_path / "work.py", Draws(b"a")), Watcher())
    assert max(len(check.message) for check in result.checks) <= 2000
