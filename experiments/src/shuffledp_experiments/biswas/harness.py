"""Shared code of all utility figures: k-RR rounds, the Gaussian mechanism, their estimators.

Utility is compared at equal certified (ε, δ). The papers give both mechanisms the ε of the
randomiser, ε0: for it the shuffled histogram has δ = 0 exactly, which no Gaussian has, and at any δ
> 0 a far smaller ε.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.answering.postprocessing import most_likely_histogram, project
from shuffledp_core.mechanisms import KRRHistogram
from shuffledp_core.sampling.randomisers import randomise
from shuffledp_core.sampling.randomness import RandomIntegers
from shuffledp_experiments.biswas.truth import Group, both_sides
from shuffledp_experiments.entry import Kind, PaperClaim, Row, Verdict
from shuffledp_privacy.bounds import Bounds, Setting, epsilon_bounds
from shuffledp_privacy.central import gaussian_delta, gaussian_sigma

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

DELTA: Final = 1e-6
"""At which guarantees are compared; the papers' own δ at ε = ε0 is 0."""

SENSITIVITY: Final = math.sqrt(2)
"""L2 sensitivity of a histogram: one changed value moves two bins by one each."""

RAW: Final = "shuffle, raw counts"
INV: Final = "shuffle + INV"
PROJECTED: Final = "shuffle + INV, projected"
IBU: Final = "shuffle + IBU"
GAUSSIAN: Final = "Gaussian, equal (ε, δ)"
GAUSSIAN_PROJECTED: Final = "Gaussian, equal (ε, δ), projected"
GAUSSIAN_PAPER: Final = "Gaussian as in the paper, ε = ε0"

ESTIMATORS: Final = (RAW, INV, PROJECTED, IBU, GAUSSIAN, GAUSSIAN_PROJECTED, GAUSSIAN_PAPER)


@cache
def _bounds(spec: KRRHistogram, users: int) -> Bounds:
    return epsilon_bounds(spec, Setting(users, users), DELTA)


@cache
def _sigma(epsilon: float) -> float:
    return gaussian_sigma(SENSITIVITY, epsilon, DELTA)


@dataclass(frozen=True)
class Contest:
    """k-RR with ε0 among n users, compared with Gaussian noise on every bin."""

    group: Group

    @cached_property
    def spec(self) -> KRRHistogram:
        """The local randomiser, k-RR."""
        return self.group.spec()

    @property
    def q(self) -> float:
        """Probability of reporting one given wrong symbol."""
        return float(self.spec.blanket / self.spec.symbols)

    @property
    def slope(self) -> float:
        """Difference p - q of the probabilities of the true and of another symbol."""
        return float(1 - self.spec.blanket)

    @property
    def epsilon(self) -> Bounds:
        """ε of the shuffled histogram at δ = 1e-6, nats."""
        return _bounds(self.spec, self.group.users)

    @property
    def sigma(self) -> float:
        """σ of Gaussian noise with the same certified (ε, δ), in users."""
        return _sigma(self.epsilon.certified)

    @property
    def paper_sigma(self) -> float:
        """σ of the papers' Gaussian noise, with ε = ε0 and δ = 1e-6 instead of their δ = 0."""
        return _sigma(self.group.epsilon0)

    def play(self, truth: Integers, generator: np.random.Generator) -> Mapping[str, Floats]:
        """Estimated histograms in users by publication method; each shape (runs, k), as `truth`.

        A count is the sum of its truthful reports and its blanket reports, so that one draw per
        symbol replaces a loop over users.
        """
        n, k = self.group.users, self.group.symbols
        truthful = generator.binomial(truth, self.slope)
        counts = truthful + generator.multinomial(n - truthful.sum(axis=-1), np.full(k, 1 / k))
        inverted = np.asarray((counts - n * self.q) / self.slope, dtype=np.float64)
        noise = generator.normal(size=truth.shape)
        gaussian = truth + self.sigma * noise
        return {
            RAW: np.asarray(counts, dtype=np.float64),
            INV: inverted,
            PROJECTED: project(inverted, n),
            IBU: most_likely_histogram(counts, self.q, self.slope),
            GAUSSIAN: gaussian,
            GAUSSIAN_PROJECTED: project(gaussian, n),
            GAUSSIAN_PAPER: truth + self.paper_sigma * noise,
        }

    def rows(self, name: str) -> list[Row]:
        """Rows of certified and attained ε of the shuffled histogram, and the papers' Gaussian."""
        sides, settings = self.epsilon, {**self.group.settings(), "delta": DELTA}

        def row(series: str, kind: Kind, value: float) -> Row:
            return Row(
                f"{name}{series}", kind, "n", self.group.users, "ε (nats)", value, settings=settings
            )

        return [
            row("ε of the histogram: certified", Kind.CERTIFIED, sides.certified),
            row("ε of the histogram: attained", Kind.ATTAINED, sides.attained),
            row("ε of the papers' Gaussian", Kind.EXACT, self.group.epsilon0),
        ]

    def unequal(self, statement: str, published: float | None, remark: str) -> PaperClaim:
        """A claim that a comparison is at unequal guarantees, after checking that it is."""
        certified, _ = both_sides(self.group, self.group.epsilon0)
        gaussian = gaussian_delta(self.paper_sigma, SENSITIVITY, self.group.epsilon0)
        if certified > 0 or gaussian <= 0 or not self.epsilon.certified < self.group.epsilon0:
            return PaperClaim(statement, Verdict.SOUND, "the guarantees are equal", published)
        why = (
            f"the histogram's δ({self.group.epsilon0:g}) is exactly 0, as no Gaussian's is; at δ "
            f"= {DELTA:g} its ε is {self.epsilon.certified:.3g}; {remark}"
        )
        return PaperClaim(statement, Verdict.UNEQUAL, why, published)


def total_variation(estimate: Floats, truth: Integers) -> Floats:
    """Total variation: half the absolute errors, as a share of the users; shape (runs,)."""
    return np.asarray(np.abs(estimate - truth).sum(axis=-1) / (2 * truth.sum(axis=-1)))


def measured_row(
    series: str,
    point: tuple[str, float | str],
    y_name: str,
    errors: Floats,
    settings: Mapping[str, object],
) -> Row:
    """One row: the mean error over runs, with the 5th and 95th percentiles."""
    low, high = np.quantile(errors, (0.05, 0.95)).tolist()
    return Row(series, Kind.MEASURED, *point, y_name, float(errors.mean()), low, high, settings)


def contest_rows(
    name: str, contest: Contest, truth: Integers, generator: np.random.Generator
) -> tuple[list[Row], Mapping[str, Floats]]:
    """Rows of every estimator's total variation over the rows of `truth`, and of the guarantee."""
    errors_of = {
        estimator: total_variation(values, truth)
        for estimator, values in contest.play(truth, generator).items()
    }
    settings = {**contest.group.settings(), "delta": DELTA, "runs": len(truth)}
    point = ("n", float(contest.group.users))
    rows = [
        measured_row(f"{name}{estimator}", point, "total variation", errors, settings)
        for estimator, errors in errors_of.items()
    ]
    return rows + contest.rows(name), errors_of


def exact_law(contest: Contest, at_x0: int) -> tuple[Floats, Floats]:
    """Law of the debiased count of a symbol that `at_x0` users hold.

    |error| as a share of the users, and probabilities.

    The count is Bin(n_x0, p) + Bin(n - n_x0, q), convolved over twelve standard deviations of each.
    """
    from scipy.stats import binom  # here: scipy is slow to import

    n, p = contest.group.users, contest.q + contest.slope
    law, first = np.ones(1), 0
    for trials, chance in ((at_x0, p), (n - at_x0, contest.q)):
        reach = 12 * math.sqrt(trials * chance * (1 - chance)) + 20
        low = max(0, math.floor(trials * chance - reach))
        high = min(trials, math.ceil(trials * chance + reach))
        law = np.convolve(law, binom.pmf(np.arange(low, high + 1), trials, chance))
        first += low
    counts = first + np.arange(law.size)
    return np.abs((counts - n * contest.q) / contest.slope - at_x0) / n, law


def summary(errors: Floats, law: Floats) -> tuple[float, float, float]:
    """Mean, and 5th and 95th percentiles of a law."""
    order = np.argsort(errors)
    rising = np.cumsum(law[order]) / law.sum()
    low, high = (float(errors[order][np.searchsorted(rising, level)]) for level in (0.05, 0.95))
    return float(errors @ law / law.sum()), low, high


def exact_sampler_agrees(
    contest: Contest, truth: Integers, generator: np.random.Generator
) -> float:
    """p-value of a chi-square test of the clients' sampler against the law, on one dataset.

    How far the answer lies from the value, modulo k, has one law for all values: p at 0 and q
    elsewhere.
    """
    from scipy.stats import chisquare

    integers, k = RandomIntegers(generator.bytes), contest.group.symbols
    values = np.repeat(np.arange(k), truth)
    answers = np.array([randomise(contest.spec, value, integers) for value in values.tolist()])
    law = np.full(k, contest.q)
    law[0] += contest.slope
    seen = np.bincount((answers - values) % k, minlength=k)
    return float(chisquare(seen, law / law.sum() * values.size).pvalue)


def sampler_rows(contest: Contest, truth: Integers, generator: np.random.Generator) -> list[Row]:
    """The samplers' agreement as a row."""
    chance = exact_sampler_agrees(contest, truth, generator)
    settings = {**contest.group.settings(), "runs": 1}
    users = float(contest.group.users)
    return [
        Row("exact sampler, chi-square", Kind.MEASURED, "n", users, "p", chance, settings=settings)
    ]


def within(published: float, errors: Floats) -> bool:
    """Test whether a published figure lies among the simulated ones.

    Half their range is allowed at either end.
    """
    spare = (errors.max() - errors.min()) / 2
    return bool(errors.min() - spare <= published <= errors.max() + spare)
