"""RAPPOR for arrays of users: sampler and decoding (Erlingsson, Pihur, Korolova 2014).

For simulations only: a pseudo-random generator is no source of privacy.
`shuffledp_privacy.local.rappor` has the ε.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.errors import UsageError

Bits: TypeAlias = NDArray[np.bool_]
Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Chances:
    """Parameters of RAPPOR's permanent and instantaneous responses.

    Attributes:
        fake: f in [0, 1], the chance that a bit is replaced permanently by a fair coin.
        when_zero: p in [0, 1), the chance of a reported 1 where the kept bit is 0.
        when_one: q in (p, 1], the same where it is 1. p = 0 and q = 1 is memoised randomised
            response.
    """

    fake: float
    when_zero: float
    when_one: float

    def __post_init__(self) -> None:
        if not (0 <= self.fake <= 1 and 0 <= self.when_zero < self.when_one <= 1):
            raise UsageError(f"need 0 <= f <= 1 and 0 <= p < q <= 1, not {self}")

    @property
    def report_chances(self) -> tuple[float, float]:
        """(p*, q*): the probability of a reported 1 if the true bit is 0, or 1."""
        middle = self.fake / 2 * (self.when_zero + self.when_one)
        return middle + (1 - self.fake) * self.when_zero, middle + (1 - self.fake) * self.when_one


def filters(values: Sequence[str], bits: int, hashes: int, cohorts: int = 1) -> Bits:
    """Bloom filters of strings, by SHA-256 of cohort, hash number and string.

    Args:
        values: the candidate strings.
        bits: k, length of a filter.
        hashes: h, bits that a string sets, fewer where two of them fall together.
        cohorts: m; each has hash functions of its own.

    Returns:
        Shape (cohorts, values, bits).
    """
    bloom = np.zeros((cohorts, len(values), bits), dtype=bool)
    for cohort in range(cohorts):
        for index, value in enumerate(values):
            for number in range(hashes):
                digest = hashlib.sha256(f"{cohort}/{number}/{value}".encode()).digest()
                bloom[cohort, index, int.from_bytes(digest[:8], "big") % bits] = True
    return bloom


@dataclass(slots=True)
class RapporClients:
    """Users who memoise: they draw the permanent response to a value once and keep it.

    Attributes:
        chances: f, p and q.
        filters: filters of the values, shape (cohorts, values, bits).
        cohorts: cohorts of each user, shape (users,).
        generator: the source of randomness.
    """

    chances: Chances
    filters: Bits
    cohorts: Integers
    generator: np.random.Generator
    _responses: dict[int, tuple[Integers, Bits]] = field(default_factory=dict)

    def permanent(self, value: int, users: Integers) -> Bits:
        """The permanent responses of these users to one value, shape (users, bits).

        The same at every call.
        """
        row_of_user, rows = self._responses.get(value) or (
            np.full(self.cohorts.size, -1, dtype=np.int64), np.empty((0, self.filters.shape[2]),
            dtype=bool),
        )  # fmt: skip
        new = users[row_of_user[users] < 0]
        if new.size:
            true = self.filters[self.cohorts[new], value]
            replaced = self.generator.random(true.shape) < self.chances.fake
            coins = self.generator.random(true.shape) < 0.5
            row_of_user[new] = len(rows) + np.arange(new.size)
            rows = np.concatenate((rows, np.where(replaced, coins, true)))
            self._responses[value] = row_of_user, rows
        return np.asarray(rows[row_of_user[users]])

    def reports(self, values: Integers) -> Bits:
        """One day's reports: a fresh instantaneous response per user, shape (users, bits)."""
        answers = np.empty((values.size, self.filters.shape[2]), dtype=bool)
        for value in np.unique(values).tolist():
            users = np.flatnonzero(values == value)
            responses = self.permanent(value, users)
            chance = np.where(responses, self.chances.when_one, self.chances.when_zero)
            answers[users] = self.generator.random(responses.shape) < chance
        return answers


def bit_shares(chances: Chances, reports: Bits, cohorts: Integers, count: int) -> Floats:
    """Unbiased share of the users of each cohort whose true bit is set, shape (count, bits).

    May be below 0.

    Raises:
        UsageError: a cohort without reports.
    """
    sizes = np.bincount(cohorts, minlength=count)
    if not sizes.all():
        raise UsageError(f"cohort {int(np.argmin(sizes))} has no reports; take fewer cohorts")
    low, high = chances.report_chances
    ones = np.stack([reports[cohorts == cohort].mean(axis=0) for cohort in range(count)])
    return np.asarray((ones - low) / (high - low))


def decode(shares: Floats, candidates: Bits, penalty: float = 0.0) -> Floats:
    """Estimate shares of candidate strings from bits: non-negative lasso, then least squares.

    Non-negative least squares run on what the lasso selects.

    Lasso minimises ‖Xs - y‖²/2 + λ Σ s over s >= 0. With y - λ X (XᵀX)⁻¹ 1 in the place of y least
    squares has the same gradient, so that it is the lasso.

    Args:
        shares: unbiased shares of set bits, shape (cohorts, bits).
        candidates: filters, shape (cohorts, strings, bits).
        penalty: λ >= 0; 0 selects by least squares alone.

    Returns:
        Shape (strings,), each at least 0.

    Raises:
        UsageError: the filters do not tell the candidates apart.
    """
    from scipy.optimize import nnls  # here: scipy is slow to import

    design = candidates.transpose(0, 2, 1).reshape(-1, candidates.shape[1]).astype(np.float64)
    target = shares.ravel()
    if np.linalg.matrix_rank(design) < design.shape[1]:
        raise UsageError("the filters do not distinguish the candidates; use more bits or cohorts")
    shift = design @ np.linalg.solve(design.T @ design, np.ones(design.shape[1]))
    selected = np.flatnonzero(nnls(design, target - penalty * shift)[0] > 0)
    decoded = np.zeros(design.shape[1])
    if selected.size:
        decoded[selected] = nnls(design[:, selected], target)[0]
    return decoded


def usual_penalty(chances: Chances, users: int, candidates: Bits) -> float:
    """A λ that usually excludes strings without users.

    √(2 ln S) deviations of the noise that reaches one string's column.
    """
    cohorts, strings, _ = candidates.shape
    low, high = chances.report_chances
    noise = np.sqrt(max(low * (1 - low), high * (1 - high)) * cohorts / users) / (high - low)
    norm = np.sqrt(candidates.sum(axis=(0, 2)).max())
    return float(noise * norm * np.sqrt(2 * np.log(max(strings, 2))))


def log_ratio(chances: Chances, days: int) -> float:
    """Exact pure ε of one bit's `days` reports, nats.

    The larger of the two log ratios, all ones or all zeros.

    Given the memoised bit, the reports are independent, so the likelihood ratio is monotone in the
    number of ones.
    """
    high = 1 - chances.fake / 2
    low = chances.fake / 2
    return max(
        _log_odds(high, low, when_one, when_zero, days) for when_one, when_zero in _ends(chances)
    )


def pair_epsilon(chances: Chances, hashes: int, days: int) -> float:
    """Exact pure ε of `days` RAPPOR reports on one value: h bits change to 0, and h to 1.

    Nats; from one report to the kept.
    """
    high = 1 - chances.fake / 2
    low = chances.fake / 2
    return hashes * sum(
        _log_odds(high, low, when_one, when_zero, days) for when_one, when_zero in _ends(chances)
    )


def _ends(chances: Chances) -> tuple[tuple[float, float], tuple[float, float]]:
    """Probabilities of the most revealing report bit, a 1 and a 0, under either permanent bit."""
    p, q = chances.when_zero, chances.when_one
    return (q, p), (1 - p, 1 - q)


def _log_odds(high: float, low: float, when_one: float, when_zero: float, days: int) -> float:
    """ln((high + low x)/(low + high x)) with x = (when_zero/when_one)^days."""
    rest = (when_zero / when_one) ** days
    return float(np.log((high + low * rest) / (low + high * rest)))
