"""Attacks without their defence, in process: real onions and mixing, but one check is left out.

The missing check is the search for repeated onions at the honest node (`run_copy`), or the
authentication of a layer (`run_mark`). The adversary is the entry node and reads the board; the
honest node permutes with the operating system's randomness, as always.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from shuffledp_adversary.attacks.exchange.tampering import COPIES, copy
from shuffledp_adversary.in_process import Conduct, play
from shuffledp_core.errors import BadBatchError
from shuffledp_core.onion.geometry import TAG_BYTES, Geometry
from shuffledp_core.onion.layers import binding
from shuffledp_core.onion.suites import Suite
from shuffledp_core.sampling.randomness import system_random
from shuffledp_shuffler.permutation import uniform_permutation

USERS: Final = 12
MESSAGES: Final = 2
HOPS: Final = 3
_ROUND: Final = "in-process"


@dataclass(frozen=True)
class Pointing:
    """Number of trials, and of those in which the adversary found a message of the victim."""

    hits: int
    trials: int
    dropped: int = 0
    """Onions that a node dropped because they stood in its batch already."""


def run_copy(trials: int, *, guarded: bool) -> Pointing:
    """Attack by an entry node that repeats an onion of the victim.

    `guarded`: later nodes drop repeated onions.

    The adversary points at the message that is on the board most often.
    """
    hits = dropped = 0
    geometry = Geometry(suite="sealed-box", hops=HOPS, messages_per_user=MESSAGES, symbol_bytes=1)
    conduct = Conduct(careless=() if guarded else range(2, HOPS + 1), tampering={1: copy})
    for _ in range(trials):
        played = play(
            geometry, [[_plain() for _ in range(MESSAGES)] for _ in range(USERS)], conduct
        )
        dropped += sum(played.dropped.values())
        suspect, times = Counter(played.board).most_common(1)[0]
        hits += times == COPIES and suspect in played.messages[0]
    return Pointing(hits, trials, dropped)


def run_mark(trials: int) -> Pointing:
    """Attack by an entry node that marks an onion if layers are not authenticated.

    A flipped bit of a stream cipher flips the same bit of what is inside, through all layers: the
    adversary flips the highest bit of the symbol, which no honest message has set, and points at
    the message that has it.
    """
    hits = 0
    for _ in range(trials):
        route = [X25519PrivateKey.generate() for _ in range(HOPS - 1)]
        sent = [_plain() for _ in range(USERS * MESSAGES)]
        onions = [_bare_seal(route, message) for message in sent]
        marked_onion = bytearray(onions[0])
        # Each layer only puts its key in front, so that the symbol's bit keeps its distance from
        # the end throughout.
        marked_onion[len(route) * _KEY_BYTES] ^= 0x80
        records = [bytes(marked_onion), *onions[1:]]
        for key in route:
            records = _permute([_bare_open(key, record) for record in records])
        suspects = [record for record in records if record[0] & 0x80]
        hits += len(suspects) == 1 and bytes([suspects[0][0] ^ 0x80]) + suspects[0][1:] == sent[0]
    return Pointing(hits, trials)


_KEY_BYTES: Final = 32


def _bare_seal(route: Sequence[X25519PrivateKey], message: bytes) -> bytes:
    """Seal an onion without authentication, to show what authentication prevents."""
    for key in reversed(route):
        fresh = X25519PrivateKey.generate()
        public = fresh.public_key().public_bytes_raw()
        message = public + _stream(fresh.exchange(key.public_key()), message)
    return message


def _bare_open(key: X25519PrivateKey, onion: bytes) -> bytes:
    fresh, body = onion[:_KEY_BYTES], onion[_KEY_BYTES:]
    return _stream(key.exchange(X25519PublicKey.from_public_bytes(fresh)), body)


def _stream(shared: bytes, data: bytes) -> bytes:
    key = HKDF(SHA256(), 32, salt=None, info=b"without authentication").derive(shared)
    # A constant nonce is no flaw: each key comes from a fresh exchange and is used once. What is
    # missing is the tag.
    return Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor().update(data)


def flip_every_bit(suite: Suite) -> Pointing:
    """Flip every single bit of an onion; `hits` counts the changed onions that still decrypt.

    Ephemeral key, authentication and ciphertext are all covered, also the bit of an X25519 key that
    the curve ignores.
    """
    private, public = suite.generate()
    info = binding(_ROUND, 2)
    onion = suite.sealer(public, info)(_plain())
    opens = suite.opener(private, info)
    # The ignored bit leaves the shared secret as it was, but the key's bytes also enter nonce or
    # key schedule.
    bits = range(8 * len(onion))
    return Pointing(sum(_opens(opens, _flip(onion, bit)) for bit in bits), len(bits))


def _flip(onion: bytes, bit: int) -> bytes:
    changed = bytearray(onion)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def _opens(opens: Callable[[bytes], bytes], onion: bytes) -> bool:
    try:
        opens(onion)
    except BadBatchError:
        return False
    return True


def _plain() -> bytes:
    """A random plain message: a bit and a tag."""
    return bytes([system_random(1)[0] & 1]) + system_random(TAG_BYTES)


def _permute(records: list[bytes]) -> list[bytes]:
    return [records[index] for index in uniform_permutation(len(records), system_random)]
