"""Arrays of exact uniform integers and coins, for simulations of thousands of users.

The law is that of `randomness.RandomIntegers`, drawn from the same source; only how bytes become
draws differs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.sampling.randomness import RandomBytes, RandomIntegers, system_random

Words: TypeAlias = NDArray[np.unsignedinteger[Any]]

MOST_BOUND: Final = 2**63
"""Largest bound of a uniform integer: draws are signed words, as numpy adds signed and unsigned
ones in doubles.
"""

_WORDS: Final = tuple(
    (8 * np.dtype(kind).itemsize, kind) for kind in (np.uint8, np.uint16, np.uint32, np.uint64)
)
_DIGIT: Final = 8  # bits: a coin costs one byte of the source, and one of 256 coins another


class RandomArrays:
    """Arrays of independent exact draws from a byte source; every byte of it serves one draw.

    Not thread-safe: one instance per task. A call uses some bytes of memory for each draw, which
    callers bound by the number of draws.

    Attributes:
        single: the same source for samplers that draw one value at a time.
    """

    def __init__(self, source: RandomBytes = system_random) -> None:
        self._source = source
        self.single = RandomIntegers(source)

    def below(self, bound: int, count: int) -> NDArray[np.int64]:
        """`count` independent uniform integers in {0..bound-1}, exactly.

        A word of w bits, 2^w >= bound, is accepted below the largest multiple of the bound, and its
        remainder is the draw: equally many accepted words lead to each. A rejected word is drawn
        afresh, and fewer than half of them are.

        Raises:
            ValueError: the bound is not from 1 to 2^63.
        """
        bits, kind = _word_for(bound)
        if bound == 1:
            return np.zeros(count, dtype=np.int64)
        words = self._words(kind, count)
        # Of a power of two every word is accepted; the largest multiple, 2^w, would be no word.
        if bound & (bound - 1) == 0:
            return (words & kind(bound - 1)).astype(np.int64)
        most = kind((1 << bits) // bound * bound - 1)
        rejected = np.flatnonzero(words > most)
        while rejected.size:
            words[rejected] = self._words(kind, rejected.size)
            rejected = rejected[words[rejected] > most]
        return (words % kind(bound)).astype(np.int64)

    def bernoulli(self, probability: Fraction, count: int) -> NDArray[np.bool_]:
        """`count` independent coins, each True with exactly this rational probability from 0 to 1.

        Raises:
            ValueError: the probability is outside its range.
        """
        if not 0 <= probability <= 1:
            raise ValueError(f"a probability must be from 0 to 1, not {probability}")
        if probability == 1:
            return np.ones(count, dtype=np.bool_)
        return self.coins(_digits(probability), count)

    def coins(self, digits: Iterable[int], count: int) -> NDArray[np.bool_]:
        """`count` independent coins, each True with exactly probability 0.d1 d2 .. to the base 256.

        A coin is whether U, uniform on [0, 1), is smaller. Digits of U are drawn while they equal
        those of the probability: one of 256 coins continues to a next digit, so that all end with
        certainty.

        Args:
            digits: digits of the probability; where they end, zeros follow.
            count: number of coins.
        """
        true = np.zeros(count, dtype=np.bool_)
        tied = np.arange(0)
        for index, digit in enumerate(digits):
            drawn = self._words(np.uint8, tied.size if index else count)
            smaller, equal = drawn < digit, np.flatnonzero(drawn == digit)
            if index:
                true[tied], tied = smaller, tied[equal]
            else:
                true, tied = smaller, equal
            if not tied.size:
                break
        return true

    def _words(self, kind: type[np.unsignedinteger[Any]], count: int) -> Words:
        # A copy, because what `bytes` lends may not be changed.
        return np.frombuffer(self._source(count * np.dtype(kind).itemsize), dtype=kind).copy()


def _digits(probability: Fraction) -> Iterator[int]:
    """Digits of a rational below 1 to the base 256.

    They end where it is a fraction of a power of 256.
    """
    left, denominator = probability.numerator, probability.denominator
    while left:
        digit, left = divmod(left << _DIGIT, denominator)
        yield digit


def _word_for(bound: int) -> tuple[int, type[np.unsignedinteger[Any]]]:
    if not 0 < bound <= MOST_BOUND:
        raise ValueError(f"bound must be from 1 to 2^63, not {bound}")
    return next((bits, kind) for bits, kind in _WORDS if bound <= 1 << bits)
