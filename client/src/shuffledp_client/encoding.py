"""Encoding of a randomised answer as exactly m messages `symbol || tag`, whatever the answer is (invariant 7).

docs/protocol.md, section "Onions".
"""

from __future__ import annotations

from shuffledp_core.onion.geometry import TAG_BYTES, Geometry
from shuffledp_core.randomness import RandomBytes


def symbols(geometry: Geometry, alphabet: int, answer: int) -> list[int]:
    """The m symbols that encode `answer`.

    A single message over a larger alphabet carries the answer itself; otherwise it is the fixed-length unary code
    of Athanasiou et al. 2025, ones first. Their fixed order tells nothing beyond `answer`, and the shuffle removes it.

    Args:
        geometry: lengths of the round.
        alphabet: number of different symbols of the mechanism.
        answer: a symbol, or a number of ones.

    Raises:
        ValueError: the answer does not fit (our own misuse: `randomise` never gives one that does not).
    """
    if geometry.messages_per_user == 1:
        if not 0 <= answer < alphabet:
            raise ValueError(f"a symbol must be from 0 to {alphabet - 1}")
        return [answer]
    if not 0 <= answer <= geometry.messages_per_user:
        raise ValueError(f"the number of ones must be from 0 to {geometry.messages_per_user}")
    return [1] * answer + [0] * (geometry.messages_per_user - answer)


def encode(geometry: Geometry, alphabet: int, answer: int, source: RandomBytes) -> list[bytes]:
    """The m plain messages of `geometry.plain_bytes`: each a big-endian symbol and a tag from `source`.

    Errors as `symbols`.
    """
    return tagged(geometry, pack(geometry, symbols(geometry, alphabet, answer)), source)


def pack(geometry: Geometry, answers: list[int]) -> bytes:
    """Concatenated symbols, encoded as in the messages."""
    return b"".join(symbol.to_bytes(geometry.symbol_bytes, "big") for symbol in answers)


def tagged(geometry: Geometry, packed: bytes, source: RandomBytes) -> list[bytes]:
    """Plain messages: each of the packed symbols with a tag from `source`."""
    width = geometry.symbol_bytes
    count = len(packed) // width
    # Random, so that on the board nobody but the sender can tell whose they are.
    tags = source(TAG_BYTES * count)
    return [
        packed[width * place : width * (place + 1)] + tags[TAG_BYTES * place : TAG_BYTES * (place + 1)]
        for place in range(count)
    ]
