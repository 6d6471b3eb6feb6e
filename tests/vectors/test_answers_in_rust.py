"""Answers of larger rounds than the vectors have, computed again by the Rust core."""

from __future__ import annotations

import json
import subprocess
from fractions import Fraction
from typing import Any, Final

import msgspec
import pytest
import result_vectors
from c_library import CRATE, build_library
from vector_cases import MECHANISMS, VARIANTS

from shuffledp_core.answering.estimates import Estimate
from shuffledp_core.mechanisms import (
    DummyHistogram,
    HadamardHistogram,
    KRRHistogram,
    LocalLaplace,
    Mechanism,
    QuantisedRR,
    SGDLShuffle,
)
from shuffledp_core.onion.geometry import Geometry

pytestmark = pytest.mark.slow

USERS: Final = 1_000

LARGER: Final[tuple[Mechanism, ...]] = (
    KRRHistogram(symbols=1_500, blanket=Fraction(1, 3)),
    HadamardHistogram(symbols=1_300, blanket=Fraction(1, 5)),
    DummyHistogram(symbols=1_200, slots=3, fill=Fraction(1, 2), blanket=Fraction(1, 10)),
    QuantisedRR(max_value=100, bits=7, randomise=Fraction(1, 3)),
    LocalLaplace(max_value=100, epsilon_geo=Fraction(1, 50)),
    SGDLShuffle(max_value=3, noise_epsilon=Fraction(1, 20), shares=500, padding=4),
)
"""Long histograms, whose counts are rounded, values rounded to bits, and wide noise."""

SUPPORTED: Final = [
    mechanism
    for mechanism in (*MECHANISMS, *VARIANTS.values(), *LARGER)
    if mechanism.kind != "bloom-rappor"
]

NUMBERS: Final = ("values", "standard_errors", "lows", "highs")


@pytest.fixture(scope="module")
def answer_program() -> list[str]:
    build_library()  # skips where there is no cargo
    command = ["cargo", "build", "--locked", "--quiet", "--example", "answer"]
    subprocess.run(command, cwd=CRATE, check=True)
    return [str(CRATE / "target" / "debug" / "examples" / "answer")]


def raise_last(estimate: Estimate, name: str) -> Estimate:
    """The estimate with a last number that is 1.5 larger, more than an end may differ by."""
    numbers = getattr(estimate, name)
    return msgspec.structs.replace(estimate, **{name: (*numbers[:-1], numbers[-1] + 1.5)})


@pytest.mark.parametrize("mechanism", SUPPORTED, ids=lambda mechanism: str(mechanism.kind))
def test_the_rust_core_gives_the_answer_of_a_larger_round_and_refuses_others(
    mechanism: Mechanism, answer_program: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result_vectors, "USERS", USERS)
    draft, users, board = result_vectors.play(mechanism)
    fields = result_vectors.result_fields(draft, users, board)
    geometry = Geometry.of(mechanism, draft.suite, len(draft.route))
    honest = result_vectors.outcome_of(draft, geometry, board)["estimate"]
    false = [
        result_vectors.result_fields(draft, users, board, estimate=raise_last(honest, name))
        for name in NUMBERS
    ]
    cases = [fields, *false]
    if mechanism.bears_losses:
        lossy = result_vectors.board_with_losses(mechanism.kind, draft, users, board)
        cases.append(lossy["input"])
    lines = "".join(json.dumps({"kind": "result", "input": case}) + "\n" for case in cases)
    finished = subprocess.run(
        answer_program, input=lines, capture_output=True, text=True, check=True
    )
    answers: list[dict[str, Any]] = [json.loads(line) for line in finished.stdout.splitlines()]
    assert len(answers) == len(cases)
    assert answers[0]["ok"]["accepted"] == USERS
    assert answers[1:5] == [{"error": "FalseResultError"}] * 4
    assert all("ok" in answer for answer in answers[5:])
