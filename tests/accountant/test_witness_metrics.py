"""The accountant's metrics count how each witness of the public log answered."""

from __future__ import annotations

from pathlib import Path

import pytest
from log_world import WITNESSES, LogWorld
from prometheus_client import generate_latest

from shuffledp_accountant.config import AccountantConfig
from shuffledp_accountant.metrics import AccountantMetrics
from shuffledp_core.errors import LedgerAwayError
from shuffledp_ops.keys.pki import ACCOUNTANT


@pytest.fixture
def metrics(tmp_path: Path) -> AccountantMetrics:
    config = AccountantConfig(
        name=ACCOUNTANT,
        keys=tmp_path,
        roster=tmp_path / "roster.json",
        root_key="00" * 32,
        listen="127.0.0.1:0",
        state=tmp_path,
        populations={},
    )
    return AccountantMetrics(config, WITNESSES)


def answers_of(metrics: AccountantMetrics, witness: str) -> dict[str, float]:
    name = "shuffledp_accountant_witness_answers_total"
    labels = ("cosigned", "refused", "unreachable")
    page = generate_latest(metrics.registry).decode().splitlines()
    lines = dict(line.rsplit(" ", 1) for line in page if not line.startswith("#"))
    return {
        answer: float(lines[f'{name}{{answer="{answer}",witness="{witness}"}}'])
        for answer in labels
    }


def test_every_answer_of_a_witness_is_counted(tmp_path: Path, metrics: AccountantMetrics) -> None:
    with LogWorld(tmp_path / "world") as world:
        with world.branch("one", count_answer=metrics.count_answer) as one:
            before = answers_of(metrics, "witness-1")
            assert before["refused"] == before["unreachable"] == 0
            one.certify()
            signed = answers_of(metrics, "witness-1")
            assert signed == before | {"cosigned": before["cosigned"] + 1}
            world.servers["witness-2"].shutdown()
            world.servers["witness-2"].server_close()
            one.certify()
        assert answers_of(metrics, "witness-2") == signed | {"unreachable": 1}
        assert answers_of(metrics, "witness-1")["cosigned"] == signed["cosigned"] + 1
        # A second ledger of the same deployment: the witness has seen another history.
        with world.branch("two", count_answer=metrics.count_answer) as two:
            round_id, certificate = two.certify()
            with pytest.raises(LedgerAwayError, match="too few witnesses"):
                two.proof(round_id, certificate)
        assert answers_of(metrics, "witness-1")["refused"] >= 1
