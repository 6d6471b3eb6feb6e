"""Lab 3, Be the node: write what your node does with a batch.

The handout is README.md; the network is not yours to write.
"""

from __future__ import annotations

from typing import Any

# You will want hashlib.blake2b, nacl.bindings.crypto_scalarmult_base, nacl.bindings.crypto_box_open
# and nacl.exceptions.CryptoError.


def peel(key: bytes, layer: bytes) -> bytes:
    """Step B: open one sealed box with your private key, and return its content.

    Args:
        key: your private key of the round, 32 bytes.
        layer: the bytes that arrived: an ephemeral public key of 32 bytes, then the box.

    Raises:
        ValueError: the box does not open, for whatever reason.
    """
    raise NotImplementedError


def mix(key: bytes, records: list[bytes], coins: Any) -> list[bytes]:
    """Step C: peel a batch, and hide which record came from where.

    Args:
        key: your private key of the round, 32 bytes.
        records: the onions that your predecessor sent, in its order.
        coins: the only source of chance: `coins.below(n)` is a uniform whole number from 0 to n -
            1.

    Returns:
        What leaves your node, in the order in which it leaves.
    """
    raise NotImplementedError
