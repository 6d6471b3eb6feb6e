"""Gauges of a node's state, computed whenever its metrics page is read: rounds, records, bytes.

This runs in the thread of the metrics page and only reads; a round that changes meanwhile is seen
as before or as after the change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import Collector

from shuffledp_shuffler.live import LiveRound, RoundSnapshot
from shuffledp_shuffler.round_state import Phase
from shuffledp_shuffler.store import NodeStore

WORKING: Final = (Phase.MIXING, Phase.RELAYING)


@dataclass(frozen=True)
class Inventory(Collector):
    """A Prometheus collector over the live rounds and the disk of one node."""

    rounds: Callable[[], Sequence[LiveRound]]
    store: NodeStore

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """See `prometheus_client.registry.Collector`."""
        now = [live.snapshot() for live in self.rounds()]
        phases = Counter(snapshot.record.phase for snapshot in now)
        yield _family(
            "shuffledp_node_rounds", "Rounds at this node", "phase", {p: phases[p] for p in Phase}
        )
        collected = sum(snapshot.accepted for snapshot in _in(Phase.OPEN, now))
        yield GaugeMetricFamily(
            "shuffledp_node_open_submissions", "In the pools of open rounds", value=collected
        )
        total = {phase: sum(snapshot.total for snapshot in _in(phase, now)) for phase in WORKING}
        yield _family("shuffledp_node_pool_records", "Records in work", "phase", total)
        done = {phase: sum(snapshot.done for snapshot in _in(phase, now)) for phase in WORKING}
        yield _family(
            "shuffledp_node_pool_done_records", "Of these, through the phase", "phase", done
        )
        yield _family(
            "shuffledp_node_spool_bytes", "Bulk data on disk", "file", self.store.spool_bytes()
        )


def _in(phase: Phase, snapshots: Sequence[RoundSnapshot]) -> Iterable[RoundSnapshot]:
    return (snapshot for snapshot in snapshots if snapshot.record.phase is phase)


def _family(
    name: str, help_: str, label: str, values: dict[Phase, int] | dict[str, int]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, help_, labels=[label])
    for key, value in values.items():
        family.add_metric([str(key)], value)
    return family
