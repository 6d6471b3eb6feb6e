"""The instructor's guides: there in a checkout, and in no package that students install."""

from __future__ import annotations

import subprocess
import zipfile
from importlib.resources.abc import Traversable
from pathlib import Path
from shutil import which

import pytest
from typer.testing import CliRunner

from shuffledp.cli import app
from shuffledp_core.errors import NotInstalledError
from shuffledp_labs.installed import all_labs
from shuffledp_labs.lab import Lab
from shuffledp_labs.teaching import guide

ROOT = Path(__file__).parents[2]


def test_a_command_shows_every_guide_and_writes_it_for_its_owner_alone(tmp_path: Path) -> None:
    for lab in all_labs():
        shown = CliRunner().invoke(app, ["lab", "instructor", str(lab.number)])
        assert shown.exit_code == 0, shown.output
        assert shown.output.startswith(f"# Lab {lab.number}")
    done = CliRunner().invoke(app, ["lab", "instructor", "8", "--html", str(tmp_path / "guides")])
    assert done.exit_code == 0, done.output
    file = tmp_path / "guides" / "lab08.html"
    assert "<table>" in file.read_text()
    assert file.stat().st_mode & 0o077 == 0
    assert file.parent.stat().st_mode & 0o077 == 0


def test_a_students_installation_has_no_guide_and_the_command_says_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(_: Lab, name: str) -> Traversable:
        return tmp_path / name

    monkeypatch.setattr(Lab, "file", missing)
    with pytest.raises(NotInstalledError, match="clone the repository"):
        guide.guide(8)


def test_the_wheel_holds_handouts_and_no_guides(tmp_path: Path) -> None:
    # The build backend itself, without a network: it is what `uv build` runs.
    done = subprocess.run(
        [
            which("uv") or "uv",
            "build",
            "--wheel",
            "--offline",
            "--out-dir",
            str(tmp_path),
            str(ROOT / "labs"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip(f"no wheel can be built here: {done.stderr[-300:]}")
    (wheel,) = tmp_path.glob("*.whl")
    names = {Path(name).name for name in zipfile.ZipFile(wheel).namelist()}
    assert "handout.md" in names
    assert "instructor.md" not in names
