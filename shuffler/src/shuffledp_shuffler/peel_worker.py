"""Code of a peeling process, which opens the layers of a batch and seals a node's dummies.

It imports only the onion code, so that a worker starts quickly and stays small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from shuffledp_core.errors import NodeFault
from shuffledp_core.onion.geometry import TAG_BYTES, Geometry
from shuffledp_core.onion.layers import binding, seal_records
from shuffledp_core.onion.suites import suite_named
from shuffledp_core.sampling.randomness import system_random


@dataclass(frozen=True)
class Layer:
    """The layer that one node removes in one round."""

    geometry: Geometry
    round_id: str
    position: int
    private_key: bytes = field(repr=False)

    @property
    def unit_bytes(self) -> int:
        """Length in bytes of one unit: a user's envelope at position 1, a record elsewhere."""
        return (
            self.geometry.envelope_bytes
            if self.position == 1
            else self.geometry.record_bytes(self.position)
        )

    @property
    def records_per_unit(self) -> int:
        """Number of records inside one unit."""
        return self.geometry.messages_per_user if self.position == 1 else 1


@dataclass(frozen=True)
class PeeledChunk:
    """A packed chunk without one layer, and the positions of records that failed to decrypt."""

    data: bytes
    closed: tuple[int, ...]


def peel_chunk(layer: Layer, packed: bytes) -> PeeledChunk:
    """Remove one layer from every unit of a packed chunk, in unchanged order.

    Raises:
        NodeFault: an envelope does not open. It opened when it was accepted, so this node's disk is
            damaged.
    """
    suite = suite_named(layer.geometry.suite)
    info = binding(layer.round_id, layer.position)
    opened = suite.open_batch(layer.private_key, info, packed, layer.unit_bytes)
    if layer.position == 1 and opened.closed:
        raise NodeFault("an accepted envelope no longer decrypts: the disk of this node is damaged")
    # Elsewhere left out, not fatal: one bad onion of one user must not end the round.
    return PeeledChunk(opened.data, opened.closed)


@dataclass(frozen=True)
class LayersBehind:
    """The layers of all hops after a node, in which it seals its dummies.

    `public_keys` are the round keys of hops 1..L, in that order.
    """

    geometry: Geometry
    round_id: str
    position: int
    public_keys: tuple[bytes, ...]


def seal_chunk(layers: LayersBehind, symbols: Sequence[int]) -> bytes:
    """Seal dummies with these symbols; return packed records as the node sends them.

    Tags and ephemeral keys come from the operating system's randomness.
    """
    geometry = layers.geometry
    messages = [
        # A fresh tag, as in a user's message: nothing tells the two apart.
        symbol.to_bytes(geometry.symbol_bytes, "big") + system_random(TAG_BYTES)
        for symbol in symbols
    ]
    sources = [system_random] * len(messages)
    keys = layers.public_keys
    sealed = seal_records(geometry, layers.round_id, keys, layers.position, messages, sources)
    return b"".join(sealed)
