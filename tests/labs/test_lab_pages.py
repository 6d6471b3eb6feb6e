"""The labs on the site: every handout is a page, and what the guides tell to type is what the
commands take."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.main import get_command

import handouts
import paper
import slides
from shuffledp.cli import app
from shuffledp_labs.installed import all_labs
from shuffledp_labs.lab import Lab
from shuffledp_labs.teaching.starting import HANDED_OUT

DOCS = Path(__file__).parents[2] / "docs"
GUIDES = ("labs.md", "how-to/teach-with-labs.md")


def test_every_handout_is_a_page_with_its_pictures_and_in_the_table(tmp_path: Path) -> None:
    (tmp_path / "labs").mkdir()
    (tmp_path / "labs" / "lab99.md").write_text("a lab that is no more")
    handouts.collect(tmp_path)
    table = handouts.table()
    pages = {lab.number: tmp_path / "labs" / f"lab{lab.number:02}.md" for lab in all_labs()}
    for lab in all_labs():
        text = pages[lab.number].read_text()
        assert text.startswith("# "), f"lab {lab.number}: a handout begins with its title"
        assert f"[{lab.title}](labs/{pages[lab.number].name})" in table
        assert [
            name
            for name in re.findall(r"!\[[^]]*\]\(([^)]+)\)", text)
            if not (tmp_path / "labs" / name).is_file()
        ] == []
    assert not (tmp_path / "labs" / "lab99.md").exists()


@pytest.mark.parametrize("lab", list(all_labs()), ids=lambda lab: str(lab.number))
def test_the_points_in_the_handout_are_those_of_the_checks(lab: Lab) -> None:
    """Each check has its line in the table, and a heading that states the points of its step states
    their sum."""
    text = lab.file("handout.md").read_text()
    table = dict(re.findall(r"^\| `?([A-F]-[\w-]+)`? \| (\d+) \|", text, re.MULTILINE))
    assert table == {check.name: str(check.points) for check in lab.checks}
    stated = re.findall(r"^## (?:Step )?([B-F])[.:].*\b(\d+) points\)", text, re.MULTILINE)
    sums = {
        step: sum(check.points for check in lab.checks if check.step == step) for step, _ in stated
    }
    assert dict(stated) == {step: str(points) for step, points in sums.items()}


@pytest.mark.parametrize("lab", list(all_labs()), ids=lambda lab: str(lab.number))
def test_what_students_get_points_at_no_page_that_they_lack(lab: Lab) -> None:
    for name in HANDED_OUT:
        text = lab.file(name).read_text()
        pointers = re.findall(r"[\w./-]+\.md\b", text)
        assert set(pointers) <= set(HANDED_OUT.values()), (name, pointers)


def test_the_foot_of_a_printed_page_names_course_and_date_and_counts_pages() -> None:
    foot = paper.footer("Security & privacy", "2026-10-05")
    assert "Security &amp; privacy" in foot
    assert "2026-10-05" in foot
    assert 'class="pageNumber"' in foot
    assert 'class="totalPages"' in foot


def test_what_has_not_changed_keeps_its_time(tmp_path: Path) -> None:
    handouts.collect(tmp_path)
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "labs").iterdir()}
    handouts.collect(tmp_path)
    assert {file: file.stat().st_mtime_ns for file in (tmp_path / "labs").iterdir()} == before


def typed(guide: str) -> Iterator[str]:
    """The commands of ours in a guide's boxes."""
    for line in (DOCS / guide).read_text().splitlines():
        if line.startswith("    shuffledp lab "):
            yield line.strip()


@pytest.mark.parametrize("guide", GUIDES)
def test_every_command_of_a_guide_is_one(guide: str) -> None:
    lines = list(typed(guide))
    assert len(lines) > 3
    for line in lines:
        command = get_command(app)
        context = typer.Context(command, info_name="shuffledp")
        words = shlex.split(line, comments=True)[1:]
        while hasattr(command, "get_command"):
            command = command.get_command(context, words.pop(0))
            assert command is not None, line
            context = typer.Context(command, info_name=command.name, parent=context)
        command.make_context(
            command.name, words, parent=context
        )  # raises for an option that there is not


def test_every_command_of_the_labs_is_in_a_guide() -> None:
    told = " ".join((DOCS / guide).read_text() for guide in GUIDES)
    labs = get_command(app).get_command(typer.Context(get_command(app)), "lab")  # type: ignore[attr-defined]  # a group
    assert [name for name in labs.commands if f"lab {name}" not in told] == []


@pytest.mark.parametrize("lab", list(all_labs()), ids=lambda lab: str(lab.number))
def test_every_lab_has_ten_slides_that_are_not_overfull(lab: Lab, tmp_path: Path) -> None:
    file = slides.write_deck(lab, tmp_path)
    text = file.read_text(encoding="utf-8")
    deck = text.split("\n---\n")
    assert len(deck) == slides.SLIDES
    assert all(len(slide) >= 20 and len(slide.split()) <= 180 for slide in deck)
    assert [slide.count("](lab") for slide in deck].count(1) == 1
    html = slides.page(text, tmp_path, ["Course"])
    assert html.count("<section") == slides.SLIDES
    assert 'src="data:image/' in html
    assert html.count("<h1>") == 1
    for question in lab.explanations:
        assert " ".join(question.split()) in " ".join(text.split())


@pytest.mark.parametrize("lab", list(all_labs()), ids=lambda lab: str(lab.number))
def test_a_printed_handout_says_how_to_start_where_to_write_and_how_to_check(lab: Lab) -> None:
    text = lab.file("handout.md").read_text(encoding="utf-8")
    assert f"shuffledp lab start {lab.number}" in text
    assert f"shuffledp lab check {lab.number}" in text
    assert "`work.py`" in text
