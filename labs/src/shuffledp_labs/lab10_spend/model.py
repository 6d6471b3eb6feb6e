"""Step C of lab 10: a correct ledger of whole numbers, as a model in memory.

It also draws histories of calls.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from shuffledp_labs.instance import Draws

RESERVED: Final = "reserved"
SETTLED: Final = "settled"
RELEASED: Final = "released"


LARGEST_COST: Final = 600_000
"""Of a round in a drawn life, in millionths of ε."""

LARGEST_LIFE: Final = 4 * LARGEST_COST
"""Most that one kill's calls in a life may cost: with so much for each the budget never ends."""


@dataclass(frozen=True)
class Call:
    """A call of a ledger's method for a round; only `reserve` has a `cost`."""

    method: str
    round_id: str
    cost: int = 0

    def __str__(self) -> str:
        """Format the call as in a program."""
        cost = f", {self.cost}" if self.method == "reserve" else ""
        return f"{self.method}({self.round_id!r}{cost})"


@dataclass
class ModelEntry:
    """A round in the model.

    `total` is what was spent with it when it was charged, `certificate` None until seen.
    """

    cost: int
    total: int
    state: str = RESERVED
    certificate: bytes | None = None


@dataclass
class Model:
    """A correct ledger in memory."""

    budget: int
    rounds: dict[str, ModelEntry] = field(default_factory=dict)

    @property
    def total_spent(self) -> int:
        """Total cost of the reserved and settled rounds."""
        return sum(entry.cost for entry in self.rounds.values() if entry.state != RELEASED)

    def refusal(self, call: Call) -> str:
        """The reason to refuse a call; "" if it is allowed."""
        entry = self.rounds.get(call.round_id)
        if call.method == "reserve":
            return self._reserve_refusal(entry, call.cost)
        if entry is None:
            return "an unknown round"
        other = RELEASED if call.method == "settle" else SETTLED
        return f"a {other} round" if entry.state == other else ""

    def do(self, call: Call) -> None:
        """Apply a call that is allowed."""
        if call.method == "reserve":
            self.rounds.setdefault(
                call.round_id, ModelEntry(call.cost, self.total_spent + call.cost)
            )
        else:
            self.rounds[call.round_id].state = SETTLED if call.method == "settle" else RELEASED

    def _reserve_refusal(self, entry: ModelEntry | None, cost: int) -> str:
        if entry is None:
            return "" if self.total_spent + cost <= self.budget else "more than the budget covers"
        if entry.state == RELEASED:
            return "a released round"
        return "" if entry.cost == cost else "a known round at another cost"


def draw_history(draws: Draws, length: int) -> tuple[int, list[Call]]:
    """Draw a budget and a sequence of calls that meets every rule at least once."""
    costs = [draws.integer(1, 60) * 10_000 for _ in range(4)]
    budget = sum(costs)
    a, b, c, d = (
        f"{name}-{draws.bytes(2).hex()}" for name in ("Monday", "Tuesday", "O'Brien", "Ünal")
    )
    e = f"late-{draws.bytes(2).hex()}"
    late = f"next-{draws.bytes(2).hex()}"
    must = [
        Call("settle", a),
        Call("reserve", a, costs[0]),
        Call("reserve", a, costs[0]),
        Call("reserve", a, costs[0] + 1),
        Call("reserve", b, costs[1]),
        Call("settle", a),
        Call("settle", a),
        Call("release", a),
        Call("reserve", a, costs[0]),
        Call("reserve", c, costs[2]),
        Call("reserve", d, costs[3] + 1),
        Call("reserve", d, costs[3]),
        Call("reserve", e, 1),
        Call("release", b),
        Call("release", b),
        Call("settle", b),
        Call("reserve", b, costs[1]),
        Call("reserve", late, costs[1]),
        Call("release", late),
        Call("release", e),
    ]
    names = [a, b, c, d, e, late, *(f"more-{number}" for number in range(3))]
    free = [_draw_call(draws, names, costs) for _ in range(length)]
    return budget, must + free


def _draw_call(draws: Draws, names: list[str], costs: list[int]) -> Call:
    method = draws.choice(("reserve", "reserve", "settle", "release"))
    cost = draws.choice(costs) if method == "reserve" else 0
    return Call(method, draws.choice(names), cost)


class Life:
    """Generator of endless calls, each of which a ledger must accept and be changed by."""

    def __init__(self, draws: Draws, model: Model) -> None:
        self._draws = draws
        self._model = model
        self._number = 0

    def reservation(self) -> Call:
        """A new round that the budget covers."""
        self._number += 1
        return Call("reserve", f"round {self._number}", self._draws.integer(1, LARGEST_COST))

    def ending(self) -> Call:
        """A call that ends a reserved round."""
        live = [name for name, entry in self._model.rounds.items() if entry.state == RESERVED]
        # Released more often than settled, or the budget would soon be gone.
        return Call(self._draws.choice(("settle", "release", "release")), self._draws.choice(live))

    def repetition(self) -> Call:
        """A repetition of an acknowledged reservation."""
        repeatable = [name for name, entry in self._model.rounds.items() if entry.state != RELEASED]
        name = self._draws.choice(repeatable)
        return Call("reserve", name, self._model.rounds[name].cost)
