"""Encoding of a randomised answer as exactly m messages `symbol || tag` (invariant 7).

docs/protocol.md, section "Onions".
"""

from __future__ import annotations

from collections.abc import Sequence

from shuffledp_core.mechanisms import Mechanism
from shuffledp_core.onion.geometry import TAG_BYTES, Geometry
from shuffledp_core.sampling.randomness import RandomBytes, RandomIntegers


def symbols(spec: Mechanism, answer: int, integers: RandomIntegers | None = None) -> list[int]:
    """The m symbols that encode `answer`.

    Args:
        spec: the mechanism.
        answer: answer of `randomise`.
        integers: source of randomness for mechanisms that draw their symbols; by default the
            operating system's.

    Raises:
        ValueError: the answer is impossible (a caller's bug: `randomise` never returns it), or the
            mechanism does not encode it as m symbols of its alphabet. The number of messages must
            not depend on the answer.
    """
    sent = list(spec.say(answer, RandomIntegers() if integers is None else integers))
    if len(sent) != spec.messages_per_user or not all(
        0 <= symbol < spec.alphabet for symbol in sent
    ):
        raise ValueError(
            f"{spec.kind} must encode every answer as {spec.messages_per_user} symbols from 0 to "
            f"{spec.alphabet - 1}"
        )
    return sent


def encode(geometry: Geometry, spec: Mechanism, answer: int, source: RandomBytes) -> list[bytes]:
    """Encode an answer as m plain messages of `geometry.plain_bytes`.

    Each is a big-endian symbol and a tag from `source`.

    Errors as `symbols`.
    """
    return add_tags(geometry, pack(geometry, symbols(spec, answer, RandomIntegers(source))), source)


def pack(geometry: Geometry, answers: Sequence[int]) -> bytes:
    """Concatenate the symbols of answers, encoded as in messages."""
    return b"".join(symbol.to_bytes(geometry.symbol_bytes, "big") for symbol in answers)


def add_tags(geometry: Geometry, packed: bytes, source: RandomBytes) -> list[bytes]:
    """Make plain messages: each packed symbol followed by a tag from `source`."""
    width = geometry.symbol_bytes
    count = len(packed) // width
    # Random, so that on the board no one but the sender can tell whose they are.
    tags = source(TAG_BYTES * count)
    return [
        packed[width * index : width * (index + 1)]
        + tags[TAG_BYTES * index : TAG_BYTES * (index + 1)]
        for index in range(count)
    ]
