"""Split-mix: shares of one discrete Laplace noise, each noisy value split into random numbers.

The numbers add up to the noisy value.

Balle, Bell, Gascón and Nissim 2020 and Ghazi et al. 2020, after Ishai et al. 2006. Notation:
docs/accounting.md, S19.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

from shuffledp_core.answering.estimates import Estimate, Present, sum_with_noise
from shuffledp_core.bounds.local import noisy_report
from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms.base import (
    SumSpec,
    check_rational,
    check_whole,
)
from shuffledp_core.mechanisms.work import shared_noise_steps
from shuffledp_core.sampling.exact import sgdl
from shuffledp_core.sampling.randomness import RandomIntegers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from shuffledp_core.answering.estimates import Counts
    from shuffledp_core.bounds.lower import Witness
    from shuffledp_core.sampling.arrays import RandomArrays

MAX_MODULUS: Final = 2**31
"""Largest modulus: symbols are written in at most four bytes."""

MAX_PIECES: Final = 100_000
"""Most pieces of a value; a crowd of three needs fewer at any modulus."""

WRAPPED: Final = 2.0**-40
"""Most probability that honest noise leads past the modulus, which no estimate would show."""


class SplitMix(SumSpec, frozen=True, kw_only=True, tag="split-mix"):
    """A noisy value, sent as `pieces` numbers that add up to it modulo q.

    The user adds its share of a noise, as in `SGDLShuffle`.

    y = x + N mod M, M = modulus, N = A - B with A, B ~ NB(1/shares, 1-φ) independent, φ =
    exp(-noise_epsilon). All pieces but the last are uniform on {0..q-1}, and the last is the
    difference to y. So any m - 1 of them are uniform and independent, and shuffled with those of
    other users they reveal only the sum. A single lost, repeated or altered message destroys the
    sum, and a single lying user can move it anywhere.
    """

    kind: ClassVar[str] = "split-mix"
    summary: ClassVar[str] = (
        "Sums with one discrete Laplace noise made in shares, each value split into few random "
        "pieces, shuffled (Balle et al. 2020)."
    )
    bears_losses: ClassVar[bool] = False
    noise_alone: ClassVar[bool] = False
    noise_epsilon: Annotated[Fraction, "ε of all shares of the noise together, in nats per unit."]
    shares: Annotated[int, "Honest users who make one noise."]
    modulus: Annotated[int, "q: sums are taken modulo q."]
    pieces: Annotated[int, "m, messages that a value is split into."]

    def __post_init__(self) -> None:
        check_whole("max_value", self.max_value, 1)
        check_rational("noise_epsilon", self.noise_epsilon)
        check_whole("shares", self.shares, 1)
        check_whole("modulus", self.modulus, self.max_value + 1, MAX_MODULUS)
        check_whole("pieces", self.pieces, 2, MAX_PIECES)

    @property
    def messages_per_user(self) -> int:
        """Number of messages of each user: m pieces."""
        return self.pieces

    @property
    def noise_steps(self) -> Fraction:
        """Mean number of steps of drawing one user's share of noise: two Pólya urns."""
        return shared_noise_steps(self.noise_epsilon)

    @property
    def alphabet(self) -> int:
        """Number of symbols, q: a piece is any number modulo q."""
        return self.modulus

    @property
    def largest_answer(self) -> int:
        """Largest answer, q - 1: answers are noisy values modulo q."""
        return self.modulus - 1

    def sample(self, value: int, integers: RandomIntegers) -> int:
        """The value with a share of noise, modulo q."""
        return (value + sgdl(self.noise_epsilon, self.shares, integers)) % self.modulus

    def sample_all(self, values: NDArray[np.int64], arrays: RandomArrays) -> NDArray[np.int64]:
        """Vectorised `sample`; noise that may exceed machine words is drawn one by one."""
        from shuffledp_core.sampling import bulk

        if self.noise_epsilon < bulk.LEAST_EPSILON:
            return super().sample_all(values, arrays)
        noise = bulk.sgdl(self.noise_epsilon, self.shares, values.size, arrays)
        return (values + noise) % self.modulus

    def say(self, answer: int, integers: RandomIntegers) -> Sequence[int]:
        """m - 1 uniform numbers and the rest of the answer modulo q: uniform given their sum."""
        if not 0 <= answer < self.modulus:
            raise ValueError(f"an answer must be from 0 to {self.modulus - 1}")
        drawn = [integers.below(self.modulus) for _ in range(self.pieces - 1)]
        return [*drawn, (answer - sum(drawn)) % self.modulus]

    def answers_of_sums(self, sums: NDArray[np.int64]) -> NDArray[np.int64]:
        """The sums modulo q."""
        return sums % self.modulus

    @property
    def cells(self) -> int:
        """2: the number of messages, and their sum modulo q; all else on a board is uniform."""
        return 2

    def counts_of(self, symbols: NDArray[np.int64]) -> NDArray[np.int64]:
        """The number of messages, and their sum modulo q."""
        import numpy as np

        # Below 2^31 each, so that 2^32 messages fit; a round has no more than memory.
        return np.array(
            [symbols.size, int(symbols.sum(dtype=np.uint64)) % self.modulus], dtype=np.int64
        )

    def messages_of(self, counts: Counts) -> int:
        """Number of messages, the first of the counts."""
        return int(counts[0])

    def count(self, answers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Numbers of messages and their sums modulo q, shape (rounds, 2), without the pieces."""
        import numpy as np

        sums = answers.sum(axis=1) % self.modulus
        return np.stack([np.full(len(answers), answers.shape[1] * self.pieces), sums], axis=1)

    def local_epsilon(self, distance: int) -> float:
        """ln P(N=0)/P(N=d) of one share: a user's pieces reveal value plus noise (S8, S19)."""
        return noisy_report(self.noise_epsilon, self.shares, distance)

    def witness(self, honest: int, distance: int) -> Witness:
        """The sum modulo q, if all other users hold 0."""
        from shuffledp_core.bounds.lower import ShiftedNoise

        rate = float(self.noise_epsilon)
        return ShiftedNoise(honest / self.shares, rate, distance, 0.0, self.modulus)

    def check_room(self, users: int) -> None:
        """Raises `UsageError` if the sum of this number of users may wrap around the modulus."""
        if (
            need := least_modulus(self.max_value, self.noise_epsilon, self.shares, users)
        ) > self.modulus:
            raise UsageError(
                f"the modulus, {self.modulus}, is too small for the sum of {users} values up to "
                f"{self.max_value} with its noise: it must be at least {need}"
            )

    def largest_shift(self, liars: int) -> Fraction:
        """The whole modulus, even for one device, because a piece can be any number modulo q."""
        return Fraction(self.modulus - 1 if liars else 0)

    def estimate(self, counts: Counts, present: Present) -> Estimate:
        """The sum modulo q, represented by the number nearest to the possible sums of n values.

        The noise has shape n/shares.

        Raises:
            UsageError: the modulus is too small for this number of users.
        """
        users = present.reports
        self.check_room(int(users))
        below = (self.modulus - 1 - int(users) * self.max_value) // 2
        total = (int(counts[1]) + below) % self.modulus - below
        return sum_with_noise(
            Fraction(total),
            users,
            self.max_value,
            float(users / self.shares),
            float(self.noise_epsilon),
        )


def least_modulus(max_value: int, noise_epsilon: Fraction, shares: int, users: int) -> int:
    """The smallest modulus at which the noisy sum wraps with probability at most `WRAPPED`.

    n k + 1 sums without noise, and on each side as much as the noise exceeds with that probability
    (Chernoff's bound).
    """
    from shuffledp_core.bounds.noise import chernoff_half_width

    reach = chernoff_half_width(users / shares, float(noise_epsilon), WRAPPED)
    return users * max_value + 1 + 2 * reach
