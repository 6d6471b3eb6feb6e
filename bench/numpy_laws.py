"""The laws of the clients' samplers by numpy: the peer that the exact samplers are compared with.

In doubles and from a pseudo-random generator: fast, not exact to the last bit, and no source of
privacy.
"""

from __future__ import annotations

from functools import singledispatch

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.mechanisms import (
    GeoShuffle,
    HadamardHistogram,
    KRRHistogram,
    Mechanism,
    OneBitShuffle,
    QuantisedRR,
    RRShuffle,
    SGDLShuffle,
    SplitMix,
)

Integers = NDArray[np.int64]


@singledispatch
def randomise_all(spec: Mechanism, values: Integers, generator: np.random.Generator) -> Integers:
    """Draw the randomised answers of all users, with the shape of `values`.

    Args:
        spec: the mechanism.
        values: any shape, each in {0..spec.domain-1}; not checked.
        generator: the source of randomness.

    Returns:
        As `shuffledp_core.sampling.randomisers.randomise`: a symbol for each user (histogram),
        the number of ones, or a number modulo q (sums).

    Raises:
        TypeError: the mechanism has no law here.
    """
    del values, generator
    raise TypeError(f"numpy has no law of {type(spec).__name__} here")


@randomise_all.register
def _(spec: KRRHistogram, values: Integers, generator: np.random.Generator) -> Integers:
    blanket = generator.random(values.shape) < float(spec.blanket)
    return np.where(blanket, generator.integers(spec.symbols, size=values.shape), values)


@randomise_all.register
def _(spec: HadamardHistogram, values: Integers, generator: np.random.Generator) -> Integers:
    """A uniform index, with one bit corrected if it must lie in the half of the value."""
    blanket = generator.random(values.shape) < float(spec.blanket)
    index = generator.integers(spec.alphabet, size=values.shape)
    row = values + 1
    outside = np.bitwise_count(index & row) % 2 == 1
    return np.where(outside & ~blanket, index ^ (row & -row), index)


@randomise_all.register
def _(spec: OneBitShuffle, values: Integers, generator: np.random.Generator) -> Integers:
    coin = generator.random(values.shape) < float(spec.randomise)
    rounded = generator.integers(spec.max_value, size=values.shape) < values
    return np.where(coin, generator.integers(2, size=values.shape), rounded).astype(np.int64)


@randomise_all.register
def _(spec: QuantisedRR, values: Integers, generator: np.random.Generator) -> Integers:
    steps, rest = np.divmod(values * spec.bits, spec.max_value)
    return randomise_all(
        spec.code, steps + (generator.integers(spec.max_value, size=values.shape) < rest), generator
    )


@randomise_all.register
def _(spec: RRShuffle, values: Integers, generator: np.random.Generator) -> Integers:
    flip = float(spec.randomise / 2)
    return (
        values
        - generator.binomial(values, flip)
        + generator.binomial(spec.max_value - values, flip)
    )


@randomise_all.register
def _(spec: GeoShuffle, values: Integers, generator: np.random.Generator) -> Integers:
    """The value plus discrete Laplace noise, a difference of two geometric numbers, clamped."""
    success = -np.expm1(-float(spec.epsilon_geo))
    # numpy's geometric numbers begin at 1, not 0; in the difference that goes away.
    noise = generator.geometric(success, values.shape) - generator.geometric(success, values.shape)
    return _clamp(spec, values + noise)


@randomise_all.register
def _(spec: SGDLShuffle, values: Integers, generator: np.random.Generator) -> Integers:
    return _clamp(spec, values + _shares(spec, values.shape, generator))


@randomise_all.register
def _(spec: SplitMix, values: Integers, generator: np.random.Generator) -> Integers:
    """The noisy value modulo q.

    The parts of the split add up to it, and reveal nothing else to the analyst.
    """
    return (values + _shares(spec, values.shape, generator)) % spec.modulus


def _shares(
    spec: SGDLShuffle | SplitMix, shape: tuple[int, ...], generator: np.random.Generator
) -> Integers:
    success = -np.expm1(-float(spec.noise_epsilon))
    share = 1 / spec.shares
    # numpy takes a fraction of a success as well: a share is drawn as it is, without the urn of the
    # exact sampler.
    first, second = (generator.negative_binomial(share, success, shape) for _ in range(2))
    return np.asarray(first - second, dtype=np.int64)


def _clamp(spec: GeoShuffle | SGDLShuffle, noisy: Integers) -> Integers:
    return np.clip(noisy + spec.padding, 0, spec.messages_per_user)
