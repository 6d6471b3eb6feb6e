"""Counts what a reader has to hold in mind: `python tests/style/structure.py` prints it.

* Methods of each class, without Python's own protocol (`__init__`, `__len__` ...).
* Carriers: public classes of the numerics and of the library that hold numbers of a guarantee.
* Statements of the product: nodes of its syntax trees, which no formatting changes
  (docs/adr/0020-lines-of-100-columns.md).
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import language

MOST_METHODS: Final = 20

CARRIER_FOLDERS: Final = ("privacy/src/", "shuffledp/src/")

OPTIONS: Final = "shuffledp/src/shuffledp/commands/"
"""Its dataclasses declare options of commands: they hold what was typed."""

CARRIED: Final = (
    {"spec", "mechanism", "cost", "round"},
    {"users", "honest", "setting", "plan"},
    {"epsilon", "certified", "epsilon_local", "bounds"},
    {"attained", "published"},
    {"delta", "corrupted_delta"},
    {"corrupted", "corrupted_epsilon"},
    {"error", "standard_error"},
)
"""Fields of a guarantee, by meaning. A carrier has fields of at least two meanings."""


def product(root: Path = language.ROOT) -> Iterator[tuple[str, ast.Module]]:
    """Every product module that git tracks: path and syntax tree."""
    for file in language.tracked(root, "*.py"):
        path = file.relative_to(root).as_posix()
        if not path.startswith("tests/") and not path.endswith(("_pb2.py", "_pb2_grpc.py")):
            yield path, ast.parse(file.read_text(encoding="utf-8"))


def classes(tree: ast.Module) -> Iterator[ast.ClassDef]:
    """The classes of a module, also nested ones."""
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def methods(definition: ast.ClassDef) -> list[str]:
    """Names of the methods that the class itself defines, public and private."""
    return [
        node.name
        for node in definition.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not (node.name.startswith("__") and node.name.endswith("__"))
    ]


def large_classes(root: Path = language.ROOT) -> dict[str, int]:
    """Classes of more than `MOST_METHODS` methods, with their number."""
    return {
        definition.name: len(methods(definition))
        for _, tree in product(root)
        for definition in classes(tree)
        if len(methods(definition)) > MOST_METHODS
    }


def fields(definition: ast.ClassDef) -> set[str]:
    """Names of the annotated fields of a class."""
    return {
        node.target.id
        for node in definition.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }


def is_carrier(definition: ast.ClassDef) -> bool:
    """True if the class has fields of at least two meanings of `CARRIED`."""
    return sum(1 for meaning in CARRIED if meaning & fields(definition)) > 1


def carriers(root: Path = language.ROOT) -> dict[str, str]:
    """Public carriers, with their place."""
    return {
        definition.name: path
        for path, tree in product(root)
        if path.startswith(CARRIER_FOLDERS) and not path.startswith(OPTIONS)
        for definition in classes(tree)
        if is_carrier(definition) and not definition.name.startswith("_")
    }


def count_statements(root: Path = language.ROOT) -> int:
    """Statements of all product modules; docstrings are none."""
    return sum(is_statement(node) for _, tree in product(root) for node in ast.walk(tree))


def is_statement(node: ast.AST) -> bool:
    """True for a statement that is not a docstring or another constant."""
    if not isinstance(node, ast.stmt):
        return False
    return not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def main() -> None:
    """Print all counts."""
    sys.stdout.write(f"{count_statements():,} statements of the product\n")
    for name, count in sorted(large_classes().items(), key=lambda item: -item[1]):
        sys.stdout.write(f"{count:4} methods: {name}\n")
    for name, path in carriers().items():
        sys.stdout.write(f"carrier: {name} ({path})\n")


if __name__ == "__main__":
    main()
