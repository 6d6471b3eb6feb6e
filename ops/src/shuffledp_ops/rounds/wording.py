"""A round in sentences: the question, the guarantee and its assumptions. Pure, plain text.

Numbers err on the side of caution: factors are rounded up.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal
from typing import Final

import numpy as np

from shuffledp_core.documents.models import Certificate
from shuffledp_core.mechanisms import SumSpec
from shuffledp_core.privacy import Adjacency
from shuffledp_ops.rounds.report import RoundReport

LARGEST_FACTOR: Final = 1e6
"""Larger factors are written as powers of e."""

_UP: Final = Context(prec=3, rounding=ROUND_CEILING)


def question(report: RoundReport) -> str:
    """The question and its possible values, in the words of the certificate if it has any."""
    words = report.final.question_wording
    if words is not None:
        possible = "; ".join(
            f"{axis.field}: {axis.symbols.describe(axis.unit)}" for axis in words.axes
        )
        possible += "".join(f"; only for {condition.describe()}" for condition in words.where)
        if words.others:
            possible += f"; all others: {words.others}"
        return f"{words.text} ({words.id}; {possible}.)"
    of = f" of “{report.column}”" if report.column else ""
    largest = report.final.mechanism.domain - 1
    if report.is_sum:
        return (
            f"What is the sum{of} over all people, and the mean? Each holds a whole number from "
            f"0 to {largest:,}."
        )
    values = (
        f"There are {largest + 1:,}"
        if report.labels
        else f"Values are whole numbers from 0 to {largest:,}"
    )
    if report.final.mechanism.for_ranges:
        return f"How are the values{of} distributed over all people? {values}."
    return f"How many people hold each value{of}? {values}."


def promise(final: Certificate) -> str:
    """The guarantee while at least one node is honest, in one sentence."""
    if final.epsilon.certified is None:
        return "No finite guarantee is known for this round, even if a node is honest."
    likelihood = _likelihood(final.epsilon.certified, final, "any outcome of this round")
    return (
        f"While at least one of the {final.nodes:,} nodes is honest, "
        f"{likelihood}{_apart(final.delta)}."
    )


def promise_without_nodes(final: Certificate) -> str:
    """The guarantee that remains if every node is corrupt, in one sentence."""
    local = final.corrupted
    if local.epsilon is None:
        return (
            "If every node is corrupt no guarantee remains: only the noise of others protected "
            "each person."
        )
    likelihood = _likelihood(local.epsilon, final, "anything that the device sends")
    return (
        "If every node is corrupt, only the noise that a device adds itself protects its value: "
        f"then {likelihood}{_apart(local.delta)}."
    )


def honest(final: Certificate) -> tuple[str, ...]:
    """The trust assumptions of `promise`, one per line."""
    route = ", ".join(final.route)
    others = f"or be fabricated by {final.route[0]}, which accepts submissions"
    if final.verified:
        others = (
            "each with a credential: no node can fabricate reports, or omit or replace those of "
            "listed people"
        )
    one_node = f"at least one of the {final.nodes:,} nodes, no matter which: {route}"
    no_party = (
        "no other party: neither the analyst nor the accountant is trusted with anyone's value"
    )
    if not final.mechanism.needs_crowd:
        return (
            one_node,
            "no honest people needed: all other reports may be made up, repeated or missing",
            no_party,
        )
    return (
        one_node,
        f"the senders of {final.honest:,} of the {final.users:,} reports; the other "
        f"{final.users - final.honest:,} may come from colluding people, {others}",
        no_party,
    )


def noise_of_nodes(report: RoundReport) -> tuple[str, ...]:
    """Describe the nodes' noise, and how a corrupt node can bias the answer; () without noise."""
    mechanism = report.final.mechanism
    dummies = mechanism.dummies_per_node
    if not dummies:
        return ()
    what = "each count"
    shift = float(dummies)
    unit = f" {report.unit}".rstrip()
    step = 1.0 if report.scale is None else float(report.scale.step)
    if isinstance(mechanism, SumSpec):
        what = "the sum"
        # A corrupt node may make every dummy a one of the highest digit.
        shift *= step * int(mechanism.weigh(np.arange(mechanism.alphabet)).max())
    return (
        f"Noise: each of the {report.final.nodes:,} nodes added {dummies:,} dummies. The noise of "
        f"one honest node has a standard deviation of {step * mechanism.node_noise:.3g}{unit} in "
        f"{what}; that of all nodes together, {max(report.answer.standard_errors):.3g}{unit}.",
        f"By its choice of dummies a corrupt node can change {what} by at most "
        f"{shift:,.12g}{unit}, and can weaken no one's privacy. {_others_dummies(report)}",
    )


def liars(report: RoundReport) -> tuple[str, ...]:
    """Describe how far devices that send false messages can move the answer."""
    shift = report.largest_shift(1)
    if shift is None:
        return ()
    what = "the sum" if report.is_sum else "each count"
    if report.table is not None:
        what = "each cell and each sum of the table"
    unit = f" {report.unit}".rstrip()
    words = f"A device that lies can move {what} by at most {_rounded_up(shift)}{unit}"
    if report.distribution is not None:
        percent = 100 * report.distribution.largest_shift(1) / report.accepted
        words += (
            f", and the share of people up to any value by at most {_rounded_up(percent)} "
            "percentage points"
        )
    if not report.final.mechanism.needs_crowd:  # the guarantee allows for any number
        return (f"{words}, and k of them by at most k times as much.",)
    number = report.assumed_liars
    together = report.largest_shift(number)
    if number > 1 and together is not None:
        words += (
            f"; {number:,} of them, as many as the guarantee allows for, by at most "
            f"{_rounded_up(together)}{unit}"
        )
        if report.is_sum:
            mean = _rounded_up(together / report.counted_reports)
            words += f", which is {mean}{unit} of the mean"
    return (f"{words}.",)


def _rounded_up(number: float) -> str:
    return f"{_UP.create_decimal(Decimal(number)):,f}"


def _others_dummies(report: RoundReport) -> str:
    if report.final.verified:
        return "It cannot leave out or exchange dummies of other nodes: the mixing is verified."
    # Senders look for their messages on the board; for dummies no one does.
    return (
        "It can also exchange dummies of other nodes for its own, which only verified mixing "
        "excludes; people notice if a message of theirs is exchanged."
    )


def _likelihood(epsilon: float, final: Certificate, outcome: str) -> str:
    likely = f"makes {outcome} at most {factor(epsilon)} times as likely"
    if final.adjacency is Adjacency.METRIC:
        further = f", with the same factor again for each further unit up to {final.max_distance:,}"
        units = "" if final.max_distance == 1 else further
        return f"changing one person's value by 1 {likely}{units}"
    whole_domain = final.max_distance >= final.mechanism.domain - 1
    change = "" if whole_domain else f" by at most {final.max_distance:,}"
    return f"changing one person's value{change} {likely}"


def factor(epsilon: float) -> str:
    """Format exp(ε), rounded up to three digits; beyond a million, as a power of e."""
    if epsilon > math.log(LARGEST_FACTOR):
        return f"e^{_UP.create_decimal(Decimal(epsilon)):f}"
    # exp may err in the last digit: one more above, and no factor is too small.
    return f"{_UP.create_decimal(Decimal(math.nextafter(math.exp(epsilon), math.inf))):,f}"


def _apart(delta: float) -> str:
    if delta == 0:
        return ""
    inverse = 1 / delta
    plain = abs(inverse - round(inverse)) < 1e-6 * inverse
    return f", apart from a probability of {f'1 in {round(inverse):,}' if plain else f'{delta:g}'}"
