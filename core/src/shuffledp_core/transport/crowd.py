"""Eviction among waiting callers when there is no room for all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Generic, TypeVar

from shuffledp_core.runtime.addresses import network_of
from shuffledp_core.transport.connections import peer_of

Item = TypeVar("Item", bound=Hashable)


class Crowd(Generic[Item]):
    """Waiting items in order of arrival, each with its peer (gRPC's `ipv4:host:port`).

    An address counts as one subscriber; under IPv6 a whole /64 network counts as one address.
    """

    def __init__(self) -> None:
        self._peers: dict[Item, tuple[str, str]] = {}
        self._of_hosts: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._peers)

    def __contains__(self, item: Item) -> bool:
        return item in self._peers

    def add(self, item: Item, peer: str) -> None:
        """Add an item that begins to wait now."""
        host = _host(peer)
        self._peers[item] = (host, peer)
        self._of_hosts[host] += 1

    def discard(self, item: Item) -> None:
        """Removes an item, if it is still waiting."""
        removed = self._peers.pop(item, None)
        if removed is not None:
            host, _ = removed
            self._of_hosts[host] -= 1
            if not self._of_hosts[host]:
                del self._of_hosts[host]

    def has_larger_share(self, peer: str) -> bool:
        """Return True if some address has at least two items more than this peer's address."""
        return max(self._of_hosts.values(), default=0) > self._of_hosts[_host(peer)] + 1

    def take_one(self) -> Item:
        """Remove and return the oldest item of the busiest address's fullest connection."""
        # By address first: a newcomer, or the oldest of all, would be evicted by whoever opens the
        # most connections.
        host = max(self._of_hosts, key=self._of_hosts.__getitem__)
        connections = Counter(peer for peer_host, peer in self._peers.values() if peer_host == host)
        fullest = max(connections, key=connections.__getitem__)
        item = next(item for item, (_, peer) in self._peers.items() if peer == fullest)
        self.discard(item)
        return item


def _host(peer: str) -> str:
    """The part of a peer that all connections from one address share.

    The whole text for a peer without one.
    """
    address = peer_of(peer)
    return peer if address is None else network_of(address[0])
