"""Strict Ed25519 against RFC 8032 in whole numbers, with signatures made to divide libraries."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from itertools import count

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from nacl import bindings

from shuffledp_core.documents import signatures
from shuffledp_core.documents.models import Credential
from shuffledp_core.documents.signatures import (
    Equation,
    SignatureBatch,
    agrees,
    batch_agrees,
    check_signature,
    find_valid,
    is_ours,
    libsodium,
    of_wheel,
    openssl,
)
from shuffledp_core.documents.signed import Signed, sign, verify
from shuffledp_core.errors import SignatureError
from shuffledp_core.onion.acceleration import AcceleratorWarning, wheel

EQUATIONS: list[Equation] = [libsodium, openssl]
if hasattr(wheel(), "ed25519_holds"):
    EQUATIONS.append(of_wheel(wheel()))

FIELD = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
CURVE = -121665 * pow(121666, -1, FIELD) % FIELD
Point = tuple[int, int]
Triple = tuple[bytes, bytes, bytes]
"""Public key, signature, message."""


def root(square: int) -> int | None:
    found = pow(square, (FIELD + 3) // 8, FIELD)
    for candidate in (found, found * pow(2, (FIELD - 1) // 4, FIELD) % FIELD):
        if candidate * candidate % FIELD == square % FIELD:
            return candidate
    return None


def decode(data: bytes) -> Point | None:
    """RFC 8032, 5.1.3: None for anything but the one encoding of a point."""
    number = int.from_bytes(data, "little")
    y, odd = number % 2**255, number >> 255
    x = root((y * y - 1) * pow(CURVE * y * y + 1, -1, FIELD))
    if y >= FIELD or x is None or (x == 0 and odd):
        return None
    return (x if x % 2 == odd else -x % FIELD), y


def encode(point: Point) -> bytes:
    return (point[1] | (point[0] % 2) << 255).to_bytes(32, "little")


def add(one: Point, two: Point) -> Point:
    cross = CURVE * one[0] * two[0] * one[1] * two[1]
    x = (one[0] * two[1] + two[0] * one[1]) * pow(1 + cross, -1, FIELD)
    y = (one[1] * two[1] + one[0] * two[0]) * pow(1 - cross, -1, FIELD)
    return x % FIELD, y % FIELD


def times(number: int, point: Point) -> Point:
    found = (0, 1)
    for bit in f"{number:b}":
        found = add(found, found)
        if bit == "1":
            found = add(found, point)
    return found


def found_base() -> Point:
    base = decode((4 * pow(5, -1, FIELD) % FIELD).to_bytes(32, "little"))
    assert base is not None
    return base


def points() -> Iterator[Point]:
    for y in count(2):
        point = decode(y.to_bytes(32, "little"))
        if point is not None:
            yield point


BASE = found_base()
EIGHTH = next(
    part for part in (times(ORDER, point) for point in points()) if times(4, part) != (0, 1)
)
SMALL = [times(number, EIGHTH) for number in range(8)]
SECRET, NONCE = 0x1234567890ABCDEF << 150, 0xFEDCBA0987654321 << 170
KEY, NONCE_POINT = times(SECRET, BASE), times(NONCE, BASE)


def challenge(key: bytes, nonce: bytes, message: bytes) -> int:
    return int.from_bytes(hashlib.sha512(nonce + key + message).digest(), "little") % ORDER


def strictly_valid(triple: Triple) -> bool:
    """The definition, with its own arithmetic."""
    key, signature, message = triple
    nonce, scalar = signature[:32], int.from_bytes(signature[32:], "little")
    point = decode(key)
    if len(key) != 32 or len(signature) != 64 or point is None or scalar >= ORDER:
        return False
    minus = (-point[0] % FIELD, point[1])
    found = add(times(scalar, BASE), times(challenge(key, nonce, message), minus))
    return point not in SMALL and decode(nonce) not in SMALL and encode(found) == nonce


def made(
    key: bytes,
    nonce: bytes,
    *,
    secret: int,
    drawn: int,
    wraps: int = 0,
    wanted: Callable[[int], bool] = lambda _: True,
) -> Triple:
    """The signature S = nonce + challenge * secret (+ wraps * L) of the first message whose
    challenge is wanted."""
    for number in count():
        message = str(number).encode()
        hashed = challenge(key, nonce, message)
        if wanted(hashed):
            scalar = (drawn + hashed * secret) % ORDER + wraps * ORDER
            return key, nonce + scalar.to_bytes(32, "little"), message
    raise AssertionError


def eighths(remainder: int) -> Callable[[int], bool]:
    return lambda hashed: hashed % 8 == remainder


A, R = encode(KEY), encode(NONCE_POINT)
ONE, ANOTHER = (FIELD + 1).to_bytes(32, "little"), (1 | 1 << 255).to_bytes(32, "little")
"""Two other ways in which libraries let the neutral point be written: y = p + 1, and a sign where x
is 0.
"""

MIXED_KEY, MIXED_NONCE = encode(add(KEY, EIGHTH)), encode(add(NONCE_POINT, EIGHTH))
ODD: dict[str, tuple[Triple, bool]] = {
    "an honest one": (made(A, R, secret=SECRET, drawn=NONCE), True),
    "S + L": (made(A, R, secret=SECRET, drawn=NONCE, wraps=1), False),
    "S + 8 L": (made(A, R, secret=SECRET, drawn=NONCE, wraps=8), False),
    "the neutral point as key": (made(encode((0, 1)), R, secret=0, drawn=NONCE), False),
    "the neutral point as key, beyond the field": (made(ONE, R, secret=0, drawn=NONCE), False),
    "the neutral point as key, with a sign": (made(ANOTHER, R, secret=0, drawn=NONCE), False),
    "the neutral point as nonce": (made(A, encode((0, 1)), secret=SECRET, drawn=0), False),
    "the neutral point as nonce, beyond the field": (made(A, ONE, secret=SECRET, drawn=0), False),
    "the neutral point as nonce, with a sign": (made(A, ANOTHER, secret=SECRET, drawn=0), False),
    "a nonce with a part of order 8": (made(A, MIXED_NONCE, secret=SECRET, drawn=NONCE), False),
    "a key with a part of order 8, felt": (
        made(MIXED_KEY, R, secret=SECRET, drawn=NONCE, wanted=eighths(1)),
        False,
    ),
    "a key with a part of order 8, not felt": (
        made(MIXED_KEY, R, secret=SECRET, drawn=NONCE, wanted=eighths(0)),
        True,
    ),
    "key and nonce with parts of order 8 that cancel": (
        made(
            MIXED_KEY,
            encode(add(NONCE_POINT, times(7, EIGHTH))),
            secret=SECRET,
            drawn=NONCE,
            wanted=eighths(1),
        ),
        True,
    ),
    "no key at all": ((b"", made(A, R, secret=SECRET, drawn=NONCE)[1], b"0"), False),
    "half a signature": ((A, R, b"0"), False),
    "a key that is no point": ((b"\x02" + bytes(31), R + bytes(32), b"0"), False),
} | {
    f"{role} of small order, {number} / 8": (triple, False)
    for number, point in enumerate(SMALL)
    for role, triple in (
        ("key", made(encode(point), R, secret=0, drawn=NONCE, wanted=eighths(0))),
        ("nonce", made(A, encode(point), secret=SECRET, drawn=0)),
    )
}


def accepted(triple: Triple) -> bool:
    try:
        check_signature(*triple)
    except InvalidSignature:
        return False
    return True


@pytest.fixture(params=EQUATIONS, ids=lambda equation: equation.__name__)
def equation(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> signatures.Equation:
    chosen: signatures.Equation = request.param
    monkeypatch.setattr(signatures, "_equation", lambda: chosen)
    return chosen


@pytest.mark.parametrize("name", ODD)
def test_odd_signatures_are_valid_for_all_libraries_or_for_none(
    equation: signatures.Equation, name: str
) -> None:
    assert is_ours(equation)
    triple, valid = ODD[name]
    assert accepted(triple) is strictly_valid(triple) is valid


@pytest.mark.parametrize(
    "y", [y for y in range(FIELD, 2**255) if decode((y - FIELD).to_bytes(32, "little"))]
)
def test_a_point_beyond_the_field_is_no_key(equation: signatures.Equation, y: int) -> None:
    del equation
    assert not accepted((y.to_bytes(32, "little"), R + bytes(32), b"0"))


def test_a_nonce_beyond_the_field_is_refused_by_whatever_library(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A library that decodes R, and compares points, accepts a second encoding of some points."""
    key = Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes_raw()
    monkeypatch.setattr(signatures, "_equation", lambda: lambda *_: None)
    check_signature(public, key.sign(b"0"), b"0")
    for y in range(FIELD, 2**255):
        with pytest.raises(InvalidSignature):
            check_signature(public, y.to_bytes(32, "little") + bytes(32), b"0")


SEEDS = st.binary(min_size=32, max_size=32)


@given(SEEDS, st.binary(max_size=300), st.integers(0, 8 * 96 - 1))
def test_what_signers_make_is_valid_and_no_bit_of_it_can_change(
    seed: bytes, message: bytes, bit: int
) -> None:
    key = Ed25519PrivateKey.from_private_bytes(seed)
    public, signature = key.public_key().public_bytes_raw(), key.sign(message)
    whole = bytearray(public + signature)
    whole[bit // 8] ^= 1 << bit % 8
    for equation in EQUATIONS:
        equation(public, signature, message)
        with pytest.raises(InvalidSignature):
            equation(bytes(whole[:32]), bytes(whole[32:]), message)
    assert accepted((public, signature, message))
    assert bindings.crypto_sign(message, seed + public)[:64] == signature


def test_a_library_that_multiplies_by_the_cofactor_is_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The probe is what it says: valid times 8 and not otherwise.

    A library that takes it gives way to OpenSSL.
    """
    monkeypatch.setenv("SHUFFLEDP_ACCEL", "off")
    probed: list[Triple] = []

    def lenient(public_key: bytes, signature: bytes, message: bytes) -> None:
        probed.append((public_key, signature, message))

    monkeypatch.setattr(signatures, "libsodium", lenient)
    signatures._equation.cache_clear()
    try:
        assert not accepted(ODD["a nonce with a part of order 8"][0])
    finally:
        signatures._equation.cache_clear()
    ((key, signature, message),) = probed
    point, nonce = decode(key), decode(signature[:32])
    assert point is not None
    assert nonce is not None
    hashed, scalar = (
        challenge(key, signature[:32], message),
        int.from_bytes(signature[32:], "little"),
    )
    assert times(8 * scalar, BASE) == times(8, add(nonce, times(hashed, point)))
    assert not strictly_valid(probed[0])


class Wheel:
    """A wheel whose equation of signatures holds as `verdict` says."""

    def __init__(self, verdict: Callable[[bytes, bytes, bytes], bool]) -> None:
        self.ed25519_holds = verdict


def holds_with_cofactor(public_key: bytes, signature: bytes, hashed: bytes) -> bool:
    point, nonce = decode(public_key), decode(signature[:32])
    if point is None or nonce is None:
        return False
    h, scalar = int.from_bytes(hashed, "little") % ORDER, int.from_bytes(signature[32:], "little")
    return times(8 * scalar, BASE) == times(8, add(nonce, times(h, point)))


@pytest.mark.parametrize("verdict", [lambda *_: True, lambda *_: False, holds_with_cofactor])
def test_a_wheel_that_judges_signatures_otherwise_is_not_used(
    verdict: Callable[[bytes, bytes, bytes], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not agrees(of_wheel(Wheel(verdict)))
    monkeypatch.setattr("shuffledp_core.onion.acceleration.wheel", lambda: Wheel(verdict))
    signatures._equation.cache_clear()
    try:
        with pytest.warns(AcceleratorWarning, match="does not agree with OpenSSL"):
            assert not accepted(ODD["a nonce with a part of order 8"][0])
        assert signatures._equation() is libsodium
    finally:
        signatures._equation.cache_clear()


@pytest.mark.parametrize("equation", EQUATIONS, ids=lambda equation: equation.__name__)
def test_every_equation_passes_the_test_of_the_wheel(equation: Equation) -> None:
    assert agrees(equation)


def test_a_key_of_small_order_signs_no_document() -> None:
    """With the neutral point as its key, one signature would be valid for every body."""
    neutral = encode((0, 1))
    name = neutral.hex()
    body = sign(Credential(population="demo", public_key=name), name, Ed25519PrivateKey.generate())
    forged = Signed(
        label=body.label,
        signer=name,
        body=body.body,
        signature=(encode(BASE) + (1).to_bytes(32, "little")).hex(),
    )
    openssl(neutral, bytes.fromhex(forged.signature), b"whatever")
    with pytest.raises(SignatureError):
        verify(forged, Credential, name, neutral)


PATHS: list[str] = wheel().paths(all=True) if hasattr(wheel(), "ed25519_sign") else []
on_every_path = pytest.mark.parametrize(
    "path",
    PATHS
    or [
        pytest.param(
            "none", marks=pytest.mark.skip("no shuffledp-accel with batches of signatures")
        )
    ],
)


@pytest.fixture
def batch(path: str, monkeypatch: pytest.MonkeyPatch) -> SignatureBatch:
    """Batches by this path, in use for all documents."""
    made = SignatureBatch(wheel(), wheel().Engine(path))
    monkeypatch.setattr(signatures, "_batch", lambda: made)
    return made


def under_one_key(odd: Triple, number: int) -> list[Triple]:
    """The odd triple among others of its key, enough of them for a table."""
    return [odd, *[(odd[0], odd[1], str(other).encode() + b"x") for other in range(number)]]


@on_every_path
def test_odd_signatures_are_valid_in_a_batch_exactly_if_they_are_alone(
    batch: SignatureBatch,
) -> None:
    names = list(ODD)
    honest = ODD["an honest one"][0]
    for length in (len(names), batch.fewest, 2 * batch.fewest + 1):
        for first in range(0, len(names), length):
            triples = [ODD[name][0] for name in names[first : first + length]]
            triples += [honest] * length
            valid = [ODD[name][1] for name in names[first : first + length]]
            assert find_valid(triples) == valid + [True] * length


@on_every_path
def test_odd_signatures_are_the_same_by_the_table_of_their_key(batch: SignatureBatch) -> None:
    del batch
    for triple, valid in ODD.values():
        assert find_valid(under_one_key(triple, 70)) == [valid] + [False] * 70


@on_every_path
def test_a_changed_signature_in_any_lane_spoils_no_other(batch: SignatureBatch) -> None:
    count = 2 * batch.fewest + 1
    for same_key in (False, True):
        keys = [Ed25519PrivateKey.generate() for _ in range(count)]
        if same_key:
            keys = keys[:1] * 70
        good = [
            (key.public_key().public_bytes_raw(), key.sign(str(number).encode()), str(number))
            for number, key in enumerate(keys)
        ]
        triples = [(public, signature, text.encode()) for public, signature, text in good]
        assert find_valid(triples) == [True] * len(triples)
        for place in range(count):
            public, signature, message = triples[place]
            for changed in (
                (public, bytes([signature[0] ^ 1]) + signature[1:], message),
                (public, signature[:32] + bytes([signature[32] ^ 1]) + signature[33:], message),
                (public, signature, message + b"x"),
            ):
                torn = [*triples[:place], changed, *triples[place + 1 :]]
                assert find_valid(torn) == [other != place for other in range(len(torn))]


@on_every_path
@given(st.lists(st.binary(min_size=96, max_size=96), min_size=1, max_size=9))
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_judged_as_by_openssl(
    batch: SignatureBatch, given_bytes: list[bytes]
) -> None:
    """Among random keys every second one is no point."""
    assume(all(int.from_bytes(one[:32], "little") % 2**255 < FIELD for one in given_bytes))
    triples = [(one[:32], one[32:], b"text") for one in given_bytes]
    expected = []
    for triple in triples:
        try:
            openssl(*triple)
        except InvalidSignature:
            expected.append(False)
        else:
            expected.append(True)
    assert batch.hold(triples) == expected


@on_every_path
def test_every_path_passes_the_test_of_batches(batch: SignatureBatch) -> None:
    assert batch_agrees(batch)


class _Wheel:
    """A wheel whose batches say `verdict` of every signature."""

    lanes = 4

    def __init__(self, verdict: Callable[[Triple], bool]) -> None:
        self._verdict = verdict

    def Signer(self, public: bytes) -> bytes:  # noqa: N802 - as in the wheel
        return public

    def ed25519_hold(self, public: bytes, packed: bytes, challenges: bytes) -> list[bool]:
        return [
            self._verdict((public[32 * i :][:32], packed[64 * i :][:64], challenges[64 * i :][:64]))
            for i in range(len(packed) // 64)
        ]

    def ed25519_hold_under(self, signer: bytes, packed: bytes, challenges: bytes) -> list[bool]:
        return self.ed25519_hold(signer * (len(packed) // 64), packed, challenges)


@pytest.mark.parametrize(
    "verdict",
    [
        lambda _: True,
        lambda _: False,
        lambda triple: holds_with_cofactor(*triple),
    ],
)
def test_batches_that_judge_signatures_otherwise_are_not_used(
    verdict: Callable[[Triple], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = _Wheel(verdict)
    monkeypatch.setattr("shuffledp_core.onion.acceleration.wheel", lambda: made)
    monkeypatch.setattr("shuffledp_core.onion.acceleration.engine", lambda: made)
    signatures._batch.cache_clear()
    try:
        with pytest.warns(AcceleratorWarning, match="many signatures does not agree"):
            assert signatures._batch() is None
    finally:
        signatures._batch.cache_clear()
