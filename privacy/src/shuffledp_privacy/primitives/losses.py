"""The hockey-stick divergence of two tabulated laws, at many E at once."""

from __future__ import annotations

import numpy as np

from shuffledp_privacy.numerics.rounding import UNIT, down
from shuffledp_privacy.primitives.contour import Floats
from shuffledp_privacy.primitives.work import spend_work

POINT_COST = 0.3
"""Work of a point of two tabulated laws, as `work` counts it."""


def tabulated_divergence(first: Floats, second: Floats, epsilon: Floats) -> Floats:
    """Upper bound of Σ (P - e^E Q)_+ at each E >= 0, from one sort by the loss ln P/Q.

    Args:
        first: ln P, rounded up, all finite.
        second: ln Q, rounded down, same shape; -inf for nothing.
        epsilon: E, nats.
    """
    spend_work(POINT_COST * first.size)
    loss = first - second
    order = np.argsort(-loss)
    # Sums over the points of largest loss: of the upper and of the lower law.
    upper = np.append(0.0, np.cumsum(np.exp(first[order])))
    lower = np.append(0.0, np.cumsum(np.exp(second[order])))
    # The cap only avoids an overflow; δ falls with E.
    total = down(np.minimum(epsilon, 700.0))
    # Losses are known up to this: points in doubt are taken, and paid for.
    doubt = 16 * UNIT * (float(np.abs(first).max()) + total + 8)
    count = np.searchsorted(-loss[order], doubt - total, side="right")
    above = upper[count] - np.exp(total) * lower[count]
    above += upper[count] * (8 * UNIT * first.size + 2 * doubt)
    return np.asarray(np.maximum(above, 0.0), dtype=np.float64)
