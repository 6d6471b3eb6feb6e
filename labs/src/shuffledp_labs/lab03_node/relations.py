"""Tests whether a node's output order follows from its input order. Pure.

An order is a list of input places: `order[j]` is where the message stood that left as number j.
When the assignment of messages to places is uniform and unknown to the node, every node whose
output law does not depend on it has a uniform order, whether it shuffles or sorts. All bounds below
are for uniform orders, independent between runs.

Revealed one after another, the next entry of a uniform order is uniform among the places that are
left. So the number of entries that a rule foretells is stochastically at most a sum of independent
events with probability 1 / (places left). Rules are tested on the first half of an order, where
these probabilities are small.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import TypeAlias

Order: TypeAlias = Sequence[int]


def find_relation(orders: Sequence[Order], chance: float) -> str:
    """Describe a relation between output and input order; "" if none is found.

    Args:
        orders: orders of one length, at least two.
        chance: bound on the probability that independent uniform orders are reported.

    Returns:
        What was found, in words: a step from each output to the next that is the same too often (an
            order kept, turned
        round, rotated or taken in strides), or a second run like the first (any other fixed
        relation, also rotated).
    """
    tests = (_same_step, _like_the_first, _steps_of_the_first)
    return next((relation for test in tests if (relation := test(orders, chance / len(tests)))), "")


def _same_step(orders: Sequence[Order], chance: float) -> str:
    count = len(orders[0])
    steps = Counter(step for order in orders for step in _steps(order))
    step, times = max(steps.items(), key=lambda item: item[1], default=(0, 0))
    least = threshold(
        len(orders) * [1 / Fraction(count - 1 - at) for at in range(count // 2)], chance / count
    )
    if times < least:
        return ""
    return (
        f"{times} of {len(orders) * (count // 2)} times the next message had stood {step} places "
        "further on"
    )


def _like_the_first(orders: Sequence[Order], chance: float) -> str:
    count = len(orders[0])
    half = len(orders[0]) // 2
    tries = count * max(1, len(orders) - 1)
    least = threshold([1 / Fraction(count - at) for at in range(half)], chance / tries)
    for order in orders[1:]:
        for shift in range(count):
            alike = sum(order[at] == orders[0][(at + shift) % count] for at in range(half))
            if alike >= least:
                return f"two batches left in orders that are alike in {alike} of {half} places"
    return ""


def _steps_of_the_first(orders: Sequence[Order], chance: float) -> str:
    count = len(orders[0])
    half = len(orders[0]) // 2
    least = threshold(
        [1 / Fraction(count - 1 - at) for at in range(half)], chance / max(1, len(orders) - 1)
    )
    for order in orders[1:]:
        alike = sum(
            step == first_step
            for step, first_step in zip(_steps(order), _steps(orders[0]), strict=True)
        )
        if alike >= least:
            return f"two batches left in orders whose steps are alike {alike} of {half} times"
    return ""


def _steps(order: Order) -> list[int]:
    """Differences of successive outputs modulo their number, in the first half of the order."""
    return [(order[at + 1] - order[at]) % len(order) for at in range(len(order) // 2)]


def threshold(probabilities: Sequence[Fraction], chance: float) -> int:
    """Least count that a sum of independent events reaches with probability <= `chance`.

    One more than the number of events where no number is rare enough. Floats; the sum of positive
    terms is exact to about 1e-13 of itself.
    """
    law = [1.0]
    for probability in map(float, probabilities):
        rises = [0.0, *(mass * probability for mass in law)]
        stays = [*(mass * (1 - probability) for mass in law), 0.0]
        law = [up + same for up, same in zip(rises, stays, strict=True)]
    tail, number = 0.0, len(law)
    while number > 0 and tail + law[number - 1] <= chance:
        number -= 1
        tail += law[number]
    return number
