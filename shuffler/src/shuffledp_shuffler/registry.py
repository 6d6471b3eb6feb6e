"""The rounds that a mix node has in memory, and those whose files are damaged."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from shuffledp_core.documents.models import Roster
from shuffledp_core.errors import NodeFault, UnknownRoundError
from shuffledp_core.runtime.keys import Identity
from shuffledp_shuffler.checks import check_round_id
from shuffledp_shuffler.intake import Batches, Submissions
from shuffledp_shuffler.live import LiveRound
from shuffledp_shuffler.metrics import NodeMetrics
from shuffledp_shuffler.store import NodeStore
from shuffledp_shuffler.work import RoundPipeline


@dataclass(frozen=True)
class NodeServices:
    """Components of a node. `clock` gives milliseconds since 1970.

    `away_seconds`: a state folder that was idle for longer than this may be a restored backup.
    `foreign`: the node runs an experiment's code instead of ours.
    """

    identity: Identity
    roster: Roster
    store: NodeStore
    work: RoundPipeline
    submissions: Submissions
    batches: Batches
    clock: Callable[[], int]
    metrics: NodeMetrics
    away_seconds: float
    foreign: bool = False

    @property
    def corrupt(self) -> bool:
        """True if the node must declare itself corrupt: it logs secrets or runs other code."""
        return self.foreign or self.work.corruption is not None


class RoundRegistry:
    """The rounds of one node by their ids.

    `lock` is held while a round is added or removed. `started` is when the node was started,
    milliseconds since 1970: every round it took part in since then is here or on disk.
    """

    def __init__(self, started: int) -> None:
        self.lock = asyncio.Lock()
        self.started = started
        self._rounds: dict[str, LiveRound] = {}
        self._damaged: dict[str, NodeFault] = {}

    def all(self) -> list[LiveRound]:
        """All rounds, in no particular order. Safe from any thread."""
        return list(self._rounds.values())

    def find(self, round_id: str) -> LiveRound | None:
        """The round with this id; None if it is unknown or damaged."""
        return self._rounds.get(round_id)

    def get(self, round_id: str) -> LiveRound:
        """The round with this id.

        Raises `UnknownRoundError` if it is unknown, `NodeFault` if it is damaged.
        """
        live = self._rounds.get(round_id)
        if live is not None:
            return live
        if round_id in self._damaged:
            raise self._damaged[round_id]
        raise UnknownRoundError(
            f"round {check_round_id(round_id)} is not known to this node: it was never prepared, "
            "or was deleted"
        )

    def __contains__(self, round_id: str) -> bool:
        """True for a round that this node has, damaged or not."""
        return round_id in self._rounds or round_id in self._damaged

    def is_damaged(self, round_id: str) -> bool:
        """True if the round's files cannot be read."""
        return round_id in self._damaged

    def add(self, live: LiveRound) -> None:
        """Add a round."""
        self._rounds[live.record.round_id] = live

    def add_damaged(self, round_id: str, error: NodeFault) -> None:
        """Add a round whose files cannot be read; `get` will raise `error`."""
        self._damaged[round_id] = error

    def remove(self, round_id: str) -> None:
        """Remove a round, if it is present."""
        self._rounds.pop(round_id, None)
        self._damaged.pop(round_id, None)

    def start_work(self, live: LiveRound, pipeline: RoundPipeline) -> None:
        """Start to mix and relay a round, unless work is under way or the round is deleted."""
        # At most one job a round: two at a time would write two orders into one file.
        if live.job is None and not live.deleted:
            self.forget_hops(live)
            live.job = asyncio.create_task(pipeline.run(live))

    def forget_hops(self, but: LiveRound) -> None:
        """Erase the hops that rounds other than `but` have cached for inquiries, to free memory."""
        for live in self._rounds.values():
            if live is not but:
                live.forget_hop()
