"""Metrics of the accountant: issued certificates, budgets, and answers of witnesses.

A statement composes all rounds of a population, which takes up to seconds: it is recomputed in the
background after a change, never while someone reads the page.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import structlog

from shuffledp_accountant.config import AccountantConfig
from shuffledp_accountant.ledger.charges import ChargeState, Statement
from shuffledp_accountant.witnesses import WitnessAnswer
from shuffledp_core.errors import ShuffleDPError
from shuffledp_core.transport.metrics import ServiceMetrics

LOOK_SECONDS = 60.0
"""Interval at which the ledger is read without a change here: another accountant may write to the
same database.
"""

SILENT_SECONDS = 60.0
"""Time without an answer after which the ledger counts as away: a frozen database returns no
error.
"""


class AccountantMetrics(ServiceMetrics):
    """Metrics page of the accountant. ε in nats at the budget's δ.

    +Inf where no finite bound holds.
    """

    def __init__(self, config: AccountantConfig, witnesses: Iterable[str] = ()) -> None:
        """Create all series; `witnesses` are the names of the public log's witnesses."""
        super().__init__(config)
        gauge = self.gauge
        self.certificates = self.counter(
            "shuffledp_accountant_certificates", "Certificates given, repetitions included", "stage"
        )
        self.releases = self.counter(
            "shuffledp_accountant_releases", "Reservations given back, repetitions included"
        )
        self._limit = gauge(
            "shuffledp_accountant_epsilon_limit", "Budget of the population", "population"
        )
        self._spent = gauge(
            "shuffledp_accountant_epsilon_spent", "Spent and reserved", "population"
        )
        self._left = gauge(
            "shuffledp_accountant_epsilon_left", "Budget less what is spent", "population"
        )
        self._if_fixed = gauge(
            "shuffledp_accountant_epsilon_if_fixed",
            "Spent if all parameters were fixed in advance",
            "population",
        )
        self._delta = gauge(
            "shuffledp_accountant_delta", "The delta of the population's budget", "population"
        )
        self._charges = gauge(
            "shuffledp_accountant_charges", "Rounds in the ledger", "population", "state"
        )
        self._read = gauge(
            "shuffledp_accountant_ledger_up", "1 when the ledger could be read the last time"
        )
        self._answers = self.counter(
            "shuffledp_accountant_witness_answers",
            "Requests to witnesses of the public log, by how they were answered",
            "witness",
            "answer",
        )
        for witness in witnesses:
            for answer in WitnessAnswer:  # from 0 on, so that the first failure is an increase
                self._answers.labels(witness, answer.value)
        self._changed = asyncio.Event()

    def mark_changed(self) -> None:
        """Note that the ledger has changed, so that the numbers are recomputed soon."""
        self._changed.set()

    def count_answer(self, witness: str, answer: WitnessAnswer) -> None:
        """Count an answer of a witness."""
        self._answers.labels(witness, answer.value).inc()

    async def follow(
        self,
        populations: Iterable[str],
        statement: Callable[[str], Statement],
        silent_seconds: float = SILENT_SECONDS,
    ) -> None:
        """Keep the numbers of every population's statement current until cancelled.

        It is shown at once, at every change and every `LOOK_SECONDS`.

        A ledger that cannot be read, or is silent for `silent_seconds`, leaves the old figures and
        is logged. A failed read is tried again; a silent one is waited for, because each try would
        occupy another thread.
        """
        names = tuple(populations)
        while True:
            # Before the look: a change that comes during it is looked at next, not forgotten.
            self._changed.clear()
            look = asyncio.ensure_future(self._look(names, statement))
            try:
                # Not `wait_for`, which would cancel the look and leave its thread behind, for the
                # next one to join.
                await asyncio.wait({look}, timeout=silent_seconds)
                if not look.done():
                    self._read.set(0)
                    structlog.get_logger().warning(
                        "budget metrics not updated: the ledger does not answer",
                        reason=f"no answer for {silent_seconds:g} s",
                    )
                await look
            finally:
                look.cancel()
            try:
                await asyncio.wait_for(self._changed.wait(), LOOK_SECONDS)
            except TimeoutError:
                continue

    async def _look(self, names: Iterable[str], statement: Callable[[str], Statement]) -> None:
        try:
            for name in names:
                self._show(name, await asyncio.to_thread(statement, name))
            self._read.set(1)
        except ShuffleDPError as error:
            self._read.set(0)
            structlog.get_logger().warning(
                "budget metrics not updated: the ledger cannot be read",
                error=type(error).__name__,
                reason=str(error),
            )

    def _show(self, population: str, statement: Statement) -> None:
        self._limit.labels(population).set(statement.budget.epsilon)
        self._delta.labels(population).set(statement.budget.delta)
        self._spent.labels(population).set(statement.spent.certified)
        self._left.labels(population).set(statement.left)
        self._if_fixed.labels(population).set(statement.if_fixed)
        for state in ChargeState:
            self._charges.labels(population, state.value).set(statement.charges.get(state, 0))
