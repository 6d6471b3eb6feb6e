"""A development PKI: every key, certificate and credential of a deployment on one machine.

Layout below the deployment folder (docs/protocol.md, section "Keys"):

    roster.json  root.pub            for everyone: the signed roster and the root key to pin
    root/        identity.pem  ca-key.pem  ca.pem  (ca-bridge.pem)
    enrolment/   <population>/identity.pem           the enrolment keys
    <party>/     identity.pem  tls.pem  tls-key.pem  one folder a process: node-1.., analyst, ...
    client/  operator/  gateway/     tls.pem  tls-key.pem
    clients/     <user>/             single users, with copies of the TLS files in client/; their
                                     bundles: `enrolment`
    withdrawals/ <population>.json   lists of withdrawn credentials: `enrolment`

In a real deployment each operator makes its own keys and the root signs the roster; here one
command does it all.
"""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from shuffledp_core.documents.models import (
    Credential,
    LogTerms,
    Party,
    Population,
    Roster,
    Witness,
)
from shuffledp_core.documents.signed import Signed
from shuffledp_core.documents.signing import generate_keys, public_keys
from shuffledp_core.errors import ConfigError, UsageError
from shuffledp_core.runtime.addresses import host_and_port, is_address
from shuffledp_core.runtime.files import read_file
from shuffledp_core.runtime.keys import ROOT, Identity, load_identity, read_roster
from shuffledp_core.transport.tls import CLIENT, GATEWAY, OPERATOR, VIEWER
from shuffledp_ops.keys.authority import Authority, pem, private_pem, write_secret
from shuffledp_ops.keys.names import check_name, check_names

ANALYST: Final = "analyst"
ACCOUNTANT: Final = "accountant"

ROSTER_DAYS: Final = 365
"""Life of a roster: for this long, someone who is kept from all newer ones still accepts it."""


@dataclass(frozen=True)
class Deployment:
    """A folder with the keys of one deployment, with its public roster and root key."""

    folder: Path
    roster: Roster
    root_key: str
    """Hex; every process pins it."""

    @property
    def roster_file(self) -> Path:
        """The signed roster."""
        return self.folder / "roster.json"

    def keys_of(self, name: str) -> Path:
        """Key folder of a party, or of "client", "operator", "viewer" or "gateway"."""
        return self.folder / name

    @property
    def own_keys(self) -> Path:
        """Key folder of the caller: the operator's, or the viewer's if there is no operator's."""
        viewer = self.keys_of(VIEWER)
        return (
            viewer
            if viewer.is_dir() and not self.keys_of(OPERATOR).is_dir()
            else self.keys_of(OPERATOR)
        )

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
    clients: Sequence[str] = (),
    witnesses: Mapping[str, str] | None = None,
    log_threshold: int | None = None,
    now: dt.datetime | None = None,
) -> Deployment:
    """Create all keys of a deployment in `folder`, which must be empty or absent.

    After an error there are none.

    Args:
        folder: key folder to write; created with mode 0700.
        addresses: host:port by party name: "analyst", "accountant", and the nodes under any other
            names, in the order of the default route.
        population: the one population of the deployment.
        deployment: name of the deployment.
        clients: single users to enrol.
        witnesses: URL by name of each witness of the public log; None: devices require no log.
        log_threshold: number of these whose signatures devices require; None: all.
        now: when roster and TLS certificates begin, UTC; None: now.

    Raises:
        UsageError: the name of the population or of a client is invalid, or the threshold is not 1
            to the number of witnesses.
        ConfigError: the folder already holds something, or cannot be made.
    """
    check_name(population, "population")
    check_names(clients, "client")
    count = len(witnesses or {})
    if log_threshold is not None and not 1 <= log_threshold <= count:
        raise UsageError(
            f"--log-threshold must be from 1 to the number of witnesses, {count}, not "
            f"{log_threshold}; name each witness with --witness NAME=URL"
        )
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is a file; name a new folder")
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(
            f"{folder} is not empty; choose a new folder, because keys are never overwritten"
        )
    target = folder.resolve()
    with _making(target) as new:
        log = _make_witnesses(new, witnesses or {}, log_threshold)
        now = now or dt.datetime.now(dt.UTC)
        created = _make_keys(new, addresses, population, deployment, log, now)
        for name in clients:
            write_client(new / "clients" / name, created, population)
    return Deployment(folder, created.roster, created.root_key)


@contextmanager
def _making(folder: Path) -> Iterator[Path]:
    """Context with a temporary folder, which is renamed to `folder` if the block succeeds.

    Otherwise it is removed.
    """
    new = folder.with_name(f".{folder.name}.new")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(new, ignore_errors=True)  # of one that was killed
        new.mkdir(mode=0o700)
        try:
            yield new
            # Under its name as a whole only: half of its keys would look like a deployment.
            new.rename(folder)
        finally:
            shutil.rmtree(new, ignore_errors=True)
    except OSError as error:
        raise ConfigError(
            f"cannot create {folder} ({error.strerror}); everything written there was removed"
        ) from error


def _make_witnesses(
    folder: Path, addresses: Mapping[str, str], threshold: int | None
) -> LogTerms | msgspec.UnsetType:
    if not addresses:
        return msgspec.UNSET
    keys = {name: _new_identity(folder / name, name) for name in addresses}
    witnesses = tuple(
        Witness(
            name=name,
            operator=f"operator-of-{name}",
            address=address,
            public_key=keys[name].public_key.hex(),
        )
        for name, address in addresses.items()
    )
    return LogTerms(witnesses=witnesses, threshold=threshold or len(witnesses))


def _make_keys(
    folder: Path,
    addresses: Mapping[str, str],
    population: str,
    name: str,
    log: LogTerms | msgspec.UnsetType,
    now: dt.datetime,
) -> Deployment:
    authority = Authority.create(name, now)
    root = _new_identity(folder / "root", ROOT)
    authority.save(folder / "root")
    enrolment = _new_identity(folder / "enrolment" / population, population)
    parties = tuple(_new_party(folder, party, address) for party, address in addresses.items())
    empty = Roster(
        deployment=name,
        parties=parties,
        populations=(Population(name=population, enrolment_key=enrolment.public_key.hex()),),
        tls_authority=pem(authority.certificate).decode(),
        log=log,
    )
    roster = next_roster(empty, now)
    for party, hosts in tls_names(roster).items():
        authority.issue(folder / party, party, hosts, now)
    _write(folder / "roster.json", root.sign(roster).to_bytes())
    _write(folder / "root.pub", (root.public_key.hex() + "\n").encode())
    return Deployment(folder, roster, root.public_key.hex())


def next_roster(roster: Roster, now: dt.datetime, **changes: Any) -> Roster:
    """The successor of a roster: next serial, valid from now on, with the given fields changed."""
    ends = now + dt.timedelta(days=ROSTER_DAYS)
    times = {
        "issued_at": round(now.timestamp() * 1000),
        "expires_at": round(ends.timestamp() * 1000),
    }
    return msgspec.structs.replace(roster, **({"serial": roster.serial + 1} | times | changes))


def replace_addresses(addresses: Mapping[str, str], given: Iterable[str]) -> dict[str, str]:
    """Replaces the addresses `given` as "PARTY=HOST:PORT", in the same order of parties.

    Raises:
        UsageError: an address is not of that form, or names no party of the deployment.
    """
    replaced = dict(addresses)
    for text in given:
        name, _, address = text.partition("=")
        if name not in addresses:
            raise UsageError(
                f"{text!r} names no party of the deployment; choose one of {', '.join(addresses)}"
            )
        if not is_address(address):
            raise UsageError(
                f"{text[:80]!r} is not PARTY=HOST:PORT, with a host name or address (IPv6 in "
                "brackets) and a port from 1 to 65535"
            )
        replaced[name] = address
    return replaced


def parse_witnesses(given: Iterable[str]) -> dict[str, str]:
    """The URL of each witness given as "NAME=URL".

    Raises:
        UsageError: a witness is not of that form, or a name occurs twice.
    """
    witnesses: dict[str, str] = {}
    for text in given:
        name, _, url = text.partition("=")
        check_name(name, "witness")
        if not url.startswith(("http://", "https://")) or name in witnesses:
            raise UsageError(
                f"{text[:80]!r} is not NAME=URL with an http or https URL, or its name is taken"
            )
        witnesses[name] = url
    return witnesses


def open_deployment(folder: Path) -> Deployment:
    """Open a deployment made by `create_deployment`.

    Its roster may have expired; then no party can be called with it.

    Raises:
        ConfigError: the folder holds no deployment.
        DocumentError: the roster is not signed by the root key next to it.
    """
    missing = [name for name in ("roster.json", "root.pub") if not (folder / name).is_file()]
    if missing:
        raise ConfigError(
            f"{folder} is not a deployment folder: it has no {' and no '.join(missing)}; "
            "`shuffledp keys init` creates one"
        )
    root_key = read_file(folder / "root.pub", "root key").decode().strip()
    return Deployment(folder, read_roster(folder / "roster.json", root_key), root_key)


def issue_credentials(
    enrolment: Identity, count: int, expires: dt.datetime | None = None
) -> Iterator[tuple[Ed25519PrivateKey, Signed]]:
    """Generates `count` fresh client keys, each with its credential."""
    ends = None if expires is None else round(expires.timestamp() * 1000)
    for _ in range(count):
        key = Ed25519PrivateKey.generate()
        public = key.public_key().public_bytes_raw().hex()
        yield (
            key,
            enrolment.sign(
                Credential(population=enrolment.name, public_key=public, expires_at=ends)
            ),
        )


def enrol_users(enrolment: Identity, count: int) -> list[tuple[bytes, Signed, bytes]]:
    """Generates `count` fresh raw private keys in bulk, each with its credential and public key."""
    keys = generate_keys(count)
    publics = public_keys(keys)
    credentials = [
        Credential(population=enrolment.name, public_key=public.hex()) for public in publics
    ]
    return list(zip(keys, enrolment.sign_all(credentials), publics, strict=True))


def write_client(
    folder: Path, deployment: Deployment, population: str, expires: dt.datetime | None = None
) -> None:
    """Create one user's key folder: the devices' TLS files, an identity and a credential."""
    key, credential = next(issue_credentials(deployment.enrolment_of(population), 1, expires))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_secret(folder / "identity.pem", private_pem(key))
    _write(folder / "credential.json", credential.to_bytes())
    for name in ("tls.pem", "tls-key.pem"):
        write_secret(folder / name, read_file(deployment.keys_of(CLIENT) / name, "TLS file"))


def tls_names(roster: Roster) -> dict[str, tuple[str, ...]]:
    """Names in a deployment that have TLS certificates, each with its further host names."""
    parties = {
        party.name: (host_and_port(party.address)[0], "localhost") for party in roster.parties
    }
    return parties | {CLIENT: (), OPERATOR: (), VIEWER: (), GATEWAY: ("localhost",)}


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
