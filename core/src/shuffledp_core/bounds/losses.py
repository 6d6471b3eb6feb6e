"""Privacy losses that take few values: δ is then a short sum, bounded from above and below.

For laws P and Q the loss of an outcome is ln P/Q, and δ(ε) = Σ P (1 - e^(ε - loss))_+ over all
outcomes; an outcome that Q never has counts with its whole probability. Pure; uses only numpy.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MARGIN: Final = 1e-10
"""Relative error allowed for every probability and loss; the laws here err by less than 1e-11."""

MOST_LOSSES: Final = 4096
"""Most losses that are kept; half of them, the largest, exactly."""


@dataclass(frozen=True, slots=True, eq=False)
class PrivacyLosses:
    """Bounds of the privacy losses of a pair (P, Q), and of their probabilities under P.

    Attributes:
        least: lower bounds of the losses, nats, shape (losses,), falling.
        most: upper bounds of them, same shape and order.
        low: lower bounds of their probabilities, same shape.
        high: upper bounds of them, same shape.
        infinite_low: lower bound of the probability of outcomes that Q never has.
        infinite_high: upper bound of the same.
    """

    least: NDArray[np.float64]
    most: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    infinite_low: float
    infinite_high: float

    def certified_delta(self, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        """Upper bounds of δ at each total ε, of any sign; same shape."""
        import numpy as np

        sums = []
        for epsilon in epsilons.flat:
            above = self.count_above(float(epsilon))
            sums.append(_excess(self.most[:above], self.high[:above], float(epsilon)))
        finite = np.array(sums).reshape(epsilons.shape) * (1 + MARGIN)
        return np.minimum(1.0, finite + self.infinite_high)

    def count_above(self, epsilon: float) -> int:
        """Number of losses with an upper bound above ε; only these add to the certified δ."""
        return bisect_left(self.most, -epsilon, key=lambda loss: -float(loss))

    def attained_delta(self, epsilon: float) -> float:
        """Lower bound of δ at a total ε."""
        finite = _excess(self.least, self.low, epsilon)
        return min(1.0, finite * (1 - MARGIN) + self.infinite_low)

    def combine(self, other: PrivacyLosses) -> PrivacyLosses:
        """Losses of two independent outcomes together: the sums of all pairs of losses."""
        import numpy as np

        most = np.add.outer(self.most, other.most).ravel()
        order = np.argsort(-most, kind="stable")
        return _shorten(
            PrivacyLosses(
                np.add.outer(self.least, other.least).ravel()[order],
                most[order],
                np.outer(self.low, other.low).ravel()[order],
                np.outer(self.high, other.high).ravel()[order],
                _either(self.infinite_low, other.infinite_low) * (1 - MARGIN),
                _either(self.infinite_high, other.infinite_high) * (1 + MARGIN),
            )
        )


def finite_losses(
    losses: NDArray[np.float64], masses: NDArray[np.float64], infinite: float
) -> PrivacyLosses:
    """Losses and their probabilities, widened by a relative `MARGIN` for rounding.

    Args:
        losses: shape (losses,), falling.
        masses: P of each, same shape.
        infinite: P of the outcomes that Q never has.
    """
    import numpy as np

    slack = 1e-14 * np.abs(losses)
    return PrivacyLosses(
        losses - slack,
        losses + slack,
        masses * (1 - MARGIN),
        masses * (1 + MARGIN),
        infinite * (1 - MARGIN),
        infinite * (1 + MARGIN),
    )


def _either(first: float, second: float) -> float:
    """Probability that one of two independent events happens; small ones keep their digits."""
    return first + second * (1 - first)


def _shorten(losses: PrivacyLosses) -> PrivacyLosses:
    """Keep at most `MOST_LOSSES`, rounded outwards.

    Neighbours among the small ones count as the largest of them where δ is bounded from above, and
    as the smallest from below.
    """
    import numpy as np

    size = losses.most.size
    if size <= MOST_LOSSES:
        return losses
    half = MOST_LOSSES // 2
    starts = np.concatenate(
        [np.arange(half), np.linspace(half, size, half, endpoint=False).astype(int)]
    )
    return PrivacyLosses(
        np.minimum.reduceat(losses.least, starts),
        np.maximum.reduceat(losses.most, starts),
        np.add.reduceat(losses.low, starts) * (1 - MARGIN),
        np.add.reduceat(losses.high, starts) * (1 + MARGIN),
        losses.infinite_low,
        losses.infinite_high,
    )


def _excess(losses: NDArray[np.float64], masses: NDArray[np.float64], epsilon: float) -> float:
    """Σ P (1 - e^(ε - loss))_+."""
    import numpy as np

    return float(masses @ -np.expm1(np.minimum(epsilon - losses, 0.0)))
