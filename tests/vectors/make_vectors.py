"""Make every file of vectors but mixing.json.

    PYTHONPATH=tests/client:tests/core:tests/vectors python tests/vectors/make_vectors.py

The same in every run: keys and coins are functions of names (vector_world.py). What each case
expects is this project's own answer, and the generator names the error that it must be. The
encapsulations of ML-KEM, which no library makes from given coins, are kept from the file before.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Final

from document_vectors import documents, signatures
from layer_vectors import envelopes, geometries, layers
from log_vectors import logs
from result_vectors import claims, receipts, results
from round_vectors import rounds
from sampler_vectors import integers, laws, numbers, samplers
from vector_cases import Case
from vector_runner import FILES, FOLDER
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
}


def make_text(name: str) -> str:
    """The text of one file."""
    maker = MAKERS[name]
    summary = (maker.__doc__ or "").strip()
    cases = ",\n".join(json.dumps(case, ensure_ascii=True) for case in maker())
    return f'{{"format": 1, "about": {json.dumps(summary)}, "cases": [\n{cases}\n]}}\n'


def main() -> None:
    """Write all files."""
    for name in FILES:
        text = make_text(name)
        (FOLDER / f"{name}.json").write_text(text, encoding="utf-8")
        sys.stdout.write(f"{name}: {text.count(chr(10)) - 2} cases, {len(text):,} bytes\n")


if __name__ == "__main__":
    main()
