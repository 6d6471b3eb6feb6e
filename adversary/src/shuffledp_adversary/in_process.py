"""A round in this process: real onions, peeling and mixing, with a log of every node.

No network, no keys of parties, no accountant: for attacks that need many rounds, and for exercises.
The steps are those of `shuffledp_shuffler.mixing`, by the shuffler's own functions. The caller may
name nodes that deviate: one that peels but keeps the order, one that does not look for repeated
onions, and one that tampers.

The randomness is a parameter. Real rounds use the operating system's. An exercise that must be
repeatable passes its own, and then keys, onions and orders are the same again, under the suite
"sealed-box".
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shuffledp_adversary.attacks.exchange.tampering import Pool, split_records
from shuffledp_client.encoding import encode
from shuffledp_core.mechanisms import Mechanism
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.onion.layers import seal_envelope
from shuffledp_core.onion.suites import suite_named
from shuffledp_core.sampling.randomness import RandomBytes, system_random
from shuffledp_shuffler.corruption import (
    CREDENTIAL_BYTES,
    VERSION,
    CorruptLog,
    LogHeader,
    link_digests,
)
from shuffledp_shuffler.duplicates import find_repeated
from shuffledp_shuffler.peel_worker import Layer, peel_chunk
from shuffledp_shuffler.permutation import Records, uniform_permutation
from shuffledp_shuffler.round_state import ENTRY

DEPLOYMENT: Final = "in-process"
_SUITE: Final = "sealed-box"

Route: TypeAlias = tuple[tuple[bytes, bytes], ...]
"""Round keys (private, public) of every hop."""

Tampering: TypeAlias = Callable[[Pool], Sequence[bytes]]
"""Function from a malicious node's honest output to the records that it sends; see
`exchange.tampering`.
"""


@dataclass(frozen=True)
class PlayedRound:
    """A round that was played in process.

    Attributes:
        geometry: the round's geometry.
        round_id: 32 hex digits.
        route: round keys of the hops.
        messages: the plain messages of every user, in the order of the entry node's spool.
        envelopes: the envelope that every user sent.
        logs: by position, the log that each node would have written if it were corrupt. The log of
            a tampering node describes its honest work.
        batches: by position, the packed records that each node sent on; the last one's are the
            board.
        dropped: by position, the number of onions that each node dropped.
    """

    geometry: Geometry
    round_id: str
    route: Route
    messages: tuple[tuple[bytes, ...], ...]
    envelopes: tuple[bytes, ...]
    logs: Mapping[int, CorruptLog]
    batches: Mapping[int, bytes]
    dropped: Mapping[int, int]

    @property
    def board(self) -> list[bytes]:
        """The plain messages on the board, in its order."""
        return split_records(self.batches[self.geometry.hops], self.geometry.plain_bytes)


@dataclass(frozen=True)
class Conduct:
    """Deviations of a round's nodes from honest behaviour, by position.

    Attributes:
        asleep: these peel and keep the order.
        careless: these do not look for repeated onions.
        tampering: these send other records than they mixed.
    """

    asleep: Collection[int] = ()
    careless: Collection[int] = ()
    tampering: Mapping[int, Tampering] | None = None


HONEST: Final = Conduct()


def plain_messages(
    geometry: Geometry, spec: Mechanism, answers: Sequence[int], random: RandomBytes = system_random
) -> list[list[bytes]]:
    """Plain messages of users with these randomised answers, with fresh tags."""
    return [encode(geometry, spec, answer, random) for answer in answers]


def fresh_route(geometry: Geometry, random: RandomBytes = system_random) -> Route:
    """Round keys for every hop; with "sealed-box" they depend only on `random`."""
    suite = suite_named(geometry.suite)
    if suite.name != _SUITE:
        return tuple(suite.generate() for _ in range(geometry.hops))
    from nacl import bindings

    pairs = [bindings.crypto_box_seed_keypair(random(32)) for _ in range(geometry.hops)]
    return tuple((private, public) for public, private in pairs)


def play(
    geometry: Geometry,
    messages: Sequence[Sequence[bytes]],
    conduct: Conduct = HONEST,
    random: RandomBytes = system_random,
) -> PlayedRound:
    """Play a round of users who send these plain messages.

    40 users with 3 messages and 3 nodes take some 0.1 s.

    Raises:
        ValueError: the messages do not fit the geometry.
    """
    route = fresh_route(geometry, random)
    round_id = random(16).hex()
    keys = [public for _, public in route]
    envelopes = tuple(
        seal_envelope(geometry, round_id, keys, user_messages, random) for user_messages in messages
    )
    credentials = np.frombuffer(random(CREDENTIAL_BYTES * len(envelopes)), dtype=np.uint8)
    packed, logs, batches, dropped = b"".join(envelopes), {}, {}, {}
    for position, (private, _) in enumerate(route, start=1):
        layer = Layer(geometry, round_id, position, private)
        node = _Node(layer, conduct, len(envelopes), random)
        log, packed = node.mix(packed, credentials.reshape(-1, CREDENTIAL_BYTES))
        packed = node.apply_tampering(packed, log, keys)
        logs[position], batches[position], dropped[position] = log, packed, log.header.dropped
    return PlayedRound(
        geometry,
        round_id,
        route,
        tuple(tuple(user_messages) for user_messages in messages),
        envelopes,
        logs,
        batches,
        dropped,
    )


@dataclass(frozen=True)
class _Node:
    layer: Layer
    conduct: Conduct
    users: int
    random: RandomBytes

    def mix(self, packed: bytes, credentials: NDArray[np.uint8]) -> tuple[CorruptLog, bytes]:
        """Carry out the steps of `mixing.mix` in memory."""
        layer, position = self.layer, self.layer.position
        units = np.frombuffer(packed, dtype=np.uint8).reshape(-1, layer.unit_bytes)
        total = len(units) * layer.records_per_unit
        duplicates = self._find_duplicates(units) if position > ENTRY else None  # 1
        peeled = peel_chunk(layer, packed)  # 2
        width = layer.geometry.record_bytes(position + 1)
        records = np.frombuffer(peeled.data, dtype=np.uint8).reshape(-1, width)
        places = np.setdiff1d(np.arange(total), np.array(peeled.closed, dtype=np.intp))
        if duplicates is None:  # 3
            duplicates = self._find_duplicates(records)
        keep = ~np.isin(places, duplicates)
        records, places = records[keep], places[keep]
        asleep = position in self.conduct.asleep
        order = (
            np.arange(len(records)) if asleep else uniform_permutation(len(records), self.random)
        )  # 5
        log = self._log(
            units, records[order], places[order], total, credentials if position == ENTRY else None
        )
        return log, records[order].tobytes()

    def apply_tampering(self, packed: bytes, log: CorruptLog, keys: Sequence[bytes]) -> bytes:
        """Return the packed records that the node sends.

        The victim is the first user at the entry, the first record elsewhere.
        """
        geometry, position = self.layer.geometry, self.layer.position
        tampering = (self.conduct.tampering or {}).get(position)
        if tampering is None:
            return packed
        records = split_records(packed, geometry.record_bytes(position + 1))
        victim = records[:1]
        if position == ENTRY:  # only here the node knows what is whose
            order = log.permutation.tolist()
            victim = [
                records[order.index(index)]
                for index in range(geometry.messages_per_user)
                if index in order
            ]
        return b"".join(
            tampering(Pool(geometry, self.layer.round_id, keys, position, records, victim))
        )

    def _find_duplicates(self, records: Records) -> NDArray[np.intp]:
        if self.layer.position in self.conduct.careless:
            return np.empty(0, dtype=np.intp)
        return find_repeated(records, self.random)

    def _log(
        self,
        units: Records,
        sent: Records,
        permutation: NDArray[np.intp],
        total: int,
        credentials: NDArray[np.uint8] | None,
    ) -> CorruptLog:
        header = LogHeader(
            version=VERSION,
            deployment=DEPLOYMENT,
            round_id=self.layer.round_id,
            node=f"node-{self.layer.position}",
            position=self.layer.position,
            users=self.users,
            records=len(sent),
            batch=hashlib.sha256(sent.tobytes()).hexdigest(),
            arrays={},
            dropped=total - len(sent),
        )
        return CorruptLog(
            header,
            permutation.astype(np.int64),
            link_digests(units),
            link_digests(sent),
            credentials,
        )
