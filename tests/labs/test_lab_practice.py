"""A student's own runs: what they show, and what they leave in the folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shuffledp.cli import app
from shuffledp_labs.errors import CheckFailure
from shuffledp_labs.installed import lab as lab_of
from shuffledp_labs.lab import Check, CheckAttempt, Lab
from shuffledp_labs.results import LabResult, read_result
from shuffledp_labs.teaching import practice, report, starting


def passes(_: CheckAttempt) -> str:
    return "seen"


def calls(attempt: CheckAttempt) -> str:
    attempt.program.call("speaks")
    return "seen"


def fails(_: CheckAttempt) -> str:
    raise CheckFailure("off by one; see step C")


LAB = Lab(
    number=8,
    name="small",
    title="Small",
    level=1,
    minutes=1,
    predictions=(),
    checks=(
        Check("B-one", 20, "one", passes),
        Check("C-two", 25, "two", fails),
        Check("D-three", 30, "three", passes, system=True),
    ),
    explanations=("Why?", "And?"),
    show=lambda showing: showing.out,
    folder="shuffledp_labs.lab08_theorem",
)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> starting.WorkFolder:
    for module in (practice, report):
        monkeypatch.setattr(module, "lab_of", lambda _: LAB)
    place = starting.start(lab_of(8), tmp_path / "lab-8")
    (place.path / "predict.toml").write_text("")
    return place


def checked(
    place: starting.WorkFolder, step: str | None = None, *, system: bool = True
) -> LabResult:
    return practice.check(8, place.path, step, system=system)


@pytest.mark.parametrize(
    ("step", "system", "points"), [("B", True, 20), ("c", True, 25), (None, False, 45)]
)
def test_a_partial_run_says_so_and_leaves_the_result_of_all_alone(
    place: starting.WorkFolder,
    step: str | None,
    points: int,
    capsys: pytest.CaptureFixture[str],
    *,
    system: bool,
) -> None:
    whole = checked(place)
    assert "50 of 75 points" in capsys.readouterr().out
    part = checked(place, step, system=system)
    said = capsys.readouterr().out
    assert f"of {points} points" in said
    assert "a partial run" in said
    assert read_result(place.result) == whole
    assert read_result(place.partial) == part
    assert part.partial
    assert not whole.partial


def test_what_a_program_prints_is_shown_also_where_it_passes(
    place: starting.WorkFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        practice, "lab_of", lambda _: replace(LAB, checks=(Check("B-one", 75, "one", calls),))
    )
    (place.path / "work.py").write_text(
        "def speaks():\n    print('seven users, seen in passing')\n"
    )
    assert checked(place).points == 75
    assert (
        "the end of what your program printed:\n      seven users, seen in passing\n"
        in capsys.readouterr().out
    )


def test_a_report_is_about_the_run_of_all_checks_and_says_where_there_is_only_a_part(
    place: starting.WorkFolder,
) -> None:
    note = "A partial run: its checks give 20 of 75 points."
    checked(place, "B")
    text = report.write_report(8, place.path, None, None).read_text()
    assert note in text
    assert "<strong>25</strong> of 25, and up to 20" in text
    checked(place)
    checked(place, "B")
    text = report.write_report(8, place.path, None, None).read_text()
    assert note not in text
    assert "<strong>55</strong> of 80, and up to 20" in text
    assert "off by one" in text


@pytest.mark.parametrize(("step", "code"), [("B", 0), ("C", 1), (None, 1)])
def test_the_exit_code_says_whether_a_check_lost_points(
    place: starting.WorkFolder, step: str | None, code: int
) -> None:
    steps = ["--step", step] if step else []
    run = CliRunner().invoke(app, ["lab", "check", "8", "--folder", str(place.path), *steps])
    assert run.exit_code == code, run.output
