"""TLS key and certificates of a process, read from its key folder and the roster."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import structlog
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from shuffledp_core.errors import ConfigError, ExpiredTLSCertificateError
from shuffledp_core.runtime.clock import Clock, system_clock
from shuffledp_core.runtime.files import read_file


@dataclass(frozen=True)
class TLSFiles:
    """Key, certificate chain and authority of a process, as PEM, with both expiry times (UTC)."""

    folder: Path
    key: bytes = field(repr=False)
    chain: bytes
    authority: bytes
    own_end: dt.datetime
    authority_end: dt.datetime
    """Expiry of the authority that lives longest: a roster may name the next one beside the present
    one.
    """

    @classmethod
    def load(cls, folder: Path, authority: str) -> Self:
        """Read the key folder of a process. `authority` is the roster's `tls_authority`.

        Raises:
            ConfigError: a file cannot be read, or is not a certificate.
        """
        key = read_file(folder / "tls-key.pem", "TLS key")
        chain = read_file(folder / "tls.pem", "TLS certificate")
        certificate = certificates(chain, str(folder / "tls.pem"))[0]
        authorities = certificates(authority.encode(), "the roster's TLS authority")
        last = max(certificate.not_valid_after_utc for certificate in authorities)
        return cls(folder, key, chain, authority.encode(), certificate.not_valid_after_utc, last)

    @property
    def name(self) -> str:
        """The common name in this process's certificate, which identifies it to others.

        Empty where there is none.
        """
        subject = certificates(self.chain, str(self.folder / "tls.pem"))[0].subject
        names = subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
        return str(names[0].value) if names else ""

    def require_valid(self, clock: Clock = system_clock) -> Self:
        """Check that no certificate has expired; return these files.

        Raises `ExpiredTLSCertificateError`, which says how to renew it.
        """
        now = dt.datetime.fromtimestamp(clock() / 1000, dt.UTC)
        if self.authority_end <= now:
            raise ExpiredTLSCertificateError(
                f"the roster's TLS authority ended on {self.authority_end:%Y-%m-%d}: get the "
                "deployment's current roster and TLS files; the owner makes them with `shuffledp "
                "keys renew --authority`"
            )
        if self.own_end <= now:
            raise ExpiredTLSCertificateError(
                f"the TLS certificate {self.folder / 'tls.pem'} ended on {self.own_end:%Y-%m-%d}: "
                "renew it with `shuffledp keys renew` where the authority's key is, and put it in "
                "place"
            )
        return self

    def require_matching(self) -> Self:
        """Check that the key belongs to the certificate; return these files.

        Raises `ConfigError`: one of the two files may have been replaced and the other not yet.
        """
        certificate = certificates(self.chain, str(self.folder / "tls.pem"))[0]
        try:
            public_key = load_pem_private_key(self.key, None).public_key()
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{self.folder / 'tls-key.pem'} is not a PEM private key") from error
        if public_key != certificate.public_key():
            raise ConfigError(
                f"{self.folder / 'tls-key.pem'} is not the key of {self.folder / 'tls.pem'}: "
                "replace both files"
            )
        return self


class TLSFilesWatch:
    """The TLS files of a running server, reloaded when they change on disk.

    Servers check for changes at every new connection; existing connections keep the files with
    which they began. Files that cannot be used (unreadable, expired, or a key without its
    certificate) are logged once and ignored: the server keeps the last usable pair until the next
    change.

    Args:
        files: the pair in use at the start.
        adopt: called with every new usable pair, from the thread of the connection; it may refuse
            the pair by `ConfigError`.
    """

    def __init__(self, files: TLSFiles, adopt: Callable[[TLSFiles], None]) -> None:
        self._folder = files.folder
        self._authority = files.authority.decode()
        self._adopt = adopt
        self._version = self._read_version()
        self._lock = threading.Lock()

    def refresh(self) -> TLSFiles | None:
        """New usable files if the files on disk changed since the last call; otherwise None."""
        with self._lock:
            version = self._read_version()
            if version == self._version:
                return None
            self._version = version
            log = structlog.get_logger()
            try:
                files = TLSFiles.load(self._folder, self._authority)
                files.require_valid().require_matching()
                self._adopt(files)
            except ConfigError as error:
                log.warning("new TLS files are unusable; keeping the old ones", reason=str(error))
                return None
            log.info("TLS files reloaded", expiry=files.own_end.isoformat())
            return files

    def _read_version(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(_stamp(self._folder / name) for name in ("tls.pem", "tls-key.pem"))


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """Inode, change time (ns) and size of a file: at least one differs after a replacement."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def certificates(pem: bytes, what: str) -> list[x509.Certificate]:
    """Parse one or more PEM certificates; the `ConfigError` for invalid ones names `what`."""
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        raise ConfigError(f"{what} is not a PEM certificate") from error
