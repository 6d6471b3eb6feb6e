"""The console's HTTP application: pages, and a stream of events that keeps open pages current.

It changes nothing.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from shuffledp_client.gateway.app import peer_of
from shuffledp_core.errors import (
    AccessDenied,
    BusyError,
    ShuffleDPError,
    UnknownRoundError,
    UnreachableError,
    UsageError,
)
from shuffledp_core.transport.doorway import Slots
from shuffledp_core.vocabulary import ROUND_ID
from shuffledp_ops.console import budgets, one_round
from shuffledp_ops.console.frame import Viewer, asset, stylesheet
from shuffledp_ops.console.guards import RequestGuard
from shuffledp_ops.console.model import PUBLISHED, ConsoleSource, PublishedRound
from shuffledp_ops.console.overview import overview
from shuffledp_ops.console.sessions import Session, Sessions

COOKIE: Final = "shuffledp-console"
"""Beginning of the name of an operator's session."""

MOST_STREAMS: Final = 32
"""Pages that are brought up to date at the same time; further ones are shown as they stand."""

_HEARTBEAT: Final = 15.0
"""Seconds after which a silent stream shows that it is alive."""

_TYPES: Final = {"json": "application/json", "pub": "text/plain; charset=utf-8", "png": "image/png"}

Handler = Callable[[Request], Awaitable[Response]]


class Pages:
    """The pages of one source; `sessions` is set only if the deployment may be operated."""

    def __init__(self, source: ConsoleSource, sessions: Sessions | None = None) -> None:
        self._source = source
        self._sessions = sessions
        self._run = secrets.token_hex(4)
        self._streams = Slots(MOST_STREAMS)

    def routes(self) -> list[Route]:
        """The routes of all pages."""
        return [
            Route("/", self.overview),
            Route("/rounds/{round_id}/", self.round),
            Route("/rounds/{round_id}/{name}", self.document),
            Route("/populations/{name}/", self.population),
            Route("/events", self.events),
            Route("/console.css", _file("text/css; charset=utf-8", stylesheet())),
            Route("/console.js", _file("text/javascript; charset=utf-8", asset("console.js"))),
            Route("/console.svg", _file("image/svg+xml", asset("console.svg"))),
        ]

    def session(self, request: Request) -> Session | None:
        """The session of the request if an operator sent it, otherwise None."""
        return (
            None
            if self._sessions is None
            else self._sessions.find(request.cookies.get(cookie_of(request)))
        )

    def viewer(self, request: Request) -> Viewer:
        """The viewer of a request, and the version of the snapshot."""
        version, operates = f"{self._run}-{self._source.version}", self.session(request) is not None
        return Viewer(self._source.title, self._source.live, version, operates=operates)

    async def overview(self, request: Request) -> Response:
        """The first page."""
        viewer, snapshot = self.viewer(request), self._source.snapshot
        return HTMLResponse(overview(viewer, snapshot))

    async def round(self, request: Request) -> Response:
        """The page of a round: its progress, its report, or the reason of its failure."""
        viewer = self.viewer(request)
        round_id = _round_id(request)
        round_info = self._source.snapshot.round(round_id)
        if round_info is not None and round_info.running:
            return HTMLResponse(one_round.running_page(viewer, round_info))
        if round_info is not None and round_info.outcome != PUBLISHED:
            return HTMLResponse(
                one_round.failed_page(viewer, round_info, self._source.snapshot.charge(round_id))
            )
        return HTMLResponse(one_round.published_page(viewer, await self._open_round(round_id)))

    async def document(self, request: Request) -> Response:
        """A whole file of a round: a signed document, or a key that verifies it."""
        opened, name = await self._open_round(_round_id(request)), request.path_params["name"]
        if name not in opened.files:
            raise HTTPException(404)
        return Response(
            opened.files[name], media_type=_TYPES.get(name.rpartition(".")[2], "text/plain")
        )

    async def population(self, request: Request) -> Response:
        """The page of a population's account."""
        snapshot, name = self._source.snapshot, request.path_params["name"]
        budget = next(
            (candidate for candidate in snapshot.budgets if candidate.population == name), None
        )
        if budget is None:
            raise HTTPException(404)
        return HTMLResponse(budgets.page(self.viewer(request), snapshot, budget))

    async def events(self, _: Request) -> Response:
        """A stream of snapshot versions: the current one, then each new one.

        On each event an open page reloads its contents.
        """
        return _Events(self._versions(), self._streams)

    async def _versions(self) -> AsyncIterator[str]:
        version = self._source.version
        while True:
            yield f"data: {self._run}-{version}\n\n"
            before = version
            while version == before:
                try:
                    async with asyncio.timeout(_HEARTBEAT):
                        version = await self._source.wait_for_change(before)
                except TimeoutError:
                    yield ": alive\n\n"

    async def _open_round(self, round_id: str) -> PublishedRound:
        try:
            return await self._source.open(round_id)
        except TimeoutError as error:
            raise UnreachableError(
                "the analyst did not answer in time; load the page again"
            ) from error

    async def refuse(self, request: Request, error: Exception) -> Response:
        """The page of an error: a typed error of this project, or an unknown address."""
        viewer = self.viewer(request)
        if isinstance(error, HTTPException):
            words = "there is no such page; the list of rounds has links to all of them"
            page = one_round.refused_page(viewer, "Not here", UnknownRoundError.__name__, words)
            return HTMLResponse(page, status_code=error.status_code)
        page = one_round.refused_page(viewer, "That did not work", type(error).__name__, str(error))
        return HTMLResponse(page, status_code=_status(error))


class _Events(StreamingResponse):
    """A stream of events; it occupies one of a limited number of slots.

    A stream that is evicted from its slot ends, and its page reconnects after some seconds.
    """

    def __init__(self, events: AsyncIterator[str], slots: Slots) -> None:
        super().__init__(events, media_type="text/event-stream")
        self._slots = slots

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        admitted = False
        try:
            async with self._slots.hold(peer_of(scope)):
                admitted = True
                await super().__call__(scope, receive, send)
        except BusyError:
            if admitted:  # evicted
                await send({"type": "http.response.body", "body": b""})
            else:
                words = f"{MOST_STREAMS} pages are being brought up to date already; close some\n"
                await PlainTextResponse(words, status_code=503)(scope, receive, send)


def cookie_of(request: Request) -> str:
    """Name of the session cookie; it contains the port, because ports share cookies."""
    return f"{COOKIE}-{request.url.port or request.url.scheme}"


_STATUS: Final = (
    (UnknownRoundError, 404),
    (AccessDenied, 403),
    (UsageError, 400),
    (UnreachableError, 504),
)


def _status(error: Exception) -> int:
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 502)


def _round_id(request: Request) -> str:
    round_id: str = request.path_params["round_id"]
    if not ROUND_ID.fullmatch(round_id):
        raise HTTPException(404)
    return round_id


def _file(kind: str, content: str) -> Handler:
    async def answer(_: Request) -> Response:
        return Response(content, media_type=kind)

    return answer


def application(
    pages: Pages, further: Collection[Route], names: Collection[str], *, tls: bool
) -> ASGIApp:
    """The whole application behind its `RequestGuard`.

    `further` routes, such as an operator's, come before the pages'.
    """
    app = Starlette(
        routes=[*further, *pages.routes()],
        exception_handlers={ShuffleDPError: pages.refuse, HTTPException: pages.refuse},
    )
    return RequestGuard(app, names, tls=tls)
