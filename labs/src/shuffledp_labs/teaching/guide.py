"""The instructor's guide of a lab, which only a checkout has, not the students' package."""

from __future__ import annotations

from html import escape
from pathlib import Path

from markdown_it import MarkdownIt

from shuffledp_core.errors import NotInstalledError, OutputError
from shuffledp_core.runtime.files import write_atomic
from shuffledp_labs.installed import lab as lab_of


def guide(number: int) -> str:
    """The guide of a lab, as Markdown.

    Raises:
        NotInstalledError: this installation is a student's.
    """
    file = lab_of(number).file("instructor.md")
    if not file.is_file():
        raise NotInstalledError(
            f"the instructor's guide of lab {number} is not in this installation, which is what "
            "students get: clone the repository, run `make demo` there, and use that installation"
        )
    return file.read_text(encoding="utf-8")


def write_page(number: int, folder: Path) -> Path:
    """Write the guide as an HTML page that only its owner can read; return its path.

    Raises:
        NotInstalledError: see `guide`.
        OutputError: the page cannot be written.
    """
    body = MarkdownIt("commonmark").enable("table").render(guide(number))
    title = f"Lab {number}: {lab_of(number).title}, for instructors"
    page = (
        f'<!doctype html><html lang="en"><meta '
        f'charset="utf-8"><title>{escape(title)}</title><body>{body}</body></html>'
    )
    file = folder / f"lab{number:02}.html"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomic(file, page.encode())  # mode 0600
    except OSError as error:
        raise OutputError(
            f"cannot write {file}: {error.strerror}; give another folder with --html"
        ) from error
    return file
