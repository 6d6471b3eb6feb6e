"""Step B of lab 5: the best guess from independent answers of different reliability."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import product
from math import comb, prod

from shuffledp_labs.instance import Draws

Day = tuple[int, Fraction]
"""An answer, and the probability that it is the truth."""

STRONGEST = Fraction(19, 20)
"""How often the one good answer is the truth: it outweighs two of the others, and not eight of
them.
"""


def likelihood(value: int, days: Sequence[Day]) -> Fraction:
    """Probability of these answers from a user who holds `value`."""
    return prod(
        (truth if answer == value else 1 - truth for answer, truth in days), start=Fraction(1)
    )


def histories(truths: Sequence[Fraction]) -> Iterator[tuple[Day, ...]]:
    """Yield all 2^T histories of T answers."""
    for answers in product((0, 1), repeat=len(truths)):
        yield tuple(zip(answers, truths, strict=True))


def success(truths: Sequence[Fraction], guess: Callable[[tuple[Day, ...]], int]) -> Fraction:
    """Exact probability that `guess` is right, if 0 and 1 are equally likely."""
    return sum((likelihood(guess(days), days) for days in histories(truths)), start=Fraction(0)) / 2


def best_success(truths: Sequence[Fraction]) -> Fraction:
    """The largest possible probability of a right guess: always the likelier value."""
    both = ((likelihood(0, days), likelihood(1, days)) for days in histories(truths))
    return sum((max(pair) for pair in both), start=Fraction(0)) / 2


def majority_success(truth: Fraction, days: int) -> Fraction:
    """Probability that the majority of an odd number of equally reliable answers is right."""
    right = range(days // 2 + 1, days + 1)
    return sum(
        (comb(days, k) * truth**k * (1 - truth) ** (days - k) for k in right), start=Fraction(0)
    )


def one_sided_halves(draws: Draws, days: int, value: int, *, strong_first: bool) -> tuple[Day, ...]:
    """A history with one half of answers for `value`, and a less reliable half against it."""
    half = days // 2
    weak = [(1 - value, Fraction(draws.integer(11, 12), 20)) for _ in range(half)]
    strong = [(value, Fraction(draws.integer(13, 14), 20)) for _ in range(days - half)]
    return tuple([*strong, *weak] if strong_first else [*weak, *strong])


def draw_truths(draws: Draws, days: int) -> tuple[Fraction, ...]:
    """Draw reliabilities for which counting votes is not optimal.

    One good answer outweighs two poor ones.
    """
    weak = [Fraction(draws.integer(12, 14), 20) for _ in range(days - 1)]
    return tuple(draws.permute([*weak, STRONGEST]))
