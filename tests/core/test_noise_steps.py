"""No certificate can make a device or a node draw for practically ever (docs/protocol.md)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from shuffledp_core.errors import CannotCertify, ParameterError
from shuffledp_core.mechanisms import (
    Mechanism,
    NodeColumns,
    NodeHistogram,
    NodeSum,
    NodeTree,
    SGDLShuffle,
    SplitMix,
)
from shuffledp_core.mechanisms.work import MAX_STEPS, MAX_TRIES
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.sampling.randomness import RandomIntegers
from shuffledp_privacy.calibration.calibrate import Target, calibrate

TINY = Fraction(1, 2**63)
PROTOCOL = Path(__file__).parents[2] / "docs/protocol.md"


class _CountedIntegers(RandomIntegers):
    """Integers from a stream of hashes, and how many were drawn."""

    def __init__(self) -> None:
        super().__init__(self._read)
        self.drawn = 0
        self._reads = 0

    def _read(self, size: int) -> bytes:
        self._reads += 1
        return hashlib.shake_256(self._reads.to_bytes(8, "big")).digest(size)

    def below(self, bound: int) -> int:
        self.drawn += 1
        return super().below(bound)


def sgdl_at(rate: Fraction) -> SGDLShuffle:
    return SGDLShuffle(max_value=3, noise_epsilon=rate, shares=10, padding=4)


def split_at(rate: Fraction) -> SplitMix:
    return SplitMix(max_value=3, noise_epsilon=rate, shares=10, modulus=100, pieces=4)


@pytest.mark.parametrize("make", [sgdl_at, split_at])
def test_the_stated_number_of_steps_is_the_number_of_draws(
    make: Callable[[Fraction], SGDLShuffle | SplitMix],
) -> None:
    """Beside the few draws of the two geometrics; the stream is fixed, and so is the outcome."""
    spec = make(Fraction(1, 1000))
    integers = _CountedIntegers()
    rounds = 100
    for _ in range(rounds):
        spec.sample(2, integers)
    assert 0.8 < integers.drawn / (rounds * float(spec.noise_steps)) < 1.2


@pytest.mark.parametrize("make", [sgdl_at, split_at])
def test_a_round_whose_answers_take_too_long_has_no_geometry(
    make: Callable[[Fraction], Mechanism],
) -> None:
    slowest = make(Fraction(2, MAX_STEPS))
    assert Geometry.of(slowest, "hpke", 3).messages_per_user
    for rate in (Fraction(2, MAX_STEPS + 1), TINY):
        slower = make(rate)
        with pytest.raises(ParameterError, match="larger units"):
            Geometry.of(slower, "hpke", 3)


@pytest.mark.parametrize(
    "spec",
    [
        NodeHistogram(symbols=5, noise_epsilon=TINY, mean=12, dummies=60),
        NodeColumns(symbols=6, noise_epsilon=TINY, mean=1, spare=0, columns=(3, 2)),
        NodeTree(symbols=5, noise_epsilon=TINY, mean=1, spare=0, width=2),
        NodeSum(max_value=4, noise_epsilon=TINY, base=5, mean=4),
    ],
    ids=lambda spec: spec.kind,
)
def test_a_round_whose_dummies_take_too_long_has_no_geometry(spec: Mechanism) -> None:
    with pytest.raises(ParameterError, match="dummies"):
        Geometry.of(spec, "hpke", 3)


def test_no_such_round_is_planned() -> None:
    with pytest.raises(CannotCertify, match="larger units"):
        calibrate("split-mix", Target(0.5, 1e-6, 20, 20, max_value=2**22))


def test_the_protocol_states_both_limits() -> None:
    text = PROTOCOL.read_text(encoding="utf-8").partition("## Work\n")[2].partition("\n## ")[0]
    assert f"{MAX_STEPS:,}" in text
    assert f"{MAX_TRIES:,}" in text
