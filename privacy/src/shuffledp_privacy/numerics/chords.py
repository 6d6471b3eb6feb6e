"""Chords between the points of a falling curve, rounded up. Pure."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shuffledp_privacy.numerics.rounding import up

Floats = NDArray[np.float64]


def falling_chord(at: Floats | float, nodes: Floats, values: Floats) -> Floats:
    """Interpolates a falling curve linearly; never below the exact chord of these floats.

    y_r + (y_l - y_r)(x_r - x)/(x_r - x_l) has no negative term: six roundings err by six units of
    the result. `numpy.interp` starts at the left end instead, and where the curve falls by many
    orders of magnitude between two nodes, its result is all rounding near the right one.

    Args:
        at: points; outside the nodes the curve is constant.
        nodes: rising, shape (n,).
        values: at the nodes, at least 0 and falling; where they rise the right one is taken.
    """
    points = np.asarray(at, dtype=np.float64)
    right = np.minimum(np.searchsorted(nodes, points), nodes.size - 1)
    left = np.maximum(right - 1, 0)
    gap = nodes[right] - nodes[left]
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(gap > 0, (nodes[right] - points) / gap, 0.0)
    drop = np.maximum(values[left] - values[right], 0.0)
    return np.asarray(up(values[right] + np.clip(share, 0.0, 1.0) * drop))
