"""Results as HTML in notebooks, and as pandas tables if pandas is installed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from shuffledp_core.errors import NotInstalledError

if TYPE_CHECKING:
    from types import ModuleType

Row = tuple[str, str, str]
"""Name, value, remark."""


def html_table(title: str, rows: Iterable[Row], notes: Sequence[str] = ()) -> str:
    """A small HTML table for `_repr_html_`: no scripts, and no styles except alignment.

    Every text is escaped.
    """
    from html import escape  # here: commands would wait for its table of entities

    body = "".join(
        f"<tr><th style='text-align:left'>{escape(name)}</th><td "
        f"style='text-align:right'>{escape(value)}</td>"
        f"<td style='text-align:left'>{escape(remark)}</td></tr>"
        for name, value, remark in rows
    )
    listed = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return f"<table><caption>{escape(title)}</caption>{body}</table>" + (
        f"<ul>{listed}</ul>" if notes else ""
    )


def data_frame(columns: Mapping[str, Any]) -> Any:
    """A `pandas.DataFrame` with these columns; raises `NotInstalledError` without pandas."""
    return import_optional("pandas", "pandas", "a data frame").DataFrame(dict(columns))


def import_optional(module: str, install: str, what: str) -> ModuleType:
    """Import a module that may not be installed.

    Args:
        module: name of the module.
        install: the requirement that pip installs for it.
        what: what the module is needed for, in words.

    Raises:
        NotInstalledError: the module is not installed; the message says how to install it.
    """
    check_installed(module, install, what)
    return import_module(module)


def check_installed(module: str, install: str, what: str) -> None:
    """Raise `NotInstalledError` without the module, before the work that needs it."""
    if find_spec(module) is None:
        raise NotInstalledError(
            f"{what} needs {module}, which is not installed: pip install '{install}'"
        )
