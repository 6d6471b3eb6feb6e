"""Bounds for the k-RR histogram: certified for every dataset, attained by one, and published.

    certified   k >= 3: the hidden-flag blanket (K1), exact for small h (K2), on a grid beyond (K3,
                K4);
                k = 2: every composition of the others (K6), or the blanket where that is smaller.
    attained    k >= 3: all others hold one third symbol (K5); k = 2: all others hold one symbol
                (K5), or the
                worst of all compositions where all were computed.
Every change of a value is the same change for k-RR, so distances do not matter: under metric
adjacency the worst distance is 1 and the numbers are those of the standard adjacency (K7).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np

from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import MAX_DOMAIN, KRRHistogram, RRShuffle
from shuffledp_privacy.bounds import (
    Setting,
)
from shuffledp_privacy.histogram.binary import (
    CURVE_WORK,
    binary_compositions,
    one_symbol,
    one_symbol_window,
)
from shuffledp_privacy.histogram.blanket import (
    NOTHING,
    ExactCells,
    Law,
    any_lower,
    any_upper,
    exact_cells,
    grid_blanket,
)
from shuffledp_privacy.histogram.published import published_theorem_1
from shuffledp_privacy.primitives.tails import Floats, inward, outward
from shuffledp_privacy.sums.rr import BitShuffle, bit_shuffle

PRINTED_USERS = 500
"""Most users for which the papers' double sum is shown beside the answer: it takes 50 ms there."""

LARGEST_CURVE = 2_000_000
"""Most cells times epsilons of a curve by the exact sum, about 0.05 s; beyond, the grid is as tight
and faster.
"""

LARGEST_BINARY_CURVE = 10**6
"""Most honest users for which a curve for k = 2 uses the compositions; beyond, a pass over their
tables is too long.
"""

TABULATED = (0.999e-3, 20.01)
"""Range of ε0 of the tables (1e-3 to 20, with room for rational parameters); outside it contour
sums answer (K12).
"""

NOBODY = 1e-3
"""Users in all who send some wrong symbol by chance, below which nothing is amplified: δ would
change by as little.
"""

MANY_BITS = 100_000
"""Users from which 2-RR is asked as a sum of bits as well: its search over compositions does not
grow with them.
"""

LARGEST_EPSILON0 = 100.0
"""Beyond it almost all users report the truth, and the local guarantee is certified."""

Curve = Callable[[float], float]


def certified_delta(law: Law, honest: int) -> tuple[Curve, str]:
    """Certified δ as a function of ε >= 0, never below the truth, and its basis."""
    if not _amplify(law, honest):
        return (
            lambda epsilon: min(1.0, outward(_local(law, epsilon)))
        ), "local guarantee only: nothing is amplified (K1)"
    if not _tabulate(law):
        return (
            lambda epsilon: _cap(law, epsilon, partial(_any, law, honest))
        ), "hidden-flag blanket (K1, K12)"
    # K1 gives the adversary the other users' values and flags as well, a richer view than the
    # histogram: one pair of laws then dominates every dataset.
    if ExactCells.affordable(law, honest):
        blanket: Curve = exact_cells(law, honest).blanket
        words = "hidden-flag blanket, exact sum (K1, K2)"
    else:
        grid = grid_blanket(law, honest)
        blanket = lambda epsilon: float(grid.upper(np.array([epsilon]))[0])  # noqa: E731
        words = "hidden-flag blanket, chords (K1, K3, K4)"
    if law.symbols > 2:
        return (lambda epsilon: _cap(law, epsilon, blanket)), words
    tables = binary_compositions(law, honest)
    words = f"every composition{'' if tables.exact else ', in blocks'} (K6); or {words}"
    return (lambda epsilon: _cap(law, epsilon, lambda e: min(blanket(e), tables.upper(e)))), words


def attained_delta(law: Law, honest: int) -> Curve:
    """Attained δ as a function of ε in [0, ε0), never above the truth of some dataset."""
    if not _amplify(law, honest):
        return lambda epsilon: inward(_local(law, epsilon)) if honest == 1 else 0.0
    if not _tabulate(law):
        if law.symbols > 2:
            return lambda epsilon: inward(any_lower(law, honest, epsilon))
        alone = one_symbol_window(law, honest)
        return lambda epsilon: inward(one_symbol(law, honest, alone, epsilon))
    if law.symbols == 2:
        window = one_symbol_window(law, honest)
        tables = binary_compositions(law, honest)
        return lambda epsilon: inward(
            max(one_symbol(law, honest, window, epsilon), tables.lower(epsilon))
        )
    if ExactCells.affordable(law, honest):
        cells = exact_cells(law, honest)
        return lambda epsilon: inward(cells.third_symbol(epsilon))
    grid = grid_blanket(law, honest)
    return lambda epsilon: inward(grid.lower(epsilon))


def _amplify(law: Law, honest: int) -> bool:
    wide = 0.0 < law.epsilon0 <= LARGEST_EPSILON0 and honest * law.q > NOBODY
    return honest > 1 and (_tabulate(law) or wide)


def _tabulate(law: Law) -> bool:
    return TABULATED[0] <= law.epsilon0 <= TABULATED[1]


def _any(law: Law, honest: int, epsilon: float) -> float:
    """Certified δ at any ε0: by the blanket, or from a single report if that is smaller."""
    return min(any_upper(law, honest, epsilon), _local(law, epsilon))


def _local(law: Law, epsilon: float) -> float:
    """Exact δ(ε) of a single report, K1 with h = 1."""
    return float(law.alpha(np.array(min(epsilon, 700.0))))


def _cap(law: Law, epsilon: float, curve: Curve) -> float:
    # Each report is ε0-DP by itself, purely: from ε0 on no δ is needed, whatever the numerics
    # leave.
    return 0.0 if epsilon >= law.epsilon0 else min(1.0, outward(curve(epsilon)))


def as_bits(spec: KRRHistogram, setting: Setting) -> BitShuffle | None:
    """2-RR among many users as a sum of bits, if too few blocks of compositions would remain.

    None otherwise (K6).
    """
    if spec.symbols != 2 or setting.honest < MANY_BITS or spec.blanket == 1:
        return None
    return bit_shuffle(
        RRShuffle(max_value=1, randomise=spec.blanket), Setting(setting.users, setting.honest)
    )


def printed_curve(law: Law, setting: Setting) -> Curve | None:
    """δ by Theorem 1 of Biswas et al. 2023, with their n_x0 = 0.8 n.

    None if its sum is too long to evaluate.
    """
    at_x0 = 4 * setting.users // 5
    if not 2 <= setting.users <= PRINTED_USERS or not 0.0 < law.epsilon0 <= 20.0:
        return None
    return lambda epsilon: published_theorem_1(
        setting.users, at_x0, law.symbols, law.epsilon0, epsilon
    )


PRINTED_FORMULA = (
    "Biswas et al. 2023, Theorem 1 with n_x0 = 0.8 n as printed; its v_s is wrong, no guarantee "
    "(K8)"
)


def positive_curve(law: Law, honest: int, epsilons: Floats) -> Floats:
    """Upper bound of δ at each of ascending ε >= 0, before the margin for rounding errors.

    At ε >= ε0, where δ is 0, the values are meaningless.
    """
    inside = np.minimum(epsilons, law.epsilon0)
    if not _amplify(law, honest):
        return np.array([_local(law, float(epsilon)) for epsilon in inside])
    if not _tabulate(law):
        return _follow(partial(_any, law, honest), inside, 0.0)
    if law.symbols == 2 and honest <= LARGEST_BINARY_CURVE:
        tables = binary_compositions(law, honest, CURVE_WORK)
        floor = 4 * float(tables.tables.errors.max())
        return _below(floor, _follow(tables.upper, inside, floor), law, honest, inside)
    if ExactCells.affordable(law, honest):
        cells = exact_cells(law, honest)
        if cells.a.size * inside.size <= LARGEST_CURVE:
            return _follow(cells.blanket, inside, 0.0)
    return grid_blanket(law, honest).upper(inside)


def _below(floor: float, values: Floats, law: Law, honest: int, epsilons: Floats) -> Floats:
    """Replace values below the transform's error by the blanket's, which has no such error."""
    lost = values <= 16 * floor
    if lost.any():
        values[lost] = np.minimum(values[lost], grid_blanket(law, honest).upper(epsilons[lost]))
    return values


def _follow(curve: Curve, epsilons: Floats, floor: float) -> Floats:
    """Evaluate a falling curve at ascending ε until it is below `floor` or negligible.

    The last value is an upper bound for all later ε.
    """
    values = np.empty(epsilons.size)
    for index, epsilon in enumerate(epsilons):
        values[index] = curve(float(epsilon))
        if values[index] <= max(floor, NOTHING):
            values[index:] = values[index]
            break
    # δ falls: where the bound at a smaller ε is better it holds here as well.
    return np.minimum.accumulate(values)


def epsilon0_to_blanket(epsilon0: float, symbols: int) -> Fraction:
    """γ of k-ary randomised response with local parameter at most ε0: k/(e^ε0 + k - 1), rounded up.

    Args:
        epsilon0: nats, above 0, at most 25.
        symbols: k >= 2.

    Raises:
        UsageError: out of range.
    """
    if not 0 < epsilon0 <= 25:
        raise UsageError(f"epsilon0 must be above 0 and at most 25, not {epsilon0}")
    if not 2 <= symbols <= MAX_DOMAIN:
        raise UsageError(f"symbols must be from 2 to {MAX_DOMAIN}, not {symbols}")
    blanket = symbols / (math.exp(epsilon0) + symbols - 1) * (1 + 2.0**-50)
    bits = 20 + max(0, 1 - math.frexp(blanket)[1])
    return min(Fraction(1), Fraction(math.ceil(blanket * 2.0**bits), 2**bits))
