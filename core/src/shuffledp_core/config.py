"""One TOML file per process; unknown keys are refused; secrets come from the environment.

Relative paths are relative to the file that names them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from shuffledp_core.errors import ConfigError
from shuffledp_core.keys import read_file

BROKER_PASSWORD = "SHUFFLEDP_BROKER_PASSWORD"  # noqa: S105 - the name of the variable, not a password
"""Environment variable with the MQTT password, when the broker wants one."""


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of a config file: strict and immutable."""


class BrokerConfig(Section, frozen=True, kw_only=True):
    """An MQTT 3.1.1 broker. It is untrusted: whatever it says is verified, and it can only delay."""

    host: str
    port: int = 1883
    username: str | None = None
    tls: bool = False


class ServiceConfig(Section, frozen=True, kw_only=True):
    """What every service process needs.

    `name` is the party's name in the roster, `root_key` the pinned hex key that signed the roster, `listen` is
    host:port, `state` the folder for everything that must survive a crash. `metrics` is the host:port of the page
    for Prometheus, plain HTTP, None: no page.
    """

    name: str
    keys: Path
    roster: Path
    root_key: str
    listen: str
    state: Path
    log_level: str = "info"
    metrics: str | None = None


def broker_password() -> str | None:
    """The broker's password from the environment, if there is one."""
    return os.environ.get(BROKER_PASSWORD)


SectionT = TypeVar("SectionT", bound=Section)


def load_config(path: Path, model: type[SectionT]) -> SectionT:
    """The configuration in a TOML file. `ConfigError` names the file, the key and what is allowed."""
    base = path.resolve().parent

    def decode(wanted: type, value: Any) -> Any:
        if wanted is Path and isinstance(value, str):
            return base / value
        raise ConfigError(f"{path}: {value!r} is not a {wanted.__name__}")

    try:
        return msgspec.toml.decode(read_file(path, "configuration"), type=model, dec_hook=decode)
    except (msgspec.DecodeError, ValueError) as error:
        raise ConfigError(f"{path}: {error}; see deploy/config for a sample of every key") from error
