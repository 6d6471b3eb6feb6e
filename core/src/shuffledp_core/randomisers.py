"""One sampler per mechanism spec: the local randomiser that the certificate is about, and no other.

A histogram's answer is a symbol; a sum's answer is the number of ones in the user's unary code.
"""

from __future__ import annotations

from functools import singledispatch

from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import GeoShuffle, KRRHistogram, Mechanism, RRShuffle, SGDLShuffle
from shuffledp_core.randomness import RandomIntegers
from shuffledp_core.sampling import bernoulli, binomial, discrete_laplace, sgdl


def randomise(spec: Mechanism, value: int, integers: RandomIntegers) -> int:
    """The randomised answer of a user who holds `value`.

    Args:
        spec: the mechanism, as certified.
        value: the user's own value, in {0..spec.domain-1}.
        integers: the source of randomness.

    Returns:
        The symbol to send (histogram), or how many of the `spec.messages_per_user` bits are one (sums).

    Raises:
        UsageError: the value is outside the domain. The message names the range only: errors are logged, and the
            value is the user's secret.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < spec.domain:
        raise UsageError(f"the value must be a whole number from 0 to {spec.domain - 1}: this round asks for no other")
    return _sample(spec, value, integers)


@singledispatch
def _sample(spec: object, value: int, integers: RandomIntegers) -> int:  # noqa: ARG001 - the signature of all samplers
    raise ValueError(f"no randomiser for {type(spec).__name__}")


@_sample.register
def _(spec: KRRHistogram, value: int, integers: RandomIntegers) -> int:
    return integers.below(spec.symbols) if bernoulli(spec.blanket, integers) else value


@_sample.register
def _(spec: RRShuffle, value: int, integers: RandomIntegers) -> int:
    """The count of ones is all that is kept: it is what remains after shuffling, and less than the certified bits."""
    flip = spec.randomise / 2
    return value - binomial(value, flip, integers) + binomial(spec.max_value - value, flip, integers)


@_sample.register
def _(spec: GeoShuffle, value: int, integers: RandomIntegers) -> int:
    return _clamped(spec, value + discrete_laplace(spec.epsilon_geo, integers))


@_sample.register
def _(spec: SGDLShuffle, value: int, integers: RandomIntegers) -> int:
    return _clamped(spec, value + sgdl(spec.noise_epsilon, spec.shares, integers))


def _clamped(spec: GeoShuffle | SGDLShuffle, noisy: int) -> int:
    return min(max(noisy + spec.padding, 0), spec.messages_per_user)
