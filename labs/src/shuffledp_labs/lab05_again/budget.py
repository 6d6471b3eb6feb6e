"""Step E of lab 5: the accountant's own ledger, behind an unreliable connection."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from shuffledp_labs.errors import CheckFailure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shuffledp_accountant.ledger.charges import Account
    from shuffledp_accountant.ledger.ledger import Ledger
    from shuffledp_privacy.analysis import Cost

DELTA: Final = 1e-3
"""δ of one day's certificate and of the budget."""

POPULATION: Final = "class"

MOST_CALLS: Final = 2_000


def one_day(users: int) -> Cost:
    """Cost of one daily yes/no question to `users` honest users; true with probability 3/4."""
    from shuffledp_adversary.attacks.views import YES_NO
    from shuffledp_privacy.analysis import Cost
    from shuffledp_privacy.bounds import Setting

    return Cost(YES_NO, Setting(users, users, max_distance=1), DELTA)


@contextmanager
def real_ledger(epsilon: float, *, adaptive: bool = False) -> Iterator[Ledger]:
    """The accountant's ledger with one population, on SQLite in its own folder.

    The parameters of a question that is repeated unchanged are fixed in advance; `adaptive` is the
    accountant's default, which allows for more.
    """
    from shuffledp_accountant.ledger.charges import Budget
    from shuffledp_accountant.ledger.ledger import Ledger
    from shuffledp_core.privacy import CompositionRule
    from shuffledp_core.runtime.clock import system_clock

    composition = CompositionRule.ADAPTIVE if adaptive else CompositionRule.FIXED
    with TemporaryDirectory() as folder:
        budget = Budget(epsilon, DELTA, composition=composition)
        ledger = Ledger.open(
            f"sqlite:///{Path(folder) / 'ledger.db'}", {POPULATION: budget}, system_clock
        )
        try:
            yield ledger
        finally:
            ledger.close()


def days_allowed(epsilon: float, users: int, most: int, *, adaptive: bool = False) -> int:
    """Number of days that the ledger admits, at most `most`."""
    with real_ledger(epsilon, adaptive=adaptive) as ledger:
        door = LedgerDoor(ledger, users, cuts={})
        for day in range(most):
            if door.reserve(f"day {day}")[0] == "refused":
                return day
    return most


@dataclass
class LedgerDoor:
    """The functions `reserve` and `ask` for a student's campaign, with a record of all calls.

    Attributes:
        ledger: the accountant's ledger.
        users: number of users of each round.
        cuts: calls of `reserve` whose connection is cut, by their number from 0: True if the ledger
            received the call before.
    """

    ledger: Ledger
    users: int
    cuts: dict[int, bool]
    calls: int = 0
    refused: bool = False
    certificates: dict[str, bytes] = field(default_factory=dict)
    rounds_asked: list[str] = field(default_factory=list)

    def reserve(self, *arguments: object) -> tuple[str, bytes | str]:
        """Reserve a round; return an answer as `campaign` in work.py documents it."""
        if len(arguments) != 1 or not isinstance(arguments[0], str):
            raise CheckFailure("reserve takes one text, the id of the round (README, step E)")
        round_id = arguments[0]
        call, self.calls = self.calls, self.calls + 1
        if self.calls > MOST_CALLS:
            raise CheckFailure(
                f"reserve was called {MOST_CALLS} times, and no end is in sight (README, step E)"
            )
        if self.refused:
            raise CheckFailure(
                "reserve was called again after a refusal, which is for good (README, step E)"
            )
        heard = self.cuts.get(call)
        if heard is False:
            return "no answer", "the line was cut"
        outcome = self._charge(round_id)
        if isinstance(outcome, str):
            self.refused = True
            return "refused", outcome
        if heard:
            return "no answer", "the line was cut"
        self.certificates[round_id] = outcome
        return "certificate", outcome

    def ask(self, *arguments: object) -> None:
        """Record that the question was asked.

        Raises:
            CheckFailure: the round has no certificate, or not this one, or was asked before.
        """
        if (
            len(arguments) != 2
            or not isinstance(arguments[0], str)
            or not isinstance(arguments[1], bytes)
        ):
            raise CheckFailure(
                "ask takes the id of the round and its certificate, a text and bytes (README, "
                "step E)"
            )
        round_id, certificate = arguments
        if round_id not in self.certificates:
            raise CheckFailure(
                "the question was put in a round that has no certificate yet (README, step E)"
            )
        if self.certificates[round_id] != certificate:
            raise CheckFailure(
                "the question was put with another round's certificate (README, step E)"
            )
        if round_id in self.rounds_asked:
            raise CheckFailure(
                "the question was put twice in one round, for one charge (README, step E)"
            )
        self.rounds_asked.append(round_id)

    def _charge(self, round_id: str) -> bytes | str:
        from shuffledp_accountant.ledger.charges import Reservation
        from shuffledp_core.errors import BudgetExceeded
        from shuffledp_privacy.bounds import epsilon_bounds

        cost = one_day(self.users)
        epsilon = epsilon_bounds(cost.mechanism, cost.setting, DELTA).certified
        # The ledger's ids are hex digits of one length; the student's are any text.
        stored = sha256(round_id.encode()).hexdigest()[:32]
        try:
            return self.ledger.reserve(
                Reservation(stored, POPULATION, "{}", cost, epsilon), _certificate
            )
        except BudgetExceeded as refusal:
            return str(refusal)


def _certificate(account: Account) -> bytes:
    """Stand-in for the signed certificate: the charge's position in the account."""
    from shuffledp_core.documents.signed import to_json

    return to_json(account.position)
