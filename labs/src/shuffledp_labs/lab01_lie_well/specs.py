"""The three mechanisms of lab 1: their exact laws, from the handout's definitions.

shuffledp's samplers are not used: the tests hold the two against each other.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Final, TypeAlias

from shuffledp_labs.instance import Draws

Spec: TypeAlias = dict[str, Any]
Law: TypeAlias = dict[int, Fraction]

KINDS: Final = ("krr", "bits", "mean")
CONFIDENCE: Final = Fraction(19, 20)


def draw_spec(
    draws: Draws, kind: str, low: Fraction = Fraction(1, 10), high: Fraction = Fraction(9, 10)
) -> Spec:
    """A spec of one kind with drawn parameters."""
    blanket = draws.fraction(low, high, draws.integer(30, 60))
    if kind == "krr":
        symbols = draws.integer(3, 6)
        return {
            "mechanism": kind,
            "symbols": symbols,
            "blanket": blanket,
            "asked": draws.below(symbols),
        }
    return {"mechanism": kind, "max_value": draws.integer(2, 4), "blanket": blanket}


def domain(spec: Spec) -> range:
    """The values that people can hold."""
    return range(spec["symbols"] if spec["mechanism"] == "krr" else spec["max_value"] + 1)


def answers(spec: Spec) -> range:
    """The answers that people can give."""
    return range(2) if spec["mechanism"] == "mean" else domain(spec)


def law(spec: Spec, value: int) -> Law:
    """The distribution of the answer of a person who holds `value`."""
    blanket: Fraction = spec["blanket"]
    if spec["mechanism"] == "krr":
        return {
            answer: blanket / spec["symbols"] + (1 - blanket) * (answer == value)
            for answer in domain(spec)
        }
    if spec["mechanism"] == "mean":
        probability_of_one = blanket / 2 + (1 - blanket) * Fraction(value, spec["max_value"])
        return {0: 1 - probability_of_one, 1: probability_of_one}
    of: Law = {0: Fraction(1)}
    for index in range(spec["max_value"]):
        probability_of_one = 1 - blanket / 2 if index < value else blanket / 2
        of = {
            total: of.get(total, Fraction(0)) * (1 - probability_of_one)
            + of.get(total - 1, Fraction(0)) * probability_of_one
            for total in range(index + 2)
        }
    return of


def truth(spec: Spec, values: Sequence[int]) -> Fraction:
    """The quantity to estimate: holders of the asked symbol, the sum, or the mean."""
    if spec["mechanism"] == "krr":
        return Fraction(sum(value == spec["asked"] for value in values))
    return Fraction(sum(values), len(values) if spec["mechanism"] == "mean" else 1)


def hoeffding(spec: Spec, people: int) -> float:
    """Half-width of Hoeffding's interval at confidence .95."""
    coins = people * (spec["max_value"] if spec["mechanism"] == "bits" else 1)
    scale = spec["max_value"] / people if spec["mechanism"] == "mean" else 1.0
    return (
        scale * math.sqrt(coins * math.log(2 / (1 - CONFIDENCE)) / 2) / float(1 - spec["blanket"])
    )


def outcomes(spec: Spec, values: Sequence[int]) -> list[tuple[tuple[int, ...], Fraction]]:
    """All combinations of answers of people with these values, with their probabilities."""
    laws = [law(spec, value) for value in values]
    return [
        (
            given,
            math.prod(
                (law_of_person[answer] for law_of_person, answer in zip(laws, given, strict=True)),
                start=Fraction(1),
            ),
        )
        for given in itertools.product(answers(spec), repeat=len(values))
    ]


def likeliest(spec: Spec, answer: int, prior: Sequence[Fraction]) -> list[int]:
    """The values with the largest posterior; more than one only in a tie."""
    joint = [prior[value] * law(spec, value)[answer] for value in domain(spec)]
    return [value for value, weight in enumerate(joint) if weight == max(joint)]


def describe_spec(spec: Spec) -> str:
    """A spec in words, for messages."""
    size = (
        f"{spec['symbols']} symbols"
        if spec["mechanism"] == "krr"
        else f"largest value {spec['max_value']}"
    )
    symbol_text = f", asked {spec['asked']}" if "asked" in spec else ""
    return f"{spec['mechanism']} with {size}, blanket {spec['blanket']}{symbol_text}"
