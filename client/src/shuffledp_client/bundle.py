"""A device in one file, made at enrolment and transferred over a private channel.

The file holds the device's private keys: a reader of it can act as that device. `install` makes
the folder that a device works from; `renew` puts a later roster and TLS pair into it, and leaves
identity, policy and state unchanged.
"""

from __future__ import annotations

import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from shuffledp_client.config import ClientConfig, load_member
from shuffledp_core.documents.models import Roster
from shuffledp_core.documents.signed import MAX_DOCUMENT_BYTES, Signed, from_json, to_json
from shuffledp_core.errors import ConfigError, MalformedDocumentError
from shuffledp_core.runtime.config import load_config, parse_config
from shuffledp_core.runtime.files import read_file, write_new
from shuffledp_core.runtime.keys import load_roster

CONFIG: Final = "client.toml"
_VERSION: Final = 1
_NEW: Final = ".new"
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_ROOT_KEY: Final = re.compile(r"[0-9a-f]{64}")


class Bundle(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All files of one device.

    Keys and certificates are PEM, `settings` is the rest of its configuration, TOML.
    """

    version: int = _VERSION
    name: str
    root_key: str
    roster: Signed
    credential: Signed
    identity: str
    tls: str
    tls_key: str
    settings: str

    def __post_init__(self) -> None:
        if self.version != _VERSION:
            raise ValueError(
                f"version {self.version} of a device's bundle is not supported; this software "
                f"reads version {_VERSION}"
            )
        if not _NAME.fullmatch(self.name) or not _ROOT_KEY.fullmatch(self.root_key):
            raise ValueError("the bundle's device name or root key is malformed")

    def __repr__(self) -> str:
        return f"<Bundle of {self.name}>"

    def to_bytes(self) -> bytes:
        """The contents of the bundle's file, which are secret."""
        return to_json(self)

    def expiring_files(self) -> dict[str, bytes]:
        """The files that expire, which a later bundle replaces."""
        return {
            "roster.json": self.roster.to_bytes(),
            "keys/tls.pem": self.tls.encode(),
            "keys/tls-key.pem": self.tls_key.encode(),
        }

    def files(self) -> dict[str, bytes]:
        """All files of the device's folder."""
        head = (
            f"# The device {self.name}, from its bundle. The policy is yours to change: "
            f"deploy/config/client.toml\n"
            f'keys = "keys"\nroster = "roster.json"\nroot_key = "{self.root_key}"\nstate = '
            f'"state"\n\n'
        )
        return {
            "keys/identity.pem": self.identity.encode(),
            "keys/credential.json": self.credential.to_bytes(),
            **self.expiring_files(),
            CONFIG: (head + self.settings).encode(),
        }


def check_settings(settings: str) -> None:
    """Raise `ConfigError` unless these settings (TOML) are a valid device configuration."""
    head = 'keys = "keys"\nroster = "roster.json"\nroot_key = "00"\nstate = "state"\n'
    parse_config(f"{head}{settings}".encode(), ClientConfig, "the settings of a device", Path())


def read_bundle(path: Path) -> Bundle:
    """Reads a bundle from its file; nothing in it is trusted yet. Raises `ConfigError`."""
    data = read_file(path, "bundle", MAX_DOCUMENT_BYTES)
    try:
        return from_json(data, Bundle)
    except MalformedDocumentError as error:
        raise ConfigError(
            f"{path} is not a device's bundle: {error}"
        ) from None  # what is in it stays out of logs


def folders_of(bundle: Bundle, *parents: Path) -> list[Path]:
    """Find the folders below `parents` that hold this bundle's identity, whatever their names.

    A device is recognised by its identity key, which no renewal changes. Unreadable folders are
    skipped.
    """
    identity = bundle.identity.encode()
    homes = dict[Path, None]()
    for parent in parents:
        for key in sorted(parent.glob("*/keys/identity.pem")):
            home = key.parent.parent
            if home.name.startswith(".") and home.name.endswith(
                _NEW
            ):  # of an installation that was killed
                continue
            with suppress(OSError):
                if key.stat().st_size == len(identity) and key.read_bytes() == identity:
                    homes[home.resolve()] = None
    return list(homes)


def install(bundle: Bundle, folder: Path) -> tuple[ClientConfig, Roster]:
    """Create the device's folder, which must be empty or absent.

    Returns its configuration and roster.

    No folder next to it may belong to the same device: a second one would not know what the first
    one has answered.

    1. The files are written, mode 0600, into a new folder, mode 0700.
    2. They are usable: the roster is signed by the root key and current, the credential belongs to
       a population and to the identity, the configuration parses.
    3. Only then is the folder renamed to its final name; after an error nothing is left.

    Raises:
        ConfigError: the folder holds something or cannot be made, or there is one of the same
            device; step 2, as `StaleRosterError` where it is the roster.
        DocumentError: the roster is not under the root key.
    """
    try:
        empty = not folder.exists() or not any(folder.iterdir())
    except OSError as error:
        raise ConfigError(
            f"cannot create {folder} ({error.strerror}); name another folder"
        ) from error
    if not empty:
        raise ConfigError(
            f"{folder} is not empty; name a new folder, or add --renew if this is a later bundle "
            "of the same device"
        )
    target = folder.resolve()
    check_only(bundle, target, target.parent)
    new = target.with_name(f".{target.name}{_NEW}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(new, ignore_errors=True)  # of one that was killed
        try:
            (new / "keys").mkdir(parents=True)
            for directory in (new, new / "keys"):
                # Before the first key is written into it; `mkdir` gives what the umask leaves.
                directory.chmod(0o700)
            for name, data in bundle.files().items():  # 1
                write_new(new / name, data)
            roster = _check_installation(new)  # 2
            new.rename(target)  # 3
        finally:
            shutil.rmtree(new, ignore_errors=True)
    except OSError as error:
        raise ConfigError(
            f"cannot create {folder} ({error.strerror}); everything written there was removed"
        ) from error
    return load_config(folder / CONFIG, ClientConfig), roster


def check_only(bundle: Bundle, folder: Path, *places: Path) -> None:
    """Raise `ConfigError` if another folder in `places` belongs to the same device.

    The message says what to do.
    """
    others = [str(home) for home in folders_of(bundle, *places) if home != folder.resolve()]
    if others:
        raise ConfigError(
            f"{' and '.join(others)} already holds the device of this bundle, with the answers "
            f"that it keeps. Use that folder, or move it to {folder}; a second folder would draw "
            "them again, and break what was promised to its user"
        )


def renew(bundle: Bundle, folder: Path) -> Roster:
    """Update roster and TLS pair in a device's folder from a later bundle of the same device.

    Returns the new roster.

    Raises:
        ConfigError: the bundle or folder is another device's; `StaleRosterError` if the bundle's
            roster is not newer.
    """
    config = load_config(folder / CONFIG, ClientConfig)
    identity = read_file(config.keys / "identity.pem", "identity key").decode(errors="replace")
    if (config.root_key, identity) != (bundle.root_key, bundle.identity):
        raise ConfigError(
            f"the bundle of {bundle.name!r} is for another device than the one in {folder}, or "
            "has another root key"
        )
    files = bundle.expiring_files()
    parts = {name: folder / f"{name}{_NEW}" for name in files}
    try:
        for name, data in files.items():
            parts[name].unlink(missing_ok=True)
            write_new(parts[name], data)
        # Verified as a part, before anything is replaced: a bad roster leaves the device as it was.
        roster = load_roster(parts["roster.json"], bundle.root_key, config.state)
        for name, part in parts.items():
            # Killed in between, the folder holds files of both bundles; the same command again
            # completes it.
            part.replace(folder / name)
    except OSError as error:
        raise ConfigError(f"cannot write to {folder} ({error.strerror}); retry") from error
    finally:
        for part in parts.values():
            part.unlink(missing_ok=True)
    return roster


def _check_installation(folder: Path) -> Roster:
    config = load_config(folder / CONFIG, ClientConfig)
    roster = load_roster(config.roster, config.root_key)
    load_member(config.keys, roster)
    config.require_addresses(roster)
    return roster
