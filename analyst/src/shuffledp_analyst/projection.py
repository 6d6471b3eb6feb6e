"""Projection of an unbiased histogram to the nearest one with no negative counts and the known total."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def project(values: Sequence[float] | NDArray[np.float64], total: float) -> NDArray[np.float64]:
    """Euclidean projection onto {x : x >= 0, Σ x = total}.

    Sorting finds the one threshold t with Σ max(v - t, 0) = total (Held, Wolfe and Crowder 1974; Duchi et al. 2008).
    The error never grows in Euclidean norm, but the result is biased where counts are small: for display and
    downstream use, not for further statistics.

    Args:
        values: unbiased counts, shape (k,), finite.
        total: their known sum, n; not negative.

    Returns:
        Shape (k,).
    """
    vector = np.asarray(values, dtype=np.float64)
    if vector.ndim != 1 or not len(vector) or not np.isfinite(vector).all():
        raise ValueError("values must be a vector of finite numbers")
    if not 0 <= total < np.inf:
        raise ValueError(f"total must be finite and not negative, not {total}")
    if total == 0:
        return np.zeros_like(vector)
    ordered = np.sort(vector)[::-1]
    thresholds = (np.cumsum(ordered) - total) / np.arange(1, len(vector) + 1)
    # With `>=` the first place always qualifies, also where `total` vanishes in rounding beside the largest value.
    last = int(np.nonzero(ordered >= thresholds)[0][-1])
    projected: NDArray[np.float64] = np.maximum(vector - thresholds[last], 0.0)
    return projected
