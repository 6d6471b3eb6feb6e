"""Metrics of a mix node: submissions, records, bytes, rounds, and time and rate of each stage.

`NodeMetrics` counts events where they happen; `inventory` adds the present state when the page is
read.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from shuffledp_core.runtime.config import ServiceConfig
from shuffledp_core.transport.metrics import ServiceMetrics, children_resident_bytes
from shuffledp_shuffler.round_state import Phase

PEEL: Final = "peel"
CHECK: Final = "check"
PERMUTE: Final = "permute"
WRITE: Final = "write"
RELAY: Final = "relay"

STAGES: Final = (CHECK, PEEL, PERMUTE, WRITE, RELAY)
"""Stages of a node's work on a round: it looks for repeated onions, peels a layer, permutes the
pool, writes it, and relays the batch. A later node looks for repeated onions before it peels, the
entry node while it peels and afterwards.
"""

DELETED: Final = "deleted"
"""Outcome of a round that the analyst deleted before it ended at this node."""


class NodeMetrics(ServiceMetrics):
    """Metrics page of a mix node. Counting is safe from any thread."""

    def __init__(self, config: ServiceConfig) -> None:
        super().__init__(config)
        counter, gauge = self.counter, self.gauge
        self.accepted = counter(
            "shuffledp_node_submissions_accepted", "Submissions on disk; repetitions do not count"
        )
        self.proof_checks = counter(
            "shuffledp_node_proof_checks", "Checked proofs of submissions to verified rounds"
        )
        self.records = counter(
            "shuffledp_node_records", "Records through a phase, as it goes", "phase"
        )
        self.dropped = counter(
            "shuffledp_node_records_dropped", "Onions that failed to decrypt, or were repeated"
        )
        self.batch_bytes = counter(
            "shuffledp_node_batch_bytes", "Bytes of whole batches, in and out", "direction"
        )
        self.rounds_ended = counter(
            "shuffledp_node_rounds_ended", "Rounds by end: done, deleted, error", "outcome"
        )
        self._seconds = gauge(
            "shuffledp_node_stage_seconds", "Duration of a stage when it last ended", "stage"
        )
        self._rate = gauge(
            "shuffledp_node_stage_records_per_second", "Rate of a stage when it last ended", "stage"
        )
        self.capacity = gauge(
            "shuffledp_node_peel_capacity_records_per_second",
            "Measured at start: one worker, all workers",
            "workers",
        )
        self.corrupt = gauge(
            "shuffledp_node_corrupt", "1 for a node that was told to misbehave, for an experiment"
        )
        memory = gauge(
            "shuffledp_node_workers_resident_bytes", "Memory of the peeling processes together"
        )
        memory.set_function(children_resident_bytes)
        for direction in (
            "in",
            "out",
        ):  # from the start: a rise from nothing is no rise to Prometheus
            self.batch_bytes.labels(direction)
        for phase in (Phase.MIXING, Phase.RELAYING):
            self.records.labels(phase)

    @contextmanager
    def time_stage(self, stage: str, records: int) -> Iterator[None]:
        """Record the duration of the block and its rate in records.

        Nothing is recorded for a block that fails.
        """
        began = time.perf_counter()
        yield
        self.record_stage(stage, records, time.perf_counter() - began)

    def record_stage(self, stage: str, records: int, seconds: float) -> None:
        """Record the duration of a stage, and its rate in records."""
        self._seconds.labels(stage).set(seconds)
        self._rate.labels(stage).set(records / max(seconds, 1e-9))
