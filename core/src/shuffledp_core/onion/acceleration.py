"""The optional wheel `shuffledp-accel`: batches of sealed boxes, vectorised on one core.

Without the wheel, on a processor that it has no fast path for, or when it fails its test, there is
no engine, and libsodium does the same work one box at a time, byte for byte.
docs/adr/0012-accelerator.md.
"""

from __future__ import annotations

import os
import warnings
from functools import cache, lru_cache
from importlib import import_module
from typing import Any, Final, Protocol

from shuffledp_core.errors import ConfigError
from shuffledp_core.sampling.randomness import RandomBytes, system_random

VARIABLE: Final = "SHUFFLEDP_ACCEL"
"""Environment variable: `auto` (the default), `off`, or the name of a code path of the wheel, such
as `avx2`.
"""

_MODULE: Final = "shuffledp_accel"
_KEYS: Final = 64
"""Number of recipients whose tables are cached: the round keys of a few rounds, 61 KB each."""


class Engine(Protocol):
    """Batches of sealed boxes on one code path of the processor. Wrong lengths: `ValueError`."""

    @property
    def path(self) -> str:
        """Name of the processor's code path, such as `avx2`."""

    @property
    def lanes(self) -> int:
        """Number of multiplications at a time; a batch of fewer boxes is not worthwhile."""

    def open_batch(self, secret: bytes, packed: bytes, width: int) -> tuple[bytes, list[int]]:
        """Plaintexts of the packed boxes of `width` bytes that open, and indices of the others."""

    def seal_batch(self, to: Any, ephemerals: bytes, packed: bytes, width: int) -> bytes:
        """Seal packed plaintexts of `width` bytes to `to`, each with its own ephemeral secret."""


class AcceleratorWarning(RuntimeWarning):
    """The accelerator is installed but is not used; the message says why."""


@cache
def engine() -> Engine | None:
    """The engine that this process uses, tested once; None if it uses only libsodium.

    Raises:
        ConfigError: `SHUFFLEDP_ACCEL` names a code path that does not exist, or that fails its
            test.
    """
    choice = os.environ.get(VARIABLE, "auto")
    if choice == "off":
        return None
    try:
        paths = import_module(_MODULE).paths()
    except ImportError as error:
        if choice == "auto":
            return None
        raise ConfigError(
            f"{VARIABLE}={choice}, but shuffledp-accel is not installed: run "
            "`make accel`, or unset the variable"
        ) from error
    if choice != "auto":
        return engine_of(choice)
    for path in paths:
        try:
            return engine_of(path)
        except ConfigError as error:
            warnings.warn(str(error), AcceleratorWarning, stacklevel=2)
    return None


def engine_of(path: str) -> Engine:
    """The engine of this code path, after its test.

    Raises:
        ConfigError: the processor does not have it, or it does not agree with libsodium.
    """
    try:
        engine: Engine = import_module(_MODULE).Engine(path)
    except ValueError as error:
        raise ConfigError(
            f"shuffledp-accel: {error}; set {VARIABLE} to one of them, to auto or to off"
        ) from error
    if not agrees(engine):
        raise ConfigError(
            f"shuffledp-accel: path {path!r} does not agree with libsodium on this machine and is "
            f"not used; report it, and set {VARIABLE}=off until it is fixed"
        )
    return engine


def wheel() -> Any:
    """The wheel itself, untested; None if it is not installed or switched off."""
    if os.environ.get(VARIABLE, "auto") == "off":
        return None
    try:
        return import_module(_MODULE)
    except ImportError:
        return None


@lru_cache(_KEYS)
def recipient(public_key: bytes) -> Any:
    """The wheel's cache of a public key: after some dozen seals, a table of its multiples."""
    return import_module(_MODULE).Recipient(public_key)


def agrees(engine: Engine) -> bool:
    """True if the engine's boxes match libsodium's both ways, and a damaged one does not open.

    It is compared both with the table and with the ladder method.
    """
    from nacl import bindings

    from shuffledp_core.onion.suites import SealedBox

    public, private = bindings.crypto_box_keypair()
    width, texts = (
        65,
        65 + engine.lanes,
    )  # two blocks of a stream; whole groups and a rest, enough for the table
    for count in (engine.lanes + 1, texts):  # by ladder, then by table
        plain = [system_random(width) for _ in range(count)]
        ephemerals = [system_random(32) for _ in range(count)]
        to = import_module(_MODULE).Recipient(public)
        sealed = engine.seal_batch(to, b"".join(ephemerals), b"".join(plain), width)
        pairs = zip(plain, ephemerals, strict=True)
        if sealed != b"".join(
            SealedBox().sealer(public, b"", _constant(ephemeral))(text) for text, ephemeral in pairs
        ):
            return False
    text = system_random(65)
    torn = bytearray(
        b"".join(bindings.crypto_box_seal(text, public) for _ in range(engine.lanes + 1))
    )
    torn[-1] ^= 1
    opened, closed = engine.open_batch(private, bytes(torn), len(text) + 48)
    return opened == text * engine.lanes and closed == [engine.lanes]


def _constant(value: bytes) -> RandomBytes:
    return lambda _: value
