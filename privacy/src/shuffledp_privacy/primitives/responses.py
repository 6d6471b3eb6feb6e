"""Code shared by mechanisms that may apply k-RR before dummies hide the reports.

Pure; docs/accounting.md, K16 and N8.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.errors import CannotCertify
from shuffledp_privacy.bounds import CorruptedBounds
from shuffledp_privacy.calibration.families import PRECISION_BITS
from shuffledp_privacy.numerics.rounding import up
from shuffledp_privacy.rounds.subsampling import Curve, reflect_curve

_KEPT: Final = "K7: a report alone is k-RR, whose likelihood ratio is at most (1-γ+γ/k)/(γ/k)"


class RespondingSpec(Protocol):
    """A histogram whose reports are k-RR of the values."""

    @property
    def symbols(self) -> int:
        """Number of symbols, k."""

    @property
    def blanket(self) -> Fraction:
        """Blanket γ of k-RR; 0 if the true values are sent."""


def blanket_for(epsilon: float | None, symbols: int) -> Fraction:
    """The least γ, with few bits, at which ε_L is at most `epsilon`; 0 without a limit.

    Raises:
        CannotCertify: the limit is 0, or so small that no report would depend on its value.
    """
    if epsilon is None:
        return Fraction(0)
    ratio = math.expm1(min(epsilon * (1 - 1e-9), 600.0)) / symbols
    share = 1 / (1 + ratio)
    bits = PRECISION_BITS + max(0, -math.frexp(share)[1] + 1)
    blanket = Fraction(math.ceil(share * 2.0**bits), 2**bits)
    if blanket >= 1 or bits > 62:
        raise CannotCertify(
            f"a local epsilon of {epsilon:g} is too small or too large for randomised response"
        )
    return blanket


def response_bounds(spec: RespondingSpec) -> CorruptedBounds:
    """ε_L of a report of k-RR, from p and q."""
    uniform = spec.blanket / spec.symbols
    # From the ratio less 1, divided as rationals: next to pure noise no digits are lost.
    excess = (1 - spec.blanket) / uniform
    return CorruptedBounds(up(math.log1p(float(excess))), 0.0, (_KEPT,))


def response_error(spec: RespondingSpec, users: int) -> float:
    """Standard deviation of k-RR's noise in one count of the estimate, at the worst dataset."""
    uniform = float(spec.blanket / spec.symbols)
    match = 1 - float(spec.blanket) + uniform
    variance = users * max(match * (1 - match), uniform * (1 - uniform))
    return math.sqrt(variance) / float(1 - spec.blanket)


def response_likelihood(spec: RespondingSpec, answers: NDArray[np.int64]) -> NDArray[np.float64]:
    """ln P(answer | x), shape (answers, k)."""
    is_answer = answers[:, np.newaxis] == np.arange(spec.symbols)
    uniform = float(spec.blanket / spec.symbols)
    match = math.log(1 - float(spec.blanket) + uniform)
    return np.where(is_answer, match, math.log(uniform) if uniform else -math.inf)


def symmetric_curve(falling: Curve) -> Curve:
    """Curve at any ε, if `falling` (ε >= 0) holds for a change in both orders."""

    def certified_deltas(epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        flat = np.asarray(epsilons, dtype=np.float64)
        sizes, index = np.unique(np.abs(flat), return_inverse=True)
        deltas = falling(sizes)
        index = index.reshape(flat.shape)
        return np.asarray(np.where(flat >= 0.0, deltas[index], reflect_curve(deltas, sizes)[index]))

    return certified_deltas
