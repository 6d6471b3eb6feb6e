"""A node's own messages in a round: noise that hides every user while this node is honest.

docs/protocol.md, section "Dummies", and docs/adr/0021. Drawn once in a round, by the certified law
and from the operating system's randomness, and on disk before anything of the batch is: a node that
mixes again after a crash adds the same ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from shuffledp_core.errors import NodeFault
from shuffledp_core.mechanisms import Mechanism
from shuffledp_core.onion.geometry import TAG_BYTES, Geometry
from shuffledp_core.onion.layers import seal_records
from shuffledp_core.runtime.files import commit_part, open_part, size_of
from shuffledp_core.sampling.randomness import RandomBytes, RandomIntegers

_PIECE: Final = 2**13
"""Dummies that are sealed at a time: some megabytes of memory."""


def make_dummies(
    path: Path,
    mechanism: Mechanism,
    geometry: Geometry,
    round_id: str,
    public_keys: tuple[bytes, ...],
    position: int,
    random: RandomBytes,
) -> None:
    """Draws and seals the dummies of the node at `position` into `path`, unless they are there.

    The file holds `geometry.dummies_per_node` packed records as the node passes them on. It appears
    complete and flushed to the disk, or not at all.

    Args:
        path: the file.
        mechanism: the certified one, whose law the dummies have.
        geometry: lengths of the round.
        round_id: the round.
        public_keys: round keys of hops 1..L, in that order.
        position: 1..L.
        random: the operating system's CSPRNG; tests may pass a recorded stream.

    Raises:
        NodeFault: the file is there with another length, or the mechanism draws another number of
            dummies than it states.
    """
    length = geometry.dummies_per_node * geometry.record_bytes(position + 1)
    if path.exists():
        # A second draw would be noise that nobody certified; damage ends the round.
        if size_of(path) != length:
            raise NodeFault(
                f"the dummies of round {round_id} have {size_of(path)} bytes instead of {length}: "
                "the disk of this node is damaged; run the round again"
            )
        return
    symbols = draw_symbols(mechanism, RandomIntegers(random))
    with open_part(path) as file:
        for start in range(0, len(symbols), _PIECE):
            messages = [
                # A fresh tag, as in a user's message: nothing tells the two apart.
                symbol.to_bytes(geometry.symbol_bytes, "big") + random(TAG_BYTES)
                for symbol in symbols[start : start + _PIECE]
            ]
            sources = [random] * len(messages)
            sealed = seal_records(geometry, round_id, public_keys, position, messages, sources)
            file.write(b"".join(sealed))
        commit_part(path, file)


def draw_symbols(mechanism: Mechanism, integers: RandomIntegers) -> list[int]:
    """Draws the symbols of a node's dummies by the certified law.

    Raises:
        NodeFault: the mechanism draws another number of dummies than it states.
    """
    symbols: list[int] = mechanism.sample_dummies(integers).tolist()
    if len(symbols) != mechanism.dummies_per_node:
        raise NodeFault(
            f"{mechanism.kind} drew {len(symbols)} dummies instead of "
            f"{mechanism.dummies_per_node}; the installed mechanism contradicts itself"
        )
    return symbols
