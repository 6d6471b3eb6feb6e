"""The gateway's server: mutual TLS, bounded connections, graceful stop."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import ssl
from typing import Final

import structlog
import uvicorn
from starlette.types import ASGIApp
from uvicorn.server import ServerState

from shuffledp_client.gateway.app import Gateway, application, page_application
from shuffledp_client.gateway.config import GatewayConfig, WebConfig
from shuffledp_client.gateway.connections import BoundedConnection
from shuffledp_client.gateway.enrolments import EnrolmentDesk
from shuffledp_client.gateway.upstream import Upstream
from shuffledp_client.gateway.web import PageRoutes
from shuffledp_core.documents.models import Roster
from shuffledp_core.errors import ConfigError, PortInUseError
from shuffledp_core.runtime.addresses import host_and_port
from shuffledp_core.runtime.files import read_file
from shuffledp_core.runtime.logs import toggle_debug_on_signal
from shuffledp_core.transport.connections import Connections, allow_descriptors
from shuffledp_core.transport.metrics import MetricsPage, ServiceMetrics
from shuffledp_core.transport.tls_files import TLSFiles, TLSFilesWatch

GRACE_SECONDS: Final = 5.0
"""Time that calls under way get to finish after a stop was asked for."""

HEAD_BYTES: Final = 2**14
"""Longest head of a request."""


class GatewayServer:
    """The server of a gateway. The constructor raises as `tls.channel_to`."""

    def __init__(self, config: GatewayConfig, roster: Roster) -> None:
        self._config = config
        self._connections = Connections(config.limits, lambda: None)
        files = TLSFiles.load(config.keys, roster.tls_authority).require_valid()
        self._roster = roster
        self._tls = _server_tls(files)
        self._files = TLSFilesWatch(files, self._adopt)
        self._metrics = ServiceMetrics(config)
        self._metrics.use(files, roster)
        self._page: MetricsPage | None = None
        self._upstream = Upstream(config.keys, roster)
        self._gateway = Gateway(config, self._upstream)
        self._web = None if config.web is None else _web_of(config.web, config, roster)
        self._state = ServerState()
        self._servers: list[asyncio.Server] = []
        self._page_callers: Connections | None = None
        self._watching_pages: asyncio.Task[None] | None = None
        self.web_port: int | None = None
        """The port for pages, once the server has started."""
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> int:
        """Start to listen; return the port. Raises `PortInUseError`."""
        allow_descriptors(self._config.limits)
        refused = self._metrics.count_refusal
        devices = application(self._gateway, self._config, self._connections, refused)
        port = await self._listen(devices, self._config.listen, self._tls)
        if self._config.web is not None and self._web is not None:
            tls, pages = self._web
            web = self._config.web
            callers = Connections(self._config.limits, lambda: None)
            app = page_application(self._gateway, pages, self._config, web, callers, refused)
            self.web_port = await self._listen(app, web.listen, tls)
            self._page_callers = callers
            self._watching_pages = asyncio.create_task(callers.watch(self.web_port))
        if self._config.metrics is not None:
            self._page = MetricsPage(self._metrics.registry, self._config.metrics)
        self._watching = asyncio.create_task(self._connections.watch(port))
        structlog.get_logger().info(
            "listening", name=self._config.name, address=self._config.listen
        )
        return port

    async def _listen(self, app: ASGIApp, address: str, tls: ssl.SSLContext | None) -> int:
        limits = self._config.limits
        settings = uvicorn.Config(
            app,
            lifespan="off",
            ws="none",
            # Neither a line per request, which would name who asked for what, nor uvicorn's own
            # words on bad ones.
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=max(1, round(limits.idle_seconds)),
            h11_max_incomplete_event_size=HEAD_BYTES,
        )
        logging.getLogger("uvicorn").setLevel(logging.CRITICAL)
        settings.load()
        seconds = limits.request_seconds

        class GatewayConnection(BoundedConnection):
            head_seconds = seconds

        def connect() -> GatewayConnection:
            self._files.refresh()  # before the handshake of this connection
            return GatewayConnection(settings, self._state, {})

        # asyncio's server and not uvicorn's: only here the TLS handshake and its end have a bound
        # of ours.
        loop = asyncio.get_running_loop()
        try:
            server = await loop.create_server(
                connect,
                sock=_listening(address),
                ssl=tls,
                ssl_handshake_timeout=None if tls is None else limits.handshake_seconds,
                ssl_shutdown_timeout=None if tls is None else limits.answer_seconds,
            )
        except OSError as error:
            raise PortInUseError(_describe_conflict(address, error)) from error
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Stop accepting calls; calls under way may finish within `GRACE_SECONDS`.

        No connection is left when it returns.
        """
        if not self._servers:
            return
        for server in self._servers:
            server.close()
        for connection in list(self._state.connections):
            connection.shutdown()
        if self._state.tasks:
            await asyncio.wait(self._state.tasks, timeout=GRACE_SECONDS)
        for connection in list(self._state.connections):
            connection.transport.abort()
        await self._connections.end_all(GRACE_SECONDS)
        if self._page_callers is not None:
            await self._page_callers.end_all(GRACE_SECONDS)
        watching = [task for task in (self._watching, self._watching_pages) if task is not None]
        for task in watching:
            task.cancel()
        await asyncio.gather(*watching, return_exceptions=True)
        if self._page is not None:
            await asyncio.to_thread(self._page.close)
        await self._upstream.close()
        structlog.get_logger().info("stopped", name=self._config.name)

    def _adopt(self, files: TLSFiles) -> None:
        _load_pair(self._tls, files)
        self._metrics.use(files, self._roster)

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT, or until the connections' watcher fails."""
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopped.set)
        toggle_debug_on_signal()
        await self.start()
        waiter = asyncio.ensure_future(stopped.wait())
        try:
            tasks = (self._watching, self._watching_pages)
            watched = {waiter, *(task for task in tasks if task is not None)}
            done, _ = await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
            for task in done - {waiter}:
                task.result()
        finally:
            waiter.cancel()
            await self.stop()


def _server_tls(files: TLSFiles) -> ssl.SSLContext:
    """TLS 1.3 that requires client certificates of the deployment's authority, as gRPC does."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=files.authority.decode())
    _load_pair(context, files)
    return context


def _web_of(
    web: WebConfig, config: GatewayConfig, roster: Roster
) -> tuple[ssl.SSLContext | None, PageRoutes]:
    """TLS of the public web (None if a proxy ends it), and the routes for pages.

    Raises `ConfigError` for files that cannot be used.
    """
    desk = None
    if web.enrolment is not None:
        desk = EnrolmentDesk(web.enrolment, roster, config.state)
    roster_text = read_file(config.roster, "roster")
    pages = PageRoutes(web, roster_text, desk, config.limits.request_seconds)
    if web.certificate is None or web.key is None:
        return None, pages
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(web.certificate, web.key)
    except (ssl.SSLError, OSError) as error:
        raise ConfigError(
            f"the certificate {web.certificate} of [web] cannot be used ({error}); check "
            "`certificate` and `key`"
        ) from error
    return context, pages


def _load_pair(context: ssl.SSLContext, files: TLSFiles) -> None:
    """Use the key folder's pair for all later handshakes of this context."""
    try:
        context.load_cert_chain(files.folder / "tls.pem", files.folder / "tls-key.pem")
    except (ssl.SSLError, OSError) as error:
        raise ConfigError(
            f"the TLS pair in {files.folder} cannot be used ({error}); renew it"
        ) from error


def _listening(listen: str) -> socket.socket:
    host, port = host_and_port(listen)
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = addresses[0]
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(address)
        except BaseException:
            sock.close()
            raise
    except OSError as error:
        raise PortInUseError(_describe_conflict(listen, error)) from error
    return sock


def _describe_conflict(listen: str, error: OSError) -> str:
    return (
        f"cannot listen on {listen} ({error.strerror}): the port is in use or the address is not "
        "this machine's; stop the other process or change `listen`"
    )
