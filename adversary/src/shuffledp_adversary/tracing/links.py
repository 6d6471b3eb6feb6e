"""Joins the logs of corrupt nodes by the ciphertexts in them. Pure.

Records are matched by their bytes, not by indices: a record that left one node is looked up among
the records that came in at the next log along the route, and finally on the public board. If a node
in between is honest, every record has lost a layer, so nothing is found. The adversary can still
test whether that node forgot to mix, so that each record kept its position.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shuffledp_shuffler.corruption import CorruptLog, as_keys, link_digests

NOBODY = -1


@dataclass(frozen=True)
class JoinStep:
    """An attempted join: `joined` of the `records` that left `before` were found at `after`."""

    before: str
    after: str
    records: int
    joined: int


@dataclass(frozen=True)
class Links:
    """Result of a join.

    Attributes:
        senders: shape (messages,), the user (place in node 1's spool) of each message, or -1.
        placed: the senders if nodes without a log kept the order of their batch.
        steps: the joins on the way.
    """

    senders: NDArray[np.int64]
    placed: NDArray[np.int64]
    steps: tuple[JoinStep, ...]


def join_logs(logs: Mapping[int, CorruptLog], board: NDArray[np.uint8]) -> Links:
    """Follow every record from the senders at node 1 to the board, as far as logs lead.

    Args:
        logs: the corrupt nodes' logs by position on the route, at least one.
        board: shape (messages, bytes of one), the published messages.
    """
    ordered = [logs[position] for position in sorted(logs)]
    senders = placed = _at_the_start(ordered[0])
    steps = []
    for log, following in zip(ordered, [*ordered[1:], None], strict=True):
        left_senders = _with_dummies(senders, log)[log.permutation]
        left_placed = _with_dummies(placed, log)[log.permutation]
        came = link_digests(board) if following is None else following.incoming
        places = find_rows(log.outgoing, came)
        joined = places >= 0
        senders = np.full(len(came), NOBODY, dtype=np.int64)
        senders[places[joined]] = left_senders[joined]
        # As if the nodes between the two logs had kept the order; to be tried only where they
        # dropped nothing.
        placed = (
            left_placed.copy()
            if len(came) == len(left_placed)
            else np.full(len(came), NOBODY, dtype=np.int64)
        )
        placed[places[joined]] = left_placed[joined]
        after = "the board" if following is None else following.header.node
        steps.append(JoinStep(log.header.node, after, len(places), int(joined.sum())))
    return Links(senders, placed, tuple(steps))


def find_rows(rows: NDArray[np.uint8], among: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Index in `among` of every row of `rows`, or -1.

    Both have rows of one width, and all rows differ.
    """
    if not len(among):
        return np.full(len(rows), -1, dtype=np.int64)
    keys = as_keys(rows)
    among_keys = as_keys(among)
    order = np.argsort(among_keys)
    # A row above all of them has no place there; clipped to the last, it fails the comparison
    # below.
    places = np.minimum(np.searchsorted(among_keys[order], keys), len(among_keys) - 1)
    candidates = order[places]
    return np.where(among_keys[candidates] == keys, candidates, -1).astype(np.int64)


def _with_dummies(senders: NDArray[np.int64], log: CorruptLog) -> NDArray[np.int64]:
    """The senders of a log's pool, then -1 for each of the node's dummies."""
    return np.append(senders, np.full(log.header.dummies, NOBODY, dtype=np.int64))


def _at_the_start(first: CorruptLog) -> NDArray[np.int64]:
    """Sender of each record in the first log's pool; unknown after an honest node 1."""
    records, users = first.header.pool, first.header.users
    if first.credentials is None:
        return np.full(records, NOBODY, dtype=np.int64)
    return np.arange(records, dtype=np.int64) // (records // users)
