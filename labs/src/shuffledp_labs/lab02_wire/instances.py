"""Instances of lab 2: flows of real envelopes, and boards with or without an outlier."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeAlias

import msgspec
import numpy as np

from shuffledp_core.mechanisms import GeoShuffle
from shuffledp_core.onion.geometry import TAG_BYTES, Geometry
from shuffledp_core.onion.layers import binding, seal_envelope
from shuffledp_core.onion.suites import suite_named
from shuffledp_core.sampling.exact import discrete_laplace
from shuffledp_core.sampling.randomness import RandomIntegers
from shuffledp_labs.instance import Draws

SYMBOL_BYTES: Final = 1
JITTER: Final = 24
"""Most bytes by which recorded connections differ for reasons of TLS alone; half a record is more
with two hops.
"""

FIRST_HOPS: Final = (2, 4, 3, 2)
SUITES: Final = ("sealed-box", "sealed-box", "hpke", "hpke-mlkem768-x25519")
"""Suites of the recordings of step B; the first has the shortest records, in which a forgotten
layer shows.
"""

Plain: TypeAlias = Sequence[bytes]
Public: TypeAlias = dict[str, int | str | Fraction]


@dataclass(frozen=True)
class Recording:
    """What an observer between users and node 1 recorded, with the true answers."""

    flows: tuple[tuple[str, int], ...]
    wire: dict[str, int]
    answers: dict[str, int]
    suite: str

    @property
    def title(self) -> str:
        """Name of the recording in messages to students."""
        return f"{len(self.answers)} clients, suite {self.suite}, {self.wire['hops']} nodes"


def wire_of(geometry: Geometry, connection: int, jitter: int) -> dict[str, int]:
    """The public lengths of the messages and envelopes of a round."""
    return {
        "hops": geometry.hops,
        "symbol": geometry.symbol_bytes,
        "tag": TAG_BYTES,
        "layer": suite_named(geometry.suite).overhead,
        "connection": connection,
        "jitter": jitter,
    }


def longest(flows: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Bytes of each client's longest connection, which is the complete one."""
    sizes: dict[str, int] = {}
    for client, size in flows:
        sizes[client] = max(size, sizes.get(client, 0))
    return sizes


def geometry_of(suite: str, hops: int, messages: int) -> Geometry:
    """Geometry of a round whose messages are bits."""
    return Geometry(suite=suite, hops=hops, messages_per_user=messages, symbol_bytes=SYMBOL_BYTES)


def seal(geometry: Geometry, keys: Sequence[bytes], messages: Plain, draws: Draws) -> bytes:
    """Envelope of these messages; without messages, as a client that saves traffic would send."""
    if not messages:
        return suite_named(geometry.suite).sealer(keys[0], binding(_ROUND, 1), draws.bytes)(b"")
    shortened = msgspec.structs.replace(geometry, messages_per_user=len(messages))
    return seal_envelope(shortened, _ROUND, keys, messages, draws.bytes)


_ROUND: Final = "00" * 16


def route_keys(geometry: Geometry) -> list[bytes]:
    """Public round keys of a route."""
    return [suite_named(geometry.suite).generate()[1] for _ in range(geometry.hops)]


def only_ones(draws: Draws, suite: str, hops: int) -> Recording:
    """Recording of clients that send a message for each one, and none for zeros."""
    spec = GeoShuffle(max_value=8 + draws.below(6), epsilon_geo=Fraction(1, 2), padding=4)
    integers = RandomIntegers(draws.bytes)
    users = 30 + draws.below(11)
    answers = [spec.sample(draws.below(spec.domain), integers) for _ in range(users)]
    answers[0] = (
        answers[1] + 1
    ) % spec.messages_per_user  # never all alike: then lengths would tell nothing
    return record_clients(
        draws, geometry_of(suite, hops, spec.messages_per_user), answers, padded=False
    )


def all_alike(draws: Draws, suite: str, hops: int) -> Recording:
    """Recording of clients that all send the same number of messages."""
    messages = 6 + draws.below(6)
    answers = [draws.below(messages + 1) for _ in range(20 + draws.below(6))]
    return record_clients(draws, geometry_of(suite, hops, messages), answers, padded=True)


def record_clients(
    draws: Draws, geometry: Geometry, answers: Sequence[int], *, padded: bool
) -> Recording:
    """Recording of clients with the given answers.

    The envelopes are real, some connections break off, and transport adds a little noise.
    """
    keys = route_keys(geometry)
    connection = 2500 + draws.below(1500)
    flows: list[tuple[str, int]] = []
    truth = {}
    for number, answer in enumerate(answers):
        client = f"client-{number + 1:02}"
        count = geometry.messages_per_user if padded else answer
        messages = [b"\x01" + draws.bytes(TAG_BYTES) for _ in range(count)]
        size = len(seal(geometry, keys, messages, draws))
        truth[client] = answer
        flows.append((client, connection + size + draws.below(JITTER + 1)))
        flows += [(client, connection + draws.below(size * 9 // 10)) for _ in range(draws.below(3))]
    flows = list(draws.permute(flows))
    # One that surely broke off after the whole one: the last connection of a client is not the one
    # to read.
    flows.append((flows[0][0], connection))
    return Recording(tuple(flows), wire_of(geometry, connection, JITTER), truth, geometry.suite)


@dataclass(frozen=True)
class ShuffledBoard:
    """A board of step D, and whether its far user holds the far value."""

    board: tuple[int, ...] | bytes
    public: Public
    far: bool

    @property
    def title(self) -> str:
        """Name of the board in messages to students."""
        public = self.public
        return (
            f"{public['users']} users, {public['shuffled']}, far value {public['far']}, rate "
            f"{public['rate']}"
        )


CLEAR: Final = 44
"""Far value times rate of numbers that tell: a user's noise covers half of it with e^-22."""

PAIR_CLEAR: Final = 32
"""Far value times rate of two users' bits that tell; smaller than in `silent_bits`."""


def telling_numbers(draws: Draws) -> ShuffledBoard:
    """A board of numbers with a user so far out that the largest number reveals it."""
    rate = draws.choice(_RATES)
    far = -(-CLEAR * rate.denominator // rate.numerator) + draws.below(10)
    return _numbers(draws, 100 + draws.below(100), far, rate)


def telling_bits(draws: Draws) -> ShuffledBoard:
    """A board of bits from two users, too few to hide even a fairly near value."""
    rate = draws.choice(_RATES)
    far = -(-PAIR_CLEAR * rate.denominator // rate.numerator) + draws.below(2)
    return _bits(draws, 2, far, rate)


def telling_crowd_bits(draws: Draws) -> ShuffledBoard:
    """A board of bits from a crowd, with a user too far out for the crowd's noise."""
    rate = draws.choice(_RATES)
    users = 30 + draws.below(31)
    return _bits(draws, users, math.ceil(14 * _deviation(users, rate)), rate)


def silent_numbers(draws: Draws) -> ShuffledBoard:
    """A board of numbers with a user no farther out than noise alone can reach."""
    rate = draws.choice(_RATES)
    return _numbers(draws, 200 + draws.below(100), 2 * rate.denominator // rate.numerator, rate)


def silent_bits(draws: Draws) -> ShuffledBoard:
    """A board of bits from a large crowd, whose noise hides even a far value."""
    rate = draws.choice(_RATES)
    users = 1750 + draws.below(100)
    return _bits(draws, users, math.floor(0.6 * _deviation(users, rate)), rate)


def silent_few_bits(draws: Draws) -> ShuffledBoard:
    """A board of bits from a few users, with a far value within their noise."""
    rate = draws.choice(_RATES)
    users = 3 + draws.below(4)
    return _bits(draws, users, math.ceil(0.4 * _deviation(users, rate)), rate)


def _deviation(users: int, rate: Fraction) -> float:
    """Standard deviation of the sum of all users' noise."""
    ratio = math.exp(-rate)
    return math.sqrt(2 * users * ratio) / (1 - ratio)


_RATES: Final = (Fraction(1, 2), Fraction(2, 3), Fraction(1))


def _reports(draws: Draws, users: int, far: int, rate: Fraction) -> tuple[bool, list[int]]:
    integers = RandomIntegers(draws.bytes)
    holds = bool(draws.below(2))
    noisy = [discrete_laplace(rate, integers) for _ in range(users)]
    noisy[0] += far if holds else 0
    return holds, noisy


def _numbers(draws: Draws, users: int, far: int, rate: Fraction) -> ShuffledBoard:
    holds, noisy = _reports(draws, users, far, rate)
    public: Public = {
        "shuffled": "numbers",
        "users": users,
        "far": far,
        "rate": rate,
        "padding": 0,
        "messages": 1,
    }
    return ShuffledBoard(tuple(draws.permute(noisy)), public, holds)


def _bits(draws: Draws, users: int, far: int, rate: Fraction) -> ShuffledBoard:
    holds, noisy = _reports(draws, users, far, rate)
    padding = -(-30 * rate.denominator // rate.numerator)
    messages = far + 2 * padding
    ones = sum(min(max(report + padding, 0), messages) for report in noisy)
    bits = np.zeros(users * messages, dtype=np.uint8)
    bits[:ones] = 1
    # The order means nothing; it only must not be the sorted one, on which a wrong program may work
    # by accident.
    board = np.random.default_rng(draws.below(2**32)).permutation(bits).tobytes()
    public: Public = {
        "shuffled": "bits",
        "users": users,
        "far": far,
        "rate": rate,
        "padding": padding,
        "messages": messages,
    }
    return ShuffledBoard(board, public, holds)
