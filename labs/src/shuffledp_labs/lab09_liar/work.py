"""Lab 9, Catch the liar: write the functions. The handout (README.md) specifies each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

Ask: TypeAlias = Callable[[str, int, int], tuple[int, ...]]
"""ask(name, value, count): `count` fresh answers of the client `name`, who holds `value`."""

Claim: TypeAlias = tuple[int, int, float, float]
"""(value, changed, epsilon, delta): what the client says about its answers to these two values."""


def interval(successes: int, trials: int, confidence: float) -> tuple[float, float]:
    """Step B: the exact interval of a probability, given `successes` in `trials` trials."""
    raise NotImplementedError


def audit(first: Sequence[int], second: Sequence[int], delta: float, confidence: float) -> float:
    """Step C: a lower bound on ε at `delta` from outcomes on two neighbouring datasets.

    0 if nothing was found.
    """
    raise NotImplementedError


def liars(ask: Ask, claims: dict[str, Claim], trials: int, confidence: float) -> tuple[str, ...]:
    """Step D: the names of the clients whose claim is false."""
    raise NotImplementedError
