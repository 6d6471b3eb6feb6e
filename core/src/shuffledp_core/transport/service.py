"""Common frame of all services: TLS, typed errors, health, reflection, metrics, graceful stop."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Awaitable, Callable, Sequence

import grpc
import structlog
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from shuffledp_core.documents.models import Roster
from shuffledp_core.errors import PortInUseError
from shuffledp_core.runtime.config import ServiceConfig
from shuffledp_core.runtime.logs import toggle_debug_on_signal
from shuffledp_core.transport.connections import allow_descriptors
from shuffledp_core.transport.doorway import Doorway
from shuffledp_core.transport.metrics import MetricsPage, ServiceMetrics
from shuffledp_core.transport.requests import ReadableRequests
from shuffledp_core.transport.rpc_errors import Rules, TypedErrors
from shuffledp_core.transport.tls import reloading_credentials, server_options
from shuffledp_core.transport.tls_files import TLSFiles, TLSFilesWatch

GRACE_SECONDS = 5.0
"""Time that calls under way get to finish after a stop was asked for."""


class Service:
    """The gRPC server of one party, with a metrics page if the configuration asks for one.

    `register` gets the server; `names` are the full service names for reflection; `metrics` are the
    role's own, by default what every service has.

    Raises:
        ConfigError: the TLS files cannot be used; `ExpiredTLSCertificateError` if one has
            ended.
    """

    def __init__(
        self,
        config: ServiceConfig,
        roster: Roster,
        rules: Rules,
        names: Sequence[str],
        register: Callable[[grpc.aio.Server], None],
        metrics: ServiceMetrics | None = None,
    ) -> None:
        self._config = config
        self.metrics = metrics or ServiceMetrics(config)
        self._page: MetricsPage | None = None
        self._log = structlog.get_logger()
        self._doorway = Doorway(config.limits)
        self.watching: asyncio.Task[None] | None = None
        interceptor = TypedErrors(roster, rules, self.metrics.count_refusal, self._doorway)
        self.server = grpc.aio.server(
            interceptors=[interceptor, ReadableRequests()], options=server_options(config.limits)
        )
        register(self.server)
        self._health = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self.server)
        reflection.enable_server_reflection(
            [*names, health.SERVICE_NAME, reflection.SERVICE_NAME], self.server
        )
        files = TLSFiles.load(config.keys, roster.tls_authority).require_valid()
        watch = TLSFilesWatch(files, lambda newer: self.metrics.use(newer, roster))
        self._credentials = reloading_credentials(files, watch)
        self.metrics.use(files, roster)

    async def start(self) -> int:
        """Start to listen, and report healthy; return the port.

        Raises `PortInUseError`, also for the metrics page.
        """
        allow_descriptors(self._config.limits)
        try:
            port = self.server.add_secure_port(self._config.listen, self._credentials)
        except RuntimeError as error:
            raise PortInUseError(
                f"cannot listen on {self._config.listen}: the port is in use or the address is "
                "not this machine's; stop the other process or change `listen`"
            ) from error
        if self._config.metrics is not None:
            self._page = MetricsPage(self.metrics.registry, self._config.metrics)
        await self.server.start()
        self.watching = asyncio.create_task(self._doorway.connections.watch(port))
        await self._health.set("", health_pb2.HealthCheckResponse.SERVING)
        self._log.info("listening", name=self._config.name, address=self._config.listen)
        return port

    async def stop(self) -> None:
        """Stop accepting calls; calls under way may finish within `GRACE_SECONDS`."""
        # Health first: whoever balances or probes learns that this service stops before its calls
        # begin to fail.
        await self._health.enter_graceful_shutdown()
        await self.server.stop(GRACE_SECONDS)
        if self.watching is not None:
            self.watching.cancel()
            await asyncio.gather(self.watching, return_exceptions=True)
        if self._page is not None:
            await asyncio.to_thread(self._page.close)
        self._log.info("stopped", name=self._config.name)


async def run_until_signal(
    service: Service, *, background: Sequence[Callable[[], Awaitable[None]]] = ()
) -> None:
    """Runs a service and its background tasks until SIGTERM or SIGINT, then stops it gracefully.

    A background task that fails takes the process down: a half-working service is worse than none.
    """
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    toggle_debug_on_signal()
    # All that a service is made of lives as long as it does. Unless it is set aside, every full
    # collection walks through it again: that took an entry node a fifth of its time.
    gc.freeze()
    await service.start()
    tasks = [asyncio.ensure_future(task()) for task in background]
    if service.watching is not None:
        tasks.append(service.watching)
    waiter = asyncio.ensure_future(stopped.wait())
    try:
        done, _ = await asyncio.wait([waiter, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in done - {waiter}:
            task.result()
    finally:
        for task in (*tasks, waiter):
            task.cancel()
        await asyncio.gather(*tasks, waiter, return_exceptions=True)  # what failed is raised above
        await service.stop()
