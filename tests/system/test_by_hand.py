"""docs/by-hand.md, typed: every box of the page in one shell, in an empty folder, with the programs people have."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "docs" / "by-hand.md").read_text()
BLOCKS: list[str] = re.findall(r"^```sh\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
ENVIRONMENT = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def processes_of(folder: Path) -> list[str]:
    """The command lines of all living processes in the sessions of a deployment."""
    numbers = {int(file.read_text()) for file in (folder / "run").glob("*.pid")}
    found = []
    for entry in Path("/proc").iterdir():
        try:
            session = os.getsid(int(entry.name)) if entry.name.isdecimal() else 0
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode() if session in numbers else ""
        except OSError:  # it ended meanwhile
            continue
        found += [line] if line else []
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """An empty folder; what a test that failed has left running is stopped."""
    yield tmp_path
    lab = tmp_path / "lab-of-mine" / "lab"
    if processes_of(lab):
        subprocess.run([sys.executable, "-m", "shuffledp.cli", "deploy", "stop", str(lab)], check=False)


@pytest.mark.timeout(1200)
def test_the_page_works_as_it_is_typed(folder: Path) -> None:
    script = "".join(f'{block}echo "box {at} ended with $?"\n' for at, block in enumerate(BLOCKS))
    done = subprocess.run(
        ["/bin/bash"], input=script, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    said = done.stdout + done.stderr
    assert re.findall(r"box \d+ ended with (\d+)", said) == ["0"] * len(BLOCKS), said
    assert len(BLOCKS) == 11
    assert said.count("receipt of node-1 kept") == 10, said
    assert said.count("The answer: histogram") == 2
    assert said.count("All your messages are on the board") == 5
    assert said.count("genuine and right") == 1
    assert "refused with exit code 3" in said, said
    assert "Traceback" not in said
    lab = folder / "lab-of-mine" / "lab"
    assert processes_of(lab) == []
    for log in (lab / "log").iterdir():
        assert log.read_text().count('"broker away') <= 2, f"{log.name}: once at each stop"


def test_the_readme_types_nothing_that_the_page_does_not() -> None:
    readme = (REPOSITORY / "README.md").read_text().split("\n## Run the parts yourself\n")[1].split("\n## ")[0]
    typed = [line.split("#")[0].strip() for line in readme.splitlines() if line.startswith("    ")]
    assert len(typed) == 4
    assert not [line for line in typed if line not in [line.strip() for line in PAGE.splitlines()]]
