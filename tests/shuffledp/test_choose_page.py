"""The page "Choose ε and a mechanism" shows what `shuffledp advise` prints."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "choose.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_tables_and_recommendations_are_those_of_the_command() -> None:
    (command,) = [
        line.split() for line in PAGE.splitlines() if line.startswith("    shuffledp adv")
    ]
    printed = subprocess.run(
        [str(Path(sys.executable).parent / command[0]), *command[1:]],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    start = PAGE.index("    Histogram of")
    box = PAGE[start : PAGE.index("`--plot")]
    shown = [line.strip() for line in box.splitlines() if line.strip()]
    lines = {line.strip() for line in printed.splitlines()}
    assert len(shown) > 20
    assert [line for line in shown if line not in lines] == []
