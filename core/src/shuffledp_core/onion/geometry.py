"""Lengths of messages and envelopes of a round, from public parameters alone (invariant 7)."""

from __future__ import annotations

from typing import Final

import msgspec

from shuffledp_core.mechanisms import Mechanism
from shuffledp_core.onion.suites import suite_named

TAG_BYTES: Final = 16
"""A receipt tag: random, so that two of 2^40 collide with probability below 2^-48."""

MAX_MESSAGES_PER_USER: Final = 1_000_000
MAX_HOPS: Final = 16


class Geometry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Hops, messages per user and symbol width of a round, which fix all its lengths.

    No length depends on a value: a number of messages or a symbol's width that did would tell every observer on the
    wire what the noise is meant to hide.

    The plain message is `symbol || tag`. Hop 1 receives one envelope per user around its m inner onions; hops
    2..L receive one onion per message. docs/protocol.md, section "Onions".
    """

    suite: str
    hops: int
    messages_per_user: int
    symbol_bytes: int

    def __post_init__(self) -> None:
        # With a single hop the node that knows the senders would also see the symbols, and nobody else would mix.
        if not 2 <= self.hops <= MAX_HOPS:
            raise ValueError(f"hops must be from 2 to {MAX_HOPS}, not {self.hops}")
        if not 1 <= self.messages_per_user <= MAX_MESSAGES_PER_USER:
            raise ValueError(
                f"messages_per_user must be from 1 to {MAX_MESSAGES_PER_USER}, not {self.messages_per_user}"
            )
        if not 1 <= self.symbol_bytes <= 4:
            raise ValueError(f"symbol_bytes must be from 1 to 4, not {self.symbol_bytes}")

    @classmethod
    def of(cls, mechanism: Mechanism, suite: str, hops: int) -> Geometry:
        """The geometry of a round that runs `mechanism` over `hops` nodes with `suite`."""
        width = (mechanism.alphabet - 1).bit_length()
        return cls(
            suite=suite_named(suite).name,
            hops=hops,
            messages_per_user=mechanism.messages_per_user,
            symbol_bytes=max(1, -(-width // 8)),
        )

    @property
    def plain_bytes(self) -> int:
        """Length of `symbol || tag`."""
        return self.symbol_bytes + TAG_BYTES

    def record_bytes(self, position: int) -> int:
        """Length in bytes of one record that the node at `position` (2..hops) receives; hops + 1 is the analyst."""
        if not 2 <= position <= self.hops + 1:
            raise ValueError(f"position must be from 2 to {self.hops + 1}, not {position}")
        return self.plain_bytes + (self.hops + 1 - position) * suite_named(self.suite).overhead

    @property
    def envelope_bytes(self) -> int:
        """Length of one user's submission: hop 1's layer around m inner onions."""
        return self.messages_per_user * self.record_bytes(2) + suite_named(self.suite).overhead
