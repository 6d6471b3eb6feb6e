"""Mixing of split values: the distance of shuffled pieces from uniform pieces.

Ishai, Kushilevitz, Ostrovsky and Sahai 2006; Balle, Bell, Gascón and Nissim 2020; Ghazi,
Manurangsi, Pagh and Velingker
2020. The bound here is our own (docs/accounting.md, Proposition S19): a collision probability that
      is a function of the
connected components of a random bipartite graph, summed with no constants lost.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

import numpy as np

from shuffledp_core.errors import CannotCertify, UsageError
from shuffledp_core.mechanisms.split import MAX_PIECES
from shuffledp_privacy.numerics.search import bisect_whole
from shuffledp_privacy.primitives.contour import Floats

SECURITY: Final = 40
"""Default bits of statistical security: a distance of 2^-40."""

MOST_SECURITY: Final = 900
"""Most bits that may be asked for: what is smaller comes near the smallest numbers there are."""

SMALLEST: Final = 1e-300
"""Added to every distance, so that none is rounded to 0."""

_CROWDS: Final = 256
"""Most users of a crowd that is summed over by itself; where more would be needed, the pieces are
too few to hide.
"""

_ROUNDINGS: Final = 1e-4
"""Allowance for all roundings together, relative. A running sum of n logarithms errs by n 2^-53 of
its largest value at
most: 256 sums of crowds together by less than 1e-7 wherever the distance is above `SMALLEST`, which
covers the rest.
"""


@lru_cache(maxsize=1024)
def mixing_distance(honest: int, modulus: int, pieces: int) -> float:
    """τ: total variation distance between shuffled pieces and uniform ones of the same sum.

    Holds whatever values these users hold, noise included; other users' pieces change nothing.
    Rounded up, at most 1. docs/accounting.md, Proposition S19. Time does not depend on `honest`.

    Args:
        honest: h >= 1, users whose pieces are drawn correctly and all arrive.
        modulus: q >= 2.
        pieces: m >= 1 of each user.
    """
    if honest < 1 or modulus < 2 or pieces < 1:
        raise ValueError(
            f"h, q and m must be at least 1, 2 and 1, not {honest}, {modulus} and {pieces}"
        )
    # S19 (c) is proved from three pieces on; a crowd of one has no one to mix with, and its sum is
    # its own.
    if pieces < 3 and honest > 1:
        return 1.0
    log_excess = _log_excess(honest, modulus, pieces)
    if log_excess >= math.log(4):
        return 1.0
    return min(1.0, 0.5 * math.exp(log_excess / 2) * (1 + _ROUNDINGS) + SMALLEST)


def least_pieces(honest: int, modulus: int, security: float) -> int:
    """The smallest number of pieces with a mixing distance of at most 2^-security.

    Args:
        honest: h >= 1.
        modulus: q.
        security: σ, bits, above 0 and at most `MOST_SECURITY`.

    Raises:
        UsageError: security out of range.
        CannotCertify: no number of pieces that a round carries is enough.
    """
    if not 0 < security <= MOST_SECURITY:
        raise UsageError(
            f"the bits of security must be above 0 and at most {MOST_SECURITY}, not {security:g}"
        )
    goal = 2.0**-security
    low, high = 2, 4
    while mixing_distance(honest, modulus, high) > goal:
        if high > MAX_PIECES:
            raise CannotCertify(
                f"{honest} honest users cannot mix to 2^-{security:g}; ask for more of them"
            )
        low, high = high, 2 * high
    return bisect_whole(
        lambda pieces: mixing_distance(honest, modulus, pieces) <= goal, passing=high, failing=low
    )


def published_pieces(honest: int, modulus: int, security: float) -> int:
    """Number of pieces by the formula of Balle, Bell, Gascón and Nissim 2020, for comparison.

    ceil((2σ + log q)/(log h - log e) + 2).

    Logarithms to the base 2; stated for h >= 19.
    """
    if honest < 19:
        raise UsageError(f"the formula is stated for at least 19 honest users, not {honest}")
    return math.ceil(
        (2 * security + math.log2(modulus)) / (math.log2(honest) - math.log2(math.e)) + 2
    )


def _log_excess(honest: int, modulus: int, pieces: int) -> float:
    """ln of an upper bound of 𝔼[M^(C-1)] - 1, C the components of the graph (S19).

    Inf where none is computed.
    """
    grow = math.log(modulus)
    # ln(1 + w_i) for i = 1, 2, ...; S19 (c).
    log_sums = [0.0]
    for users in range(2, min(honest, _CROWDS) + 1):
        log_excess = _log_sum(users, pieces, log_sums) + grow
        if users == honest:
            return log_excess
        log_sums.append(float(np.logaddexp(0.0, log_excess)))
        if users >= 3 and _falls_from(users + 1, grow, pieces, log_sums):
            return _large(honest, grow, pieces, log_sums)
    return -math.inf if honest == 1 else math.inf


def _falls_from(users: int, grow: float, pieces: int, log_sums: list[float]) -> bool:
    """True if w_j <= 1 for all j >= `users`, as the induction of S19 (d) requires."""
    closed = _log_closed(users, pieces, len(log_sums))
    ends = np.logaddexp(closed[0], closed[1] + math.log(users / 2)) + math.log(2)
    total = np.logaddexp(np.logaddexp.reduce(closed + np.array(log_sums)), ends)
    return bool(total + grow + _ROUNDINGS <= 0.0)


def _large(users: int, grow: float, pieces: int, log_sums: list[float]) -> float:
    """Bound of S19 (d): known terms for few users, and a closed form for more."""
    if users <= len(log_sums) + 1:
        return _log_sum(users, pieces, log_sums[: users - 1]) + grow
    closed = _log_closed(users, pieces, 3)
    others = np.array(
        [
            closed[0] - math.log(users),
            closed[1] + math.log(2 / users),
            closed[2] + math.log(users / 2),
        ]
    )
    others += math.log(2)
    return (
        float(np.logaddexp(_log_sum(users, pieces, log_sums), np.logaddexp.reduce(others))) + grow
    )


def _log_sum(users: int, pieces: int, log_sums: list[float]) -> float:
    """ln Σ_i (j-i)/j χ_{j,i} (1 + w_i) over the known i, for j = users."""
    sizes = np.arange(1, len(log_sums) + 1)
    terms = (
        np.log((users - sizes) / users)
        + _log_closed(users, pieces, len(log_sums))
        + np.array(log_sums)
    )
    return float(np.logaddexp.reduce(terms))


def _log_closed(users: int, pieces: int, most: int) -> Floats:
    """ln χ_{j,i}, i = 1..most < j: expected number of isolated sets of i left and i right users.

    Isolated: without an edge to others.
    """
    users_chosen = _log_binomials(users, most)
    parts = _log_binomials(users * pieces, most * pieces)[pieces - 1 :: pieces]
    return 2.0 * users_chosen - parts


def _log_binomials(top: int, most: int) -> Floats:
    """ln C(top, i) for i = 1..most <= top, as a sum of logarithms, without loss of digits."""
    steps = np.arange(most, dtype=np.float64)
    return np.asarray(np.cumsum(np.log((top - steps) / (steps + 1))), dtype=np.float64)
