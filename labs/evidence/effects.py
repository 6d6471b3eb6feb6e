"""Determines which steps of a lab a change of the solution can affect.

A check calls only the functions that the handout describes under its step. So a change affects the
steps whose sections mention a function that differs, or one that uses such a function.
"""

from __future__ import annotations

import ast
import re

from shuffledp_labs.lab import Lab


def affected_steps(lab: Lab, before: str, after: str) -> frozenset[str]:
    """Letters of the steps that can tell the two programs apart; all if top-level code differs."""
    old = _definitions(before)
    new = _definitions(after)
    if old[""] != new[""]:
        return frozenset(check.step for check in lab.checks)
    affected = {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
    while users := {name for name in new if _uses(new[name], affected)} - affected:
        affected |= users
    return frozenset(
        letter for letter, text in _sections(lab).items() if any(_uses(text, {n}) for n in affected)
    )


def _definitions(source: str) -> dict[str, str]:
    """Source of each top-level function and class by its name; "" has all other statements."""
    definitions = {"": ""}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            definitions[node.name] = ast.unparse(node)
        else:
            definitions[""] += ast.unparse(node) + "\n"
    return definitions


def _uses(text: str, names: set[str]) -> bool:
    return any(re.search(rf"\b{re.escape(name)}\b", text) for name in names if name)


def _sections(lab: Lab) -> dict[str, str]:
    """The sections of the handout, by the letters of their steps."""
    handout = lab.file("handout.md").read_text(encoding="utf-8")
    parts = re.split(r"^## ", handout, flags=re.MULTILINE)
    sections = {}
    for part in parts:
        if match := re.match(r"(?:Step )?([B-F])[.:]", part):
            sections[match[1]] = part
    return sections
