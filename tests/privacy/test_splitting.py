"""Parts of δ never exceed it together, whatever the rounding."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

import shuffledp_privacy
from shuffledp_privacy.splitting import (
    among_filters,
    among_rounds,
    between_clamping_and_noise,
    left_of,
)

DELTAS = st.floats(1e-12, 1.0, exclude_max=True)


@given(DELTAS, st.integers(1, 10**6))
def test_equal_parts_do_not_exceed_the_whole(delta: float, rounds: int) -> None:
    part = among_rounds(delta, rounds)
    assert Fraction(part) * rounds <= Fraction(delta)
    assert Fraction(part) * rounds >= Fraction(delta) * (1 - Fraction(1, 2**48))


@given(DELTAS)
def test_unequal_parts_do_not_exceed_the_whole(delta: float) -> None:
    padded, filters = between_clamping_and_noise(delta), among_filters(delta)
    for parts in ((padded.clamping, padded.noise), (filters.gaussian, filters.pure)):
        assert sum(map(Fraction, parts)) <= Fraction(delta)
    assert filters.leak < filters.gaussian


@given(DELTAS, DELTAS)
def test_what_is_left_is_no_more_than_the_difference(delta: float, taken: float) -> None:
    assert Fraction(left_of(delta, taken)) <= max(Fraction(delta) - Fraction(taken), Fraction(0))


def test_no_other_module_divides_delta() -> None:
    """A δ that is cut by a number, by rounds or by a share elsewhere than in `splitting`."""
    cut = re.compile(
        r"(SHARE|0\.\d+|1e-\d+) \* (\w+\.)?delta\b|\bdelta / (\w+\.)?(rounds|times|total|count)\b"
    )
    root = Path(shuffledp_privacy.__file__).parent
    found = {
        f"{file.relative_to(root)}: {line.strip()}"
        for file in root.rglob("*.py")
        if file.name != "splitting.py"
        for line in file.read_text().splitlines()
        if cut.search(line)
    }
    assert {line.split(":")[0] for line in found} <= {"rounds/tilted.py"}, (
        found
    )  # there only a search's step
