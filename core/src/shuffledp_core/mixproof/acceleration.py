"""Batches in ristretto255 by the optional wheel `shuffledp-accel` (`curve25519-dalek`).

The arithmetic is that of a maintained library, on every processor; docs/adr/0012-accelerator.md.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any, Final

from shuffledp_core.mixproof.group import (
    GENERATOR,
    WIDTH,
    Scalar,
    add_points,
    minus,
    multiply,
    multiply_add,
    random_scalar,
)
from shuffledp_core.mixproof.vectors import first_failure
from shuffledp_core.onion.acceleration import VARIABLE, AcceleratorWarning, wheel
from shuffledp_core.sampling.randomness import system_random

_COUNT: Final = 5
_MANY: Final = 256
"""Terms of a sum for which the wheel takes another algorithm than for few of them; that begins at
190.
"""

_TURNS: Final = 30
"""Number of multiplications of `_COUNT` factors by one base, that the table it keeps by then is
compared, too.
"""


@cache
def points() -> Any:
    """The wheel, once it has passed the RFC's vectors and agreed with libsodium.

    None: libsodium alone.
    """
    library = wheel()
    if library is None:
        return None
    wrong = _objection(library)
    if not wrong:
        return library
    warnings.warn(f"shuffledp-accel: {wrong}", AcceleratorWarning, stacklevel=2)
    return None


def _objection(library: Any) -> str:
    """The reason not to use the wheel, with the remedy; "" if the wheel is used."""
    if not hasattr(library, "Base"):
        return (
            "it is of an older version, and libsodium computes in ristretto255 instead: make accel"
        )
    remedy = f"report it, and set {VARIABLE}=off until it is fixed"
    failure = _failure(library)
    if failure:
        return f"its ristretto255 {failure}, and is not used; {remedy}"
    if not agrees(library):
        return (
            "its batches in ristretto255 do not agree with libsodium on this machine and are "
            f"not used; {remedy}"
        )
    return ""


def _failure(library: Any) -> str:
    """The first test vector of RFC 9496 that the wheel fails; "" if it passes all."""

    def is_encoding(data: bytes) -> bool:
        try:
            library.Elements(data)
        except ValueError:
            return False
        return True

    return first_failure(
        is_encoding,
        lambda factor, point: bytes(library.Elements(point).times(factor)),
        lambda left, right: bytes(library.Elements(left + right).total()),
    )


def agrees(library: Any) -> bool:
    """True if products, (weighted) sums and commitments of random elements match libsodium's."""
    factors = [random_scalar(system_random) for _ in range(_COUNT)]
    base = multiply(random_scalar(system_random), GENERATOR)
    elements = [multiply(factor, base) for factor in factors]
    table = library.Base(base)
    if (
        any(table.times(b"".join(factors)) != b"".join(elements) for _ in range(_TURNS))
        or not table.has_table
    ):
        return False
    batch, (c, z) = library.Elements(b"".join(elements)), factors[:2]
    weighted, power = [], c
    for element in elements:
        weighted.append(multiply(power, element))
        power = multiply_add(power, c, Scalar(bytes(WIDTH)))
    commitments = [minus(multiply(z, base), multiply(c, element)) for element in elements]
    powers = Scalar(bytes(WIDTH))
    for _ in range(_MANY):
        powers = multiply_add(c, powers, c)  # in the end c + c² + .. + c^256
    right = (
        batch.times(c) == b"".join(multiply(c, element) for element in elements),
        batch.total() == add_points(elements),
        batch.powers(c, 0) == add_points(weighted),
        library.Elements(base * _MANY).powers(c, 0) == multiply(powers, base),
        batch.commitments(base, c * _COUNT, z * _COUNT) == b"".join(commitments),
    )
    return all(right)
