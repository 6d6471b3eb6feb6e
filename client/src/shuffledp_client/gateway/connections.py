"""HTTP connections with time limits: requests that arrive too slowly are closed.

The head must arrive within some seconds; the application limits the body.

uvicorn limits only the idle time between two requests: a caller that sends a byte now and then
could keep a connection open indefinitely.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from shuffledp_client.http_api import PROBLEM, problem_of
from shuffledp_core.documents.signed import to_json
from shuffledp_core.errors import MalformedRequestError


class _SingleCloseTransport(asyncio.Transport):
    """A transport for uvicorn whose second `close` has no effect.

    asyncio's TLS transport drops its connection on a second `close` while the TLS shutdown is still
    under way: `abort` then no longer ends the connection, and raises AttributeError in Python
    3.11.2.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self._transport = transport

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def close(self) -> None:
        if not self._transport.is_closing():
            self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._transport.write(data)

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()


class TimedConnection(H11Protocol):
    """An HTTP connection with time limits for requests.

    `head_seconds` bounds the time in which a request's head, or what is left of a body, may come.
    """

    head_seconds = 10.0
    """Default of connection classes that do not set their own."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._overdue: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See `asyncio.Protocol`."""
        super().connection_made(_SingleCloseTransport(transport))
        self._expect()

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        super().data_received(data)
        if self._request_is_complete():
            self._relax()
        elif self._overdue is None:
            self._expect()

    def on_response_complete(self) -> None:
        """Stop the time limit; until the next request, uvicorn's idle limit applies."""
        self._relax()
        super().on_response_complete()
        # Of a body that the application did not want the rest may still come: not for longer than a
        # head may take. That of a request that waited behind this one is the application's by now,
        # and has its own time.
        if self.conn.their_state is h11.SEND_BODY and not self._answering():
            self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._relax()
        super().connection_lost(exc)

    def _request_is_complete(self) -> bool:
        """True once the request's head is complete, which ends its time limit."""
        return self._answering()

    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _expect(self) -> None:
        self._overdue = self.loop.call_later(self.head_seconds, self.transport.abort)

    def _relax(self) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None


class BoundedConnection(TimedConnection):
    """A connection of the gateway: errors get a problem document, then the connection ends.

    It ends after the answer that is under way.
    """

    def send_400_response(self, msg: str) -> None:
        """Respond to bytes that are not HTTP with a problem document, as to every error."""
        problem = to_json(problem_of(MalformedRequestError(msg)))
        headers = [
            ("content-type", PROBLEM),
            ("content-length", str(len(problem))),
            ("connection", "close"),
        ]
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            self.transport.write(
                self.conn.send(h11.Response(status_code=400, headers=headers)) or b""
            )
            self.transport.write(self.conn.send(h11.Data(data=problem)) or b"")
            self.transport.write(self.conn.send(h11.EndOfMessage()) or b"")
        self.transport.close()

    def shutdown(self) -> None:
        """Close the connection after the response that is under way, if there is one."""
        if self._answering():
            super().shutdown()
        else:
            self.transport.close()
