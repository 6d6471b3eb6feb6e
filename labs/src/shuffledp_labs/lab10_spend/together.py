"""Step C: two programs on one file; the second calls while the first waits for `sign`."""

from __future__ import annotations

import fcntl
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from shuffledp_labs.errors import CheckFailure, LabError, StudentException
from shuffledp_labs.lab10_spend.model import Call
from shuffledp_labs.lab10_spend.trying import READ, Seat

PATIENCE: Final = 8.0
"""Seconds that the first waits for the second, where nothing is seen that would hold the second up.
"""

GLANCE: Final = 0.2
"""Seconds that the first waits where it holds SQLite's lock: the second is then at rest until the
first has ended.
"""

_WRITE_LOCKS: Final = (("", 0x40000001), ("-shm", 120))
"""Bytes that SQLite locks in the file, or in its companion in WAL mode, for the one who may write.
"""


@dataclass
class ConcurrentAnswer:
    """The answer to a program's call: a certificate, a refusal, or a fault."""

    certificate: object = None
    no: bool = False
    fault: LabError | None = None
    arrived: threading.Event = field(default_factory=threading.Event)


def is_locked(file: Path) -> bool:
    """Return True if some process holds the write lock of this SQLite file.

    Reads none of it.
    """
    for ending, byte in _WRITE_LOCKS:
        path = Path(f"{file}{ending}")
        if path.is_symlink() or not path.is_file():
            continue
        with (
            suppress(OSError),
            path.open("r+b") as opened,
        ):  # a student's file may be anything: then nothing is seen
            try:
                fcntl.lockf(opened, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
            except (BlockingIOError, PermissionError):  # the two answers that POSIX allows
                return True
    return False


def at_once(
    first: Seat, second: Seat, calls: tuple[Call, Call]
) -> tuple[ConcurrentAnswer, ConcurrentAnswer]:
    """Make both calls, the second while the first waits in `sign`."""
    answers = ConcurrentAnswer(), ConcurrentAnswer()
    other = threading.Thread(
        target=_ask, args=(second, calls[1], answers[1], answers[1].arrived.set), daemon=True
    )
    started = False

    def meanwhile() -> None:
        nonlocal started
        if not started:
            started = True
            other.start()
            # It arrives at its own `sign`, or at its end; or it waits for the first, and then
            # nothing is lost but time.
            answers[1].arrived.wait(GLANCE if is_locked(first.path) else PATIENCE)

    _ask(first, calls[0], answers[0], meanwhile)
    if not started:  # the first did not sign: then they come one after the other
        other.start()
    other.join()
    for answer in answers:
        if isinstance(answer.fault, StudentException):
            raise CheckFailure(
                f"two programs asked at once, and one of them broke down: {answer.fault} {READ}"
            )
        if answer.fault:
            raise answer.fault
    return answers


def check_one_place(first: Seat, second: Seat, budget: int, spent: int) -> None:
    """Check two rounds of which the budget covers only one."""
    cost = (budget - spent) * 3 // 5
    answers = at_once(
        first, second, (Call("reserve", "left", cost), Call("reserve", "right", cost))
    )
    granted = sum(not answer.no for answer in answers)
    if granted != 1:
        raise CheckFailure(
            f"two programs asked at once for {cost:,} millionths each, of {budget - spent:,} that "
            f"were left: {granted} of them were granted {READ}"
        )
    _check_spent(first, second, spent + cost)


def check_same_round(first: Seat, second: Seat, spent: int, cost: int) -> None:
    """Check one round that two programs reserve."""
    call = Call("reserve", "same", cost)
    answers = at_once(first, second, (call, call))
    if any(answer.no for answer in answers):
        raise CheckFailure(
            "two programs asked at once for one round at one cost, and one of them was refused "
            f"{READ}"
        )
    if answers[0].certificate != answers[1].certificate:
        raise CheckFailure(
            f"two programs asked at once for one round, and got two different certificates {READ}"
        )
    _check_spent(first, second, spent + cost)


def check_room_for_both(first: Seat, second: Seat, spent: int, cost: int) -> None:
    """Check two rounds that the budget covers together.

    Each certificate says what was spent when its round was charged.
    """
    answers = at_once(first, second, (Call("reserve", "one", cost), Call("reserve", "two", cost)))
    if any(answer.no for answer in answers):
        raise CheckFailure(
            "two programs asked at once for two rounds that the budget covers; one was refused "
            f"{READ}"
        )
    totals = sorted(_total(first, second, answer.certificate) for answer in answers)
    if totals != [spent + cost, spent + 2 * cost]:
        raise CheckFailure(
            "two programs asked at once for two rounds: their certificates do not state the "
            f"totals of one charge after the other, so one of them signed an old total {READ}"
        )
    _check_spent(first, second, spent + 2 * cost)


def _ask(seat: Seat, call: Call, answer: ConcurrentAnswer, in_sign: Callable[[], None]) -> None:
    issue = seat.signer.sign

    def sign(*arguments: object) -> bytes:
        in_sign()
        return issue(*arguments)

    try:
        answer.certificate = seat.do(call, sign)
    except LabError as fault:
        answer.no = getattr(fault, "kind", "") == "ValueError"
        answer.fault = None if answer.no else fault
    finally:
        answer.arrived.set()


def _total(first: Seat, second: Seat, certificate: object) -> int:
    issued = {**first.signer.issued, **second.signer.issued}
    if not isinstance(certificate, bytes) or certificate not in issued:
        raise CheckFailure(f"reserve returned {certificate!r:.60}, which `sign` never made {READ}")
    return issued[certificate]


def _check_spent(first: Seat, second: Seat, expected: int) -> None:
    for seat in (first, second):
        off = seat.total_spent() - expected
        if off:
            raise CheckFailure(
                f"after two programs asked at once, total_spent() is off by {off:+,} millionths "
                f"{READ}"
            )
