"""Bounds on how far lying devices can move an answer; docs/adversary.md, "What liars can move"."""

from __future__ import annotations

from fractions import Fraction
from typing import Protocol, runtime_checkable

from shuffledp_core.mechanisms.base import Spec


@runtime_checkable
class LiarBound(Protocol):
    """A mechanism that states how far lying devices can move its estimate."""

    def largest_shift(self, liars: int) -> Fraction:
        """Most that `liars` reports can move the estimate of the sum, or of one count.

        Exact: the largest difference between two choices of their messages, any of the alphabet.
        """


@runtime_checkable
class ExtremeMessages(Protocol):
    """A mechanism with too many different messages to try all: liars compute the best ones."""

    def extreme_messages(self, value: int) -> tuple[int, int]:
        """The symbols of the messages that raise and lower the count of `value` the most."""


def largest_shift(spec: Spec, liars: int) -> Fraction | None:
    """`LiarBound.largest_shift`; None without a bound, or if messages are only noise."""
    if not isinstance(spec, LiarBound):
        return None
    try:
        return spec.largest_shift(liars)
    except ZeroDivisionError:
        return None
