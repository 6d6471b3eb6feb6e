"""Overview of a deployment folder: parties and expiry of certificates (`shuffledp keys show`).

Reads no private key.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from rich.console import Console
from rich.table import Column, Table

from shuffledp_core.runtime.files import read_file
from shuffledp_core.transport.tls_files import certificates
from shuffledp_ops.keys.pki import Deployment, tls_names

NOT_HERE = "not here"


def show(deployment: Deployment, console: Console, now: dt.datetime) -> None:
    """Print names, expiry times, and the beginnings of identity keys and TLS fingerprints.

    Raises:
        ConfigError: a file is not the certificate that it should be.
    """
    folder, roster = deployment.folder, deployment.roster
    console.print(f"deployment {roster.deployment}, root key {deployment.root_key}", soft_wrap=True)
    ends = dt.datetime.fromtimestamp(roster.expires_at / 1000, dt.UTC)
    console.print(f"roster {roster.serial}, ends {ends:%Y-%m-%d}, in {(ends - now).days} days")
    for what, file in {
        "root key": "root/identity.pem",
        "TLS authority's key": "root/ca-key.pem",
    }.items():
        console.print(f"private {what}: {file if (folder / file).exists() else NOT_HERE}")
    roles = {party.name: (party.role, party.identity_key) for party in roster.parties}
    heads = ("who", "role", "identity key", "TLS certificate", "ends", "days")
    table = Table(*(Column(head, no_wrap=True) for head in heads), box=None, padding=(0, 1, 0, 0))
    for certificate in certificates(roster.tls_authority.encode(), "the roster's TLS authority"):
        table.add_row("TLS authority", "", "", *_certificate(certificate, now))
    for name in tls_names(roster):
        role, identity = roles.get(name, (name, ""))
        table.add_row(name, role, identity[:16], *_certificate_in(folder / name / "tls.pem", now))
    console.print(table)


def _certificate_in(file: Path, now: dt.datetime) -> tuple[str, str, str]:
    if not file.exists():
        return NOT_HERE, "", ""
    return _certificate(certificates(read_file(file, "TLS certificate"), str(file))[0], now)


def _certificate(certificate: x509.Certificate, now: dt.datetime) -> tuple[str, str, str]:
    """Beginning of a certificate's fingerprint, its expiry, and whole days until then.

    Negative when it has ended.
    """
    ends = certificate.not_valid_after_utc
    return (
        certificate.fingerprint(hashes.SHA256()).hex()[:16],
        f"{ends:%Y-%m-%d}",
        str((ends - now).days),
    )
