"""Points come into the gradebooks of learning platforms, with late days; equal programs are
flagged."""

import csv
import io
from datetime import date, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner
from wrong_programs import solution, wrong_programs

from shuffledp.cli import app
from shuffledp_core.errors import UsageError
from shuffledp_labs.errors import LabUsageError
from shuffledp_labs.installed import lab as lab_of
from shuffledp_labs.teaching.course import COURSE_FILE, LabCourse, init_course, load_course, plan
from shuffledp_labs.teaching.gradebook import fill_gradebook, points_of_class, read_table
from shuffledp_labs.teaching.similarity import similar_programs

CANVAS = (
    "Student,ID,SIS User ID,SIS Login ID,Section,Lab 8 (4711)\r\n"
    "    Points Possible,,,,,100\r\n"
    '"Lovelace, Ada",17,s1,ada,A,\r\n'
    '"Bobbit, Bob",18,s2,bob,A,3\r\n'
    '"Absent, Zoe",19,s3,zoe,A,\r\n'
)
MOODLE = (
    "First name,Last name,ID number,Email address,Assignment: Lab 8 (Real)\n"
    "Ada,Lovelace,1,ada@example.org,-\n"
    "Bob,Bobbit,2,bob@example.org,-\n"
)
RESULTS = "student,points,explanations,predictions\n{ada},80,15,5\n{bob},40,,5\n"
DUE = date(2026, 10, 12)


def written(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(text, newline="")
    return file


def rows_of(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def test_canvas_gets_points_in_one_column_and_keeps_every_other_cell(tmp_path: Path) -> None:
    results = read_table(written(tmp_path, "r.csv", RESULTS.format(ada="ada", bob="bob")))
    points = points_of_class(results, None, 8, {})
    filled = fill_gradebook(read_table(written(tmp_path, "g.csv", CANVAS)), points, "Lab 8 (4711)")
    before = rows_of(CANVAS)
    after = rows_of(filled.text)
    assert [row[:5] for row in after] == [row[:5] for row in before]
    assert [row[5] for row in after] == ["Lab 8 (4711)", "100", "95", "40", ""]
    assert (filled.filled, filled.missing) == (2, ())


def test_moodle_finds_students_by_their_addresses_and_gets_a_new_column(tmp_path: Path) -> None:
    names = {"ada": "ada@example.org", "bob": "carl@example.org"}
    results = read_table(written(tmp_path, "r.csv", RESULTS.format(**names)))
    points = points_of_class(results, None, 8, {})
    filled = fill_gradebook(read_table(written(tmp_path, "g.csv", MOODLE)), points, "Lab 8")
    assert [row[-1] for row in rows_of(filled.text)] == ["Lab 8", "95", ""]
    assert filled.missing == ("carl@example.org",)


def test_a_gradebook_of_other_people_is_refused(tmp_path: Path) -> None:
    gradebook = read_table(written(tmp_path, "g.csv", CANVAS))
    with pytest.raises(UsageError, match="--id"):
        fill_gradebook(gradebook, {"eve": 1}, "Lab 8 (4711)")
    with pytest.raises(UsageError, match="--id"):
        fill_gradebook(gradebook, {"ada": 1}, "Lab 8 (4711)", "Section")


@pytest.mark.parametrize(
    "text", ["", "a,a\n1,2\n", "a,b\n1\n", 'a,b\n"1,2\n'], ids=["empty", "twice", "short", "quote"]
)
def test_what_is_not_a_table_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(LabUsageError):
        read_table(written(tmp_path, "table.csv", text))


@pytest.mark.parametrize("cell", ["21", "-1", "9.5", "9" * 5000, "²"])
def test_explanations_that_are_not_points_are_refused(tmp_path: Path, cell: str) -> None:
    text = f"student,points,explanations\nada,80,{cell}\n"
    with pytest.raises(LabUsageError, match="ada"):
        points_of_class(read_table(written(tmp_path, "r.csv", text)), None, 8, {})


@pytest.mark.parametrize(("late", "points"), [(-1, 80), (0, 80), (1, 70), (2, 60), (3, 0)])
def test_late_days_cost_points_until_nothing_counts(late: int, points: int) -> None:
    (planned,) = plan((8,), DUE - timedelta(7), 7)
    course = LabCourse(name="C", late_days=2, late_points=10, labs=(planned,))
    assert course.points_when_late(8, 80, DUE + timedelta(late)) == points
    assert course.points_when_late(8, 5, DUE + timedelta(1)) == 0


def test_a_new_course_accepts_nothing_late_and_its_file_says_so(tmp_path: Path) -> None:
    init_course(tmp_path / "course", "C", plan((8,), DUE, 7))
    course = load_course(tmp_path / "course")
    assert (course.late_days, course.late_points) == (0, 0)
    assert "late_days = 0" in (tmp_path / "course" / COURSE_FILE).read_text()


def test_the_command_fills_a_gradebook_with_late_days(tmp_path: Path) -> None:
    init_course(tmp_path / "course", "C", plan((8,), DUE - timedelta(7), 7))
    file = tmp_path / "course" / COURSE_FILE
    text = file.read_text().replace("late_days = 0", "late_days = 2")
    file.write_text(text.replace("late_points = 0", "late_points = 10"))
    times = "student,submitted\nada,2026-10-13T09:30\nbob,2026-10-12T23:59\n"
    words = ["lab", "gradebook", "8", "--column", "Lab 8 (4711)"]
    words += ["--gradebook", str(written(tmp_path, "g.csv", CANVAS))]
    words += ["--results", str(written(tmp_path, "r.csv", RESULTS.format(ada="ada", bob="bob")))]
    words += ["--course", str(tmp_path / "course"), "--to", str(tmp_path / "out.csv")]
    words += ["--submitted", str(written(tmp_path, "t.csv", times))]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    cells = [row[5] for row in rows_of((tmp_path / "out.csv").read_text())]
    assert cells == ["Lab 8 (4711)", "100", "85", "40", ""]


def test_copies_are_flagged_whatever_their_layout_and_names() -> None:
    text = solution("08").read_text()
    stub = lab_of(8).file("work.py").read_text()
    sources = {
        "ada": text,
        "bob": "# my own work\n" + text.replace("    ", "  "),
        "cleo": text.replace("symbols", "letters").replace("others", "rest"),
        "dan": stub,
        "eve": stub,
        "fay": "def (",
        "gus": next(wrong_programs("01")).text,
    }
    similar = similar_programs(sources, stub)
    assert similar["ada"] == "equal to bob; nearly equal to cleo"
    assert similar["bob"] == "equal to ada; nearly equal to cleo"
    assert similar["cleo"] == "nearly equal to ada; nearly equal to bob"
    assert similar.keys() == {"ada", "bob", "cleo"}


def test_hostile_texts_are_compared_without_an_error() -> None:
    texts = {"a": "(" * 10**5, "b": "\x00", "c": "'''", "d": "x = 1\n" * 10**5, "e": "\\"}
    assert similar_programs(texts, "") == {}
