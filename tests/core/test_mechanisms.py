"""Mechanisms are asked, not told apart: what depends on one is its class's answer or a function
that it registers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from shuffledp_core.mechanisms import MECHANISMS, KRRHistogram, Spec
from shuffledp_core.mechanisms.installed import _with_installed

ROOT = Path(__file__).parents[2]
OURS = "core/src/shuffledp_core/mechanisms"


def sources() -> list[Path]:
    return [
        file
        for folder in ("*/src", "bench", "deploy", ".ci")
        for top in sorted(ROOT.glob(folder))
        for file in sorted(top.rglob("*.py"))
        if OURS not in file.as_posix() and not file.name.endswith(("_pb2.py", "_pb2_grpc.py"))
    ]


def _names(tree: ast.AST) -> Iterator[str]:
    """Every identifier and text in an expression: what a class, its kind or its name in quotes
    would be found by."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Constant(value=str(name)):
                yield name


def told_apart(source: str) -> list[int]:
    """Lines that ask which mechanism something is: isinstance, comparisons of type or kind, class
    patterns."""
    mechanisms = {spec.__name__ for spec in MECHANISMS.values()} | set(MECHANISMS)
    lines = []
    for node in ast.walk(ast.parse(source)):
        asked: list[ast.AST] = []
        match node:
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, kinds]):
                asked = [kinds]
            case ast.Compare(left=left, comparators=others):
                asked = [left, *others]
            case ast.MatchClass(cls=kind) | ast.MatchValue(value=kind):
                asked = [kind]
        lines += [
            node.lineno for one in asked if mechanisms & set(_names(one)) if hasattr(node, "lineno")
        ]
    return lines


@pytest.mark.parametrize(
    "line",
    [
        "isinstance(spec, KRRHistogram)",
        "isinstance(spec, mechanisms.GeoShuffle | SGDLShuffle)",
        "type(spec) is RRShuffle",
        "plan.mechanism == KRRHistogram.kind",
        "spec.kind in {'krr-histogram', 'other'}",
        "match spec:\n    case GeoShuffle(): pass",
        "match spec.kind:\n    case 'geo-shuffle': pass",
    ],
)
def test_the_check_sees(line: str) -> None:
    assert told_apart(line)


def test_nobody_asks_which_mechanism_it_is() -> None:
    files = sources()
    assert len(files) > 200
    found = [
        f"{file.relative_to(ROOT)}:{line}"
        for file in files
        for line in told_apart(file.read_text())
    ]
    assert not found, (
        f"ask the spec's class instead, or register a function for it: {', '.join(found)}"
    )


def test_tables_of_mechanisms_in_the_docs_name_all_of_ours() -> None:
    ours = {
        kind for kind, spec in MECHANISMS.items() if spec.__module__.startswith("shuffledp_core.")
    }
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        for table in re.findall(r"^\| mechanism \|.*\n(?:\|.*\n)+", page.read_text(), re.MULTILINE):
            cells = "".join(line.split("|")[1] for line in table.splitlines()[2:])
            named = set(re.findall(r"`([a-z-]+)`", cells))
            # Tables of played rounds have none whose noise comes from nodes.
            assert named <= ours, page
            assert not [kind for kind in ours - named if MECHANISMS[kind].needs_crowd], page


@pytest.mark.parametrize("spec", MECHANISMS.values(), ids=MECHANISMS)
def test_every_class_says_what_it_is(spec: type[Spec]) -> None:
    assert spec.__struct_config__.tag == spec.kind
    assert spec.summary.endswith(".")
    for largest in (1, 7):
        assert spec.domain_of(spec.size_for(largest)) == largest + 1
    assert spec.size_for(1) >= spec.least_size


class Point:
    """An entry point that is already loaded."""

    def __init__(self, name: str, loaded: object) -> None:
        self.name, self.value, self._loaded = name, f"somewhere:{name}", loaded

    def load(self) -> object:
        if isinstance(self._loaded, Exception):
            raise self._loaded
        return self._loaded


class Other(KRRHistogram, frozen=True, tag="other"):
    kind = "other"


class Unlabelled(KRRHistogram, frozen=True, tag="another"):
    pass


def test_installed_mechanisms_come_after_ours() -> None:
    found = _with_installed([KRRHistogram], [Point("other", Other)])  # type: ignore[list-item]
    assert list(found.values()) == [KRRHistogram, Other]


@pytest.mark.parametrize(
    ("loaded", "words"),
    [
        (
            AttributeError("partially initialized module"),
            "import only shuffledp_core.mechanisms.base",
        ),
        (KRRHistogram, "differ from all other kinds"),
        (Unlabelled, "must equal its tag"),
        ("a text", "not a Spec"),
    ],
)
def test_an_entry_point_that_cannot_be_used_says_why(loaded: object, words: str) -> None:
    with pytest.raises((ImportError, TypeError, ValueError), match=words):
        _with_installed([KRRHistogram], [Point("bad", loaded)])  # type: ignore[list-item]
