"""docs/by-hand.md, typed: every box of the page in one shell, in an empty folder, with the programs
people have."""

from __future__ import annotations

from pathlib import Path

import pytest
from typed_pages import processes_of, stopped_after, type_page


@pytest.mark.slow
def test_the_page_works_as_it_is_typed(tmp_path: Path) -> None:
    with stopped_after(tmp_path / "lab-of-mine" / "lab") as lab:
        check_page(tmp_path, lab)


def check_page(folder: Path, lab: Path) -> None:
    typed = type_page("by-hand.md", folder)
    said = typed.said
    assert typed.boxes == 11
    assert said.count("receipt of node-1 kept") == 10, said
    assert said.count("The answer: histogram") == 2
    assert said.count("All your messages are on the board") == 5
    assert said.count("genuine and right") == 1
    assert "refused with exit code 3" in said, said
    assert processes_of(lab) == []
    for log in (lab / "log").iterdir():
        assert log.read_text().count('"broker unreachable') <= 2, f"{log.name}: once at each stop"
