"""Lab 10, Spend it once: write the functions. README.md specifies each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Step B


def compose(rounds: tuple[float, ...], delta: float) -> float:
    """ε of all rounds together at `delta`: not below the exact value, and not above the sum.

    Args:
        rounds: ε of each round, in nats; each round is (ε, 0)-differentially private, on the same
            people.
        delta: 0 or more, below 1; for all rounds together.
    """
    raise NotImplementedError


# Step C


class BudgetLedger:
    """A privacy budget on disk, in SQLite.

    Costs and budget are whole numbers, millionths of ε, and add up.

        (none) --reserve--> reserved --settle---> settled
                            reserved --release--> released

    Reserved and settled rounds count. Several programs use one file at once, and each may be killed
    at any moment.
    """

    def __init__(self, file: str, budget: int) -> None:
        """Open the ledger's file, or create it."""
        raise NotImplementedError

    def reserve(self, round_id: str, cost: int, sign: Callable[[int], bytes]) -> bytes:
        """Charge `cost` for a round, and return the certificate.

        For a round that is reserved or settled already, at this cost: the same certificate again,
        and no other charge.

        Args:
            round_id: any text.
            cost: above 0.
            sign: makes a certificate that says what is spent with this round included; different
                bytes each time. It takes a while, and may be called more than once: only a
                certificate that is returned counts.

        Raises:
            ValueError: the budget does not cover it; the round is known at another cost, or was
                released. Nothing is charged then.
        """
        raise NotImplementedError

    def settle(self, round_id: str) -> None:
        """Make a round's charge permanent: its reports were forwarded. Repeating it has no effect.

        Raises:
            ValueError: the round is unknown, or was released.
        """
        raise NotImplementedError

    def release(self, round_id: str) -> None:
        """Give a round's charge back: nothing was forwarded. Repeating it has no effect.

        Raises:
            ValueError: the round is unknown, or was settled.
        """
        raise NotImplementedError

    def total_spent(self) -> int:
        """Total cost of the reserved and settled rounds."""
        raise NotImplementedError


# Step D


def judge(
    budget: float,
    reserve: Callable[[str], tuple[str, Any]],
    both: Callable[[str, str], tuple[tuple[str, Any], tuple[str, Any]]],
    settle: Callable[[str], tuple[str, Any]],
    release: Callable[[str], tuple[str, Any]],
    spent: Callable[[], float],
) -> str:
    """Test an accountant that may be broken, and name its fault.

    Args:
        budget: ε that may be spent; rounds compose, so that the total is less than the sum.
        reserve: asks for a round of the given id. ("certificate", bytes), or ("refused", why).
        both: two rounds at the same time; both answers.
        settle: ("done", None), or ("refused", why).
        release: ("done", None), or ("refused", why).
        spent: ε that is spent.

    Returns:
        "sound", "overspends" (admits rounds that the budget does not cover), "races" (does so only
        when two ask at
        once), "charges twice" (for the same round), or "refunds" (what was settled).
    """
    raise NotImplementedError
