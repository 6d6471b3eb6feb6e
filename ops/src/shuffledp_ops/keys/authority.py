"""TLS certificate authority of a deployment (ECDSA P-256, widely supported) and its successor.

A successor comes with a *bridge*: its own key, certified by the authority before it. Certificates
of the successor carry the bridge along, so that holders of a roster that names only the old
authority accept them until that one ends. The new roster names both. Thus parties and devices
change over one by one, in any order (RFC 4210, section 4.4, has the same idea as "new with old").
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from shuffledp_core.errors import ConfigError
from shuffledp_core.runtime.files import read_file
from shuffledp_core.transport.tls_files import certificates

VALID_DAYS: Final = 365
"""Life of a party's TLS certificate."""

AUTHORITY_DAYS: Final = 3 * 365
"""Life of the TLS authority: longer, because with a new one everyone needs a new roster."""

SOON_DAYS: Final = 30
"""An authority that ends sooner than this issues nothing more: expiry alerts would not stop."""


@dataclass(frozen=True)
class Authority:
    """A key that issues TLS certificates, its certificate, and the bridge from its predecessor."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate
    bridge: x509.Certificate | None = None

    @property
    def ends(self) -> dt.datetime:
        """Expiry of this authority's certificate, UTC; no certificate it issues lasts longer."""
        return self.certificate.not_valid_after_utc

    @classmethod
    def create(cls, deployment: str, now: dt.datetime) -> Authority:
        """Create an authority with a unique name, so that no two are confused."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name(f"shuffledp {deployment} development CA {secrets.token_hex(4)}")
        ends = now + dt.timedelta(days=AUTHORITY_DAYS)
        # Room for one authority below it, the bridge to its successor, and for no more.
        return cls(
            key, _authority(name, name, key, now, ends, path_length=1).sign(key, hashes.SHA256())
        )

    def successor(self, deployment: str, now: dt.datetime) -> Authority:
        """Create the next authority, with a bridge if this one is valid and may sign one."""
        new = Authority.create(deployment, now)
        limits = self.certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
        if self.ends <= now or limits.path_length == 0:
            return new
        subject, issuer = new.certificate.subject, self.certificate.subject
        builder = _authority(subject, issuer, new.key, now, min(self.ends, new.ends), path_length=0)
        return Authority(new.key, new.certificate, builder.sign(self.key, hashes.SHA256()))

    def issue(self, folder: Path, name: str, hosts: tuple[str, ...], now: dt.datetime) -> None:
        """Issue a key and certificate for `name`, valid as client and server for its hosts.

        The folder must hold no TLS key.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        # With its issuer it ends anyway: a later date would only hide that from whoever watches the
        # expiry.
        ends = min(now + dt.timedelta(days=VALID_DAYS), self.ends)
        certificate = (
            _builder(_name(name), self.certificate.subject, key, now, ends)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(
                # Both: with one certificate a node serves its predecessor and calls its successor.
                x509.ExtendedKeyUsage(
                    [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
                ),
                critical=False,
            )
            .add_extension(
                x509.SubjectAlternativeName([x509.DNSName(name), *map(_general_name, hosts)]),
                critical=False,
            )
            .sign(self.key, hashes.SHA256())
        )
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Holders of the old roster need the bridge to get here from the old authority; those of the
        # new one ignore it.
        (folder / "tls.pem").write_bytes(pem(certificate) + pem(self.bridge or self.certificate))
        write_secret(folder / "tls-key.pem", private_pem(key))

    def save(self, folder: Path) -> None:
        """Writes `ca-key.pem`, `ca.pem` and, if there is one, `ca-bridge.pem`.

        The folder must hold no such key.
        """
        write_secret(folder / "ca-key.pem", private_pem(self.key))
        (folder / "ca.pem").write_bytes(pem(self.certificate))
        (folder / "ca-bridge.pem").unlink(missing_ok=True)
        if self.bridge is not None:
            (folder / "ca-bridge.pem").write_bytes(pem(self.bridge))

    @classmethod
    def load(cls, folder: Path) -> Authority:
        """Loads the files that `save` wrote. Raises `ConfigError` for missing or unusable ones."""
        key_file, file, bridge = (
            folder / name for name in ("ca-key.pem", "ca.pem", "ca-bridge.pem")
        )
        try:
            key = serialization.load_pem_private_key(
                read_file(key_file, "TLS authority's key"), password=None
            )
        except (ValueError, TypeError) as error:
            raise ConfigError(f"{key_file} is not an unencrypted PEM private key") from error
        (certificate, *_) = certificates(read_file(file, "TLS authority"), str(file))
        if (
            not isinstance(key, ec.EllipticCurvePrivateKey)
            or key.public_key() != certificate.public_key()
        ):
            raise ConfigError(
                f"{key_file} is not the key of {file}; put back the pair that belongs together"
            )
        bridges = (
            certificates(read_file(bridge, "bridge"), str(bridge)) if bridge.exists() else [None]
        )
        return cls(key, certificate, bridges[0])


def pem(certificate: x509.Certificate) -> bytes:
    """PEM form of a certificate, as in files and rosters."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def private_pem(key: Ed25519PrivateKey | ec.EllipticCurvePrivateKey) -> bytes:
    """PEM form of a private key, as in files: PKCS 8, not encrypted."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def write_secret(path: Path, data: bytes) -> None:
    """Writes a new file that only its owner may read."""
    # Exclusive: a key in use, once overwritten, is lost for good.
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


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    now: dt.datetime,
    ends: dt.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(minutes=5))  # for machines whose clocks are slow
        .not_valid_after(ends)
    )


def _authority(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    now: dt.datetime,
    ends: dt.datetime,
    path_length: int,
) -> x509.CertificateBuilder:
    return (
        _builder(subject, issuer, key, now, ends)
        .add_extension(x509.BasicConstraints(ca=True, path_length=path_length), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
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
