"""Onions: round trips at any depth, exact lengths, and nothing but typed errors for other bytes."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nacl import bindings

from shuffledp_core.errors import BadBatchError, ConfigError, InvalidSubmissionError
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.onion.layers import open_envelope, peel, seal_envelope
from shuffledp_core.onion.seeds import stream
from shuffledp_core.onion.suites import SUITES, suite_named

ROUND = "00" * 16


def keys_for(geometry: Geometry) -> list[tuple[bytes, bytes]]:
    return [suite_named(geometry.suite).generate() for _ in range(geometry.hops)]


@pytest.mark.parametrize("suite", SUITES)
@given(hops=st.integers(2, 6), m=st.integers(1, 5), width=st.integers(1, 4), data=st.data())
@settings(max_examples=12, deadline=None)
def test_every_layer_comes_off_in_order_and_the_messages_are_unchanged(
    suite: str, hops: int, m: int, width: int, data: st.DataObject
) -> None:
    geometry = Geometry(suite=suite, hops=hops, messages_per_user=m, symbol_bytes=width)
    messages = [
        data.draw(st.binary(min_size=geometry.plain_bytes, max_size=geometry.plain_bytes))
        for _ in range(m)
    ]
    keys = keys_for(geometry)
    envelope = seal_envelope(geometry, ROUND, [public for _, public in keys], messages)
    assert len(envelope) == geometry.envelope_bytes
    packed = open_envelope(geometry, ROUND, keys[0][0], envelope)
    for position in range(2, hops + 1):
        assert len(packed) == m * geometry.record_bytes(position)
        packed = peel(geometry, ROUND, position, keys[position - 1][0], packed)
    assert packed == b"".join(messages)


@pytest.mark.parametrize("suite", SUITES)
def test_an_envelope_for_another_round_key_does_not_open(suite: str) -> None:
    geometry = Geometry(suite=suite, hops=2, messages_per_user=1, symbol_bytes=1)
    keys, others = keys_for(geometry), keys_for(geometry)
    envelope = seal_envelope(geometry, ROUND, [public for _, public in keys], [bytes(17)])
    with pytest.raises(InvalidSubmissionError, match="another round"):
        open_envelope(geometry, ROUND, others[0][0], envelope)


@pytest.mark.parametrize("suite", ["hpke", "hpke-mlkem768-x25519"])
def test_hpke_binds_round_and_position_even_under_the_same_key(suite: str) -> None:
    geometry = Geometry(suite=suite, hops=3, messages_per_user=1, symbol_bytes=1)
    private, public = suite_named(suite).generate()
    packed = open_envelope(
        geometry, ROUND, private, seal_envelope(geometry, ROUND, [public] * 3, [bytes(17)])
    )
    with pytest.raises(BadBatchError):
        peel(geometry, "11" * 16, 2, private, packed)
    with pytest.raises(BadBatchError):
        suite_named(suite).opener(private, b"shuffledp/v1/onion/" + ROUND.encode() + b"/3")(packed)
    assert len(peel(geometry, ROUND, 2, private, packed)) == geometry.record_bytes(3)


@pytest.mark.parametrize("suite", SUITES)
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_any_other_bytes_are_one_typed_error(suite: str, data: st.DataObject) -> None:
    geometry = Geometry(suite=suite, hops=3, messages_per_user=2, symbol_bytes=1)
    private, _ = suite_named(suite).generate()
    size = data.draw(st.sampled_from([0, 1, geometry.record_bytes(2), geometry.envelope_bytes]))
    noise = data.draw(st.binary(min_size=size, max_size=size))
    with pytest.raises(InvalidSubmissionError):
        open_envelope(geometry, ROUND, private, noise)
    if noise:
        with pytest.raises(BadBatchError):
            peel(geometry, ROUND, 2, private, noise)


@pytest.mark.parametrize("suite", SUITES)
@given(position=st.integers(0, 10_000), flip=st.integers(1, 255))
@settings(max_examples=25, deadline=None)
def test_a_changed_byte_anywhere_is_noticed(suite: str, position: int, flip: int) -> None:
    geometry = Geometry(suite=suite, hops=2, messages_per_user=1, symbol_bytes=1)
    keys = keys_for(geometry)
    envelope = bytearray(
        seal_envelope(geometry, ROUND, [public for _, public in keys], [os.urandom(17)])
    )
    envelope[position % len(envelope)] ^= (
        flip  # ML-KEM rejects implicitly: a wrong shared key, so the tag fails
    )
    with pytest.raises(InvalidSubmissionError):
        open_envelope(geometry, ROUND, keys[0][0], bytes(envelope))


@pytest.mark.parametrize("suite", SUITES)
def test_no_bit_of_an_encapsulated_key_is_ignored(suite: str) -> None:
    """X25519 ignores bit 255.

    A node that sets it must not have a second onion with the first one's content.
    """
    chosen = suite_named(suite)
    private, public = chosen.generate()
    onion = chosen.sealer(public, b"info")(b"content")
    open_ = chosen.opener(private, b"info")
    assert open_(onion) == b"content"
    encapsulated = chosen.overhead - 16
    every_bit = range(
        8 * (encapsulated - 32), 8 * encapsulated
    )  # of the X25519 key, behind ML-KEM's ciphertext
    for bit in [*range(0, 8 * (encapsulated - 32), 37), *every_bit]:
        other = bytearray(onion)
        other[bit // 8] ^= 1 << bit % 8
        with pytest.raises(BadBatchError):
            open_(bytes(other))


@pytest.mark.parametrize("suite", SUITES)
def test_an_onion_sealed_to_another_spelling_of_a_round_key_does_not_open(suite: str) -> None:
    chosen = suite_named(suite)
    private, public = chosen.generate()
    spelled = public[:-1] + bytes([public[-1] | 0x80])  # the X25519 key stands last
    assert spelled != public
    with pytest.raises(BadBatchError):
        chosen.opener(private, b"info")(chosen.sealer(spelled, b"info")(b"content"))


def test_a_seal_with_a_given_ephemeral_key_is_libsodiums_own() -> None:
    """The vector was put together from PyNaCl's `Box` and libsodium's generic hash.

    `crypto_box_seal_open` agrees.
    """
    private = bytes(range(32))
    public = bindings.crypto_scalarmult_base(private)
    sealed = suite_named("sealed-box").sealer(public, b"", lambda size: bytes([7]) * size)(
        b"message"
    )
    assert sealed.hex() == (
        # the ephemeral public key
        "13be4feaeaf204c7fd3358fc9c00721881d174278128227ec674f37f7fe97b6d"
        "18d0cd3e3e35d2f6a2ed7e5df03bd595"  # the tag
        "7b2a226ffe75f4"
    )
    assert bindings.crypto_box_seal_open(sealed, public, private) == b"message"


@given(message=st.binary(max_size=300))
@settings(max_examples=50, deadline=None)
def test_libsodium_opens_what_we_seal_and_we_open_what_it_seals(message: bytes) -> None:
    suite = suite_named("sealed-box")
    private, public = suite.generate()
    assert (
        bindings.crypto_box_seal_open(suite.sealer(public, b"")(message), public, private)
        == message
    )
    assert suite.opener(private, b"")(bindings.crypto_box_seal(message, public)) == message
    assert suite.sealer(public, b"")(message) != suite.sealer(public, b"")(message)


@pytest.mark.parametrize("suite", SUITES)
def test_the_same_seed_gives_the_same_envelope_where_the_suite_is_reproducible(suite: str) -> None:
    geometry = Geometry(suite=suite, hops=3, messages_per_user=4, symbol_bytes=1)
    keys, messages = (
        [public for _, public in keys_for(geometry)],
        [bytes([place]) * 17 for place in range(4)],
    )
    first, again = (
        seal_envelope(geometry, ROUND, keys, messages, stream(bytes(32))) for _ in range(2)
    )
    other = seal_envelope(geometry, ROUND, keys, messages, stream(bytes(31) + b"x"))
    assert (first == again) is suite_named(suite).reproducible
    assert other not in {first, again}


def test_no_two_seals_of_an_envelope_share_their_ephemeral_key() -> None:
    geometry = Geometry(suite="sealed-box", hops=3, messages_per_user=40, symbol_bytes=1)
    keys = keys_for(geometry)
    envelope = seal_envelope(
        geometry, ROUND, [public for _, public in keys], [bytes(17)] * 40, stream(os.urandom(32))
    )
    packed, shown = open_envelope(geometry, ROUND, keys[0][0], envelope), [envelope[:32]]
    for position in (2, 3):
        width = geometry.record_bytes(position)
        shown += [packed[start : start + 32] for start in range(0, len(packed), width)]
        packed = peel(geometry, ROUND, position, keys[position - 1][0], packed)
    assert len(set(shown)) == len(shown) == 81


def test_a_stream_is_chacha20_of_rfc_8439_and_gives_every_byte_once() -> None:
    """Appendix A.1, test vectors 1 and 2: a key of zeros, a nonce of zeros, blocks 0 and 1."""
    blocks = (
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"
        "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
        "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f"
    )
    source = stream(bytes(32))
    assert (source(16) + source(100) + source(12)).hex() == blocks
    with pytest.raises(ValueError, match="32 bytes"):
        stream(bytes(31))


def test_an_unknown_suite_is_named_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="sealed-box"):
        suite_named("rot13")


@pytest.mark.parametrize(
    "bad",
    [{"hops": 1}, {"hops": 17}, {"messages_per_user": 0}, {"symbol_bytes": 0}, {"symbol_bytes": 5}],
)
def test_a_geometry_outside_its_ranges_is_refused(bad: dict[str, int]) -> None:
    good = {"suite": "hpke", "hops": 3, "messages_per_user": 5, "symbol_bytes": 1}
    with pytest.raises(ValueError, match="must be from"):
        Geometry(**(good | bad))  # type: ignore[arg-type]
