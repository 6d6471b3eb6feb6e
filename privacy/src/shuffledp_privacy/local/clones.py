"""Bounds for any ε0-LDP randomiser, even adaptive: at most the blanket bound of 2-RR.

With C ~ Bin(h-1, 2/(1 + e^ε0)), A ~ Bin(C, 1/2), D ~ Bern(e^ε0/(1 + e^ε0)) the pair P = (A + D, C -
A + 1 - D), Q the same with D flipped, dominates the shuffled reports on every two neighbours
(docs/accounting.md, K10; Feldman, McMillan and Talwar 2021 prove it with e^-ε0 clones in place of
2/(1 + e^ε0)). It is the linear form of `trinomial` with cells of probability 1/(1 + e^ε0) and no
other symbols.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.errors import UsageError
from shuffledp_privacy.analyses import Analysis, analyses
from shuffledp_privacy.bounds import (
    Bounds,
    CorruptedBounds,
    Setting,
    check_delta,
)
from shuffledp_privacy.histogram.binary import one_symbol, one_symbol_window
from shuffledp_privacy.histogram.blanket import Law, tail_of
from shuffledp_privacy.local.flags import Pair
from shuffledp_privacy.numerics import rounding
from shuffledp_privacy.primitives.inversion import attained_epsilon, certified_epsilon
from shuffledp_privacy.primitives.tails import Floats, inward, outward
from shuffledp_privacy.primitives.trinomial import trinomial_table
from shuffledp_privacy.rounds.subsampling import reflect_curve

WORK = 500_000
"""Number of probabilities computed for one table, about 20 ms."""


@dataclass(frozen=True, slots=True)
class LocalRandomiser:
    """An unknown ε0-LDP randomiser with one message, possibly chosen adaptively by earlier outputs.

    Attributes:
        epsilon0: local parameter, 1e-3 <= ε0 <= 20, nats.
    """

    epsilon0: float

    def __post_init__(self) -> None:
        if not 1e-3 <= self.epsilon0 <= 20.0:
            raise UsageError(f"epsilon0 must be from 0.001 to 20, not {self.epsilon0}")


class Clones:
    """Tables of one round for the clones' pair, valid for every ε."""

    def __init__(self, epsilon0: float, honest: int) -> None:
        self.epsilon0 = epsilon0
        self.likely = 1 / (1 + math.exp(-epsilon0))
        # Rounded down: fewer clones hide less.
        cell = rounding.down(1 / (1 + math.exp(epsilon0)))
        self.scale = honest * cell
        ratio = cell / (1 - cell)
        rest = (1 - 2 * cell) / (1 - cell)
        self.table = trinomial_table(honest, cell, ratio, rest, tail_of(honest), WORK)

    def upper(self, epsilons: Floats) -> Floats:
        """Upper bound of δ at each ε >= 0, at least the clones' pair up to the outward margin."""
        # D̄ - e^ε (1 - D̄) and D̄ e^ε - (1 - D̄), each to 2^-50 of itself.
        alpha = np.maximum(-self.likely * np.expm1(epsilons - self.epsilon0), 0.0)
        # 2 D̄ - 1 = tanh(ε0/2), which for small ε0 is not a difference of nearly equal numbers.
        beta = self.likely * np.expm1(epsilons) + math.tanh(self.epsilon0 / 2)
        size = self.table.a.size
        chunk = max(1, 1_000_000 // size)
        result = np.empty(epsilons.size)
        for start in range(0, epsilons.size, chunk):
            part = slice(start, start + chunk)
            result[part] = self.table.upper(alpha[part], beta[part], np.zeros(alpha[part].size))
        return result / self.scale + self.table.outer

    def certified_delta(self, epsilon: float) -> float:
        """Certified δ at ε >= 0, with the outward margin."""
        if epsilon >= self.epsilon0:
            return 0.0
        return min(1.0, outward(float(self.upper(np.array([epsilon]))[0])))


@lru_cache(maxsize=4)
def _clones(epsilon0: float, honest: int) -> Clones:
    return Clones(epsilon0, honest)


def _binary_law(epsilon0: float) -> Law:
    """Law of 2-RR with (just below) ε0, a randomiser that the guarantee must cover."""
    q = rounding.up(1 / (1 + math.exp(epsilon0)))
    p = 1 - q
    return Law(2, p, q, p - q, (epsilon0, 0.0), epsilon0, q / p, (p - q) / p, 0.0, 0.0)


def _third_symbol(epsilon0: float) -> Pair:
    """A change under 3-RR with (just below) ε0, if all others hold the third symbol."""
    q = rounding.up(1 / (2 + math.exp(epsilon0)))
    p = 1 - 2 * q
    return Pair(
        np.array([q, q, p]),
        np.array([p / q, 1.0, q / p]),
        np.array([1.0, p / q, q / p]),
        np.empty((2, 0)),
        epsilon0,
    )


def _attained_pair(spec: LocalRandomiser, honest: int, epsilon: float) -> float:
    law = _binary_law(spec.epsilon0)
    two = inward(one_symbol(law, honest, one_symbol_window(law, honest), epsilon))
    # From p = 2q on three symbols are worse than two, while the others send what is not theirs
    # often enough (K10).
    if spec.epsilon0 < math.log(2) or honest < OFTEN * math.exp(spec.epsilon0):
        return two
    return max(two, _third_symbol(spec.epsilon0).lower(honest, epsilon))


OFTEN = 10
"""Reports of the others that show a given symbol by chance, from which 3-RR is tried as well."""

_BASIS = (
    "K10: no randomiser of this local epsilon costs more than the blanket of 2-RR; attained by "
    "2-RR or 3-RR (K5)"
)


def erlingsson_2019(epsilon0: float, users: int, delta: float) -> float | None:
    """Published ε = 12 ε0 √(ln(1/δ)/n) of Erlingsson et al. 2019, Theorem 7.

    The result is never below the truth where valid.

    None outside its range: n >= 1000, 0 < ε0 < 1/2, 0 < δ < 1/100.
    """
    check_delta(delta)
    if users < 1000 or not 0.0 < epsilon0 < 0.5 or delta >= 0.01:
        return None
    return 12 * epsilon0 * math.sqrt(-math.log(delta) / users)


def feldman_2021(epsilon0: float, users: int, delta: float) -> float | None:
    """Published closed form of Feldman, McMillan and Talwar 2021, Theorem 3.1.

    The result is never below the truth where valid.

    ε = ln(1 + (e^ε0 - 1)/(e^ε0 + 1) (8 √(e^ε0 ln(4/δ)/n) + 8 e^ε0/n)) for ε0 <= ln(n/(16 ln(2/δ))),
    else None.
    """
    check_delta(delta)
    growth = math.exp(epsilon0)
    if growth > users / (16 * math.log(2 / delta)):
        return None
    inside = 8 * math.sqrt(growth * math.log(4 / delta) / users) + 8 * growth / users
    return math.log1p(math.tanh(epsilon0 / 2) * inside)


@analyses(LocalRandomiser)
@dataclass(frozen=True, slots=True)
class LocalRandomiserAnalysis(Analysis):
    """An unknown ε0-LDP randomiser, shuffled (K10)."""

    spec: LocalRandomiser

    def delta(self, setting: Setting, epsilon: float) -> Bounds:
        """Certified and attained δ of one round."""
        if not epsilon >= 0.0:
            raise UsageError(f"epsilon must be at least 0, not {epsilon}")
        certified = _clones(self.spec.epsilon0, setting.honest).certified_delta(epsilon)
        attained = (
            0.0
            if epsilon >= self.spec.epsilon0
            else _attained_pair(self.spec, setting.honest, epsilon)
        )
        return Bounds(certified, attained, None, (_BASIS,))

    def epsilon(self, setting: Setting, delta: float) -> Bounds:
        """Certified and attained ε of one round."""
        clones = _clones(self.spec.epsilon0, setting.honest)
        certified = certified_epsilon(clones.certified_delta, delta, self.spec.epsilon0)
        attained = attained_epsilon(
            lambda epsilon: _attained_pair(self.spec, setting.honest, epsilon),
            delta,
            self.spec.epsilon0,
        )
        published = feldman_2021(self.spec.epsilon0, setting.honest, delta)
        formula = (
            "the closed form of Feldman, McMillan and Talwar 2021, Theorem 3.1, a true but loose "
            "bound"
        )
        return Bounds(
            certified, attained, published, (_BASIS,), "" if published is None else formula
        )

    def corrupted_bounds(self, setting: Setting, delta: float) -> CorruptedBounds:
        """ε_L of one report, which is ε0."""
        del setting, delta  # per unit of distance an unknown randomiser is worst at distance 1 (K7)
        return CorruptedBounds(self.spec.epsilon0, 0.0, ("ε0-LDP by assumption",))

    def curve(
        self, setting: Setting, distance: int, epsilons: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Curve of the clones' pair, which is symmetric, so that δ(-ε) = 1 - e^-ε + e^-ε δ(ε)."""
        del distance
        size, inverse = np.unique(
            np.abs(np.asarray(epsilons, dtype=np.float64)), return_inverse=True
        )
        clones = _clones(self.spec.epsilon0, setting.honest)
        rising = np.array(
            [outward(value) for value in clones.upper(np.minimum(size, self.spec.epsilon0))]
        )
        rising = np.where(size >= self.spec.epsilon0, 0.0, np.minimum(rising, 1.0))
        mirrored = reflect_curve(rising, size)
        inverse = inverse.reshape(np.shape(epsilons))
        return np.asarray(np.where(epsilons >= 0.0, rising[inverse], mirrored[inverse]))
