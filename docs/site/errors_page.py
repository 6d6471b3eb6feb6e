"""The reference page of all errors, generated from the tree of their classes."""

from __future__ import annotations

import inspect

from shuffledp_core.errors import ShuffleDPError


def page() -> str:
    """A section for each branch, with an entry for each of its errors, as Markdown."""
    branches = ShuffleDPError.__subclasses__()
    alone = [branch for branch in branches if not branch.__subclasses__()]
    sections = [_section(branch) for branch in branches if branch not in alone]
    return "\n".join([*sections, "## Others\n", *map(_entry, alone)])


def below(branch: type[ShuffleDPError]) -> list[type[ShuffleDPError]]:
    """Every class below a branch, once each. A class with two parents is below both."""
    children = branch.__subclasses__()
    return list(dict.fromkeys(error for child in children for error in (child, *below(child))))


def _section(branch: type[ShuffleDPError]) -> str:
    return "\n".join(
        [f"## `{branch.__name__}`\n", f"{_meaning(branch)}\n", *map(_entry, below(branch))]
    )


def _entry(error: type[ShuffleDPError]) -> str:
    return f"`{error.__name__}`\n: {_meaning(error)}\n"


def _meaning(error: type[ShuffleDPError]) -> str:
    meaning = " ".join((inspect.getdoc(error) or "").split())
    return meaning if "xit code" in meaning else f"{meaning} Exit code {error.exit_code}."
