"""The gateway's listener for web pages.

It allows named origins, asks for no client certificate, and trusts named proxies.

docs/reference/gateway.md, "For pages".
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Iterable
from http import HTTPStatus
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from shuffledp_client.gateway.config import WebConfig
from shuffledp_client.http_api import (
    ENROLMENTS,
    JSON,
    ROSTER,
    WEB_FILES,
    EnrolmentBody,
    problem_of,
)
from shuffledp_client.web import EXAMPLE, SCRIPTS, read_web_file
from shuffledp_core.documents.signed import from_json, to_json
from shuffledp_core.errors import AccessDenied, BusyError, MalformedRequestError
from shuffledp_core.runtime.files import read_file

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from shuffledp_client.gateway.enrolments import EnrolmentDesk

MOST_ENROLMENT_BYTES: Final = 4096
"""Longest request for a credential; ours have 200 bytes."""

PREFLIGHT_SECONDS: Final = 600

CONTENT_POLICY: Final = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
"""Of the example page: scripts and calls of this server, and nothing else at all."""

_FILES: Final = {
    **dict.fromkeys(SCRIPTS, "text/javascript; charset=utf-8"),
    EXAMPLE: "text/html; charset=utf-8",
}


class PageRoutes:
    """Routes for pages only, in addition to those of all devices."""

    def __init__(
        self, config: WebConfig, roster: bytes, desk: EnrolmentDesk | None, seconds: float
    ) -> None:
        self._seconds = seconds
        self._roster = roster
        self._desk = desk
        files = {name: read_web_file(name) for name in SCRIPTS}
        if config.question is not None:
            question = read_file(config.question, "question of the example page")
            files[EXAMPLE] = read_web_file(EXAMPLE).replace(b"@QUESTION@", question)
        self._files = {name: gzip.compress(data, mtime=0) for name, data in files.items()}

    def routes(self) -> list[Route]:
        """All routes for pages; without an `EnrolmentDesk` none for enrolment."""
        routes = [
            Route(ROSTER, self.roster, methods=["GET"]),
            Route(WEB_FILES, self.file, methods=["GET"]),
        ]
        if self._desk is not None:
            routes.append(Route(ENROLMENTS, self.enrol, methods=["POST"]))
        for route in routes:
            (route.methods or set()).discard("HEAD")
        return routes

    async def roster(self, request: Request) -> Response:  # noqa: ARG002 - starlette's interface
        """Respond with the signed roster, which pages verify under their pinned root key."""
        return Response(self._roster, media_type=JSON)

    async def file(self, request: Request) -> Response:
        """Respond with a script for pages, minified or as source, or with the example page."""
        name = str(request.path_params["name"])
        packed = self._files.get(name)
        if packed is None:
            problem = problem_of(
                MalformedRequestError("there is no such file"), HTTPStatus.NOT_FOUND
            )
            return Response(to_json(problem), problem.status, media_type="application/problem+json")
        headers = {"content-type": _FILES[name], "vary": "accept-encoding"}
        if name == EXAMPLE:
            headers |= {"content-security-policy": CONTENT_POLICY, "referrer-policy": "no-referrer"}
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(packed, headers=headers | {"content-encoding": "gzip"})
        return Response(gzip.decompress(packed), headers=headers)

    async def enrol(self, request: Request) -> Response:
        """Exchange a one-time code for a credential, and respond with it."""
        if self._desk is None:
            raise MalformedRequestError(
                "this gateway enrols no one, because its configuration has no [web.enrolment]"
            )
        try:
            async with asyncio.timeout(self._seconds):
                body = from_json(await self._short_body(request), EnrolmentBody)
        except TimeoutError as error:
            raise BusyError(
                f"the request for a credential did not arrive within {self._seconds:g} s; send "
                "it without pauses"
            ) from error
        return Response((await self._desk.exchange(body)).to_bytes(), media_type=JSON)

    async def _short_body(self, request: Request) -> bytes:
        pieces = b""
        async for piece in request.stream():
            pieces += piece
            if len(pieces) > MOST_ENROLMENT_BYTES:
                raise MalformedRequestError(
                    f"a request for a credential may have at most {MOST_ENROLMENT_BYTES} bytes"
                )
        return pieces


class NamedOrigins:
    """Cross-origin requests (CORS) from pages of the named origins only.

    Also gives each request the address of its caller, where a named proxy states it.
    """

    def __init__(self, app: ASGIApp, config: WebConfig) -> None:
        self._app = app
        self._origins = frozenset(origin.encode() for origin in config.origins)
        self._proxies = frozenset(config.proxies)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        headers = dict(scope["headers"])
        origin = headers.get(b"origin")
        # A browser sends the origin with every POST, also to the page's own server, whose scheme is
        # another one here if a proxy ends TLS.
        host = (origin or b"").partition(b"://")[2]
        foreign = origin is not None and host != headers.get(b"host")
        if foreign and origin not in self._origins:
            raise AccessDenied(
                "this origin is not in the gateway's `origins`: only its operator can add it"
            )
        if scope["method"] == "OPTIONS":
            response = Response(status_code=HTTPStatus.NO_CONTENT, headers=_PREFLIGHT)
            await response(scope, receive, self._allowing(send, origin))
            return
        await self._app(scope, receive, self._allowing(send, origin if foreign else None))

    def _allowing(self, send: Send, origin: bytes | None) -> Send:
        async def send_with_origin(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), (b"vary", b"origin")]
                if origin is not None:
                    message["headers"] += [
                        (b"access-control-allow-origin", origin),
                        (b"access-control-expose-headers", b"retry-after"),
                    ]
            await send(message)

        return send_with_origin

    def caller_of(self, scope: Scope) -> str:
        """The caller's address for limits, which proxies may forward.

        Behind a named proxy: the last address of `X-Forwarded-For` that is not a named proxy's.
        Earlier entries are the caller's own and prove nothing.
        """
        peer = str((scope.get("client") or ("",))[0])
        if peer not in self._proxies:
            return peer
        named = b",".join(
            value for name, value in scope["headers"] if name == b"x-forwarded-for"
        ).decode("latin-1")
        return _last_foreign((part.strip() for part in named.split(",")), self._proxies) or peer


_PREFLIGHT: Final = {
    "access-control-allow-methods": "GET, POST",
    "access-control-allow-headers": "content-type",
    "access-control-max-age": str(PREFLIGHT_SECONDS),
}


def _last_foreign(addresses: Iterable[str], proxies: frozenset[str]) -> str | None:
    """The last address that is not a proxy's; None if there is none or it is invalid."""
    foreign = [address for address in addresses if address not in proxies]
    try:
        return str(ip_address(foreign[-1])) if foreign else None
    except ValueError:
        return None
