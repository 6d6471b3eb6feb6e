"""Checks of every request before it reaches a page: host name, origin and length.

1. Its `Host` is one of this console's names: another name that resolves to this address (DNS
   rebinding) is refused.
2. It only reads, or it is a form of these pages: from the same origin, short, and complete. A
   connection that ends in the middle of a form is not an error.

The headers of every response forbid to load, frame or run anything from elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")
"""Names of this machine for itself."""

MOST_FORM: Final = 8192
"""Longest form in bytes."""

_POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

_HEADERS: Final = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Not "no-referrer": a browser would then send its forms with the origin "null".
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}

_FORM: Final = "application/x-www-form-urlencoded"


class RequestGuard:
    """The outermost layer of the application, which refuses unsafe requests.

    `names` are the hosts that it answers for, without ports.
    """

    def __init__(self, app: ASGIApp, names: Collection[str], *, tls: bool) -> None:
        self._app = app
        self._names = {name.lower() for name in names}
        self._scheme = "https" if tls else "http"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
            await send(message)

        refusal = self._refusal(scope["method"], Headers(scope=scope))
        if refusal is None and scope["method"] == "POST":
            form = await _form(receive)
            if form is not None:
                await self._app(scope, _again(form, receive), send_guarded)
            return
        await (refusal or self._app)(scope, receive, send_guarded)

    def _refusal(self, method: str, headers: Headers) -> PlainTextResponse | None:
        hosts = headers.getlist("host")
        if len(hosts) != 1 or _name(hosts[0]) not in self._names:  # 1
            return _refuse(421, "This console does not answer for that name. Open the address "
                                "that it printed, or add "
                           "the name with --allow-host.")  # fmt: skip
        if method in {"GET", "HEAD"}:
            return None
        # Also of https where this console has none: something in front of it may encrypt.
        return self._form_refusal(
            method, headers, {f"{scheme}://{hosts[0]}" for scheme in (self._scheme, "https")}
        )

    @staticmethod
    def _form_refusal(
        method: str, headers: Headers, origins: Collection[str]
    ) -> PlainTextResponse | None:
        if method != "POST":
            return _refuse(405, "Only the methods GET and POST are allowed.")
        if headers.get("origin") not in origins:  # 2
            return _refuse(
                403, "This form does not come from this console's own pages; nothing was done."
            )
        if headers.get("content-type", "").split(";")[0].strip() != _FORM:
            return _refuse(415, "Only forms of the console's own pages are accepted.")
        length = headers.get("content-length", "")
        # Chunks win over a length that is given beside them, and may be any number.
        if "transfer-encoding" in headers or not length.isdecimal() or int(length) > MOST_FORM:
            return _refuse(
                413, f"A form must state its length and may have at most {MOST_FORM:,} bytes."
            )
        return None


async def _form(receive: Receive) -> bytes | None:
    """The whole body of a request; None if the client disconnects before its end."""
    form = bytearray()
    while (message := await receive())["type"] == "http.request":
        form += message.get("body", b"")
        if not message.get("more_body", False):
            return bytes(form)
    return None


def _again(form: bytes, receive: Receive) -> Receive:
    """A `receive` that first returns a body that was read already, and then later messages."""
    parts: list[Message] = [{"type": "http.request", "body": form, "more_body": False}]

    async def replay() -> Message:
        return parts.pop() if parts else await receive()

    return replay


def _name(host: str) -> str:
    """The name in a `Host` header, in lower case, without its port."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdecimal() else host).lower()


def _refuse(status: int, words: str) -> PlainTextResponse:
    return PlainTextResponse(words + "\n", status_code=status)
