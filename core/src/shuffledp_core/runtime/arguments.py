"""Checks of the types of arguments of public functions and classes; all raise `UsageError`."""

from __future__ import annotations

import operator
from numbers import Rational, Real
from typing import Any

from shuffledp_core.errors import UsageError


def whole_number(name: str, value: Any) -> int:
    """The value as an int; numpy's integers are accepted, truth values and floats are not.

    Raises:
        UsageError: the value is not a whole number.
    """
    if isinstance(value, bool):
        raise UsageError(f"{name} must be a whole number, not {value!r}")
    try:
        return operator.index(value)
    except TypeError:
        raise UsageError(f"{name} must be a whole number, not {value!r}") from None


def check_rational_number(name: str, value: Any) -> None:
    """Checks that the value is a fraction or a whole number, which are exact.

    Raises:
        UsageError: the value is not rational, for example a float.
    """
    if isinstance(value, bool) or not isinstance(value, Rational):
        raise UsageError(f"{name} must be a Fraction, not {value!r}")


def check_number(name: str, value: Any) -> None:
    """Checks that the value is a real number; NaN is one, a truth value is not.

    Raises:
        UsageError: the value is not a number.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise UsageError(f"{name} must be a number, not {value!r}")
