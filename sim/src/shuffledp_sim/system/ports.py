"""Reserved ports of this machine, for servers that are stopped and started again."""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Self


class Ports:
    """Reservation of `count` different ports until `close`, on the loopback interface or `host`.

    Take "0.0.0.0" for a server that listens on every interface: the port is then free on all of
    them.

    Each is held by a bound socket that does not listen. A server that reuses addresses (gRPC's,
    asyncio's and Prometheus' do) can listen on such a port, and again after a restart, but the
    kernel gives it to no other program and to no outgoing connection meanwhile; until someone
    listens, connections are refused.
    """

    def __init__(self, count: int, host: str = "127.0.0.1") -> None:
        self._sockets = [socket.socket() for _ in range(count)]
        for holder in self._sockets:
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            holder.bind((host, 0))
        self.numbers: list[int] = [holder.getsockname()[1] for holder in self._sockets]

    def close(self) -> None:
        """Release all ports. Safe to call twice."""
        for holder in self._sockets:
            holder.close()

    def __del__(self) -> None:
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
