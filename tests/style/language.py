"""Measures the language of the project: `python tests/style/language.py` prints a table and the
places.

Identifiers are counted once for each definition: functions, classes, parameters, attributes and
variables that are assigned to. Prose is README, CONTRIBUTING, SECURITY, CHANGELOG, docs and the
labs' texts without code blocks, and all docstrings."""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]

VAGUE_WORDS: Final = frozenset(
    [
        "found",
        "one",
        "place",
        "asked",
        "each",
        "said",
        "kept",
        "known",
        "wanted",
        "own",
        "told",
        "made",
        "whole",
        "held",
    ]
)
"""Words that name anything, and therefore nothing, when they are a whole identifier."""

# Not counted: "cut", "put", "read", "run" and "split", which as names are verbs ("run the
# round"), and "bound", which is a noun here ("an upper bound").
PARTICIPLES: Final = re.compile(
    r"^(\w+ed|begun|brought|built|caught|chosen|done|drawn|fallen|felt|found|given|gone|held|hidden|kept|known|laid|"
    r"left|lost|made|meant|met|paid|said|seen|sent|shown|spent|taken|thrown|told|torn|understood|used|worn|written)$"
)
"""A name of one word that is a past participle."""

NOUNS: Final = frozenset(
    ["seed", "feed", "speed", "need", "embed", "shed", "shared", "indeed", "bed"]
)
"""Words in -ed that are no participles."""

PHRASES: Final = (
    "nobody",
    "for ever",
    "so many",
    "whoever",
    "says nothing",
    "say nothing",
    "the same of",
    "that of whom",
    "by the word of",
    "what it is",
    "is no text",
    "asks to be",
)
"""Phrases of the project's former dialect, counted in prose; docs/glossary.md has terms instead."""


@dataclass
class Measured:
    """Counts, and the places they come from (`file:line: name`)."""

    identifiers: int = 0
    code_lines: int = 0
    prose_words: int = 0
    vague: list[str] = field(default_factory=list)
    participles: list[str] = field(default_factory=list)
    parallel: list[str] = field(default_factory=list)
    long_lines: list[str] = field(default_factory=list)
    summaries: list[str] = field(default_factory=list)
    phrases: Counter[str] = field(default_factory=Counter)
    classes: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    @property
    def repeated_classes(self) -> dict[str, list[str]]:
        """Public class names that are defined more than once, with their places."""
        return {name: places for name, places in self.classes.items() if len(places) > 1}

    def rows(self) -> dict[str, float]:
        """The measurements by name; each should be small."""
        per_thousand_names = 1000 / max(self.identifiers, 1)
        per_thousand_lines = 1000 / max(self.code_lines, 1)
        return {
            "vague identifiers per 1,000": len(self.vague) * per_thousand_names,
            "functions and classes named by a bare participle": float(len(self.participles)),
            "parallel assignments of computed values per 1,000 lines": (
                len(self.parallel) * per_thousand_lines
            ),
            "share of code lines over 100 columns": len(self.long_lines) / max(self.code_lines, 1),
            "docstring summaries of more than one line": float(len(self.summaries)),
            "public class names defined more than once": float(len(self.repeated_classes)),
            **{f"'{phrase}' in prose": float(self.phrases[phrase]) for phrase in PHRASES},
        }


def measure(root: Path = ROOT) -> Measured:
    """Measure all product code and prose that git tracks below `root`."""
    measured = Measured()
    for file in tracked(root, "*.py"):
        path = file.relative_to(root).as_posix()
        if not path.startswith("tests/") and not path.endswith(("_pb2.py", "_pb2_grpc.py")):
            measure_code(file.read_text(encoding="utf-8"), path, measured)
    for file in tracked(root, "*.md"):
        measure_prose(without_code(file.read_text(encoding="utf-8")), measured)
    return measured


def tracked(root: Path, pattern: str) -> Iterator[Path]:
    """Files below `root` that git tracks, in its order."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--", pattern]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if (root / name).exists():
            yield root / name


def measure_code(source: str, path: str, into: Measured) -> None:
    """Measure one module, its docstrings included."""
    lines = source.splitlines()
    into.code_lines += len(lines)
    into.long_lines += [
        f"{path}:{number}" for number, line in enumerate(lines, 1) if len(line) > 100
    ]
    for node in ast.walk(ast.parse(source)):
        docstring_of(node, into)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            summary = (ast.get_docstring(node) or "").split("\n\n")[0]
            if "\n" in summary:
                into.summaries.append(
                    f"{path}:{getattr(node, 'lineno', 1)}: {summary.splitlines()[0]}"
                )
        for name in names_of(node):
            into.identifiers += 1
            if name.strip("_") in VAGUE_WORDS:
                into.vague.append(f"{path}:{getattr(node, 'lineno', 0)}: {name}")
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            word = node.name.strip("_").lower()
            is_one_word = "_" not in word and not re.search("[a-z][A-Z]", node.name)
            if PARTICIPLES.match(word) and is_one_word and word not in NOUNS:
                into.participles.append(f"{path}:{node.lineno}: {node.name}")
        # A lab's solution defines the classes of the program that students are given.
        is_solution = path.startswith("labs/solutions/")
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and not is_solution:
            into.classes[node.name].append(f"{path}:{node.lineno}")
        if is_parallel(node):
            into.parallel.append(f"{path}:{getattr(node, 'lineno', 0)}")


def names_of(node: ast.AST) -> Iterator[str]:
    """The names that a node defines."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        yield node.attr


def is_parallel(node: ast.AST) -> bool:
    """True for `a, b = f(), g()`: several targets, several values, at least two of them
    computed."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Tuple):
        return False
    computed = [
        value
        for value in node.value.elts
        if any(isinstance(part, ast.Call | ast.BinOp | ast.IfExp) for part in ast.walk(value))
    ]
    return isinstance(node.targets[0], ast.Tuple) and len(computed) > 1


def docstring_of(node: ast.AST, into: Measured) -> None:
    """Count a node's docstring as prose; so are the strings that document a constant."""
    match node:
        case ast.Expr(value=ast.Constant(value=str(text))):
            measure_prose(text, into)


def without_code(text: str) -> str:
    """A Markdown page without fenced and indented code blocks, spans of code and link targets."""
    text = re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^(?: {4}|\t)(?![*\-\d]).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"`[^`\n]*`", "", text)
    return re.sub(r"\]\([^)]*\)", "]", text)


def measure_prose(text: str, into: Measured) -> None:
    """Count words and phrases of a text."""
    words = " ".join(text.lower().split())
    into.prose_words += len(words.split())
    for phrase in PHRASES:
        into.phrases[phrase] += len(re.findall(rf"\b{re.escape(phrase)}\b", words))


def main() -> None:
    """Print the table, and with `--places NAME` the places behind one row."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument(
        "--places",
        choices=["vague", "participles", "parallel", "long_lines", "summaries", "classes"],
    )
    options = parser.parse_args()
    measured = measure()
    if options.places == "classes":
        for name, places in sorted(measured.repeated_classes.items()):
            sys.stdout.write(f"{name}: {', '.join(places)}\n")
        return
    if options.places:
        sys.stdout.write("\n".join(getattr(measured, options.places)) + "\n")
        return
    for name, value in measured.rows().items():
        sys.stdout.write(f"{value:9.3f}  {name}\n")
    sys.stdout.write(f"{measured.prose_words:9,}  words of prose\n")


if __name__ == "__main__":
    main()
