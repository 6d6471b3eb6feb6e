"""Step C of lab 10: compares a student's ledger with the model, call by call, also with kills."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shuffledp_labs.errors import CheckFailure, StudentException, StudentTimeout
from shuffledp_labs.instance import Draws
from shuffledp_labs.lab10_spend.model import Call, Model
from shuffledp_labs.student.process import Handle, StudentProgram

READ = "(README, step C)"

_SQLITE = b"SQLite format 3\0"
"""The first bytes of every SQLite database."""


class KillNow(Exception):  # noqa: N818 - raised on purpose, in the middle of a call
    """Raised by `sign`, so that the student's process is killed while it waits."""


class Signer:
    """Makes certificates, and remembers the content of each."""

    def __init__(self, draws: Draws) -> None:
        self._draws = draws
        self.issued: dict[bytes, int] = {}

    def sign(self, *arguments: object) -> bytes:
        """A certificate of the stated total, with different bytes each time."""
        if len(arguments) != 1 or type(arguments[0]) is not int:
            raise CheckFailure(
                "sign takes one whole number, what is spent with this round; not "
                f"{arguments!r:.60} {READ}"
            )
        certificate = (
            f"{arguments[0]} millionths spent, seal {len(self.issued)}.{self._draws.bytes(8).hex()}"
        ).encode()
        self.issued[certificate] = arguments[0]
        return certificate

    def sign_and_kill(self, *arguments: object) -> bytes:
        """Sign, but kill the process before it gets the certificate."""
        self.sign(*arguments)
        raise KillNow


class Seat:
    """A student's program that has the ledger of a file open."""

    def __init__(self, program: StudentProgram, file: str, budget: int, signer: Signer) -> None:
        self.program = program
        self.signer = signer
        self._file = file
        self._budget = budget
        self._ledger: Handle = program.new("BudgetLedger", file, budget)

    @property
    def path(self) -> Path:
        """Path of the ledger's file for the grader."""
        return self.program.scratch / self._file

    def reopen(self) -> None:
        """Open the file again; in a fresh process if the old one was killed."""
        self._ledger = self.program.new("BudgetLedger", self._file, self._budget)

    def do(self, call: Call, sign: Any = None, seconds: float = 10.0) -> object:
        """Make a call. Raises `StudentException` if the ledger raises."""
        arguments = [call.cost, sign or self.signer.sign] if call.method == "reserve" else []
        return self.program.method(
            self._ledger, call.method, call.round_id, *arguments, seconds=seconds
        )

    def total_spent(self) -> int:
        """Total that the ledger reports as spent."""
        total = self.program.method(self._ledger, "total_spent")
        if type(total) is not int:
            raise CheckFailure(f"total_spent() returns a whole number, not {total!r:.40} {READ}")
        return total


def try_call(seat: Seat, call: Call, where: str) -> tuple[bool, object]:
    """Make a call; return whether it was refused, and its result."""
    try:
        return False, seat.do(call)
    except StudentException as raised:
        if raised.kind != "ValueError":
            raise CheckFailure(f"{where}: {call} broke down: {raised} {READ}") from None
        return True, None


def compare(seat: Seat, model: Model, call: Call, where: str) -> None:
    """Make a call on the ledger and on the model, and compare the outcomes.

    Both must give the same answer and the same total.
    """
    why = model.refusal(call)
    no, returned = try_call(seat, call, where)
    if no and not why:
        raise CheckFailure(f"{where}: {call} was refused, and no rule forbids it {READ}")
    if why and not no:
        raise CheckFailure(f"{where}: {call} was not refused, and it is for {why} {READ}")
    if not why:
        model.do(call)
        if call.method == "reserve":
            check_certificate(seat.signer, model, call, returned, where)
    check_spent(seat, model, f"{where}: after {call}")


def check_certificate(
    signer: Signer, model: Model, call: Call, returned: object, where: str
) -> None:
    """Check a certificate: equal to the round's first one, or new with the right total."""
    entry = model.rounds[call.round_id]
    if not isinstance(returned, bytes) or returned not in signer.issued:
        raise CheckFailure(
            f"{where}: {call} returned {returned!r:.60}, which `sign` never made {READ}"
        )
    if entry.certificate is not None and returned != entry.certificate:
        raise CheckFailure(f"{where}: {call} returned another certificate than before {READ}")
    off = signer.issued[returned] - entry.total
    if off:
        raise CheckFailure(
            f"{where}: the certificate of {call} says a total that is off by {off:+,} millionths "
            f"{READ}"
        )
    entry.certificate = returned


def check_spent(seat: Seat, model: Model, where: str) -> None:
    """Check that the ledger has spent as much as the model."""
    off = seat.total_spent() - model.total_spent
    if off:
        raise CheckFailure(f"{where}, total_spent() is off by {off:+,} millionths {READ}")


def check_database(seat: Seat, where: str) -> None:
    """Raise `CheckFailure` if the ledger's file is not an SQLite database.

    Another file is not safe when a kill or a power cut hits in the middle of a write.
    """
    head = b""
    if seat.path.is_file() and not seat.path.is_symlink():
        with seat.path.open("rb") as file:
            head = file.read(len(_SQLITE))
    if head != _SQLITE:
        raise CheckFailure(
            f"{where}: the ledger's file is not an SQLite database: a kill in the middle of a "
            f"write must not destroy it {READ}"
        )


def interrupt(seat: Seat, model: Model, call: Call, seconds: float | None, where: str) -> None:
    """Kill the program in the middle of a call: while it waits for `sign`, or after some seconds.

    After a restart the change must have been made completely or not at all, and repeating it must
    make it once.
    """
    try:
        returned = (
            seat.do(call, seat.signer.sign_and_kill)
            if seconds is None
            else seat.do(call, seconds=seconds)
        )
    except (KillNow, StudentTimeout):
        acknowledged = False
    else:
        acknowledged = True
        model.do(call)
        if call.method == "reserve":
            check_certificate(seat.signer, model, call, returned, where)
    seat.program.kill()
    seat.reopen()
    if not acknowledged:
        _settle_doubt(seat, model, call, where)
    check_spent(seat, model, f"{where}: killed in the middle of {call} and started again")
    compare(
        seat, model, call, f"{where}: killed in the middle of {call}, started again, asked again"
    )


def _settle_doubt(seat: Seat, model: Model, call: Call, where: str) -> None:
    """Check that an interrupted change was made completely or not at all; update the model."""
    before, now = model.total_spent, seat.total_spent()
    # A round that ends keeps its charge or gives all of it back.
    change = {"reserve": call.cost, "settle": 0}.get(call.method)
    if change is None:
        change = -model.rounds[call.round_id].cost
    if now == before:
        return
    if now != before + change:
        raise CheckFailure(
            f"{where}: killed in the middle of {call} and started again, total_spent() has changed "
            f"by {now - before:+,}: neither nothing nor all of the call {READ}"
        )
    model.do(call)
