"""Families of mechanisms along a noise parameter: range, rounding, safest parameter."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from shuffledp_core.errors import CannotCertify, UsageError
from shuffledp_core.mechanisms import (
    MECHANISMS,
    Mechanism,
)
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.analyses import analysis_class
from shuffledp_privacy.calibration.target import AIM, Target, certified_epsilon_of

PRECISION_BITS = 11
"""Bits of a calibrated parameter: the rounding costs at most 1/1024 of it, and samplers stay cheap.
"""

MOST_BITS = 62
"""Bits of the smallest parameter: at a δ so large that next to no noise is enough, a search would
go on to 0.
"""


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of mechanism as a function of its noise parameter.

    Attributes:
        build: the spec for a parameter.
        guess: initial value of the search.
        safest: a parameter whose local guarantee alone meets the target; the end of the search.
        rising: whether a larger parameter means more noise.
        spare: share of additional noise that is accepted for fewer messages.
        least_padding: for a parameter, the least padding with which the answer is usable.
    """

    build: Callable[[Fraction], Mechanism]
    guess: float
    safest: float
    rising: bool
    spare: float = 0.0
    least_padding: Callable[[Fraction], int] = lambda _: 0

    def round_parameter(self, value: float) -> Fraction:
        """The nearest parameter with few bits on the noisy side."""
        bits = min(MOST_BITS, PRECISION_BITS + max(0, -math.frexp(value)[1] + 1))
        scaled = value * 2.0**bits
        return Fraction(math.ceil(scaled) if self.rising else max(1, math.floor(scaled)), 2**bits)

    def noisier(self, value: Fraction, steps: int) -> Fraction:
        """The parameter moved by small steps towards more noise, at most to the safest one."""
        bits = max(0, PRECISION_BITS - value.numerator.bit_length() + 1)
        step = Fraction(steps, value.denominator * 2**bits)
        safest = self.round_parameter(self.safest)
        return min(value + step, safest) if self.rising else max(value - step, safest)

    def refusal(self, target: Target) -> CannotCertify:
        """The error for a target that even the safest parameter misses.

        It states the ε that the safest parameter reaches.
        """
        spec = self.build(self.round_parameter(self.safest))
        closest = certified_epsilon_of(spec, target)
        reached = (
            f"the closest is epsilon {closest:.6g}"
            if math.isfinite(closest)
            else "no finite epsilon is certified"
        )
        return CannotCertify(
            f"{spec.kind} cannot reach epsilon {target.epsilon:g} at delta {target.delta:g}: "
            f"{reached}"
        )


def deviations(target: Target) -> float:
    """First guess of ε in standard deviations of the loss at δ: sqrt(2 ln(1/δ)) - 1."""
    return max(0.5, math.sqrt(2 * math.log(1 / target.delta)) - 1) * math.sqrt(target.rounds)


def pure_rate(target: Target) -> float:
    """Rate of discrete Laplace noise that meets the target, with δ only for clamping."""
    units = target.reach if target.adjacency is Adjacency.STANDARD else 1
    return target.epsilon / units / target.rounds * AIM * (1 - 2.0**-20)


def guess_of_whole_noise(target: Target, safest: float) -> float:
    """Initial value of the search for one discrete Laplace noise per round."""
    return (
        safest
        if target.rounds == 1
        else max(safest, safest * target.rounds / deviations(target) * 1.4)
    )


def family_of(kind: str, target: Target) -> Family:
    """The family of a kind of mechanism, for a target.

    Raises:
        UsageError: for an unknown kind, one that cannot be calibrated, or a target that lacks what
            the kind needs.
    """
    if kind not in MECHANISMS:
        raise UsageError(f"unknown mechanism {kind!r}; choose one of {', '.join(MECHANISMS)}")
    family = analysis_class(MECHANISMS[kind]).family(target)
    if family is None:
        raise UsageError(
            f"{kind} cannot be calibrated, because its analysis defines no family of parameters"
        )
    return family
