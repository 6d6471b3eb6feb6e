"""A device's folder from wherever the app has it: the folder itself, its configuration, or the bundle it came in."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from shuffledp_client.bundle import CONFIG, Bundle, check_only, folders_of, install, read_bundle, renew
from shuffledp_client.config import ClientConfig
from shuffledp_core.config import load_config
from shuffledp_core.errors import ConfigError, StaleRosterError
from shuffledp_core.keys import read_file

SUFFIX: Final = ".device"
"""A bundle `alice.bundle` becomes the folder `alice.device` beside it, unless the app names another."""


def home_of(place: Path, folder: Path | None = None) -> ClientConfig:
    """The configuration of the device at `place`: its folder, its client.toml, or its bundle.

    A bundle is installed the first time. Later, a newer bundle of the same device brings roster and TLS pair; identity,
    policy and state stay as they are. It may have another file name: the device's folder beside it is known by its key.

    Args:
        place: the device's folder, its configuration (`.toml`), or its bundle.
        folder: where a bundle is installed; None: beside it. It must survive for as long as the device does: without
            its state it could answer one round twice, and draws its kept responses again.

    Raises:
        ConfigError: there is nothing, or nothing usable, the folder belongs to another device, or the device has
            another folder beside the bundle or the named one.
        DocumentError: a bundle's roster is not under its root key.
    """
    if place.is_dir():
        return load_config(place / CONFIG, ClientConfig)
    if place.suffix == ".toml":
        return load_config(place, ClientConfig)
    home = folder or place.with_name(place.stem + SUFFIX)
    with _alone_with(place):
        bundle = read_bundle(place)
        if not (home / CONFIG).exists():
            known = folders_of(bundle, place.parent)
            if folder is None and len(known) == 1:
                home = known[0]
            else:
                check_only(bundle, home, place.parent)
        if not (home / CONFIG).exists():
            return install(bundle, home)[0]
        config = load_config(home / CONFIG, ClientConfig)
        if _differs(bundle, config, home):
            with suppress(StaleRosterError):  # an old bundle of a device that has been renewed since
                renew(bundle, home)
    return config


def _differs(bundle: Bundle, config: ClientConfig, home: Path) -> bool:
    """Whether a bundle has something else to offer than the folder. Raises `ConfigError` if it is another device's."""
    identity = read_file(config.keys / "identity.pem", "identity key")
    if (config.root_key, identity) != (bundle.root_key, bundle.identity.encode()):
        raise ConfigError(
            f"{home} belongs to another device or deployment than the bundle of {bundle.name!r}; name another folder"
        )
    return any(read_file(home / name, "device's file") != data for name, data in bundle.renewed().items())


@contextmanager
def _alone_with(file: Path) -> Iterator[None]:
    """One process at a time installs bundles of a folder; the kernel releases the lock with the process.

    The folder is locked, not the bundle: two bundles may be of one device.
    """
    try:
        file.stat()
        descriptor = os.open(file.parent, os.O_RDONLY)
    except OSError as error:
        raise ConfigError(
            f"there is no device at {file} ({error.strerror}): name its folder, or the bundle that the deployment's "
            "owner made with `shuffledp keys enrol`"
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
