"""Finds a device's folder, from the folder itself, its configuration, or its bundle."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from shuffledp_client.bundle import (
    CONFIG,
    Bundle,
    check_only,
    folders_of,
    install,
    read_bundle,
    renew,
)
from shuffledp_client.config import ClientConfig
from shuffledp_core.errors import ConfigError, StaleRosterError
from shuffledp_core.runtime.config import load_config
from shuffledp_core.runtime.files import read_file, write_atomic

SUFFIX: Final = ".device"
"""A bundle `alice.bundle` becomes the folder `alice.device` beside it, unless the app names
another.
"""

NOTE: Final = ".installed"
"""Suffix of a hidden file beside a bundle: where the device's folder is, which may have been named
by the app.
"""

_MOST_NOTE: Final = 2**16
"""Bytes; no path is as long."""


def home_of(place: Path, folder: Path | None = None) -> ClientConfig:
    """The configuration of the device at `place`: a folder, a client.toml, or a bundle.

    A bundle is installed the first time. Later, a newer bundle of the same device brings roster and
    TLS pair; identity, policy and state stay as they are. It may have another file name: the
    device's folder beside it is known by its key, and a folder elsewhere by a note that is left
    next to the bundle, where that can be written.

    Args:
        place: the device's folder, its configuration (`.toml`), or its bundle.
        folder: where a bundle is installed; None: beside it. It must survive for as long as the
            device does: without its state it could answer one round twice, and draws its kept
            responses again.

    Raises:
        ConfigError: there is nothing, or nothing usable, the folder belongs to another device, the
            device has another folder next to the bundle or the named one, or the folder that it had
            is not where it was.
        DocumentError: a bundle's roster is not under its root key.
    """
    if place.is_dir():
        return load_config(place / CONFIG, ClientConfig)
    if place.suffix == ".toml":
        return load_config(place, ClientConfig)
    home = folder or place.with_name(place.stem + SUFFIX)
    with _alone_with(place):
        bundle = read_bundle(place)
        note = _note_of(bundle, place.parent)
        if not (home / CONFIG).exists():
            home = _existing_home(bundle, place, folder, _read_note(note)) or home
        if not (home / CONFIG).exists():
            config = install(bundle, home)[0]
        else:
            config = load_config(home / CONFIG, ClientConfig)
            if _differs(bundle, config, home):
                with suppress(
                    StaleRosterError
                ):  # an old bundle of a device that has been renewed since
                    renew(bundle, home)
        _write_note(note, home)
    return config


def _existing_home(
    bundle: Bundle, place: Path, folder: Path | None, noted: Path | None
) -> Path | None:
    """The folder that the device already has; None if it never had one.

    Raises `ConfigError` for one that is gone.
    """
    places = (place.parent,) if noted is None else (place.parent, noted.parent)
    homes = folders_of(bundle, *places)
    if folder is None and len(homes) == 1:
        return homes[0]
    check_only(bundle, folder or place.with_name(place.stem + SUFFIX), *places)
    if noted is not None:
        raise ConfigError(
            f"the device of {place} was installed in {noted}, and that folder does not exist any "
            "more. If it was moved, name its present place (folder=), or load the folder "
            "instead of the bundle. A newly installed device would not know what this one has "
            "answered, which would break the promise to its user: if the folder is lost, ask "
            "the deployment's owner for a bundle under another name"
        )
    return None


def _note_of(bundle: Bundle, folder: Path) -> Path:
    """The file that records this device's folder, under a name that renewals do not change."""
    return folder / f".{hashlib.sha256(bundle.identity.encode()).hexdigest()[:32]}{NOTE}"


def _read_note(note: Path) -> Path | None:
    try:
        data = read_file(note, "note", _MOST_NOTE)
    except ConfigError:  # there is none
        return None
    at = Path(os.fsdecode(data.removesuffix(b"\n")))
    return at if at.is_absolute() and b"\0" not in data else None


def _write_note(note: Path, home: Path) -> None:
    at = home.resolve()
    if _read_note(note) != at:
        with suppress(OSError):  # a bundle that came with the app: its folder may be read-only
            write_atomic(note, os.fsencode(f"{at}\n"))


def _differs(bundle: Bundle, config: ClientConfig, home: Path) -> bool:
    """True if the contents of bundle and folder differ.

    Raises `ConfigError` if it is another device's.
    """
    identity = read_file(config.keys / "identity.pem", "identity key")
    if (config.root_key, identity) != (bundle.root_key, bundle.identity.encode()):
        raise ConfigError(
            f"{home} belongs to another device or deployment than the bundle of {bundle.name!r}; "
            "name another folder"
        )
    return any(
        read_file(home / name, "device's file") != data
        for name, data in bundle.expiring_files().items()
    )


@contextmanager
def _alone_with(file: Path) -> Iterator[None]:
    """Context in which one process at a time installs bundles of a folder.

    The kernel releases the lock with the process.

    The folder is locked, not the bundle: two bundles may be of one device.
    """
    try:
        file.stat()
        descriptor = os.open(file.parent, os.O_RDONLY)
    except OSError as error:
        raise ConfigError(
            f"there is no device at {file} ({error.strerror}): name the device's folder, or the "
            "bundle that the deployment's owner made with `shuffledp keys enrol`"
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
