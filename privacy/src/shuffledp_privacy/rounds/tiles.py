"""Privacy cost of requesting one tile of the board (docs/accounting.md, C22)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from shuffledp_core.errors import CannotCertify
from shuffledp_core.mechanisms.base import Spec
from shuffledp_privacy.bounds import Setting, certified_epsilon

_SLACK: Final = 1 + 1e-9
"""Relative error of an exponent in floating point is far less."""


def tile_crowd(honest: int, bits: int, chance: float) -> int:
    """Number of honest people in a tile, with the requester; fewer with probability `chance`.

    Args:
        honest: h >= 1, honest people of the round.
        bits: number of bits that name a tile; there are 2^bits of them.
        chance: chance of a smaller crowd, above 0 and below 1; by Chernoff's bound it is not
            exceeded.

    Returns:
        The largest K that the bound shows, rounded down; 1 if it shows nothing.
    """
    others, share = honest - 1, 2.0**-bits
    if bits == 0 or honest == 1:
        return honest
    needed = -math.log(chance) * _SLACK
    low, high = -1, int(others * share)  # a crowd of low + 2 is shown
    while low < high:
        middle = (low + high + 1) // 2
        if others * _divergence(middle / others, share) >= needed * _SLACK:
            low = middle
        else:
            high = middle - 1
    return low + 2


def tile_epsilon(spec: Spec, setting: Setting, delta: float, bits: int) -> float:
    """Certified ε at `delta` against a party that sees the board and who requested which tile.

    Half of `delta` covers the event that fewer people share the tile than `tile_crowd` states.

    Raises:
        CannotCertify: a user of this mechanism sends several messages, or nodes add some.
    """
    if spec.messages_per_user > 1 or spec.dummies_per_node or not spec.needs_crowd:
        raise CannotCertify(
            f"what the request for a tile reveals is certified only where each user sends one "
            f"message and no node adds any, not for {spec.kind}"
        )
    if bits == 0:
        return certified_epsilon(spec, setting, delta)
    crowd = tile_crowd(setting.honest, bits, delta / 2)
    return certified_epsilon(spec, replace(setting, users=crowd, honest=crowd), delta / 2)


def _divergence(share: float, expected: float) -> float:
    """Relative entropy, nats, of coins with these probabilities; `share` <= `expected`."""
    below = share * math.log(share / expected) if share > 0 else 0.0
    return below + (1 - share) * (math.log1p(-share) - math.log1p(-expected))
