"""docs/tutorials, typed: every box of each page, in an empty folder of its own."""

from pathlib import Path

import pytest
from typed_pages import REPOSITORY, type_page


@pytest.mark.slow
def test_the_first_round(tmp_path: Path) -> None:
    typed = type_page("tutorials/first-round.md", tmp_path)
    assert typed.said.count("The answer: histogram over 200 users") == 1
    assert typed.said.count("numbers right, origin NOT shown") == 1, "the forged one is refused"


@pytest.mark.slow
def test_the_first_certificate(tmp_path: Path) -> None:
    assert type_page("tutorials/first-certificate.md", tmp_path).boxes == 6
    assert {file.name for file in tmp_path.iterdir()} == {"monthly.json", "once.json"}


@pytest.mark.slow
def test_the_first_attack(tmp_path: Path) -> None:
    typed = type_page("tutorials/first-attack.md", tmp_path)
    assert typed.said.count("0 of 200 users were traced") == 2
    assert typed.said.count("claim broken") == 0


@pytest.mark.parametrize(
    "page", sorted((REPOSITORY / "docs" / "tutorials").glob("*.md")), ids=lambda page: page.stem
)
def test_every_tutorial_is_typed(page: Path) -> None:
    assert f'type_page("tutorials/{page.name}"' in Path(__file__).read_text()
