"""Tampering of a malicious mix node with peeled records, as pure functions.

Each tampering keeps every length and, where it can, every count, and the node signs a header for
exactly what it sends. All that the node knows is in `Pool`.
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
    """Data of a malicious node after it peeled a batch.

    Attributes:
        geometry: lengths of the round.
        round_id: the round.
        public_keys: round keys of hops 1..L.
        position: the node's own, 1..L.
        records: the node's honest output, peeled and permuted.
        victim: the records among `records` that the node attacks: all of the first user at the
            entry node, the first record elsewhere.
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
        """Indices of the records that are not the victim's."""
        mine = set(self.victim)
        return [index for index, record in enumerate(self.records) if record not in mine]

    def forge(self, symbol: int) -> bytes:
        """A forged record with a symbol of the node's choice, sealed for the later hops."""
        record = symbol.to_bytes(self.geometry.symbol_bytes, "big") + system_random(TAG_BYTES)
        self.made_up.append(record)
        suite = suite_named(self.geometry.suite)
        for hop in range(self.geometry.hops, self.position, -1):
            record = suite.sealer(self.public_keys[hop - 1], binding(self.round_id, hop))(record)
        return record

    def replace(self, places: Sequence[int], by: Callable[[], bytes]) -> list[bytes]:
        """The output with the records at these indices replaced."""
        chosen = set(places)
        return [by() if index in chosen else record for index, record in enumerate(self.records)]

    def of_victim(self) -> list[int]:
        """Indices of the victim's records."""
        mine = set(self.victim)
        return [index for index, record in enumerate(self.records) if record in mine]


def copy(pool: Pool) -> list[bytes]:
    """Replace other onions by copies of one of the victim's.

    The adversary recognises it on the board by its multiplicity.
    """
    return pool.replace(pool.others()[: COPIES - 1], lambda: pool.victim[0])


def replay(pool: Pool) -> list[bytes]:
    """Insert an onion of an earlier round among those of this round.

    Raises `ValueError` in the first round.
    """
    earlier = pool.earlier
    if earlier is None:
        raise ValueError("there is no earlier round whose messages could be replayed")
    return pool.replace(pool.others()[:1], lambda: earlier)


def substitute(pool: Pool) -> list[bytes]:
    """Replace the victim's onions by as many forged ones, so that every count is right."""
    return pool.replace(pool.of_victim(), lambda: pool.forge(0))


def exchange(pool: Pool) -> list[bytes]:
    """Replace one onion of the victim by a forged one with the symbol 1."""
    return pool.replace(pool.of_victim()[:1], lambda: pool.forge(1))


def isolate(pool: Pool) -> list[bytes]:
    """Replace all onions except the victim's by forged ones.

    The rest of the board is then the victim's.
    """
    return pool.replace(pool.others(), lambda: pool.forge(0))


def mark(pool: Pool) -> list[bytes]:
    """Flip one random bit in one onion of the victim, to recognise the onion later."""
    integers = RandomIntegers()
    marked = bytearray(pool.victim[0])
    marked[integers.below(len(marked))] ^= 1 << integers.below(8)
    return pool.replace(pool.of_victim()[:1], lambda: bytes(marked))


def shrink(pool: Pool) -> list[bytes]:
    """Drop as many records as one user sent, the victim's first.

    Where the node knows only one record of the victim, others are dropped as well.
    """
    doomed = [*pool.of_victim(), *pool.others()][: pool.geometry.messages_per_user]
    return [record for index, record in enumerate(pool.records) if index not in set(doomed)]


def grow(pool: Pool) -> list[bytes]:
    """Add the records of an invented user."""
    return pool.records + [pool.forge(0) for _ in range(pool.geometry.messages_per_user)]


def alter(pool: Pool) -> list[bytes]:
    """At the last node, flip the lowest bit of one plain symbol and leave its tag.

    Raises `ValueError` anywhere else.
    """
    if pool.position != pool.geometry.hops:
        raise ValueError("only the last node sees plain symbols")
    last = pool.geometry.symbol_bytes - 1
    plain = bytearray(pool.victim[0])
    plain[last] ^= 1
    return pool.replace(pool.of_victim()[:1], lambda: bytes(plain))


def double(pool: Pool) -> list[bytes]:
    """`copy` at the last node, of a plain message that the node can read.

    Raises `ValueError` anywhere else.
    """
    if pool.position != pool.geometry.hops:
        raise ValueError("only the last node sees plain messages")
    return copy(pool)


def drop(pool: Pool) -> list[bytes]:
    """Drop the victim's onions, and sign their number as if they had failed to decrypt."""
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
