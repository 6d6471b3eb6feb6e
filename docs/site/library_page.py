"""The page of the library, from its public names and their docstrings."""

from __future__ import annotations

import inspect

import shuffledp


def page() -> str:
    """An entry for each name in `shuffledp.__all__`, in that order, for Sphinx to fill from its docstring."""
    return "\n".join(_entry(name) for name in getattr(shuffledp, "__all__", ()))


def _entry(name: str) -> str:
    value = getattr(shuffledp, name)
    if inspect.isclass(value):
        directive, options = "autoclass", "   :members:\n"
    else:
        directive, options = "autofunction" if callable(value) else "autodata", ""
    return f"```{{eval-rst}}\n.. {directive}:: shuffledp.{name}\n{options}```\n"
