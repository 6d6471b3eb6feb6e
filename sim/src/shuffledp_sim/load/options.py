"""Options of a load test."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from shuffledp_core.documents.models import RoundPlan
from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import MECHANISMS, KRRHistogram
from shuffledp_core.onion.suites import suite_named
from shuffledp_core.vocabulary import DEFAULT_SUITE
from shuffledp_sim.load.machine import check_metrics_url
from shuffledp_sim.load.process import ATTEMPTS, ArrivalProcess
from shuffledp_sim.users.fleet import System

OPEN_SECONDS: Final = 7200.0
"""Open time of the test's own round: it is closed when everyone is through; this is only the
latest moment.
"""

LEAST_SHARE: Final = 0.5
"""Smallest share of the users' reports with which the test's own round has a board."""


@dataclass(frozen=True)
class LoadOptions:
    """The options of `shuffledp load`.

    Attributes:
        keys: the deployment's folder; None: a system of its own, on this machine.
        round_id: an open round of the deployment; None: a round of its own, by the options from
            `mechanism` on.
        population: the population in which the users are enrolled.
        users: number of users who arrive.
        connections: TLS connections that they share.
        rate: arrivals a second.
        arrivals: the arrival process.
        attempts: most calls of a user while there is no answer, with the client's own pauses; 1:
            never again.
        corpus: folder for the sealed submissions; None: a temporary one.
        metrics: URL of the entry node's metrics page, for its memory; None: unknown, but on a
            system of its own.
        leave_open: whether to leave the round open, because another of several drivers closes it.
        nodes: number of nodes of a system that the test starts itself.
    """

    keys: Path | None = None
    round_id: str | None = None
    population: str = "demo"
    users: int = 5000
    connections: int = 500
    rate: float = 200.0
    arrivals: ArrivalProcess = ArrivalProcess.POISSON
    attempts: int = ATTEMPTS
    corpus: Path | None = None
    metrics: str | None = None
    leave_open: bool = False
    mechanism: str = KRRHistogram.kind
    max_value: int = 20
    epsilon: float = 1.0
    delta: float = 1e-6
    nodes: int = 3
    suite: str = DEFAULT_SUITE

    def __post_init__(self) -> None:
        suite_named(self.suite)
        if not 0 < self.rate < math.inf:
            raise UsageError(f"--rate must be above 0 and finite, not {self.rate}")
        if self.round_id is not None and self.keys is None:
            raise UsageError(
                "--round names a round of a deployment: give the deployment's key folder as well"
            )
        if self.leave_open and self.round_id is None:
            raise UsageError(
                "--leave-open needs a --round that another process closes; nothing would close "
                "a round of this command's own"
            )
        if self.metrics is not None:
            check_metrics_url(self.metrics)

    def plan(self, system: System) -> RoundPlan:
        """Plan of the test's own round, over all nodes of the system.

        Raises `UsageError` for impossible numbers.
        """
        try:
            return RoundPlan(
                population=system.population,
                mechanism=self.mechanism,
                size=MECHANISMS[self.mechanism].size_for(self.max_value),
                epsilon=self.epsilon,
                delta=self.delta,
                min_reports=max(1, int(LEAST_SHARE * self.users)),
                max_reports=self.users,
                route=tuple(node.name for node in system.deployment.roster.nodes()),
                suite=self.suite,
                open_seconds=OPEN_SECONDS,
            )
        except ValueError as error:
            raise UsageError(str(error)) from error
