"""An open list over real processes: texts, hashes on the board, and candidates in reports."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from rounds_for_tests import quiet, small_plan

from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import NodeColumns
from shuffledp_core.questions import RecordSchema, TextField, mechanism_of, strings
from shuffledp_ops.rounds.operate import save, trusted_files
from shuffledp_ops.rounds.page import page
from shuffledp_ops.rounds.picture import draw_report
from shuffledp_ops.rounds.present import print_report
from shuffledp_ops.rounds.reading import read_round
from shuffledp_ops.rounds.report import RoundReport
from shuffledp_ops.rounds.reporting import look_up, run_report_command
from shuffledp_ops.rounds.running import StageClock
from shuffledp_sim.playing import run_round
from shuffledp_sim.system.processes import LocalSystem

WORDING = strings(RecordSchema({"site": TextField(columns=2, bits=5)}), "site").wording
RECORDS = [{"site": "<b>news</b>"}] * 25 + [{"site": "maps"}] * 10 + [{}] * 5


@pytest.fixture(scope="module")
def bare(running: LocalSystem, pool: ProcessPoolExecutor) -> RoundReport:
    values = np.array([WORDING.locate_record(record) for record in RECORDS], dtype=np.int64)
    plan = small_plan(
        running,
        mechanism=mechanism_of(WORDING),
        size=WORDING.size,
        wording=WORDING,
        epsilon=20.0,  # so that noise is rare and the texts are told apart in any run
    )
    return asyncio.run(run_round(running, plan, values, pool, quiet(), StageClock()))


@pytest.fixture(scope="module")
def candidates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("candidates") / "sites.txt"
    file.write_text("<b>news</b>\nmaps\n\nweather\n maps \n")
    return file


@pytest.fixture(scope="module")
def report(bare: RoundReport, candidates: Path) -> RoundReport:
    return look_up(bare, candidates)


def print_to_text(report: RoundReport) -> str:
    console = Console(file=io.StringIO(), width=200)
    print_report(report, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_plan_counts_a_column_for_each_hash(bare: RoundReport) -> None:
    spec = bare.final.mechanism
    assert isinstance(spec, NodeColumns)
    assert spec.columns == (32, 32)
    assert len(bare.estimate.values) == 64
    assert bare.final.question_wording == WORDING


def test_candidates_are_found_with_their_numbers(report: RoundReport) -> None:
    assert report.open_list is not None
    assert report.open_list.candidates == 3
    texts = {text.text: text for text in report.open_list.texts}
    # Of three nodes' noises with ε = 5 a column none passes 15 more often than 1 in 1e20.
    assert abs(texts["<b>news</b>"].people - 25) <= 15
    assert texts["<b>news</b>"].low <= texts["<b>news</b>"].people <= texts["<b>news</b>"].high


def test_pages_and_terminals_show_texts_as_text(report: RoundReport) -> None:
    html = page(report, [])
    assert "Frequent texts of site" in html
    assert "&lt;b&gt;news&lt;/b&gt;" in html
    assert "<b>news</b>" not in html
    assert "3 candidates were looked up" in html
    assert "<b>news</b>" in print_to_text(report)


def test_without_candidates_the_report_names_the_command(bare: RoundReport) -> None:
    assert "shuffledp report FOLDER --candidates FILE" in page(bare, [])
    assert "shuffledp report FOLDER --candidates FILE" in print_to_text(bare)


def test_a_saved_round_is_looked_up_and_read_again(
    bare: RoundReport,
    report: RoundReport,
    candidates: Path,
    running: LocalSystem,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    keys = running.deployment.folder
    save(bare, tmp_path / "out", keys, trusted_files(keys))
    folder = tmp_path / "out" / bare.round_id
    assert read_round(folder).open_list is None
    run_report_command(folder, candidates)
    assert "<b>news</b>" in capsys.readouterr().out
    assert "&lt;b&gt;news&lt;/b&gt;" in (folder / "report.html").read_text()
    with (folder / "texts.csv").open(newline="") as opened:
        rows = list(csv.DictReader(opened))
    assert report.open_list is not None
    assert [row["text"] for row in rows] == [text.text for text in report.open_list.texts]

    save(report, tmp_path / "found", keys, trusted_files(keys))
    assert read_round(tmp_path / "found" / bare.round_id).open_list == report.open_list


def test_texts_of_an_impossible_number_are_refused(
    report: RoundReport, running: LocalSystem, tmp_path: Path
) -> None:
    keys = running.deployment.folder
    save(report, tmp_path, keys, trusted_files(keys))
    file = tmp_path / report.round_id / "report.json"
    changed = json.loads(file.read_text())
    changed["open_list"]["texts"][0]["high"] = 1e300
    file.write_text(json.dumps(changed))
    with pytest.raises(Exception, match="does not fit the round"):
        read_round(file.parent)


def test_a_picture_of_the_texts_is_drawn(report: RoundReport, tmp_path: Path) -> None:
    draw_report(report, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_other_questions_have_no_candidates(report: RoundReport, tmp_path: Path) -> None:
    from dataclasses import replace

    from msgspec.structs import replace as changed

    final = changed(report.final, wording=None)
    with pytest.raises(UsageError, match="is for open lists"):
        look_up(replace(report, final=final), tmp_path / "absent")
