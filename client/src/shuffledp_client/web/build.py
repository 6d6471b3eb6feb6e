"""`python -m shuffledp_client.web.build [--check]` makes the small module and its parts.

What pages load is `shuffledp.min.js`; what people read is `shuffledp.js`. The same source gives the
same bytes, so that anyone can build the module again and compare. The module pins its parts, so
that their digests are written into its source first. docs/adr/0027-small-module.md,
docs/adr/0034-module-in-parts.md.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from importlib import metadata, resources
from itertools import zip_longest
from pathlib import Path
from typing import Final

from shuffledp_client.web import MODULE, PARTS, SOURCE, integrity
from shuffledp_core.errors import ConfigError

MINIFIER: Final = "tdewolff-minify"
MINIFIER_VERSION: Final = "2.24.10"
"""Also in `pyproject.toml`. 2.24.11 and 2.24.12 evaluate some declarations in another order
(https://github.com/tdewolff/minify/issues/958); `find_reordering` notices."""

BANNER: Final = (
    "// {source} beside this file is the source. To build this file again and compare:\n"
    f"// pip install {MINIFIER}=={MINIFIER_VERSION}; python -m {__package__}.build --check\n"
)

_BANNER_LINES: Final = re.compile(r"\A(?://[^\n]*\n)+")
_EXPORT: Final = re.compile(r"^export (?=(?:async )?(?:class|const|function) (\w+))", re.MULTILINE)
_FUNCTION: Final = re.compile(
    r"^(async )?function (\w+)(\(.*?\)) \{\n(.*?)^\}$", re.MULTILINE | re.DOTALL
)
"""A function at the top level, which its formatting tells from others."""

_MODULE_STATEMENT: Final = re.compile(r"^\s*(?:export|import)\b", re.MULTILINE)
_COMMENT: Final = re.compile(r"/\*\*.*?\*/|(?:^|(?<=[\s;,]))//[^\n]*", re.DOTALL)
_JOINT: Final = re.compile(r'"\s*\+\s*"')
"""Between two parts of one text."""

_PROPERTY_OR_TEXT: Final = re.compile(r'(?<!\.)\.[A-Za-z_]\w*|"[A-Za-z][^"\n]{3,}"')


def build_files(sources: Mapping[str, str]) -> dict[str, str]:
    """The contents of all built files: minified ones, and the source with its pinned parts.

    Args:
        sources: the texts of the module's and its parts' sources, by name of file.
    """
    parts = {name: build_module(sources[source], source) for name, source in PARTS.items()}
    pinned = pin_parts(sources[SOURCE], parts)
    return {**parts, SOURCE: pinned, MODULE: build_module(pinned)}


def pin_parts(source: str, parts: Mapping[str, str]) -> str:
    """Insert the digests of these parts into the module's source."""
    for name, text in parts.items():
        pin = re.compile(rf'^(  "{re.escape(name)}": )"sha384-[^"]*"', re.MULTILINE)
        if len(pin.findall(source)) != 1:
            raise ConfigError(f'{SOURCE} must pin {name} in one line: `"{name}": "sha384-",`')
        source = pin.sub(rf'\1"{integrity(text.encode())}"', source)
    return source


def build_module(source: str, name: str = SOURCE) -> str:
    """Minify a module: the same behaviour under shorter names.

    The minifier keeps the top-level names of a module. So all declarations move into one function,
    whose result is what the module exports. Top-level functions become constants, which the
    minifier joins; none of them may be called before its place in the source.
    """
    if _installed_minifier() != MINIFIER_VERSION:
        raise ConfigError(
            f"building {MODULE} needs {MINIFIER} {MINIFIER_VERSION}: run "
            f"`pip install {MINIFIER}=={MINIFIER_VERSION}`"
        )
    import minify

    exported = ", ".join(_EXPORT.findall(source))
    declarations = _FUNCTION.sub(r"const \2 = \1\3 => {\n\4};", _EXPORT.sub("", source))
    if _MODULE_STATEMENT.search(declarations):
        raise ConfigError(
            f"{name} may import nothing, and export only declarations: `export const name = ..`"
        )
    enclosed = (
        f"export const [{exported}] = (() => {{\n{declarations}\nreturn [{exported}];\n}})();\n"
    )
    return f"{BANNER.format(source=name)}{minify.string('text/javascript', enclosed)}\n"


def find_reordering(source: str, module: str) -> str | None:
    """The first property or text in another position than in the source; None without one.

    A minifier renames variables, but each property and text stays, in the same order.
    """
    expected = _properties_and_texts(_COMMENT.sub("", source))
    present = _properties_and_texts(_BANNER_LINES.sub("", module))
    for old, new in zip_longest(expected, present):
        if old != new:
            return f"{old} is {new}"
    return None


def _properties_and_texts(text: str) -> list[str]:
    return _PROPERTY_OR_TEXT.findall(_JOINT.sub("", text))


def _installed_minifier() -> str | None:
    try:
        return metadata.version(MINIFIER)
    except metadata.PackageNotFoundError:
        return None


def main() -> None:
    """Write all files; with `--check`, fail if an existing file differs from its sources."""
    folder = Path(str(resources.files(__package__)))
    names = (SOURCE, *PARTS.values())
    sources = {name: (folder / name).read_text(encoding="utf-8") for name in names}
    built = build_files(sources)
    for small, source in {MODULE: SOURCE, **PARTS}.items():
        reordering = find_reordering(built.get(source, sources[source]), built[small])
        if reordering is not None:
            sys.exit(f"{MINIFIER} {MINIFIER_VERSION} changed the order of {source}: {reordering}")
    for name, text in built.items():
        target = folder / name
        if "--check" not in sys.argv[1:]:
            target.write_text(text, encoding="utf-8")
        elif not target.exists() or target.read_text(encoding="utf-8") != text:
            sys.exit(f"{name} is not what the sources give: run 'make module' and commit")


if __name__ == "__main__":
    main()
