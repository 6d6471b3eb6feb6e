"""Exact k-ary randomised response, for one value and for many."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from shuffledp_core.sampling.exact import bernoulli
from shuffledp_core.sampling.randomness import RandomIntegers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from shuffledp_core.sampling.arrays import RandomArrays


def respond(value: int, symbols: int, blanket: Fraction, integers: RandomIntegers) -> int:
    """The value, or with probability `blanket` a uniform symbol of {0..symbols-1}."""
    # Uniform over all symbols, the true one included: what blankets the others must not depend on
    # the value (K1).
    if blanket and bernoulli(blanket, integers):
        return integers.below(symbols)
    return value


def respond_all(
    values: NDArray[np.int64], symbols: int, blanket: Fraction, arrays: RandomArrays
) -> NDArray[np.int64]:
    """Vectorised `respond`: one draw per user."""
    answers = values.copy()
    if blanket:
        is_uniform = arrays.bernoulli(blanket, values.size)
        answers[is_uniform] = arrays.below(symbols, int(is_uniform.sum()))
    return answers
