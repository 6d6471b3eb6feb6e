"""The disk of an SQLite ledger is full: changes are refused with an error that says to ask again,
and none is lost."""

from __future__ import annotations

from fractions import Fraction

import pytest
from small_disk import SmallDisk

from shuffledp_accountant.ledger.charges import Account, Budget, Reservation
from shuffledp_accountant.ledger.ledger import Ledger
from shuffledp_core.errors import LedgerAwayError
from shuffledp_core.mechanisms import KRRHistogram
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.analysis import Cost
from shuffledp_privacy.bounds import Setting

COST = Cost(
    KRRHistogram(symbols=4, blanket=Fraction(1, 2)), Setting(60, 60, Adjacency.STANDARD, 3), 1e-8
)


def open_ledger(disk: SmallDisk) -> Ledger:
    return Ledger.open(
        f"sqlite:///{disk.path / 'ledger.db'}", {"demo": Budget(60.0, 1e-6)}, lambda: 5
    )


def sign(account: Account) -> bytes:
    return str(account.position).encode()


def reserve(ledger: Ledger, name: str) -> bytes:
    return ledger.reserve(Reservation(name, "demo", "{}", COST, 0.5), sign)


def reserve_many(ledger: Ledger) -> None:
    """More charges than the room that SQLite has allocated before takes."""
    for number in range(1000):
        reserve(ledger, f"b{number}")


def test_a_charge_is_refused_while_there_is_no_room_and_made_once_there_is(
    small_disk: SmallDisk,
) -> None:
    ledger = open_ledger(small_disk)
    first = reserve(ledger, "a")
    small_disk.fill()
    with pytest.raises(LedgerAwayError, match=r"full.*free some space"):
        reserve_many(ledger)
    assert reserve(ledger, "a") == first
    refused = sum(ledger.statement("demo").charges.values())
    small_disk.make_room()
    reserve(ledger, f"b{refused - 1}")
    assert sum(ledger.statement("demo").charges.values()) == refused + 1
    ledger.close()


def test_a_ledger_that_is_opened_on_a_full_disk_has_every_charge(small_disk: SmallDisk) -> None:
    ledger = open_ledger(small_disk)
    first = reserve(ledger, "a")
    ledger.close()
    small_disk.fill()
    with pytest.raises(LedgerAwayError, match="free some space"):
        open_ledger(small_disk)
    small_disk.make_room()
    ledger = open_ledger(small_disk)
    assert reserve(ledger, "a") == first
    ledger.close()
