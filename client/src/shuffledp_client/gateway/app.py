"""The gateway as an ASGI application: routes behind a guard that limits and translates."""

from __future__ import annotations

import asyncio
import re
import time
import traceback
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from http import HTTPStatus
from pathlib import Path
from typing import Final, Protocol

import structlog
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shuffledp_client.gateway.config import GatewayConfig, WebConfig
from shuffledp_client.gateway.openapi import openapi
from shuffledp_client.gateway.rate import Rate, Room
from shuffledp_client.gateway.upstream import Upstream
from shuffledp_client.gateway.web import NamedOrigins, PageRoutes
from shuffledp_client.http_api import (
    ANNOUNCEMENT,
    BOARD,
    BYTES,
    CURRENT,
    HEALTH,
    JSON,
    OPENAPI,
    PROBLEM,
    RESULT,
    SUBMISSIONS,
    TILE,
    SubmissionBody,
    problem_of,
)
from shuffledp_core.documents.signed import from_json, to_json
from shuffledp_core.errors import (
    BusyError,
    MalformedRequestError,
    ShuffleDPError,
    UnknownRoundError,
)
from shuffledp_core.transport.doorway import Line, Slots
from shuffledp_core.vocabulary import ROUND_ID

HEADERS: Final = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
"""On every answer without such a header: a cache in between would show a device the round of
yesterday.
"""

_LASTING: Final = {"cache-control": "public, max-age=31536000, immutable"}
"""On boards and tiles: a round has one, which never changes, and devices check it."""


class Callers(Protocol):
    """Receiver of the beginning and end of every call, and of connections to be closed.

    `transport.connections.Connections` is one.
    """

    def begin(self, peer: str, *, known: bool) -> None:
        """Called when a call begins."""

    def end(self, peer: str) -> None:
        """Called when a call has ended."""

    def hang_up(self, peer: str) -> None:
        """Called with the peer whose connection must be closed."""


CallerOf = Callable[[Scope], str]
"""The address of a request's caller, for limits."""

Refused = Callable[[str, BaseException], None]
"""Callback with the route and the error of every call that fails."""


class Gateway:
    """The gateway's routes for devices.

    What a device sends is parsed as far as it must be to pass it on, and nothing of it is kept.
    """

    def __init__(self, config: GatewayConfig, upstream: Upstream) -> None:
        self._config = config
        self._upstream = upstream
        self._line = Line(config.limits.silent_calls, config.submission_seconds)
        self._room = Room(config.waiting_bytes)
        self._boards = Slots(config.boards)
        self._document = to_bytes(openapi())

    def routes(self) -> list[Route]:
        """All routes for devices."""
        routes = [
            Route(CURRENT, self.announcement, methods=["GET"]),
            Route(ANNOUNCEMENT, self.announcement, methods=["GET"]),
            Route(SUBMISSIONS, self.submit, methods=["POST"]),
            Route(RESULT, self.result, methods=["GET"]),
            Route(BOARD, self.board, methods=["GET"]),
            Route(TILE, self.tile, methods=["GET"]),
            Route(HEALTH, self.health, methods=["GET"]),
            Route(OPENAPI, self.describe, methods=["GET"]),
        ]
        for route in routes:
            # starlette adds it to GET: a whole board would be downloaded, and nothing sent to
            # whoever asks.
            (route.methods or set()).discard("HEAD")
        return routes

    async def announcement(self, request: Request) -> Response:
        """Respond with the announcement, exactly as the analyst sent it."""
        round_id = _round_of(request) if "round_id" in request.path_params else None
        return _json(await self._upstream.announcement(round_id))

    async def submit(self, request: Request) -> Response:
        """Forward a sealed submission to the entry node; respond with the receipt."""
        round_id = _round_of(request)
        if request.headers.get("content-type", "").partition(";")[0].strip() != JSON:
            raise MalformedRequestError(
                f"a submission must be {JSON}; its fields are described in {OPENAPI}"
            )
        with self._room.place() as take:
            body = await self._line.wait(self._body(request, take), peer_of(request.scope))
            if body is None:
                most = self._config.body_bytes
                error = MalformedRequestError(
                    f"the body is longer than the {most} bytes that this gateway accepts"
                )
                return problem_response(error, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            submission = from_json(body, SubmissionBody)
            del body
            receipt = await self._upstream.submit(round_id, submission)
        return _json(receipt.to_bytes())

    async def result(self, request: Request) -> Response:
        """Respond with the signed result, and the discards."""
        return _json(to_json(await self._upstream.ending(_round_of(request))))

    async def board(self, request: Request) -> Response:
        """Respond with the board as it arrives from the analyst."""
        return _Board(self._upstream.board(_round_of(request)), self._boards)

    async def tile(self, request: Request) -> Response:
        """Respond with a tile of the board, which caches may store."""
        index = _tile_index(request)
        tile = await self._upstream.tile(_round_of(request), index)
        return Response(tile, headers=dict(_LASTING), media_type=BYTES)

    async def health(self, request: Request) -> Response:  # noqa: ARG002 - starlette's interface
        """Respond that this process works, whether or not other parties do."""
        return _json(b'{"status":"ok"}')

    async def describe(self, request: Request) -> Response:  # noqa: ARG002
        """Respond with the OpenAPI document."""
        return _json(self._document)

    async def _body(self, request: Request, take: Callable[[int], None]) -> bytes | None:
        """Read the body of a request; None if it is too long, without reading the rest."""
        most = self._config.body_bytes
        if int(request.headers.get("content-length", "0")[:20]) > most:
            return None
        pieces, size = [], 0
        async for piece in request.stream():
            size += len(piece)
            if size > most:
                return None
            take(len(piece))
            pieces.append(piece)
        return b"".join(pieces)


class Guard:
    """Limits for each caller, and the only place where errors become responses.

    Nothing that a caller sent is logged.
    """

    def __init__(
        self,
        app: ASGIApp,
        config: GatewayConfig,
        callers: Callers,
        refused: Refused,
        caller_of: CallerOf,
    ) -> None:
        self._app = app
        self._caller_of = caller_of
        self._refused = refused
        self._seconds = config.limits.answer_seconds
        self._rate = Rate(config.requests_per_minute, time.monotonic)
        self._callers = callers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        answer = _Answer(send, self._seconds)
        peer = peer_of(scope)
        # A mark by which routes raise what HTTP refuses, instead of answering it in plain text.
        scope["app"] = self._app
        self._callers.begin(peer, known=False)
        # From here on who called counts, and not the proxy that passed the call on.
        if scope.get("client"):
            scope["client"] = (self._caller_of(scope), scope["client"][1])
        try:
            refusal = await self._handle(scope, receive, answer)
            if refusal is not None and not answer.begun:
                await refusal(scope, receive, answer)
        except TimeoutError:
            answer.late = True
        finally:
            if answer.late or (answer.begun and not answer.complete):
                # A half of a board may have gone: only the end of the connection says that it is
                # not the whole.
                self._callers.hang_up(peer)
            self._callers.end(peer)

    async def _handle(self, scope: Scope, receive: Receive, answer: _Answer) -> Response | None:
        """Run a call; return a response if the call failed."""
        try:
            self._rate.take((scope.get("client") or ("",))[0])
        except BusyError as error:
            self._refused("rate", error)
            return problem_response(error, HTTPStatus.TOO_MANY_REQUESTS, wait=60)
        try:
            await self._app(scope, receive, answer)
        except ClientDisconnect:
            return None
        except HTTPException as error:
            status = HTTPStatus(error.status_code)
            return problem_response(
                MalformedRequestError(
                    f"{status.phrase}; the available paths are listed in {OPENAPI}"
                ),
                status,
            )
        except ShuffleDPError as error:
            self._refused(_route_of(scope), error)
            return problem_response(error)
        except Exception as error:  # noqa: BLE001 - what nobody foresaw must end neither the process nor in silence
            if not answer.late:
                self._refused(_route_of(scope), error)
                structlog.get_logger().error(
                    "unexpected failure",
                    path=_route_of(scope),
                    kind=type(error).__name__,
                    where=_where(error),
                )
            return problem_response(
                BusyError("the gateway failed; the cause is in its log. Retry later"),
                HTTPStatus.INTERNAL_SERVER_ERROR,
            )
        return None


class _Answer:
    """The caller's `send`, with a time limit for each message.

    `late` becomes True when the caller exceeds it.
    """

    def __init__(self, send: Send, seconds: float) -> None:
        self._send = send
        self._seconds = seconds
        self.begun = self.complete = self.late = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
            given = message.get("headers", ())
            named = {name for name, _ in given}
            more = [header for header in HEADERS if header[0] not in named]
            message["headers"] = [*given, *more]
        try:
            async with asyncio.timeout(self._seconds):
                await self._send(message)
        except TimeoutError:
            self.late = True
            raise
        if message["type"] == "http.response.body" and not message.get("more_body"):
            self.complete = True


def peer_address(scope: Scope) -> str:
    """The address at the other end of the connection."""
    return str((scope.get("client") or ("",))[0])


def application(
    gateway: Gateway, config: GatewayConfig, callers: Callers, refused: Refused
) -> ASGIApp:
    """The application for devices that authenticate with the deployment's certificate."""
    router = Router(gateway.routes(), redirect_slashes=False)
    return Guard(router, config, callers, refused, peer_address)


def page_application(
    gateway: Gateway,
    pages: PageRoutes,
    config: GatewayConfig,
    web: WebConfig,
    callers: Callers,
    refused: Refused,
) -> ASGIApp:
    """The application for web pages."""
    router = Router([*gateway.routes(), *pages.routes()], redirect_slashes=False)
    named = NamedOrigins(router, web)
    return Guard(named, config, callers, refused, named.caller_of)


def problem_response(
    error: ShuffleDPError, status: HTTPStatus | None = None, *, wait: int = 5
) -> Response:
    """The response to an error; a temporary error says when to retry, in seconds."""
    problem = problem_of(error, status)
    headers = {"retry-after": str(wait)} if isinstance(error, BusyError) else {}
    return Response(to_json(problem), problem.status, headers, PROBLEM)


def peer_of(scope: Scope) -> str:
    """The caller's address and port, as gRPC writes them.

    "gone" if the caller had already disconnected.
    """
    client = scope.get("client")
    if client is None:
        return "gone"
    host, port = (
        client[0].partition("%")[0],
        client[1],
    )  # a zone would be read as an escape of the URL's
    return f"ipv6:[{host}]:{port}" if ":" in host else f"ipv4:{host}:{port}"


def to_bytes(document: object) -> bytes:
    """Encode a document as indented JSON; equal values give equal bytes."""
    import json

    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()


def _round_of(request: Request) -> str:
    round_id = str(request.path_params["round_id"])
    if not ROUND_ID.fullmatch(round_id):
        raise UnknownRoundError(
            f"a round id must be 32 lower-case hex digits, not {round_id[:40]!r}"
        )
    return round_id


def _tile_index(request: Request) -> int:
    digits = str(request.path_params["index"])
    if not re.fullmatch(r"0|[1-9][0-9]{0,7}", digits):
        raise UnknownRoundError(f"a tile's index must be a whole number, not {digits[:40]!r}")
    return int(digits)


def _route_of(scope: Scope) -> str:
    """Name of a route for metrics: a closed set, without round ids."""
    return getattr(scope.get("endpoint"), "__name__", "none")


def _where(error: BaseException) -> list[str]:
    """The source lines that led to an error, outermost first.

    Without the error's message, which may quote what a caller sent.
    """
    return [
        f"{Path(frame.filename).name}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
    ]


def _json(data: bytes) -> Response:
    return Response(data, media_type=JSON)


class _Board(StreamingResponse):
    """A streamed board, which occupies one download slot.

    An evicted download ends with the connection, as a late one does.
    """

    def __init__(self, pieces: AsyncGenerator[bytes, None], slots: Slots) -> None:
        super().__init__(pieces, headers=dict(_LASTING), media_type=BYTES)
        self._pieces = pieces
        self._slots = slots

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Whatever ends the answer ends the download, too: starlette leaves that to the collector.
        async with self._slots.hold(peer_of(scope)), aclosing(self._pieces):
            first = await anext(
                self._pieces, b""
            )  # before the answer begins: an error can still be a problem
            self.body_iterator = _prepend(first, self._pieces)
            await super().__call__(scope, receive, send)


async def _prepend(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in rest:
        yield piece
