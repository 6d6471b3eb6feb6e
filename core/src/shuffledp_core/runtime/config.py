"""Configuration files: one TOML file per process; unknown keys are refused.

Secrets come from the environment.

Relative paths are relative to the file that names them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from shuffledp_core.errors import ConfigError
from shuffledp_core.runtime.files import read_file

BROKER_PASSWORD = "SHUFFLEDP_BROKER_PASSWORD"  # noqa: S105 - the name of the variable, not a password
"""Environment variable with the MQTT password, when the broker wants one."""


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of a config file: strict and immutable."""


class BrokerConfig(Section, frozen=True, kw_only=True):
    """An MQTT 3.1.1 broker.

    It is untrusted: everything it sends is verified, and it can only delay.
    """

    host: str
    port: int = 1883
    username: str | None = None
    tls: bool = False


class Limits(Section, frozen=True, kw_only=True):
    """Limits on a caller's use of a service, so that no caller can exhaust it.

    docs/operations.md, "Limits".

    Connections: at most `connections` stay open; more are closed again, first those of the address
    that has most, and never those on which a party of the roster or an operator has called. Each
    must show its certificate within `handshake_seconds`, may be without a call for `idle_seconds`,
    and carries at most `streams` calls at a time.

    Calls: their first message must have arrived after `request_seconds`. At most `silent_calls` are
    waited for at a time, all devices counted together and every other party by itself; a further
    one evicts the oldest of the connection and address that have most. Each party, and all
    operators together, may have `party_calls` calls in progress.

    Overload: calls wait in gRPC until the program takes them. One that has waited `queue_seconds`
    is refused. If more than `queued_calls` wait, some of the new calls are refused, and all at
    twice that number.

    Answers to devices: each must be taken in within `answer_seconds`, a stream's messages one by
    one. At most `unread_answers` may wait for that; with more, one of them is evicted. In both
    cases its connection is closed.
    """

    connections: int = 2000
    handshake_seconds: float = 10.0
    idle_seconds: float = 300.0
    streams: int = 128
    silent_calls: int = 256
    request_seconds: float = 10.0
    party_calls: int = 512
    queued_calls: int = 512
    queue_seconds: int = 4
    unread_answers: int = 512
    answer_seconds: float = 10.0

    @property
    def most_accepted(self) -> int:
        """Largest number of connections that are accepted before the surplus is closed again."""
        # Room for a burst between two looks at the connections; beyond it gRPC refuses everyone
        # alike, parties too.
        return 4 * self.connections

    def __post_init__(self) -> None:
        counts = ("connections", "streams", "silent_calls", "party_calls", "unread_answers")
        for name in (*counts, "queued_calls", "queue_seconds"):
            if not 1 <= getattr(self, name) <= 1_000_000:
                raise ValueError(
                    f"limits.{name} must be from 1 to 1000000, not {getattr(self, name)}"
                )
        for name in ("handshake_seconds", "idle_seconds", "request_seconds", "answer_seconds"):
            # Written so that NaN is refused, which compares as neither too small nor too large.
            if not 0.001 <= getattr(self, name) <= 86_400:
                raise ValueError(
                    f"limits.{name} must be from 0.001 to 86400, not {getattr(self, name)}"
                )


class ServiceConfig(Section, frozen=True, kw_only=True):
    """Configuration common to all service processes.

    `name` is the party's name in the roster, `root_key` the pinned hex key that signed the roster,
    `listen` is host:port, `state` the folder for everything that must survive a crash. `metrics` is
    the host:port of the page for Prometheus, plain HTTP, None: no page. `limits` bounds what
    callers may take.
    """

    name: str
    keys: Path
    roster: Path
    root_key: str
    listen: str
    state: Path
    log_level: str = "info"
    metrics: str | None = None
    limits: Limits = Limits()


def broker_password() -> str | None:
    """The broker's password from the environment, if there is one."""
    return os.environ.get(BROKER_PASSWORD)


SectionT = TypeVar("SectionT", bound=Section)


def load_config(path: Path, model: type[SectionT]) -> SectionT:
    """Read the configuration in a TOML file.

    `ConfigError` names the file, the key and what is allowed.
    """
    return parse_config(read_file(path, "configuration"), model, str(path), path.resolve().parent)


def parse_config(data: bytes, model: type[SectionT], source: str, base: Path) -> SectionT:
    """Parse a configuration in TOML, named `source` in errors; relative paths begin at `base`.

    `ConfigError` as `load_config`.
    """

    def decode(kind: type, value: Any) -> Any:
        # No file name holds a NUL; passed on, it would be a bare `ValueError` wherever the path is
        # used first.
        if kind is Path and isinstance(value, str) and "\0" not in value:
            return base / value
        raise ConfigError(f"{source}: {value!r} is not a {kind.__name__}")

    try:
        return msgspec.toml.decode(data, type=model, dec_hook=decode)
    except RecursionError as error:
        raise ConfigError(
            f"{source}: values are nested too deeply; see deploy/config for samples"
        ) from error
    except (msgspec.DecodeError, ValueError, TypeError, OverflowError) as error:
        raise ConfigError(f"{source}: {error}; deploy/config has a sample of every key") from error
