"""The accelerator: its boxes and points are libsodium's byte for byte on every path, and nobody
needs it."""

import hashlib
import os
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from nacl import bindings
from nacl.exceptions import CryptoError

from shuffledp_core.errors import BadBatchError, ConfigError, RoundKeyError
from shuffledp_core.onion import acceleration, suites
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.onion.layers import (
    open_envelope,
    open_envelopes,
    peel,
    seal_envelope,
    seal_envelopes,
)
from shuffledp_core.onion.seeds import stream
from shuffledp_core.onion.suites import SUITES, SealedBox, suite_named

ROUND = "00" * 16
P = 2**255 - 19
ORDER_8 = 325606250916557431795983626356110631294008115727848805560023387167927233504
LOW_ORDER = [u.to_bytes(32, "little") for u in (0, 1, P - 1, P, P + 1, ORDER_8, ORDER_8 ^ 1 << 255)]

try:
    wheel: Any = import_module("shuffledp_accel")
    PATHS: list[str] = wheel.paths(all=True)
except ImportError:
    wheel, PATHS = None, []

needs_wheel = pytest.mark.skipif(
    wheel is None, reason="shuffledp-accel is not installed: make accel, where cargo is"
)
on_every_path = pytest.mark.parametrize("path", PATHS or [pytest.param("none", marks=needs_wheel)])


def scalarmult(secret: bytes, point: bytes) -> bytes:
    try:
        return bindings.crypto_scalarmult(secret, point)
    except RuntimeError:  # what libsodium refuses, the wheel gives as zeros
        return bytes(32)


def pieces(packed: bytes, width: int) -> list[bytes]:
    return [packed[start : start + width] for start in range(0, len(packed), width)]


@pytest.fixture(params=["off", *PATHS])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every suite by this path alone."""
    made = None if request.param == "off" else acceleration.engine_of(request.param)
    monkeypatch.setattr(suites, "engine", lambda: made)
    return str(request.param)


@on_every_path
def test_points_are_libsodiums_and_openssls(path: str) -> None:
    engine = wheel.Engine(path)
    count = 10_000 if path in wheel.paths() else 200
    points = [bindings.crypto_box_keypair()[0] for _ in range(count // 8)]
    points += [
        os.urandom(32) for _ in range(count)
    ]  # half on the twist, half with the high bit, some of both
    points += [(P + above).to_bytes(32, "little") for above in range(19)] + LOW_ORDER
    points += [(2**255 + 2**255 - 1 - below).to_bytes(32, "little") for below in range(40)]
    secrets = [os.urandom(32) for _ in points]
    given = pieces(engine.x25519_batch(b"".join(secrets), b"".join(points)), 32)
    assert given == [
        scalarmult(secret, point) for secret, point in zip(secrets, points, strict=True)
    ]
    for secret, point, shared in list(zip(secrets, points, given, strict=True))[:200]:
        private = X25519PrivateKey.from_private_bytes(secret)
        assert private.exchange(X25519PublicKey.from_public_bytes(point)) == shared


@on_every_path
def test_boxes_of_all_counts_and_widths_are_libsodiums_both_ways(path: str) -> None:
    engine = wheel.Engine(path)
    public, private = bindings.crypto_box_keypair()
    recipient = wheel.Recipient(public)
    widths = (0, 1, 15, 16, 17, 31, 32, 33, 64, 65, 113, 250, 1136)
    for count in range(18):
        for width in widths if path in wheel.paths() else (widths[count % len(widths)],):
            plain = [os.urandom(width) for _ in range(count)]
            secrets = [os.urandom(32) for _ in range(count)]
            ours = engine.seal_batch(recipient, b"".join(secrets), b"".join(plain), width)
            pairs = zip(plain, secrets, strict=True)
            theirs = [
                SealedBox().sealer(public, b"", lambda _, own=own: own)(text)  # type: ignore[misc]
                for text, own in pairs
            ]
            assert ours == b"".join(theirs)
            assert engine.open_batch(private, ours, width + 48) == (b"".join(plain), [])
    assert recipient.has_table


@on_every_path
def test_a_damaged_box_in_any_lane_stays_closed_and_the_others_open(path: str) -> None:
    engine = wheel.Engine(path)
    public, private = bindings.crypto_box_keypair()
    packed = b"".join(bindings.crypto_box_seal(os.urandom(10), public) for _ in range(17))
    step = 41 if path in wheel.paths() else 409  # prime to the width: all places in a box
    for bit in range(0, 8 * len(packed), step):
        torn = bytearray(packed)
        torn[bit // 8] ^= 1 << bit % 8
        place = bit // 8 // 58
        with pytest.raises(CryptoError):
            bindings.crypto_box_seal_open(pieces(bytes(torn), 58)[place], public, private)
        assert engine.open_batch(private, bytes(torn), 58)[1] == [place]


@on_every_path
def test_a_box_under_a_point_of_low_order_stays_closed_as_with_libsodium(path: str) -> None:
    public, private = bindings.crypto_box_keypair()
    good = bindings.crypto_box_seal(b"text", public)
    torn = b"".join([good, *(point + good[32:] for point in LOW_ORDER)])
    assert wheel.Engine(path).open_batch(private, torn, 52) == (
        b"text",
        list(range(1, 1 + len(LOW_ORDER))),
    )
    for point in LOW_ORDER:
        with pytest.raises(CryptoError):
            bindings.crypto_box_seal_open(point + good[32:], public, private)


@on_every_path
def test_a_box_whose_sender_spelled_its_key_in_a_second_way_opens_as_with_libsodium(
    path: str,
) -> None:
    """Bit 255 set before the nonce is derived from the key: libsodium opens it, so every engine
    must."""
    engine, spelled = wheel.Engine(path), []
    public, private = bindings.crypto_box_keypair()
    for _ in range(17):
        ephemeral = os.urandom(32)
        key = bindings.crypto_scalarmult_base(ephemeral)
        key = key[:31] + bytes([key[31] | 0x80])
        nonce = hashlib.blake2b(key + public, digest_size=24).digest()
        spelled.append(key + bindings.crypto_box_easy(b"text", nonce, public, ephemeral))
        assert bindings.crypto_box_seal_open(spelled[-1], public, private) == b"text"
    assert engine.open_batch(private, b"".join(spelled), 52) == (b"text" * 17, [])
    canonical = b"".join(box[:31] + bytes([box[31] & 0x7F]) + box[32:] for box in spelled)
    assert engine.open_batch(private, canonical, 52) == (b"", list(range(17)))


@needs_wheel
def test_arguments_of_other_lengths_are_refused() -> None:
    engine, recipient = wheel.Engine(PATHS[0]), wheel.Recipient(bytes(31) + b"\1")
    wrongs: list[Callable[[], Any]] = [
        lambda: wheel.Engine("rot13"),
        lambda: wheel.Recipient(bytes(31)),
        lambda: engine.x25519_batch(bytes(32), bytes(64)),
        lambda: engine.x25519_batch(bytes(31), bytes(31)),
        lambda: engine.open_batch(bytes(31), b"", 48),
        lambda: engine.open_batch(bytes(32), bytes(100), 47),
        lambda: engine.open_batch(bytes(32), bytes(100), 0),
        lambda: engine.open_batch(bytes(32), bytes(100), 49),
        lambda: engine.seal_batch(recipient, bytes(32), bytes(9), 10),
        lambda: engine.seal_batch(recipient, bytes(33), bytes(10), 10),
        lambda: engine.seal_batch(recipient, bytes(64), b"", 2**63),
    ]
    for wrong in wrongs:
        with pytest.raises(ValueError, match=r"bytes|secrets|no path"):
            wrong()


@pytest.mark.usefixtures("path")
def test_no_batch_is_sealed_to_a_key_of_low_order() -> None:
    for point in LOW_ORDER:
        with pytest.raises(RoundKeyError, match="low order"):
            SealedBox().seal_batch(point, b"", [b"text"] * 20, [os.urandom] * 20)


@pytest.mark.usefixtures("path")
def test_a_batch_of_users_is_sealed_as_each_would_be_alone() -> None:
    for messages in (1, 3):
        geometry = Geometry(suite="sealed-box", hops=3, messages_per_user=messages, symbol_bytes=1)
        keys = [suite_named("sealed-box").generate() for _ in range(3)]
        publics = [public for _, public in keys]
        users = [[os.urandom(geometry.plain_bytes) for _ in range(messages)] for _ in range(19)]
        seeds = [os.urandom(32) for _ in users]
        together = seal_envelopes(geometry, ROUND, publics, users, [stream(seed) for seed in seeds])
        pairs = zip(users, seeds, strict=True)
        assert together == [
            seal_envelope(geometry, ROUND, publics, own, stream(seed)) for own, seed in pairs
        ]
        packed = b"".join(
            open_envelope(geometry, ROUND, keys[0][0], envelope) for envelope in together
        )
        damaged = [bytes(geometry.envelope_bytes), *together, together[0][:-1] + b"\0"]
        opened = open_envelopes(geometry, ROUND, keys[0][0], damaged)
        assert opened[0] is None
        assert opened[-1] is None or together[0].endswith(b"\0")
        assert b"".join(filter(None, opened[1:-1])) == packed
        for position in (2, 3):
            packed = peel(geometry, ROUND, position, keys[position - 1][0], packed)
        assert packed == b"".join(message for own in users for message in own)


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("suite", SUITES)
def test_every_suite_opens_a_batch_and_names_the_places_of_what_does_not_open(suite: str) -> None:
    chosen = suite_named(suite)
    private, public = chosen.generate()
    plain = [os.urandom(9) for _ in range(20)]
    sealed = chosen.seal_batch(public, b"info", plain, [os.urandom] * 20)
    width = 9 + chosen.overhead
    assert chosen.open_batch(private, b"info", b"".join(sealed), width) == suites.OpenedLayers(
        b"".join(plain), ()
    )
    for place in (0, 7, 8, 19):
        sealed[place] = sealed[place][:-1] + bytes([sealed[place][-1] ^ 1])
    left = b"".join(text for place, text in enumerate(plain) if place not in {0, 7, 8, 19})
    assert chosen.open_batch(private, b"info", b"".join(sealed), width) == suites.OpenedLayers(
        left, (0, 7, 8, 19)
    )


@pytest.mark.usefixtures("path")
def test_plaintexts_of_two_lengths_or_without_a_source_are_no_batch() -> None:
    _, public = suite_named("sealed-box").generate()
    for plaintexts, sources in (([b"a", b"bc"] * 10, 20), ([b"a"] * 20, 19), ([b"a"] * 2, 3)):
        with pytest.raises(ValueError, match="same length"):
            SealedBox().seal_batch(public, b"", plaintexts, [os.urandom] * sources)


@pytest.mark.usefixtures("path")
def test_a_chunk_that_does_not_open_says_which_layer() -> None:
    geometry = Geometry(suite="sealed-box", hops=3, messages_per_user=20, symbol_bytes=1)
    private, _ = suite_named("sealed-box").generate()
    with pytest.raises(BadBatchError, match="layer 0 of 20"):
        peel(geometry, ROUND, 2, private, bytes(20 * geometry.record_bytes(2)))


@pytest.fixture
def choice(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    acceleration.engine.cache_clear()
    yield monkeypatch
    acceleration.engine.cache_clear()


def test_off_is_libsodium_alone(choice: pytest.MonkeyPatch) -> None:
    choice.setenv(acceleration.VARIABLE, "off")
    assert acceleration.engine() is None


def test_without_the_wheel_auto_is_libsodium_and_a_path_by_name_is_refused(
    choice: pytest.MonkeyPatch,
) -> None:
    choice.setattr(acceleration, "_MODULE", "shuffledp_accel_that_nobody_has")
    choice.delenv(acceleration.VARIABLE, raising=False)
    assert acceleration.engine() is None
    acceleration.engine.cache_clear()
    choice.setenv(acceleration.VARIABLE, "avx2")
    with pytest.raises(ConfigError, match="make accel"):
        acceleration.engine()


@needs_wheel
def test_the_fastest_path_of_this_processor_is_taken_and_one_it_lacks_refused(
    choice: pytest.MonkeyPatch,
) -> None:
    choice.delenv(acceleration.VARIABLE, raising=False)
    made = acceleration.engine()
    assert (made and [made.path]) == (wheel.paths()[:1] or None)
    acceleration.engine.cache_clear()
    choice.setenv(acceleration.VARIABLE, "avx9")
    with pytest.raises(ConfigError, match="emulated-ifma"):
        acceleration.engine()


class _Wrong:
    """An engine that is wrong in one bit of one box."""

    def __init__(self, path: str) -> None:
        self._right = wheel.Engine(path)
        self.path, self.lanes = path, self._right.lanes

    def seal_batch(self, to: Any, ephemerals: bytes, packed: bytes, width: int) -> bytes:
        sealed: bytes = self._right.seal_batch(to, ephemerals, packed, width)
        return sealed[:40] + bytes([sealed[40] ^ 1]) + sealed[41:]

    def open_batch(self, secret: bytes, packed: bytes, width: int) -> tuple[bytes, list[int]]:
        opened: tuple[bytes, list[int]] = self._right.open_batch(secret, packed, width)
        return opened


@needs_wheel
def test_an_engine_that_fails_its_test_is_left_with_a_warning_and_refused_by_name(
    choice: pytest.MonkeyPatch,
) -> None:
    right = wheel

    class Module:
        Recipient = right.Recipient
        Engine = _Wrong

        @staticmethod
        def paths() -> list[str]:
            return ["emulated-ifma"]

    choice.setattr(acceleration, "import_module", lambda _: Module)
    choice.delenv(acceleration.VARIABLE, raising=False)
    with pytest.warns(acceleration.AcceleratorWarning, match="does not agree"):
        assert acceleration.engine() is None
    acceleration.engine.cache_clear()
    choice.setenv(acceleration.VARIABLE, "emulated-ifma")
    with pytest.raises(ConfigError, match="does not agree"):
        acceleration.engine()
