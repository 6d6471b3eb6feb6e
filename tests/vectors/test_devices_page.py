"""The tables of docs/reference/devices.md name code, vectors and tests that exist."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from shuffledp_client.web import PARTS, RECORD, SOURCE, read_web_file

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "reference" / "devices.md"
CRATE: Final = ROOT / "crates" / "shuffledp-device"
HEAD: Final = ["protocol", "Python", "JavaScript", "Rust", "shown by"]
NOT_CODE: Final = {"roster-seen", "shuffledp-client evidence", "sealed-box", "examples/answer.c"}
FOR_PARTIES: Final = {"laws", "mixing"}
"""Vectors of what devices do not compute."""


def read_rows() -> list[list[str]]:
    """The cells of every row of the page's tables."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in rows if row != HEAD]


def code_in(cell: str) -> Iterator[str]:
    """The code spans of a cell that name something."""
    for span in re.findall(r"`([^`]+)`", cell):
        if span not in NOT_CODE:
            yield span


def python_sources() -> str:
    """The client's and the core's code, and the names of their modules as if they were defined."""
    files = [
        file
        for package in ("client/src/shuffledp_client", "core/src/shuffledp_core")
        for file in (ROOT / package).rglob("*.py")
    ]
    modules = "".join(f"\nclass {file.stem}:" for file in files)
    return modules + "".join(file.read_text() for file in files)


def test_every_row_has_five_cells_and_something_that_shows_it() -> None:
    rows = read_rows()
    assert len(rows) >= 30
    for row in rows:
        assert len(row) == len(HEAD), row[0]
        assert list(code_in(row[4])), row[0]


def test_every_vector_file_and_every_test_that_is_named_exists() -> None:
    tests = {file.name for file in (ROOT / "tests").rglob("test_*.py")}
    groups = {file.stem for file in (ROOT / "tests" / "vectors").glob("*.json")} - {"schema"}
    named = {span for row in read_rows() for span in code_in(row[4])}
    assert named <= groups | tests
    assert groups - FOR_PARTIES <= named


def test_python_names_are_defined_in_the_client_or_the_core() -> None:
    sources = python_sources()
    for row in read_rows():
        for span in code_in(row[1]):
            name = re.escape(span.rpartition(".")[2])
            assert re.search(rf"^\s*(async def|def|class) {name}\b", sources, re.MULTILINE), span


def test_javascript_names_are_defined_or_called_in_the_module() -> None:
    names = (SOURCE, RECORD, *PARTS.values())
    source = "".join(read_web_file(name).decode() for name in names)
    for row in read_rows():
        for span in code_in(row[2]):
            name = re.escape(span.rpartition(".")[2])
            assert re.search(rf"\b{name}\(|\b(const|class) {name}\b", source), span


def test_rust_names_are_defined_in_their_module() -> None:
    for row in read_rows():
        module = ""
        for span in code_in(row[3]):
            path, _, name = span.rpartition("::")
            module = path or module
            files = [*(CRATE / "src").rglob(f"{module}.rs")]
            assert len(files) == 1, span
            assert re.search(rf"\bfn {name}\b", files[0].read_text()), span


@pytest.mark.parametrize(
    "name",
    [
        "rounds",
        "logs",
        "documents",
        "signatures",
        "samplers",
        "numbers",
        "tiles",
        "verified",
        "results",
    ],
)
def test_the_rust_core_answers_every_case_of_what_it_checks(name: str) -> None:
    cases = json.loads((ROOT / "tests" / "vectors" / f"{name}.json").read_text())["cases"]
    answered = re.search(rf'\("{name}", (\d+)\)', (CRATE / "tests" / "vectors.rs").read_text())
    assert answered is not None
    # Rounds of this mechanism it refuses as unsupported.
    supported = [case for case in cases if "bloom-rappor" not in str(case["input"])]
    assert int(answered[1]) == len(supported)
