"""Draw texts for a reading test: `python tests/style/reading_sample.py SEED`.

Prints docstrings, error messages and log lines of the product, and names of pages, drawn at random
with the seed. A reader who does not know the code says what each of them means; every text that is
misunderstood is rewritten, and another sample is drawn."""

from __future__ import annotations

import argparse
import ast
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

import language


@dataclass
class Texts:
    """All texts of the product by kind, each with its place."""

    docstrings: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    logs: list[str] = field(default_factory=list)


def collect() -> Texts:
    """Collect the texts of all product modules that git tracks."""
    texts = Texts()
    for file in language.tracked(language.ROOT, "*.py"):
        path = file.relative_to(language.ROOT).as_posix()
        if path.startswith("tests/") or path.endswith(("_pb2.py", "_pb2_grpc.py")):
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            place = f"{path}:{getattr(node, 'lineno', 1)}"
            match node:
                case ast.Module() | ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                    if docstring := ast.get_docstring(node):
                        name = getattr(node, "name", "module")
                        texts.docstrings.append(f"{place}: {name}: {docstring}")
                case ast.Raise(exc=ast.Call(args=[message, *_])):
                    texts.errors.extend(f"{place}: {words}" for words in literals(message))
                case ast.Call(func=ast.Attribute(attr=level), args=[message, *_]):
                    if level in {"info", "warning", "error", "exception"}:
                        texts.logs.extend(f"{place}: {words}" for words in literals(message))
    return texts


def literals(node: ast.expr) -> Iterator[str]:
    """The text of a message, with its computed parts as {..}."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr():
            yield ast.unparse(node)


def main() -> None:
    """Print one sample."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("--docstrings", type=int, default=30)
    options = parser.parse_args()
    generator = random.Random(options.seed)  # noqa: S311
    texts = collect()
    pages = [
        file.relative_to(language.ROOT).as_posix()
        for file in language.tracked(language.ROOT, "docs/*.md")
    ]
    for kind, drawn_from, count in (
        ("docstrings", texts.docstrings, options.docstrings),
        ("errors", texts.errors, 15),
        ("log lines", texts.logs, 10),
        ("pages", pages, 5),
    ):
        sample = generator.sample(drawn_from, min(count, len(drawn_from)))
        sys.stdout.write(f"\n{kind}, {len(sample)} of {len(drawn_from)}\n\n")
        sys.stdout.write("\n\n".join(sample) + "\n")


if __name__ == "__main__":
    main()
