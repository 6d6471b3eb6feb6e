"""The list of a class, as `deploy/class.sh enrol` reads it.

Where the place to enrol is a folder, and no container.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DEPLOY = Path(__file__).parents[2] / "deploy"

# What compose would run in the service `enrol`: the script behind its name, on folders of this
# test.
HERE = """#!/bin/sh
while [ "$1" != enrol ]; do shift; done
exec sh "$2" "$(printf '%s' "$3" | sed 's#/tmp/#./#g; s# /keys# keys#g; s#"/keys#"keys#g')"
"""


@pytest.fixture
def school(tmp_path: Path) -> Path:
    (tmp_path / "deploy").mkdir()
    shutil.copy(DEPLOY / "class.sh", tmp_path / "deploy")
    (tmp_path / "deploy" / "compose.sh").write_text(HERE)
    subprocess.run(
        [sys.executable, "-m", "shuffledp.cli", "keys", "init", tmp_path / "keys"],
        check=True,
        timeout=240,
    )
    return tmp_path


def enrol(school: Path, people: str) -> subprocess.CompletedProcess[str]:
    (school / "people.csv").write_text(people)
    told = ["sh", "deploy/class.sh", "enrol", "people.csv"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        told,
        cwd=school,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def bundles(school: Path) -> list[str]:
    return sorted(file.stem for file in school.glob("keys/clients/*.bundle"))


def test_a_name_with_a_blank_is_refused_and_not_made_two_people(school: Path) -> None:
    done = enrol(school, "mail,name\na@example.org,ada\nb@example.org,bob lovelace\n")
    assert done.returncode != 0
    assert "'bob lovelace' is not a valid name for a client" in done.stderr
    assert bundles(school) == []


def test_a_list_without_names_is_refused(school: Path) -> None:
    done = enrol(school, "mail,first\na@example.org,ada\n")
    assert done.returncode != 0
    assert "no column name" in done.stderr


def test_whoever_is_enrolled_stays_as_he_is(school: Path) -> None:
    assert enrol(school, "mail,name\na@example.org,ada\n").returncode == 0
    ada = (school / "keys" / "clients" / "ada.bundle").read_bytes()
    for _ in range(2):
        assert (
            enrol(
                school, "name,mail\nada,a@example.org\n,nobody@example.org\nbob,b@example.org\n"
            ).returncode
            == 0
        )
    assert bundles(school) == ["ada", "bob"]
    assert (school / "out" / "class" / "ada.bundle").read_bytes() == ada
