"""Each check of docs/mixing.md as (module, its source, what stands there without it).

A check is named by its mark, a comment such as `# T1` at its statement; where only a part of a
statement is cut, by that part. See `test_every_mixing_check`.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize

CUT = {
    "one encoding": (
        "group",
        "if not _is_encoding(_library(), encoded):",
        "if not _library().crypto_core_ristretto255_is_valid_point(encoded):",
    ),
    "K2": ("keys", "# K2", "pass"),
    "K3": ("keys", "# K3", "pass"),
    "C1 enrolled": ("claims", "# C1 enrolled", "if False:"),
    "D3 users": ("claims", "# D3 users", "if False:"),
    "D3 nodes": ("claims", "# D3 nodes", "if False:"),
    "C1 lengths": ("claims", "# C1 lengths", "if False:"),
    "C1 signed": ("claims", "# C1 signed", "pass"),
    "C2": ("claims", "# C2", "if False:"),
    "C3": ("claims", "# C3", "pass"),
    "C3 powers": ("proofs", "points.powers(c)", "multiply(c, Element(points.total))"),
    "C4": ("claims", "legal and keys == claim.keys and", "legal or"),
    "L1": ("claims", "# L1", "pass"),
    "L3": ("claims", "# L3", "if False:"),
    "L4": ("claims", "# L4", "if False:"),
    "H1 signed": ("chain", "# H1 signed", "pass"),
    "H1 list": ("chain", "# H1 list", "if False:"),
    "H1 link": ("chain", "header.previous, header.list", "self.link, header.list"),
    "H1 once": ("hops", "# H1 once", "if False:"),
    "H2": ("chain", "header.count != terms.count_messages(self.users) or ", ""),
    "H2 board": ("chain", "# H2 board", "if False:"),
    "H3": ("chain", "# H3", "if False:"),
    "H4": ("chain", "# H4", "if False:"),
    "H5": ("chain", "!= chain.total:  # H5", "is None:"),
    "H6": ("headers", "# H6", "pass"),
    "H7 left": ("hops", "# H7 left", "if False:"),
    "H7 traced": ("hops", " or accused != self._accusation", ""),
    "H8": ("hops", "# H8", "if True:"),
    "F1": ("terms", "# F1", "if False:"),
    "F2": ("terms", "# F2", "if False:"),
    "F3": ("chain", "# F3", "if False:"),
    "T0 step": ("blame", "# T0 step", "pass"),
    "F4": ("chain", "# F4", "pass"),
    "T0 path": ("evidence", "# T0 path", "if False:"),
    "T0 accused": ("blame", "# T0 accused", "pass"),
    "T0 origin": ("blame", "# T0 origin", "pass"),
    "T0 moves": ("blame", "# T0 moves", "pass"),
    "T1": ("blame", "# T1", "pass"),
    "T2 opens": ("blame", "# T2 opens", "if False:"),
    "T2 share": ("blame", "# T2 share", "pass"),
    "T3 path": ("blame", "# T3 path", "pass"),
    "T3 blinding": ("blame", "# T3 blinding", "pass"),
    "T3 deleted": ("blame", "# T3 deleted", "if False:"),
    "T4": ("blame", "# T4", "if False:"),
    "T5 path": ("blame", "# T5 path", "pass"),
    "T5 dummies": ("blame", "# T5 dummies", "if False:"),
    "T5 blinding": ("blame", "# T5 blinding", "pass"),
    "T6 named": ("blame", "if shown != named or any(", "if any("),
    "T6": ("blame", "# T6", "pass"),
    "T6 path": ("blame", "# T6 path", "pass"),
    "T7 own": ("hops", " or question.headers[at] != own_header", ""),
    "T7": (
        "hops",
        "        return case, check_trace(case, question.position, question.trace)",
        "        return case, question.trace.accused.record",
    ),
}


def without_check(source: str, check: str, left: str) -> str:
    """The source of a module with one check cut out: `left` stands there instead.

    A mark (`# T1`) stands at the end of its statement, or alone above it; `left` replaces a simple
    statement, or the condition of an `if`. Anything else is text, however its lines are broken.
    """
    if not check.startswith("# "):
        changed, count = re.subn(_in_any_layout(check), lambda _: left, source)
        assert count, f"the check is no longer written like this: {check}"
        return changed
    lines = source.splitlines(keepends=True)
    for statement in _marked_statements(source, check):
        start = statement.lineno - 1
        end = (
            statement.body[0].lineno - 1 if isinstance(statement, ast.If) else statement.end_lineno
        )
        lines[start:end] = [re.sub(r"( *(?:el(?=if ))?).*\n", rf"\g<1>{left}\n", lines[start])]
    return "".join(lines)


def _marked_statements(source: str, mark: str) -> list[ast.stmt]:
    """The statements with this mark, the last one first."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    marked = [token for token in tokens if token.type == tokenize.COMMENT and token.string == mark]
    assert marked, f"no statement is marked {mark!r}"
    statements = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt)]
    return [_statement_at(statements, token) for token in reversed(marked)]


def _statement_at(statements: list[ast.stmt], mark: tokenize.TokenInfo) -> ast.stmt:
    line = mark.start[0] + (mark.line.strip() == mark.string)
    around = [node for node in statements if node.lineno <= line <= (node.end_lineno or 0)]
    return max(around, key=lambda node: node.lineno)


def _in_any_layout(text: str) -> str:
    """A pattern for this text however its lines are broken; leading spaces count."""
    start = len(text) - len(text.lstrip(" "))
    escaped = re.escape(text[start:]).replace(r"\ ", r"\s+")
    return text[:start] + escaped.replace(r"\(", r"\(\s*").replace(r"\)", r"\s*\)")
