"""The operating system's CSPRNG, the only randomness of clients and shufflers.

Values are randomised and batches permuted with it alone (invariants 2 and 3).

The only seed of the protocol is the one that a device seals a submission with,
`shuffledp_core.onion.seeds`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeAlias

RandomBytes: TypeAlias = Callable[[int], bytes]
"""`source(n)` gives n fresh uniform bytes. Tests may pass a recorded stream; services never do."""

system_random: RandomBytes = os.urandom

# One read of the source serves thousands of draws: most of them take a single byte.
_BLOCK = 4096


class RandomIntegers:
    """Exact uniform integers from a byte source; the source is read in blocks, bytes are used once.

    Not thread-safe: one instance per task.
    """

    def __init__(self, source: RandomBytes = system_random) -> None:
        self._source = source
        self._block = b""
        self._used = 0

    def below(self, bound: int) -> int:
        """A uniform integer in {0..bound-1}, by rejection, exactly. `bound` must be positive."""
        if bound <= 0:
            raise ValueError(f"bound must be positive, not {bound}")
        bits = (bound - 1).bit_length()
        if bits == 0:
            return 0
        width = (bits + 7) // 8
        excess = 8 * width - bits
        while True:
            start, end = self._used, self._used + width
            if end > len(self._block):
                # What is left of the old block is dropped, not joined to the new one: no byte
                # serves two draws.
                self._block = self._source(max(_BLOCK, width))
                start, end = 0, width
            self._used = end
            # One byte, the usual case, is an integer already.
            draw = (
                self._block[start] if width == 1 else int.from_bytes(self._block[start:end], "big")
            )
            # As many bits as bound - 1 has: more than half of all draws are then accepted.
            draw >>= excess
            if (
                draw < bound
            ):  # a remainder instead would favour small numbers: privacy proofs need the exact law
                return draw
