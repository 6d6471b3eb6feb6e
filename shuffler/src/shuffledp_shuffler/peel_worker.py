"""Code of a peeling process.

Imports only the onions: a worker starts in a moment and stays small.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from shuffledp_core.errors import NodeFault
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.onion.layers import binding
from shuffledp_core.onion.suites import suite_named


@dataclass(frozen=True)
class Layer:
    """The layer that one node removes in one round."""

    geometry: Geometry
    round_id: str
    position: int
    private_key: bytes = field(repr=False)

    @property
    def unit_bytes(self) -> int:
        """Length in bytes of one unit to open: a user's envelope at position 1, a record
        elsewhere.
        """
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
    """A packed chunk without one layer, and the places of the records that did not open and are
    left out.
    """

    data: bytes
    closed: tuple[int, ...]


def peel_chunk(layer: Layer, packed: bytes) -> PeeledChunk:
    """Removes one layer from every unit of a packed chunk, order kept.

    Raises:
        NodeFault: an envelope does not open; it did when it was accepted, so this node's disk is
            damaged.
    """
    suite = suite_named(layer.geometry.suite)
    info = binding(layer.round_id, layer.position)
    opened = suite.open_batch(layer.private_key, info, packed, layer.unit_bytes)
    if layer.position == 1 and opened.closed:
        raise NodeFault("an accepted envelope no longer opens: the disk of this node is damaged")
    # Elsewhere left out, not fatal: one bad onion of one user must not end the round.
    return PeeledChunk(opened.data, opened.closed)
