"""Fresh instances of checks, whose draws follow from a key, the lab, the student and a nonce.

The key is the course's, or drawn for practice. The nonce comes from the operating system and is
stored in the result, so the holder of the key can draw the same instance again. No one else can
predict or repeat one.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Sequence
from fractions import Fraction
from typing import Final, TypeAlias, TypeVar

from shuffledp_core.sampling.exact import bernoulli, bernoulli_exp
from shuffledp_core.sampling.randomness import RandomIntegers

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 16

T = TypeVar("T")
Bytes: TypeAlias = bytes  # a method below has its name


class Draws:
    """A deterministic stream of draws; also a source of coins for a student's function.

    Not thread-safe. Children have streams of their own: what one check draws does not change
    another's.
    """

    def __init__(self, seed: bytes) -> None:
        self._seed = seed
        self._blocks = 0
        self._integers = RandomIntegers(self._next_bytes)

    def child(self, label: str) -> Draws:
        """A separate stream of draws, determined by the label."""
        return Draws(hmac.digest(self._seed, b"child\0" + label.encode(), "sha256"))

    def below(self, n: int) -> int:
        """A uniform whole number from 0 to n - 1."""
        return self._integers.below(n)

    def integer(self, low: int, high: int) -> int:
        """A uniform whole number from low to high, both possible."""
        return low + self.below(high - low + 1)

    def fraction(self, low: Fraction, high: Fraction, denominator: int) -> Fraction:
        """A uniform multiple of 1/denominator from low to high, both inclusive if multiples."""
        first = -(-low * denominator // 1)
        last = high * denominator // 1
        return Fraction(self.integer(int(first), int(last)), denominator)

    def choice(self, of: Sequence[T]) -> T:
        """One of the items, uniformly."""
        return of[self.below(len(of))]

    def permute(self, of: Sequence[T]) -> list[T]:
        """All items in a uniformly random order."""
        order = list(of)
        for last in range(len(order) - 1, 0, -1):
            other = self.below(last + 1)
            order[last], order[other] = order[other], order[last]
        return order

    def sample(self, of: Sequence[T], k: int) -> list[T]:
        """`k` different items, in a uniformly random order."""
        if not 0 <= k <= len(of):
            raise ValueError(f"cannot draw {k} of {len(of)}")
        return self.permute(of)[:k]

    def bytes(self, n: int) -> Bytes:
        """`n` uniform bytes."""
        return bytes(self.below(256) for _ in range(n))

    def flip(self, p: Fraction) -> bool:
        """True with probability p, exactly."""
        return bernoulli(p, self._integers)

    def flip_exp(self, g: Fraction) -> bool:
        """True with probability e^-g, exactly."""
        return bernoulli_exp(g, self._integers)

    def _next_bytes(self, size: int) -> Bytes:
        # One long output for each block: SHAKE-256 of a secret seed and a counter.
        self._blocks += 1
        return hashlib.shake_256(self._seed + self._blocks.to_bytes(8, "big")).digest(size)


def instance(key: bytes, lab: int, student: str, nonce: bytes) -> Draws:
    """The draws for one run of a lab's checks."""
    identity = ("shuffledp lab instance 1", str(lab), student.encode().hex(), nonce.hex())
    return Draws(hmac.digest(key, "\0".join(identity).encode(), "sha256"))


def fresh_nonce() -> bytes:
    """A random nonce from the operating system."""
    return os.urandom(NONCE_BYTES)
