"""Finds equal or nearly equal programs in a class: a reason to ask, not a proof.

Programs are compared as tokens, without comments and layout. Nearly equal programs share most runs
of tokens that the stub does not have, whatever their names are called.
"""

from __future__ import annotations

import io
import keyword
import tokenize
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Final

RUN_TOKENS: Final = 6
"""Tokens of one run."""

NEARLY_EQUAL: Final = 0.8
"""Least share of common runs among all runs of two programs (Jaccard index)."""

FEWEST_RUNS: Final = 60
"""Programs with fewer runs of their own are too short to be alike by more than chance."""

MAX_TOKENS: Final = 50_000
"""Tokens of a program that are compared."""

_LAYOUT: Final = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


@dataclass(frozen=True)
class ProgramTokens:
    """The tokens of a program, as written and with all names replaced by one."""

    exact: tuple[str, ...]
    runs: frozenset[tuple[str, ...]]


def similar_programs(sources: Mapping[str, str], stub: str) -> dict[str, str]:
    """For each student with a similar program elsewhere: the others' names, as a table cell.

    Args:
        sources: the text of each student's program.
        stub: work.py as it was handed out; programs that add nothing to it are not compared.
    """
    handed_out = program_tokens(stub)
    tokens = {
        student: own
        for student, text in sorted(sources.items())
        if len((own := program_tokens(text)).runs - handed_out.runs) >= FEWEST_RUNS
    }
    notes: dict[str, list[str]] = {}
    for first, second in combinations(tokens, 2):
        if word := _compare(tokens[first], tokens[second], handed_out):
            notes.setdefault(first, []).append(f"{word} {second}")
            notes.setdefault(second, []).append(f"{word} {first}")
    return {student: "; ".join(note) for student, note in notes.items()}


def program_tokens(text: str) -> ProgramTokens:
    """The tokens of a program; if it has a syntax error, those before the error."""
    exact: list[str] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type not in _LAYOUT:
                exact.append(token.string)
            if len(exact) == MAX_TOKENS:
                break
    except (tokenize.TokenError, SyntaxError):
        pass
    alike = [
        "name" if word.isidentifier() and not keyword.iskeyword(word) else word for word in exact
    ]
    runs = {tuple(alike[start : start + RUN_TOKENS]) for start in range(len(alike))}
    return ProgramTokens(tuple(exact), frozenset(runs))


def _compare(first: ProgramTokens, second: ProgramTokens, stub: ProgramTokens) -> str:
    if first.exact == second.exact:
        return "equal to"
    common = len((first.runs & second.runs) - stub.runs)
    either = len((first.runs | second.runs) - stub.runs)
    return "nearly equal to" if common >= NEARLY_EQUAL * either else ""
