"""Simulation of a round: reports with the clients' laws, and the analyst's own estimator.

No network, no nodes and no keys: after an honest shuffler only the counts of the symbols remain, so
only these are simulated. `shuffledp demo` runs the same round with real processes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from shuffledp.notebook import check_installed, data_frame, html_table
from shuffledp.plans import Plan
from shuffledp_core.answering.estimates import Estimate
from shuffledp_core.answering.estimation import Estimator, check_informative, estimate
from shuffledp_core.answering.quantiles import BinDistribution, distribution_of
from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import MECHANISMS, Mechanism
from shuffledp_core.runtime.arguments import whole_number
from shuffledp_core.sampling.arrays import RandomArrays
from shuffledp_core.sampling.randomisers import randomise_in_bulk
from shuffledp_core.sampling.randomness import RandomIntegers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

BLOCK: Final = 2**18
"""Users whose reports are held at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """The debiased answer of a simulated round, with the true answer.

    A sum has a total and its mean, both floats. A histogram has a total for each symbol, shape
    (symbols,), the estimated number of users who hold it; its mean is each symbol's share of the
    users. Inverted ones are unbiased and may therefore lie outside of what is possible, and outside
    of their intervals, which do not. Intervals cover the truth with probability 0.95 or more each,
    over the randomness of the clients; they and the standard errors are always those of the
    inverted estimate.

    Attributes:
        spec: the mechanism that every user ran.
        users: n, reports in the round.
        estimate: the analyst's estimate as a signed result holds it.
        true_total: the sum of the values, or how many users hold each symbol, shape (symbols,).
        seed: seed of the repeatable simulation; None if it used the operating system's randomness.
        estimator: how the counts became the estimate.
        nodes: nodes that added dummies; 0 where the mechanism has none.
    """

    spec: Mechanism
    users: int
    estimate: Estimate
    true_total: float | Floats
    seed: int | None = None
    estimator: Estimator = Estimator.INVERTED
    nodes: int = 0

    @property
    def distribution(self) -> BinDistribution | None:
        """Quantiles and ranges of bins, with intervals.

        None if the mechanism states no error for them, or if the estimator is not the inverted one.
        """
        if self.estimator is not Estimator.INVERTED:
            return None
        return distribution_of(self.spec, self.estimate, self.users, self.nodes)

    @property
    def quantity(self) -> str:
        """Kind of the answer, "sum" or "histogram"."""
        return self.estimate.quantity

    @property
    def total(self) -> float | Floats:
        """The estimated sum, or number of users for each symbol, shape (symbols,)."""
        return self._in_shape(np.array(self.estimate.values))

    @property
    def total_standard_error(self) -> float | Floats:
        """Standard error of `total`, of the same shape."""
        return self._in_shape(np.array(self.estimate.standard_errors))

    @property
    def total_interval(self) -> Floats:
        """The 95% interval of `total`: shape (2,), low and high, or (symbols, 2)."""
        ends = np.column_stack((self.estimate.lows, self.estimate.highs))
        return ends[0] if self.quantity == "sum" else ends

    @property
    def mean(self) -> float | Floats:
        """The estimated mean of the values, or each symbol's share of users (symbols,)."""
        return self.total / self.users

    @property
    def mean_standard_error(self) -> float | Floats:
        """Standard error of `mean`, of the same shape."""
        return self.total_standard_error / self.users

    @property
    def mean_interval(self) -> Floats:
        """The 95% interval of `mean`: shape (2,), low and high, or (symbols, 2)."""
        return self.total_interval / self.users

    @property
    def standard_error(self) -> float | Floats:
        """`mean_standard_error`, by its former name."""
        return self.mean_standard_error

    @property
    def interval(self) -> Floats:
        """`mean_interval`, by its former name."""
        return self.mean_interval

    @property
    def truth(self) -> float | Floats:
        """The true value of `mean`: the mean, or each symbol's share, shape (symbols,)."""
        return self.true_total / self.users

    def to_dict(self) -> dict[str, Any]:
        """The JSON object of `shuffledp simulate --format json`, with keys as `demo` has them.

        Arrays for a histogram.
        """
        distribution = self.distribution
        quantiles = [] if distribution is None else distribution.quantiles()
        return {
            "mechanism": self.spec.kind,
            "quantity": self.quantity,
            "users": self.users,
            "estimator": self.estimator.value,
            "estimate": np.asarray(self.total).tolist(),
            "standard_error": np.asarray(self.total_standard_error).tolist(),
            "interval_95": self.total_interval.T.tolist(),
            "mean": np.asarray(self.mean).tolist(),
            "true_value": np.asarray(self.true_total).tolist(),
            "seed": self.seed,
            **({"quantiles": [quantile._asdict() for quantile in quantiles]} if quantiles else {}),
        }

    def to_pandas(self) -> Any:
        """One row for a sum, or one for each symbol of a histogram.

        Raises `NotInstalledError` without pandas.
        """
        return data_frame(
            {
                "total": np.atleast_1d(self.total),
                "standard_error": np.atleast_1d(self.total_standard_error),
                "low": np.array(self.estimate.lows),
                "high": np.array(self.estimate.highs),
                "truth": np.atleast_1d(self.true_total),
            }
        )

    def plot(self, axes: Axes | None = None) -> Axes:
        """Plot the estimate with its interval and the truth; on new axes if none are given.

        Raises:
            NotInstalledError: without matplotlib, the extra `plot`.
        """
        check_installed("matplotlib", "shuffledp[plot]", "a plot")
        from shuffledp.drawing import draw_answer, new_axes

        axes = new_axes() if axes is None else axes
        draw_answer(axes, self)
        return axes

    def rows(self) -> list[tuple[str, str, str]]:
        """The totals in words: name, estimate, remark."""
        names = (
            [self.quantity]
            if self.quantity == "sum"
            else [str(symbol) for symbol in range(len(self.estimate.values))]
        )
        totals = zip(
            names,
            self.estimate.values,
            self.estimate.standard_errors,
            np.atleast_2d(self.total_interval).tolist(),
            np.atleast_1d(self.true_total).tolist(),
            strict=True,
        )
        return [
            (
                name,
                f"{value:,.1f} ± {error:,.1f}",
                f"95% in {low:,.1f} .. {high:,.1f}; truth {truth:,.0f}",
            )
            for name, value, error, (low, high), truth in totals
        ]

    def __str__(self) -> str:
        return "\n".join(f"{name}: {value} ({remark})" for name, value, remark in self.rows())

    def _in_shape(self, values: Floats) -> float | Floats:
        return float(values[0]) if self.quantity == "sum" else values

    def _repr_html_(self) -> str:
        return html_table(f"{self.spec.kind}, {self.users:,} users", self.rows())


def simulate(
    plan: Plan | Mechanism,
    values: ArrayLike,
    seed: int | None = None,
    estimator: str = Estimator.INVERTED,
    *,
    allow_fewer: bool = False,
    nodes: int = 1,
) -> Answer:
    """Simulate the answer of one round in which every user and node follows the protocol.

    A plan certifies its ε for a number of honest users. All simulated users are honest, so at least
    as many are needed: fewer have a weaker guarantee.

    Args:
        plan: a plan, or a mechanism's parameters.
        values: shape (users,), each user's own whole number in {0..domain-1}.
        seed: None for the operating system's randomness; a whole number from 0 up for a
            pseudo-random generator, so that the simulation can be repeated. Reports have exactly
            the clients' law of integers in both cases.
        estimator: "inverted", unbiased; for a histogram also "projected", the nearest one that is
            possible, or "ibu", the most likely one. See
            `shuffledp_core.answering.estimation.Estimator`.

        allow_fewer: whether to simulate a plan with fewer users than its guarantee needs.
        nodes: how many nodes add dummies, where the mechanism's noise comes from nodes. Always
            drawn on the operating system's randomness, whatever the seed.

    Raises:
        UsageError: no values, fewer than the plan's honest users, a value outside the domain,
            parameters that are pure noise, a mechanism that clients do not run, or one that has no
            such estimator.

    >>> from fractions import Fraction
    >>> import shuffledp as sdp
    >>> spec = sdp.RRShuffle(max_value=4, randomise=Fraction(1, 10))
    >>> answer = sdp.simulate(spec, [0, 1, 2, 3, 4] * 200, seed=1)
    >>> answer.truth, bool(answer.mean_interval[0] <= answer.truth <= answer.mean_interval[1])
    (2.0, True)
    >>> krr = sdp.KRRHistogram(symbols=3, blanket=Fraction(1, 2))
    >>> histogram = sdp.simulate(krr, [0, 1, 1, 2] * 100)
    >>> histogram.total.shape, histogram.mean_interval.shape, histogram.truth.tolist()
    ((3,), (3, 2), [0.25, 0.5, 0.25])
    """
    check_seed(seed)
    spec = _mechanism(plan)
    how = _estimator(estimator)
    user_values = _check_values(spec, values)
    if isinstance(plan, Plan) and not allow_fewer:
        _check_enough(plan, user_values.size)
    check_informative(spec)
    noisy_nodes = _noisy_nodes(spec, nodes)
    counts = _counts(spec, user_values, seed)
    integers = RandomIntegers()
    for _ in range(noisy_nodes):
        counts = counts + spec.counts_of(spec.sample_dummies(integers))
    estimated = estimate(spec, counts.tolist(), len(user_values), estimator=how, nodes=noisy_nodes)
    true_total = spec.truth(user_values).astype(np.float64)
    return Answer(
        spec,
        len(user_values),
        estimated,
        float(true_total[0]) if estimated.quantity == "sum" else true_total,
        seed,
        how,
        noisy_nodes,
    )


def _counts(spec: Mechanism, values: Integers, seed: int | None) -> Integers:
    """Counts of all reports, added up over blocks of users to bound the memory."""
    arrays = RandomArrays() if seed is None else RandomArrays(np.random.default_rng(seed).bytes)
    total = np.zeros(0, dtype=np.int64)
    for start in range(0, len(values), BLOCK):
        block = values[start : start + BLOCK]
        answers = randomise_in_bulk(spec, block, arrays)
        counts = spec.count_sent(answers[np.newaxis], arrays)[0]
        total = total + counts if total.size else counts
    return total


def _noisy_nodes(spec: Mechanism, nodes: int) -> int:
    """Number of nodes that add dummies; raises `UsageError` for 0 if the noise comes from nodes."""
    if whole_number("nodes", nodes) < 1:
        raise UsageError(f"nodes must be at least 1, not {nodes}")
    return nodes if spec.dummies_per_node else 0


def check_seed(seed: int | None) -> None:
    """Raise `UsageError` unless the seed is a whole number of at least 0, or None."""
    if seed is not None and whole_number("seed", seed) < 0:
        raise UsageError(f"seed must be a whole number from 0, not {seed}")


def _check_enough(plan: Plan, users: int) -> None:
    """Raise `UsageError` for fewer users than the plan's guarantee needs."""
    if users < plan.setting.honest:
        raise UsageError(
            f"{users:,} values are fewer than the {plan.setting.honest:,} honest users whose "
            "guarantee the plan certifies; give as many values, plan for fewer users, or pass "
            "allow_fewer=True"
        )


def _mechanism(plan: Plan | Mechanism) -> Mechanism:
    spec = plan.spec if isinstance(plan, Plan) else plan
    if getattr(spec, "kind", None) not in MECHANISMS:
        raise UsageError(f"clients cannot run {spec!r}; choose one of {', '.join(MECHANISMS)}")
    return cast("Mechanism", spec)


def _estimator(name: str) -> Estimator:
    try:
        return Estimator(name)
    except ValueError as error:
        raise UsageError(
            f"estimator must be one of {', '.join(Estimator)}, not {name!r}"
        ) from error


def _check_values(spec: Mechanism, values: ArrayLike) -> Integers:
    try:
        numbers = np.asarray(values)
    except ValueError:
        raise UsageError(
            "values must be a list with one whole number per user, not a list of lists"
        ) from None
    if numbers.ndim != 1 or not numbers.size:
        raise UsageError(
            "values must be a list with one whole number per user, not an array of shape "
            f"{numbers.shape}"
        )
    if not np.issubdtype(numbers.dtype, np.integer):
        raise UsageError(f"values must be whole numbers, not {numbers.dtype}")
    if numbers.min() < 0 or numbers.max() >= spec.domain:
        raise UsageError(
            f"values must be from 0 to {spec.domain - 1}, the mechanism's domain; cap them first"
        )
    return numbers.astype(np.int64, copy=False)
