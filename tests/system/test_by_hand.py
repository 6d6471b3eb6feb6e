"""docs/by-hand.md, typed: every box of the page in one shell, in an empty folder, with the programs people have."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typed_pages import type_page


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


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_page_works_as_it_is_typed(folder: Path) -> None:
    typed = type_page("by-hand.md", folder)
    said = typed.said
    assert typed.boxes == 11
    assert said.count("receipt of node-1 kept") == 10, said
    assert said.count("The answer: histogram") == 2
    assert said.count("All your messages are on the board") == 5
    assert said.count("genuine and right") == 1
    assert "refused with exit code 3" in said, said
    lab = folder / "lab-of-mine" / "lab"
    assert processes_of(lab) == []
    for log in (lab / "log").iterdir():
        assert log.read_text().count('"broker away') <= 2, f"{log.name}: once at each stop"
