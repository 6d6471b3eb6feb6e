"""Lab 1, "Lie well": fill in the functions. Keep their names; add as many of your own as you like.

A spec is a dict:
    {"mechanism": "krr",  "symbols": k,   "blanket": Fraction, "asked": symbol}
        values 0..k-1, answers 0..k-1
    {"mechanism": "bits", "max_value": k, "blanket": Fraction}
        values 0..k, answers 0..k
    {"mechanism": "mean", "max_value": m, "blanket": Fraction}
        values 0..m, answers 0, 1
"""

from fractions import Fraction
from typing import Any


def randomise(spec: dict[str, Any], value: int, coins: Any) -> int:
    """Step B: the answer of a person who holds `value`.

    Raise ValueError for a value outside the domain.

    All randomness comes from `coins`: coins.below(n) is uniform on 0..n-1, coins.flip(p) is True
    with probability p, a Fraction.
    """
    raise NotImplementedError


def estimate(spec: dict[str, Any], answers: list[int]) -> Fraction:
    """Step C: an unbiased estimate from all answers.

    It is the number of people who hold spec["asked"] (krr), the sum (bits), or the mean (mean).
    """
    raise NotImplementedError


def interval(spec: dict[str, Any], answers: list[int]) -> tuple[float, float]:
    """Step C: two numbers that contain the truth with probability at least .95 for any values."""
    raise NotImplementedError


def guess(spec: dict[str, Any], answer: int, prior: list[Fraction]) -> int:
    """Step D: the likeliest value of a person who gave this answer.

    prior[v] is the probability of v beforehand.
    """
    raise NotImplementedError
