"""Tampering of a malicious mix node with its peeled records: pure functions.

Each tampering keeps every length and, where it can, every count, and the node signs a header for
exactly what it sends. The node's knowledge is in `Pool`; nothing here is available to an honest
node only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from shuffledp_core.onion.geometry import TAG_BYTES, Geometry
from shuffledp_core.onion.layers import binding
from shuffledp_core.onion.suites import suite_named
from shuffledp_core.sampling.randomness import RandomIntegers, system_random

COPIES: Final = 3
"""Multiplicity of a copied onion in the batch, the original included."""


@dataclass(frozen=True)
class Pool:
    """Data of a malicious node after peeling.

    Attributes:
        geometry: lengths of the round.
        round_id: the round.
        public_keys: round keys of hops 1..L.
        position: the node's own, 1..L.
        records: its honest output, peeled and permuted.
        victim: those of `records` that it attacks: all of the first user at the entry, the first
            one elsewhere.
        earlier: a record of the victim of an earlier round at this position; None in the first.
        made_up: the plain messages that the node makes up in this round; it recognises them on the
            board.
    """

    geometry: Geometry
    round_id: str
    public_keys: Sequence[bytes]
    position: int
    records: list[bytes]
    victim: list[bytes]
    earlier: bytes | None = None
    made_up: list[bytes] = field(default_factory=list)

    def others(self) -> list[int]:
        """Places of the records that are not the victim's."""
        mine = set(self.victim)
        return [index for index, record in enumerate(self.records) if record not in mine]

    def forge(self, symbol: int) -> bytes:
        """A record of the node's own with a symbol of its choice, sealed for the hops behind it."""
        record = symbol.to_bytes(self.geometry.symbol_bytes, "big") + system_random(TAG_BYTES)
        self.made_up.append(record)
        suite = suite_named(self.geometry.suite)
        for hop in range(self.geometry.hops, self.position, -1):
            record = suite.sealer(self.public_keys[hop - 1], binding(self.round_id, hop))(record)
        return record

    def replace(self, places: Sequence[int], by: Callable[[], bytes]) -> list[bytes]:
        """The output with the records at these places replaced."""
        chosen = set(places)
        return [by() if index in chosen else record for index, record in enumerate(self.records)]

    def of_victim(self) -> list[int]:
        """Places of the victim's records."""
        mine = set(self.victim)
        return [index for index, record in enumerate(self.records) if record in mine]


def copy(pool: Pool) -> list[bytes]:
    """Replace other onions by copies of one of the victim's.

    The adversary recognises it on the board by its multiplicity.
    """
    return pool.replace(pool.others()[: COPIES - 1], lambda: pool.victim[0])


def replay(pool: Pool) -> list[bytes]:
    """Put an onion of an earlier round among those of this one.

    Raises `ValueError` in the first round.
    """
    earlier = pool.earlier
    if earlier is None:
        raise ValueError("there is no earlier round whose messages could be replayed")
    return pool.replace(pool.others()[:1], lambda: earlier)


def substitute(pool: Pool) -> list[bytes]:
    """Drop the victim's onions and send as many of its own: every count stays right."""
    return pool.replace(pool.of_victim(), lambda: pool.forge(0))


def exchange(pool: Pool) -> list[bytes]:
    """Exchange one onion of the victim for one with the symbol 1."""
    return pool.replace(pool.of_victim()[:1], lambda: pool.forge(1))


def isolate(pool: Pool) -> list[bytes]:
    """Drop all onions but the victim's and add the node's own instead.

    The rest of the board is then the victim's.
    """
    return pool.replace(pool.others(), lambda: pool.forge(0))


def mark(pool: Pool) -> list[bytes]:
    """Flip one bit, drawn at random, of one onion of the victim, to know it again."""
    integers = RandomIntegers()
    marked = bytearray(pool.victim[0])
    marked[integers.below(len(marked))] ^= 1 << integers.below(8)
    return pool.replace(pool.of_victim()[:1], lambda: bytes(marked))


def shrink(pool: Pool) -> list[bytes]:
    """Drop one user's worth of records, the victim's first.

    Where the node knows only one record of the victim, others are dropped as well.
    """
    doomed = [*pool.of_victim(), *pool.others()][: pool.geometry.messages_per_user]
    return [record for index, record in enumerate(pool.records) if index not in set(doomed)]


def grow(pool: Pool) -> list[bytes]:
    """Add the records of a user who does not exist."""
    return pool.records + [pool.forge(0) for _ in range(pool.geometry.messages_per_user)]


def alter(pool: Pool) -> list[bytes]:
    """Last node: flips the lowest bit of one plain symbol and leaves the tag.

    `ValueError` anywhere else.
    """
    if pool.position != pool.geometry.hops:
        raise ValueError("only the last node sees plain symbols")
    last = pool.geometry.symbol_bytes - 1
    plain = bytearray(pool.victim[0])
    plain[last] ^= 1
    return pool.replace(pool.of_victim()[:1], lambda: bytes(plain))


def double(pool: Pool) -> list[bytes]:
    """`copy` at the last node, with a plain message that it can read.

    `ValueError` anywhere else.
    """
    if pool.position != pool.geometry.hops:
        raise ValueError("only the last node sees plain messages")
    return copy(pool)


def drop(pool: Pool) -> list[bytes]:
    """Drop the victim's onions and sign for their number, as if they had failed to decrypt."""
    mine = set(pool.of_victim())
    return [record for index, record in enumerate(pool.records) if index not in mine]


SILENTLY: Final = "shrink-silently"
"""As `shrink`, and at the close the entry node also claims one report fewer than it acknowledged.
"""

CROWD: Final = "crowd"
"""No change after peeling: the entry node admits one user and refuses the others in favour of
accomplices who are
not enrolled. See `node.LyingNode`."""

DROP: Final = "drop"
"""The only tampering that the node's header admits; see `drop`."""

TAMPERINGS: Final[dict[str, Callable[[Pool], list[bytes]]]] = {
    "alter": alter,
    "copy": copy,
    CROWD: lambda pool: pool.records,
    "double": double,
    DROP: drop,
    "exchange": exchange,
    "grow": grow,
    "isolate": isolate,
    "mark": mark,
    "replay": replay,
    "shrink": shrink,
    SILENTLY: shrink,
    "substitute": substitute,
}
"""Every tampering by the name that orders use."""


def split_records(packed: bytes, width: int) -> list[bytes]:
    """Split packed records of `width` bytes."""
    return [packed[start : start + width] for start in range(0, len(packed), width)]
