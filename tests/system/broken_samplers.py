"""Clients that do not run what is certified, each with one small fault. Module functions: workers find them by name."""

import msgspec

from shuffledp_core.mechanisms import (
    GeoShuffle,
    HadamardHistogram,
    KRRHistogram,
    Mechanism,
    OneBitShuffle,
    RRShuffle,
    SGDLShuffle,
    SplitMix,
)
from shuffledp_core.randomisers import randomise
from shuffledp_core.randomness import RandomIntegers


def noise_halved(spec: Mechanism, value: int, integers: RandomIntegers) -> int:
    """Twice the ε, half the noise."""
    if isinstance(spec, GeoShuffle):
        spec = msgspec.structs.replace(spec, epsilon_geo=2 * spec.epsilon_geo)
    elif isinstance(spec, SGDLShuffle | SplitMix):
        spec = msgspec.structs.replace(spec, noise_epsilon=2 * spec.noise_epsilon)
    return randomise(spec, value, integers)


def blanket_halved(spec: Mechanism, value: int, integers: RandomIntegers) -> int:
    """The true value is kept half as often as it should be replaced."""
    assert isinstance(spec, KRRHistogram | HadamardHistogram)
    return randomise(msgspec.structs.replace(spec, blanket=spec.blanket / 2), value, integers)


def coin_halved(spec: Mechanism, value: int, integers: RandomIntegers) -> int:
    """The bit is a fair coin half as often as it should be."""
    assert isinstance(spec, OneBitShuffle)
    return randomise(msgspec.structs.replace(spec, randomise=spec.randomise / 2), value, integers)


def coin_not_flipped(spec: Mechanism, value: int, integers: RandomIntegers) -> int:
    """Every bit that should be replaced by a fair coin is replaced by 0."""
    assert isinstance(spec, RRShuffle)
    keep = 1 - spec.randomise
    return sum(integers.below(keep.denominator) < keep.numerator for _ in range(value))
