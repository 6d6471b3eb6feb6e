"""docs/extending.md does what it says: its files become an outside package, and its commands run
with that installed.

Nothing here imports the page's code: it is in processes of its own that a mechanism and an attack
are found."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"
FILE = re.compile(r"^`([\w.]+)`[^\n]*:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMANDS = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INSTALLING = "pip install ."


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the page's files, and with what pip would write down of them.

    No index is asked.
    """
    folder = tmp_path_factory.mktemp("outside")
    files: dict[str, str] = {}
    for name, block in FILE.findall(PAGE.read_text()):
        files[name] = f"{files[name]}\n\n{block}" if name in files else block
    for name, text in files.items():
        (folder / name).write_text(text)
    project = tomllib.loads(files["pyproject.toml"])
    named = project["project"]
    assert {f"{module}.py" for module in project["tool"]["setuptools"]["py-modules"]} == set(
        files
    ) - {"pyproject.toml"}
    written = folder / f"{named['name'].replace('-', '_')}-{named['version']}.dist-info"
    written.mkdir()
    (written / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {named['name']}\nVersion: {named['version']}\n"
    )
    groups = (
        "\n".join([f"[{group}]", *(f"{name} = {value}" for name, value in points.items())])
        for group, points in named["entry-points"].items()
    )
    (written / "entry_points.txt").write_text("\n".join(groups))
    return folder


def typed() -> list[str]:
    return [line for block in COMMANDS.findall(PAGE.read_text()) for line in block.splitlines()]


def run(line: str, outside: Path, folder: Path) -> str:
    words = shlex.split(line)
    assert words[0] == "shuffledp"
    done = subprocess.run(
        [sys.executable, "-m", "shuffledp.cli", *words[1:]],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(outside)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_commands_of_the_page_run_with_its_package_installed(
    outside: Path, tmp_path: Path
) -> None:
    lines = [line for line in typed() if line.startswith("shuffledp ")]
    assert INSTALLING in typed()
    assert len(lines) == 4
    with ThreadPoolExecutor() as pool:
        calibrated, certified, played, attacked = pool.map(
            lambda line: run(line, outside, tmp_path), lines
        )
    assert "subset-selection: target_epsilon = 1.0, symbols = 10, subset = 2" in " ".join(
        calibrated.split()
    )
    answer = json.loads(certified)
    assert (
        0
        < answer["epsilon"]["attained"]
        < answer["epsilon"]["certified"]
        < answer["corrupted"]["epsilon"]
    )
    assert answer["messages_per_user"] == 2
    report = json.loads(played)
    assert report["mechanism"] == "subset-selection"
    assert report["messages"] == 2 * 60
    assert len(report["estimate"]) == len(report["true_value"]) == 10
    assert report["epsilon"] <= 1.0
    assert report["traced"] == 1.0
    assert report["attack_success"] > 0
    assert "one report" in attacked


LAWS = """
import subset_selection
from shuffledp_core.mechanisms import MECHANISMS
import numpy as np
from fractions import Fraction
from itertools import combinations
from collections import Counter
from shuffledp_adversary.attacks.installed import attack_named, summaries
from shuffledp_adversary.tracing.likelihood import log_likelihood
spec = MECHANISMS["subset-selection"](symbols=5, subset=2, blanket=Fraction(1, 3))
sets = np.array([sum(1 << one for one in chosen) for chosen in combinations(range(5), 2)])
law = np.exp(log_likelihood(spec, sets))
assert np.allclose(law.sum(axis=0), 1)
held = sets[:, np.newaxis] >> np.arange(5) & 1
named = held.T @ law  # chance that a symbol is named, by symbol and value
assert np.allclose(named, float(spec.other) + float(spec.slope) * np.eye(5))
assert np.isclose(np.log(law.max() / law.min()), spec.epsilon0)
assert all(sum(spec.weigh(np.array(spec.encode(int(one))))) == one for one in sets)
assert attack_named("bare").summary == summaries()["bare"]
"""


def test_the_page_s_mechanism_may_be_imported_before_all_others_and_its_law_is_right(
    outside: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LAWS],
        env={**os.environ, "PYTHONPATH": str(outside)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
