"""Two questions in one round, over real processes: the plan's columns are the axes of its words."""

from __future__ import annotations

import asyncio
import re
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from rounds_for_tests import small_round

from shuffledp_core.documents.wording import QuestionAxis, QuestionWording, SymbolNames
from shuffledp_core.mechanisms import NodeColumns
from shuffledp_ops.rounds.operate import save, trusted_files
from shuffledp_ops.rounds.page import page
from shuffledp_ops.rounds.reading import read_round
from shuffledp_ops.rounds.report import RoundReport
from shuffledp_sim.system.processes import LocalSystem

WORDING = QuestionWording(
    id="two-questions",
    text="How do you travel, and do you smoke?",
    axes=(
        QuestionAxis(field="transport", unit="", symbols=SymbolNames(names=("bicycle", "train"))),
        QuestionAxis(field="smoker", unit="", symbols=SymbolNames(names=("yes", "no"))),
    ),
)


@pytest.fixture(scope="module")
def report(running: LocalSystem, pool: ProcessPoolExecutor) -> RoundReport:
    return asyncio.run(
        small_round(running, pool, mechanism="node-columns", size=4, wording=WORDING)
    )


def test_each_question_is_counted_by_itself(report: RoundReport) -> None:
    spec = report.final.mechanism
    assert isinstance(spec, NodeColumns)
    assert spec.columns == (2, 2)
    assert report.messages == 2 * 40 + report.final.nodes * spec.dummies_per_node
    assert report.truth is not None
    assert report.truth.tolist() == [20, 20, 20, 20]
    names = [report.label(symbol) for symbol in range(4)]
    assert names == ["transport: bicycle", "transport: train", "smoker: yes", "smoker: no"]
    # A node's dummies of a cell are from 0 to 2 mean: no error is larger.
    reach = report.final.nodes * (spec.mean + 1)
    assert all(abs(value - 20) <= reach for value in report.estimate.values)


def test_the_page_has_the_answers_to_both(report: RoundReport) -> None:
    html = page(report, [])
    for name in ("transport: bicycle", "smoker: no"):
        assert f'<tr><th scope="row">{name}</th>' in html
    assert "<h1>Counts of transport, smoker</h1>" in html
    assert re.search(r"Most frequent of 40 people: transport: .*; smoker: ", html)
    transport, smoker = html.split("<h3>transport</h3>")[1].split("<h3>smoker</h3>")
    assert ">bicycle</text>" in transport
    assert ">bicycle</text>" not in smoker.split("</figure>")[0]


def test_a_saved_round_is_read_back_with_both(
    report: RoundReport, running: LocalSystem, tmp_path: Path
) -> None:
    keys = running.deployment.folder
    save(report, tmp_path / "out", keys, trusted_files(keys))
    again = read_round(tmp_path / "out" / report.round_id)
    assert again.estimate == report.estimate
    assert again.labels == report.labels
