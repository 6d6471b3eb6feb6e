"""A mix node whose peeling and mixing is a student's file.

Everything else is the shuffler's own code.

The student's program runs in its own process (see `shuffledp_labs.student`): it gets the round key
and the batch, and returns the records to send. Randomness is the operating system's. The node
declares itself corrupt, like every node that runs foreign code.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from nacl.exceptions import CryptoError
from nacl.public import PrivateKey, SealedBox

from shuffledp_core.documents.models import BatchHeader
from shuffledp_core.errors import BadBatchError, NodeFault
from shuffledp_core.runtime.files import write_atomic
from shuffledp_core.runtime.tasks import in_thread
from shuffledp_core.sampling.exact import bernoulli, bernoulli_exp
from shuffledp_core.sampling.randomness import RandomIntegers
from shuffledp_labs.errors import StudentFault
from shuffledp_shuffler.checks import check_dropped
from shuffledp_shuffler.live import LiveRound
from shuffledp_shuffler.node import MixNode
from shuffledp_shuffler.registry import NodeServices
from shuffledp_shuffler.work import RoundPipeline


class SystemCoins:
    """Coins from the operating system, for a student's node in a real round."""

    def __init__(self) -> None:
        self._integers = RandomIntegers()

    def below(self, n: int) -> int:
        """A uniform whole number from 0 to n - 1."""
        return self._integers.below(n)

    def flip(self, p: Fraction) -> bool:
        """True with probability p."""
        return bernoulli(p, self._integers)

    def flip_exp(self, g: Fraction) -> bool:
        """True with probability e^-g."""
        return bernoulli_exp(g, self._integers)


Mix = Callable[[bytes, list[bytes]], Any]
"""The student's `mix`, given the private round key and the batch."""


@dataclass(frozen=True)
class StudentPipeline(RoundPipeline):
    """A node's pipeline that mixes with a student's function, and otherwise is unchanged."""

    mix: Mix
    orders: Path | None = None

    async def mix_batch(self, live: LiveRound) -> BatchHeader:
        """See `RoundPipeline.mix_batch`.

        Onions missing from the student's output count as dropped, and the header states their
        number.
        """
        record, terms = live.record, live.require_terms()
        if record.is_entry:
            raise NodeFault(
                "a student's node stands behind the entry node: put another first on the route"
            )
        width = terms.geometry.record_bytes(record.position)
        packed = live.folder.incoming.read_bytes()
        batch = [packed[start : start + width] for start in range(0, len(packed), width)]
        try:
            returned = await in_thread(self.mix, live.require_key(), batch)
        except StudentFault as error:
            raise BadBatchError(f"mix gave nothing to send on: {error}") from error
        records = _check_records(
            returned, len(batch), terms.geometry.record_bytes(record.position + 1)
        )
        dropped = record.dropped_before + len(batch) - len(records)
        check_dropped(dropped, record.accepted, terms)
        if self.orders is not None:
            _append_order(self.orders, live.require_key(), batch, records)
        out = b"".join(records)
        write_atomic(live.folder.outgoing, out)
        return BatchHeader(
            round_id=record.round_id,
            position=record.position + 1,
            users=record.accepted,
            records=len(records),
            digest=hashlib.sha256(out).hexdigest(),
            dropped=dropped,
        )


def _check_records(records: Any, most: int, width: int) -> Sequence[bytes]:
    if not isinstance(records, tuple | list) or not all(
        isinstance(record, bytes) for record in records
    ):
        raise BadBatchError(
            f"mix gave a {type(records).__name__} where a list of bytes is expected"
        )
    if len(records) > most:
        raise BadBatchError(
            f"mix gave {len(records)} records of {most}: a node may drop, and never add"
        )
    wrong = sum(len(record) != width for record in records)
    if wrong:
        raise BadBatchError(
            f"{wrong} of the {len(records)} records that mix gave do not have {width} bytes"
        )
    return records


def _append_order(file: Path, key: bytes, batch: Sequence[bytes], records: Sequence[bytes]) -> None:
    """Append a line of JSON: each output record's position in the input.

    The node peels the batch itself, apart from the student's program. Records that it finds nowhere
    are left out.
    """
    box = SealedBox(PrivateKey(key))
    places: dict[bytes, int] = {}
    leaving = set(records)
    for layer in batch:
        with suppress(CryptoError):
            if (inner := box.decrypt(layer)) in leaving:
                places.setdefault(inner, len(places))
    order = [places[record] for record in records if record in places]
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(order) + "\n")


def student_node(mix: Mix, orders: Path | None = None) -> Callable[[NodeServices], MixNode]:
    """A function that makes a node from an honest node's services, with this mixing.

    Args:
        mix: the student's.
        orders: a file to which the node appends the order of each batch, for the grader.
    """

    def node_of(parts: NodeServices) -> MixNode:
        work = parts.work
        pipeline = StudentPipeline(
            work.identity,
            work.pool,
            work.relay,
            work.metrics,
            None,
            mix,
            orders,
            memory=work.memory,
        )
        return MixNode(replace(parts, work=pipeline))

    return node_of
