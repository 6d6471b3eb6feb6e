"""A course's key and plan, and what a doctor finds on a machine."""

import json
import os
from datetime import date
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shuffledp.cli import app
from shuffledp_core.errors import ConfigError, OutputError, UsageError
from shuffledp_labs.instance import KEY_BYTES
from shuffledp_labs.teaching import doctor
from shuffledp_labs.teaching.course import (
    SHORT,
    init_course,
    load_course,
    load_key,
    numbers_of,
    plan,
)
from shuffledp_labs.teaching.doctor import DoctorFinding, examine, show


def test_a_course_has_a_key_for_its_owner_alone_and_a_plan_that_is_read_back(
    tmp_path: Path,
) -> None:
    planned = plan((3, 1), date(2026, 10, 5), 7)
    init_course(tmp_path / "course", "Privacy 2026", planned)
    course = load_course(tmp_path / "course")
    assert (course.name, course.labs) == ("Privacy 2026", planned)
    assert (planned[1].opens, planned[1].due) == (date(2026, 10, 12), date(2026, 10, 19))
    assert course.key.stat().st_mode & 0o777 == 0o600
    assert len(load_key(course.key)) == KEY_BYTES
    assert "/course.key" in (tmp_path / "course" / ".gitignore").read_text()


def test_a_key_is_never_overwritten_and_no_two_are_alike(tmp_path: Path) -> None:
    init_course(tmp_path / "one", "One", ())
    init_course(tmp_path / "two", "Two", ())
    key = load_key(tmp_path / "one" / "course.key")
    assert key != load_key(tmp_path / "two" / "course.key")
    with pytest.raises(OutputError, match="exists already"):
        init_course(tmp_path / "one", "Again", ())
    assert load_key(tmp_path / "one" / "course.key") == key


@pytest.mark.parametrize("text", ["", "xyz", "00" * 31, "00" * 33])
def test_what_is_no_key_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "key"
    file.write_text(text)
    file.chmod(0o600)
    with pytest.raises(ConfigError, match="lab course init"):
        load_key(file)


def test_a_key_that_others_may_read_is_refused(tmp_path: Path) -> None:
    init_course(tmp_path / "course", "Course", ())
    (tmp_path / "course" / "course.key").chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        load_key(tmp_path / "course" / "course.key")


def test_labs_are_named_by_course_or_by_number() -> None:
    assert numbers_of("security") == (2, 3, 4, 6, 7, 11)
    assert numbers_of("10, 1") == (10, 1)
    for wrong in ("", "0", "99", "1,1", "1,two", "-1"):
        with pytest.raises(UsageError, match="--labs"):
            numbers_of(wrong)
    assert all(set(numbers) <= set(SHORT["all"]) for numbers in SHORT.values())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('name = "a"\n[[labs]]\nnumber = 99\nopens = 2026-01-01\ndue = 2026-01-02\n', "no lab 99"),
        (
            'name = "a"\n[[labs]]\nnumber = 1\nopens = 2026-01-02\ndue = 2026-01-01\n',
            "before it opens",
        ),
        (
            'name = "a"\n' + 2 * "[[labs]]\nnumber = 1\nopens = 2026-01-01\ndue = 2026-01-01\n",
            "twice",
        ),
        ('name = "a"\nlate = true\n', "late"),
    ],
    ids=["number", "dates", "twice", "unknown"],
)
def test_a_plan_that_makes_no_sense_is_refused_by_name(
    tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "course.toml").write_text(text)
    with pytest.raises(ConfigError, match=said):
        load_course(tmp_path)


def test_the_plan_is_shown_with_titles(tmp_path: Path) -> None:
    run = CliRunner()
    where = str(tmp_path / "course")
    made = run.invoke(app, ["lab", "course", "init", where, "--labs", "1", "--first", "2026-10-05"])
    assert made.exit_code == 0, made.output
    assert (tmp_path / "course" / "course.key").read_text().strip() not in made.output
    shown = run.invoke(app, ["lab", "course", "plan", where])
    assert "Lie well" in shown.output
    assert "2026-10-05" in shown.output


def test_a_doctor_looks_at_all_that_a_lab_needs(tmp_path: Path) -> None:
    found = {finding.name: finding for finding in examine(tmp_path)}
    assert found.keys() == {
        "python", "machine", "packages", "accelerator", "sandbox", "ports", "clock", "memory",
        "processes", "disk",
    }  # fmt: skip
    assert found["packages"].state == "ok"
    assert all(finding.remedy for finding in found.values() if finding.state != "ok")


def test_a_full_disk_a_wrong_clock_and_little_memory_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "DISK_BYTES", 10**18)
    monkeypatch.setattr(doctor, "MEMORY_BYTES", 10**18)
    monkeypatch.setattr("time.time", lambda: 10.0**9)
    found = tuple(examine(tmp_path))
    states = {finding.name: finding.state for finding in found}
    assert (states["disk"], states["clock"]) == ("wrong", "wrong")
    assert not show(found, as_json=False)
    assert "timedatectl" in capsys.readouterr().out


def test_findings_are_given_to_programs_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert show((DoctorFinding("disk", "note", "3 [MB]", "make room"),), as_json=True)
    assert json.loads(capsys.readouterr().out)["findings"][0]["seen"] == "3 [MB]"


def test_without_any_sandbox_a_doctor_says_for_what_one_is_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(os.environ, "SHUFFLEDP_LAB_BOX", "none")
    monkeypatch.setattr("shuffledp_labs.student.pipes._working", [])
    found = doctor._sandbox()
    assert found.state == "note"
    assert "others" in found.remedy
