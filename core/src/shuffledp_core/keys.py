"""Identity keys and the roster on disk. Reading only; `shuffledp keys init` makes them.

Layout: ROSTER is `roster.json`, a signed document; a party's key folder holds `identity.pem` (Ed25519, PKCS 8),
`tls.pem` (certificate chain) and `tls-key.pem`. docs/protocol.md, section "Keys".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from shuffledp_core.documents.models import Party, Roster
from shuffledp_core.documents.signed import Document, DocumentT, Signed, sign, verify
from shuffledp_core.errors import ConfigError

ROOT = "root"
"""Signer name of the roster."""


@dataclass(frozen=True)
class Identity:
    """A name and the key that signs for it."""

    name: str
    key: Ed25519PrivateKey = field(repr=False)

    @property
    def public_key(self) -> bytes:
        """Raw Ed25519 public key, 32 bytes."""
        return self.key.public_key().public_bytes_raw()

    def sign(self, document: Document) -> Signed:
        """The document under this identity."""
        return sign(document, self.name, self.key)


def read_file(path: Path, what: str) -> bytes:
    """The bytes of a file that configuration names; `ConfigError` says which file and why not."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"cannot read the {what} {path}: {error.strerror}; check the path and its permissions"
        ) from error


def load_identity(folder: Path, name: str) -> Identity:
    """The identity in a key folder. Raises `ConfigError` for a missing or unusable key."""
    data = read_file(folder / "identity.pem", "identity key")
    try:
        key = load_pem_private_key(data, password=None)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{folder / 'identity.pem'} is not an unencrypted PEM private key") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigError(f"{folder / 'identity.pem'} is not an Ed25519 key")
    return Identity(name, key)


def load_party(roster: Roster, role: str, name: str, folder: Path) -> Identity:
    """The identity of a service, checked to be the roster's party of that role and name.

    Raises `ConfigError` when the roster has no such party, or another key for it.
    """
    identity = load_identity(folder, name)
    named = [party for party in roster.parties if party.role == role and party.name == name]
    if not named:
        known = ", ".join(party.name for party in roster.parties if party.role == role) or "none"
        raise ConfigError(f"the roster of {roster.deployment!r} has no {role} {name!r} (it has: {known}); check `name`")
    if named[0].identity_key != identity.public_key.hex():
        raise ConfigError(f"the identity key in {folder} is not the one the roster names for {name!r}; check `keys`")
    return identity


def parse_hex_key(text: str, what: str) -> bytes:
    """32 bytes from hex; `ConfigError` names what was wrong."""
    try:
        key = bytes.fromhex(text)
    except ValueError as error:
        raise ConfigError(f"the {what} is not hexadecimal") from error
    if len(key) != 32:
        raise ConfigError(f"the {what} has {len(key)} bytes instead of 32")
    return key


def load_roster(path: Path, root_key: str) -> Roster:
    """The roster, verified under the deployment's pinned root key (hex)."""
    signed = Signed.from_bytes(read_file(path, "roster"))
    return verify(signed, Roster, ROOT, parse_hex_key(root_key, "root key"))


def verify_from(party: Party, signed: Signed, model: type[DocumentT]) -> DocumentT:
    """A document that this party of the roster signed; errors as `verify`."""
    return verify(signed, model, party.name, bytes.fromhex(party.identity_key))
