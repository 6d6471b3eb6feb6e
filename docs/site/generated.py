"""Generated parts of the site: commands, documents, errors, the library, pictures.

A page asks for it by a comment in a line of its own, `<!-- generated: commands -->`, which a reader
of the plain file does not see. Each is made from the running code at every build, so none can be
out of date.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.typing import ExtensionMetadata

import commands_page
import documents_page
import errors_page
import formulas
import handouts
import library_page
import pictures
from shuffledp_experiments.pages import registry_table

MAKERS: Final[dict[str, Callable[[], str]]] = {
    "commands": commands_page.page,
    "documents": documents_page.page,
    "errors": errors_page.page,
    "experiments": registry_table,
    "labs": handouts.table,
    "library": library_page.page,
    "three models": pictures.three_models,
    "crowd": pictures.crowd,
    "honest people": pictures.honest_people,
    "front of sums": pictures.front_of_sums,
}
"""The generated parts by name; each gives Markdown."""

_PLACE: Final = re.compile(r"^<!-- generated: (.+) -->$", flags=re.MULTILINE)
_ANCHOR: Final = re.compile(r'^<a id="([\w-]+)"></a>', flags=re.MULTILINE)
_SOURCE: Final = re.compile(r"\]\([\w./-]*references\.md#([\w-]+)\)")


def fill(_app: Sphinx, _page: str, source: list[str]) -> None:
    """Insert requested generated parts into a page that Sphinx has read, in place.

    Raises `KeyError` for an unknown part.

    The anchors of docs/references.md are plain HTML, as forges want them; here they become targets
    that Sphinx checks, so that a citation of a source that is not listed fails the build.
    """
    text = _PLACE.sub(lambda match: MAKERS[match[1]](), source[0])
    source[0] = _SOURCE.sub(r"](#\1)", _ANCHOR.sub(r"(\1)=\n", text))


def never_up_to_date(
    _app: Sphinx, env: BuildEnvironment, _added: set[str], _changed: set[str], _removed: set[str]
) -> list[str]:
    """Pages to read at every build, because they show generated parts."""
    return [page for page in env.found_docs if _PLACE.search(Path(env.doc2path(page)).read_text())]


def collect(app: Sphinx) -> None:
    """Write the generated pages before Sphinx looks for pages."""
    handouts.collect(Path(app.srcdir))


def setup(app: Sphinx) -> ExtensionMetadata:
    """Entry point of this Sphinx extension."""
    formulas.register(app)
    app.connect("builder-inited", collect)
    app.connect("source-read", fill)
    app.connect("env-get-outdated", never_up_to_date)
    app.connect("autodoc-process-docstring", library_page.read_docstring)
    return {"parallel_read_safe": True}
