"""Configuration of an HTTPS gateway."""

from __future__ import annotations

import msgspec

from shuffledp_core.runtime.addresses import ADDRESS_FORM, is_address
from shuffledp_core.runtime.config import ServiceConfig


class GatewayConfig(ServiceConfig, frozen=True, kw_only=True):
    """A gateway's TOML file: the keys of every service (`name` is always "gateway"), and these.

    Attributes:
        addresses: host:port by party, where the gateway finds it other than at the roster's
            address.
        body_bytes: longest body of a submission.
        waiting_bytes: of all bodies that are on their way in at one time; beyond it a device is
            asked to come later.
        submission_seconds: how long one body may take to come in.
        boards: downloads of boards at one time.
        requests_per_minute: of one address (of one /64 network, under IPv6), and how many may come
            at once.
    """

    name: str = "gateway"
    addresses: dict[str, str] = msgspec.field(default_factory=dict)
    body_bytes: int = 16 * 2**20
    waiting_bytes: int = 64 * 2**20
    submission_seconds: float = 60.0
    boards: int = 16
    requests_per_minute: int = 600

    def __post_init__(self) -> None:
        if self.name != "gateway":
            raise ValueError(
                f'name must be "gateway", for which devices ask by TLS, not {self.name!r}'
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
