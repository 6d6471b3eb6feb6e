"""Step D of lab 10: the real accountant's ledger, and versions with a deliberate fault."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from shuffledp_labs.errors import CheckFailure
from shuffledp_labs.lab05_again.budget import DELTA, POPULATION, one_day

if TYPE_CHECKING:
    from shuffledp_accountant.ledger.charges import Account
    from shuffledp_accountant.ledger.ledger import Ledger

FAULTS: Final = ("sound", "overspends", "races", "charges twice", "refunds")

MOST_CALLS: Final = 500

Reply = tuple[str, bytes | str | None]


class SealedAccountant:
    """An accountant that may have a fault, which is not disclosed."""

    def __init__(self, fault: str, users: int, strict: Ledger, wide: Ledger, file: Path) -> None:
        """Build an accountant with this fault, which may be none.

        Args:
            fault: one of `FAULTS`.
            users: number of users of every round.
            strict: the ledger with the stated budget.
            wide: a ledger on the same file with a larger budget.
            file: file of the accountant's database.
        """
        self._fault = fault
        self._cost = one_day(users)
        self._strict, self._wide, self._file = strict, wide, file
        self._reserved: dict[str, int] = {}
        self._calls = 0

    def reserve(self, *arguments: object) -> Reply:
        """Ask the sealed accountant to reserve the cost of the round with this id."""
        (name,) = self._names(arguments, 1)
        return self._reserve(self._wide if self._fault == "overspends" else self._strict, name)

    def both(self, *arguments: object) -> tuple[Reply, Reply]:
        """Reserve two rounds at the same time."""
        names = self._names(arguments, 2)
        ledger = self._wide if self._fault in {"overspends", "races"} else self._strict
        replies: list[Reply] = [("refused", "")] * 2

        def ask(index: int) -> None:
            replies[index] = self._reserve(ledger, names[index])

        threads = [threading.Thread(target=ask, args=(index,)) for index in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return replies[0], replies[1]

    def settle(self, *arguments: object) -> Reply:
        """Settle a round whose reports were forwarded."""
        from shuffledp_accountant.ledger.charges import Settlement

        (name,) = self._names(arguments, 1)
        real = Settlement(self._cost.setting.users, self._cost, self._epsilon())
        return _without_certificate(
            _reply(lambda: self._strict.settle(_id(name, 0), real, _certificate))
        )

    def release(self, *arguments: object) -> Reply:
        """Release a round of which nothing was forwarded."""
        (name,) = self._names(arguments, 1)
        if self._fault == "refunds":
            self._unsettle(name)
        return _reply(lambda: self._strict.release(_id(name, 0)))

    def spent_epsilon(self, *arguments: object) -> float:
        """ε spent so far."""
        self._names(arguments, 0)
        return self._strict.statement(POPULATION).spent.certified

    def _reserve(self, ledger: Ledger, name: str) -> Reply:
        from shuffledp_accountant.ledger.charges import Reservation

        again = self._reserved.get(name, 0) if self._fault == "charges twice" else 0
        reservation = Reservation(_id(name, again), POPULATION, "{}", self._cost, self._epsilon())
        reply = _reply(lambda: ledger.reserve(reservation, _certificate))
        if reply[0] == "done":
            self._reserved[name] = self._reserved.get(name, 0) + 1
            return "certificate", reply[1]
        return reply

    def _epsilon(self) -> float:
        from shuffledp_privacy.bounds import epsilon_bounds

        return epsilon_bounds(self._cost.mechanism, self._cost.setting, DELTA).certified

    def _unsettle(self, name: str) -> None:
        """Make a settled round releasable by editing the database; the ledger itself refuses it."""
        change = (
            "UPDATE charges SET state = 'reserved', accepted = NULL, final_certificate = NULL "
            "WHERE round_id = ?"
        )
        with closing(sqlite3.connect(self._file)) as database, database:
            database.execute(change, (_id(name, 0),))

    def _names(self, arguments: tuple[object, ...], count: int) -> tuple[str, ...]:
        self._calls += 1
        if self._calls > MOST_CALLS:
            raise CheckFailure(
                f"judge made {MOST_CALLS} calls, and no end is in sight (README, step D)"
            )
        names = tuple(name for name in arguments if isinstance(name, str))
        if len(names) != count or len(arguments) != count:
            raise CheckFailure(
                f"judge called a function with {arguments!r:.80}, but the number of round ids that "
                f"it takes is {count} (README, step D)"
            )
        return names


@contextmanager
def open_sealed(fault: str, users: int, budget: float) -> Iterator[SealedAccountant]:
    """An accountant with its own database and folder."""
    from shuffledp_accountant.ledger.charges import Budget
    from shuffledp_accountant.ledger.ledger import Ledger
    from shuffledp_core.privacy import CompositionRule
    from shuffledp_core.runtime.clock import system_clock

    with TemporaryDirectory() as folder, ExitStack() as stack:
        file = Path(folder) / "ledger.db"

        def open_ledger(epsilon: float) -> Ledger:
            limit = Budget(epsilon, DELTA, composition=CompositionRule.FIXED)
            ledger = Ledger.open(f"sqlite:///{file}", {POPULATION: limit}, system_clock)
            stack.callback(ledger.close)
            return ledger

        yield SealedAccountant(fault, users, open_ledger(budget), open_ledger(1.5 * budget), file)


def _reply(do: Callable[[], bytes | None]) -> Reply:
    from shuffledp_core.errors import ShuffleDPError

    try:
        return "done", do()
    except ShuffleDPError as refusal:
        return "refused", str(refusal)


def _without_certificate(reply: Reply) -> Reply:
    return ("done", None) if reply[0] == "done" else reply


def _id(name: str, again: int) -> str:
    """Map a round id of the student's, which may be any text, to one that the ledger accepts."""
    return sha256(f"{again} {name}".encode()).hexdigest()[:32]


def _certificate(account: Account) -> bytes:
    """Stand-in for the signed certificate: the charge's position in the account."""
    from shuffledp_core.documents.signed import to_json

    return to_json(account.position)
