"""Lower convex hull of a privacy curve's points (docs/accounting.md, proposition C3). Pure."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def lower_hull(xs: NDArray[np.float64], ys: NDArray[np.float64]) -> NDArray[np.int64]:
    """Indices of the points on the lower hull, both ends included (Andrew's monotone chain).

    Args:
        xs: shape (points,), ascending.
        ys: same shape.
    """
    vertices: list[int] = []
    x, y = xs.tolist(), ys.tolist()
    for i in range(len(x)):
        while len(vertices) >= 2:
            a, b = vertices[-2], vertices[-1]
            # A comparison that rounding gets wrong keeps or drops a node; C3 holds with either.
            if (y[b] - y[a]) * (x[i] - x[b]) < (y[i] - y[b]) * (x[b] - x[a]):
                break
            vertices.pop()
        vertices.append(i)
    return np.array(vertices, dtype=np.int64)
