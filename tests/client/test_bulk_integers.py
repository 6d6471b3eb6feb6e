"""Uniform integers and coins by the array: every byte string counted."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shuffledp_core.sampling import bulk
from shuffledp_core.sampling.arrays import RandomArrays


def source_of(*pieces: bytes) -> Callable[[int], bytes]:
    """A source that has exactly these pieces, each to be asked for whole."""
    left = iter(pieces)

    def read(size: int) -> bytes:
        piece = next(left)
        assert len(piece) == size
        return piece

    return read


EVERY_BYTE = bytes(range(256))


@pytest.mark.parametrize("bound", [2, 3, 5, 10, 128, 200, 255, 256])
def test_every_integer_below_a_bound_comes_from_equally_many_bytes(bound: int) -> None:
    """A rejected byte gives way to one that stands for 0, which is taken off again."""
    rejected = 256 % bound
    drawn = RandomArrays(source_of(EVERY_BYTE, *[bytes(rejected)] * (rejected > 0))).below(
        bound, 256
    )
    counts = np.bincount(drawn, minlength=bound) - rejected * (np.arange(bound) == 0)
    assert counts.tolist() == [256 // bound] * bound


@pytest.mark.parametrize(
    ("bound", "width", "accepted", "refused"),
    [
        (257, 2, 65534, 65535),
        (2**16 + 1, 4, (2**16 + 1) * (2**16 - 1) - 1, (2**16 + 1) * (2**16 - 1)),
        (2**32 + 1, 8, (2**32 + 1) * (2**32 - 1) - 1, (2**32 + 1) * (2**32 - 1)),
        (2**63 - 1, 8, 2 * (2**63 - 1) - 1, 2 * (2**63 - 1)),
    ],
)
def test_words_are_accepted_to_the_largest_multiple_of_the_bound(
    bound: int, width: int, accepted: int, refused: int
) -> None:
    words = np.array([accepted, refused, 2 ** (8 * width) - 1], dtype=f"u{width}")
    again, last = (
        np.array([accepted, refused], dtype=f"u{width}"),
        np.array([bound + 1], dtype=f"u{width}"),
    )
    drawn = RandomArrays(source_of(words.tobytes(), again.tobytes(), last.tobytes())).below(
        bound, 3
    )
    assert drawn.tolist() == [bound - 1, bound - 1, 1]


@pytest.mark.parametrize("exponent", [0, 1, 7, 8, 9, 16, 17, 32, 33, 62, 63])
def test_a_power_of_two_rejects_nothing(exponent: int) -> None:
    calls: list[int] = []

    def ones(size: int) -> bytes:
        calls.append(size)
        return b"\xff" * size

    assert RandomArrays(ones).below(2**exponent, 5).tolist() == [2**exponent - 1] * 5
    assert len(calls) == (exponent > 0)


@pytest.mark.parametrize(
    "probability",
    [
        Fraction(0),
        Fraction(1, 2),
        Fraction(1, 3),
        Fraction(255, 256),
        Fraction(1, 2**70),
        Fraction(1),
    ],
)
def test_a_coin_is_true_below_its_probability_digit_by_digit(probability: Fraction) -> None:
    """All first bytes, then all second ones of the one that is tied: so many are true as 65,536
    times it, rounded."""
    first = RandomArrays(lambda size: EVERY_BYTE[:size] if size == 256 else b"\xff" * size)
    assert first.bernoulli(probability, 256).sum() == probability * 256 // 1
    tied = probability * 256 // 1
    second = RandomArrays(
        source_of(bytes([tied]) * 256, EVERY_BYTE, *[b"\xff"] * 20) if tied < 256 else source_of()
    ).bernoulli(probability, 256)
    assert second.sum() == ((probability * 256 - tied) * 256 // 1 if tied < 256 else 256)


def test_coins_that_are_tied_twice_keep_their_places() -> None:
    """The digits of 1/3 are 0x55 for ever.

    The second coin is decided by its second digit, the third by its third.
    """
    source = source_of(b"\x00\x55\x55", b"\x00\x55", b"\xff")
    assert RandomArrays(source).bernoulli(Fraction(1, 3), 3).tolist() == [True, True, False]


@given(st.fractions(0, 1), st.integers(0, 40))
def test_a_coin_is_the_comparison_of_two_numbers(probability: Fraction, shift: int) -> None:
    """U at the probability and near it, on either side, with 48 digits and zeros for ever."""
    for number in (
        probability,
        probability + Fraction(1, 2**300),
        probability - Fraction(1, 256**shift),
    ):
        whole = number * 256**48 // 1
        if 0 <= whole < 256**48:
            digits = itertools.chain(whole.to_bytes(48, "big"), itertools.repeat(0))
            coin = RandomArrays(lambda size, digits=digits: bytes(itertools.islice(digits, size)))  # type: ignore[misc]
            assert coin.bernoulli(probability, 1)[0] == (Fraction(whole, 256**48) < probability)


def test_the_digits_of_the_inverse_of_e_are_right() -> None:
    """64 bytes, by mpmath; the chance that a coin asks for more is 256^-64."""
    with mpmath.workprec(600):
        wanted = int(mpmath.floor(mpmath.exp(-1) * mpmath.mpf(256) ** 64)).to_bytes(64, "big")
    assert bytes(bulk._inverse_e(place) for place in range(1, 65)) == wanted


@pytest.mark.parametrize("bound", [0, -1, 2**63 + 1])
def test_a_bound_outside_of_machine_words_is_our_own_mistake(bound: int) -> None:
    with pytest.raises(ValueError, match="bound must be from 1 to 2"):
        RandomArrays().below(bound, 3)


@pytest.mark.parametrize("probability", [Fraction(-1, 2), Fraction(3, 2)])
def test_a_probability_outside_of_its_range_is_our_own_mistake(probability: Fraction) -> None:
    with pytest.raises(ValueError, match="from 0 to 1"):
        RandomArrays().bernoulli(probability, 3)
