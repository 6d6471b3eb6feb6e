"""Health probe of a configured service: `python -m shuffledp_core.transport.probe CONFIG`.

The container images' health check, also for use by hand. It calls the service over mutual TLS, with
the service's own keys and configuration file, and exits with 0 if the service reports that it is
serving. It needs nothing secret that the service lacks.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Final

import grpc
import msgspec
from grpc_health.v1 import health_pb2

from shuffledp_core.errors import ConfigError, ShuffleDPError, UnreachableError, UsageError
from shuffledp_core.runtime.config import ServiceConfig, load_config
from shuffledp_core.runtime.keys import load_roster
from shuffledp_core.transport.rpc_errors import translate_errors
from shuffledp_core.transport.tls import channel_to

TIMEOUT_SECONDS: Final = 5.0
"""Time the service may take to answer; a healthy one needs milliseconds."""

_ANYWHERE: Final = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104 - where to ask, not where to listen


class ProbedConfig(ServiceConfig, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """Configuration common to all services; keys of one kind of service are ignored."""


async def probe(config: ServiceConfig) -> None:
    """Ask a service for its health at its address on this machine; return if it serves.

    Raises:
        ConfigError: the configuration, its keys or its roster cannot be used.
        DocumentError: the roster is not signed by the pinned root key.
        UnreachableError: the service does not answer within `TIMEOUT_SECONDS`, or the service says
            that it does not serve.
        NodeFault: the service answers with another failure.
    """
    # Without the state folder: a probe must not remember there a roster that the service itself has
    # not loaded.
    roster = load_roster(config.roster, config.root_key)
    named = [party for party in roster.parties if party.name == config.name]
    if not named:
        raise ConfigError(
            f"the roster of {roster.deployment!r} has no party {config.name!r}; check `name`"
        )
    party = msgspec.structs.replace(named[0], address=here(config.listen))
    async with channel_to(party, config.keys, roster) as channel, translate_errors(config.name):
        serves = await ask_health(channel)
    if not serves:
        raise UnreachableError(f"{config.name} answers but accepts no calls: it is stopping")


async def ask_health(channel: grpc.aio.Channel) -> bool:
    """True if the service behind a channel reports that it serves.

    Raises `grpc.aio.AioRpcError` when the service does not answer.
    """
    check = channel.unary_unary(
        "/grpc.health.v1.Health/Check",
        request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
        response_deserializer=health_pb2.HealthCheckResponse.FromString,
    )
    answer = await check(health_pb2.HealthCheckRequest(), timeout=TIMEOUT_SECONDS)
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


def here(listen: str) -> str:
    """The host:port at which a service with this listening address can be reached locally."""
    host, _, port = listen.rpartition(":")
    return f"{_ANYWHERE.get(host, host)}:{port}"


def main() -> None:
    """Entry point; one argument, the configuration file.

    One line on standard error says why it is not healthy.
    """
    try:
        if len(sys.argv) != 2:
            raise UsageError("usage: python -m shuffledp_core.transport.probe CONFIG")
        asyncio.run(probe(load_config(Path(sys.argv[1]), ProbedConfig)))
    except ShuffleDPError as error:
        sys.stderr.write(f"probe: {error}\n")
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
