"""What the accountant's page shows of the budget: the newest statement, also when the ledger is
away for a while."""

from __future__ import annotations

import asyncio
import math
import threading
from pathlib import Path

import pytest

from shuffledp_accountant.config import AccountantConfig, PopulationConfig
from shuffledp_accountant.ledger.charges import Budget, Statement
from shuffledp_accountant.metrics import AccountantMetrics
from shuffledp_core.errors import LedgerError
from shuffledp_ops.keys.pki import ACCOUNTANT, create_deployment
from shuffledp_privacy.bounds import Bounds


@pytest.fixture
def metrics(tmp_path: Path) -> AccountantMetrics:
    deployment = create_deployment(tmp_path / "keys", {ACCOUNTANT: "127.0.0.1:1"})
    return AccountantMetrics(
        AccountantConfig(
            name=ACCOUNTANT, keys=deployment.keys_of(ACCOUNTANT), roster=deployment.roster_file,
            root_key=deployment.root_key, listen="127.0.0.1:0", state=tmp_path,
            populations={"demo": PopulationConfig(epsilon=4.0, delta=1e-6)},
        )
    )  # fmt: skip


class ScriptedLedger:
    """Answers with one ε after the other; is away for a None."""

    def __init__(self, *script: float | None) -> None:
        self._script = list(script)

    def statement(self, population: str) -> Statement:
        assert population == "demo"
        spent = self._script.pop(0)
        if spent is None:
            raise LedgerError("the database is away")
        return Statement(
            Budget(4.0, 1e-6), Bounds(spent, 0.0, None, ()), max(0.0, 4.0 - spent), spent, {}
        )


def figures(metrics: AccountantMetrics) -> tuple[float | None, ...]:
    value, demo = metrics.registry.get_sample_value, {"population": "demo"}
    return (
        value("shuffledp_accountant_epsilon_spent", demo),
        value("shuffledp_accountant_epsilon_left", demo),
        value("shuffledp_accountant_ledger_up"),
    )


async def shown(metrics: AccountantMetrics, wanted: tuple[float | None, ...]) -> None:
    async with asyncio.timeout(240):
        while True:
            if figures(metrics) == wanted:
                return
            await asyncio.sleep(0.01)


async def test_a_change_is_shown_and_a_ledger_that_is_away_leaves_the_old_figures(
    metrics: AccountantMetrics,
) -> None:
    script = (1.0, 2.5, None, math.inf)
    wanted = ((1.0, 3.0, 1), (2.5, 1.5, 1), (2.5, 1.5, 0), (math.inf, 0.0, 1))
    ledger = ScriptedLedger(*script)
    assert figures(metrics) == (None, None, 0)
    task = asyncio.ensure_future(metrics.follow(["demo"], ledger.statement))
    await shown(metrics, wanted[0])
    for figure in wanted[1:]:
        metrics.mark_changed()
        await shown(metrics, figure)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_ledger_that_says_nothing_counts_as_away_until_it_answers(
    metrics: AccountantMetrics,
) -> None:
    ledger, frozen = ScriptedLedger(1.0, 2.5), threading.Event()

    def statement(population: str) -> Statement:
        answer = ledger.statement(population)
        if answer.spent.certified == 2.5:
            assert frozen.wait(30)
        return answer

    task = asyncio.ensure_future(metrics.follow(["demo"], statement, silent_seconds=0.2))
    try:
        await shown(metrics, (1.0, 3.0, 1))
        metrics.mark_changed()
        await shown(metrics, (1.0, 3.0, 0))
    finally:
        frozen.set()
    await shown(metrics, (2.5, 1.5, 1))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
