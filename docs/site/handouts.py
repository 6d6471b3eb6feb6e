"""Handouts of the labs as pages of the site, copied from their packages at every build.

They are put into docs/labs, which is in no repository. A lab that is not there yet has no page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import as_file
from pathlib import Path
from typing import Final

from shuffledp_labs.installed import all_labs
from shuffledp_labs.lab import Lab

FOLDER: Final = "labs"
_PICTURE: Final = re.compile(r"\]\((picture[-\w]*\.\w+)\)")
_LEVELS: Final = {1: "1: to begin with", 2: "2: takes care", 3: "3: demanding"}


def table() -> str:
    """All labs with links to their pages, as Markdown."""
    rows = [
        f"| {lab.number} | [{lab.title}]({FOLDER}/{_name(lab)}.md) | {_LEVELS[lab.level]} | "
        f"{lab.minutes} |"
        for lab in _published_labs()
    ]
    return "\n".join(["| | lab | level | minutes |", "|---|---|---|---|", *rows])


def collect(docs: Path) -> None:
    """Bring the folder docs/labs up to date.

    What has not changed keeps its time, and Sphinx reads only the rest.
    """
    folder = docs / FOLDER
    folder.mkdir(exist_ok=True)
    current = {name: data for lab in _published_labs() for name, data in _files(lab)}
    for file in folder.iterdir():
        if file.name not in current:
            file.unlink()
    for name, data in current.items():
        file = folder / name
        if not file.is_file() or file.read_bytes() != data:
            file.write_bytes(data)


def _published_labs() -> Iterator[Lab]:
    return (
        lab
        for lab in all_labs()
        if lab.file("handout.md").is_file() and lab.file("handout.md").read_text()
    )


def _name(lab: Lab) -> str:
    return f"lab{lab.number:02}"


def _files(lab: Lab) -> Iterator[tuple[str, bytes]]:
    text = lab.file("handout.md").read_text()
    for picture in sorted(set(_PICTURE.findall(text))):
        with as_file(lab.file(picture)) as file:
            yield f"{_name(lab)}-{picture}", file.read_bytes()
    yield f"{_name(lab)}.md", _PICTURE.sub(rf"]({_name(lab)}-\1)", text).encode()
