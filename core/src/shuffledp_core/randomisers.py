"""A user's value, randomised: the local randomiser that the certificate is about, and no other.

A histogram's answer is a symbol; a sum's answer is the number of ones in the user's unary code, or a noisy value.
"""

from __future__ import annotations

from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import Mechanism
from shuffledp_core.randomness import RandomIntegers


def randomise(spec: Mechanism, value: int, integers: RandomIntegers) -> int:
    """The randomised answer of a user who holds `value`.

    Args:
        spec: the mechanism, as certified.
        value: the user's own value, in {0..spec.domain-1}.
        integers: the source of randomness.

    Returns:
        What `spec.say` turns into messages: the symbol to send (k-RR), how many of the `spec.messages_per_user` bits
        are one, or the noisy value modulo q (sums).

    Raises:
        UsageError: the value is outside the domain. The message names the range only: errors are logged, and the
            value is the user's secret.
    """
    # To Python True is the integer 1: a device that meant "yes" would answer another question.
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < spec.domain:
        raise UsageError(f"the value must be a whole number from 0 to {spec.domain - 1}: this round asks for no other")
    return spec.sample(value, integers)
