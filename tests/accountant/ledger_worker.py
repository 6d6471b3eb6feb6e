"""A process that uses the ledger, for tests that run several of them or kill them.

Not a test itself.

Usage: ledger_worker.py URL LIMIT MODE PREFIX COUNT. Prints a line for everything that was answered.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
from fractions import Fraction

from sqlalchemy import event

from shuffledp_accountant.ledger.charges import Account, Budget, Reservation, Settlement
from shuffledp_accountant.ledger.ledger import Ledger
from shuffledp_core.errors import BudgetExceeded
from shuffledp_core.mechanisms import KRRHistogram
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.analysis import Cost
from shuffledp_privacy.bounds import Setting

POPULATION = "demo"
DELTA = 1e-6


def cost(honest: int = 200) -> Cost:
    """A round whose analysis is fast."""
    mechanism = KRRHistogram(symbols=4, blanket=Fraction(1, 2))
    return Cost(mechanism, Setting(honest, honest, Adjacency.STANDARD, 3), 1e-7)


def reservation(round_id: str) -> Reservation:
    """A reservation of that round."""
    return Reservation(round_id, POPULATION, '{"plan":1}', cost(), 1.0)


def certificate(account: Account) -> bytes:
    """Bytes that differ for every call, as a signed certificate with a time in it would."""
    return f"{account.position.entry}:{account.position.spent}:{os.urandom(8).hex()}".encode()


def _say(what: str, round_id: str, answer: bytes = b"") -> None:
    sys.stdout.write(f"{what} {round_id} {hashlib.sha256(answer).hexdigest()}\n")
    sys.stdout.flush()


def _die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _reserve_until_refused(ledger: Ledger, prefix: str, count: int) -> None:
    for number in range(count):
        round_id = f"{prefix}{number:04x}"
        try:
            _say("reserved", round_id, ledger.reserve(reservation(round_id), certificate))
        except BudgetExceeded:
            _say("refused", round_id)


def _life(ledger: Ledger, prefix: str, count: int) -> None:
    """Every round is reserved; every fiftieth is settled, the others are released."""
    for number in range(count):
        round_id = f"{prefix}{number:04x}"
        known = ledger.find(round_id)
        if known is None or known.state != "released":
            _say("reserved", round_id, ledger.reserve(reservation(round_id), certificate))
        if number % 50 == 0:
            _say(
                "settled",
                round_id,
                ledger.settle(round_id, Settlement(200, cost(), 1.0), certificate),
            )
        else:
            ledger.release(round_id)
            _say("released", round_id)


def main() -> None:
    """Runs one mode."""
    url, limit, mode, prefix, count = sys.argv[1:]
    ledger = Ledger.open(url, {POPULATION: Budget(float(limit), DELTA)}, lambda: 1)
    _say("open", prefix)
    if mode == "reserve":
        _reserve_until_refused(ledger, prefix, int(count))
    elif mode == "life":
        _life(ledger, prefix, int(count))
    elif mode == "die-before-commit":
        event.listen(ledger._engine, "rollback", _die)
        event.listen(ledger._engine, "before_cursor_execute", _die_on_insert_done)
        ledger.reserve(reservation(prefix), certificate)
    elif mode == "die-after-commit":
        ledger.reserve(reservation(prefix), certificate)
        _die()
    ledger.close()


def _die_on_insert_done(connection: object, _cursor: object, statement: str, *_: object) -> None:
    if statement.startswith("INSERT INTO charges"):
        event.listen(connection, "commit", _die)


if __name__ == "__main__":
    main()
