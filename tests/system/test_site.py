"""The parts of the site that code writes: nothing is left out, and nothing is loaded from
elsewhere."""

import re
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import commands_page
import documents_page
import errors_page
from offline import from_elsewhere
from shuffledp.cli import EXTRAS
from shuffledp_core.documents.models import Certificate
from shuffledp_core.errors import codes
from shuffledp_core.mechanisms import MECHANISMS


def test_every_program_is_on_the_page_of_commands() -> None:
    ours = {
        point.name
        for point in entry_points(group="console_scripts")
        if point.name.startswith("shuffledp")
    }
    assert set(commands_page.PROGRAMS) == ours


def test_every_command_of_every_package_is_on_the_page_with_its_options() -> None:
    page = commands_page.page()
    for names in EXTRAS.values():
        assert [name for name in names if f"`shuffledp {name}`" not in page] == []
    demo = page.split("### `shuffledp demo`")[1].split("###")[0]
    assert re.search(
        r"^\* `--users .*`: Number of simulated users. \[default: 2000", demo, flags=re.MULTILINE
    )


def test_every_error_is_on_the_page_of_errors() -> None:
    page = errors_page.page()
    assert [code for code in codes() - {"ShuffleDPError"} if f"`{code}`" not in page] == []
    assert "`BudgetExceeded`\n: The privacy budget" in page
    assert page.count("`UsageError`\n") == 1


def test_every_field_of_a_certificate_and_every_mechanism_is_on_the_page_of_documents() -> None:
    page = documents_page.page()
    section = page.split("### `certificate`")[1].split("###")[0]
    assert [name for name in Certificate.__struct_fields__ if f"* `{name}`: " not in section] == []
    assert "* `epsilon`: [EpsilonBounds](#epsilonbounds)" in section
    assert "* `adjacency`: `standard` or `metric`" in section
    assert [name for name in MECHANISMS if f"### `{name}`" not in page] == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("page.html", '<link rel="stylesheet" href="https://fonts.example/a.css">'),
        ("page.html", '<p><img src="//pictures.example/a.png"></p>'),
        ("page.html", '<script src="HTTP://scripts.example/a.js"></script>'),
        ("page.html", '<p style="background: url(https://pictures.example/a.png)">'),
        ("_static/page.css", '@import "https://fonts.example/a.css";'),
    ],
)
def test_a_page_that_loads_something_from_elsewhere_is_found(
    tmp_path: Path, name: str, text: str
) -> None:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    assert len(from_elsewhere(tmp_path)) == 1


def test_a_link_that_a_reader_may_follow_is_none(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(
        '<a href="https://example.org">there</a> <img src="here.png">'
    )
    assert from_elsewhere(tmp_path) == []
