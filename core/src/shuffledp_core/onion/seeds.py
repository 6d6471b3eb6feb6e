"""Tags and ephemeral keys of one submission, from a 32-byte seed that serves as evidence.

Its user can reveal the seed.

A user whose messages are missing wants to show that they were inside the envelope of the receipt.
With the seed and the symbols anyone can seal the same envelope again, bit for bit; without them
it is infeasible. Values are never randomised from a seed: those draws stay the operating system's,
so that a revealed seed shows the report and not the true value. docs/protocol.md, section
"Evidence".
"""

from __future__ import annotations

from typing import Final

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

from shuffledp_core.sampling.randomness import RandomBytes

SEED_BYTES: Final = 32
"""Length of a seed, drawn from the operating system for one submission and no other."""

_START: Final = bytes(16)
"""Block counter and nonce. The nonce may be constant because every key, here a seed, is used for
one stream only.
"""


def stream(seed: bytes) -> RandomBytes:
    """ChaCha20's key stream (RFC 8439) under the seed, from its beginning.

    Every byte is used once.

    The order of reading is part of the format: first all tags, in the order of the messages, then
    the ephemeral keys in the order of the seals, from the last hop to the first.

    Raises:
        ValueError: the seed has another length (our own misuse).
    """
    if len(seed) != SEED_BYTES:
        raise ValueError(f"a seed has {SEED_BYTES} bytes, not {len(seed)}")
    encryptor = Cipher(ChaCha20(seed, _START), mode=None).encryptor()
    return lambda size: encryptor.update(bytes(size))
