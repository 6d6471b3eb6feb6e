"""Bloom filters of the symbols of a histogram, and their decoding by least squares. Pure.

Erlingsson, Pihur and Korolova 2014; docs/accounting.md, K17. A report is one cohort and the bits of
a filter, each flipped with the same probability. The estimate of a count is a sum over reports of a
score whose mean is 1 for users who hold the symbol and 0 for all others, whatever they hold.
"""

from __future__ import annotations

import hashlib
import math
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from shuffledp_core.answering.estimates import COVERAGE, Counts, Estimate
from shuffledp_core.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LABEL: Final = "shuffledp/v1/bloom"

WORST_CONDITION: Final = 1e6
"""Largest ratio of eigenvalues with which filters are decoded: six digits are lost at most."""

ROUNDING: Final = 1e-9
"""Relative outward margin of variances and bounds that least squares give."""


class FilterShape(NamedTuple):
    """The filters of all symbols in all cohorts.

    Attributes:
        symbols: k, the candidates.
        bits: b, length of a filter.
        hashes: h, bits that a symbol sets; fewer where two of them are the same.
        cohorts: m, each of which has hash functions of its own.
    """

    symbols: int
    bits: int
    hashes: int
    cohorts: int

    def mask(self, cohort: int, symbol: int) -> int:
        """The filter of a symbol as a number, bit s for position s.

        Position j is the first 8 bytes, big endian, of the SHA-256 of "label/cohort/j/symbol" in
        decimal, modulo b.
        """
        mask = 0
        for number in range(self.hashes):
            name = f"{LABEL}/{cohort}/{number}/{symbol}"
            digest = hashlib.sha256(name.encode()).digest()
            mask |= 1 << int.from_bytes(digest[:8], "big") % self.bits
        return mask

    @property
    def masks(self) -> NDArray[np.int64]:
        """`mask` of every cohort and symbol, shape (cohorts, symbols)."""
        return _masks(self)


@lru_cache(maxsize=4)
def _masks(shape: FilterShape) -> NDArray[np.int64]:
    import numpy as np

    masks = [
        [shape.mask(cohort, symbol) for symbol in range(shape.symbols)]
        for cohort in range(shape.cohorts)
    ]
    return np.array(masks, dtype=np.int64)


class FilterFit(NamedTuple):
    """Least squares on unbiased shares of set bits, whatever the probability of a flip.

    Attributes:
        weights: weight of each bit's share in the share of each symbol, times the number of
            cohorts; shape (symbols, cohorts, bits). Summed over a filter and averaged over the
            cohorts they are 1 for the symbol's own filter and 0 for all others.
        positive: sum of the positive weights of a cohort, shape (symbols, cohorts).
        negative: sum of the negative ones, without their sign.
        variances: variance, over the cohorts, of the summed weights of the filter of each symbol
            (column); shape (symbols, symbols).
    """

    weights: NDArray[np.float64]
    positive: NDArray[np.float64]
    negative: NDArray[np.float64]
    variances: NDArray[np.float64]


@lru_cache(maxsize=2)
def _fit(shape: FilterShape) -> FilterFit:
    """The weights of these filters.

    Raises:
        UsageError: the filters do not distinguish the symbols.
    """
    import numpy as np

    positions = np.arange(shape.bits)[:, np.newaxis]
    design = (shape.masks[:, np.newaxis, :] >> positions & 1).astype(np.float64)
    flat = design.reshape(-1, shape.symbols)
    products = flat.T @ flat
    eigenvalues = np.linalg.eigvalsh(products)
    if not eigenvalues[0] * WORST_CONDITION > eigenvalues[-1]:
        raise UsageError(
            f"{shape.cohorts} cohorts of {shape.bits} bits do not distinguish {shape.symbols} "
            "symbols; take more cohorts or bits"
        )
    fitted = np.asarray(np.linalg.solve(products, flat.T), dtype=np.float64)
    weights = (shape.cohorts * fitted).reshape(shape.symbols, shape.cohorts, shape.bits)
    squares = np.zeros((shape.symbols, shape.symbols))
    summed = np.empty_like(squares)
    for cohort in range(shape.cohorts):
        np.matmul(weights[:, cohort], design[cohort], out=summed)
        squares += np.square(summed, out=summed)
    return FilterFit(
        weights,
        np.maximum(weights, 0.0).sum(axis=2),
        np.maximum(-weights, 0.0).sum(axis=2),
        np.maximum(squares / shape.cohorts - np.eye(shape.symbols), 0.0),
    )


class FilterDecoder:
    """The scores of all reports for each symbol, where bits are flipped with a probability.

    Args:
        shape: the filters.
        flip: r, below 1/2.

    Raises:
        UsageError: the filters do not distinguish the symbols.
    """

    def __init__(self, shape: FilterShape, flip: Fraction) -> None:
        import numpy as np

        self._weights, positive, negative, by_cohort = _fit(shape)
        self._flip = float(flip)
        self._slope = 1.0 - 2.0 * self._flip
        # A bit less r is 1 - r or -r.
        largest = positive * (1.0 - self._flip) + negative * self._flip
        smallest = positive * self._flip + negative * (1.0 - self._flip)
        self.highest: NDArray[np.float64] = largest.max(axis=1) / self._slope
        """Largest score of any report, shape (symbols,)."""
        self.lowest: NDArray[np.float64] = -smallest.max(axis=1) / self._slope
        """Smallest score of any report, shape (symbols,)."""
        of_flip = self._flip * (1.0 - self._flip) / self._slope**2
        norms = np.einsum("tcb,tcb->t", self._weights, self._weights) / shape.cohorts
        self.variances: NDArray[np.float64] = by_cohort + of_flip * norms[:, np.newaxis]
        """Variance of the score (row) of a user who holds a symbol (column)."""

    @property
    def worst_variances(self) -> NDArray[np.float64]:
        """Largest variance of each symbol's score over all that users may hold; rounded up."""
        import numpy as np

        return np.asarray(self.variances.max(axis=1) * (1 + ROUNDING))

    def decode(self, counts: Counts, users: Fraction) -> Estimate:
        """Estimate the histogram, without bias for any dataset.

        The standard error is that of the estimated histogram. The intervals hold for every
        dataset, by Bernstein's inequality with the worst variance.

        Args:
            counts: counts of each cohort, its reports and then how many have each bit.
            users: n, rounded down to whole reports.
        """
        import numpy as np

        n = int(users)
        board = np.asarray(counts, dtype=np.float64).reshape(self._weights.shape[1], -1)
        centred = (board[:, 1:] - self._flip * board[:, :1]) / self._slope
        values = np.tensordot(self._weights, centred, axes=2)
        likely = np.clip(values, 0.0, None)
        likely *= n / max(float(likely.sum()), 1.0)
        below = self.radii(n, self.highest)
        above = self.radii(n, 1.0 - self.lowest)
        return Estimate(
            quantity="histogram",
            values=tuple(values.tolist()),
            standard_errors=tuple(np.sqrt(self.variances @ likely).tolist()),
            lows=tuple(np.clip(values - below, 0.0, n).tolist()),
            highs=tuple(np.clip(values + above, 0.0, n).tolist()),
        )

    def extreme_reports(self, symbol: int) -> tuple[int, int]:
        """The reports with the largest and the smallest score of a symbol."""
        bits = self._weights.shape[2]
        reports = []
        for sign in (1.0, -1.0):
            signed = sign * self._weights[symbol]
            gains = (signed.clip(0.0) - self._flip * signed).sum(axis=1)
            cohort = int(gains.argmax())
            mask = sum(1 << bit for bit in range(bits) if signed[cohort, bit] > 0)
            reports.append(cohort << bits | mask)
        return reports[0], reports[1]

    def radii(self, users: int, most: NDArray[np.float64]) -> NDArray[np.float64]:
        """Least t with exp(-t² / (2 n V + 2 B t / 3)) at most 2.5%, rounded up.

        `most` is B, the largest deviation of a score from its mean on this side.
        """
        import numpy as np

        log = math.log(2 / (1 - COVERAGE))
        linear = most * (log / 3)
        radii = linear + np.sqrt(linear**2 + 2 * log * users * self.worst_variances)
        return np.asarray(radii * (1 + ROUNDING))


@lru_cache(maxsize=4)
def decoder_of(shape: FilterShape, flip: Fraction) -> FilterDecoder:
    """The decoder of these filters; `FilterDecoder` says what it raises."""
    return FilterDecoder(shape, flip)
