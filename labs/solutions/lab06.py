"""Reference solution of lab 6.

The adversary removes what it knows; the rest is Bayes' rule and a bisection.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any


def submissions(plan: dict[str, Any]) -> tuple[int, ...]:
    """Zeros for all accounts, so that these messages on the board are known."""
    return (0,) * int(plan["accounts"])


def guess(plan: dict[str, Any], board: tuple[int, ...], mine: tuple[int, ...]) -> int:
    """The value with the largest posterior: each other message is the victim's with equal chance.

    Each message counts with the posterior of its sender.
    """
    symbols, p, prior = plan["symbols"], plan["p"], plan["prior"]
    q = (1 - p) / (symbols - 1)
    left = [count - mine.count(symbol) for symbol, count in enumerate(board)]
    total = [prior[symbol] * p + (1 - prior[symbol]) * q for symbol in range(symbols)]
    scores = [
        prior[value]
        * sum(
            left[symbol] * (p if symbol == value else q) / total[symbol]
            for symbol in range(symbols)
        )
        for value in range(symbols)
    ]
    return scores.index(max(scores))


def most_colluding(certified: Callable[[int], float], users: int, epsilon: float) -> int | None:
    """Bisection: with fewer honest users the certified ε never gets smaller."""
    if certified(users) > epsilon:
        return None
    good, bad = 0, users
    while bad - good > 1:
        middle = (good + bad) // 2
        if certified(users - middle) <= epsilon:
            good = middle
        else:
            bad = middle
    return good


def accept(manifest: dict[str, Any], limits: dict[str, Any]) -> bool:
    """Accept if everything is within the limits; a missing number is no bound."""
    margin = manifest["users"] - manifest["honest"]
    epsilon, local = (
        math.inf if manifest[name] is None else manifest[name]
        for name in ("epsilon", "epsilon_corrupted")
    )
    return bool(
        epsilon <= limits["epsilon"]
        and manifest["delta"] <= limits["delta"]
        and local <= limits["epsilon_corrupted"]
        and len(set(manifest["operators"])) >= limits["operators"]
        and (limits["allow_corrupt"] or not manifest["corrupt"])
        and margin >= limits["min_colluding"]
        and margin / manifest["users"] >= limits["min_colluding_share"]
    )


def noise_plan(expected: int, stays: Fraction, colluding: int) -> tuple[int, int]:
    """Plan for the reports that surely arrive, with noise shared among the honest ones."""
    return math.floor(expected * stays), colluding


def crowd(situation: dict[str, Any]) -> int:
    """Least crowd: a corrupt node 1 keeps out everyone whom the round does not need.

    Verified, all it can bring are enrolled accounts.
    """
    if "honest" not in situation["nodes"]:
        return 0
    if situation["nodes"][0] == "honest":
        return int(situation["people"])
    if situation["mix"] == "plain":
        return 1
    return int(max(1, situation["min_reports"] - situation["accounts"]))
