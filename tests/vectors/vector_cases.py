"""One case of the test vectors, and the mechanisms and spellings that all files share."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any, Final

from vector_answers import answer

from shuffledp_core.documents.signed import Signed, to_json
from shuffledp_core.mechanisms import (
    BloomRappor,
    DummyHistogram,
    GeoShuffle,
    HadamardHistogram,
    KRRHistogram,
    LocalLaplace,
    Mechanism,
    NodeColumns,
    NodeHistogram,
    NodeSum,
    NodeTree,
    OneBitShuffle,
    QuantisedRR,
    RapporHistogram,
    RRShuffle,
    SGDLShuffle,
    SplitMix,
)
from shuffledp_core.runtime.keys import Identity

Case = dict[str, Any]
Fields = dict[str, Any]

HYBRID: Final = "hpke-mlkem768-x25519"
SMALL_ORDER_32: Final = bytes(32)
MECHANISMS: Final[tuple[Mechanism, ...]] = (
    BloomRappor(symbols=9, bits=7, hashes=2, cohorts=5, fake=Fraction(1, 4)),
    KRRHistogram(symbols=6, blanket=Fraction(2, 7)),
    HadamardHistogram(symbols=300, blanket=Fraction(1, 3)),
    DummyHistogram(symbols=5, slots=3, fill=Fraction(3, 8)),
    RapporHistogram(
        symbols=9, fake=Fraction(1, 4), when_zero=Fraction(1, 5), when_one=Fraction(3, 4)
    ),
    LocalLaplace(max_value=40, epsilon_geo=Fraction(1, 9)),
    OneBitShuffle(max_value=1000, randomise=Fraction(1, 5)),
    QuantisedRR(max_value=100, bits=7, randomise=Fraction(2, 9)),
    RRShuffle(max_value=12, randomise=Fraction(1, 4)),
    GeoShuffle(max_value=10, epsilon_geo=Fraction(1, 3), padding=8),
    SGDLShuffle(max_value=4, noise_epsilon=Fraction(1, 8), shares=10, padding=3),
    SplitMix(max_value=10, noise_epsilon=Fraction(1, 4), shares=50, modulus=100_003, pieces=4),
    NodeColumns(symbols=15, noise_epsilon=Fraction(1, 4), mean=48, spare=60, columns=(5, 3)),
    NodeHistogram(symbols=4, noise_epsilon=Fraction(1, 2), mean=12, dummies=60),
    NodeSum(max_value=100, noise_epsilon=Fraction(1, 2), base=11, mean=120),
    NodeTree(symbols=9, noise_epsilon=Fraction(1, 4), mean=48, spare=60, width=3),
)  # fmt: skip
"""One of each kind; the coins of a sample reach every branch of each over the values drawn."""

VARIANTS: Final[dict[str, Mechanism]] = {
    "dummy-histogram with a blanket": DummyHistogram(
        symbols=5, slots=3, fill=Fraction(3, 8), blanket=Fraction(1, 3)
    ),
    "dummy-histogram of 2 symbols with a blanket": DummyHistogram(
        symbols=2, slots=2, fill=Fraction(2, 3), blanket=Fraction(2, 5)
    ),
    "dummy-histogram with a blanket and full slots": DummyHistogram(
        symbols=2, slots=1, fill=Fraction(1), blanket=Fraction(2, 5)
    ),
    "node-histogram with a blanket": NodeHistogram(
        symbols=4, noise_epsilon=Fraction(1, 2), mean=12, dummies=60, blanket=Fraction(1, 4)
    ),
    "node-histogram of 2 symbols with a blanket": NodeHistogram(
        symbols=2, noise_epsilon=Fraction(1, 3), mean=9, dummies=25, blanket=Fraction(3, 4)
    ),
    "node-columns of one column": NodeColumns(
        symbols=4, noise_epsilon=Fraction(1, 2), mean=12, spare=12, columns=(4,)
    ),
    "node-columns of four columns": NodeColumns(
        symbols=120, noise_epsilon=Fraction(1, 3), mean=9, spare=20, columns=(2, 3, 4, 5)
    ),
    "node-tree without groups": NodeTree(
        symbols=6, noise_epsilon=Fraction(1, 4), mean=20, spare=30, width=1
    ),
    "node-tree with a narrow group": NodeTree(
        symbols=11, noise_epsilon=Fraction(1, 3), mean=15, spare=3, width=4
    ),
}
"""Mechanisms with other parameters, of which code takes other branches."""

LABELLED: Final[dict[str, Mechanism]] = {
    **{mechanism.kind: mechanism for mechanism in MECHANISMS},
    **VARIANTS,
}

OPEN_LIST: Final = NodeColumns(
    symbols=2**39, noise_epsilon=Fraction(1, 5), mean=2, spare=900, columns=(2**13,) * 3
)
"""More combinations than a message or 32 bits could name."""


def mechanism_named(kind: str) -> Mechanism:
    """The one of `MECHANISMS` with this name."""
    return next(mechanism for mechanism in MECHANISMS if mechanism.kind == kind)


ASKED: Final = KRRHistogram(symbols=4, blanket=Fraction(1, 2))
"""The mechanism of most rounds here."""

GENEROUS: Final[Fields] = {"epsilon": 2.0, "delta": 1e-6, "epsilon_corrupted": 10.0}


def make_case(name: str, kind: str, fields: Fields, error: str | None = None, **more: Any) -> Case:
    """One case with this project's answer, which must be this error, or none."""
    expected = answer(kind, fields)
    if expected.get("error") != error:
        raise AssertionError(f"{kind}, {name}: expected {error}, this code answers {expected}")
    return {"name": name, "kind": kind, "input": fields, "expect": expected, **more}


def plain(value: Any) -> Any:
    """The JSON form of a struct."""
    return json.loads(to_json(value))


def text_of(signed: Signed) -> str:
    """A signed document as it travels."""
    return signed.to_bytes().decode()


def sign_text(signer: Identity, label: str, body: str) -> Signed:
    """Any text as the body of a document, under a genuine signature."""
    signature = signer.key.sign(f"shuffledp/v1/{label}\0{body}".encode()).hex()
    return Signed(label=label, signer=signer.name, body=body, signature=signature)
