"""Metrics common to all services, and the page on which Prometheus reads them.

Label values come only from closed sets: parties of the roster, stages, phases, method and error
names, populations. No metric has a label for a round, a user or a credential: the page must not
reveal who sent what, and a set of series that grows with every round would fill the collector's
memory.

One `ServiceMetrics`, with a registry of its own, per service object: nothing here is global, so
several nodes may live in one process.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from wsgiref.simple_server import WSGIServer

import structlog
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    start_http_server,
)

from shuffledp_core.documents.models import Roster
from shuffledp_core.errors import ConfigError, PortInUseError, ShuffleDPError
from shuffledp_core.runtime.addresses import ADDRESS_FORM, host_and_port, is_address
from shuffledp_core.runtime.clock import system_clock
from shuffledp_core.runtime.config import ServiceConfig
from shuffledp_core.transport.tls_files import TLSFiles


class ServiceMetrics:
    """Metrics common to all services. Roles derive from it and add their own to `registry`.

    Args:
        config: the service's configuration, which names the state folder to watch.
    """

    def __init__(self, config: ServiceConfig) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._refusals = self.counter(
            "shuffledp_refusals", "Calls refused, by error class", "method", "reason"
        )
        self._unexpected = self.counter(
            "shuffledp_unexpected_failures", "Calls that failed by no error of ours"
        )
        self._expiry = self.gauge(
            "shuffledp_tls_certificate_expiry_timestamp_seconds",
            "When the TLS certificate in use ends: the own one, the deployment's authority",
            "certificate",
        )
        self._roster = self.gauge(
            "shuffledp_roster_expiry_timestamp_seconds", "When the roster in use ends"
        )
        clock = self.gauge(
            "shuffledp_clock_timestamp_seconds", "The clock of this process, since 1970 (UTC)"
        )
        clock.set_function(lambda: system_clock() / 1000)
        free = self.gauge(
            "shuffledp_state_disk_free_bytes", "Free bytes of the disk with the state folder"
        )
        free.set_function(lambda: _disk(config.state)[0])
        size = self.gauge(
            "shuffledp_state_disk_size_bytes", "Size of the disk with the state folder"
        )
        size.set_function(lambda: _disk(config.state)[1])

    def gauge(self, name: str, help_: str, *labels: str) -> Gauge:
        """A new gauge on this page."""
        return Gauge(name, help_, labels, registry=self.registry)

    def counter(self, name: str, help_: str, *labels: str) -> Counter:
        """A new counter on this page; its series end in `_total`."""
        return Counter(name, help_, labels, registry=self.registry)

    def histogram(self, name: str, help_: str, buckets: Sequence[float]) -> Histogram:
        """A new histogram on this page; the bucket above the last finite end is added."""
        return Histogram(name, help_, registry=self.registry, buckets=buckets)

    def use(self, files: TLSFiles, roster: Roster) -> None:
        """Publishes when the TLS certificates and the roster in use expire."""
        self._roster.set(roster.expires_at / 1000)
        self._expiry.labels("own").set(files.own_end.timestamp())
        self._expiry.labels("authority").set(files.authority_end.timestamp())

    def count_refusal(self, method: str, error: BaseException) -> None:
        """Counts a failed call of a full gRPC method name.

        It uses only the error's class, never its text.
        """
        log = structlog.get_logger()
        log.debug("call refused", method=method, error=type(error).__name__)
        if isinstance(error, ShuffleDPError):
            self._refusals.labels(method.rpartition("/")[2], type(error).__name__).inc()
        else:  # a bug, or a broken machine
            self._unexpected.inc()


class MetricsPage:
    """An HTTP server, in threads of its own, for the metrics of one registry.

    It speaks plain HTTP: keep it on an inner network.
    """

    def __init__(self, registry: CollectorRegistry, listen: str) -> None:
        """Start to listen on `listen`, host:port.

        Raises `ConfigError` for a bad address, `PortInUseError` for a taken one.
        """
        if not is_address(listen, least=0):
            raise ConfigError(f"metrics must be {ADDRESS_FORM}, not {listen!r}")
        host, port = host_and_port(listen)
        try:
            started: tuple[WSGIServer, threading.Thread] = start_http_server(port, host, registry)
        except OSError as error:
            raise PortInUseError(
                f"cannot serve metrics on {listen} ({error.strerror}): the port is in use or the "
                "address is not this machine's; stop the other process or change `metrics`"
            ) from error
        self._server, self._thread = started

    @property
    def port(self) -> int:
        """The port of the server, chosen by the system if port 0 was configured."""
        return self._server.server_port

    def close(self) -> None:
        """Stops listening; blocks for up to half a second."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def children_resident_bytes() -> int:
    """Memory of the direct children of this process, in bytes; 0 where the system has no /proc."""
    return sum(_resident_of_child(entry) for entry in Path("/proc").glob("[0-9]*"))


def _resident_of_child(entry: Path) -> int:
    with suppress(OSError, ValueError, IndexError):  # it may end while we look
        # The program's name, in brackets, may hold spaces and brackets itself: the fields begin
        # behind the last one.
        after_name = (entry / "stat").read_text().rpartition(")")[2].split()
        if int(after_name[1]) == os.getpid():
            return int((entry / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _disk(folder: Path) -> tuple[float, float]:
    """Free (for this user) and total bytes of the disk; NaN if the folder does not exist yet."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return float("nan"), float("nan")
    return disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
