"""Sums whose noise comes from the nodes: values in the open, dummies of every node.

Notation: docs/accounting.md, N5 and N6.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

from shuffledp_core.answering.estimates import Estimate, Present
from shuffledp_core.mechanisms.base import (
    MAX_DOMAIN,
    SumSpec,
    check_rational,
    check_whole,
)
from shuffledp_core.mechanisms.work import bounded_noise_tries
from shuffledp_core.sampling.exact import bounded_laplace
from shuffledp_core.sampling.randomness import RandomIntegers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from shuffledp_core.answering.estimates import Counts
    from shuffledp_core.bounds.losses import PrivacyLosses
    from shuffledp_core.sampling.arrays import RandomArrays

MAX_MEAN: Final = 2**22
"""Largest mean number of ones among a node's dummies of one digit."""


class NodeSum(SumSpec, frozen=True, kw_only=True, tag="node-sum"):
    """The value's digits, each in unary code; every node adds dummies of every digit.

    Digit l, from 0 to its largest value k_l, has weight base^l; base = max_value + 1 is plain
    unary code. Of a node's 2 μ_l dummies of a digit μ_l + Z_l are ones, Z_l in {-μ_l..μ_l}
    independent with P(Z_l = z) proportional to exp(-rate_l |z|). The rates share `noise_epsilon`:
    Σ rate_l k_l = noise_epsilon, in proportion to (weight k_l)^(2/3), which gives the sum the least
    variance. `mean` is μ of the most significant digit; the other digits' means correspond to as
    many nats.
    """

    kind: ClassVar[str] = "node-sum"
    summary: ClassVar[str] = (
        "True values among dummies of every mix node, shuffled: a sum that needs one "
        "honest node but no honest users."
    )
    needs_crowd: ClassVar[bool] = False
    noise_epsilon: Annotated[Fraction, "ε of a node's noise for the largest change, in nats."]
    base: Annotated[int, "Base of the digits; max_value + 1 for plain unary code."]
    mean: Annotated[int, "μ, mean number of ones among a node's dummies of the highest digit."]

    def __post_init__(self) -> None:
        check_whole("max_value", self.max_value, 1)
        check_rational("noise_epsilon", self.noise_epsilon)
        check_whole("base", self.base, 2, self.max_value + 1)
        check_whole("mean", self.mean, self.caps[-1], MAX_MEAN)
        for number, mean in enumerate(self.means):
            check_whole(f"mean of digit {number}", mean, self.caps[number], MAX_MEAN)

    @property
    def weights(self) -> tuple[int, ...]:
        """Weight of each digit, the lowest first."""
        weights = [1]
        while weights[-1] * self.base <= self.max_value:
            weights.append(weights[-1] * self.base)
        return tuple(weights)

    @property
    def caps(self) -> tuple[int, ...]:
        """Largest value of each digit, the lowest first."""
        weights = self.weights
        return (self.base - 1,) * (len(weights) - 1) + (self.max_value // weights[-1],)

    @property
    def rates(self) -> tuple[Fraction, ...]:
        """ε of the noise in each digit, in nats per one."""
        caps = self.caps
        spans = [weight * cap for weight, cap in zip(self.weights, caps, strict=True)]
        shares = [_cube_root(span**2) for span in spans]
        return tuple(
            self.noise_epsilon * share / (sum(shares) * cap)
            for share, cap in zip(shares, caps, strict=True)
        )

    @property
    def means(self) -> tuple[int, ...]:
        """Mean number μ of dummy ones by digit: `mean` for the highest; μ ε is equal for all."""
        return means_for(self, self.mean)

    @property
    def messages_per_user(self) -> int:
        """Number of bits of each user: the sum of the digits' largest values."""
        return sum(self.caps)

    @property
    def alphabet(self) -> int:
        """Number of symbols: a zero (2 l) and a one (2 l + 1) for each digit l."""
        return 2 * len(self.weights)

    @property
    def largest_answer(self) -> int:
        """Largest answer: all bits are ones."""
        return sum(weight * cap for weight, cap in zip(self.weights, self.caps, strict=True))

    @property
    def dummies_per_node(self) -> int:
        """Number of one node's dummies: 2 μ_l for every digit l."""
        return 2 * sum(self.means)

    @property
    def dummy_tries(self) -> Fraction:
        """Mean number of draws for the bounded noises of all digits, rounded up."""
        digits = zip(self.rates, self.means, strict=True)
        return sum((bounded_noise_tries(rate, mean) for rate, mean in digits), Fraction(0))

    @property
    def node_noise(self) -> float:
        """Standard deviation of one node's noise in the sum: that of all digits, weighted."""
        from shuffledp_core.bounds.bounded_noise import bounded_laplace_variance

        digits = zip(self.weights, self.rates, self.means, strict=True)
        return math.sqrt(
            sum(weight**2 * bounded_laplace_variance(rate, mean) for weight, rate, mean in digits)
        )

    def sample_dummies(self, integers: RandomIntegers) -> NDArray[np.int64]:
        """One node's dummies: noisy numbers of zeros and ones of every digit."""
        import numpy as np

        counts = []
        for rate, mean in zip(self.rates, self.means, strict=True):
            noise = bounded_laplace(rate, mean, integers)
            counts += [mean - noise, mean + noise]
        return np.repeat(np.arange(self.alphabet), counts)

    def sample(self, value: int, integers: RandomIntegers) -> int:  # noqa: ARG002
        """The value itself."""
        return value

    def sample_all(self, values: NDArray[np.int64], arrays: RandomArrays) -> NDArray[np.int64]:  # noqa: ARG002
        """The values themselves."""
        return values.copy()

    def encode(self, answer: int) -> Sequence[int]:
        """Symbols of an answer: every digit's ones, then zeros up to the digit's largest value."""
        if not 0 <= answer <= self.largest_answer:
            raise ValueError(f"an answer must be from 0 to {self.largest_answer}")
        symbols: list[int] = []
        rest = answer
        for number in reversed(range(len(self.weights))):
            digit = min(rest // self.weights[number], self.caps[number])
            rest -= digit * self.weights[number]
            symbols += [2 * number + 1] * digit + [2 * number] * (self.caps[number] - digit)
        return symbols

    def weigh(self, symbols: NDArray[np.int64]) -> NDArray[np.int64]:
        """The weight of the digit if the symbol is a one, else 0; same shape."""
        import numpy as np

        return np.where(symbols % 2 == 1, np.array(self.weights)[symbols // 2], 0)

    def count(self, answers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Counts of zeros and ones of every digit, shape (rounds, alphabet), from the answers."""
        import numpy as np

        counts = np.zeros((len(answers), self.alphabet), dtype=np.int64)
        rest = answers
        for number in reversed(range(len(self.weights))):
            cap = self.caps[number]
            digits = np.minimum(rest // self.weights[number], cap)
            rest = rest - digits * self.weights[number]
            ones = digits.sum(axis=1)
            counts[:, 2 * number] = answers.shape[1] * cap - ones
            counts[:, 2 * number + 1] = ones
        return counts

    def losses(self, steps: Sequence[int]) -> PrivacyLosses:
        """Privacy losses if every digit changes by these steps, behind one honest node's dummies.

        N5: digits are independent, and a larger step is easier to see in each.

        Args:
            steps: from 0 to the digit's largest value, the lowest digit first; not all 0.
        """
        from shuffledp_core.bounds.node_noise import shift_losses

        parts = [
            shift_losses(rate, mean, step)
            for rate, mean, step in zip(self.rates, self.means, steps, strict=True)
            if step
        ]
        joined = parts[0]
        for part in parts[1:]:
            joined = joined.combine(part)
        return joined

    def witness(self, honest: int, distance: int) -> PrivacyLosses:  # noqa: ARG002
        """Losses of the digits' counts of ones, for two values at most `distance` apart (N6)."""
        return self.losses(farthest_steps(self, distance)[0])

    def largest_shift(self, liars: int) -> Fraction:
        """Shift of the sum if every message is a one of the highest digit, as no check excludes."""
        return Fraction(liars * self.messages_per_user * self.weights[-1])

    def estimate(self, counts: Counts, present: Present) -> Estimate:
        """The weighted sum of the ones, less the expected ones among the dummies."""
        from shuffledp_core.bounds.bounded_noise import bounded_laplace_law
        from shuffledp_core.bounds.node_noise import noise_of_nodes

        laws = []
        total = 0
        for number, weight in enumerate(self.weights):
            mean = self.means[number]
            total += weight * (int(counts[2 * number + 1]) - present.nodes * mean)
            laws.append((weight, bounded_laplace_law(self.rates[number], mean)))
        noise = noise_of_nodes(laws, present.nodes)
        users = float(present.reports)
        largest = users * self.max_value
        return Estimate(
            quantity="sum",
            values=(float(total),),
            standard_errors=(noise.deviation,),
            lows=(min(max(total - noise.most, 0.0), largest),),
            highs=(min(max(total - noise.least, 0.0), largest),),
            mean=total / users,
            mean_standard_error=noise.deviation / users,
        )


def farthest_steps(spec: NodeSum, distance: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Steps of the digits for one change of at most `distance`, and bounds of all such steps.

    The same for the whole domain: from the highest digit's largest value, the others 0, to the
    opposite (N6).
    """
    caps = spec.caps
    if len(caps) == 1:
        return (distance,), (distance,)
    if distance == spec.max_value:
        return caps, caps
    rest = distance
    steps = []
    for weight, cap in zip(reversed(spec.weights), reversed(caps), strict=True):
        steps.append(min(rest // weight, cap))
        rest -= steps[-1] * weight
    return tuple(reversed(steps)), caps


def means_for(spec: NodeSum, mean: int) -> tuple[int, ...]:
    """`NodeSum.means` with another mean of the highest digit."""
    rates = spec.rates
    nats = mean * rates[-1]
    return tuple(math.ceil(nats / rate) for rate in rates)


def _cube_root(number: int) -> int:
    """The largest whole number, at least 1, whose cube is at most `number`."""
    low = 1
    high = MAX_DOMAIN
    while low < high:
        middle = (low + high + 1) // 2
        if middle**3 <= number:
            low = middle
        else:
            high = middle - 1
    return low
