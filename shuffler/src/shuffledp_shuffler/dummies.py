"""A node's own messages in a round: noise that hides every user if this node is honest.

docs/protocol.md, section "Dummies", and docs/adr/0021. They are drawn once per round, by the
certified law and from the operating system's randomness, and are on disk before any part of the
outgoing batch: a node that mixes again after a crash adds the same ones.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from shuffledp_core.errors import NodeFault
from shuffledp_core.mechanisms import Mechanism
from shuffledp_core.runtime.files import commit_part, open_part, size_of
from shuffledp_core.runtime.tasks import in_thread
from shuffledp_core.sampling.randomness import RandomIntegers
from shuffledp_shuffler.peel_worker import LayersBehind, seal_chunk
from shuffledp_shuffler.peeling import PeelPool

_PIECE: Final = 2**12
"""Dummies sealed at a time: less than a second of work, and a few hundred kilobytes."""


async def make_dummies(
    path: Path,
    mechanism: Mechanism,
    layers: LayersBehind,
    pool: PeelPool,
    progress: Callable[[int], None] = lambda _done: None,
) -> None:
    """Draw and seal a node's dummies into `path`, unless the file exists.

    The file holds `dummies_per_node` packed records as the node passes them on. It appears complete
    and flushed to the disk, or not at all.

    Args:
        path: the file.
        mechanism: the certified mechanism, whose law the dummies have.
        layers: the layers of encryption around them.
        pool: worker processes.
        progress: called with the number of dummies sealed so far.

    Raises:
        NodeFault: the file exists with a wrong length, or the mechanism draws more or fewer dummies
            than it states.
        WorkersLost: a worker died; nothing was written.
    """
    geometry = layers.geometry
    length = geometry.dummies_per_node * geometry.record_bytes(layers.position + 1)
    if await in_thread(_are_there, path, length, layers.round_id):
        progress(geometry.dummies_per_node)
        return
    symbols = await in_thread(draw_symbols, mechanism, RandomIntegers())
    pieces = [symbols[start : start + _PIECE] for start in range(0, len(symbols), _PIECE)]
    with open_part(path) as file:
        sealed = 0

        async def store(records: bytes) -> None:
            nonlocal sealed
            await in_thread(file.write, records)
            sealed += len(records)
            progress(sealed * geometry.dummies_per_node // length)

        await pool.map(partial(seal_chunk, layers), pieces, store)
        await in_thread(commit_part, path, file)


def _are_there(path: Path, length: int, round_id: str) -> bool:
    """True if the file exists; raises `NodeFault` if its length is wrong."""
    # A second draw would be noise that no one certified, so that damage ends the round.
    if path.exists() and size_of(path) != length:
        raise NodeFault(
            f"the dummies of round {round_id} have {size_of(path)} bytes instead of {length}: the "
            "disk of this node is damaged; run the round again"
        )
    return path.exists()


def draw_symbols(mechanism: Mechanism, integers: RandomIntegers) -> list[int]:
    """Draw the symbols of a node's dummies by the certified law.

    Raises `NodeFault` if the mechanism draws more or fewer dummies than it states.
    """
    symbols: list[int] = mechanism.sample_dummies(integers).tolist()
    if len(symbols) != mechanism.dummies_per_node:
        raise NodeFault(
            f"{mechanism.kind} drew {len(symbols)} dummies instead of "
            f"{mechanism.dummies_per_node}; the installed mechanism contradicts itself"
        )
    return symbols
