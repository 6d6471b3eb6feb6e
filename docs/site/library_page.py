"""The reference page of the library, generated from its public names and docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any, Final

from sphinx.application import Sphinx
from sphinx.ext.napoleon import Config
from sphinx.ext.napoleon.docstring import GoogleDocstring

import shuffledp

_STYLE: Final[Any] = Config(
    napoleon_use_ivar=True, napoleon_use_rtype=False, napoleon_attr_annotations=False
)
"""Attributes as one list; their types stand in the signature."""


def page() -> str:
    """Entries for the names in `shuffledp.__all__`: parameters, results and errors."""
    values = {name: getattr(shuffledp, name) for name in getattr(shuffledp, "__all__", ())}
    classes = {name for name, value in values.items() if inspect.isclass(value)}
    errors = {name for name in classes if issubclass(values[name], Exception)}
    functions = [name for name, value in values.items() if callable(value) and name not in classes]
    rest = [name for name in values if not callable(values[name])]
    return "\n".join(
        [
            "## Functions\n",
            *_entries("autofunction", functions),
            "## Values\n",
            *_entries("autoclass", [name for name in values if name in classes - errors]),
            *_entries("autodata", rest),
            "## Errors\n",
            *_entries("autoexception", [name for name in values if name in errors]),
        ]
    )


def _entries(directive: str, names: Iterable[str]) -> list[str]:
    options = "   :members:\n" if directive == "autoclass" else ""
    return [f"```{{eval-rst}}\n.. {directive}:: shuffledp.{name}\n{options}```\n" for name in names]


def read_docstring(
    _app: Sphinx, kind: Any, name: str, value: object, _options: object, lines: list[str]
) -> None:
    """Convert a docstring in Google's style for Sphinx, in place.

    A property reads as a function does: "the interval of `mean`: low and high" is a sentence, not a
    type. |x - y| is an absolute value; reStructuredText would take it for the name of a
    substitution.
    """
    kind = "function" if kind == "property" else kind
    read = GoogleDocstring(lines, _STYLE, what=kind, name=name, obj=value).lines()
    lines[:] = [_outside_of_code(line) for line in read]


def _outside_of_code(line: str) -> str:
    parts = line.split("`")  # every second one is code
    return "`".join(part if odd % 2 else part.replace("|", r"\|") for odd, part in enumerate(parts))
