"""Mutation testing of the labs' solutions: finds single changes that no check notices.

`python labs/evidence/mutation.py 5 --changes 40` tries 40 changes of lab 5's solution, drawn by a
seeded generator, or all if there are fewer, and keeps the outcome in `mutation.json`. A change is
noticed if a check fails, of those that need no running system and belong to a step that the change
can affect. `python labs/evidence/instructor_pages.py` writes the report, and `reasons.toml`
explains each survivor.
"""

from __future__ import annotations

import argparse
import ast
import copy
import difflib
import json
import random
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from effects import affected_steps
from wrong_programs import solution

from shuffledp_labs.checking import LabRun, Watcher, run_checks
from shuffledp_labs.installed import lab as lab_of
from shuffledp_labs.instance import fresh_nonce, instance
from shuffledp_labs.lab import CHECK_POINTS, Check, Lab

OUTCOMES: Final = Path(__file__).with_name("mutation.json")

SLOWER: Final = 4.0
"""A check ends after this multiple of the solution's own time, and 20 s: the change is noticed."""

_COMPARISONS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_OPERATORS: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Add,
    ast.Pow: ast.Mult,
    ast.BitXor: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_DELETED: Final = (ast.Assign, ast.AugAssign, ast.Expr, ast.Raise, ast.Continue, ast.Break)


@dataclass(frozen=True)
class Change:
    """A solution with a single change.

    Attributes:
        function: the top-level function or class that contains it.
        old: the changed lines, as `ast.unparse` writes them.
        new: the lines in their place.
        text: the whole changed program.
    """

    function: str
    old: str
    new: str
    text: str

    @property
    def key(self) -> str:
        """The name of the change in `mutation.json` and `reasons.toml`."""
        return f"{self.function}: {self.old} -> {self.new}"


def changes_of(source: str) -> Iterator[Change]:
    """All single changes of a program, in the order of its nodes."""
    tree = ast.parse(source)
    for number, top in enumerate(tree.body):
        if not isinstance(top, ast.FunctionDef | ast.ClassDef):
            continue
        for index, node in enumerate(ast.walk(top)):
            for new in _replacements(node):
                changed = copy.deepcopy(tree)
                target = list(ast.walk(changed.body[number]))[index]
                _replace(changed.body[number], target, new)
                text = ast.unparse(ast.fix_missing_locations(changed))
                old_lines, new_lines = _changed_lines(ast.unparse(tree), text)
                yield Change(top.name, old_lines, new_lines, text)


def _changed_lines(before: str, after: str) -> tuple[str, str]:
    """The lines that differ between two programs, without indentation."""
    lines = list(difflib.ndiff(before.splitlines(), after.splitlines()))
    removed = " ".join(line[2:].strip() for line in lines if line.startswith("- "))
    added = " ".join(line[2:].strip() for line in lines if line.startswith("+ "))
    return removed, added


def _replacements(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that may replace one node."""
    if isinstance(node, ast.expr):
        yield from _expressions(node)
    elif isinstance(node, ast.Return) and not isinstance(node.value, ast.Constant | None):
        yield ast.Return(ast.Constant(None))
    elif isinstance(node, _DELETED) and not _is_docstring(node):
        yield ast.Pass()


def _expressions(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.Compare):
        for index, operator in enumerate(node.ops):
            ops = list(node.ops)
            ops[index] = _COMPARISONS[type(operator)]()
            yield ast.Compare(node.left, ops, node.comparators)
    elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        yield ast.BinOp(node.left, _OPERATORS[type(node.op)](), node.right)
    elif isinstance(node, ast.BoolOp):
        opposite = ast.And() if isinstance(node.op, ast.Or) else ast.Or()
        yield ast.BoolOp(opposite, node.values)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield node.operand
    elif isinstance(node, ast.IfExp):
        yield ast.IfExp(node.test, node.orelse, node.body)
    elif isinstance(node, ast.Constant):
        yield from _constants(node.value)


def _constants(value: object) -> Iterator[ast.expr]:
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int):
        yield ast.Constant(value + 1)


def _is_docstring(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _replace(tree: ast.AST, target: ast.AST, new: ast.AST) -> None:
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if value is target:
                setattr(parent, name, new)
                return
            if isinstance(value, list) and any(entry is target for entry in value):
                value[[entry is target for entry in value].index(True)] = new
                return


class Tester:
    """Runs a lab's checks on a changed solution until one of them fails.

    The check that noticed the last change of a function runs first for the next one.
    """

    def __init__(self, number: int) -> None:
        self.lab = lab_of(number)
        self.work = solution(f"{number:02}")
        checks = [check for check in self.lab.checks if not check.system]
        self._limits = {check.name: 20 + SLOWER * self._seconds(check) for check in checks}
        self._checks = {check.name: check for check in checks}
        self._first: dict[str, str] = {}

    def check_that_notices(self, change: Change) -> str | None:
        """The name of a check that fails for the changed program, or None."""
        first = self._first.get(change.function, "")
        with tempfile.TemporaryDirectory() as folder:
            work = Path(folder) / "work.py"
            work.write_text(change.text, encoding="utf-8")
            steps = affected_steps(self.lab, self.work.read_text(encoding="utf-8"), change.text)
            names = [name for name, check in self._checks.items() if check.step in steps]
            for name in sorted(names, key=lambda name: name != first):
                limited = replace(self._checks[name], seconds=self._limits[name])
                if not _passes(self.lab, limited, work):
                    self._first[change.function] = name
                    return name
        return None

    def _seconds(self, check: Check) -> float:
        """Seconds that a check takes with the unchanged solution.

        Raises:
            ValueError: the solution fails the check.
        """
        result = _run_alone(self.lab, check, self.work)
        if result.outcome != "passed":
            raise ValueError(f"the solution fails {check.name}: {result.message}")
        return float(result.seconds)


def _passes(lab: Lab, check: Check, work: Path) -> bool:
    return bool(_run_alone(lab, check, work).outcome == "passed")


def _run_alone(lab: Lab, check: Check, work: Path) -> Any:
    alone = replace(lab, checks=(replace(check, needs=(), points=CHECK_POINTS),))
    nonce = fresh_nonce()
    draws = instance(b"mutation testing", lab.number, "mutation", nonce)
    (result,) = run_checks(LabRun(alone, work, draws, "mutation", nonce), Watcher()).checks
    return result


def test_survivors(number: int, outcome: dict[str, Any]) -> dict[str, Any]:
    """Test the changes that survived before again; return the new outcome.

    Raises:
        ValueError: the solution is not the one that was tested.
    """
    source = solution(f"{number:02}").read_text(encoding="utf-8")
    if outcome["solution"] != sha256(source.encode()).hexdigest():
        raise ValueError(f"the solution of lab {number} has changed: test it without --survivors")
    chosen = [change for change in changes_of(source) if change.key in outcome["survivors"]]
    noticed, survivors = try_changes(number, chosen)
    counts = noticed + Counter(outcome["noticed"])
    return {**outcome, "noticed": dict(sorted(counts.items())), "survivors": survivors}


def test_solution(number: int, most: int, seed: int) -> dict[str, Any]:
    """Test changes of one solution; return the outcome in the form of `mutation.json`."""
    source = solution(f"{number:02}").read_text(encoding="utf-8")
    changes = list(changes_of(source))
    chosen = changes
    if most < len(changes):
        drawn = sorted(random.Random(seed).sample(range(len(changes)), most))  # noqa: S311
        chosen = [changes[index] for index in drawn]
    noticed, survivors = try_changes(number, chosen)
    return {
        "solution": sha256(source.encode()).hexdigest(),
        "possible": len(changes),
        "tried": len(chosen),
        "noticed": dict(sorted(noticed.items())),
        "survivors": survivors,
    }


def try_changes(number: int, changes: Sequence[Change]) -> tuple[Counter[str], list[str]]:
    """Number of changes that each check notices, and keys of the changes that survive."""
    tester = Tester(number)
    noticed = Counter[str]()
    survivors = []
    for change in changes:
        name = tester.check_that_notices(change)
        if name is None:
            survivors.append(change.key)
        else:
            noticed[name] += 1
        print(f"lab {number}: {name or 'SURVIVES'}: {change.key}", flush=True)
    return noticed, survivors


def main() -> None:
    """Test the solutions of the named labs, and store the outcomes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("labs", type=int, nargs="+", help="Numbers of labs.")
    parser.add_argument("--changes", type=int, default=10**6, help="Most changes a lab.")
    parser.add_argument("--seed", type=int, default=1, help="Draws the changes.")
    parser.add_argument("--survivors", action="store_true", help="Try only those again.")
    parser.add_argument("--out", type=Path, default=OUTCOMES, help="File of the outcomes.")
    options = parser.parse_args()
    for number in options.labs:
        outcomes = json.loads(options.out.read_text()) if options.out.exists() else {}
        if options.survivors:
            outcome = test_survivors(number, outcomes[f"{number:02}"])
        else:
            outcome = test_solution(number, options.changes, options.seed)
        outcomes[f"{number:02}"] = outcome
        options.out.write_text(json.dumps(dict(sorted(outcomes.items())), indent=1) + "\n")


if __name__ == "__main__":
    main()
