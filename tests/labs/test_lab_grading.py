"""A class is graded whatever is handed in: one bad submission costs itself alone, and nothing is
left behind."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from test_lab_exports import assert_gradescope
from typer.testing import CliRunner

from shuffledp.cli import app
from shuffledp_labs.errors import LabUsageError
from shuffledp_labs.installed import lab as lab_of
from shuffledp_labs.results import CheckResult, LabResult
from shuffledp_labs.teaching.apart import Apart
from shuffledp_labs.teaching.course import init_course
from shuffledp_labs.teaching.exports.table import TableRow
from shuffledp_labs.teaching.grading import Grading, faults, grade
from shuffledp_labs.teaching.submissions import StudentSubmission, find_submissions, student_name

LAB = lab_of(1)
SOLUTION = Path(__file__).parents[2] / "labs" / "solutions" / "lab01.py"
PATIENCE_SECONDS = 120.0
"""For a process to be gone; it takes milliseconds."""


def quiet(_done: int, _of: int) -> None: ...


def hand_in(folder: Path, student: str, source: str, where: str = "") -> None:
    place = folder / student / where
    place.mkdir(parents=True)
    (place / "work.py").write_text(source)


def grading(tmp_path: Path) -> Grading:
    return Grading(LAB, bytes(32), tmp_path / "graded", system=False)


def result_of(tmp_path: Path, student: str, out: str = "graded") -> LabResult:
    return msgspec.json.decode(
        (tmp_path / out / student / "result.json").read_bytes(), type=LabResult
    )


def same(one: LabResult, other: LabResult) -> bool:
    """Whether they are of the same instance and say the same; times differ."""

    def timeless(result: LabResult) -> LabResult:
        checks = tuple(msgspec.structs.replace(check, seconds=0.0) for check in result.checks)
        return msgspec.structs.replace(result, checks=checks)

    return timeless(one) == timeless(other)


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, TableRow]]:
    """A class whose folder holds what classes hand in."""
    folder = tmp_path_factory.mktemp("class")
    submissions = folder / "submissions"
    hand_in(submissions, "ada", SOLUTION.read_text(), "lab-1")
    answers = {"number": "1", "text": '"because"'}
    predicted = [
        f"{asked.key} = {answers.get(asked.kind) or json.dumps(asked.choices[0])}"
        for asked in LAB.predictions
    ]
    (submissions / "ada" / "lab-1" / "predict.toml").write_text("\n".join(predicted))
    hand_in(submissions, "bob", "def (")
    hand_in(submissions, "cleo", "import os\nos._exit(0)\n")
    hand_in(submissions, "dan", "", "one")
    hand_in(submissions, "dan", "", "two")
    (submissions / "eve").mkdir()
    (submissions / "fay").mkdir()
    (submissions / "fay" / "work.py").symlink_to(SOLUTION)
    rows = grade(grading(folder), find_submissions(submissions), 2, quiet)
    return folder, {row.student: row for row in rows}


def test_everybody_has_a_row_and_one_bad_submission_stops_nobody(
    graded: tuple[Path, dict[str, TableRow]],
) -> None:
    folder, rows = graded
    text = (folder / "graded" / "results.csv").read_text()
    points = {row["student"]: int(row["points"]) for row in csv.DictReader(io.StringIO(text))}
    system = sum(check.points for check in LAB.checks if check.system)
    assert points == {"ada": 80 - system, "bob": 0, "cleo": 0, "dan": 0, "eve": 0, "fay": 0}
    assert "more than one work.py" in rows["dan"].trouble
    assert "no work.py" in rows["eve"].trouble
    assert "no work.py" in rows["fay"].trouble  # a link into the grader's machine is no submission
    assert not any(rows[name].trouble for name in ("ada", "bob", "cleo"))


def test_each_gets_a_result_for_gradescope(graded: tuple[Path, dict[str, TableRow]]) -> None:
    folder, _ = graded
    for name in ("ada", "bob", "cleo"):
        content = json.loads((folder / "graded" / name / "results.json").read_text())
        assert_gradescope(content)
        assert sum(test["max_score"] for test in content["tests"]) == 80


def test_what_is_graded_is_not_graded_again_unless_it_changed_or_is_told_to(tmp_path: Path) -> None:
    hand_in(tmp_path / "in", "bob", "def (")
    hand_in(tmp_path / "in", "cleo", "def (")
    (bob, cleo) = grade(grading(tmp_path), find_submissions(tmp_path / "in"), 2, quiet)
    before = {name: result_of(tmp_path, name).nonce for name in ("bob", "cleo")}
    (tmp_path / "in" / "bob" / "work.py").write_text("def )")
    rows = {
        row.student: row
        for row in grade(grading(tmp_path), find_submissions(tmp_path / "in"), 2, quiet)
    }
    assert result_of(tmp_path, "bob").nonce != before["bob"]
    assert result_of(tmp_path, "cleo").nonce == before["cleo"]
    assert rows["cleo"].result == result_of(tmp_path, "cleo")
    grade(replace(grading(tmp_path), again=True), find_submissions(tmp_path / "in")[1:], 2, quiet)
    assert result_of(tmp_path, "cleo").nonce != before["cleo"]
    assert bob.trouble == cleo.trouble == ""


def test_a_grading_that_broke_off_is_done_by_the_next(tmp_path: Path) -> None:
    hand_in(tmp_path / "in", "bob", "def (")
    folder = tmp_path / "graded" / "bob"
    folder.mkdir(parents=True)
    (folder / "result.json").write_text("{half")
    (row,) = grade(grading(tmp_path), find_submissions(tmp_path / "in"), 1, quiet)
    assert row.result is not None
    assert row.result.finished


def test_a_fault_of_the_grader_is_the_instructors_to_see() -> None:
    good = CheckResult("B-law", 25, 25, "passed", "", 1.0)
    broken = CheckResult("E-round", 0, 10, "error", "no free port", 1.0)
    result = LabResult(1, "ada", "00", "00", 25, (good, broken), finished=True)
    assert faults(result) == "E-round could not be carried out: no free port"
    assert faults(msgspec.structs.replace(result, checks=(good,))) == faults(None) == ""


def test_the_same_nonce_repeats_a_result_and_another_key_does_not_see_it(
    graded: tuple[Path, dict[str, TableRow]],
) -> None:
    folder, rows = graded
    ada = rows["ada"].result
    assert ada is not None
    found = [one for one in find_submissions(folder / "submissions") if one.student == "ada"]
    replay = replace(grading(folder), out=folder / "replay", nonce=ada.nonce)
    grade(replay, found, 1, quiet)
    assert same(result_of(folder, "ada", "replay"), ada)


def test_an_interruption_ends_what_is_running_and_keeps_what_is_done(tmp_path: Path) -> None:
    for name in ("ada", "bob", "cleo"):
        hand_in(tmp_path / "in", name, "def (")

    def interrupt(_done: int, _of: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        grade(grading(tmp_path), find_submissions(tmp_path / "in"), 1, interrupt)
    (done,) = csv.DictReader((tmp_path / "graded" / "results.csv").read_text().splitlines())
    assert done["nonce"]
    assert len(list((tmp_path / "graded").glob("*/graded.json"))) < 3


def test_the_command_wants_a_key_and_a_nonce_that_is_one(tmp_path: Path) -> None:
    hand_in(tmp_path / "in", "bob", "def (")
    init_course(tmp_path / "course", "Course", ())
    words = [
        "lab",
        "grade",
        "1",
        "--submissions",
        str(tmp_path / "in"),
        "--out",
        str(tmp_path / "graded"),
    ]
    key = ["--key", str(tmp_path / "course" / "course.key")]
    assert "lab course init" in str(CliRunner().invoke(app, words).exception)
    assert "hex digits" in str(
        CliRunner().invoke(app, [*words, *key, "--replay", "../../etc"]).exception
    )
    assert "no submission is of" in str(
        CliRunner().invoke(app, [*words, *key, "--student", "ada"]).exception
    )
    done = CliRunner().invoke(app, [*words, *key, "--no-system", "--reports"])
    assert done.exit_code == 0, done.output
    assert "1 of 1 graded" in done.output
    assert "<h1>" in (tmp_path / "graded" / "bob" / "report.html").read_text()


def test_without_a_sandbox_nobody_elses_program_is_run_unless_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHUFFLEDP_LAB_BOX", "none")
    monkeypatch.setattr("shuffledp_labs.student.pipes._working", [])
    hand_in(tmp_path / "in", "bob", "def (")
    init_course(tmp_path / "course", "Course", ())
    words = [
        "lab",
        "grade",
        "1",
        "--submissions",
        str(tmp_path / "in"),
        "--out",
        str(tmp_path / "graded"),
    ]
    refused = CliRunner().invoke(app, [*words, "--key", str(tmp_path / "course" / "course.key")])
    assert isinstance(refused.exception, LabUsageError)
    assert not (tmp_path / "graded").exists()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("../../etc", "etc"),
        ("Zoë Lück", "Zoë_Lück"),
        ("a/b", "a_b"),
        ("...", "nameless"),
        ("x" * 200, "x" * 80),
        ("results.csv", "results.csv_"),
    ],
)
def test_a_name_leads_nowhere(text: str, name: str) -> None:
    assert student_name(text) == name


def test_two_of_one_name_are_two_submissions(tmp_path: Path) -> None:
    for name in ("a b", "a_b", "A b", "a_b_2"):
        hand_in(tmp_path, name, "")
    found = find_submissions(tmp_path)
    assert {str(one.folder and one.folder.name) for one in found} == {"a b", "a_b", "A b", "a_b_2"}
    assert len({one.student.casefold() for one in found}) == 4


def test_the_digest_of_a_submission_is_of_all_that_gives_points(tmp_path: Path) -> None:
    hand_in(tmp_path, "ada", "x = 1\n")
    one = StudentSubmission("ada", tmp_path / "ada")
    before = one.digest
    (tmp_path / "ada" / "predict.toml").write_text("a = 1\n")
    predicted = one.digest
    (tmp_path / "ada" / "helper.py").write_text("y = 2\n")
    assert len({before, predicted, one.digest}) == 3


def module(folder: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> str:
    """A module of its own that processes apart can import."""
    (folder / "apart_trial.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return "apart_trial"


@pytest.mark.parametrize(
    ("code", "trouble"),
    [
        ("raise SystemExit(3)", "ended with 3: it said nothing"),
        ("import os; os.kill(os.getpid(), 9)", "ended with -9"),
        ("print('{not json')", "ended with 0"),
        ("raise ValueError('a slip')", "ValueError: a slip"),
    ],
    ids=["exit", "kill", "words", "raise"],
)
def test_a_process_that_breaks_off_is_a_row_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, trouble: str
) -> None:
    answer, said = Apart().run_module(module(tmp_path, monkeypatch, code), {}, PATIENCE_SECONDS)
    assert answer == {}
    assert trouble in said


def test_a_process_that_does_not_end_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (
        "import os, pathlib, time; pathlib.Path('PID').write_text(str(os.getpid())); "
        "time.sleep(3600)"
    )
    name = module(tmp_path, monkeypatch, code.replace("PID", str(tmp_path / "pid")))
    _, said = Apart().run_module(name, {}, 3.0)
    assert said == "not done after 3 s"
    pid = tmp_path / "pid"
    assert not pid.exists() or not alive(int(pid.read_text()))


def test_a_grader_that_is_killed_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = """
import os, pathlib, time
from shuffledp_labs.teaching.apart import end_with_the_one_who_waits
end_with_the_one_who_waits()
pathlib.Path('PID.part').write_text(str(os.getpid()))
pathlib.Path('PID.part').rename('PID')
time.sleep(3600)
""".replace("PID", str(tmp_path / "pid"))
    name = module(tmp_path, monkeypatch, code)
    waiting = (
        f"from shuffledp_labs.teaching.apart import Apart; Apart().run_module({name!r}, {{}}, "
        "3600.0)"
    )
    with subprocess.Popen([sys.executable, "-c", waiting]) as grader:
        until((tmp_path / "pid").exists)
        grader.send_signal(signal.SIGKILL)
    pid = int((tmp_path / "pid").read_text())
    until(lambda: not alive(pid))


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"


def until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.05)
