"""Users of step D: cheated with evidence, cheated without evidence, and not cheated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from shuffledp_core.documents.models import Roster
from shuffledp_core.documents.signed import Signed
from shuffledp_labs.instance import Draws
from shuffledp_labs.lab07_cheats.documents import ROUTE, Documents, RoundDevice

USERS: Final = 5


@dataclass(frozen=True)
class DeviceCase:
    """One user after a round, and whether a third party would accept the evidence.

    Attributes:
        what: description of the case, for messages.
        stored: everything that the user's device stored.
        board: the board that the user received.
        guilty: whether the user has evidence.
    """

    what: str
    stored: dict[str, Any]
    board: bytes
    guilty: bool


class Cases:
    """All cases of one instance, and the `roster`, the only input of the third party."""

    def __init__(self, draws: Draws) -> None:
        self._draws = draws
        self._documents = Documents(draws, USERS)
        self._devices = [self._documents.device() for _ in range(USERS)]
        self.roster: Roster = self._documents.roster

    def guilty(self) -> list[DeviceCase]:
        """Cases in which the route cheated the user, and the user can prove it."""
        return [
            self._case(
                "one message is gone, another stands in its place", self._without(1), guilty=True
            ),
            self._case(
                "all its messages are gone",
                self._without(self._documents.geometry.messages_per_user),
                guilty=True,
            ),
            self._case("one message has another symbol", self._with_changed_symbol, guilty=True),
            self._case(
                "one message is gone, and another of its own stands there twice",
                self._gone_and_doubled,
                guilty=True,
            ),
        ]

    def innocent(self) -> list[DeviceCase]:
        """Cases in which the user was not cheated, or cannot prove it."""
        documents, without_one = self._documents, self._without(1)
        return [
            self._case("all its messages are there", lambda _, rows: rows),
            self._case(
                "a message of its own stands there twice, none is gone", self._with_doubled_message
            ),
            self._case(
                "a message is gone, and no receipt came", without_one, receipt=lambda _: None
            ),
            self._case(
                "a message is gone, and the receipt is for another envelope",
                without_one,
                receipt=lambda device: documents.receipt(
                    self._other(device), credential=device.claim.signer
                ),
            ),
            self._case(
                "a message is gone, and the receipt is signed by another node's key",
                without_one,
                receipt=lambda device: documents.receipt(device, signer=ROUTE[1]),
            ),
            self._case(
                "a message is gone, and the receipt is of another round",
                without_one,
                receipt=lambda device: documents.receipt(
                    device, round_id=self._draws.bytes(16).hex()
                ),
            ),
            self._case(
                "a message is gone, and the receipt is a document with another label",
                without_one,
                receipt=documents.relabelled_receipt,
            ),
            self._case(
                "a message is gone, and the result is of another round",
                without_one,
                result=lambda board: documents.result(board, round_id=self._draws.bytes(16).hex()),
                signed_as_given=True,
            ),
            self._case(
                "the round failed, and someone shows a board nevertheless",
                without_one,
                result=lambda _: documents.failed_result(),
            ),
            self._case(
                "a message is gone from the board that was given, which is not the one that the "
                "analyst signed",
                without_one,
                result=documents.result,
            ),
            self._case(
                "a message is gone, and the result is not signed by the analyst's key",
                without_one,
                result=lambda board: documents.result(board, signer=ROUTE[2]),
                signed_as_given=True,
            ),
        ]

    def _case(
        self,
        what: str,
        change: Callable[[RoundDevice, list[bytes]], list[bytes]],
        *,
        guilty: bool = False,
        receipt: Callable[[RoundDevice], Signed | None] | None = None,
        result: Callable[[bytes], Signed] | None = None,
        signed_as_given: bool = False,
    ) -> DeviceCase:
        device = self._draws.choice(self._devices)
        rows = [message for other in self._devices for message in other.messages]
        honest = b"".join(self._draws.permute(rows))
        board = b"".join(self._draws.permute(change(device, rows)))
        signed = (result or self._documents.result)(
            honest if result is not None and not signed_as_given else board
        )
        receipt_of_device = (receipt or self._documents.receipt)(device)
        return DeviceCase(
            what, self._documents.device_data(device, receipt_of_device, signed), board, guilty
        )

    def _other(self, device: RoundDevice) -> RoundDevice:
        return self._draws.choice([other for other in self._devices if other is not device])

    def _strange(self) -> bytes:
        return bytes([self._draws.below(2)]) + self._draws.bytes(16)

    def _without(self, count: int) -> Callable[[RoundDevice, list[bytes]], list[bytes]]:
        def change(device: RoundDevice, rows: list[bytes]) -> list[bytes]:
            gone = set(self._draws.sample(device.messages, count))
            return [self._strange() if row in gone else row for row in rows]

        return change

    def _with_changed_symbol(self, device: RoundDevice, rows: list[bytes]) -> list[bytes]:
        message = self._draws.choice(device.messages)
        return [bytes([row[0] ^ 1]) + row[1:] if row == message else row for row in rows]

    def _gone_and_doubled(self, device: RoundDevice, rows: list[bytes]) -> list[bytes]:
        gone, copied = self._draws.sample(device.messages, 2)
        return [copied if row == gone else row for row in rows]

    def _with_doubled_message(self, device: RoundDevice, rows: list[bytes]) -> list[bytes]:
        copied = self._draws.choice(device.messages)
        gone = self._draws.choice(self._other(device).messages)
        return [copied if row == gone else row for row in rows]
