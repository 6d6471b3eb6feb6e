"""What students install has neither scipy nor matplotlib: all commands but pictures do without."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from wrong_programs import LABS

WITHOUT = """
import importlib, pkgutil, re, sys
from importlib.machinery import PathFinder

find_spec = PathFinder.find_spec

def find_others(name, path=None, target=None):
    hidden = name.partition(".")[0] in {"scipy", "matplotlib"}
    return None if hidden else find_spec(name, path, target)

PathFinder.find_spec = find_others
"""
"""Hide the two packages from every import, as if they were not installed."""

IMPORTS = """
count = 0
for name in ("shuffledp_labs", "shuffledp_sim", "shuffledp_adversary", "shuffledp_ops"):
    package = importlib.import_module(name)
    for found in pkgutil.walk_packages(package.__path__, name + "."):
        if not re.search("__main__|work$|worker", found.name):
            importlib.import_module(found.name)
            count += 1
print(count)
"""

COMMAND = """
from shuffledp.cli import main
main()
"""


def run(code: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT + code, *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_all_modules_that_students_install_import_without_scipy_and_matplotlib() -> None:
    assert int(run(IMPORTS)) > 200


def test_a_lab_runs_without_matplotlib_and_says_how_to_get_its_picture(tmp_path: Path) -> None:
    folder = str(tmp_path / "lab-8")
    run(COMMAND, "lab", "start", "8", "--folder", folder)
    predictions = tmp_path / "lab-8" / "predict.toml"
    text = predictions.read_text().replace('equal_others = ""', 'equal_others = "no"')
    predictions.write_text(re.sub(r'= ""', '= "0.1"', text))
    (tmp_path / "lab-8" / "work.py").write_bytes((LABS / "solutions" / "lab08.py").read_bytes())
    said = run(COMMAND, "lab", "run", "8", "--folder", folder)
    assert "your event happened in" in said
    assert said.splitlines()[-1] == (
        "no picture: a plot needs matplotlib, which is not installed: pip install 'shuffledp[plot]'"
    )
