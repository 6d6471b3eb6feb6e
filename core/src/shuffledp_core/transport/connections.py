"""Connections of a service: limits on their number, and closing those that block others.

gRPC accepts connections by itself, limits them for all callers alike, and has no Python call that
ends one. So a caller that withholds flow control makes us keep its answers as long as its
connection lives, and early callers can keep out others. Therefore this module looks at the
process's own descriptors and shuts down sockets that were accepted on our port; gRPC then sees the
same as when a peer hangs up. It reads nothing from these sockets, and does not close them, which is
left to gRPC.
"""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import stat
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from heapq import heapify, heapreplace
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from random import SystemRandom
from typing import Final, TypeAlias
from urllib.parse import unquote

import structlog

from shuffledp_core.runtime.addresses import network_of
from shuffledp_core.runtime.config import Limits

Peer: TypeAlias = tuple[str, int]
"""Address and port of the other side of a connection."""

LOOK_SECONDS: Final = 0.25
"""Interval at which connections are counted and overdue callers looked for."""

PAUSE_SECONDS: Final = 0.1
"""Shortest interval between two closings of connections, however many there are to close."""

_OWNER_SECONDS: Final = 0.01
"""Interval at which `end_all` looks whether the owner of the connections has closed them."""

MANY_KNOWN: Final = 1000
"""Connections of parties after which those that are gone are forgotten."""

OTHER_DESCRIPTORS: Final = 1024
"""Descriptors that a service needs beside connections: rounds, ledgers, boards, threads, libraries.
"""

_DESCRIPTORS: Final = Path("/dev/fd")
"""This process's own open files, on Linux and macOS."""


def peer_of(text: str) -> Peer | None:
    """The peer that gRPC writes as `ipv4:127.0.0.1:5000` or `ipv6:%5B::1%5D:5000`.

    None for other kinds of sockets.
    """
    kind, _, rest = unquote(text).partition(":")
    host, _, port = rest.rpartition(":")
    return _peer(host.strip("[]"), int(port)) if kind in {"ipv4", "ipv6"} else None


def _peer(host: str, port: int) -> Peer:
    address = ip_address(host.partition("%")[0])
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return str(address), port


def allow_descriptors(limits: Limits) -> None:
    """Raises the soft limit of open files to what the limits need.

    Logs a warning when the hard one is lower.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = limits.most_accepted + OTHER_DESCRIPTORS
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed < needed:
        structlog.get_logger().warning(
            "limit on open files is too low for the connections that the configuration allows",
            allowed=allowed,
            wanted=needed,
        )


class Connections:
    """The accepted connections of one service.

    `look` is called before every count, to mark overdue connections.
    """

    def __init__(self, limits: Limits, look: Callable[[], None]) -> None:
        self._limits = limits
        self._look = look
        self._port = 0
        self._calls: Counter[str] = Counter()
        self._party_peers: set[str] = set()
        self._ending: set[str] = set()
        self._ages: dict[Peer, None] = {}
        self._requested = asyncio.Event()

    def begin(self, peer: str, *, known: bool) -> None:
        """Register a call on this connection.

        `known`: whether a party or an operator calls, whose connection is never surplus.
        """
        self._calls[peer] += 1
        if known:
            self._party_peers.add(peer)

    def end(self, peer: str) -> None:
        """Registers the end of a call on this connection."""
        self._calls[peer] -= 1
        if not self._calls[peer]:
            del self._calls[peer]

    def hang_up(self, peer: str) -> None:
        """Mark a connection to be closed at the next check."""
        self._ending.add(peer)
        self._requested.set()

    async def end_all(self, seconds: float) -> None:
        """Shut every connection down, including those in a TLS handshake.

        Wait up to `seconds` for their owner.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while open_connections := dict(self._open_connections()):
                    for peer, descriptor in open_connections.items():
                        self._shut(descriptor, peer)
                    await asyncio.sleep(_OWNER_SECONDS)

    async def watch(self, port: int) -> None:
        """Keep the connections on this local port within the limits, until cancelled."""
        self._port = port
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._requested.wait()
            self._requested.clear()
            self._look()
            if self._ending or len(self._party_peers) > MANY_KNOWN or self._is_crowded():
                self._close_surplus()
            # Listing descriptors costs time for each of them: callers that force hang-ups must not
            # fill all of ours.
            await asyncio.sleep(PAUSE_SECONDS)

    def _is_crowded(self) -> bool:
        """True if there may be too many connections.

        It counts all descriptors, which costs next to nothing.
        """
        # Our own files count, too, so that this errs on one side: it may cause an exact count,
        # never spare one.
        return len(_open_descriptors()) > self._limits.connections

    def _close_surplus(self) -> None:
        open_connections = dict(self._open_connections())
        # The privilege ends with its connection: a later stranger with the same address and port
        # must not inherit it.
        self._party_peers = {
            peer for peer in self._party_peers if peer_of(peer) in open_connections
        }
        ending = {peer for peer in map(peer_of, self._ending) if peer in open_connections}
        self._ending.clear()
        ending |= self._surplus(
            open_connections, len(open_connections) - len(ending) - self._limits.connections
        )
        for peer in ending:
            self._shut(open_connections[peer], peer)
        if ending:
            structlog.get_logger().info(
                "surplus or stalled connections closed",
                number=len(ending),
                left=len(open_connections) - len(ending),
            )

    def _surplus(self, open_connections: dict[Peer, int], number: int) -> set[Peer]:
        """Choose `number` unauthenticated connections of the busiest address: idle, then oldest."""
        new = [peer for peer in open_connections if peer not in self._ages]
        SystemRandom().shuffle(new)  # the order of descriptors says nothing about age
        self._ages = {peer: None for peer in [*self._ages, *new] if peer in open_connections}
        party_peers = set(map(peer_of, self._party_peers))
        calling = set(map(peer_of, self._calls))
        strangers = [peer for peer in self._ages if peer not in party_peers]
        # A stable sort: idle ones come first, and among each kind the oldest stay in front.
        strangers.sort(key=calling.__contains__)
        queues: dict[str, deque[Peer]] = {}
        for peer in strangers:
            queues.setdefault(network_of(peer[0]), deque()).append(peer)
        # A heap, because a wave leaves thousands to choose: a search for the fullest address each
        # time is quadratic.
        largest = [(-len(queue), host) for host, queue in queues.items()]
        heapify(largest)
        chosen: set[Peer] = set()
        for _ in range(min(number, len(strangers))):
            size, host = largest[0]
            heapreplace(largest, (size + 1, host))
            chosen.add(queues[host].popleft())
        return chosen

    def _open_connections(self) -> Iterator[tuple[Peer, int]]:
        for descriptor in _open_descriptors():
            peer = self._peer_at(descriptor)
            if peer is not None:
                yield peer, descriptor

    def _peer_at(self, descriptor: int) -> Peer | None:
        """The peer of an accepted connection; None for any other descriptor."""
        try:
            if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                return None
            with _borrow(descriptor) as link:
                if (
                    link.family not in {socket.AF_INET, socket.AF_INET6}
                    or link.getsockname()[1] != self._port
                ):
                    return None
                return _peer(*link.getpeername()[:2])
        except OSError:  # closed meanwhile, or the listening socket itself, which has no peer
            return None

    def _shut(self, descriptor: int, peer: Peer) -> None:
        if (
            self._peer_at(descriptor) == peer
        ):  # gRPC's threads may have closed it, and others taken the number
            with suppress(OSError), _borrow(descriptor) as link:
                link.shutdown(socket.SHUT_RDWR)


def _open_descriptors() -> Sequence[int]:
    """Open descriptors of this process.

    All possible ones if no descriptor is left to list them with.
    """
    try:
        return [int(entry.name) for entry in _DESCRIPTORS.iterdir()]
    except OSError:
        return range(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


@contextmanager
def _borrow(descriptor: int) -> Iterator[socket.socket]:
    """A socket object for a descriptor, without taking ownership of it."""
    link = socket.socket(fileno=descriptor)
    try:
        yield link
    finally:
        link.detach()  # closing it would close gRPC's descriptor
