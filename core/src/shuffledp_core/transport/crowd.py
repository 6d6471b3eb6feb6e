"""Eviction among waiting callers when there is no room for all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Generic, TypeVar

Item = TypeVar("Item", bound=Hashable)


class Crowd(Generic[Item]):
    """Waiting items in order of arrival, each with the peer (gRPC's `ipv4:host:port`) that it belongs to."""

    def __init__(self) -> None:
        self._peers: dict[Item, str] = {}
        self._of_hosts: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._peers)

    def __contains__(self, item: Item) -> bool:
        return item in self._peers

    def add(self, item: Item, peer: str) -> None:
        """Adds an item that waits from now on."""
        self._peers[item] = peer
        self._of_hosts[_host(peer)] += 1

    def discard(self, item: Item) -> None:
        """Removes an item, if it is still waiting."""
        peer = self._peers.pop(item, None)
        if peer is not None:
            host = _host(peer)
            self._of_hosts[host] -= 1
            if not self._of_hosts[host]:
                del self._of_hosts[host]

    def take_one(self) -> Item:
        """Removes and returns the item to evict: the oldest of the fullest connection of the address that has most."""
        # By address first: a newcomer, or the oldest of all, would be evicted by whoever opens the most connections.
        host = max(self._of_hosts, key=self._of_hosts.__getitem__)
        connections = Counter(peer for peer in self._peers.values() if _host(peer) == host)
        fullest = max(connections, key=connections.__getitem__)
        item = next(item for item, peer in self._peers.items() if peer == fullest)
        self.discard(item)
        return item


def _host(peer: str) -> str:
    return peer.rpartition(":")[0]
