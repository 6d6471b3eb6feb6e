"""Configuration of one device, and the user in its key folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from shuffledp_client.policy import Policy
from shuffledp_client.receipts import TILE_CROWD, ReceiptCheck
from shuffledp_client.state import KEPT_BYTES
from shuffledp_client.submission import Member
from shuffledp_core.documents.models import Credential, Roster
from shuffledp_core.documents.signed import Signed, from_json, verify
from shuffledp_core.errors import ConfigError, DocumentError
from shuffledp_core.runtime.addresses import ADDRESS_FORM, is_address
from shuffledp_core.runtime.config import BrokerConfig, Section
from shuffledp_core.runtime.files import read_file
from shuffledp_core.runtime.keys import load_identity, parse_hex_key

MAX_EVIDENCE_DAYS: Final = 3660
"""Ten years: a bound, because kept submissions tell which messages were the user's."""


class GatewayAddress(Section, frozen=True, kw_only=True):
    """The `[gateway]` table: host:port of an HTTPS gateway.

    It need not be trusted: it can only delay.
    """

    address: str

    def __post_init__(self) -> None:
        if not is_address(self.address):
            raise ValueError(f"gateway.address must be {ADDRESS_FORM}, not {self.address!r}")


class ClientConfig(Section, frozen=True, kw_only=True):
    """Configuration of a device.

    Attributes:
        keys: folder with `tls.pem`, `tls-key.pem`, `identity.pem` and `credential.json`.
        roster: the signed roster.
        root_key: pinned hex key that signed the roster.
        state: folder of this user only, for what must survive a crash.
        policy: the user's limits on rounds.
        broker: the broker of announcements; None to query only the analyst.
        addresses: host:port of a party that this device reaches at another address than the
            roster's, by name. It need not be trusted, because TLS checks the party's name.
        gateway: an HTTPS gateway to use in place of analyst and entry node; None to call these over
            gRPC.
        broker_seconds: how long to wait for the broker before the analyst is queried.
        wait_seconds: how long `--wait` waits after the closing time for the result.
        evidence_days: days after its closing time for which an unsettled round is kept before it is
            erased.
        kept_bytes: most bytes kept of all rounds together; beyond it the device enters no new
            round.
        receipts: how the device finds its messages after a round, "board", "tile" or "sample".
        tile_crowd: for "tile", the fewest honest people who must share a tile on average.
        log_level: "debug", "info", "warning" or "error".
    """

    keys: Path
    roster: Path
    root_key: str
    state: Path
    policy: Policy
    broker: BrokerConfig | None = None
    addresses: dict[str, str] = msgspec.field(default_factory=dict)
    gateway: GatewayAddress | None = None
    broker_seconds: float = 3.0
    wait_seconds: float = 600.0
    evidence_days: float = 30.0
    kept_bytes: int = KEPT_BYTES
    receipts: ReceiptCheck = ReceiptCheck.BOARD
    tile_crowd: int = TILE_CROWD
    log_level: str = "warning"

    def __post_init__(self) -> None:
        if not 0 < self.evidence_days <= MAX_EVIDENCE_DAYS:
            raise ValueError(
                f"evidence_days must be above 0 and at most {MAX_EVIDENCE_DAYS}, not "
                f"{self.evidence_days}"
            )
        if self.kept_bytes < 1:
            raise ValueError(f"kept_bytes must be at least 1, not {self.kept_bytes}")
        if self.tile_crowd < 1:
            raise ValueError(f"tile_crowd must be at least 1, not {self.tile_crowd}")

    def require_addresses(self, roster: Roster) -> Roster:
        """The roster with the addresses in this configuration.

        Raises `ConfigError` for an unusable one.
        """
        return at_addresses(roster, self.addresses)


def at_addresses(roster: Roster, addresses: Mapping[str, str]) -> Roster:
    """The roster with some addresses replaced, host:port by party.

    Raises `ConfigError` for an unusable one.
    """
    for name, address in addresses.items():
        if name not in {party.name for party in roster.parties}:
            raise ConfigError(
                f"addresses.{name}: the roster of {roster.deployment!r} has no party of that name"
            )
        if not is_address(address):
            raise ConfigError(f"addresses.{name} must be {ADDRESS_FORM}, not {address!r}")
    parties = tuple(
        msgspec.structs.replace(party, address=addresses.get(party.name, party.address))
        for party in roster.parties
    )
    return msgspec.structs.replace(roster, parties=parties)


def load_member(keys: Path, roster: Roster) -> tuple[Member, str]:
    """Load the user of a key folder, and the name of the credential's population.

    Raises:
        ConfigError: a file is missing or unusable, the credential is of another deployment, or of
            another key.
    """
    identity = load_identity(keys, "client")
    path = keys / "credential.json"
    try:
        signed = Signed.from_bytes(read_file(path, "credential"))
        # Read before it is verified, only to find the key by which `verify` then decides.
        population = roster.population(from_json(signed.body, Credential).population)
        enrolment_key = parse_hex_key(
            population.enrolment_key, f"enrolment key of {population.name!r}"
        )
        credential = verify(signed, Credential, population.name, enrolment_key)
    except DocumentError as error:
        raise ConfigError(f"{path}: {error}; enrol again") from error
    if credential.public_key != identity.public_key.hex():
        raise ConfigError(
            f"{path} was issued to another key than {keys / 'identity.pem'}; enrol again"
        )
    return Member.of(identity.key, signed), population.name
