"""From a randomised answer to exactly m messages `symbol || tag`, whatever the answer was (invariant 7).

docs/protocol.md, section "Onions".
"""

from __future__ import annotations

from shuffledp_core.onion.geometry import TAG_BYTES, Geometry
from shuffledp_core.randomness import RandomBytes


def symbols(geometry: Geometry, alphabet: int, answer: int) -> list[int]:
    """The m symbols that say `answer`.

    A single message over a larger alphabet carries the answer itself; otherwise it is the fixed-length unary code
    of Athanasiou et al. 2025, the ones first. Their order is lost in the shuffle and tells nothing to whoever sees it
    before.

    Args:
        geometry: lengths of the round.
        alphabet: number of different symbols of the mechanism.
        answer: a symbol, or a number of ones.

    Raises:
        ValueError: the answer does not fit (our own misuse: `randomise` never gives such a one).
    """
    if geometry.messages_per_user == 1:
        if not 0 <= answer < alphabet:
            raise ValueError(f"a symbol must be from 0 to {alphabet - 1}")
        return [answer]
    if not 0 <= answer <= geometry.messages_per_user:
        raise ValueError(f"the number of ones must be from 0 to {geometry.messages_per_user}")
    return [1] * answer + [0] * (geometry.messages_per_user - answer)


def encode(geometry: Geometry, alphabet: int, answer: int, source: RandomBytes) -> list[bytes]:
    """m plain messages of `geometry.plain_bytes`: the symbol big endian, then a tag from `source` each.

    Errors as `symbols`.
    """
    return tagged(geometry, pack(geometry, symbols(geometry, alphabet, answer)), source)


def pack(geometry: Geometry, answers: list[int]) -> bytes:
    """Symbols as they stand in the messages, one after the other."""
    return b"".join(symbol.to_bytes(geometry.symbol_bytes, "big") for symbol in answers)


def tagged(geometry: Geometry, packed: bytes, source: RandomBytes) -> list[bytes]:
    """Each of the packed symbols with its tag: the plain messages."""
    width = geometry.symbol_bytes
    count = len(packed) // width
    tags = source(TAG_BYTES * count)
    return [
        packed[width * place : width * (place + 1)] + tags[TAG_BYTES * place : TAG_BYTES * (place + 1)]
        for place in range(count)
    ]
