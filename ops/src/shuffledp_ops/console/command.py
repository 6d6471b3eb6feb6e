"""The command `shuffledp console`: one process that serves pages of a deployment or a folder."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import h11
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from shuffledp_client.gateway.app import peer_of
from shuffledp_client.gateway.connections import TimedConnection
from shuffledp_core.errors import ConfigError, PortInUseError, UsageError
from shuffledp_core.runtime.config import Limits
from shuffledp_core.transport.connections import Connections, allow_descriptors
from shuffledp_core.transport.tls import OPERATOR, VIEWER
from shuffledp_ops.console.desk import Desk
from shuffledp_ops.console.guards import LOOPBACK
from shuffledp_ops.console.model import ConsoleSource
from shuffledp_ops.console.saved import SavedRounds
from shuffledp_ops.console.sessions import Sessions
from shuffledp_ops.console.watching import DeploymentWatch
from shuffledp_ops.console.web import Pages, application

_LIMITS: Final = Limits(connections=256)
"""Further connections are closed again, those of the address that has most first, and idle ones
before others.
"""

_MOST_HEADERS: Final = 16 * 1024
_GRACE: Final = 1

REQUEST_SECONDS: Final = 10.0
"""In which a whole request must come: a caller that sends half of one would otherwise keep its
connection open without end.
"""

_EVERYWHERE: Final = {"0.0.0.0", "::"}  # noqa: S104 - what an operator may say

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]")
"""What a browser says in `Host`, without the port."""


@dataclass(frozen=True)
class Listening:
    """Address and names under which the console listens.

    `plaintext` admits pages without TLS on an address that others can reach.
    """

    host: str = "127.0.0.1"
    port: int = 8765
    names: tuple[str, ...] = ()
    certificate: Path | None = None
    key: Path | None = None
    plaintext: bool = False

    @property
    def tls(self) -> bool:
        """True for https."""
        return self.certificate is not None

    @property
    def known_as(self) -> tuple[str, ...]:
        """Host names that browsers may use: this machine's, the listening address, and `names`."""
        return (
            *LOOPBACK,
            *(() if self.host in _EVERYWHERE else (_in_address(self.host),)),
            *self.names,
        )

    @property
    def address(self) -> str:
        """URL of the console for a browser: with its first name, else with its host."""
        host = (
            self.names[0] if self.names else "127.0.0.1" if self.host in _EVERYWHERE else self.host
        )
        return f"{'https' if self.tls else 'http'}://{_in_address(host)}:{self.port}"

    def check(self) -> None:
        """Raise `UsageError` or `ConfigError` for settings that are unsafe or unusable."""
        for name in self.names:
            if not _NAME.fullmatch(name):
                raise UsageError(
                    f"--allow-host {name[:80]!r} is not a host name; leave out https:// and the "
                    "port"
                )
        if (self.certificate is None) != (self.key is None):
            raise UsageError("--tls-certificate and --tls-key must be given together")
        for file in (self.certificate, self.key):
            if file is not None and not file.is_file():
                raise ConfigError(
                    f"the TLS file {file} does not exist; give PEM files, or none on localhost"
                )
        if (
            not self.tls
            and not self.plaintext
            and self.host not in {"localhost", "127.0.0.1", "::1"}
        ):
            raise UsageError(
                f"--host {self.host} is reachable from other machines, and the connection would "
                "not be encrypted: give --tls-certificate and --tls-key, or --plaintext if a "
                "proxy encrypts"
            )


def _in_address(host: str) -> str:
    """A host as written in a URL: IPv6 in brackets."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def run_console_command(folder: Path, listening: Listening, *, operate: bool) -> None:
    """Serve the pages of a deployment's key folder, or of a folder of saved rounds, until a signal.

    Raises:
        ConfigError, UsageError: the folder is neither, or an option is wrong.
        PortInUseError: another process listens on this port.
        ShuffleDPError: the deployment cannot be queried; this is tried once before anything is
            served.
    """
    listening.check()
    source = _source(folder, operate=operate)
    sessions = Sessions(time.monotonic) if operate else None
    pages = Pages(source, sessions)
    desk = (
        Desk(pages, source, sessions, listening.tls).routes()
        if sessions and isinstance(source, DeploymentWatch)
        else []
    )
    app = application(pages, desk, listening.known_as, tls=listening.tls)
    allow_descriptors(_LIMITS)
    with _listen(listening) as sock:
        asyncio.run(
            _serve(source, sock, app, listening, partial(_say, source, listening, sessions))
        )


def _source(folder: Path, *, operate: bool) -> DeploymentWatch | SavedRounds:
    public = any((folder / name).exists() for name in ("roster.json", "root.pub"))
    operator, viewer = ((folder / name).exists() for name in (OPERATOR, VIEWER))
    if folder.is_dir() and (
        operator or viewer or (public and not (folder / "result.json").exists())
    ):
        if not (operator or viewer):
            raise ConfigError(
                f"{folder} has no operator/ or viewer/ with TLS files, so the console cannot "
                "query any party; name the key folder of an operator or a viewer"
            )
        if operate and not operator:
            raise UsageError(
                f"--operate needs the operator's keys, but {folder} has only a viewer's; leave "
                "it out"
            )
        return DeploymentWatch(folder)
    if operate:
        raise UsageError(
            f"--operate needs a deployment's key folder, and {folder} is not one; leave it out "
            f"for saved rounds"
        )
    return SavedRounds(folder)


@contextmanager
def _listen(listening: Listening) -> Iterator[socket.socket]:
    """The listening socket, created before anything else so that a port in use is a plain error."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            listening.host.strip("[]"),
            listening.port,
            type=socket.SOCK_STREAM,
            flags=socket.AI_PASSIVE,
        )[0]
    except (socket.gaierror, UnicodeError) as error:
        raise UsageError(
            f"--host {listening.host} is not an address of this machine; 127.0.0.1 is the default"
        ) from error
    with socket.socket(family, kind, protocol) as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind(address)
        except OSError as error:
            raise PortInUseError(
                f"cannot listen on {listening.host}, port {listening.port}: {error.strerror}; "
                "choose another --port"
            ) from error
        yield bound


class _Connection(TimedConnection):
    """A connection of the console, which must send its whole request within a time limit."""

    head_seconds = REQUEST_SECONDS

    def _request_is_complete(self) -> bool:
        return self._answering() and self.conn.their_state is not h11.SEND_BODY


class _CountedApp:
    """The application with a count of its calls, so that idle connections are closed first."""

    def __init__(self, app: ASGIApp, connections: Connections) -> None:
        self._app = app
        self._connections = connections

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        peer = peer_of(scope)
        self._connections.begin(peer, known=False)
        try:
            await self._app(scope, receive, send)
        finally:
            self._connections.end(peer)


class _Server(uvicorn.Server):
    """A uvicorn server that leaves signals to the command."""

    def capture_signals(self) -> nullcontext[None]:  # type: ignore[override]  # the same interface
        return nullcontext()


def _is_failure(record: logging.LogRecord) -> bool:
    """Return False for a call that was cancelled as the console ends, which uvicorn logs."""
    return record.exc_info is None or not isinstance(record.exc_info[1], asyncio.CancelledError)


def _config(app: ASGIApp, listening: Listening) -> uvicorn.Config:
    config = uvicorn.Config(
        app,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        http=_Connection,
        h11_max_incomplete_event_size=_MOST_HEADERS,
        timeout_keep_alive=10,
        timeout_graceful_shutdown=_GRACE,
        ssl_certfile=listening.certificate,
        ssl_keyfile=listening.key,
    )
    logging.getLogger("uvicorn.error").addFilter(_is_failure)
    try:
        config.load()
    except OSError as error:
        raise ConfigError(
            f"the TLS files cannot be used ({error.strerror or error}); give a PEM certificate "
            "and its unencrypted key"
        ) from error
    return config


async def _serve(
    source: ConsoleSource,
    bound: socket.socket,
    app: ASGIApp,
    listening: Listening,
    ready: Callable[[], None],
) -> None:
    connections = Connections(_LIMITS, lambda: None)
    config = _config(_CountedApp(app, connections), listening)
    await source.check()
    ready()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(source.keep_current())
        tasks.create_task(connections.watch(bound.getsockname()[1]))
        await _Server(config).serve([bound])


def _say(source: ConsoleSource, listening: Listening, sessions: Sessions | None) -> None:
    lines = [f"console of {source.title}: {listening.address}/"]
    if sessions is None:
        lines.append(
            "read-only"
            + (": start it with --operate to open and end rounds" if source.live else "")
        )
    else:
        lines.append(f"to operate, open: {listening.address}/sign-in?key={sessions.key}")
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()
