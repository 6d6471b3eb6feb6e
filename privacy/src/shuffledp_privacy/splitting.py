"""Division of δ: wherever one δ pays for several things, the parts come from here. Pure.

The parts of one division add up to at most the whole, rounding included, so that what holds at the
parts together holds at δ. How large each is decides tightness alone, never soundness: every
certificate is computed for what was chosen.
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

ENDS: Final = 0.25
"""Of the δ of composed rounds, what the ends of bounded noise may show: a quarter costs few dummies
and leaves enough to losses within the noise.
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
    """What the pieces of split values may cost one round of several."""
    return MIXING * delta / rounds


def among_rounds(delta: float, rounds: int) -> float:
    """One of equal parts of δ, rounded down so that they never exceed δ together (C6).

    δ itself for one part.
    """
    return delta if rounds == 1 else down(delta / rounds)


def left_of(delta: float, taken: float) -> float:
    """Remainder of δ, rounded down; 0 or less where nothing is left."""
    return down(delta - taken)


class PaddedParts(NamedTuple):
    """Parts of δ for a sum with clamped noise: for clamping, and for the noise (S6)."""

    clamping: float
    noise: float


def between_clamping_and_noise(delta: float) -> PaddedParts:
    """The parts of one round's δ."""
    return PaddedParts(CLAMPING * delta, down((1 - CLAMPING) * delta))


class FilterParts(NamedTuple):
    """Parts of δ for filters side by side: the Gaussian one's with its `leak`, the pure one's."""

    gaussian: float
    leak: float
    pure: float


def among_filters(delta: float) -> FilterParts:
    """The parts of a budget's δ (propositions C14 and C15)."""
    gaussian = down(GAUSSIAN * delta)
    return FilterParts(gaussian, LEAK * gaussian, (1 - GAUSSIAN) * delta)


def ends_of_noise(delta: float, rounds: int) -> float:
    """What the ends of bounded noise may show in one round of several; all of δ for one."""
    return delta if rounds == 1 else down(ENDS * delta / rounds)


def beyond_grid(delta: float, rounds: int) -> float:
    """Mass that one of `rounds` rounds may lose beyond the composition's grid (proposition C4)."""
    return BEYOND_GRID * delta / rounds


def clamping_nearby(delta: float) -> float:
    """What clamping may cost at small distances, of a δ that is not divided (proposition S6b)."""
    return CLAMPING_NEARBY * delta


def own_tail(delta: float, rounds: int) -> float:
    """The δ to which one round's tail is examined when its padding is chosen.

    For one round of several.
    """
    return OWN_TAIL * delta / rounds
