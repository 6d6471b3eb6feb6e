"""Identity keys and the roster on disk. Reading only; `shuffledp keys init` makes them.

Layout: ROSTER is `roster.json`, a signed document; a party's key folder holds `identity.pem`
(Ed25519, PKCS 8), `tls.pem` (certificate chain) and `tls-key.pem`. docs/protocol.md, section
"Keys".
"""

from __future__ import annotations

import datetime as dt
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from shuffledp_core.documents.digests import document_digest
from shuffledp_core.documents.models import Party, Roster
from shuffledp_core.documents.signed import (
    Document,
    DocumentT,
    Signed,
    sign,
    sign_all,
    verify,
    verify_all,
)
from shuffledp_core.errors import (
    ConfigError,
    DocumentError,
    MalformedDocumentError,
    StaleRosterError,
)
from shuffledp_core.runtime.clock import Clock, system_clock
from shuffledp_core.runtime.files import read_file, sync, write_new

ROOT = "root"
"""Name under which the roster is signed."""

SEEN_ROSTER: Final = "roster-seen"
"""File in a state folder with serial and digest of the newest roster that the process has used."""


@dataclass(frozen=True)
class Identity:
    """A party's name and its signing key."""

    name: str
    key: Ed25519PrivateKey = field(repr=False)

    @property
    def public_key(self) -> bytes:
        """Raw Ed25519 public key, 32 bytes."""
        return self.key.public_key().public_bytes_raw()

    def sign(self, document: Document) -> Signed:
        """Signs a document with this identity's key."""
        return sign(document, self.name, self.key)

    def sign_all(self, documents: Sequence[Document]) -> list[Signed]:
        """Vectorised `sign`."""
        return sign_all(documents, self.name, self.key)

    def sign_bytes(self, statement: bytes) -> bytes:
        """Sign bytes that state their own purpose, such as the statements of verified mixing.

        Returns 64 bytes.
        """
        return self.key.sign(statement)


def read_signed(path: Path, what: str) -> Signed:
    """Reads a signed document; nothing is verified here. Errors name the file.

    Raises:
        ConfigError: it cannot be read.
        MalformedDocumentError: it is not a signed document.
    """
    data = read_file(path, what)
    try:
        return Signed.from_bytes(data)
    except MalformedDocumentError as error:
        raise MalformedDocumentError(f"{path}: {error}") from error


def load_identity(folder: Path, name: str) -> Identity:
    """Loads the identity of a key folder. Raises `ConfigError` for a missing or unusable key."""
    data = read_file(folder / "identity.pem", "identity key")
    try:
        key = load_pem_private_key(data, password=None)
    except (ValueError, TypeError) as error:
        raise ConfigError(
            f"{folder / 'identity.pem'} is not an unencrypted PEM private key"
        ) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigError(f"{folder / 'identity.pem'} is not an Ed25519 key")
    return Identity(name, key)


def load_party(roster: Roster, role: str, name: str, folder: Path) -> Identity:
    """Load the identity of a service, and check that the roster has this party in this role.

    Raises `ConfigError` when the roster has no such party, or another key for it.
    """
    identity = load_identity(folder, name)
    named = [party for party in roster.parties if party.role == role and party.name == name]
    if not named:
        names = ", ".join(party.name for party in roster.parties if party.role == role) or "none"
        raise ConfigError(
            f"the roster of {roster.deployment!r} has no {role} {name!r} (it has: {names}); check "
            "`name`"
        )
    # Now, not in a round: with a wrong key every document signed here would be refused elsewhere.
    if named[0].identity_key != identity.public_key.hex():
        raise ConfigError(
            f"the identity key in {folder} is not the one the roster names for {name!r}; check "
            "`keys`"
        )
    return identity


def parse_hex_key(text: str, what: str) -> bytes:
    """Parses a 32-byte key in hex; `ConfigError` says what is wrong with it."""
    try:
        key = bytes.fromhex(text)
    except ValueError as error:
        raise ConfigError(f"the {what} is not hexadecimal") from error
    if len(key) != 32:
        raise ConfigError(f"the {what} has {len(key)} bytes instead of 32")
    return key


def read_roster(path: Path, root_key: str) -> Roster:
    """Read a roster signed by the pinned root key (hex); an expired one is accepted, too."""
    return _signed_roster(path, root_key)[1]


def load_roster(
    path: Path, root_key: str, state: Path | None = None, clock: Clock = system_clock
) -> Roster:
    """Loads the current roster; steps of docs/protocol.md, "Keys".

    1. It is signed by the deployment's pinned root key (hex).
    2. It is current (`require_current`).
    3. With a `state` folder: it is the newest that was ever loaded with that folder, and is
       remembered there.

    Raises:
        ConfigError: a file cannot be used; `StaleRosterError`: steps 2 and 3.
        DocumentError: step 1.
    """
    signed, roster = _signed_roster(path, root_key)  # 1
    require_current(roster, clock())  # 2
    if state is not None:  # 3
        _remember(state, roster.serial, document_digest(signed))
    return roster


def require_current(roster: Roster, now: int) -> None:
    """Raise `StaleRosterError` for a roster that has no serial, or has expired at `now`.

    `now` is in milliseconds since 1970.
    """
    if roster.serial < 1:
        raise StaleRosterError(
            f"the roster of {roster.deployment!r} has no serial number, because an older version "
            "made it: make a new one with `shuffledp keys renew --roster` on the machine that "
            "has the root key, and distribute it to all parties and devices"
        )
    if now >= roster.expires_at:
        ended = dt.datetime.fromtimestamp(roster.expires_at / 1000, dt.UTC)
        raise StaleRosterError(
            f"the roster of {roster.deployment!r} (serial {roster.serial}) ended on "
            f"{ended:%Y-%m-%d}: get the current one; the deployment's owner makes it with "
            "`shuffledp keys renew --roster`"
        )


def _signed_roster(path: Path, root_key: str) -> tuple[Signed, Roster]:
    signed = read_signed(path, "roster")
    return signed, verify(signed, Roster, ROOT, parse_hex_key(root_key, "root key"))


def _remember(state: Path, serial: int, digest: str) -> None:
    """Refuse a roster older than the newest seen here, or different with the same serial."""
    file = state / SEEN_ROSTER
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        seen = file.read_text().split() if file.exists() else ["0", ""]
        newest = int(seen[0])
        newest_digest = "".join(seen[1:])
        if (serial, digest) == (newest, newest_digest):
            return
        if serial <= newest:
            raise StaleRosterError(
                f"this roster has serial {serial}, but roster {newest} was in use here "
                f"before{', with other contents' if serial == newest else ''}: get the current "
                "one"
            )
        # A fresh name: `write_new` takes no existing file, and a part left by a crash must not stop
        # every start.
        part = file.with_name(f"{file.name}-{secrets.token_hex(8)}")
        write_new(part, f"{serial} {digest}".encode())
        part.replace(file)
        sync(state)  # a power cut must not bring the older serial back
    except OSError as error:
        raise ConfigError(
            f"cannot use the state folder {state}: {error.strerror}; check `state`"
        ) from error
    except (ValueError, IndexError) as error:
        raise ConfigError(
            f"{file} is damaged; remove it if you are sure that the roster is the current one"
        ) from error


def verify_from(party: Party, signed: Signed, model: type[DocumentT]) -> DocumentT:
    """Verifies a document of this party of the roster; errors as `verify`.

    `ConfigError` for an unusable key.
    """
    return verify(signed, model, party.name, _identity_key(party))


def verify_all_from(
    party: Party, documents: Sequence[Signed], model: type[DocumentT]
) -> list[DocumentT | DocumentError]:
    """Vectorised `verify_from`: the content of each document, or its error."""
    key = _identity_key(party)
    return verify_all([(signed, party.name, key) for signed in documents], model)


def _identity_key(party: Party) -> bytes:
    return parse_hex_key(
        party.identity_key, f"identity key that the roster names for {party.name!r}"
    )
