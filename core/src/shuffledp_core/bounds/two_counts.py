"""Counts of two symbols among dummies of one node, of which a user sent one by k-RR.

docs/accounting.md, N8. Pure; numpy alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from shuffledp_core.bounds.bounded_noise import bounded_laplace_law, law_of_sum

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MARGIN: Final = 1e-9
"""Relative error allowed for every probability."""

MOST_CELLS: Final = 2**21
"""Most pairs of counts, 16 MiB; more have no bound."""

_LARGEST_EPSILON: Final = 700.0


@dataclass(frozen=True, slots=True)
class TwoCounts:
    """Both counts of a value that changes from a to b, behind one honest node's dummies.

    Attributes:
        rate: ε of a dummy's count, nats.
        mean: μ.
        symbols: k.
        dummies: T.
        blanket: γ of the user's report, in (0, 1).
    """

    rate: Fraction
    mean: int
    symbols: int
    dummies: int
    blanket: Fraction

    def attained_delta(self, epsilon: float) -> float:
        """δ at total ε >= 0; never above the truth. 0 where none is computed."""
        import numpy as np

        if (2 * self.mean + 2) ** 2 > MOST_CELLS or epsilon > _LARGEST_EPSILON:
            return 0.0
        low, high = _laws(self)
        terms = low * (1 - MARGIN) - (math.exp(epsilon) * (1 + MARGIN)) * high.T
        return min(1.0, float(np.maximum(terms, 0.0).sum()) * (1 - MARGIN))


@lru_cache(maxsize=4)
def _laws(counts: TwoCounts) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Bounds of the law of (Z_a, Z_b), the value counted, before the change.

    Lower and upper, each of shape (2 mean + 2, 2 mean + 2). After the change it is the transpose.
    """
    import numpy as np

    mean = counts.mean
    law = bounded_laplace_law(counts.rate, mean)
    without = np.append(law, 0.0)
    holding = np.append(0.0, law)
    other = float(counts.blanket / counts.symbols)
    match = float(1 - counts.blanket) + other
    elsewhere = max(0.0, float(counts.blanket) - 2 * other) if counts.symbols > 2 else 0.0
    among_two = match * np.outer(holding, without) + other * np.outer(without, holding)
    among_others = elsewhere * np.outer(without, without)
    places = np.arange(-mean, mean + 2)
    sums = np.add.outer(places, places)
    spare = counts.dummies - counts.symbols * mean
    others = law_of_sum(counts.rate, mean, counts.symbols - 2)
    # The value itself is not one of the dummies that must have room.
    room = others.at_most(spare - sums + 1)
    room_without = others.at_most(spare - sums)
    total = law_of_sum(counts.rate, mean, counts.symbols)
    likely = float(total.at_most(np.array([spare]))[0])

    def probabilities(error: float, likely: float) -> NDArray[np.float64]:
        return (
            np.asarray(
                among_two * np.clip(room + error, 0.0, 1.0)
                + among_others * np.clip(room_without + error, 0.0, 1.0)
            )
            / likely
        )

    return (
        probabilities(-others.error, min(1.0, likely + total.error)),
        probabilities(others.error, likely - total.error),
    )
