"""Certified and attained δ of a k-RR histogram, and Theorem 1 as the papers print it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from shuffledp.commands.questions import krr_histogram
from shuffledp_core.mechanisms import KRRHistogram
from shuffledp_privacy.bounds import Setting, delta_bounds
from shuffledp_privacy.histogram.blanket import law_of
from shuffledp_privacy.histogram.published import corrected_marginal, published_theorem_1

_ROUNDED = 1e-9
"""Far above the rounding of the one-bin sums, which are computed in logarithms."""


@dataclass(frozen=True, slots=True)
class Group:
    """Users of one row of a table: n, k, ε0 in nats, and n_x0 where it is not 0.8 n."""

    users: int
    symbols: int
    epsilon0: float
    others_at_x0: int | None = None

    @property
    def at_x0(self) -> int:
        """n_x0 as used for the tables: 0.8 n, not the 80 in the text."""
        return 4 * self.users // 5 if self.others_at_x0 is None else self.others_at_x0

    def settings(self) -> dict[str, object]:
        """The CSV columns that identify the group of a row."""
        return {"n": self.users, "k": self.symbols, "epsilon0": self.epsilon0, "n_x0": self.at_x0}

    def spec(self) -> KRRHistogram:
        """k-RR with this ε0, or slightly less where the blanket must be rational."""
        return krr_histogram(self.symbols, self.epsilon0)[0]


def printed_delta(group: Group, epsilon: float) -> float:
    """δ(ε) by Theorem 1 as printed. NOT a guarantee (K8).

    Above ε0 the printed loss is nowhere, so δ is 0.
    """
    # In doubles the largest loss may come out a rounding above ε0.
    if epsilon >= group.epsilon0:
        return 0.0
    return published_theorem_1(group.users, group.at_x0, group.symbols, group.epsilon0, epsilon)


@cache
def both_sides(group: Group, epsilon: float) -> tuple[float, float]:
    """Certified and attained δ(ε): above and below the truth for the worst dataset.

    The certified one holds for every dataset; some dataset reaches the attained one.

    The attained side is the larger of K5 and of one bin of the datasets with none, 0.8 n and all
    of the others at x0 (K8, the identity put right): a bin is a post-processing of the histogram,
    and in its far tail logarithms lose nothing.
    """
    spec = group.spec()
    bounds = delta_bounds(spec, Setting(group.users, group.users), epsilon)
    exact_epsilon0 = law_of(spec).epsilon0
    if epsilon >= exact_epsilon0:
        return bounds.certified, bounds.attained
    one_bin = max(
        corrected_marginal(group.users, at_x0, group.symbols, exact_epsilon0, epsilon + _ROUNDED)
        for at_x0 in (0, group.at_x0, group.users - 1)
    )
    return bounds.certified, max(bounds.attained, one_bin * (1 - _ROUNDED))


def agrees(printed: float, digits: float, significant: int) -> bool:
    """True if a number has these significant digits, rounded or truncated."""
    unit = 10.0 ** (_exponent(digits) - significant + 1)
    return -0.501 * unit <= printed - digits <= 1.001 * unit


def _exponent(value: float) -> int:
    return int(f"{value:e}".partition("e")[2])
