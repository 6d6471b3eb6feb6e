"""Generate the parts of the instructor's documents that describe the checks.

`python labs/evidence/instructor_pages.py` writes the table of checks and wrong programs into the
instructor.md of each lab, and the report of mutation testing into `labs/evidence/README.md`.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from mutation import OUTCOMES
from wrong_programs import LABS, Wrong, wrong_programs

from shuffledp_labs.installed import all_labs
from shuffledp_labs.lab import Check, Lab

BEGIN: Final = "<!-- begin of what labs/evidence/instructor_pages.py generates -->"
END: Final = "<!-- end of what is generated -->"
REPORT: Final = Path(__file__).with_name("README.md")
REASONS: Final = Path(__file__).with_name("reasons.toml")


def write_pages() -> list[Path]:
    """Write all pages; return those whose text has changed."""
    changed = []
    for file, text in pages():
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")
            changed.append(file)
    return changed


def pages() -> Iterator[tuple[Path, str]]:
    """Path and text of every page that has a generated part."""
    for lab in all_labs():
        folder = LABS / "src" / lab.folder.replace(".", "/")
        file = folder / "instructor.md"
        before = file.read_text(encoding="utf-8").partition(BEGIN)[0].rstrip()
        yield file, f"{before}\n\n{BEGIN}\n{checks_table(lab)}\n{END}\n"
    yield REPORT, mutation_report()


def checks_table(lab: Lab) -> str:
    """The checks of a lab, the property that each tests, and the wrong programs that fail it."""
    programs = list(wrong_programs(f"{lab.number:02}"))
    lines = [
        "## What each check catches",
        "",
        "Every wrong program is the reference solution with a few lines replaced "
        f"(`labs/mutants/lab{lab.number:02}.toml`). On every instance it loses its check and keeps "
        "all others, except where a reason is given below.",
        "",
        "| check | property | wrong programs that lose it |",
        "|---|---|---|",
    ]
    lines += [
        f"| `{check.name}` | {_cell(check.title)} | {_losers(check, programs)} |"
        for check in lab.checks
    ]
    several = [wrong for wrong in programs if wrong.also]
    if several:
        lines += ["", "Wrong programs that may lose further checks:", ""]
    for wrong in several:
        names = ", ".join(f"`{name}`" for name in (wrong.loses, *wrong.also))
        lines.append(f"* `{wrong.name}` ({names}): {wrong.reason}")
    return "\n".join(lines)


def _losers(check: Check, programs: list[Wrong]) -> str:
    losers = [wrong for wrong in programs if wrong.loses == check.name]
    if losers:
        return "<br>".join(f"`{wrong.name}`: {_cell(wrong.why)}" for wrong in losers)
    return "none: it repeats in a running system what the checks before it ask for"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def mutation_report() -> str:
    """The outcomes of mutation testing, with a reason for every change that survived."""
    outcomes: dict[str, Any] = json.loads(OUTCOMES.read_text(encoding="utf-8"))
    reasons = tomllib.loads(REASONS.read_text(encoding="utf-8"))
    lines = [
        "# Evidence that the checks of the labs catch mistakes",
        "",
        "`mutation.py` changes one place of a reference solution: a comparison, an operator, a",
        "constant, a condition, a returned value or a statement. It runs the checks that need no",
        "running system, and a change survives if none of them fails. The changes tried are drawn",
        "by a seeded generator. `instructor_pages.py` writes this page from `mutation.json` and",
        "`reasons.toml`. The instructor's guide of each lab lists its checks and wrong programs.",
        "",
        "| lab | possible changes | tried | noticed | survived |",
        "|---|---|---|---|---|",
    ]
    for number, outcome in outcomes.items():
        survived = len(outcome["survivors"])
        lines.append(
            f"| {int(number)} | {outcome['possible']} | {outcome['tried']} | "
            f"{outcome['tried'] - survived} | {survived} |"
        )
    lines += ["", "## Changes that survived"]
    for number, outcome in outcomes.items():
        if outcome["survivors"]:
            lines += ["", f"Lab {int(number)}:", ""]
        for key in outcome["survivors"]:
            reason = reasons.get(number, {}).get(key, "")
            lines.append(f"* `{key}`: {reason}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    for page in write_pages():
        print(page)
