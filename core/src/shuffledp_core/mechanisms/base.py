"""The interface of a mechanism, and the code that similar mechanisms share.

A mechanism is one class in one file: exact parameters, the law that its users sample, how an answer
becomes messages, and how counted messages become an estimate. Everything else that depends on a
mechanism asks its class, or is a function that the mechanism registers (its privacy analysis,
`shuffledp_privacy.bounds`). docs/extending.md adds one.

Probabilities are rationals so that the client samples exactly the law that is certified, with
integers. numpy is imported where it is used: command lines ask for names and parameters alone, and
people wait for their start.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Final, Self

import msgspec

from shuffledp_core.answering.estimates import Estimate, Present, sum_with_noise
from shuffledp_core.bounds.local import noisy_report
from shuffledp_core.errors import ParameterError, UsageError
from shuffledp_core.sampling.randomness import RandomIntegers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from shuffledp_core.answering.estimates import Counts
    from shuffledp_core.bounds.lower import Witness
    from shuffledp_core.sampling.arrays import RandomArrays

MAX_DOMAIN = 2**31 - 1
"""Largest domain or value a spec may name: symbols are written in at most four bytes."""

MAX_DENOMINATOR = 2**63
"""Largest denominator of a rational parameter, so that every sampler works with machine-sized
integers.
"""


OPEN: Final = Fraction(0)
"""Blanket of values that are sent as they are."""


class Answers(StrEnum):
    """Kind of answer to a round: the number of users who hold each value, or the sum of values."""

    HISTOGRAM = "histogram"
    SUM = "sum"


class Spec(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="mechanism"
):
    """A mechanism with its exact parameters: immutable, hashable, strictly parsed, tagged by name.

    Users hold whole numbers {0..domain-1}. Each sends `messages_per_user` symbols of
    {0..alphabet-1}, always the same number; together they encode the user's answer, a whole number
    of at most 63 bits.

    Attributes:
        kind: the name on command lines and on the wire; the class's `tag`.
        summary: one line of help text.
        answers: the kind of answer of a round.
        metric: whether the distance of two values matters; if not, all changes count as the same
            change.
        least_size: the smallest `size`.
        bears_losses: True if a lost message costs only its share of the answer; False if the answer
            needs every message.
        noise_alone: True if each user adds complete noise; False if users add shares of it, so that
            the shares of absent users are missing.
        needs_crowd: True if the guarantee depends on other users' reports; False if the noise of
            one honest node is enough.
        counts_columns: whether its estimate counts the cells of several columns, one column after
            the other.
        for_ranges: whether its noise serves quantiles and ranges of bins, not single counts.
        most_size: the largest `size` of a plan.
    """

    kind: ClassVar[str]
    summary: ClassVar[str]
    answers: ClassVar[Answers]
    metric: ClassVar[bool]
    least_size: ClassVar[int]
    bears_losses: ClassVar[bool] = True
    noise_alone: ClassVar[bool] = True
    needs_crowd: ClassVar[bool] = True
    counts_columns: ClassVar[bool] = False
    for_ranges: ClassVar[bool] = False
    most_size: ClassVar[int] = MAX_DOMAIN - 1

    def __init_subclass__(cls) -> None:
        # Another law for one user, and the inherited one for all of them, would be two mechanisms
        # of one name.
        if "sample" in vars(cls) and "sample_all" not in vars(cls):
            cls.sample_all = Spec.sample_all  # type: ignore[method-assign]

    @classmethod
    def size_for(cls, max_value: int) -> int:
        """The size, as a round's plan states it, for values {0..max_value}."""
        raise NotImplementedError

    @classmethod
    def domain_of(cls, size: int) -> int:
        """Number of admissible inputs at this size."""
        raise NotImplementedError

    @property
    def size(self) -> int:
        """Size in a round's plan: number of symbols of a histogram, or largest value of a sum."""
        raise NotImplementedError

    @property
    def domain(self) -> int:
        """Number of admissible inputs, {0..domain-1}."""
        raise NotImplementedError

    @property
    def messages_per_user(self) -> int:
        """Number of messages that each user sends, m; the same for every answer."""
        raise NotImplementedError

    @property
    def alphabet(self) -> int:
        """Number of different symbols a message can carry."""
        raise NotImplementedError

    @property
    def dummies_per_node(self) -> int:
        """T, the number of messages that every node adds to a round; 0 where nodes add none."""
        return 0

    @property
    def node_noise(self) -> float:
        """Standard deviation of one node's dummies in the sum, or in one count, of the estimate.

        0 where nodes add none. The dummies of several nodes are independent.
        """
        return 0.0

    def sample_dummies(self, integers: RandomIntegers) -> NDArray[np.int64]:  # noqa: ARG002
        """The symbols of one node's dummies, shape (dummies_per_node,), by the certified law.

        Their order carries no information. A node draws them once per round: a second draw for the
        same round would not have the certified distribution.
        """
        import numpy as np

        return np.zeros(0, dtype=np.int64)

    @property
    def response_name(self) -> str | None:
        """Name under which rounds share a memoised response; None without such a response.

        Such rounds do not compose: they are charged once, for everything that the response can ever
        reveal.
        """
        return None

    def about(self, question: int) -> Self:
        """The mechanism for the question with this number, which has its own memoised response.

        Raises:
            UsageError: there is no question of this number, or devices keep no response.
        """
        if question:
            raise UsageError(f"{self.kind} memoises no response: leave the question's number out")
        return self

    def remember(self, value: int, integers: RandomIntegers) -> int:
        """The response that a device draws once and keeps, from 0 to 2^63 - 1."""
        raise NotImplementedError

    def report(self, kept: int, integers: RandomIntegers) -> int:
        """Draw a round's answer from the memoised response.

        After `remember` it has the law of `sample`.
        """
        raise NotImplementedError

    def sample(self, value: int, integers: RandomIntegers) -> int:
        """The randomised answer of a user who holds `value`, in the domain: the certified law."""
        raise NotImplementedError

    def sample_all(self, values: NDArray[np.int64], arrays: RandomArrays) -> NDArray[np.int64]:
        """The answers of many users, shape (users,), each independently by the law of `sample`.

        The default draws them one by one, so that a mechanism need only define `sample`; ours are
        vectorised.
        """
        import numpy as np

        answers = (self.sample(value, arrays.single) for value in values.tolist())
        return np.fromiter(answers, dtype=np.int64, count=values.size)

    def encode(self, answer: int) -> Sequence[int]:
        """The m symbols that encode `answer`.

        Their order is lost in the shuffle, and must carry no information before it.
        """
        raise NotImplementedError

    def say(self, answer: int, integers: RandomIntegers) -> Sequence[int]:  # noqa: ARG002
        """The m symbols sent for `answer`: those of `encode`, unless the encoding is random."""
        return self.encode(answer)

    def weigh(self, symbols: NDArray[np.int64]) -> NDArray[np.int64]:
        """Contribution of each symbol to an answer, which is the sum over its symbols.

        Same shape.
        """
        return symbols

    def answers_of_sums(self, sums: NDArray[np.int64]) -> NDArray[np.int64]:
        """The answers that these sums of weights stand for; same shape."""
        return sums

    def read_answers(self, symbols: NDArray[np.int64]) -> NDArray[np.int64]:
        """The answers of users whose messages are linked, shape (users,), from shape (users, m).

        If users also send dummies, the most likely answers.
        """
        return self.answers_of_sums(self.weigh(symbols).sum(axis=1))

    @property
    def cells(self) -> int:
        """Length of a board's counts: one per symbol, unless the estimate needs fewer numbers."""
        return self.alphabet

    def counts_of(self, symbols: NDArray[np.int64]) -> NDArray[np.int64]:
        """The counts of these symbols on a board, shape (cells,), the estimate's only input."""
        import numpy as np

        return np.bincount(symbols, minlength=self.alphabet).astype(np.int64)

    def messages_of(self, counts: Counts) -> int:
        """Number of messages on the board with these counts."""
        return int(sum(int(count) for count in counts))

    def count(self, answers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Counts of the board, shape (rounds, cells), from answers, shape (rounds, users)."""
        import numpy as np

        # Answers repeat: each distinct one is encoded once, however many users gave it.
        distinct, place = np.unique(answers, return_inverse=True)
        rows = np.array(
            [
                np.bincount(self.encode(answer), minlength=self.alphabet)
                for answer in distinct.tolist()
            ]
        )
        counts = np.zeros((len(answers), self.alphabet), dtype=np.int64)
        for column in place.reshape(answers.shape).T:
            counts += rows[column]
        return counts

    def count_sent(
        self,
        answers: NDArray[np.int64],
        arrays: RandomArrays,  # noqa: ARG002
    ) -> NDArray[np.int64]:
        """Counts of the board, shape (rounds, cells), as users send these answers.

        The counts of `count`, plus the dummies that users send, if any, which are drawn here.
        """
        return self.count(answers)

    def local_epsilon(self, distance: int) -> float:  # noqa: ARG002
        """ε_L: total ε at δ = 0 of one report for changes up to `distance`, in nats; rounded up.

        It holds if every mix node is corrupt, and for all rounds of a memoised response together.
        The default is infinite, for no known bound: devices whose policy limits ε_L then refuse.
        Implementations need only the standard library.

        Args:
            distance: from 1 to domain - 1.
        """
        return math.inf

    def witness(self, honest: int, distance: int) -> Witness | None:  # noqa: ARG002
        """A statistic of the board on two datasets that differ by `distance` in one value.

        No true certificate is below the ε that it attains (`lower_bounds`). None if the mechanism
        names no statistic.
        """
        return None

    def check_informative(self) -> None:
        """Raise `UsageError` if the parameters make messages independent of values."""

    def estimate(self, counts: Counts, present: Present) -> Estimate:
        """The debiased answer to a round, from its counts by cell, shape (cells,).

        `present` says which messages were counted; at least one message of a user was.
        """
        raise NotImplementedError

    def most_likely(self, counts: Counts) -> NDArray[np.float64]:
        """The most likely histogram given these counts, shape (domain,).

        Raises:
            UsageError: the mechanism has no maximum likelihood estimator.
        """
        del counts
        raise UsageError(
            f"{self.kind} has no maximum likelihood estimator (ibu); choose another estimator"
        )

    def truth(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Exact answer, without noise: the histogram, shape (domain,), or the sum, shape (1,)."""
        raise NotImplementedError


class HistogramSpec(Spec, frozen=True, kw_only=True):
    """A histogram over the symbols {0..symbols-1}; each message carries one symbol."""

    answers: ClassVar[Answers] = Answers.HISTOGRAM
    metric: ClassVar[bool] = False
    least_size: ClassVar[int] = 2
    symbols: int

    @classmethod
    def size_for(cls, max_value: int) -> int:
        """One symbol for each value."""
        return max_value + 1

    @classmethod
    def domain_of(cls, size: int) -> int:
        """Number of admissible inputs: every symbol is one."""
        return size

    @property
    def size(self) -> int:
        """Number of symbols, k."""
        return self.symbols

    @property
    def domain(self) -> int:
        """Number of admissible inputs, {0..domain-1}."""
        return self.symbols

    @property
    def alphabet(self) -> int:
        """Number of different symbols a message can carry."""
        return self.symbols

    def truth(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """The histogram, shape (symbols,)."""
        import numpy as np

        return np.bincount(values, minlength=self.symbols).astype(np.int64)


class SumSpec(Spec, frozen=True, kw_only=True):
    """A sum over values {0..max_value}; an answer is a whole number in any encoding."""

    answers: ClassVar[Answers] = Answers.SUM
    metric: ClassVar[bool] = True
    least_size: ClassVar[int] = 1
    max_value: int

    @classmethod
    def size_for(cls, max_value: int) -> int:
        """The largest value itself."""
        return max_value

    @classmethod
    def domain_of(cls, size: int) -> int:
        """Number of admissible inputs: `size` and 0, too."""
        return size + 1

    @property
    def size(self) -> int:
        """Largest value, k."""
        return self.max_value

    @property
    def domain(self) -> int:
        """Number of admissible inputs, {0..max_value}."""
        return self.max_value + 1

    @property
    def largest_answer(self) -> int:
        """Largest answer, the number m in {0..m}."""
        raise NotImplementedError

    def truth(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """The sum, shape (1,)."""
        import numpy as np

        return np.array([values.sum()], dtype=np.int64)


class UnarySpec(SumSpec, frozen=True, kw_only=True):
    """A sum sent as a fixed number of bits; an answer is the number of ones."""

    @property
    def alphabet(self) -> int:
        """Number of symbols: 2, because messages are bits."""
        return 2

    @property
    def largest_answer(self) -> int:
        """Largest answer: all bits are ones."""
        return self.messages_per_user

    def encode(self, answer: int) -> Sequence[int]:
        """The fixed-length unary code of Athanasiou et al. 2025, the ones first."""
        if not 0 <= answer <= self.messages_per_user:
            raise ValueError(f"the number of ones must be from 0 to {self.messages_per_user}")
        return [1] * answer + [0] * (self.messages_per_user - answer)

    def count(self, answers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Counts of zeros and ones, shape (rounds, 2), without generating the messages."""
        import numpy as np

        ones = answers.sum(axis=1)
        return np.stack([answers.shape[1] * self.messages_per_user - ones, ones], axis=1)


class PaddedSpec(UnarySpec, frozen=True, kw_only=True):
    """A sum to which each user adds noise: shifted, clamped, unary-coded (Athanasiou 2025).

    N = A - B with A, B ~ NB(1/noise_shares, 1-φ) independent, φ = exp(-noise_rate); the user sends
    clamp(x + N + c, 0, k + 2c) ones among k + 2c bits, c = padding. A subclass has the field
    `padding`, says what the two parameters of the noise are, and samples it.
    """

    if (
        TYPE_CHECKING
    ):  # a field here would change the order of the fields, which is that of the JSON
        padding: int

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "noise" in vars(cls) and "noise_all" not in vars(cls):
            cls.noise_all = PaddedSpec.noise_all  # type: ignore[method-assign]

    @property
    def noise_rate(self) -> Fraction:
        """ε of the noise, nats per unit: φ = exp(-ε)."""
        raise NotImplementedError

    @property
    def noise_shares(self) -> int:
        """Number of users who together add one discrete Laplace noise."""
        raise NotImplementedError

    def noise(self, integers: RandomIntegers) -> int:
        """Draw one user's noise N."""
        raise NotImplementedError

    def noise_all(self, users: int, arrays: RandomArrays) -> NDArray[np.int64]:
        """The noises of all users, shape (users,), each independently by the law of `noise`.

        This default draws them one by one.
        """
        import numpy as np

        return np.fromiter(
            (self.noise(arrays.single) for _ in range(users)), dtype=np.int64, count=users
        )

    @property
    def messages_per_user(self) -> int:
        """Number of bits of each user: k + 2c."""
        return self.max_value + 2 * self.padding

    def sample(self, value: int, integers: RandomIntegers) -> int:
        """The number of ones: value, noise and padding, clamped to the number of bits."""
        # The number of messages is fixed and public: one that followed the noise would show whose
        # noise was large.
        return min(max(value + self.noise(integers) + self.padding, 0), self.messages_per_user)

    def sample_all(self, values: NDArray[np.int64], arrays: RandomArrays) -> NDArray[np.int64]:
        """Vectorised `sample`; noise that may exceed machine words is drawn one by one."""
        import numpy as np

        from shuffledp_core.sampling.bulk import LEAST_EPSILON

        if self.noise_rate < LEAST_EPSILON:
            return super().sample_all(values, arrays)
        noisy = values + self.noise_all(values.size, arrays) + self.padding
        ones: NDArray[np.int64] = np.clip(noisy, 0, self.messages_per_user)
        return ones

    def local_epsilon(self, distance: int) -> float:
        """ln P(N=0)/P(N=d) of one user's noise; clamping is post-processing (S8)."""
        return noisy_report(self.noise_rate, self.noise_shares, distance)

    def witness(self, honest: int, distance: int) -> Witness | None:
        """The sum of all ones, if all other users hold 0.

        Some report is clamped with the probability of S7.
        """
        from shuffledp_core.bounds.lower import ShiftedNoise

        rate = float(self.noise_rate)
        groups = -(-honest // self.noise_shares)
        clamped = 2 * groups * math.exp(-rate * (self.padding + 1))
        return ShiftedNoise(honest / self.noise_shares, rate, distance, min(1.0, clamped))

    @property
    def bias(self) -> float:
        """Largest mean change of one report by clamping, over all values, rounded up.

        It is reached by the values 0 and k.

        Exact for whole noises: 𝔼(N - c)_+ - 𝔼(N - k - c)_+ = φ^(c+1) (1 - φ^k)/(1 - φ²). For shares
        an upper bound, as P(A = j) <= φ^j/shares: 𝔼(A - c)_+ <= φ^(c+1)/(shares (1 - φ)²).
        docs/accounting.md, S17.
        """
        rate = float(self.noise_rate)
        beyond = math.exp(-rate * (self.padding + 1)) * (1 + 1e-12)
        if self.noise_shares == 1:
            return beyond * math.expm1(-rate * self.max_value) / math.expm1(-2 * rate)
        return beyond / math.expm1(-rate) ** 2 / self.noise_shares

    def estimate(self, counts: Counts, present: Present) -> Estimate:
        """Σ B - n c, with noise of shape n/shares and the largest bias that clamping can cause."""
        users = present.reports
        total = int(counts[1]) - users * self.padding
        shape = float(users / self.noise_shares)
        return sum_with_noise(
            total, users, self.max_value, shape, float(self.noise_rate), float(users) * self.bias
        )


def tally(answers: NDArray[np.int64], alphabet: int) -> NDArray[np.int64]:
    """Counts of each symbol, shape (rounds, alphabet), from one-symbol answers (rounds, users)."""
    import numpy as np

    rounds = len(answers)
    cells = answers + alphabet * np.arange(rounds)[:, np.newaxis]
    return (
        np.bincount(cells.ravel(), minlength=rounds * alphabet)
        .reshape(rounds, alphabet)
        .astype(np.int64)
    )


def check_whole(name: str, value: int, low: int, high: int = MAX_DOMAIN) -> None:
    """Raises `ParameterError` unless the parameter is a whole number from `low` to `high`."""
    # To Python True is an integer; in a signed document it would stand as `true`, not as 1.
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ParameterError(f"{name} must be a whole number from {low} to {high}, not {value!r}")


def check_rational(name: str, value: Fraction, high: Fraction | None = None) -> None:
    """Raises `ParameterError` unless the parameter is a rational above 0 and at most `high`."""
    if not isinstance(value, Fraction):
        raise ParameterError(f"{name} must be a Fraction, not {value!r}")
    if value <= 0 or (high is not None and value > high):
        raise ParameterError(
            f"{name} must be above 0{'' if high is None else f' and at most {high}'}, not {value}"
        )
    # Specs come from others: without a limit each draw could be made to work on integers of any
    # length.
    if value.denominator > MAX_DENOMINATOR or value.numerator > MAX_DENOMINATOR:
        raise ParameterError(f"{name} must be a ratio of integers up to 2^63, not {value}")


def check_blanket(blanket: Fraction) -> None:
    """`check_rational` for a blanket γ that may also be 0: reports are then the true values.

    A blanket of 1 would send only noise, and is a `ValueError`.
    """
    if not isinstance(blanket, Fraction) or blanket != 0:
        check_rational("blanket", blanket, Fraction(1))
    if blanket == 1:
        raise ValueError("blanket must be below 1: at 1 no report would depend on its value")


def refuse_pure_noise(name: str, probability: Fraction) -> None:
    """Raise `UsageError` if the probability that a message is pure noise is 1."""
    if probability == 1:
        raise UsageError(
            f"{name} must not be 1, or every message would be pure noise; ask for a larger "
            "epsilon or more reports"
        )
