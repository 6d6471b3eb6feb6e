"""Configuration of one device, and what its files hold."""

from __future__ import annotations

from pathlib import Path

from shuffledp_client.policy import Policy
from shuffledp_client.submission import Member
from shuffledp_core.config import BrokerConfig, Section
from shuffledp_core.documents.models import Credential, Roster
from shuffledp_core.documents.signed import Signed, from_json, verify
from shuffledp_core.errors import ConfigError, DocumentError
from shuffledp_core.keys import load_identity, parse_hex_key, read_file


class ClientConfig(Section, frozen=True, kw_only=True):
    """What a device needs.

    Attributes:
        keys: folder with `tls.pem`, `tls-key.pem`, `identity.pem` and `credential.json`.
        roster: the signed roster.
        root_key: pinned hex key that signed the roster.
        state: folder of this one user for what must survive a crash.
        policy: what a round may ask for at most.
        broker: where announcements are; None: only the analyst is asked.
        broker_seconds: how long to wait for the broker before the analyst is asked.
        wait_seconds: how long `--wait` waits after the closing time for the result.
        log_level: "debug", "info", "warning" or "error".
    """

    keys: Path
    roster: Path
    root_key: str
    state: Path
    policy: Policy
    broker: BrokerConfig | None = None
    broker_seconds: float = 3.0
    wait_seconds: float = 600.0
    log_level: str = "warning"


def load_member(keys: Path, roster: Roster) -> tuple[Member, str]:
    """The user of a key folder, and the population of its credential.

    Raises:
        ConfigError: a file is missing or unusable, the credential is of another deployment, or of another key.
    """
    identity = load_identity(keys, "client")
    path = keys / "credential.json"
    try:
        signed = Signed.from_bytes(read_file(path, "credential"))
        population = roster.population(from_json(signed.body, Credential).population)
        enrolment_key = parse_hex_key(population.enrolment_key, f"enrolment key of {population.name!r}")
        credential = verify(signed, Credential, population.name, enrolment_key)
    except DocumentError as error:
        raise ConfigError(f"{path}: {error}; enrol again") from error
    if credential.public_key != identity.public_key.hex():
        raise ConfigError(f"{path} was issued to another key than {keys / 'identity.pem'}; enrol again")
    return Member.of(identity.key, signed), population.name
