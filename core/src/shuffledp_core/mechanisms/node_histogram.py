"""Histograms whose noise comes from the nodes: values in the open, dummies of every node.

Notation: docs/accounting.md, N1 to N4. A design of this project, after the augmented shuffle model
of Murakami, Sei and Eriguchi 2025, whose one trusted shuffler adds the dummies.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

import msgspec

from shuffledp_core.answering.estimates import Estimate, Present, histogram_of
from shuffledp_core.bounds.local import response_epsilon
from shuffledp_core.mechanisms.base import (
    OPEN,
    HistogramSpec,
    check_blanket,
    check_rational,
    check_whole,
    tally,
)
from shuffledp_core.mechanisms.work import bounded_noise_tries
from shuffledp_core.sampling.exact import bounded_laplace
from shuffledp_core.sampling.randomness import RandomIntegers
from shuffledp_core.sampling.responses import respond, respond_all

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from shuffledp_core.answering.estimates import Counts
    from shuffledp_core.bounds.losses import PrivacyLosses
    from shuffledp_core.bounds.lower import Witness
    from shuffledp_core.bounds.node_noise import NodeNoise
    from shuffledp_core.bounds.one_report import OneReport
    from shuffledp_core.bounds.weighted_noise import CountNoise
    from shuffledp_core.sampling.arrays import RandomArrays

MAX_MEAN: Final = 2**14
"""Largest mean number of dummies of a symbol: enough for ε = 0.002 at δ = 1e-6."""

MAX_DUMMIES: Final = 2**31 - 1
"""Most dummies of a node."""


class NodeHistogram(
    HistogramSpec, frozen=True, kw_only=True, tag="node-histogram", omit_defaults=True
):
    """The value itself, one message; every node adds `dummies` messages.

    D_j = mean + Z_j of a node's dummies are of symbol j, Z_j in {-mean..mean} independent with
    P(Z_j = z) proportional to φ^|z|, φ = exp(-noise_epsilon), all under the condition that their
    sum is at most `dummies`; the others are "empty", symbol k. Their total is public, so that the
    number of "empty" ones reveals nothing beyond the counts of the symbols. With probability
    `blanket` (γ) the value is replaced by a uniform one before it is sent (k-RR).
    """

    kind: ClassVar[str] = "node-histogram"
    summary: ClassVar[str] = (
        "True values among dummies of every mix node, shuffled: a histogram that needs "
        "one honest node but no honest users."
    )
    needs_crowd: ClassVar[bool] = False
    noise_epsilon: Annotated[Fraction, "ε of a node's noise in one count, in nats per user."]
    mean: Annotated[int, "μ, mean number of a node's dummies of each symbol."]
    dummies: Annotated[int, "T, messages that each node adds."]
    blanket: Annotated[Fraction, "γ, probability that a uniform value is sent instead."] = OPEN

    def __post_init__(self) -> None:
        check_whole("symbols", self.symbols, 2)
        check_rational("noise_epsilon", self.noise_epsilon)
        check_whole("mean", self.mean, 1, MAX_MEAN)
        # Fewer would make a node draw again and again; more would only add empty messages.
        most = min(2 * self.symbols * self.mean, MAX_DUMMIES)
        check_whole("dummies", self.dummies, self.symbols * self.mean, most)
        check_blanket(self.blanket)
        if self.blanket == 0:  # one way to write it: documents leave it out
            msgspec.structs.force_setattr(self, "blanket", OPEN)

    @property
    def messages_per_user(self) -> int:
        """Number of messages of each user: one symbol."""
        return 1

    @property
    def alphabet(self) -> int:
        """Number of symbols, with one for "empty"."""
        return self.symbols + 1

    @property
    def dummies_per_node(self) -> int:
        """T, the number of dummies that each node adds."""
        return self.dummies

    @property
    def dummy_tries(self) -> Fraction:
        """Mean number of draws for the bounded noises of all symbols, rounded up."""
        return self.symbols * bounded_noise_tries(self.noise_epsilon, self.mean)

    @property
    def node_noise(self) -> float:
        """Standard deviation of one node's noise in a count if all dummies fit, over 1 - γ."""
        return self._noise(nodes=1).deviation / float(1 - self.blanket)

    def sample_dummies(self, integers: RandomIntegers) -> NDArray[np.int64]:
        """One node's dummies: noisy counts of the symbols, redrawn until they fit, then "empty"."""
        import numpy as np

        counts = draw_counts(self.noise_epsilon, self.mean, self.symbols, self.dummies, integers)
        return np.repeat(np.arange(self.alphabet), np.array(counts, dtype=np.int64))

    def sample(self, value: int, integers: RandomIntegers) -> int:
        """The value, or a uniform one."""
        return respond(value, self.symbols, self.blanket, integers)

    def sample_all(self, values: NDArray[np.int64], arrays: RandomArrays) -> NDArray[np.int64]:
        """Vectorised `sample`: one draw per user."""
        return respond_all(values, self.symbols, self.blanket, arrays)

    def encode(self, answer: int) -> Sequence[int]:
        """The answer itself; `symbols` stands for "empty", which `sample` never returns."""
        if not 0 <= answer <= self.symbols:
            raise ValueError(f"a symbol must be from 0 to {self.symbols}")
        return [answer]

    def count(self, answers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Counts of the symbols, shape (rounds, alphabet)."""
        return tally(answers, self.alphabet)

    def local_epsilon(self, distance: int) -> float:  # noqa: ARG002 - all changes are the same
        """ε0 of k-RR: a corrupt node's dummies do not depend on the value (N8)."""
        return response_epsilon(self.symbols, self.blanket)

    def witness(self, honest: int, distance: int) -> Witness:  # noqa: ARG002
        """The counts of all symbols, whatever other users hold (N3, N8)."""
        return self.one_report if self.blanket else self.losses

    @property
    def one_report(self) -> OneReport:
        """One report of k-RR behind one honest node's dummies (N8)."""
        from shuffledp_core.bounds.one_report import OneReport

        return OneReport(self.noise_epsilon, self.mean, self.symbols, self.dummies, self.blanket)

    @property
    def losses(self) -> PrivacyLosses:
        """Privacy losses of a change of one report behind one honest node's dummies (N3)."""
        from shuffledp_core.bounds.node_noise import histogram_losses

        return histogram_losses(self.noise_epsilon, self.mean, self.symbols, self.dummies)

    @property
    def count_noise(self) -> CountNoise | None:
        """One node's noise in the counts; None behind k-RR, whose noise depends on the values."""
        from shuffledp_core.bounds.weighted_noise import CountNoise

        return (
            None
            if self.blanket
            else CountNoise(
                self.noise_epsilon, self.mean, self.symbols, self.dummies - self.symbols * self.mean
            )
        )

    def largest_shift(self, liars: int) -> Fraction:
        """Shift of a symbol's debiased count if every lying report names it instead of another."""
        return liars / (1 - self.blanket)

    def estimate(self, counts: Counts, present: Present) -> Estimate:
        """Each count minus its expected dummies, corrected for k-RR."""
        noise = self._noise(present.nodes)
        largest = float(present.reports)
        observed = [int(count) - present.nodes * self.mean for count in counts[: self.symbols]]
        if self.blanket:
            uniform = self.blanket / self.symbols
            match = 1 - self.blanket + uniform
            return histogram_of(observed, present.reports, match, uniform, noise)
        return Estimate(
            quantity="histogram",
            values=tuple(count - noise.mean for count in observed),
            standard_errors=(noise.deviation,) * self.symbols,
            lows=tuple(min(max(float(count - noise.most), 0.0), largest) for count in observed),
            highs=tuple(min(max(float(count - noise.least), 0.0), largest) for count in observed),
        )

    def pool(
        self, values: NDArray[np.float64], groups: NDArray[np.int64], present: Present
    ) -> Estimate:
        """Counts of each group less its part of the total noise, which all counts together show."""
        import numpy as np

        from shuffledp_core.answering.margins import (
            pool_responses,
            subtract_noise,
            total_of_reports,
        )
        from shuffledp_core.bounds.node_noise import noise_of_nodes
        from shuffledp_core.bounds.pooled_noise import noise_given_total, pooled_law

        cells, users = groups.shape[1], int(present.reports)
        if cells == self.symbols:
            return total_of_reports(len(groups), present)
        added = self._noise(present.nodes).mean + float(users * self.blanket / self.symbols)
        counts = np.rint(values * float(1 - self.blanket) + added).astype(np.int64)
        spare = self.dummies - self.symbols * self.mean
        of_node = (self.noise_epsilon, self.mean, self.symbols, spare)
        total = int(counts.sum()) - users
        if self.blanket:
            noise = noise_of_nodes(pooled_law(*of_node, cells).laws, present.nodes)
            wide = pool_responses(counts, groups, present, self.blanket, noise)
            share = total * cells / self.symbols - noise.mean
            fitted = np.asarray(wide.values) - share / float(1 - self.blanket)
            return msgspec.structs.replace(wide, values=tuple(fitted.tolist()))
        noise = noise_given_total(*of_node, present.nodes, cells, total)
        ends = (noise.least, noise.most)
        sums = counts[groups].sum(axis=1)
        return subtract_noise(sums, present, (noise.mean, noise.deviation), ends)

    def _noise(self, nodes: int) -> NodeNoise:
        """The noise of `nodes` nodes together in one count."""
        from shuffledp_core.bounds.node_noise import conditional_law, noise_of_nodes

        law = conditional_law(self.noise_epsilon, self.mean, self.symbols, self.dummies)
        return noise_of_nodes(((1, law),), nodes)


def draw_counts(
    rate: Fraction, mean: int, cells: int, dummies: int, integers: RandomIntegers
) -> list[int]:
    """One node's numbers of dummies of each cell, then of "empty": the law of N2.

    Args:
        rate: ε of the noise in one count, in nats.
        mean: μ, number of dummies of a cell without noise.
        cells: how many cells there are.
        dummies: T, all dummies.
        integers: the randomness.
    """
    while True:
        counts = [mean + bounded_laplace(rate, mean, integers) for _ in range(cells)]
        empty = dummies - sum(counts)
        # All numbers again, not some: only then is the condition one on their sum (N2).
        if empty >= 0:
            return [*counts, empty]
