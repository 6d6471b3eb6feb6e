"""A page of the docs, typed: its ```sh boxes in one shell, in an empty folder, with the programs
that people have.

A ```text box shows what the box before it prints: each of its lines must be said, whatever stands
around it. What differs from run to run stands in indented boxes, which nobody compares."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
ENVIRONMENT = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
_BOX = re.compile(r"^```(sh|text)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Typed:
    """A page that was typed: what was said by all of its boxes together, and how many there
    were."""

    said: str
    boxes: int


def type_page(name: str, folder: Path) -> Typed:
    """Types docs/NAME into one shell in `folder`.

    Fails where a box fails, or does not say what the page shows.
    """
    boxes = _BOX.findall((REPOSITORY / "docs" / name).read_text())
    typed = [text for kind, text in boxes if kind == "sh"]
    script = "".join(f'{text}echo "box {at} ended with $?"\n' for at, text in enumerate(typed))
    done = subprocess.run(
        ["/bin/bash"],
        input=f"exec 2>&1\n{script}",
        cwd=folder,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout + done.stderr
    parts = re.split(r"^box \d+ ended with (\d+)\n", said, flags=re.MULTILINE)
    assert parts[1::2] == ["0"] * len(typed), said
    assert "Traceback" not in said, said
    at = -1
    for kind, text in boxes:
        if kind == "sh":
            at += 1
        else:
            missing = set(_lines(text)) - set(_lines(parts[2 * at]))
            assert not missing, f"{name} shows {missing}, but it said:\n{parts[2 * at]}"
    return Typed(said, len(typed))


def processes_of(folder: Path) -> list[str]:
    """The command lines of all living processes in the sessions of a deployment."""
    numbers = {int(file.read_text()) for file in (folder / "run").glob("*.pid")}
    found = []
    for entry in Path("/proc").iterdir():
        try:
            session = os.getsid(int(entry.name)) if entry.name.isdecimal() else 0
            line = (
                (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                if session in numbers
                else ""
            )
        except OSError:  # it ended meanwhile
            continue
        found += [line] if line else []
    return found


@contextmanager
def stopped_after(lab: Path) -> Iterator[Path]:
    """A deployment that pages make; what a test that failed has left running of it is stopped."""
    try:
        yield lab
    finally:
        if processes_of(lab):
            subprocess.run(
                [sys.executable, "-m", "shuffledp.cli", "deploy", "stop", str(lab)], check=False
            )


def _lines(text: str) -> list[str]:
    """The lines without what is only layout: indentation, the dashes of a list, columns and their
    width."""
    return [" ".join(line.split()).removeprefix("- ") for line in text.splitlines()]
