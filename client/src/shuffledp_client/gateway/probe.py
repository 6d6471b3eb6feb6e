"""Health probe of a gateway: `python -m shuffledp_client.gateway.probe CONFIG`.

The container image's health check, also for use by hand. It connects with the gateway's own TLS
pair, as a device does with its own, and exits with 0 when the process answers. It does not check
the parties behind the gateway.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import sys
from http import HTTPStatus
from pathlib import Path

from shuffledp_client.gateway.config import GatewayConfig
from shuffledp_client.http_api import HEALTH
from shuffledp_core.errors import ConfigError, ShuffleDPError, UnreachableError, UsageError
from shuffledp_core.runtime.addresses import host_and_port
from shuffledp_core.runtime.config import load_config
from shuffledp_core.runtime.keys import load_roster
from shuffledp_core.transport.probe import TIMEOUT_SECONDS, here
from shuffledp_core.transport.tls import GATEWAY
from shuffledp_core.transport.tls_files import TLSFiles


def probe(config: GatewayConfig) -> None:
    """Ask the gateway for its health at its address on this machine; return if it answers.

    Raises:
        ConfigError: the configuration, its keys or its roster cannot be used.
        DocumentError: the roster is not signed by the pinned root key.
        UnreachableError: no gateway answers there within `TIMEOUT_SECONDS`.
    """
    # Without the state folder: a probe must not remember there a roster that the gateway itself has
    # not loaded.
    roster = load_roster(config.roster, config.root_key)
    files = TLSFiles.load(config.keys, roster.tls_authority).require_valid()
    context = ssl.create_default_context(cadata=files.authority.decode())
    try:
        context.load_cert_chain(config.keys / "tls.pem", config.keys / "tls-key.pem")
    except (ssl.SSLError, OSError) as error:
        raise ConfigError(
            f"the TLS pair in {config.keys} cannot be used ({error}); renew it"
        ) from error
    try:
        status = _status(context, *host_and_port(here(config.listen)))
    except (OSError, http.client.HTTPException) as error:
        raise UnreachableError(
            f"no gateway answers at {config.listen} ({error or type(error).__name__})"
        ) from error
    if status != HTTPStatus.OK:
        raise UnreachableError(
            f"the gateway at {config.listen} answered with {status}: it is not serving"
        )


def _status(context: ssl.SSLContext, host: str, port: int) -> int:
    connection = http.client.HTTPConnection(host, port)
    with (
        socket.create_connection((host, port), TIMEOUT_SECONDS) as plain,
        # The name that devices ask for, wherever the gateway is.
        context.wrap_socket(plain, server_hostname=str(GATEWAY)) as connection.sock,
    ):
        connection.request("GET", HEALTH)
        return connection.getresponse().status


def main() -> None:
    """Entry point; one argument, the configuration file.

    One line on standard error says why it is not healthy.
    """
    try:
        if len(sys.argv) != 2:
            raise UsageError("usage: python -m shuffledp_client.gateway.probe CONFIG")
        probe(load_config(Path(sys.argv[1]), GatewayConfig))
    except ShuffleDPError as error:
        sys.stderr.write(f"probe: {error}\n")
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
