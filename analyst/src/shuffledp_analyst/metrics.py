"""Metrics of the analyst, and the state of the newest round at every node.

If the metrics of a round named it, their number would grow without end. So there is one set of
them, for the round that was opened last, and it keeps its last values when that round has ended.
For earlier rounds see the log and the results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import Collector

from shuffledp_analyst.config import AnalystConfig
from shuffledp_analyst.progress import (
    ACCEPTING,
    DONE,
    FAILED,
    MIXING,
    OPEN,
    RELAYING,
    Event,
    NodeStatus,
)
from shuffledp_analyst.round import RoundLifecycle, RoundStage
from shuffledp_core.errors import codes
from shuffledp_core.transport.metrics import ServiceMetrics

PHASES: Final = (OPEN, MIXING, RELAYING, DONE, FAILED)
"""Phases of a round at a node. OPEN: it takes submissions, or waits for the batch of its
predecessor.
"""

PUBLISHED: Final = "published"
"""Outcome of a round that went well; any other outcome is the name of the error class that ended
it.
"""


class AnalystMetrics(ServiceMetrics):
    """Metrics page of the analyst, except for those that `NewestRound` computes."""

    def __init__(self, config: AnalystConfig) -> None:
        super().__init__(config)
        self.rounds = self.counter("shuffledp_analyst_rounds_ended", "Rounds by end", "outcome")
        for outcome in (
            PUBLISHED,
            *codes(),
        ):  # from the start: a rise from nothing is no rise to Prometheus
            self.rounds.labels(outcome)
        self.seconds = self.histogram(
            "shuffledp_analyst_time_to_result_seconds",
            "Seconds from the close of a published round to its result",
            (1, 2, 5, 10, 30, 60, 120, 300, 600, 1200, 3600, 7200),
        )
        self.messages = self.counter(
            "shuffledp_analyst_messages_decoded", "Messages of decoded boards"
        )


@dataclass(frozen=True)
class RoundView:
    """Read-only view of a round for the metrics page."""

    round: RoundLifecycle
    statuses: Mapping[str, NodeStatus]
    events: Callable[[], Sequence[Event]]


class NewestRound(Collector):
    """A Prometheus collector: unfinished rounds by stage, and the newest round by node.

    It only reads.

    `running` returns the running rounds; `newest` the one that was opened last, or None before the
    first.
    """

    def __init__(
        self,
        running: Callable[[], Sequence[RoundLifecycle]],
        newest: Callable[[], RoundView | None],
    ) -> None:
        self._running = running
        self._newest = newest

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """See `prometheus_client.registry.Collector`."""
        stages = Counter(running.stage for running in self._running())
        rounds = GaugeMetricFamily("shuffledp_analyst_rounds", "Rounds in work", labels=["stage"])
        for stage in RoundStage:
            rounds.add_metric([stage], stages[stage])
        yield rounds
        view = self._newest()
        if view is not None:
            yield from _round(view)
            yield from _nodes(view)
            yield _seconds(view)


def _round(view: RoundView) -> Iterable[GaugeMetricFamily]:
    stages = GaugeMetricFamily(
        "shuffledp_analyst_round_stage", "1 for the newest round's stage", labels=["stage"]
    )
    for stage in RoundStage:
        stages.add_metric([stage], stage is view.round.stage)
    yield stages
    counts = {
        "accepted": next((event.done for event in view.events() if event.stage == ACCEPTING), 0),
        "min": view.round.plan.min_reports,
        "max": view.round.plan.max_reports,
    }
    for name, count in counts.items():
        yield GaugeMetricFamily(
            f"shuffledp_analyst_round_{name}_reports", f"Reports: {name}", value=count
        )


def _nodes(view: RoundView) -> Iterable[GaugeMetricFamily]:
    phases = GaugeMetricFamily(
        "shuffledp_analyst_node_phase",
        "1 for the phase of the newest round at a node",
        labels=["node", "phase"],
    )
    for node, status in list(view.statuses.items()):
        for phase in PHASES:
            phases.add_metric([node, phase], phase == status.phase)
    yield phases
    done = GaugeMetricFamily(
        "shuffledp_analyst_node_done_records",
        "Records through a phase, newest round",
        labels=["node", "phase"],
    )
    total = GaugeMetricFamily(
        "shuffledp_analyst_node_total_records",
        "Records of a phase, newest round",
        labels=["node", "phase"],
    )
    for event in view.events():
        if event.node:
            done.add_metric([event.node, event.stage], event.done)
            total.add_metric([event.node, event.stage], event.total)
    yield done
    yield total


def _seconds(view: RoundView) -> GaugeMetricFamily:
    """Durations of finished stages; the label `node` is empty for the analyst's own."""
    seconds = GaugeMetricFamily(
        "shuffledp_analyst_stage_seconds",
        "Seconds of a finished stage, newest round",
        labels=["stage", "node"],
    )
    for event in view.events():
        if event.seconds > 0:
            seconds.add_metric([event.stage, event.node], event.seconds)
    return seconds
