"""Public-key encryption suites that a round can choose.

Each seals one layer to one hop's round key.

A suite is anonymous public-key authenticated encryption: what it seals opens only under the round
key, is not malleable, and hides the sender. `info` binds a layer to round and position. None of the
schemes is our own: the sealed box is libsodium's (through PyNaCl), the HPKE suites are RFC 9180
(through cryptography). One implementation is our own: the optional wheel, if installed, computes
batches of sealed boxes, with the same bytes (docs/adr/0012-accelerator.md). docs/protocol.md,
section "Suites".
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hpke
from cryptography.hazmat.primitives.asymmetric import mlkem, x25519

from shuffledp_core.errors import BadBatchError, ConfigError, RoundKeyError, UsageError
from shuffledp_core.onion.acceleration import engine, recipient
from shuffledp_core.sampling.randomness import RandomBytes, system_random
from shuffledp_core.vocabulary import Mix

Seal = Callable[[bytes], bytes]
"""A function that seals one plaintext to one recipient."""

Open = Callable[[bytes], bytes]
"""A function that opens one layer; raises `BadBatchError` for anything that the recipient's key
does not open.
"""


@dataclass(frozen=True)
class OpenedLayers:
    """Packed plaintexts of the layers that decrypted, in order, and the indices of the others."""

    data: bytes
    closed: tuple[int, ...]


class Suite(Protocol):
    """A public-key encryption scheme for layers.

    Keys travel as raw bytes; lengths are constants of the suite.
    """

    @property
    def name(self) -> str:
        """The suite's name in manifests."""

    @property
    def overhead(self) -> int:
        """Bytes that a layer adds to its plaintext."""

    @property
    def public_key_bytes(self) -> int:
        """Length of a raw public key."""

    @property
    def private_key_bytes(self) -> int:
        """Length of a raw private key."""

    @property
    def reproducible(self) -> bool:
        """True if a seal is a function of its plaintext and the bytes of `source`."""

    def generate(self) -> tuple[bytes, bytes]:
        """A fresh (private key, public key) from the operating system's randomness."""

    def sealer(self, public_key: bytes, info: bytes, source: RandomBytes = system_random) -> Seal:
        """A function that seals to `public_key` under the binding `info`.

        Every seal has a fresh ephemeral key: from `source` where the suite is reproducible, else
        from its library.
        """

    def opener(self, private_key: bytes, info: bytes) -> Open:
        """A function that opens what was sealed to this key under the same `info`."""

    def seal_batch(
        self,
        public_key: bytes,
        info: bytes,
        plaintexts: Sequence[bytes],
        sources: Sequence[RandomBytes],
    ) -> list[bytes]:
        """Vectorised `sealer`: seal plaintexts of one length, each with its own source."""

    def open_batch(
        self, private_key: bytes, info: bytes, packed: bytes, width: int
    ) -> OpenedLayers:
        """Vectorised `opener`: open each layer of `width` bytes.

        `packed` holds a whole number of them.
        """


@dataclass(frozen=True)
class SealedBox:
    """libsodium sealed boxes: X25519, XSalsa20-Poly1305. No `info`: the keys are fresh per round.

    PyNaCl is imported where it seals, so that documents can be read and checked where it is not
    installed.
    """

    name: str = "sealed-box"
    overhead: int = 32 + 16  # ephemeral public key, Poly1305 tag
    public_key_bytes: int = 32
    private_key_bytes: int = 32
    reproducible: bool = True

    def generate(self) -> tuple[bytes, bytes]:
        """See `Suite.generate`."""
        from nacl import bindings

        public, private = bindings.crypto_box_keypair()
        return private, public

    def sealer(
        self,
        public_key: bytes,
        info: bytes,  # noqa: ARG002 - the key itself is bound to the round
        source: RandomBytes = system_random,
    ) -> Seal:
        """See `Suite.sealer`.

        Does the same as libsodium's documented `crypto_box_seal`, but with a given ephemeral key.

        The result is the ephemeral public key, followed by the box of the plaintext under the nonce
        BLAKE2b(ephemeral public key || public key), 24 bytes.
        """
        from nacl import bindings
        from nacl.exceptions import CryptoError

        def seal(plaintext: bytes) -> bytes:
            ephemeral = source(bindings.crypto_box_SECRETKEYBYTES)
            shown = bindings.crypto_scalarmult_base(ephemeral)
            # Derived, as in `crypto_box_seal`: the ephemeral key seals only this one box, so its
            # nonce never repeats.
            nonce = hashlib.blake2b(
                shown + public_key, digest_size=bindings.crypto_box_NONCEBYTES
            ).digest()
            try:
                return shown + bindings.crypto_box_easy(plaintext, nonce, public_key, ephemeral)
            except CryptoError as error:
                raise RoundKeyError(_LOW_ORDER) from error

        return seal

    def opener(self, private_key: bytes, info: bytes) -> Open:  # noqa: ARG002
        """See `Suite.opener`."""
        from nacl import bindings
        from nacl.exceptions import CryptoError

        # Once for all layers that this opens: each nonce needs it, and a multiplication for every
        # onion would add up.
        public_key = bindings.crypto_scalarmult_base(private_key)

        def open_(layer: bytes) -> bytes:
            try:
                return bindings.crypto_box_seal_open(layer, public_key, private_key)
            # One sentence for every cause: a sender that learned which check failed would have an
            # oracle.
            except (CryptoError, TypeError, ValueError) as error:
                raise BadBatchError(DOES_NOT_OPEN) from error

        return open_

    def seal_batch(
        self,
        public_key: bytes,
        info: bytes,
        plaintexts: Sequence[bytes],
        sources: Sequence[RandomBytes],
    ) -> list[bytes]:
        """See `Suite.seal_batch`.

        Through the accelerator where there is one and its lanes are filled.
        """
        if len(sources) != len(plaintexts) or len({len(plaintext) for plaintext in plaintexts}) > 1:
            raise ValueError(
                "the plaintexts of a batch must have the same length, and each needs a source "
                "of randomness"
            )
        fast = engine()
        if fast is None or len(plaintexts) < fast.lanes:
            turn = iter(sources)

            def next_source(size: int) -> bytes:  # each seal draws once
                return next(turn)(size)

            seal = self.sealer(public_key, info, next_source)
            return [seal(plaintext) for plaintext in plaintexts]
        # One read for the seals that follow each other from one source, as those of one device do.
        runs = [(source, len(list(run))) for source, run in groupby(sources)]
        ephemerals = b"".join([source(32 * count) for source, count in runs])
        width = len(plaintexts[0])
        to = recipient(public_key)
        try:
            sealed = fast.seal_batch(to, ephemerals, b"".join(plaintexts), width)
        except ValueError as error:
            raise RoundKeyError(_LOW_ORDER) from error
        width += self.overhead
        return [sealed[start : start + width] for start in range(0, len(sealed), width)]

    def open_batch(
        self, private_key: bytes, info: bytes, packed: bytes, width: int
    ) -> OpenedLayers:
        """See `Suite.open_batch`.

        Through the accelerator where there is one and its lanes are filled.
        """
        fast = engine()
        if fast is None or width < self.overhead or len(packed) < fast.lanes * width:
            return _open_each(self.opener(private_key, info), packed, width)
        data, closed = fast.open_batch(private_key, packed, width)
        return OpenedLayers(data, tuple(closed))


@dataclass(frozen=True)
class Hpke:
    """RFC 9180 base mode, single shot, HKDF-SHA256 and ChaCha20-Poly1305.

    `info` enters the key schedule.
    """

    name: str = "hpke"
    overhead: int = 32 + 16  # encapsulated key, Poly1305 tag
    public_key_bytes: int = 32
    private_key_bytes: int = 32
    reproducible: bool = False
    hybrid: bool = False

    def generate(self) -> tuple[bytes, bytes]:
        """See `Suite.generate`."""
        classical = x25519.X25519PrivateKey.generate()
        private = classical.private_bytes_raw()
        public = classical.public_key().public_bytes_raw()
        if not self.hybrid:
            return private, public
        lattice = mlkem.MLKEM768PrivateKey.generate()
        # ML-KEM first in both halves: the last 32 bytes are the classical key in either suite.
        return (
            lattice.private_bytes_raw() + private,
            lattice.public_key().public_bytes_raw() + public,
        )

    def sealer(self, public_key: bytes, info: bytes, source: RandomBytes = system_random) -> Seal:  # noqa: ARG002
        """See `Suite.sealer`. `cryptography` draws the ephemeral key itself and takes none."""
        classical = x25519.X25519PublicKey.from_public_bytes(public_key[-32:])
        key: x25519.X25519PublicKey | hpke.MLKEM768X25519PublicKey = classical
        if self.hybrid:
            key = hpke.MLKEM768X25519PublicKey(
                mlkem.MLKEM768PublicKey.from_public_bytes(public_key[:-32]), classical
            )
        suite = self._suite()
        # A fresh encapsulation for each plaintext: one context for all would mark a user's onions
        # by its key.
        return lambda plaintext: suite.encrypt(plaintext, key, info=info)

    def opener(self, private_key: bytes, info: bytes) -> Open:
        """See `Suite.opener`."""
        classical = x25519.X25519PrivateKey.from_private_bytes(private_key[-32:])
        key: x25519.X25519PrivateKey | hpke.MLKEM768X25519PrivateKey = classical
        if self.hybrid:
            key = hpke.MLKEM768X25519PrivateKey(
                mlkem.MLKEM768PrivateKey.from_seed_bytes(private_key[:-32]), classical
            )
        suite = self._suite()

        def open_(layer: bytes) -> bytes:
            try:
                return suite.decrypt(layer, key, info=info)
            except (InvalidTag, TypeError, ValueError) as error:
                raise BadBatchError(DOES_NOT_OPEN) from error

        return open_

    def seal_batch(
        self,
        public_key: bytes,
        info: bytes,
        plaintexts: Sequence[bytes],
        sources: Sequence[RandomBytes],  # noqa: ARG002
    ) -> list[bytes]:
        """See `Suite.seal_batch`: one by one."""
        seal = self.sealer(public_key, info)
        return [seal(plaintext) for plaintext in plaintexts]

    def open_batch(
        self, private_key: bytes, info: bytes, packed: bytes, width: int
    ) -> OpenedLayers:
        """See `Suite.open_batch`: one by one."""
        return _open_each(self.opener(private_key, info), packed, width)

    def _suite(self) -> hpke.Suite:
        kem = hpke.KEM.MLKEM768_X25519 if self.hybrid else hpke.KEM.X25519
        return hpke.Suite(kem, hpke.KDF.HKDF_SHA256, hpke.AEAD.CHACHA20_POLY1305)


def _open_each(open_: Open, packed: bytes, width: int) -> OpenedLayers:
    opened: list[bytes] = []
    closed: list[int] = []
    for start in range(0, len(packed), width):
        try:
            opened.append(open_(packed[start : start + width]))
        except BadBatchError:
            closed.append(start // width)
    return OpenedLayers(b"".join(opened), tuple(closed))


_LOW_ORDER: Final = (
    "a round key is a point of low order, for which anybody could open what is sealed: take no part"
)

DOES_NOT_OPEN: Final = (
    "a layer does not open under this round's key: it is damaged, forged or meant for another round"
)

_HYBRID: Final = Hpke(
    name="hpke-mlkem768-x25519",
    overhead=1088 + 32 + 16,  # ML-KEM-768 ciphertext, X25519 key, Poly1305 tag
    public_key_bytes=1184 + 32,
    private_key_bytes=64 + 32,  # ML-KEM's seed, X25519 key
    hybrid=True,
)
_ALL: Final[tuple[Suite, ...]] = (SealedBox(), Hpke(), _HYBRID)

POST_QUANTUM: Final = frozenset({_HYBRID.name})
"""Suites that keep traffic recorded today unlinkable for an adversary with a quantum computer
later.
"""

SUITES: Final = {suite.name: suite for suite in _ALL}
"""Every suite by the name the manifest uses. `hpke-mlkem768-x25519` also resists a quantum
adversary.
"""


def suite_named(name: str) -> Suite:
    """The suite of that name; `ConfigError` lists the known ones otherwise."""
    if name not in SUITES:
        raise ConfigError(f"unknown suite {name!r}; choose one of {', '.join(SUITES)}")
    return SUITES[name]


def check_suite(name: str, mix: object) -> None:
    """Check that a suite supports a kind of mixing, which is a `Mix` or unset.

    Raises:
        ConfigError: there is no such suite.
        UsageError: suite and mixing cannot be combined.
    """
    suite_named(name)
    if mix == Mix.VERIFIED and name in POST_QUANTUM:
        raise UsageError(
            f"verified mixing cannot use the suite {name!r}: its claims and board stay public, "
            f"and anyone who can compute discrete logarithms later could link them; use plain "
            f"mixing, or another suite"
        )
