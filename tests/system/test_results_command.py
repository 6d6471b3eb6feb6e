"""`shuffledp results`, and `shuffledp round` whose folder goes away: what is published and charged
can be had again."""

from __future__ import annotations

import asyncio
import csv
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from commands import Shell
from rounds_for_tests import USERS, ended, small_plan, small_round, submit_some, within_a_minute

from shuffledp_core.documents.models import Result
from shuffledp_core.documents.signed import Signed
from shuffledp_core.errors import OutputError, TooFewReportsError
from shuffledp_core.transport.rpc_errors import translate_errors
from shuffledp_ops.keys.pki import create_deployment
from shuffledp_ops.results import exporting
from shuffledp_ops.results.fetching import summaries
from shuffledp_ops.rounds.running import control_of, open_round
from shuffledp_ops.rounds.saving import writable_folder
from shuffledp_proto.v1 import analyst_pb2
from shuffledp_sim.system.processes import LocalSystem

SAVED = {"certificate.json", "plan-certificate.json", "manifest.json", "result.json",
"report.json", "report.html",
         "plot.png", "roster.json", "root.pub"}  # fmt: skip


@pytest.fixture(scope="module")
def rounds(running: LocalSystem, pool: ProcessPoolExecutor) -> dict[str, str]:
    """A published sum, a published histogram, and a round that failed, in this order."""

    async def play() -> dict[str, str]:
        total = await small_round(running, pool)
        histogram = await small_round(running, pool, mechanism="krr-histogram", size=4)
        async with control_of(running.deployment) as control:
            failed = (await open_round(control, small_plan(running))).round_id
            async with translate_errors("analyst"):
                await control.EndSubmissions(analyst_pb2.EndSubmissionsRequest(round_id=failed))
        with pytest.raises(TooFewReportsError):
            await within_a_minute(ended(running, failed))
        return {"sum": total.round_id, "histogram": histogram.round_id, "failed": failed}

    return asyncio.run(play())


@pytest.fixture
def keys(running: LocalSystem) -> str:
    return str(running.deployment.folder)


def test_list_names_every_round_newest_first(
    shuffledp: Shell, keys: str, rounds: dict[str, str]
) -> None:
    code, out, errors = shuffledp("results", "list", keys, "--format", "json")
    assert code == 0, errors
    listed = json.loads(out)
    assert [one["round"] for one in listed] == [
        rounds["failed"],
        rounds["histogram"],
        rounds["sum"],
    ]
    assert [(one["outcome"], one["error"], one["accepted"]) for one in listed] == [
        ("failed", "TooFewReportsError", None), ("published", None, USERS), ("published", None,
        USERS),
    ]  # fmt: skip
    assert (
        len(json.loads(shuffledp("results", "list", keys, "--limit", "1", "--format", "json")[1]))
        == 1
    )
    for words in (rounds["sum"], "krr-histogram", "failed: TooFewReportsError", str(USERS)):
        assert words in shuffledp("results", "list", keys)[1]


def test_a_viewers_folder_is_enough_to_read_and_not_to_ask(
    shuffledp: Shell, running: LocalSystem, rounds: dict[str, str], tmp_path: Path
) -> None:
    """With roster and root key alone beside its TLS pair, as it is handed over."""
    for name in ("roster.json", "root.pub", "viewer"):
        source, target = running.deployment.folder / name, tmp_path / "looking" / name
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            target.parent.mkdir(exist_ok=True)
            shutil.copy(source, target)
    code, out, errors = shuffledp("results", "list", "looking", "--format", "json")
    assert code == 0, errors
    assert {one["round"] for one in json.loads(out)} == set(rounds.values())
    code, _, errors = shuffledp(
        "results", "export", "looking", "--to", "all.csv", "--round", rounds["histogram"]
    )
    assert (code, (tmp_path / "all.csv").is_file()) == (0, True), errors
    plan = ("--mechanism", "krr-histogram", "--max-value", "3", "--epsilon", "3", "--delta", "1e-3")
    code, _, errors = shuffledp(
        "round", "looking", *plan, "--min-reports", "5", "--max-reports", "5"
    )
    assert code != 0
    assert "'viewer' may not call" in " ".join(errors.split())


async def test_a_page_is_bounded_and_the_next_one_goes_on(
    system: LocalSystem, rounds: dict[str, str]
) -> None:
    async with control_of(system.deployment) as control:
        first = await control.ListRounds(analyst_pb2.ListRoundsRequest(limit=2))
        assert first.more
        second = await control.ListRounds(
            analyst_pb2.ListRoundsRequest(limit=2, after=first.rounds[-1].round_id)
        )
    assert not second.more
    listed = [one.round_id for one in (*first.rounds, *second.rounds)]
    assert listed == [one.round_id async for one in summaries(system.deployment)]
    assert set(rounds.values()) == set(listed)


def test_show_leaves_what_the_round_would_have_left(
    shuffledp: Shell, keys: str, rounds: dict[str, str], tmp_path: Path
) -> None:
    code, out, errors = shuffledp(
        "results", "show", keys, rounds["sum"], "--out", "again", "--format", "json"
    )
    assert code == 0, errors
    answer = json.loads(out)
    assert (answer["round"], answer["accepted"]) == (rounds["sum"], USERS)
    assert [one["stage"] for one in answer["checked"]] == ["plan", "final"]
    folder = tmp_path / "again" / rounds["sum"]
    assert {path.name for path in folder.iterdir()} == SAVED
    code, out, _ = shuffledp(
        "verify", str(folder / "result.json"), "--root-key", f"{keys}/root.pub"
    )
    assert code == 0
    assert "genuine and right" in out


def test_without_a_name_the_newest_published_round_is_shown(
    shuffledp: Shell, keys: str, rounds: dict[str, str]
) -> None:
    code, out, errors = shuffledp("results", "show", keys)
    assert code == 0, errors
    for words in (
        "The answer: histogram",
        "ε certified",
        "final certificate in the result (final): genuine",
    ):
        assert words in out
    assert rounds["histogram"] in shuffledp("results", "show", keys, "--format", "json")[1]


def test_a_round_that_failed_or_is_not_known_is_named_with_its_reason(
    shuffledp: Shell, keys: str, rounds: dict[str, str]
) -> None:
    code, _, errors = shuffledp("results", "show", keys, rounds["failed"])
    assert code == 1
    assert f"round {rounds['failed']} failed" in errors
    code, _, errors = shuffledp("results", "show", keys, "00" * 16)
    assert code == 1
    assert "has no result here" in errors
    code, _, errors = shuffledp("results", "show", keys, "nonsense")
    assert code == 1
    assert "'nonsense' is not a round identifier" in errors


def from_json(file: Path) -> list[dict[str, object]]:
    return list(json.loads(file.read_text()))


def from_csv(file: Path) -> list[dict[str, object]]:
    with file.open(newline="") as stream:
        return [dict(row) for row in csv.DictReader(stream)]


def from_parquet(file: Path) -> list[dict[str, object]]:
    import pyarrow.parquet

    return list(pyarrow.parquet.read_table(file).to_pylist())


@pytest.mark.parametrize(
    ("name", "read"),
    [("all.json", from_json), ("all.csv", from_csv), ("all.parquet", from_parquet)],
)
def test_export_writes_every_published_answer_as_one_table(
    shuffledp: Shell,
    keys: str,
    rounds: dict[str, str],
    tmp_path: Path,
    name: str,
    read: Callable[[Path], list[dict[str, object]]],
) -> None:
    code, out, errors = shuffledp("results", "export", keys, "--to", name)
    assert code == 0, errors
    assert "5 rows of 2 rounds" in out
    rows = read(tmp_path / name)
    assert [row["round"] for row in rows] == [rounds["histogram"]] * 4 + [rounds["sum"]]
    assert [str(row["value"]) for row in rows[:4]] == ["0", "1", "2", "3"]
    assert rows[4]["value"] in {None, ""}
    shown = json.loads(shuffledp("results", "show", keys, rounds["sum"], "--format", "json")[1])
    assert float(str(rows[4]["estimate"])) == shown["estimate"]
    assert float(str(rows[4]["epsilon"])) == shown["epsilon"]
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_parquet_without_its_library_is_refused_with_what_to_do(
    shuffledp: Shell, keys: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # as if it were not installed
    code, _, errors = shuffledp("results", "export", keys, "--to", "all.parquet")
    assert code == 2
    assert "shuffledp-ops[parquet]" in errors


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["list", "nowhere"], "is not a deployment folder"),
        (["export", "KEYS", "--to", "all.xls"], "ends in .json, .csv, .parquet"),
        (["export", "KEYS", "--to", "/proc/x/all.csv"], "cannot write into the folder /proc/x"),
        (["show", "KEYS", "--out", "/proc/x"], "cannot write into the folder /proc/x"),
        (["fetch", "KEYS"], "no command 'fetch'; choose one of list, show, export"),
    ],
)
def test_what_cannot_be_is_said_before_the_analyst_is_asked(
    shuffledp: Shell, tmp_path: Path, words: list[str], says: str
) -> None:
    addresses = dict.fromkeys(("node-1", "node-2", "analyst", "accountant"), "127.0.0.1:1")
    folder = create_deployment(tmp_path / "nobody", addresses).folder
    code, _, errors = shuffledp("results", *(word.replace("KEYS", str(folder)) for word in words))
    assert code == 2
    assert says in errors


ASKING = [
    ["results", "export", "KEYS", "--to", "new/deep/all.csv"],
    ["results", "export", "KEYS", "--to", "new/deep/all.json", "--round", "1" * 32],
    ["results", "show", "KEYS", "--out", "new/deep"],
    ["round", "KEYS", "--mechanism", "rr-shuffle", "--max-value", "3", "--epsilon", "4",
    "--min-reports", "5",
     "--max-reports", "5", "--out", "new/deep"],
]  # fmt: skip


@pytest.mark.parametrize("words", ASKING, ids=lambda words: " ".join(words[:2]))
def test_who_asks_an_analyst_that_is_away_is_told_so_and_no_folder_is_left(
    shuffledp: Shell, tmp_path: Path, words: list[str]
) -> None:
    addresses = dict.fromkeys(("node-1", "node-2", "analyst", "accountant"), "127.0.0.1:1")
    folder = create_deployment(tmp_path / "nobody", addresses).folder
    code, printed, errors = shuffledp(*(word.replace("KEYS", str(folder)) for word in words))
    assert (code, printed) == (1, ""), errors
    assert "analyst" in errors
    assert [path.name for path in tmp_path.iterdir()] == ["nobody"]


def test_a_folder_that_was_there_or_holds_something_stays(tmp_path: Path) -> None:
    """What the failed block left in a folder, and every folder that it did not make."""
    (tmp_path / "mine").mkdir()
    for folder in (tmp_path / "mine", tmp_path / "new" / "deep", tmp_path / "kept" / "deep"):
        with pytest.raises(OutputError, match="it failed"), writable_folder(folder):  # noqa: PT012
            if "kept" in folder.parts:
                (folder / "result").touch()
            raise OutputError("it failed")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["deep", "kept", "mine", "result"]


def test_a_table_whose_file_cannot_be_written_leaves_no_half_of_it(tmp_path: Path) -> None:
    (tmp_path / "all.csv").mkdir()
    with pytest.raises(OutputError, match="name another file with --to"):
        exporting.write_rows([{"round": "a"}], tmp_path / "all.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["all.csv"]


def test_a_round_whose_folder_goes_away_is_printed_and_fetched_again(
    running: LocalSystem, pool: ProcessPoolExecutor, shuffledp: Shell, keys: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    operator = subprocess.Popen(
        [sys.executable, "-m", "shuffledp.cli", "round", keys, "--mechanism", "rr-shuffle",
        "--max-value", "3",
         "--min-reports", "5", "--max-reports", "5", "--epsilon", "4", "--delta", "1e-3", "--out",
         str(out),
         "--format", "json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert operator.stderr is not None
        line = next(line for line in operator.stderr if "is open" in line)
        out.rmdir()
        out.write_text("in the way")
        asyncio.run(submit_some(running, pool, line.split()[1], 5))
        printed, errors = operator.communicate(timeout=240)
    finally:
        operator.kill()
    assert operator.returncode == 2
    answer = json.loads(printed)
    assert answer["accepted"] == 5
    assert "is published, but its documents could not be written" in errors
    assert "Traceback" not in errors
    command = errors.partition("`shuffledp ")[2].partition("`")[0]
    code, again, errors = shuffledp(
        *command.replace("FOLDER", "rescued").split(), "--format", "json"
    )
    assert code == 0, errors
    assert json.loads(again)["estimate"] == answer["estimate"]
    signed = Signed.from_bytes(
        (tmp_path / "rescued" / answer["round"] / "result.json").read_bytes()
    )
    assert signed.label == Result.label
