"""Lab 3, Be the node: what your node does with a batch.

The handout is README.md; the network is not yours to write.
"""

from __future__ import annotations

from typing import Any

# You will want hashlib.blake2b, nacl.bindings.crypto_scalarmult_base, nacl.bindings.crypto_box_open
# and nacl.exceptions.CryptoError.


def peel(key: bytes, layer: bytes) -> bytes:
    """Step B. Opens one sealed box with your private key and returns what is inside.

    Args:
        key: your private key of the round, 32 bytes.
        layer: what arrived: 32 bytes ephemeral public key, then the box.

    Raises:
        ValueError: it does not open, whatever the reason.
    """
    raise NotImplementedError


def mix(key: bytes, records: list[bytes], coins: Any) -> list[bytes]:
    """Step C. Peels a batch, and hides what was where.

    Args:
        key: as above.
        records: the onions that your predecessor sent, in its order.
        coins: the only source of chance: `coins.below(n)` is a uniform whole number from 0 to n -
            1.

    Returns:
        What leaves your node, in the order in which it leaves.
    """
    raise NotImplementedError
