"""Noise of nodes in the sum of several counts, given the total that all counts reveal.

docs/accounting.md, S22. Pure; uses only numpy.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from shuffledp_core.bounds.bounded_noise import (
    OUTSIDE,
    SumLaw,
    bounded_laplace_variance,
    law_of_sum,
)
from shuffledp_core.bounds.node_noise import NodeNoise

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_TAIL: Final = 0.025 - 1e-6
"""Probability that noise lies beyond one end of an interval, less its computation error."""

_LEAST_LIKELY: Final = 100.0
"""A conditional law is computed for totals whose probability is this many times its error."""

_LAW: Final = 1e-14
"""Error of the law of one noise, summed over all its probabilities."""


@lru_cache(maxsize=64)
def noise_given_total(
    rate: Fraction, mean: int, symbols: int, spare: int, nodes: int, cells: int, total: int
) -> NodeNoise:
    """Noise of `cells` symbols together, given that the noise of all symbols sums to `total`.

    The noises of all symbols are exchangeable, so the expectation is total * cells / symbols. The
    law takes no account of the room that each node's dummies have, `spare` beyond their mean: with
    room for all with probability w, a miss is at most 1/w times as likely as without the condition,
    and the ends allow for that.

    Args:
        rate: nats of one node's noise.
        mean: largest size of one noise.
        symbols: k.
        spare: largest sum of one node's noises.
        nodes: how many nodes draw noise, at least 1.
        cells: m, from 1 to k.
        total: sum of the noises of all nodes in all symbols.

    Returns:
        The noise, with empty `laws`. If the total is too unlikely as noise of the nodes, its ends
        are the largest sums that the nodes can draw at all.
    """
    import numpy as np

    expected = total * cells / symbols
    if cells == symbols:
        return NodeNoise(expected, 0.0, float(total), float(total))
    inner, outer = (law_of_sum(rate, mean, count * nodes) for count in (cells, symbols - cells))
    tail = _TAIL * _room(rate, mean, symbols, spare) ** nodes
    places, masses = _masses(inner)
    error = _error(inner, cells * nodes) + _error(outer, (symbols - cells) * nodes)
    rest = np.zeros_like(masses)
    other_places, other_masses = _masses(outer)
    index = total - places - other_places[0]
    inside = (index >= 0) & (index < other_masses.size)
    rest[inside] = other_masses[index[inside]]
    joint = masses * rest
    likely = float(joint.sum())
    if likely < _LEAST_LIKELY * error:
        # Only nodes or people who do not follow the protocol make this total.
        most = float(cells * nodes * mean)
        deviation = math.sqrt(cells * nodes * bounded_laplace_variance(rate, mean))
        return NodeNoise(expected, deviation, -most, most)
    law = joint / likely
    deviation = math.sqrt(max(0.0, float(law @ (places - expected) ** 2)))
    return NodeNoise(expected, deviation, *_ends(places, law, tail - 3 * error / likely))


@lru_cache(maxsize=64)
def pooled_law(rate: Fraction, mean: int, symbols: int, spare: int, cells: int) -> NodeNoise:
    """One node's noise in the sum of `cells` symbols, given that all its dummies have room."""
    import numpy as np

    places, masses = _masses(law_of_sum(rate, mean, cells))
    room = law_of_sum(rate, mean, symbols - cells).at_most(spare - places)
    reach = int(np.abs(places).max())
    law = np.zeros(2 * reach + 1)
    law[places + reach] = masses * room
    law /= law.sum()
    center = float(law @ np.arange(-reach, reach + 1))
    return NodeNoise(center, 0.0, 0.0, 0.0, ((1, law),), 1)


def _room(rate: Fraction, mean: int, symbols: int, spare: int) -> float:
    """Probability that one node's dummies have room, rounded down."""
    import numpy as np

    law = law_of_sum(rate, mean, symbols)
    return max(0.0, float(law.at_most(np.array([spare]))[0]) - law.error)


def _error(law: SumLaw, terms: int) -> float:
    """Largest error of one probability of a sum; `law.error` bounds that of all its probabilities.

    The transform's part is spread evenly; a difference of two sums rounds twice.
    """
    points = law.cumulative.size
    shared = OUTSIDE + _LAW * terms
    rounding = points * 2.0**-53
    return max(0.0, law.error - shared - rounding) / points + shared + 2.0**-51


def _masses(law: SumLaw) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    import numpy as np

    masses = np.maximum(np.diff(law.cumulative, prepend=0.0), 0.0)
    return law.first + np.arange(masses.size), masses


def _ends(places: NDArray[np.int64], law: NDArray[np.float64], tail: float) -> tuple[float, float]:
    """Values that a noise falls below, and exceeds, with probability `tail` at most each."""
    import numpy as np

    below, above = np.cumsum(law), np.cumsum(law[::-1])
    first = int(np.searchsorted(below, max(tail, 0.0), side="right"))
    last = law.size - 1 - int(np.searchsorted(above, max(tail, 0.0), side="right"))
    return float(places[min(first, law.size - 1)]), float(places[max(last, 0)])
