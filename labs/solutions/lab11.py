"""Reference solution of lab 11."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import factorial, prod
from typing import Any


def suspects(rounds: tuple[dict[str, Any], ...], symbol: int, senders: int) -> list[str]:
    """The users who are in every set of senders that explains the counts."""
    users = sorted({user for seen in rounds for user in seen["present"]})
    sets = [
        chosen
        for chosen in combinations(users, senders)
        if all(
            sum(user in seen["present"] for user in chosen) == seen["board"][symbol]
            for seen in rounds
        )
    ]
    return [user for user in users if all(user in chosen for chosen in sets)]


def multinomial(board: list[int], law: tuple[Fraction, ...]) -> Fraction:
    """Probability of a board of independent messages with the same law."""
    orders = factorial(sum(board)) // prod(factorial(count) for count in board)
    return orders * prod((q**count for q, count in zip(law, board, strict=True)), start=Fraction(1))


def chance(
    seen: dict[str, Any], victim: str, law: tuple[Fraction, ...], message: list[Fraction]
) -> Fraction:
    """Probability of a round's board, from the crowd's law and the law of the victim's message."""
    board = list(seen["board"])
    if victim not in seen["present"]:
        return multinomial(board, law)
    total = Fraction(0)
    for symbol, probability in enumerate(message):
        if board[symbol]:
            rest = list(board)
            rest[symbol] -= 1
            total += probability * multinomial(rest, law)
    return total


def guess(rounds: tuple[dict[str, Any], ...], victim: str, knowledge: dict[str, Any]) -> int:
    """The value with the largest posterior, if all laws of the crowd are equally likely."""
    prior, truth = knowledge["prior"], knowledge["truth"]
    values = range(len(prior))
    scores = []
    for value in values:
        other = (1 - truth) / (len(prior) - 1)
        message = [truth if symbol == value else other for symbol in values]
        total = Fraction(0)
        for law in knowledge["crowds"]:
            likelihood = Fraction(1)
            for seen in rounds:
                likelihood *= chance(seen, victim, law, message)
            total += likelihood
        scores.append(prior[value] * total)
    return scores.index(max(scores))


def answer(spec: dict[str, Any], value: int | None, coins: Any) -> int:
    """k-RR over the values and "nothing", the symbol of a device without a value."""
    nothing = int(spec["symbols"])
    if value is not None and not 0 <= value < nothing:
        raise ValueError(f"{value} is not a value from 0 to {nothing - 1}")
    symbol = nothing if value is None else value
    if coins.flip(spec["odds"] / (spec["odds"] + nothing)):
        return symbol
    other = int(coins.below(nothing))
    return other if other < symbol else other + 1


def estimate(board: tuple[int, ...], spec: dict[str, Any]) -> list[Fraction]:
    """Subtract the expected count from users with other symbols, and rescale."""
    symbols, odds = spec["symbols"], spec["odds"]
    low = 1 / (odds + symbols)
    high = odds * low
    return [(count - sum(board) * low) / (high - low) for count in board[:symbols]]


def variance(symbols: int, odds: Fraction, holders: int, others: int) -> Fraction:
    """Variance of an unbiased count by k-RR; `others` users hold other symbols."""
    low = 1 / (odds + symbols - 1)
    high = odds * low
    return (holders * high * (1 - high) + others * low * (1 - low)) / (high - low) ** 2


def price(spec: dict[str, Any], counts: tuple[int, ...], silent: int) -> tuple[Fraction, Fraction]:
    """Factors by which cover multiplies the messages and the variance."""
    symbols, odds, users = spec["symbols"], spec["odds"], sum(counts)
    holders, others = counts[0], users - counts[0]
    with_cover = variance(symbols + 1, odds, holders, others + silent)
    without = variance(symbols, odds, holders, others)
    return Fraction(users + silent, users), with_cover / without
