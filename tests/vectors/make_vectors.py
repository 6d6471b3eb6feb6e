"""Make every file of vectors but mixing.json.

    PYTHONPATH=tests/client:tests/core:tests/vectors python tests/vectors/make_vectors.py

The same in every run: keys and coins are functions of names (vector_world.py). What each case
expects is this project's own answer, and the generator names the error that it must be. The
encapsulations of ML-KEM, which no library makes from given coins, are kept from the file before.
So is each case that another processor's arithmetic would change in the last digits only.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from typing import Final

from document_vectors import documents, signatures
from layer_vectors import envelopes, geometries, layers
from log_vectors import logs
from result_vectors import claims, receipts, results
from round_vectors import rounds
from sampler_vectors import integers, laws, numbers, samplers
from tile_vectors import tiles
from vector_cases import Case
from vector_runner import FILES, FOLDER
from verified_vectors import verified
from wording_vectors import questions

MAKERS: Final[dict[str, Callable[[], Iterator[Case]]]] = {
    "signatures": signatures,
    "documents": documents,
    "rounds": rounds,
    "logs": logs,
    "questions": questions,
    "layers": layers,
    "envelopes": envelopes,
    "geometries": geometries,
    "integers": integers,
    "samplers": samplers,
    "laws": laws,
    "numbers": numbers,
    "claims": claims,
    "receipts": receipts,
    "results": results,
    "tiles": tiles,
    "verified": verified,
}


def make_text(name: str) -> str:
    """The text of one file."""
    maker = MAKERS[name]
    summary = (maker.__doc__ or "").strip()
    cases = ",\n".join(json.dumps(case, ensure_ascii=True) for case in maker())
    return f'{{"format": 1, "about": {json.dumps(summary)}, "cases": [\n{cases}\n]}}\n'


_COMPUTED: Final = re.compile(r"-?\d+\.\d{9,}(?:e-?\d+)?|-?\d\.\d+e-\d+")
"""A number with so many digits that vector instructions of processors differ in the last ones."""

_DERIVED: Final = re.compile(r"(?<![0-9a-f])(?:[0-9a-f]{64}|[0-9a-f]{128})(?![0-9a-f])")
"""A digest or signature, which changes with the last digits of what it is of."""


def keep_lines(before: str, text: str) -> str:
    """A file's new text, with the lines from before that differ in last digits only.

    NumPy computes with the widest vectors that a processor has, and rounds differently with each.
    """
    present = {_round_digits(line): line for line in before.splitlines()}
    return "".join(f"{_keep(line, present)}\n" for line in text.splitlines())


def _keep(line: str, present: dict[str, str]) -> str:
    old = present.get(_round_digits(line), line)
    if _COMPUTED.findall(old) == _COMPUTED.findall(line):
        return line
    return old.removesuffix(",") + ("," if line.endswith(",") else "")


def _round_digits(line: str) -> str:
    """A line with computed numbers to 6 digits, without digests and the comma at its end."""
    rounded = _COMPUTED.sub(lambda number: f"{float(number[0]):.6g}", line.removesuffix(","))
    return _DERIVED.sub("", rounded)


def main() -> None:
    """Write all files."""
    for name in FILES:
        file = FOLDER / f"{name}.json"
        text = make_text(name)
        if file.exists():
            text = keep_lines(file.read_text(encoding="utf-8"), text)
        file.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{name}: {text.count(chr(10)) - 2} cases, {len(text):,} bytes\n")


if __name__ == "__main__":
    main()
