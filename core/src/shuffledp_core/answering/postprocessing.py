"""Turns unbiased histograms into possible ones, by projection or by maximum likelihood.

The result has no negative count and the known total, and costs no privacy, because it is computed
from published counts. It is biased where counts are small, so intervals stay those of the unbiased
estimate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Floats = NDArray[np.float64]

TOLERANCE: Final = 1e-6
"""Nats of log-likelihood that the iterative Bayesian update may leave: about 1e-3 of a standard
error.
"""

MOST_STEPS: Final = 100_000
"""Steps after which it is given up."""


def project(values: ArrayLike, total: float) -> Floats:
    """Euclidean projection onto {x : x >= 0, Σ x = total}.

    Sorting finds the one threshold t with Σ max(v - t, 0) = total (Held, Wolfe and Crowder 1974;
    Duchi et al. 2008). The error never grows in Euclidean norm, but the result is biased where
    counts are small: for display and downstream use, not for further statistics.

    Args:
        values: unbiased counts, shape (..., k), finite; each last axis is projected by itself.
        total: their known sum, n; not negative.

    Returns:
        The same shape.

    Raises:
        ValueError: values or total are not as above.
    """
    vector = np.asarray(values, dtype=np.float64)
    if not vector.ndim or not vector.size or not np.isfinite(vector).all():
        raise ValueError("values must be a vector of finite numbers")
    if not 0 <= total < np.inf:
        raise ValueError(f"total must be finite and not negative, not {total}")
    if total == 0:
        return np.zeros_like(vector)
    ordered = np.flip(np.sort(vector, axis=-1), axis=-1)
    thresholds = (np.cumsum(ordered, axis=-1) - total) / np.arange(1, vector.shape[-1] + 1)
    # With `>=` the first place always qualifies, also where `total` vanishes in rounding beside the
    # largest value.
    last = _last(ordered >= thresholds)
    projected: Floats = np.maximum(vector - np.take_along_axis(thresholds, last, axis=-1), 0.0)
    return projected


def most_likely_histogram(counts: ArrayLike, q: float, slope: float) -> Floats:
    """Maximum likelihood if a report names the user's symbol with probability q + slope.

    It names each other symbol with probability q.

    What the iterative Bayesian update tends to, without iterating: Σ c_y ln(q + slope x_y/n) is
    largest, over x >= 0 with Σ x = n, at x_y = max(t c_y - n q/slope, 0), as its derivatives are
    equal where x is positive and not larger elsewhere. Sorting finds the one t: if the m largest
    counts, C in all, are kept, t = n (1 + m q/slope)/C. Source of the update: Agrawal and Aggarwal
    2001.

    Args:
        counts: c_y, how many reports name each symbol; shape (..., k), not negative, Σ c = n > 0 in
            each last axis.
        q: at least 0, with k q + slope = 1.
        slope: above 0.

    Returns:
        The same shape: users for each symbol.
    """
    observed = np.asarray(counts, dtype=np.float64)
    ordered = np.flip(np.sort(observed, axis=-1), axis=-1)
    sums = np.cumsum(ordered, axis=-1)
    places = np.arange(1, observed.shape[-1] + 1)
    # x/n is (c + (m c - C) q/slope)/C: differences of whole numbers, exact however small the slope
    # is.
    last = _last(ordered + (places * ordered - sums) * (q / slope) >= 0)
    total = np.take_along_axis(sums, last, axis=-1)
    shares = (observed + ((last + 1) * observed - total) * (q / slope)) / total
    likely: Floats = np.maximum(shares, 0.0) * sums[..., -1:]
    return likely


def iterative_bayesian_update(
    counts: ArrayLike,
    channel: ArrayLike,
    *,
    tolerance: float = TOLERANCE,
    most_steps: int = MOST_STEPS,
) -> Floats:
    """Maximum likelihood for any randomiser of one message, by expectation maximisation.

    Starts from the uniform law.

    Each step gives every report to the values by their posterior under the law of the step before
    (Agrawal and Aggarwal 2001). It stops where no law can be more likely by more than `tolerance`:
    the log-likelihood is concave, so no law gains more than n (max_x g_x - 1) nats, g_x = Σ_y
    (c_y/n) P(y|x)/P(y) being the factor of the step.

    Args:
        counts: c_y, how many reports are y; shape (..., outputs), not negative, Σ c > 0 in each
            last axis.
        channel: P(y|x), shape (inputs, outputs); each row a law.
        tolerance: nats of the whole log-likelihood, above 0.
        most_steps: at least 1.

    Returns:
        Shape (..., inputs): users for each value, adding up to the reports.

    Raises:
        UsageError: it has not converged after that number of steps, or no value can have sent a
            report that was counted.
    """
    observed = np.asarray(counts, dtype=np.float64)
    laws = np.asarray(channel, dtype=np.float64)
    users = observed.sum(axis=-1, keepdims=True)
    seen = np.broadcast_to(observed > 0, observed.shape)
    if (seen & (laws.sum(axis=0) == 0)).any():
        raise UsageError(
            "reports were counted that the channel never sends; check that the channel is that "
            "of the round"
        )
    shares = np.full((*observed.shape[:-1], len(laws)), 1 / len(laws))
    for _ in range(most_steps):
        weights = np.divide(
            observed, users * (shares @ laws), out=np.zeros_like(observed), where=seen
        )
        gains = weights @ laws.T
        if float((users[..., 0] * (gains.max(axis=-1) - 1)).max()) <= tolerance:
            return np.asarray(shares * users)
        shares *= gains
    raise UsageError(
        f"the estimate did not converge to {tolerance:g} nats within {most_steps} steps; allow "
        "more steps, or a larger tolerance"
    )


def _last(holds: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Index of the last True along the last axis; shape (..., 1)."""
    return np.asarray(
        holds.shape[-1] - 1 - np.argmax(np.flip(holds, axis=-1), axis=-1, keepdims=True)
    )
