"""How much an analysis computes, counted: unlike seconds it is the same on every machine, however
busy."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from shuffledp_privacy.histogram.blanket import ExactCells
from shuffledp_privacy.primitives import tails
from shuffledp_privacy.primitives.trinomial import TrinomialTable


@dataclass
class Work:
    """Sizes of what was computed.

    Attributes:
        probabilities: entries of all binomial windows.
        cells: entries looked up in tables, over all ε.
    """

    probabilities: int = 0
    cells: int = 0


def counted(monkeypatch: pytest.MonkeyPatch) -> Work:
    """From here on what k-RR and the clones compute is counted; nothing is cached from before."""
    forget()
    work, window = Work(), tails.binomial_range

    def ranged(*asked: Any) -> tuple[int, int]:
        low, high = window(*asked)
        work.probabilities += high - low + 1
        return low, high

    def looked_up(method: Callable[..., Any]) -> Callable[..., Any]:
        def look(table: TrinomialTable, *form: Any) -> Any:
            work.cells += table.a.size * max(np.size(one) for one in form)
            return method(table, *form)

        return look

    def summed(
        method: Callable[[ExactCells, float], float],
    ) -> Callable[[ExactCells, float], float]:
        def add(cells: ExactCells, epsilon: float) -> float:
            work.cells += cells.a.size
            return method(cells, epsilon)

        return add

    monkeypatch.setattr(tails, "binomial_range", ranged)
    for name in ("upper", "lower"):
        monkeypatch.setattr(TrinomialTable, name, looked_up(getattr(TrinomialTable, name)))
    for name in ("blanket", "third_symbol"):
        monkeypatch.setattr(ExactCells, name, summed(getattr(ExactCells, name)))
    return work


def forget() -> None:
    """Empties our caches."""
    for name, module in list(sys.modules.items()):
        if name.startswith("shuffledp_accountant"):
            for value in vars(module).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


def count_calls(monkeypatch: pytest.MonkeyPatch, *places: tuple[Any, str]) -> list[str]:
    """The names of the functions at these places (module, name), one entry for each call of
    them."""
    calls: list[str] = []
    for module, name in places:
        monkeypatch.setattr(module, name, _counting(getattr(module, name), name, calls))
    return calls


def _counting(function: Callable[..., Any], name: str, calls: list[str]) -> Callable[..., Any]:
    def call(*positional: Any, **named: Any) -> Any:
        calls.append(name)
        return function(*positional, **named)

    return call
