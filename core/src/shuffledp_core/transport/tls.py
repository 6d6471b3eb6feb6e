"""Mutual TLS between parties. A certificate's common name is the party's name in the roster.

Callers outside the roster connect as "client" (a device: all devices share one TLS certificate,
which identifies no device), as "gateway" (which calls on behalf of devices, with their
permissions), as "operator" (the person who runs rounds) or as "viewer" (who may look at rounds and
budgets).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import grpc

from shuffledp_core.documents.models import Party, Roster
from shuffledp_core.runtime.clock import system_clock
from shuffledp_core.runtime.config import Limits
from shuffledp_core.runtime.keys import require_current
from shuffledp_core.transport.chunks import CHUNK_BYTES
from shuffledp_core.transport.tls_files import TLSFiles, TLSFilesWatch
from shuffledp_core.vocabulary import Role

CLIENT: Final = Role.CLIENT
OPERATOR: Final = Role.OPERATOR
VIEWER: Final = Role.VIEWER
GATEWAY: Final = "gateway"
"""The TLS name of an HTTPS gateway, as a server and as a caller."""

_REQUEST_BYTES: Final = CHUNK_BYTES + 2**14
"""The longest request that a server takes: a chunk and its framing, or the documents of any other
call.
"""

_ANSWER_BYTES: Final = 4 * 2**20
"""The longest answer that a caller takes."""

_OPTIONS: Final = (
    ("grpc.so_reuseport", 0),  # a taken port is an error, never a silently shared one
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    (
        "grpc.http2.max_pings_without_data",
        0,
    ),  # no limit: a stream of statuses may be silent for long
)


def server_options(limits: Limits | None = None) -> list[tuple[str, int]]:
    """Options of every gRPC server: the limits that gRPC itself enforces.

    `transport.doorway` enforces the others.
    """
    bounds = limits or Limits()
    return [
        *_OPTIONS,
        # Below the 20 s of `_OPTIONS`: by gRPC's default of 5 minutes our callers' own pings would
        # count as abuse.
        ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
        ("grpc.max_receive_message_length", _REQUEST_BYTES),
        # A stream that no one reads holds at most one window of 64 KiB. Probing for a longer line
        # widens the windows of all streams of a connection, read or not; a stream that is read gets
        # room for its whole message anyway.
        ("grpc.http2.bdp_probe", 0),
        ("grpc.max_concurrent_streams", bounds.streams),
        ("grpc.server_handshake_timeout_ms", round(1000 * bounds.handshake_seconds)),
        ("grpc.max_connection_idle_ms", round(1000 * bounds.idle_seconds)),
        ("grpc.max_allowed_incoming_connections", bounds.most_accepted),
        # Refused by gRPC itself, before any Python code: refusals cost next to no processor time.
        ("grpc.server.max_pending_requests", bounds.queued_calls),
        ("grpc.server.max_pending_requests_hard_limit", 2 * bounds.queued_calls),
        ("grpc.server_max_unrequested_time_in_server", bounds.queue_seconds),
    ]


def server_credentials(files: TLSFiles) -> grpc.ServerCredentials:
    """TLS for a server that asks every caller for a certificate of the deployment's authority."""
    pair = (files.key, files.chain)
    return grpc.ssl_server_credentials(
        [pair], root_certificates=files.authority, require_client_auth=True
    )


def reloading_credentials(files: TLSFiles, watch: TLSFilesWatch) -> grpc.ServerCredentials:
    """Credentials that use the newest usable files for every new connection."""

    def fetch() -> grpc.ServerCertificateConfiguration | None:
        newer = watch.refresh()
        return None if newer is None else _configuration(newer)

    return grpc.dynamic_ssl_server_credentials(
        _configuration(files),
        fetch,  # type: ignore[arg-type]  # None keeps the files in use; the stubs leave it out
        require_client_authentication=True,
    )


def _configuration(files: TLSFiles) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration(
        [(files.key, files.chain)], root_certificates=files.authority
    )


def channel_to(
    party: Party, keys: Path, roster: Roster, *, own_connection: bool = False
) -> grpc.aio.Channel:
    """A channel to exactly this party, whose certificate must carry the party's name.

    gRPC may let the channels of one process share connections; `own_connection` forbids it. gRPC's
    transparent retries are switched off, because they can loop on a server that is shutting down
    until they have used all memory.

    Raises:
        ConfigError: the TLS files cannot be used; `ExpiredTLSCertificateError` if the own
            certificate has expired, because a server's reason does not reach the caller; raises
            `StaleRosterError` if the roster has.
    """
    files = TLSFiles.load(keys, roster.tls_authority).require_valid()
    require_current(roster, system_clock())
    credentials = grpc.ssl_channel_credentials(
        root_certificates=files.authority, private_key=files.key, certificate_chain=files.chain
    )
    options = [
        *_OPTIONS,
        ("grpc.max_receive_message_length", _ANSWER_BYTES),
        ("grpc.enable_retries", 0),
        ("grpc.ssl_target_name_override", party.name),
        ("grpc.use_local_subchannel_pool", int(own_connection)),
    ]
    return grpc.aio.secure_channel(party.address, credentials, options=options)


def peer_name(context: grpc.aio.ServicerContext) -> str:  # type: ignore[type-arg]
    """The common name in the caller's TLS certificate; empty when there is none."""
    names = list(context.auth_context().get("x509_common_name", []))
    return names[0].decode("utf-8", "replace") if names else ""


def role_of(name: str, roster: Roster) -> str:
    """The role that a TLS name has: that of a party, "client", "operator", "viewer", or ""."""
    for party in roster.parties:
        if party.name == name:
            return party.role
    return CLIENT if name == GATEWAY else name if name in {CLIENT, OPERATOR, VIEWER} else ""
