"""Batches in ristretto255 by the optional wheel `shuffledp-accel`, which has them from `curve25519-dalek`.

They are a maintained library's, on every processor; docs/adr/0012-accelerator.md.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any, Final

from shuffledp_core.onion.acceleration import VARIABLE, AcceleratorWarning, wheel
from shuffledp_core.randomness import system_random
from shuffledp_core.verified.group import (
    GENERATOR,
    IDENTITY,
    WIDTH,
    Scalar,
    added,
    minus,
    multiply,
    multiply_add,
    random_scalar,
)

_COUNT: Final = 5
_MANY: Final = 256
"""Terms of a sum for which the wheel takes another algorithm than for few of them; that begins at 190."""

_TURNS: Final = 30
"""So many multiplications of `_COUNT` factors by one base, that the table it keeps by then is compared, too."""


@cache
def points() -> Any:
    """The wheel, whose `Elements` and `Base` were compared with libsodium once; None: libsodium alone."""
    found = wheel()
    if found is None:
        return None
    if not hasattr(found, "Base"):
        wrong = "it is of an older version, and libsodium computes in ristretto255 instead: make accel"
    elif agrees(found):
        return found
    else:
        wrong = (
            "its batches in ristretto255 do not agree with libsodium on this machine and are not used; "
            f"report it, and set {VARIABLE}=off until it is mended"
        )
    warnings.warn(f"shuffledp-accel: {wrong}", AcceleratorWarning, stacklevel=2)
    return None


def agrees(made: Any) -> bool:
    """Whether products, sums, weighted sums and commitments are libsodium's, and what is no element is refused."""
    factors = [random_scalar(system_random) for _ in range(_COUNT)]
    base = multiply(random_scalar(system_random), GENERATOR)
    elements = [multiply(factor, base) for factor in factors]
    table = made.Base(base)
    if any(table.times(b"".join(factors)) != b"".join(elements) for _ in range(_TURNS)) or not table.has_table:
        return False
    batch, (c, z) = made.Elements(b"".join(elements)), factors[:2]
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
        batch.total() == added(elements),
        batch.powers(c, 0) == added(weighted),
        made.Elements(base * _MANY).powers(c, 0) == multiply(powers, base),
        batch.commitments(base, c * _COUNT, z * _COUNT) == b"".join(commitments),
    )
    return all(right) and not any(_takes(made, no_element) for no_element in (IDENTITY, b"\xff" * WIDTH))


def _takes(made: Any, data: bytes) -> bool:
    try:
        made.Elements(data)
    except ValueError:
        return False
    return True
