"""Laws of a mechanism's error at the parameters that paper 002 prints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import cache
from typing import Final

from shuffledp_core.mechanisms import Mechanism
from shuffledp_experiments.athanasiou import printed
from shuffledp_privacy.sums.errors import ErrorLaw, error_law, sgdl_error

HALF: Final = printed.LARGEST // 2
"""Mean of uniform integers 0..1000, which the error of additive noise does not depend on, and that
of bits hardly.
"""

LOCAL: Final = "Geo-Local"
CENTRAL: Final = "Geo-Central"


def rounding(digits: str) -> float:
    """Half a unit of the last digit of a printed number."""
    return 0.5 * 10.0 ** int(Decimal(digits).as_tuple().exponent)


@cache
def local_law(epsilon: float, users: int) -> ErrorLaw:
    """Law of Geo-Local's error: every user adds noise of ε, and the analyst adds the values up."""
    return sgdl_error(float(users), epsilon)


@cache
def spec_law(spec: Mechanism, users: int, largest: int, share: float) -> ErrorLaw:
    """Law of the sum's error, if the true sum is a share of the largest possible sum."""
    return error_law(spec, users, round(users * largest * share))


@cache
def printed_spec(
    name: str, epsilon: float, delta: float, users: int, largest: int
) -> Mechanism | None:
    """A mechanism with the parameters that the paper's statements give for ε."""
    make: Mapping[str, Callable[[float, float, int, int], Mechanism | None]] = {
        "RR-Shuffle": printed.rr_spec,
        "Geo-Shuffle": printed.geo_spec,
        "SGDL-Shuffle": printed.sgdl_spec,
    }
    return make[name](epsilon, delta, users, largest)


def printed_law(name: str, epsilon: float, delta: float, users: int) -> ErrorLaw | None:
    """Law of the sum's error for a mechanism with the paper's parameters.

    None if its statements have no plan for these users.
    """
    if name == LOCAL:
        return local_law(epsilon, users)
    if name == CENTRAL:
        return sgdl_error(1.0, epsilon)
    spec = printed_spec(name, epsilon, delta, users, printed.LARGEST)
    return None if spec is None else spec_law(spec, users, printed.LARGEST, HALF / printed.LARGEST)
