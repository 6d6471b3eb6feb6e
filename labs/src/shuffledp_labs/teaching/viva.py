"""Three questions for a five-minute conversation on a student's own run and code.

The repository of the labs is public, and a solution can be copied; who copied it cannot answer
these. One question is about a sentence that a check said of this student's instance, one about a
prediction, and one about a line that the student wrote. They follow only from the result, so two
examiners ask the same.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, TypeVar

from shuffledp_labs.results import CheckResult, LabResult

T = TypeVar("T")

_SWAPPED: Final[dict[type[ast.AST], type[Any]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.FloorDiv,
}
"""Operators, and what each is asked to be exchanged for."""

_SEQUENCES: Final = (
    ast.Tuple,
    ast.List,
    ast.ListComp,
    ast.Set,
    ast.SetComp,
    ast.Dict,
    ast.DictComp,
    ast.JoinedStr,
)
_MAKERS: Final = {"bytes", "bytearray", "dict", "list", "set", "sorted", "str", "tuple"}

LONGEST: Final = 70
"""Characters of an expression that is quoted."""


@dataclass(frozen=True)
class VivaQuestion:
    """A question, and what a good answer mentions (only for the examiner)."""

    text: str
    listen_for: str


@dataclass(frozen=True, order=True)
class _Turn:
    """A position in a program where a small change gives another program."""

    line: int
    change: str
    function: str


def viva(
    result: LabResult,
    titles: Mapping[str, str],
    predictions: Sequence[tuple[str, str]],
    source: str,
    stub: str,
) -> tuple[VivaQuestion, VivaQuestion, VivaQuestion]:
    """The three questions about a result.

    Args:
        result: result of the run that the questions are about.
        titles: title of each check, by its name.
        predictions: question and answer, as the student gave them before the lab.
        source: the student's work.py.
        stub: work.py as it was handed out, whose lines are not asked about.
    """
    turns = sorted(_turns(source, stub))
    first = _about_a_check(result, titles)
    second = (
        _about_a_prediction(result, predictions)
        if predictions
        else _about_the_code(result, turns, source, "second")
    )
    return first, second, _about_the_code(result, turns, source, "third")


def _draw(result: LabResult, label: str, choices: Sequence[T]) -> T:
    """Draw one of the choices by the nonce, so that asking again gives the same one."""
    seed = sha256(
        f"{label}|{result.lab}|{result.student}|{result.nonce}|{result.digest}".encode()
    ).digest()
    return choices[int.from_bytes(seed, "big") % len(choices)]


def _about_a_check(result: LabResult, titles: Mapping[str, str]) -> VivaQuestion:
    spoken = [
        check for check in result.checks if check.message and check.outcome in {"passed", "failed"}
    ]
    if not spoken:
        return VivaQuestion(
            "No check of this run came to a verdict. Show where your program begins, and what you "
            "would write next.",
            "an honest account of how far it came; which check would be the first to pass",
        )
    check: CheckResult = _draw(result, "check", spoken)
    title = titles.get(check.name, check.name).rstrip(".")
    if check.outcome == "passed":
        text = (
            f'{check.name} passed, and said of your instance: "{check.message}". What was '
            f"compared with what there?"
        )
        text += " Which line of yours makes it true, and what would you change to make it false?"
    else:
        text = f'{check.name} failed, and said of your instance: "{check.message}".'
        text += " Which line of yours causes it, and what is the smallest change that mends it?"
    return VivaQuestion(
        text, f"what the check asks ({title}); the line; an effect that this instance would show"
    )


def _about_a_prediction(result: LabResult, predictions: Sequence[tuple[str, str]]) -> VivaQuestion:
    question, answer = _draw(result, "prediction", predictions)
    return VivaQuestion(
        f'Before the lab you answered "{answer}" to: "{question}" What did you find? If it differs,'
        " what explains the difference; if it does not, which change of the setting would have "
        "made you wrong?",
        "the number that was found, from the student's own report; the cause, not only the size, "
        "of a difference",
    )


def _about_the_code(
    result: LabResult, turns: Sequence[_Turn], source: str, label: str
) -> VivaQuestion:
    if not turns:
        return VivaQuestion(
            "Your work.py is as it was handed out. How would you begin with its first function, "
            "and how test it?",
            "what the function has to promise; a case small enough to count by hand",
        )
    turn = _draw(result, label, turns)
    line = source.splitlines()[turn.line - 1].strip()
    names = ", ".join(check.name for check in result.checks)
    return VivaQuestion(
        f"Line {turn.line} of your work.py, in `{turn.function}`: `{line}`. What would happen if "
        f"{turn.change}? Which check would notice, by which observation, and could one miss it?",
        f"the effect on the answer or on its law; a check that sees it ({names}); or why nothing "
        "changes, if so",
    )


def _turns(source: str, stub: str) -> Iterator[_Turn]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    given = {line.strip() for line in stub.splitlines()}
    lines = source.splitlines()
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for node in ast.walk(function):
                change = _change(node)
                if change and lines[node.lineno - 1].strip() not in given:  # type: ignore[attr-defined]  # has a place
                    yield _Turn(node.lineno, change, function.name)  # type: ignore[attr-defined]


def _change(node: ast.AST) -> str | None:
    match node:
        case ast.Compare(left=left, ops=[operator], comparators=[right]) if (
            type(operator) in _SWAPPED
        ):
            return _describe_exchange(
                node, ast.Compare(left, [_SWAPPED[type(operator)]()], [right])
            )
        case ast.BinOp(left=left, op=operator, right=right) if (
            _numeric(left, right) and type(operator) in _SWAPPED
        ):
            return _describe_exchange(node, ast.BinOp(left, _SWAPPED[type(operator)](), right))
        case ast.If():
            return "its condition were always true"
        case ast.Raise():
            return "this line were not there"
        case ast.Call(func=ast.Attribute(attr="below" | "flip" | "flip_exp" as name)):
            return f"the coin `{name}` were thrown once and its result used for every call"
        case _:
            return None


def _numeric(*operands: ast.expr) -> bool:
    """Return True if no operand is obviously a sequence or text.

    With another operator that would be a TypeError, not a question.
    """
    return not any(
        isinstance(operand, _SEQUENCES)
        or (isinstance(operand, ast.Constant) and not isinstance(operand.value, int | float))
        or (isinstance(operand, ast.Subscript) and isinstance(operand.slice, ast.Slice))
        or (
            isinstance(operand, ast.Call)
            and isinstance(operand.func, ast.Name)
            and operand.func.id in _MAKERS
        )
        or (isinstance(operand, ast.BinOp) and not _numeric(operand.left, operand.right))
        for operand in operands
    )


def _describe_exchange(here: ast.expr, there: ast.expr) -> str | None:
    written = ast.unparse(here)
    instead = ast.unparse(there)
    return f"`{written}` were `{instead}`" if len(written) <= LONGEST else None
