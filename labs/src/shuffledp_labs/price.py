"""Cost of provable mixing relative to plain mixing: exact bytes, and measured processor time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.vocabulary import Mix

USERS: Final = 12
_TURNS: Final = 3
"""The least of this number of measurements counts: what else the machine does only adds to each; it
can move their ratio.
"""


@dataclass(frozen=True)
class MixingPrice:
    """Costs of the same round in both modes, as pairs (plain, verified).

    Attributes:
        device: microseconds of processor time a message, to seal it.
        node: microseconds of processor time a message at node 2: plain to open it; verified to
            check, open, blind and prove.
        sent: bytes that a user sends.
        board: bytes of a message on the board.
    """

    device: tuple[float, float]
    node: tuple[float, float]
    sent: tuple[int, int]
    board: tuple[int, int]

    def __str__(self) -> str:
        parts = (
            ("a device", self.device, "µs a message"),
            ("a node", self.node, "µs a message"),
            ("what a user sends", self.sent, "bytes"),
            ("a message on the board", self.board, "bytes"),
        )
        return "; ".join(
            f"{what} {verified / plain:.1f} times ({plain:.0f} to {verified:.0f} {unit})"
            for what, (plain, verified), unit in parts
        )


def measure_price(geometry: Geometry) -> MixingPrice:
    """Costs of rounds with this geometry, measured with `USERS` users.

    It takes about a second.

    Raises:
        ValueError: the geometry is a verified round's.
    """
    if geometry.mix == Mix.VERIFIED:
        raise ValueError(
            "the price is that of verified mixing over a plain round, but the geometry is not "
            "that of a plain round"
        )
    verified = msgspec.structs.replace(geometry, mix=Mix.VERIFIED)
    turns = [(_plain_costs(geometry), _verified_costs(geometry)) for _ in range(_TURNS)]
    messages = USERS * geometry.messages_per_user

    def least(part: int) -> tuple[float, float]:
        plain, other = (min(turn[kind][part] for turn in turns) / messages for kind in (0, 1))
        return plain, other

    return MixingPrice(
        least(0),
        least(1),
        (geometry.envelope_bytes, verified.envelope_bytes),
        (geometry.plain_bytes, verified.plain_bytes),
    )


def _processor_microseconds(work: Callable[[], object]) -> float:
    """Processor time of `work`, in microseconds."""
    began = time.process_time_ns()
    work()
    return (time.process_time_ns() - began) / 1000


def _plain_costs(geometry: Geometry) -> tuple[float, float]:
    """Processor times of sealing by all users, and of decrypting all messages at node 2."""
    from shuffledp_adversary.in_process import fresh_route
    from shuffledp_core.onion.layers import open_envelope, peel, seal_envelope

    route = fresh_route(geometry)
    round_id = "00" * 16
    keys, content = (
        [public for _, public in route],
        [bytes(geometry.plain_bytes)] * geometry.messages_per_user,
    )
    sent: list[bytes] = []
    device = _processor_microseconds(
        lambda: sent.extend(seal_envelope(geometry, round_id, keys, content) for _ in range(USERS))
    )
    batch = b"".join(open_envelope(geometry, round_id, route[0][0], envelope) for envelope in sent)
    return device, _processor_microseconds(lambda: peel(geometry, round_id, 2, route[1][0], batch))


def _verified_costs(geometry: Geometry) -> tuple[float, float]:
    """The same processor times with provable mixing, where a node also checks the claims."""
    from shuffledp_adversary.in_process_mixproof import Parties, claims_of
    from shuffledp_core.mixproof.claims import PreparedClaim, check_list, make_claim
    from shuffledp_core.mixproof.hops import Hop

    parties = Parties.fresh(geometry.hops, geometry.messages_per_user, 2, (USERS, USERS))
    terms, symbols = parties.terms, [1] * geometry.messages_per_user
    users: list[PreparedClaim] = []
    device = _processor_microseconds(
        lambda: users.extend(
            make_claim(terms, symbols, os.urandom(32), os.urandom) for _ in range(USERS)
        )
    )
    claims = claims_of(users)
    enrolled, signature = {claim.credential for claim in claims}, parties.list_signature(claims)

    def at(position: int) -> Hop:
        listed = check_list(terms, claims, enrolled, signature)
        return Hop(
            terms, listed, position, parties.secrets[position - 1], parties.signers[position - 1]
        )

    first = at(1)
    first.take({user.claim.credential: user.submission for user in users})
    first.accuse(os.urandom)
    header, records = first.release(os.urandom)

    def second() -> None:
        hop = at(2)
        hop.receive([header], [], records)
        hop.accuse(os.urandom)
        hop.release(os.urandom)

    return device, _processor_microseconds(second)
