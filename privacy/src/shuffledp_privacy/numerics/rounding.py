"""Directed rounding: relative margins that cover the floating-point errors of a formula. Pure.

Each correctly rounded operation errs by at most one unit, relative to its result. A formula states
how many units it is moved by, and in which direction, where its value is used as a bound. Moving it
costs up to two of these units: the factor is rounded, unless `units` is even, and the product is.
"""

from __future__ import annotations

from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

Real = TypeVar("Real", float, NDArray[np.float64])

UNIT: Final = 2.0**-53
"""Largest relative error of one operation on doubles."""

ELEMENTARY: Final = 8
"""Units that cover the handful of roundings in one elementary formula."""


def up(value: Real, units: float = ELEMENTARY) -> Real:
    """Move a value at or above 0 up by `units` units, elementwise."""
    return value * (1 + units * UNIT)


def down(value: Real, units: float = ELEMENTARY) -> Real:
    """Move a value at or above 0 down by `units` units, elementwise."""
    return value * (1 - units * UNIT)
