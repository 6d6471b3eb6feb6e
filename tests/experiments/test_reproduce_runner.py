"""The runner of the experiments, on an entry made for the test: files, verdicts, wishes, and what
is refused."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner

from shuffledp.cli import app
from shuffledp_experiments import drawing
from shuffledp_experiments.data import load
from shuffledp_experiments.entry import Experiment, Kind, Results, Row, RunInputs, Verdict, judge
from shuffledp_experiments.errors import DataNeededError, UnknownExperimentError
from shuffledp_experiments.pages import list_entries
from shuffledp_experiments.registry import experiment, experiments
from shuffledp_experiments.reporting import report
from shuffledp_experiments.running import reproduce_one
from shuffledp_experiments.table import as_csv


def run(work: RunInputs) -> Results:
    noise = work.generator("noise").normal(size=work["points"])
    rows = [
        Row("noise", Kind.MEASURED, "i", float(i), "value", float(y), settings={"n": 7})
        for i, y in enumerate(noise)
    ]
    return Results(tuple(rows), (judge("Theorem 0", 0.5, certified=2.0, attained=1.0),))


def draw(result: Results) -> Figure:
    figure, axes = drawing.panels()
    drawing.line(axes[0, 0], result, "noise")
    return figure


ENTRY = Experiment(
    id="t-1", source="nobody", question="what is noise?", parameters={"points": 9},
    quick={"points": 3},
    run=run, draw=draw, seconds=0.1, seconds_quick=0.1, verdicts=frozenset({Verdict.FALSE}),
)  # fmt: skip


def test_one_seed_gives_one_csv_and_one_picture(tmp_path: Path) -> None:
    first, again, other = (tmp_path / name for name in ("first", "again", "other"))
    for folder, seed in ((first, 3), (again, 3), (other, 4)):
        folder.mkdir()
        assert reproduce_one(ENTRY, folder, seed=seed).claims[0].verdict is Verdict.FALSE
    for ending in ("csv", "png", "pdf"):
        assert (first / f"t-1.{ending}").read_bytes() == (again / f"t-1.{ending}").read_bytes()
    assert (first / "t-1.csv").read_text() != (other / "t-1.csv").read_text()


def test_both_pictures_have_everything_at_the_same_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = {}
    save = Figure.savefig

    def record_and_save(figure: Figure, path: Path, **options: Any) -> None:
        save(figure, path, **options)
        places[path.suffix] = [axes.get_position().bounds for axes in figure.axes]

    monkeypatch.setattr(Figure, "savefig", record_and_save)
    reproduce_one(ENTRY, tmp_path)
    assert places[".png"] == places[".pdf"]
    assert places[".png"] != [
        axes.get_position().bounds for axes in draw(ENTRY.run(ENTRY.work())).axes
    ]


def test_quick_takes_the_quick_parameters_and_the_csv_keeps_every_digit(tmp_path: Path) -> None:
    reproduce_one(ENTRY, tmp_path, quick=True)
    rows = list(csv.DictReader((tmp_path / "t-1.csv").read_text().splitlines()))
    result = ENTRY.run(ENTRY.work(quick=True))
    assert [float(row["y"]) for row in rows] == [row.y for row in result.rows]
    assert {row["n"] for row in rows} == {"7"}
    assert len(rows) == 3


def test_what_is_not_a_number_is_an_empty_cell() -> None:
    text = as_csv([Row("s", Kind.EXACT, "n", 1, "ε", float("nan"))])
    assert text.splitlines()[1] == "s,exact,n,1,ε,,,"


@pytest.mark.parametrize(
    ("published", "verdict"),
    [
        (0.9, Verdict.FALSE),
        (1.5, Verdict.OPEN),
        (2.1, Verdict.SOUND),
        (2.3, Verdict.LOOSE),
        (0.9995, Verdict.OPEN),
    ],
)
def test_a_bound_is_judged_by_both_sides_of_the_truth(published: float, verdict: Verdict) -> None:
    assert judge("s", published, certified=2.0, attained=1.0).verdict is verdict


def test_an_unknown_table_names_the_command_that_lists_them() -> None:
    with pytest.raises(UnknownExperimentError, match="--list"):
        experiment("999-t9")


def test_missing_and_broken_data_files_are_explained(tmp_path: Path) -> None:
    with pytest.raises(DataNeededError, match="--data"):
        load(None, "pums")
    with pytest.raises(DataNeededError, match="cannot read"):
        load(tmp_path, "pums")
    (tmp_path / "pums_ca_1000.csv").write_text("educ,age\n1,2\n")
    with pytest.raises(DataNeededError, match="needs numbers in the columns educ, income"):
        load(tmp_path, "pums")


def test_an_entry_without_its_data_says_so_and_writes_nothing(tmp_path: Path) -> None:
    def needs(_work: RunInputs) -> Results:
        raise DataNeededError("give it")

    entry = Experiment(
        id="t-2",
        source="nobody",
        question="?",
        parameters={},
        run=needs,
        draw=draw,
        seconds=1,
        seconds_quick=1,
    )
    assert reproduce_one(entry, tmp_path).missing == "give it"
    assert not list(tmp_path.iterdir())


def test_what_was_asked_for_and_did_not_run_is_an_error_when_the_others_are_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run_without(_work: RunInputs) -> Results:
        raise DataNeededError("give it")

    lacking = replace(ENTRY, id="t-2", run=run_without)
    for as_json in (True, False):
        with pytest.raises(
            DataNeededError,
            match=r"1 of 2 did not run, because their files are missing: t-2; .*--data",
        ) as refused:
            report([lacking, ENTRY], tmp_path, as_json=as_json, index=False, processes=1)
        assert refused.value.exit_code == 2
    assert (tmp_path / "t-1.csv").exists()
    output = capsys.readouterr().out
    assert "t-2: did not run: give it" in output
    assert "FALSE" in output


def test_a_folder_that_lacks_a_file_is_an_error_of_the_command(tmp_path: Path) -> None:
    needy = min(
        (entry for entry in experiments().values() if entry.data), key=lambda entry: entry.seconds
    )
    ran = CliRunner().invoke(
        app, ["reproduce", needy.id, "--data", str(tmp_path / "none"), "--out", str(tmp_path)]
    )
    assert isinstance(ran.exception, DataNeededError)
    assert f"{needy.id}: did not run" in ran.output


def test_the_list_names_the_aliases() -> None:
    listed_ids = {name for text, *_ in list_entries() for name in text.split(" = ")}
    for entry in experiments().values():
        assert {entry.id, *entry.aliases} <= listed_ids
