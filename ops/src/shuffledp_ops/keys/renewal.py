"""Renewal of TLS keys and certificates or of the roster, as one step: `shuffledp keys renew`.

The folder is copied, the copy is renewed, and one system call exchanges the two: after a crash the
folder is the old one or the new one. What a crash leaves beside it, `.<folder>.renewal`, is removed
by the next renewal.
"""

from __future__ import annotations

import ctypes
import datetime as dt
import fcntl
import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from shuffledp_core.documents.models import EndedLog, LogTerms, Roster
from shuffledp_core.errors import ConfigError, UsageError
from shuffledp_core.runtime.files import read_file, sync
from shuffledp_core.runtime.keys import ROOT, load_identity
from shuffledp_core.transparency.entries import log_key_of
from shuffledp_core.transparency.notes import (
    MAX_NOTE_BYTES,
    check_note,
    parse_checkpoint,
    parse_note,
)
from shuffledp_core.transport.tls import CLIENT
from shuffledp_core.transport.tls_files import certificates
from shuffledp_ops.keys.authority import SOON_DAYS, Authority, pem
from shuffledp_ops.keys.pki import Deployment, next_roster, open_deployment, tls_names

_HERE: Final = -100
"""AT_FDCWD of Linux: paths are relative to the working directory."""

_EXCHANGE: Final = 2
"""RENAME_EXCHANGE of Linux."""


ROSTER_ALONE: Final = (
    "--roster makes a new roster and nothing else; leave out --party and --authority"
)


@dataclass(frozen=True)
class RenewalOutcome:
    """Outcome of a renewal. `bridged`: holders of the old roster accept the new certificates.

    `serial` is of the roster that is in the folder now.
    """

    names: tuple[str, ...]
    authority_ends: dt.datetime
    new_authority: bool
    bridged: bool
    serial: int


def renew(
    folder: Path,
    names: Collection[str] = (),
    *,
    new_authority: bool = False,
    new_roster: bool = False,
    end_log: Path | None = None,
    now: dt.datetime | None = None,
) -> RenewalOutcome:
    """Renew the TLS keys and certificates of the named parties, or of all.

    A folder of a party that is not here is made: its files are then carried to where the party
    runs.

    Args:
        folder: made by `create_deployment`; it must be on Linux, the caller's own, and not
            a mount point.
        names: parties, "client", "operator", "viewer", "gateway".
        new_authority: also a new TLS authority and the next roster; then for everyone.
        new_roster: the next roster, the same but for its serial and times, and nothing else.
        end_log: with `new_roster`, the last checkpoint of the public log, which the roster then
            ends.
        now: when the certificates begin, UTC; None: now.

    Raises:
        UsageError: a name that the deployment does not have, or names together with a new authority
            or roster.
        ConfigError: no deployment is there, the authority's or root's key is kept elsewhere, the
            authority ends too soon, or the folder cannot be exchanged. Nothing has changed.
    """
    now = now or dt.datetime.now(dt.UTC)
    folder = folder.resolve()
    deployment = open_deployment(folder)
    if new_roster:
        if names or new_authority:
            raise UsageError(ROSTER_ALONE)
        log = deployment.roster.log if end_log is None else _ended_log(deployment.roster, end_log)
        return _renew_roster(deployment, now, log)
    if end_log is not None:
        raise UsageError("--end-log makes a new roster: add --roster")
    # Everything happens on a copy that is exchanged at the end: half-renewed keys would stop the
    # deployment.
    hosts = tls_names(deployment.roster)
    chosen = _names_to_renew(names, list(hosts), new_authority=new_authority)
    with _replacing(folder) as copy:
        old = Authority.load(folder / "root")
        authority = (
            _create_successor(deployment, copy, old, now) if new_authority else _lasting(old, now)
        )
        for name in chosen:
            (copy / name / "tls-key.pem").unlink(missing_ok=True)
            authority.issue(copy / name, name, hosts[name], now)
        if CLIENT in chosen:
            _hand_to_users(copy)
    serial = deployment.roster.serial + int(new_authority)
    bridged = not new_authority or authority.bridge is not None
    return RenewalOutcome(chosen, authority.ends, new_authority, bridged, serial)


def _ended_log(roster: Roster, checkpoint: Path) -> LogTerms:
    """The roster's terms after the current log has ended with this checkpoint."""
    terms = roster.log_terms
    if terms is None:
        raise UsageError(
            f"the roster of {roster.deployment!r} names no witnesses, so devices do not use a "
            "public log and none can be ended: leave out --end-log"
        )
    data = read_file(checkpoint, "last checkpoint of the public log", MAX_NOTE_BYTES)
    last = parse_checkpoint(check_note(parse_note(data), log_key_of(roster)))
    signer = roster.accountant.identity_key  # later rosters may have another one
    ended = EndedLog(size=last.size, root=last.root.hex(), public_key=signer)
    return msgspec.structs.replace(terms, ended=(*terms.ended, ended))


def _renew_roster(
    deployment: Deployment, now: dt.datetime, log: LogTerms | msgspec.UnsetType
) -> RenewalOutcome:
    with _replacing(deployment.folder) as copy:
        roster = _sign_next(deployment, copy, now, log=log)
    authorities = certificates(roster.tls_authority.encode(), "the roster's authority")
    last = max(certificate.not_valid_after_utc for certificate in authorities)
    return RenewalOutcome((), last, new_authority=False, bridged=True, serial=roster.serial)


def _names_to_renew(
    names: Collection[str], certified: list[str], *, new_authority: bool
) -> tuple[str, ...]:
    if names and new_authority:
        raise UsageError("--authority renews the certificates of all parties; leave out --party")
    for name in names:
        if name not in certified:
            raise UsageError(
                f"the deployment has no party {name!r}; choose from {', '.join(certified)}"
            )
    return tuple(name for name in certified if not names or name in names)


def _lasting(authority: Authority, now: dt.datetime) -> Authority:
    if authority.ends <= now + dt.timedelta(days=SOON_DAYS):
        raise ConfigError(
            f"the TLS authority ends on {authority.ends:%Y-%m-%d}, less than {SOON_DAYS} days "
            "from now, and no certificate that it issues is valid for longer; make a new one "
            "with --authority"
        )
    return authority


def _create_successor(
    deployment: Deployment, copy: Path, old: Authority, now: dt.datetime
) -> Authority:
    """Create a new authority in the copy, and a roster that names it and the old one.

    The old one stays while it is valid.
    """
    new = old.successor(deployment.roster.deployment, now)
    named = [new.certificate, *([old.certificate] if old.ends > now else [])]
    _sign_next(deployment, copy, now, tls_authority=b"".join(map(pem, named)).decode())
    (copy / "root" / "ca-key.pem").unlink()
    new.save(copy / "root")
    return new


def _sign_next(deployment: Deployment, copy: Path, now: dt.datetime, **changes: Any) -> Roster:
    """Write the next roster, signed by the root key, into the copy."""
    key = deployment.folder / "root" / "identity.pem"
    if not key.exists():
        raise ConfigError(
            f"a new roster must be signed by the root key, and {key} does not exist; run this on "
            "the machine that has it"
        )
    root = load_identity(key.parent, ROOT)
    if root.public_key.hex() != deployment.root_key:
        raise ConfigError(
            f"{key} is not the root key that devices pin ({deployment.folder / 'root.pub'})"
        )
    roster = next_roster(deployment.roster, now, **changes)
    (copy / "roster.json").write_bytes(root.sign(roster).to_bytes())
    return roster


def _hand_to_users(folder: Path) -> None:
    """Copy the TLS files that all devices share into the users' folders."""
    for user in folder.glob("clients/*/"):
        for name in ("tls.pem", "tls-key.pem"):
            (user / name).write_bytes((folder / CLIENT / name).read_bytes())


@contextmanager
def _replacing(folder: Path) -> Iterator[Path]:
    """Context with a copy of the folder, which replaces the folder if the block succeeds."""
    if folder.stat().st_uid != os.geteuid():
        raise ConfigError(
            f"{folder} belongs to another user, who would lose access to it: run this as its owner"
        )
    copy = folder.with_name(f".{folder.name}.renewal")
    try:
        # The parent: the folder itself changes its name below, and a lock on it would go along.
        with alone(folder.parent):
            shutil.rmtree(copy, ignore_errors=True)
            try:
                copy.mkdir(mode=0o700)  # before there is anything in it
                shutil.copytree(folder, copy, symlinks=True, dirs_exist_ok=True)
                yield copy
                _sync(
                    copy
                    # before the exchange: after a power cut the folder's name must not lead to
                    # empty files
                )
                _exchange(copy, folder)
                sync(folder.parent)
            finally:
                shutil.rmtree(copy, ignore_errors=True)
    except (OSError, shutil.Error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(
            f"cannot replace {folder} ({reason}); nothing was changed: the folder and its parent "
            "must be writable, on a local disk, and the folder must not be a mount point"
        ) from error


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Context that locks a folder against other changes of keys.

    The kernel releases the lock with the process.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConfigError(
                f"another renewal is running in {folder}; wait until it ends"
            ) from error
        yield
    finally:
        os.close(descriptor)


def _exchange(first: Path, second: Path) -> None:
    """Exchange the names of two folders atomically.

    Raises `OSError` if the system cannot do it.
    """
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        raise OSError(
            0, "this system lacks the call renameat2 of Linux, which exchanges two folders"
        )
    if renameat2(_HERE, os.fsencode(first), _HERE, os.fsencode(second), _EXCHANGE) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _sync(folder: Path) -> None:
    """Flush everything in a folder to the disk."""
    for where, _, files in os.walk(folder):
        for file in files:
            if not (Path(where) / file).is_symlink():
                sync(Path(where) / file)
        sync(Path(where))
