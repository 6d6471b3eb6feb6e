"""Configuration of an HTTPS gateway."""

from __future__ import annotations

import re
from ipaddress import ip_address
from pathlib import Path
from typing import Final

import msgspec

from shuffledp_core.runtime.addresses import ADDRESS_FORM, is_address
from shuffledp_core.runtime.config import Section, ServiceConfig

_ORIGIN: Final = re.compile(r"https?://[a-z0-9.-]+(:[0-9]{1,5})?")
"""An origin as browsers write it: scheme, host, and a port that is not the scheme's own."""


class EnrolmentConfig(Section, frozen=True, kw_only=True):
    """The `[web.enrolment]` table: exchange of one-time codes for credentials.

    Attributes:
        population: the population for pages, which has its own enrolment key.
        key: folder with the population's `identity.pem`.
        codes: the list that `shuffledp keys codes` writes.
    """

    population: str
    key: Path
    codes: Path


class WebConfig(Section, frozen=True, kw_only=True):
    """The `[web]` table: a second address for pages, without client certificates.

    Attributes:
        listen: host:port.
        origins: origins of the pages that may call; a page of the gateway itself needs no entry.
        certificate: PEM file with a certificate chain that browsers trust; None for plain HTTP,
            behind a proxy that ends TLS.
        key: PEM file with the certificate's private key.
        proxies: addresses of proxies whose `X-Forwarded-For` is trusted.
        enrolment: how pages enrol; None if this gateway enrols no one.
        question: file with the markup of the example page's element; None for no example page.
    """

    listen: str
    origins: tuple[str, ...] = ()
    certificate: Path | None = None
    key: Path | None = None
    proxies: tuple[str, ...] = ()
    enrolment: EnrolmentConfig | None = None
    question: Path | None = None

    def __post_init__(self) -> None:
        if not is_address(self.listen, least=0):
            raise ValueError(f"web.listen must be {ADDRESS_FORM}, not {self.listen!r}")
        for origin in self.origins:
            if not _ORIGIN.fullmatch(origin):
                raise ValueError(
                    f"web.origins must be origins such as https://www.example.org, not {origin!r}"
                )
        if (self.certificate is None) != (self.key is None):
            raise ValueError("web.certificate and web.key must be given together")
        for proxy in self.proxies:
            try:
                canonical = str(ip_address(proxy))
            except ValueError:
                canonical = ""
            if canonical != proxy:
                raise ValueError(f"web.proxies must be IP addresses, not {proxy!r}")


class GatewayConfig(ServiceConfig, frozen=True, kw_only=True):
    """A gateway's TOML file, with the keys of every service (`name` is always "gateway").

    Attributes:
        addresses: host:port of a party that the gateway reaches at another address than the
            roster's, by name.
        body_bytes: longest body of a submission.
        waiting_bytes: most bytes of all bodies that are being received at one time; beyond that,
            devices are told to retry later.
        submission_seconds: how long one body may take to come in.
        boards: most simultaneous downloads of boards.
        requests_per_minute: most requests per minute of one address (under IPv6: of one /64
            network), even if all come at once.
        web: the address for pages; None if only devices with the deployment's certificate may call.
    """

    name: str = "gateway"
    addresses: dict[str, str] = msgspec.field(default_factory=dict)
    body_bytes: int = 16 * 2**20
    waiting_bytes: int = 64 * 2**20
    submission_seconds: float = 60.0
    boards: int = 16
    requests_per_minute: int = 600
    web: WebConfig | None = None

    def __post_init__(self) -> None:
        if self.name != "gateway":
            raise ValueError(
                'name must be "gateway", which devices expect in the TLS certificate, not '
                f"{self.name!r}"
            )
        if not is_address(self.listen, least=0):
            raise ValueError(f"listen must be {ADDRESS_FORM}, not {self.listen!r}")
        for name, address in self.addresses.items():
            if not is_address(address):
                raise ValueError(f"addresses.{name} must be {ADDRESS_FORM}, not {address!r}")
        if not 1024 <= self.body_bytes <= self.waiting_bytes <= 2**36:
            raise ValueError(
                f"body_bytes must be from 1024 to waiting_bytes, not {self.body_bytes}"
            )
        if not 0.001 <= self.submission_seconds <= 86_400:
            raise ValueError(
                f"submission_seconds must be from 0.001 to 86400, not {self.submission_seconds}"
            )
        for key in ("boards", "requests_per_minute"):
            if not 1 <= getattr(self, key) <= 1_000_000:
                raise ValueError(f"{key} must be from 1 to 1000000, not {getattr(self, key)}")
