"""Lab 1: a solution."""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any


def randomise(spec: dict[str, Any], value: int, coins: Any) -> int:
    size = spec["symbols"] if spec["mechanism"] == "krr" else spec["max_value"] + 1
    if value not in range(size):
        raise ValueError(f"the value must be from 0 to {size - 1}")
    if spec["mechanism"] == "krr":
        return coins.below(size) if coins.flip(spec["blanket"]) else value
    if spec["mechanism"] == "mean":
        honest = Fraction(value, spec["max_value"])
        return coins.below(2) if coins.flip(spec["blanket"]) else int(coins.flip(honest))
    bits = [int(index < value) for index in range(spec["max_value"])]
    return sum(coins.below(2) if coins.flip(spec["blanket"]) else bit for bit in bits)


def chance_of_one(spec: dict[str, Any]) -> Fraction:
    """Probability that noise alone counts a person as a one, for k-RR under any symbol."""
    return Fraction(spec["blanket"]) / (spec["symbols"] if spec["mechanism"] == "krr" else 2)


def coins_of(spec: dict[str, Any], people: int) -> int:
    return people * (spec["max_value"] if spec["mechanism"] == "bits" else 1)


def estimate(spec: dict[str, Any], answers: Sequence[int]) -> Fraction:
    ones = (
        sum(answer == spec["asked"] for answer in answers)
        if spec["mechanism"] == "krr"
        else sum(answers)
    )
    total = (ones - coins_of(spec, len(answers)) * chance_of_one(spec)) / (1 - spec["blanket"])
    return Fraction(
        total * spec["max_value"] / len(answers) if spec["mechanism"] == "mean" else total
    )


def interval(spec: dict[str, Any], answers: Sequence[int]) -> tuple[float, float]:
    people = len(answers)
    half = math.sqrt(coins_of(spec, people) * math.log(40) / 2) / float(1 - spec["blanket"])
    if spec["mechanism"] == "mean":
        half *= spec["max_value"] / people
    middle = float(estimate(spec, answers))
    return middle - half, middle + half


def binomial(trials: int, hits: int, chance: Fraction) -> Fraction:
    if not 0 <= hits <= trials:
        return Fraction(0)
    return Fraction(math.comb(trials, hits)) * chance**hits * (1 - chance) ** (trials - hits)


def probability(spec: dict[str, Any], value: int, answer: int) -> Fraction:
    blanket = Fraction(spec["blanket"])
    if spec["mechanism"] == "krr":
        return blanket / int(spec["symbols"]) + (1 - blanket if answer == value else 0)
    if spec["mechanism"] == "mean":
        chance = blanket / 2 + (1 - blanket) * Fraction(value, spec["max_value"])
        return chance if answer else 1 - chance
    # `lost` of the ones turn, and so do as many zeros as the answer then needs.
    size = spec["max_value"]
    return sum(
        (
            binomial(value, lost, blanket / 2)
            * binomial(size - value, answer - value + lost, blanket / 2)
            for lost in range(value + 1)
        ),
        Fraction(0),
    )


def guess(spec: dict[str, Any], answer: int, prior: Sequence[Fraction]) -> int:
    return max(range(len(prior)), key=lambda value: prior[value] * probability(spec, value, answer))
