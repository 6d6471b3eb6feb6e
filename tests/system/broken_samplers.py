"""Clients that do not run what is certified, each with one small fault.

Module functions: workers find them by name.
"""

import msgspec
import numpy as np
from numpy.typing import NDArray

from shuffledp_core.mechanisms import (
    BloomRappor,
    GeoShuffle,
    HadamardHistogram,
    KRRHistogram,
    LocalLaplace,
    Mechanism,
    OneBitShuffle,
    QuantisedRR,
    RapporHistogram,
    RRShuffle,
    SGDLShuffle,
    SplitMix,
)
from shuffledp_core.sampling.arrays import RandomArrays
from shuffledp_core.sampling.bulk import binomial
from shuffledp_core.sampling.randomisers import randomise_in_bulk

Integers = NDArray[np.int64]


def noise_halved(spec: Mechanism, values: Integers, arrays: RandomArrays) -> Integers:
    """Twice the ε, half the noise."""
    if isinstance(spec, GeoShuffle | LocalLaplace):
        spec = msgspec.structs.replace(spec, epsilon_geo=2 * spec.epsilon_geo)
    elif isinstance(spec, SGDLShuffle | SplitMix):
        spec = msgspec.structs.replace(spec, noise_epsilon=2 * spec.noise_epsilon)
    return randomise_in_bulk(spec, values, arrays)


def blanket_halved(spec: Mechanism, values: Integers, arrays: RandomArrays) -> Integers:
    """The true value is kept half as often as it should be replaced."""
    assert isinstance(spec, KRRHistogram | HadamardHistogram)
    return randomise_in_bulk(
        msgspec.structs.replace(spec, blanket=spec.blanket / 2), values, arrays
    )


def fake_halved(spec: Mechanism, values: Integers, arrays: RandomArrays) -> Integers:
    """A bit of a filter or kept response is a fair coin half as often as it should be."""
    assert isinstance(spec, RapporHistogram | BloomRappor)
    return randomise_in_bulk(msgspec.structs.replace(spec, fake=spec.fake / 2), values, arrays)


def coin_halved(spec: Mechanism, values: Integers, arrays: RandomArrays) -> Integers:
    """A bit is a fair coin half as often as it should be."""
    assert isinstance(spec, OneBitShuffle | QuantisedRR)
    return randomise_in_bulk(
        msgspec.structs.replace(spec, randomise=spec.randomise / 2), values, arrays
    )


def coin_not_flipped(spec: Mechanism, values: Integers, arrays: RandomArrays) -> Integers:
    """Every bit that should be replaced by a fair coin is replaced by 0."""
    assert isinstance(spec, RRShuffle)
    return binomial(values.ravel(), 1 - spec.randomise, arrays).reshape(values.shape)
