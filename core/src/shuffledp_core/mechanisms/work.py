"""Bounds on the work of drawing noise, so that no round keeps a device or node busy for ages.

Exact samplers of noise with rate ε take 1/ε steps, and a certificate may name any rate.
docs/protocol.md, "Work". Pure.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final, Protocol, runtime_checkable

from shuffledp_core.errors import ParameterError

MAX_STEPS: Final = 2**22
"""Most steps that drawing one user's noise may take on average: some seconds of a device."""

MAX_TRIES: Final = 2**26
"""Most draws that a node's dummies may take on average: some minutes of a node."""


@runtime_checkable
class NoisyUsers(Protocol):
    """A mechanism whose users draw noise, in a number of steps that depends on its rate.

    Draws that are made once for each message or symbol do not count: their number is bounded.
    """

    @property
    def noise_steps(self) -> Fraction:
        """Mean number of steps of drawing one user's noise, rounded up."""


@runtime_checkable
class NoisyNodes(Protocol):
    """A mechanism whose nodes draw noise until it is within bounds."""

    @property
    def dummy_tries(self) -> Fraction:
        """Mean number of draws that the noise of one node's dummies takes, rounded up."""


def check_work(mechanism: object) -> None:
    """Raise `ParameterError` if a device or a node could not finish its draw in useful time."""
    kind = getattr(mechanism, "kind", "this mechanism")
    if isinstance(mechanism, NoisyUsers) and mechanism.noise_steps > MAX_STEPS:
        raise ParameterError(
            f"drawing one answer of {kind} would take {float(mechanism.noise_steps):.3g} steps on "
            f"average, and {MAX_STEPS:,} are allowed: its noise needs a larger epsilon for each "
            "unit; count in larger units, or ask for a larger epsilon"
        )
    if isinstance(mechanism, NoisyNodes) and mechanism.dummy_tries > MAX_TRIES:
        raise ParameterError(
            f"drawing a node's dummies of {kind} would take {float(mechanism.dummy_tries):.3g} "
            f"draws on average, and {MAX_TRIES:,} are allowed: it needs a larger mean number of "
            "dummies, or a larger epsilon"
        )


def shared_noise_steps(rate: Fraction) -> Fraction:
    """Mean number of steps of `sampling.exact.sgdl` at this rate, rounded up.

    One step for each draw from the urns of two geometrics, whose means are 1/(e^rate - 1) < 1/rate.
    """
    return 2 / rate


def bounded_noise_tries(rate: Fraction, reach: int) -> Fraction:
    """Mean number of draws of `sampling.exact.bounded_laplace`, rounded up.

    A draw stays within the reach with probability 1 - 2 φ^(reach+1)/(1 + φ) >= (1 - φ^(reach+1))/2,
    and 1/(1 - exp(-x)) <= 1 + 1/x.
    """
    return 2 * (1 + 1 / (rate * (reach + 1)))
