"""Addresses as configurations and documents have them: host:port, an IPv6 host in brackets."""

from __future__ import annotations

import re
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final

_HOST: Final = re.compile(r"""[^\s\x00-\x20"'\\/@]+""")
"""A name or an address; whether there is such a one is found out by calling it."""

ADDRESS_FORM: Final = "host:port, with an IPv6 address in brackets ([::1]:7443)"
"""What `is_address` asks for, in words."""


def is_address(text: str, least: int = 1) -> bool:
    """True if this is host:port with a port of at least `least`.

    Port 0, to listen on, lets the system choose one.

    An IPv6 address stands in brackets: without them it is ambiguous where it ends and the port
    begins.
    """
    host, _, port = text.rpartition(":")
    if ("[" in host or "]" in host or ":" in host) and not _is_bracketed(host):
        return False
    if not _HOST.fullmatch(host) or not port.isascii() or not port.isdecimal():
        return False
    try:
        host.encode(
            "idna"
        )  # as whoever looks the name up will do: no empty part, none that is too long
    except UnicodeError:
        return False
    return len(port) <= 5 and least <= int(port) <= 65_535


def _is_bracketed(host: str) -> bool:
    try:
        IPv6Address(host[1:-1])
    except ValueError:
        return False
    return host[0] == "[" and host[-1] == "]"


def host_and_port(address: str) -> tuple[str, int]:
    """The bare host and the port of a valid address, as sockets and certificates need them."""
    host, _, port = address.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), int(port)


def network_of(address: str) -> str:
    """The network of one subscriber: an IPv4 address itself, or the /64 of an IPv6 address.

    Other text is returned unchanged.
    """
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ip_network((parsed, 64), strict=False))
    return address
