"""The budget of a small round, by the rules of docs/protocol.md, "Discards"."""

from __future__ import annotations

from collections.abc import Sequence

ALL_RULES = frozenset(
    {"a round is charged once", "every node says that nothing left it", "a round is released once"}
)


class Ledger:
    """What is spent, in rounds. It keeps the `rules` that it is given."""

    def __init__(self, rules: frozenset[str]) -> None:
        self._rules = rules
        self._charged: set[str] = set()
        self.spent = 0

    def charge(self, round_id: str) -> None:
        if "a round is charged once" in self._rules and round_id in self._charged:
            return
        self._charged.add(round_id)
        self.spent += 1

    def release(self, round_id: str, forwarded: Sequence[bool], nodes: int) -> None:
        """Gives a failed round back, by what the nodes signed."""
        if "every node says that nothing left it" in self._rules and (
            len(forwarded) < nodes or any(forwarded)
        ):
            return
        if "a round is released once" in self._rules and round_id not in self._charged:
            return
        self._charged.discard(round_id)
        self.spent -= 1
