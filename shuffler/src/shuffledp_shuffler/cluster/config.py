"""Configuration of a node that mixes on several machines."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Literal

from shuffledp_core.errors import ConfigError
from shuffledp_core.runtime.addresses import ADDRESS_FORM, is_address
from shuffledp_core.runtime.config import Section

_LEAST_TASK_BYTES = 2**20
_FILES = ("token", "certificate", "key", "authority")


class EngineConfig(Section, frozen=True, kw_only=True):
    """Where a node mixes its batches: `local` in its own processes, or on a `ray` cluster.

    With `ray`, `address` is the head's host:port, `token` the file with the cluster's token,
    `certificate` and `key` this machine's PEM files, and `authority` the PEM file of the authority
    that signs the certificates of the cluster's machines and no others. A task on a worker takes at
    most about `task_memory` bytes. The head or the first worker may be unreachable for
    `wait_seconds`; a cluster that finishes no task within `stall_seconds` is abandoned.
    docs/how-to/several-machines.md.
    """

    kind: Literal["local", "ray"] = "local"
    address: str = ""
    token: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    authority: Path | None = None
    task_memory: int = 2**30
    wait_seconds: float = 60.0
    stall_seconds: float = 900.0

    def __post_init__(self) -> None:
        if self.kind == "ray":
            for name in ("address", *_FILES):
                if not getattr(self, name):
                    raise ValueError(
                        f'engine.{name} is missing; kind = "ray" needs it (docs/operations.md)'
                    )
            if not is_address(self.address):
                raise ValueError(f"engine.address must be {ADDRESS_FORM}, not {self.address!r}")
        elif given := [name for name in ("address", *_FILES) if getattr(self, name)]:
            raise ValueError(
                f"engine.{given[0]} belongs to a Ray cluster, but engine.kind is local: set kind "
                '= "ray", or remove it'
            )
        if not _LEAST_TASK_BYTES <= self.task_memory <= 2**40:
            raise ValueError(
                f"engine.task_memory must be from {_LEAST_TASK_BYTES} to 2^40 bytes, not "
                f"{self.task_memory}"
            )
        for name in ("wait_seconds", "stall_seconds"):
            if not 0 < getattr(self, name) <= 86_400:
                raise ValueError(
                    f"engine.{name} must be above 0 and at most a day, not {getattr(self, name)}"
                )

    def check_files(self) -> None:
        """Raise `ConfigError` if a file for `ray` is unusable, or others can read a secret."""
        for name in _FILES:
            path = getattr(self, name)
            if not path.is_file():
                raise ConfigError(f"engine.{name}: the file {path} does not exist")
        for path in (self.token, self.key):
            if path is not None and path.stat().st_mode & 0o077:
                raise ConfigError(f"{path} is secret but other users may read it: chmod 600 {path}")
        try:
            self.tls()
        except OSError as error:  # of which SSLError is one
            raise ConfigError(
                "engine.certificate, key and authority cannot be used "
                f"({error.strerror or error}): each must be a PEM file, and the key must be the "
                "certificate's"
            ) from error

    def tls(self) -> ssl.SSLContext:
        """TLS credentials with which this machine and the head authenticate each other.

        Raises `OSError` for files that cannot be used.
        """
        context = ssl.create_default_context(cafile=self.authority)
        context.load_cert_chain(str(self.certificate), self.key)
        context.set_alpn_protocols(["h2"])
        return context
