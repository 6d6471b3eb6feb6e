"""Instances of lab 7: rounds with a tampering node, and boards with errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from shuffledp_adversary.attacks.exchange.tampering import Pool
from shuffledp_adversary.in_process import Conduct, PlayedRound, play
from shuffledp_core.documents.digests import digest
from shuffledp_core.onion.geometry import TAG_BYTES, Geometry
from shuffledp_labs.instance import Draws

Sent = Sequence[bytes]
Tamper = Callable[[Pool], Sent]

ALPHABET: Final = 4
"""Symbols of the rounds of this lab."""


@dataclass(frozen=True)
class Cheating:
    """A round in which the node at `position` is about to tamper.

    Attributes:
        geometry: the round's geometry.
        position: position of the node that cheats.
        symbol: the symbol whose count the node raises.
        exchanges: number of records to exchange.
        messages: the plain messages of every user.
        draws: randomness of the round, so that every play gives the same round.
    """

    geometry: Geometry
    position: int
    symbol: int
    exchanges: int
    messages: tuple[tuple[bytes, ...], ...]
    draws: Draws

    @property
    def title(self) -> str:
        """Description of the round for messages."""
        return (
            f"node {self.position} of {self.geometry.hops}, {len(self.messages)} users with "
            f"{self.geometry.messages_per_user} messages"
        )

    @property
    def records(self) -> int:
        """Number of records in every batch."""
        return len(self.messages) * self.geometry.messages_per_user

    def play(self, tamper: Tamper | None = None) -> PlayedRound:
        """Play the round with this tampering at `position`; None for honest nodes."""
        conduct = Conduct() if tamper is None else Conduct(tampering={self.position: tamper})
        # A child of one label: each time from its beginning, so that keys, onions and orders come
        # out the same.
        return play(self.geometry, self.messages, conduct, self.draws.child("round").bytes)

    def pool_of_node(self) -> Pool:
        """The node's pool after its honest work; every call replays the same round."""
        seen: list[Pool] = []

        def look(pool: Pool) -> Sent:
            seen.append(pool)
            return pool.records

        self.play(look)
        return seen[0]

    def pool(self, pool: Pool) -> dict[str, Any]:
        """The node's pool as argument of the student's function."""
        return {
            "records": tuple(pool.records),
            "position": self.position,
            "hops": self.geometry.hops,
            "keys": tuple(pool.public_keys[self.position :]),
            "symbol_bytes": self.geometry.symbol_bytes,
            "tag_bytes": TAG_BYTES,
            "symbol": self.symbol,
            "wanted": self.exchanges,
        }


def user_name(number: int) -> str:
    """The name of the user with this number, from 0."""
    return f"user-{number + 1:02}"


def cheating(draws: Draws, position: int, hops: int) -> Cheating:
    """Draw a round of eight to twelve users in which an exchange changes the answer.

    Too few users send the wanted symbol for it to have no effect.
    """
    users = 8 + draws.below(5)
    per_user = 2 + draws.below(2)
    geometry = Geometry(
        suite="sealed-box", hops=hops, messages_per_user=per_user, symbol_bytes=1 + draws.below(2)
    )
    symbol = draws.below(ALPHABET)
    others = [other for other in range(ALPHABET) if other != symbol]
    exchanges = per_user + 1 + draws.below(3)

    def message(index: int) -> bytes:
        # The first `exchanges` - 1 messages carry the symbol: of the exchanged ones at least one
        # carried another.
        chosen = symbol if index < exchanges - 1 else draws.choice(others)
        return chosen.to_bytes(geometry.symbol_bytes, "big") + draws.bytes(TAG_BYTES)

    messages = tuple(
        tuple(message(user * per_user + index) for index in range(per_user))
        for user in range(users)
    )
    return Cheating(geometry, position, symbol, exchanges, messages, draws.child("play"))


@dataclass(frozen=True)
class Complaints:
    """A published board with receipts and users, and the complaints that are justified.

    Attributes:
        receipts, board, mine: arguments of the student's function.
        due: the right answer, computed message by message.
    """

    receipts: dict[str, str]
    board: bytes
    mine: dict[str, tuple[bytes, tuple[bytes, ...]]]
    due: dict[str, dict[int, str]]

    @property
    def title(self) -> str:
        """Description of the board for messages."""
        return (
            f"{len(self.mine)} users, {len(self.receipts)} receipts, board of "
            f"{len(self.board):,} bytes"
        )


def complaints(draws: Draws) -> Complaints:
    """A board of fourteen users on which messages are missing, changed and doubled.

    Some users hold no receipt.

    1. For each of five users, a message is replaced by one that no user sent.
    2. For each of three users, the symbol of a message is changed.
    3. One user's message occurs twice; another's occurs twice with different symbols.
    4. The last node writes one missing message across the border of two others, where a careless
       search finds it.
    5. One of the five users of step 1 has no receipt, and another has one for a different envelope.
    """
    width = 1 + draws.below(2)
    per_user = 2 + draws.below(2)
    geometry = Geometry(suite="sealed-box", hops=3, messages_per_user=per_user, symbol_bytes=width)
    sent = [[_plain(draws, geometry) for _ in range(per_user)] for _ in range(14)]
    played = play(geometry, sent, random=draws.child("round").bytes)
    board = list(draws.permute(played.board))
    users = draws.permute(range(len(sent)))
    missing, changed, doubled, torn, strangers = (
        users[:5],
        users[5:8],
        users[8:10],
        users[10],
        users[11:14],
    )

    def one_of(user: int) -> bytes:
        return sent[user][draws.below(per_user)]

    for user in missing:  # 1
        board[board.index(one_of(user))] = _plain(draws, geometry)
    for user in changed:  # 2
        message = one_of(user)
        board[board.index(message)] = _other(message, width)
    # What makes place for the doubles is of users who are no one's concern here: they hold no
    # receipt.
    for number, user in enumerate(doubled):  # 3
        message = one_of(user)
        board[board.index(sent[strangers[number]][0])] = (
            _other(message, width) if number else message
        )
    _tear(board, one_of(torn), sent[strangers[2]][:2], draws)  # 4
    mine = {
        user_name(user): (played.envelopes[user], tuple(sent[user])) for user in range(len(sent))
    }
    receipts = {
        user_name(user): digest(played.envelopes[user])
        for user in range(len(sent))
        if user not in strangers
    }
    del receipts[user_name(missing[3])]  # 5
    receipts[user_name(missing[4])] = digest(played.envelopes[missing[0]])
    receipts = dict(draws.permute(list(receipts.items())))
    return Complaints(receipts, b"".join(board), mine, _due(receipts, board, mine))


def _plain(draws: Draws, geometry: Geometry) -> bytes:
    return draws.below(ALPHABET).to_bytes(geometry.symbol_bytes, "big") + draws.bytes(TAG_BYTES)


def _other(message: bytes, width: int) -> bytes:
    """A message with the same tag and another symbol."""
    symbol = (int.from_bytes(message[:width], "big") + 1) % ALPHABET
    return symbol.to_bytes(width, "big") + message[width:]


def _tear(board: list[bytes], message: bytes, given: Sequence[bytes], draws: Draws) -> None:
    """Remove a message and write its bytes across two neighbours, in place of given messages."""
    for gone in (message, *given):
        board.remove(gone)
    cut = 5 + draws.below(8)
    first = draws.bytes(len(message) - cut) + message[:cut]
    second = message[cut:] + draws.bytes(cut)
    index = draws.below(len(board))
    board[index:index] = [first, second]
    board.append(bytes(len(message) - TAG_BYTES) + draws.bytes(TAG_BYTES))


def _due(
    receipts: dict[str, str],
    board: Sequence[bytes],
    mine: dict[str, tuple[bytes, tuple[bytes, ...]]],
) -> dict[str, dict[int, str]]:
    """The justified complaints, by comparing every row of the board with every message."""
    due: dict[str, dict[int, str]] = {}
    for user, (envelope, messages) in mine.items():
        if receipts.get(user) != digest(envelope):
            continue
        for index, message in enumerate(messages):
            rows = [row for row in board if row[-TAG_BYTES:] == message[-TAG_BYTES:]]
            if rows == [message]:
                continue
            due.setdefault(user, {})[index] = (
                "missing" if not rows else "changed" if len(rows) == 1 else "doubled"
            )
    return due
