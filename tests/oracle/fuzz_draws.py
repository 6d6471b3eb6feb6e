"""What the cases of `make fuzz` draw: users, δ and probabilities."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

Numbers = np.random.Generator


class Extremes(np.random.Generator):
    """Random numbers that stand for extreme cases: few users, probabilities and δ near 0 and 1."""


def draw_users(numbers: Numbers) -> int:
    if isinstance(numbers, Extremes):
        return round(log_uniform(numbers, 1, 30))
    if numbers.random() < 0.2:
        return int(numbers.choice([1, 2, 3, 200]))
    return round(math.exp(numbers.uniform(0, math.log(200))))


def draw_delta(numbers: Numbers) -> float:
    if isinstance(numbers, Extremes):
        size = float(10 ** numbers.uniform(-9, -0.1))
        return 1 - size if numbers.random() < 0.3 else max(size**1.3, 1e-12)
    if numbers.random() < 0.1:
        return float(numbers.choice([1e-12, 0.5, 0.9]))
    return float(10 ** numbers.uniform(-12, -1))


def log_uniform(numbers: Numbers, low: float, high: float) -> float:
    return math.exp(numbers.uniform(math.log(low), math.log(high)))


def draw_chance(numbers: Numbers) -> Fraction:
    if isinstance(numbers, Extremes):
        size = Fraction(max(1, round(1e9 * log_uniform(numbers, 1e-9, 0.5))), 10**9)
        return size if numbers.random() < 0.5 else 1 - size
    if numbers.random() < 0.1:
        return Fraction(str(numbers.choice(["1/1000000", "1/1000", "999/1000", "1"])))
    return Fraction(max(1, round(4096 * log_uniform(numbers, 0.002, 1))), 4096)
