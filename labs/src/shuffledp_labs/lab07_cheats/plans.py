"""Plans of step E: what the accountant certifies for fewer and fewer honest reports."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Final

from shuffledp_core.mechanisms import KRRHistogram
from shuffledp_labs.instance import Draws
from shuffledp_privacy.bounds import Setting, epsilon_bounds

DELTA: Final = 1e-6


@dataclass(frozen=True)
class PlanAccountant:
    """The product's accountant for one mechanism, asked for numbers of honest reports."""

    spec: KRRHistogram
    users: int

    @classmethod
    def draw(cls, draws: Draws) -> PlanAccountant:
        """A histogram of some hundred users."""
        spec = KRRHistogram(symbols=3 + draws.below(3), blanket=Fraction(40 + draws.below(30), 100))
        return cls(spec, 200 + draws.below(200))

    def epsilon(self, honest: int) -> float:
        """ε that is certified for so many honest reports, nats; an upper bound."""
        return _certified_epsilon(self.spec, self.users, honest)

    def between(self, draws: Draws) -> float:
        """An ε to promise, well between what all and what a fifth of the reports give."""
        low = self.epsilon(self.users)
        high = self.epsilon(max(1, self.users // 5))
        return low + (high - low) * (100 + draws.below(800)) / 1000


@cache
def _certified_epsilon(spec: KRRHistogram, users: int, honest: int) -> float:
    certified: float = epsilon_bounds(spec, Setting(users, honest), DELTA).certified
    return certified
