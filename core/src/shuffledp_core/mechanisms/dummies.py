"""A histogram of true values hidden among users' dummies (Luo, Wang, Yi 2022; Cheu, Zhilyaev 2022).

Notation: docs/accounting.md, K15: k, s and f.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, ClassVar

import msgspec

from shuffledp_core.answering.estimates import (
    Dummies,
    Estimate,
    Present,
    histogram_of,
    histogram_with_dummies,
)
from shuffledp_core.bounds.local import response_epsilon
from shuffledp_core.mechanisms.base import (
    MAX_DOMAIN,
    OPEN,
    HistogramSpec,
    check_blanket,
    check_rational,
    check_whole,
    tally,
)
from shuffledp_core.sampling.exact import bernoulli
from shuffledp_core.sampling.randomness import RandomIntegers
from shuffledp_core.sampling.responses import respond, respond_all

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from shuffledp_core.answering.estimates import Counts
    from shuffledp_core.bounds.blanketed import BlanketedCounts
    from shuffledp_core.bounds.lower import Witness
    from shuffledp_core.sampling.arrays import RandomArrays

MOST_SLOTS = 9_999
"""Most slots: the messages of a user, one more, then stay within what a submission may hold."""


class DummyHistogram(
    HistogramSpec, frozen=True, kw_only=True, tag="dummy-histogram", omit_defaults=True
):
    """The true symbol in one message, and s further messages, each of which may be a dummy.

    Source: Luo, Wang and Yi 2022; Cheu and Zhilyaev 2022.

    Each of the s slots is, independently, a uniform symbol of {0..k-1} with probability `fill`
    (f), otherwise the symbol k, "empty". So n users add Multinomial(n s; f/k, ..., f/k, 1 - f)
    dummies to the true counts, whatever the values are. With probability `blanket` (γ) the value is
    replaced by a uniform one before it is sent (k-RR); if γ = 0, nothing hides it where every node
    is corrupt.
    """

    kind: ClassVar[str] = "dummy-histogram"
    summary: ClassVar[str] = (
        "True values among dummies of all users, shuffled: a histogram nearly as exact as a "
        "trusted party's."
    )
    slots: Annotated[int, "s, messages of each user that may be dummies."]
    fill: Annotated[Fraction, "f, probability that a slot holds a dummy instead of being empty."]
    blanket: Annotated[Fraction, "γ, probability that a uniform value is sent instead."] = OPEN

    def __post_init__(self) -> None:
        check_whole("symbols", self.symbols, 2, MAX_DOMAIN - 1)
        check_whole("slots", self.slots, 1, MOST_SLOTS)
        check_rational("fill", self.fill, Fraction(1))
        check_blanket(self.blanket)
        if self.blanket == 0:  # one way to write it: documents leave it out
            msgspec.structs.force_setattr(self, "blanket", OPEN)

    @property
    def alphabet(self) -> int:
        """Number of symbols, with one for "empty"."""
        return self.symbols + 1

    @property
    def messages_per_user(self) -> int:
        """Number of messages of each user: the value and s slots."""
        return 1 + self.slots

    @property
    def dummy_rate(self) -> Fraction:
        """f/k, the probability that a slot is a dummy of one given symbol."""
        return self.fill / self.symbols

    def sample(self, value: int, integers: RandomIntegers) -> int:
        """The value, or a uniform one; `say` draws the slots."""
        return respond(value, self.symbols, self.blanket, integers)

    def sample_all(self, values: NDArray[np.int64], arrays: RandomArrays) -> NDArray[np.int64]:
        """Vectorised `sample`: one draw per user."""
        return respond_all(values, self.symbols, self.blanket, arrays)

    def encode(self, answer: int) -> Sequence[int]:
        """The answer and s empty slots, as if no dummy were drawn."""
        if not 0 <= answer < self.symbols:
            raise ValueError(f"a symbol must be from 0 to {self.symbols - 1}")
        return [answer] + [self.symbols] * self.slots

    def say(self, answer: int, integers: RandomIntegers) -> Sequence[int]:
        """The answer at a uniformly drawn position among s slots, each drawn as dummy or empty."""
        symbols = list(self.encode(answer))
        for slot in range(1, len(symbols)):
            if bernoulli(self.fill, integers):
                symbols[slot] = integers.below(self.symbols)
        # All slots have one law, so that exchanging the answer with one of them moves it anywhere.
        index = integers.below(len(symbols))
        symbols[0], symbols[index] = symbols[index], symbols[0]
        return symbols

    def count(self, answers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Counts of the answers alone, with all slots empty; shape (rounds, k + 1)."""
        counts = tally(answers, self.alphabet)
        counts[:, self.symbols] = answers.shape[1] * self.slots
        return counts

    def count_sent(self, answers: NDArray[np.int64], arrays: RandomArrays) -> NDArray[np.int64]:
        """Counts of the answers and of freshly drawn dummies; shape (rounds, k + 1)."""
        import numpy as np

        counts = self.count(answers)
        rounds, users = answers.shape
        for _ in range(self.slots):  # one slot of all users at a time: memory stays bounded
            filled = arrays.bernoulli(self.fill, answers.size).reshape(rounds, users).sum(axis=1)
            counts[:, self.symbols] -= filled
            symbols = arrays.below(self.symbols, int(filled.sum()))
            cells = np.repeat(np.arange(rounds) * self.alphabet, filled) + symbols
            dummies = np.bincount(cells, minlength=counts.size)
            counts += dummies.reshape(counts.shape)
        return counts

    def read_answers(self, symbols: NDArray[np.int64]) -> NDArray[np.int64]:
        """The symbols that users sent most often, shape (users,): the likeliest answers."""
        import numpy as np

        ordered = np.sort(symbols, axis=1)
        places = np.broadcast_to(np.arange(ordered.shape[1]), ordered.shape)
        is_new = np.ones(ordered.shape, dtype=np.bool_)
        is_new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
        first = np.maximum.accumulate(np.where(is_new, places, 0), axis=1)
        earlier = np.where(ordered < self.symbols, places - first, -1)
        likeliest = earlier.argmax(axis=1)[:, np.newaxis]
        return np.asarray(np.take_along_axis(ordered, likeliest, axis=1)[:, 0])

    def local_epsilon(self, distance: int) -> float:  # noqa: ARG002 - all changes are the same
        """ε0 of k-RR: the slots do not depend on the value (K16)."""
        return response_epsilon(self.symbols, self.blanket)

    def witness(self, honest: int, distance: int) -> Witness:  # noqa: ARG002
        """Counts of the symbol that the user held and of the new one.

        On any dataset if γ = 0; else all others hold a third symbol.
        """
        from shuffledp_core.bounds.lower import DummyCounts

        if self.blanket:
            return self.blanketed_counts(honest)
        return DummyCounts(honest * self.slots, self.dummy_rate)

    def blanketed_counts(self, honest: int) -> BlanketedCounts:
        """One report of k-RR among the slots and the other uniform reports of honest users."""
        from shuffledp_core.bounds.blanketed import BlanketedCounts, UniformMessages

        others = (
            UniformMessages(honest * self.slots, self.fill),
            UniformMessages(honest - 1, self.blanket),
        )
        return BlanketedCounts(self.symbols, self.blanket, others)

    def largest_shift(self, liars: int) -> Fraction:
        """Shift of a symbol's debiased count if every message has it instead of another."""
        return liars * self.messages_per_user / (1 - self.blanket)

    def estimate(self, counts: Counts, present: Present) -> Estimate:
        """A symbol's count minus the expected dummies, n s f/k, corrected for k-RR."""
        slots = present.reports * self.slots
        if self.blanket:
            uniform = self.blanket / self.symbols
            return histogram_of(
                counts[: self.symbols],
                present.reports,
                1 - self.blanket + uniform,
                uniform,
                Dummies(int(slots), self.dummy_rate),
            )
        return histogram_with_dummies(
            counts[: self.symbols], present.reports, slots, self.dummy_rate
        )

    def pool(
        self, values: NDArray[np.float64], groups: NDArray[np.int64], present: Present
    ) -> Estimate:
        """Counts of each group less its share of all dummies, whose number the counts reveal."""
        import numpy as np

        from shuffledp_core.answering.intervals import binomial_interval
        from shuffledp_core.answering.margins import (
            pool_responses,
            subtract_noise,
            total_of_reports,
        )

        cells = groups.shape[1]
        if cells == self.symbols:
            return total_of_reports(len(groups), present)
        slots = int(present.reports * self.slots)
        users = int(present.reports)
        added = float(slots * self.dummy_rate + users * self.blanket / self.symbols)
        counts = np.rint(values * float(1 - self.blanket) + added).astype(np.int64)
        # Given their number, dummies fall on symbols independently of each other.
        dummies = Dummies(slots, self.dummy_rate * cells)
        filled = int(counts.sum()) - users
        if present.reports.denominator == 1 and 0 <= filled <= slots:
            dummies = Dummies(filled, Fraction(cells, self.symbols))
        if self.blanket:
            return pool_responses(counts, groups, present, self.blanket, dummies)
        ends = binomial_interval(dummies.slots, dummies.rate)
        noise = (dummies.mean, dummies.deviation)
        return subtract_noise(counts[groups].sum(axis=1), present, noise, ends)
