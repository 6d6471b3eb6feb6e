"""A development PKI: every key, TLS certificate and credential of one deployment, made on one machine.

Layout below the deployment folder (docs/protocol.md, section "Keys"):

    roster.json  root.pub            what everybody gets: the signed roster and the root key to pin
    root/        root.pem  ca-key.pem  ca.pem
    enrolment/   <population>.pem    the enrolment keys
    <party>/     identity.pem  tls.pem  tls-key.pem      one folder per process: node-1.., analyst, accountant
    client/  operator/               tls.pem  tls-key.pem

In a real deployment each operator makes its own keys and the root signs the roster; here one command does it all.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from shuffledp_core.documents.models import Credential, Party, Population, Roster
from shuffledp_core.documents.signed import Signed
from shuffledp_core.errors import ConfigError, UsageError
from shuffledp_core.keys import ROOT, Identity, load_identity, load_roster, read_file
from shuffledp_core.transport.tls import CLIENT, OPERATOR

VALID_DAYS: Final = 365
"""Life of the development TLS certificates."""

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
    folder: Path, addresses: Mapping[str, str], *, population: str = "demo", deployment: str = "demo"
) -> Deployment:
    """Makes all keys below `folder`, which must be empty or absent.

    Args:
        folder: where; created with mode 0700.
        addresses: host:port by party name: "analyst", "accountant", and the nodes under any other names, in
            the order of the default route.
        population: the one population of the deployment.
        deployment: its name.

    Raises:
        ConfigError: the folder already holds something.
    """
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"{folder} is not empty; choose a new folder, keys are never overwritten")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    authority = _Authority.create(deployment)
    root = _new_identity(folder / "root", ROOT)
    _write_secret(folder / "root" / "ca-key.pem", _private_pem(authority.key))
    _write(folder / "root" / "ca.pem", authority.pem)
    enrolment = _new_identity(folder / "enrolment" / population, population)
    parties = tuple(_new_party(folder, authority, name, address) for name, address in addresses.items())
    for name in (CLIENT, OPERATOR):
        authority.issue(folder / name, name, ())
    roster = Roster(
        deployment=deployment,
        parties=parties,
        populations=(Population(name=population, enrolment_key=enrolment.public_key.hex()),),
        tls_authority=authority.pem.decode(),
    )
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
    """The deployment that `create_deployment` made there."""
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
    _write_secret(folder / "identity.pem", _private_pem(key))
    _write(folder / "credential.json", credential.to_bytes())
    for name in ("tls.pem", "tls-key.pem"):
        _write_secret(folder / name, read_file(deployment.keys_of(CLIENT) / name, "TLS file"))


@dataclass(frozen=True)
class _Authority:
    """The deployment's TLS certificate authority (ECDSA P-256, as every TLS stack speaks)."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @classmethod
    def create(cls, deployment: str) -> _Authority:
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name(f"shuffledp {deployment} development CA")
        certificate = (
            _builder(name, name, key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
            .sign(key, hashes.SHA256())
        )
        return cls(key, certificate)

    def issue(self, folder: Path, name: str, hosts: tuple[str, ...]) -> None:
        """A certificate for `name`, valid as server under that name and `hosts`, and as client."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            _builder(_name(name), self.certificate.subject, key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
            .add_extension(
                x509.SubjectAlternativeName([x509.DNSName(name), *map(_general_name, hosts)]), critical=False
            )
            .sign(self.key, hashes.SHA256())
        )
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write(folder / "tls.pem", certificate.public_bytes(serialization.Encoding.PEM) + self.pem)
        _write_secret(folder / "tls-key.pem", _private_pem(key))


def _new_party(folder: Path, authority: _Authority, name: str, address: str) -> Party:
    identity = _new_identity(folder / name, name)
    host = address.rpartition(":")[0]
    authority.issue(folder / name, name, (host, "localhost"))
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
    _write_secret(folder / "identity.pem", _private_pem(key))
    return Identity(name, key)


def _private_pem(key: Ed25519PrivateKey | ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def _write_secret(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(minutes=5))
        .not_valid_after(now + dt.timedelta(days=VALID_DAYS))
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
