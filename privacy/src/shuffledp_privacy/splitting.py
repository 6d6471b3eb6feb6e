"""Division of δ among several purposes. Pure.

The parts of a division add up to at most the whole, rounding included, so that a guarantee at the
parts holds at δ. Their sizes affect only tightness, never soundness, because every certificate is
computed for the parts that were chosen.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from shuffledp_privacy.numerics.rounding import down

CLAMPING: Final = 0.25
"""Of the δ of a padded sum, left to clamping: more saves few messages, less saves hardly any noise.
"""

MIXING: Final = 1e-3
"""Of the δ of a split sum, what its pieces may show besides: a further one of them costs a message
and divides it a
hundredfold."""

GAUSSIAN: Final = 0.75
"""Of a budget's δ, for the Gaussian filter; the pure one has the rest, where its curves have fallen
steeply already.
"""

LEAK: Final = 0.25
"""Of the Gaussian filter's δ, what rounds may leak: what clamping costs, and tails above a
Gaussian's.
"""

BEYOND_GRID: Final = 1e-4
"""Of the δ of composed rounds, what the losses beyond the grid may cost, which count as infinite.
"""

ENDS: Final = 0.1
"""Of the δ of composed rounds, what the ends of bounded noise may reveal: it costs few dummies,
leaves enough to losses within the noise, and fits into the `LEAK` of a Gaussian filter.
"""

CLAMPING_NEARBY: Final = 0.1
"""Share of δ that clamping may cost at the distances that S6 covers; beyond them it is bounded by
S6b, which needs no share.
"""

OWN_TAIL: Final = 0.01
"""Of a round's equal part of δ, where its own tail counts as negligible: what several rounds cost
lies far above it.
"""


def left_to_mixing(delta: float, rounds: int) -> float:
    """Part of δ for the imperfect mixing of split values, in each of `rounds` rounds."""
    return MIXING * delta / rounds


def among_rounds(delta: float, rounds: int) -> float:
    """One of `rounds` equal parts of δ, rounded down so that their sum stays below δ (C6).

    For one part it is δ itself.
    """
    return delta if rounds == 1 else down(delta / rounds)


def left_of(delta: float, taken: float) -> float:
    """Remainder of δ, rounded down; 0 or less if nothing is left."""
    return down(delta - taken)


class PaddedParts(NamedTuple):
    """Parts of δ for a sum with clamped noise: for clamping, and for the noise (S6)."""

    clamping: float
    noise: float


def between_clamping_and_noise(delta: float) -> PaddedParts:
    """Split one round's δ into the parts for clamping and for the noise."""
    return PaddedParts(CLAMPING * delta, down((1 - CLAMPING) * delta))


class FilterParts(NamedTuple):
    """Parts of δ for filters used together: the Gaussian one's with its `leak`, the pure one's."""

    gaussian: float
    leak: float
    pure: float


def among_filters(delta: float) -> FilterParts:
    """Split a budget's δ among the filters (propositions C14 and C15)."""
    gaussian = down(GAUSSIAN * delta)
    return FilterParts(gaussian, LEAK * gaussian, (1 - GAUSSIAN) * delta)


def ends_of_noise(delta: float, rounds: int) -> float:
    """Part of δ for the ends of bounded noise in each of several rounds; all of δ for one."""
    return delta if rounds == 1 else down(ENDS * delta / rounds)


def beyond_grid(delta: float, rounds: int) -> float:
    """Mass that one of `rounds` rounds may lose beyond the composition's grid (proposition C4)."""
    return BEYOND_GRID * delta / rounds


def clamping_nearby(delta: float) -> float:
    """Part of an undivided δ that clamping may cost at small distances (proposition S6b)."""
    return CLAMPING_NEARBY * delta


def own_tail(delta: float, rounds: int) -> float:
    """The δ at which the tail of one round is examined when its padding is chosen.

    It is for one round of several.
    """
    return OWN_TAIL * delta / rounds
