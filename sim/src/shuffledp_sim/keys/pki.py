"""A development PKI: every key, TLS certificate and credential of one deployment, made on one machine.

Layout below the deployment folder (docs/protocol.md, section "Keys"):

    roster.json  root.pub            what everybody gets: the signed roster and the root key to pin
    root/        identity.pem  ca-key.pem  ca.pem  (ca-bridge.pem)
    enrolment/   <population>/identity.pem           the enrolment keys
    <party>/     identity.pem  tls.pem  tls-key.pem      one folder per process: node-1.., analyst, accountant
    client/  operator/               tls.pem  tls-key.pem
    clients/     <user>/             single users, with copies of the TLS files in client/

In a real deployment each operator makes its own keys and the root signs the roster; here one command does it all.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from shuffledp_core.documents.models import Credential, Party, Population, Roster
from shuffledp_core.documents.signed import Signed
from shuffledp_core.errors import ConfigError, UsageError
from shuffledp_core.keys import ROOT, Identity, load_identity, load_roster, read_file
from shuffledp_core.transport.tls import CLIENT, OPERATOR
from shuffledp_sim.keys.authority import Authority, pem, private_pem, write_secret

ANALYST: Final = "analyst"
ACCOUNTANT: Final = "accountant"


@dataclass(frozen=True)
class Deployment:
    """A folder with the keys of one deployment, and what everybody knows of it."""

    folder: Path
    roster: Roster
    root_key: str
    """Hex; what every process pins."""

    @property
    def roster_file(self) -> Path:
        """The signed roster."""
        return self.folder / "roster.json"

    def keys_of(self, name: str) -> Path:
        """Key folder of a party, or of "client" or "operator"."""
        return self.folder / name

    def identity_of(self, name: str) -> Identity:
        """The signing identity of a party."""
        return load_identity(self.keys_of(name), name)

    def enrolment_of(self, population: str) -> Identity:
        """The identity that signs a population's credentials."""
        return load_identity(self.folder / "enrolment" / population, population)


def create_deployment(
    folder: Path,
    addresses: Mapping[str, str],
    *,
    population: str = "demo",
    deployment: str = "demo",
    now: dt.datetime | None = None,
) -> Deployment:
    """Makes all keys below `folder`, which must be empty or absent.

    Args:
        folder: where; created with mode 0700.
        addresses: host:port by party name: "analyst", "accountant", and the nodes under any other names, in
            the order of the default route.
        population: the one population of the deployment.
        deployment: its name.
        now: when the TLS certificates begin, UTC; None: now.

    Raises:
        ConfigError: the folder already holds something.
    """
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"{folder} is not empty; choose a new folder, keys are never overwritten")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    now = now or dt.datetime.now(dt.UTC)
    authority = Authority.create(deployment, now)
    root = _new_identity(folder / "root", ROOT)
    authority.save(folder / "root")
    enrolment = _new_identity(folder / "enrolment" / population, population)
    parties = tuple(_new_party(folder, name, address) for name, address in addresses.items())
    roster = Roster(
        deployment=deployment,
        parties=parties,
        populations=(Population(name=population, enrolment_key=enrolment.public_key.hex()),),
        tls_authority=pem(authority.certificate).decode(),
    )
    for name, hosts in tls_names(roster).items():
        authority.issue(folder / name, name, hosts, now)
    _write(folder / "roster.json", root.sign(roster).to_bytes())
    _write(folder / "root.pub", (root.public_key.hex() + "\n").encode())
    return Deployment(folder, roster, root.public_key.hex())


def replace_addresses(addresses: Mapping[str, str], given: Iterable[str]) -> dict[str, str]:
    """The addresses with those replaced that are `given` as "PARTY=HOST:PORT", in the same order of parties.

    Raises:
        UsageError: not of that form, or not a party of the deployment.
    """
    replaced = dict(addresses)
    for text in given:
        name, _, address = text.partition("=")
        host, _, port = address.rpartition(":")
        if name not in addresses:
            raise UsageError(f"{text!r} names no party of the deployment; choose from {', '.join(addresses)}")
        if not host or not port.isdecimal() or not 1 <= int(port) <= 65535:
            raise UsageError(f"{text!r} is not PARTY=HOST:PORT with a port from 1 to 65535")
        replaced[name] = address
    return replaced


def open_deployment(folder: Path) -> Deployment:
    """The deployment that `create_deployment` made there.

    Raises:
        ConfigError: nothing of that kind is there.
        DocumentError: the roster is not signed by the root key beside it.
    """
    missing = [name for name in ("roster.json", "root.pub") if not (folder / name).is_file()]
    if missing:
        raise ConfigError(
            f"{folder} is no deployment folder: it has no {' and no '.join(missing)}; `shuffledp keys init` makes one"
        )
    root_key = read_file(folder / "root.pub", "root key").decode().strip()
    return Deployment(folder, load_roster(folder / "roster.json", root_key), root_key)


def issue_credentials(enrolment: Identity, count: int) -> Iterator[tuple[Ed25519PrivateKey, Signed]]:
    """`count` fresh client keys, each with its credential: real ones, as every user would hold."""
    for _ in range(count):
        key = Ed25519PrivateKey.generate()
        public = key.public_key().public_bytes_raw().hex()
        yield key, enrolment.sign(Credential(population=enrolment.name, public_key=public))


def write_client(folder: Path, deployment: Deployment, population: str) -> None:
    """One user's key folder: TLS of all devices, an identity of its own and its credential."""
    key, credential = next(issue_credentials(deployment.enrolment_of(population), 1))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_secret(folder / "identity.pem", private_pem(key))
    _write(folder / "credential.json", credential.to_bytes())
    for name in ("tls.pem", "tls-key.pem"):
        write_secret(folder / name, read_file(deployment.keys_of(CLIENT) / name, "TLS file"))


def tls_names(roster: Roster) -> dict[str, tuple[str, ...]]:
    """Who has a TLS certificate in a deployment, and under which hosts besides its own name."""
    parties = {party.name: (party.address.rpartition(":")[0], "localhost") for party in roster.parties}
    return parties | {CLIENT: (), OPERATOR: ()}


def _new_party(folder: Path, name: str, address: str) -> Party:
    identity = _new_identity(folder / name, name)
    role = name if name in {ANALYST, ACCOUNTANT} else "node"
    return Party(
        name=name,
        role=role,
        operator=f"operator-of-{name}",
        address=address,
        identity_key=identity.public_key.hex(),
    )


def _new_identity(folder: Path, name: str) -> Identity:
    key = Ed25519PrivateKey.generate()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_secret(folder / "identity.pem", private_pem(key))
    return Identity(name, key)


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)
