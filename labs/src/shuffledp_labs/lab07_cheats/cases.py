"""Users of step D: some were cheated and can show it, some cannot show it, some were not
cheated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from shuffledp_core.documents.models import Roster
from shuffledp_core.documents.signed import Signed
from shuffledp_labs.instance import Draws
from shuffledp_labs.lab07_cheats.documents import ROUTE, Device, Documents

USERS: Final = 5


@dataclass(frozen=True)
class Case:
    """One user after a round, and whether a stranger would convict.

    Attributes:
        what: what happened, for messages.
        kept: what the user's device kept.
        board: as the user was given it.
        guilty: whether evidence can be shown.
    """

    what: str
    kept: dict[str, Any]
    board: bytes
    guilty: bool


class Cases:
    """All cases of one instance; `roster` is all that the stranger has."""

    def __init__(self, draws: Draws) -> None:
        self._draws = draws
        self._documents = Documents(draws, USERS)
        self._devices = [self._documents.device() for _ in range(USERS)]
        self.roster: Roster = self._documents.roster

    def guilty(self) -> list[Case]:
        """Users whom the route cheated, and who can show it."""
        return [
            self._case(
                "one message is gone, another stands in its place", self._without(1), guilty=True
            ),
            self._case(
                "all its messages are gone",
                self._without(self._documents.geometry.messages_per_user),
                guilty=True,
            ),
            self._case("one message has another symbol", self._changed, guilty=True),
            self._case(
                "one message is gone, and another of its own stands there twice",
                self._gone_and_doubled,
                guilty=True,
            ),
        ]

    def innocent(self) -> list[Case]:
        """Users who were not cheated, or whose evidence no stranger would accept."""
        documents, one = self._documents, self._without(1)
        return [
            self._case("all its messages are there", lambda _, rows: rows),
            self._case("a message of its own stands there twice, none is gone", self._doubled),
            self._case("a message is gone, and no receipt came", one, receipt=lambda _: None),
            self._case(
                "a message is gone, and the receipt is for another envelope",
                one,
                receipt=lambda device: documents.receipt(
                    self._other(device), credential=device.claim.signer
                ),
            ),
            self._case(
                "a message is gone, and the receipt is signed by another node's key",
                one,
                receipt=lambda device: documents.receipt(device, signer=ROUTE[1]),
            ),
            self._case(
                "a message is gone, and the receipt is of another round",
                one,
                receipt=lambda device: documents.receipt(
                    device, round_id=self._draws.bytes(16).hex()
                ),
            ),
            self._case(
                "the round failed, and somebody shows a board all the same",
                one,
                result=lambda _: documents.failed(),
            ),
            self._case(
                "a message is gone from the board that was given, which is not the one that the "
                "analyst signed",
                one,
                result=documents.result,
            ),
            self._case(
                "a message is gone, and the result is not signed by the analyst's key",
                one,
                result=lambda board: documents.result(board, signer=ROUTE[2]),
                signed_as_given=True,
            ),
        ]

    def _case(
        self,
        what: str,
        change: Callable[[Device, list[bytes]], list[bytes]],
        *,
        guilty: bool = False,
        receipt: Callable[[Device], Signed | None] | None = None,
        result: Callable[[bytes], Signed] | None = None,
        signed_as_given: bool = False,
    ) -> Case:
        device = self._draws.choice(self._devices)
        rows = [message for one in self._devices for message in one.messages]
        honest = b"".join(self._draws.shuffled(rows))
        board = b"".join(self._draws.shuffled(change(device, rows)))
        signed = (result or self._documents.result)(
            honest if result is not None and not signed_as_given else board
        )
        held = (receipt or self._documents.receipt)(device)
        return Case(what, self._documents.kept(device, held, signed), board, guilty)

    def _other(self, device: Device) -> Device:
        return self._draws.choice([one for one in self._devices if one is not device])

    def _strange(self) -> bytes:
        return bytes([self._draws.below(2)]) + self._draws.bytes(16)

    def _without(self, count: int) -> Callable[[Device, list[bytes]], list[bytes]]:
        def change(device: Device, rows: list[bytes]) -> list[bytes]:
            gone = set(self._draws.sample(device.messages, count))
            return [self._strange() if row in gone else row for row in rows]

        return change

    def _changed(self, device: Device, rows: list[bytes]) -> list[bytes]:
        one = self._draws.choice(device.messages)
        return [bytes([row[0] ^ 1]) + row[1:] if row == one else row for row in rows]

    def _gone_and_doubled(self, device: Device, rows: list[bytes]) -> list[bytes]:
        gone, copied = self._draws.sample(device.messages, 2)
        return [copied if row == gone else row for row in rows]

    def _doubled(self, device: Device, rows: list[bytes]) -> list[bytes]:
        copied = self._draws.choice(device.messages)
        gone = self._draws.choice(self._other(device).messages)
        return [copied if row == gone else row for row in rows]
