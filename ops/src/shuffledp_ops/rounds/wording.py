"""A round in sentences: what was asked, what is guaranteed, and while what holds. Pure, plain text.

Numbers err towards caution: a factor is rounded up.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal
from typing import Final

from shuffledp_core.documents.models import Certificate
from shuffledp_core.privacy import Adjacency
from shuffledp_ops.rounds.report import RoundReport

LARGEST_FACTOR: Final = 1e6
"""Beyond it a factor says nothing to anybody."""

_UP: Final = Context(prec=3, rounding=ROUND_CEILING)


def question(report: RoundReport) -> str:
    """What was asked, of whom."""
    of = f" of “{report.column}”" if report.column else ""
    largest = report.final.mechanism.domain - 1
    if report.is_sum:
        return f"What is the sum{of} over all people, and the mean? Each holds a whole number from 0 to {largest:,}."
    values = f"There are {largest + 1:,}" if report.labels else f"Values are whole numbers from 0 to {largest:,}"
    return f"How many people hold each value{of}? {values}."


def promise(final: Certificate) -> str:
    """What is guaranteed while a node is honest, in one sentence."""
    if final.epsilon.certified is None:
        return "For this round no finite guarantee is known, even while a node is honest."
    return (
        f"While one of the {final.nodes:,} nodes is honest, whatever anybody concludes about a person from this round "
        f"is {_compared(final.epsilon.certified, final)}{_plus(final.delta)}."
    )


def promise_without_nodes(final: Certificate) -> str:
    """What is left when every node is corrupt, in one sentence."""
    local = final.corrupted
    if local.epsilon is None:
        return "When every node is corrupt nothing is left: then the others' noise no longer protects anybody."
    return (
        "When every node is corrupt, what is left is the noise that each device adds by itself: then it is "
        f"{_compared(local.epsilon, final)}{_plus(local.delta)}."
    )


def honest(final: Certificate) -> tuple[str, ...]:
    """Who had to be honest for the first promise; one line each."""
    route = ", ".join(final.route)
    made_up = f"or be made up by {final.route[0]}, which takes them in"
    if final.verified:
        made_up = "each with a credential: no node can make anybody up, nor leave out or exchange whom the list names"
    return (
        f"one of the {final.nodes:,} nodes, whichever it is: {route}",
        f"the people behind {final.honest:,} of the {final.users:,} reports; the other {final.users - final.honest:,} "
        f"may come from whoever is curious, {made_up}",
        "nobody else: neither the analyst nor the accountant needs to be trusted with anybody's value",
    )


def _compared(epsilon: float, final: Certificate) -> str:
    reach, most = final.mechanism.domain - 1, f"at most {factor(epsilon)} times as likely as it would be"
    if final.adjacency is Adjacency.METRIC:
        units = f", and so on by the same factor for each unit up to {final.max_distance:,}"
        return f"{most} had the person held a value 1 away{'' if final.max_distance == 1 else units}"
    other = "any other value" if final.max_distance >= reach else f"a value up to {final.max_distance:,} away"
    return f"{most} had the person held {other}"


def factor(epsilon: float) -> str:
    """exp(ε) rounded up to three digits; beyond a million, as a power."""
    if epsilon > math.log(LARGEST_FACTOR):
        return f"e^{_UP.create_decimal(Decimal(epsilon)):f}"
    # exp may err in the last digit: one more above, and no factor is too small.
    return f"{_UP.create_decimal(Decimal(math.nextafter(math.exp(epsilon), math.inf))):,f}"


def _plus(delta: float) -> str:
    if delta == 0:
        return ""
    inverse = 1 / delta
    plain = abs(inverse - round(inverse)) < 1e-6 * inverse
    return f", plus a chance of {f'1 in {round(inverse):,}' if plain else f'{delta:g}'}"
