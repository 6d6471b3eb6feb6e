"""Batches for lab 3: sealed boxes by shuffledp's own suite, arranged as a check needs them.

Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations
from typing import TYPE_CHECKING, Any, Final

from shuffledp_core.onion.suites import suite_named

if TYPE_CHECKING:
    from shuffledp_labs.instance import Draws
    from shuffledp_labs.student.laws import BranchLaw

SUITE: Final = "sealed-box"
OVERHEAD: Final = suite_named(SUITE).overhead
"""Bytes of a layer: ephemeral public key and authentication tag."""


PLAIN_BYTES: Final = 17
"""Of a message in the rounds of step D; a test compares it with shuffledp's."""


@dataclass(frozen=True)
class BoxKeys:
    """One node's keys of one round."""

    private: bytes
    public: bytes

    @classmethod
    def of(cls, draws: Draws) -> BoxKeys:
        """Keys that are determined by the draws."""
        from nacl import bindings

        public, private = bindings.crypto_box_seed_keypair(draws.bytes(32))
        return cls(private, public)

    def seal(self, message: bytes, ephemeral: bytes) -> bytes:
        """The sealed box of a message, with the ephemeral private key given."""
        return suite_named(SUITE).sealer(self.public, b"", lambda _: ephemeral)(message)


def messages_of(draws: Draws, count: int, width: int) -> list[bytes]:
    """Different random messages of one length."""
    messages: dict[bytes, None] = {}
    while len(messages) < count:
        messages[draws.bytes(width)] = None
    return list(messages)


def arrangements(
    keys: BoxKeys, messages: Sequence[bytes], draws: Draws, copies: int = 0
) -> Iterator[list[bytes]]:
    """Batches, one per permutation, that differ only in which onion holds which message.

    The onion at a place has the same ephemeral key in all of them. So an order that is made of what
    can be seen from outside, such as the order of arrival or that of the sealed onions, tells which
    message is whose. The first onion stands `copies` times more, at the end.
    """
    ephemerals = [draws.bytes(32) for _ in messages]
    for order in permutations(messages):
        batch = [
            keys.seal(message, ephemeral)
            for message, ephemeral in zip(order, ephemerals, strict=True)
        ]
        yield batch + batch[:1] * copies


def real_batch(draws: Draws, count: int) -> tuple[BoxKeys, list[bytes], list[bytes]]:
    """A batch as node 2 gets it in step D: keys, onions, and their contents.

    The contents are sealed to node 3.
    """
    node = BoxKeys.of(draws)
    following = BoxKeys.of(draws)
    inner = [
        following.seal(message, draws.bytes(32))
        for message in messages_of(draws, count, PLAIN_BYTES)
    ]
    return node, [node.seal(message, draws.bytes(32)) for message in inner], inner


def damage(keys: BoxKeys, stranger: BoxKeys, message: bytes, kind: str, draws: Draws) -> bytes:
    """A record of the right length that does not decrypt.

    One bit is changed, or it is sealed to another key.
    """
    if kind == "stranger":
        return stranger.seal(message, draws.bytes(32))
    record = bytearray(keys.seal(message, draws.bytes(32)))
    index = {
        "key": draws.below(32),
        "tag": 32 + draws.below(16),
        "body": OVERHEAD + draws.below(len(message)),
    }[kind]
    record[index] ^= 1 << draws.below(8)
    return bytes(record)


DAMAGES: Final = ("key", "tag", "body", "stranger")
"""What can be wrong with an onion, all of the same length."""


def flipped_bits(record: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Every record with one flipped bit: (byte, bit, record)."""
    for byte in range(len(record)):
        for bit in range(8):
            changed = bytearray(record)
            changed[byte] ^= 1 << bit
            yield byte, bit, bytes(changed)


def distance(first: BranchLaw, second: BranchLaw) -> Fraction | float:
    """A lower bound on the total variation distance of two laws.

    Probability mass that was not enumerated may compensate a difference.
    """
    total: Any = Fraction(0)
    for value in {**first.of, **second.of}:
        apart: Any = first.of.get(value, Fraction(0)) - second.of.get(value, Fraction(0))
        total += abs(apart) / 2
    left: Fraction | float = total - first.lost - second.lost
    return left if left > 0 else Fraction(0)


def surplus(actual: Sequence[bytes], expected: Sequence[bytes]) -> tuple[int, int, int]:
    """Numbers of messages missing from `actual`, in it too often, and not in `expected`."""
    have = Counter(actual)
    due = Counter(expected)
    missing = (due - have).total()
    strangers = sum(times for message, times in have.items() if message not in due)
    return missing, (have - due).total() - strangers, strangers
