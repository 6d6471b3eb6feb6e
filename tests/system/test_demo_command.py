"""`shuffledp demo` as a user types it: what it prints, what it leaves, and what it says when
something is wrong."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import Shell

import shuffledp as sdp
from shuffledp.columns import load_column
from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import Answers
from shuffledp_ops.rounds.charts import figure
from shuffledp_ops.rounds.reading import read_round
from shuffledp_sim.demo import DemoOptions

KEYS = {
    "mechanism", "users", "accepted", "estimate", "standard_error", "true_value", "epsilon",
    "delta", "adjacency",
    "max_distance", "epsilon_corrupted", "messages", "seconds",
}  # fmt: skip
COMMAND = [sys.executable, "-m", "shuffledp.cli"]


def demo(tmp_path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, "demo", *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_a_sum_on_a_scale_is_stated_in_the_unit_everywhere_with_guarantee_and_time(
    tmp_path: Path, shuffledp: Shell
) -> None:
    """A metric one with a smaller distance, which is not refused for a budget that nobody set."""
    (tmp_path / "cold.csv").write_text("degrees\n" + "-4.5\n-1\n3\n0.5\n" * 10)
    (tmp_path / "cold.toml").write_text(
        'id = "cold"\ntext = "How cold was your room?"\n[[axes]]\nfield = "degrees"\n'
        'unit = "°C"\nsymbols = { kind = "scale", start = "-5", step = "0.5", size = 21 }\n'
    )
    done = demo(tmp_path, "--users", "40", "--mechanism", "rr-shuffle", "--epsilon", "4",
    "--data", "cold.csv", "--words", "cold.toml", "--adjacency", "metric", "--max-distance",
    "2")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "-20.0 °C" in done.stdout
    for words in ("estimate", "true value", "ε certified", "ε_L", "Seconds by stage"):
        assert words in done.stdout
    assert "out/latest" not in done.stdout  # a path that names the same round tomorrow
    folder = (tmp_path / "out" / "latest").resolve()
    assert f"Report: out/{folder.name}/report.html" in done.stdout
    saved = json.loads((folder / "report.json").read_text())
    assert saved["max_distance"] == 2
    assert (saved["question"], saved["unit"], saved["true_value"]) == ("cold", "°C", -20.0)
    value, (low, high) = saved["estimate"], saved["interval_95"]
    assert -200 <= low <= value <= high <= 200
    assert saved["mean"] == pytest.approx(value / 40)
    assert f"{value:,.2f} ±" in done.stdout
    page = (folder / "report.html").read_text()
    assert "How cold was your room? (cold; degrees: " in page
    assert "entry 0 of shuffledp-ledger/demo; checkpoint of 1 entries" in page
    logged = read_round(folder).logged
    assert logged is not None
    assert f"root {logged.root}, signed by witness-1 (" in page
    code, _, problem = shuffledp("report")
    assert code == 0, problem
    page = (tmp_path / "out/latest/report.html").read_text()
    assert f"Sum: <strong>{figure(value)} °C</strong>" in page
    assert f"(95% interval {figure(low)} to {figure(high)} °C)" in page


def test_a_demo_prints_one_json_object_and_leaves_signed_documents_and_a_picture(
    tmp_path: Path,
) -> None:
    """Of more users than the file has rows: they are drawn with replacement, and the answer says
    so."""
    (tmp_path / "people.csv").write_text("age\n1\n2\n\n")
    done = demo(tmp_path, "--users", "60", "--mechanism", "krr-histogram", "--epsilon", "3",
    "--max-value", "3",
                "--data", "people.csv", "--format", "json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert set(answer) >= KEYS
    assert answer["accepted"] == answer["users"] == 60
    assert len(answer["estimate"]) == len(answer["true_value"]) == 4
    assert sum(answer["true_value"]) == 60
    assert min(answer["true_value"][1:3]) > 0
    assert set(answer["seconds"]) >= {
        "start",
        "open",
        "sealing",
        "upload",
        "node-1 mixing",
        "decoding",
        "total",
    }
    folder = tmp_path / "out" / answer["round"]
    saved = json.loads((folder / "report.json").read_text())
    assert answer["drawn_with_replacement_from"] == saved["drawn_with_replacement_from"] == 2
    assert (folder / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert "each value of “age”?" in (folder / "report.html").read_text()
    for name in ("certificate", "plan-certificate", "manifest", "result"):
        assert set(json.loads((folder / f"{name}.json").read_text())) == {
            "label",
            "signer",
            "body",
            "signature",
        }


def test_a_demo_asks_with_the_histogram_of_least_error() -> None:
    options = DemoOptions()
    compared = sdp.advise(
        epsilon=options.epsilon,
        delta=options.delta,
        setting=sdp.Setting(options.users, options.users),
        max_value=options.max_value,
    )
    histograms = [row for row in compared.rows if row.mechanism.answers is Answers.HISTOGRAM]
    assert min(histograms, key=lambda row: row.error).kind == options.mechanism


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["--suite", "rot13"], 2, "sealed-box"),
        (["--mechanism", "nope"], 2, "geo-shuffle"),
        (["--epsilon", "-1"], 2, "-1"),
        (["--delta", "1"], 2, "below 1"),
        (["--max-distance", "30"], 2, "20"),
        (["--max-value", "9" * 30], 2, "--max-value must be at most"),
        (["--data", "/dev/zero"], 2, "is longer than 256 MiB"),
        (["--data", "nowhere.csv"], 2, "nowhere.csv"),
        (["--colour", "red"], 2, "--colour"),
        (["--corrupt", "1,4"], 2, "from 1 to 3, the number of nodes, not 4"),
        (["--corrupt", "2,2"], 2, "node 2 more than once"),
        (["--corrupt", "all"], 2, "'all'"),
    ],
)
def test_bad_input_is_named_before_anything_is_started(
    shuffledp: Shell, tmp_path: Path, options: list[str], code: int, says: str
) -> None:
    ended, _, errors = shuffledp("demo", *options)
    assert ended == code
    assert says in errors.replace("\n", " ")
    assert not (tmp_path / "out").exists()


def test_a_column_that_is_not_there_or_not_whole_is_named(shuffledp: Shell, tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_text("age,height\n3,1.7\n4,1.8\n")
    for column, says in (
        ("weight", "no column 'weight'; choose one of age, height"),
        ("height", "line 2"),
    ):
        options = ("--data", "people.csv", "--column", column, "--users", "2")
        ended, _, errors = shuffledp("demo", "--mechanism", "geo-shuffle", *options)
        assert ended == 2
        assert says in errors


@pytest.mark.parametrize(
    ("content", "name", "says"),
    [
        (b"", "a.csv", "a.csv is empty or has no header"),
        (b"age,height\n1,2\n", "a.csv", "has several columns; choose one of age, height"),
        (b"age\n", "a.csv", "has only 0 rows"),
        (b"age\n\xff\n", "a.csv", "not UTF-8 text"),
        (b"age\n1\n", "a.csv.gz", "not gzip data"),
        (b"\x1f\x8b\x08\x00torn", "a.csv.gz", "torn"),
        (b"age\n" + b"1" * 200_000 + b"\n", "a.csv", "field larger than"),
    ],
)
def test_a_file_that_is_no_table_of_whole_numbers_is_named_with_the_cause(
    shuffledp: Shell, tmp_path: Path, content: bytes, name: str, says: str
) -> None:
    (tmp_path / name).write_bytes(content)
    ended, _, errors = shuffledp(
        "demo", "--mechanism", "geo-shuffle", "--data", name, "--users", "2"
    )
    assert ended == 2
    assert says in errors
    assert "None" not in errors


def test_a_column_of_names_is_counted_by_name_in_the_order_of_the_alphabet(tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_text("by\nfoot\n car\nfoot\ntram\n")
    found = load_column(file, None, users=4, max_value=2, names=True)
    assert (found.labels, found.values.tolist(), found.capped) == (
        ("car", "foot", "tram"),
        [1, 0, 1, 2],
        0,
    )
    with pytest.raises(UsageError, match=r"line 2: .* is not a whole number"):
        load_column(file, None, users=4, max_value=2)


def test_two_spellings_of_one_name_are_counted_as_one(tmp_path: Path) -> None:
    """Composed, as most systems write it, and decomposed, as macOS does in file names."""
    file = tmp_path / "people.csv"
    file.write_text(
        "by\ntrain \u00e0 v\u00e9lo\n train a\u0300 ve\u0301lo\nfoot\n", encoding="utf-8"
    )
    found = load_column(file, None, users=3, max_value=2, names=True)
    assert (found.labels, found.values.tolist()) == (("foot", "train \u00e0 v\u00e9lo"), [1, 1, 0])


def test_a_column_that_stands_there_twice_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_text("age,by,age\n1,2,3\n4,5,6\n")
    assert load_column(file, "by", users=2, max_value=9).values.tolist() == [2, 5]
    with pytest.raises(UsageError, match=r"has the column 'age' 2 times; rename"):
        load_column(file, "age", users=2, max_value=9)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (
            "by\nfoot\ncar\ntram\n",
            "line 4: the column has more than 2 different answers; allow more with --max-value",
        ),
        ("by,x\nfoot,1\n,1\n", "line 3: a name has from 1 to 100 characters, not 0"),
        (f"by\nfoot\n{'x' * 101}\n", "not 101"),
        ("by\nfoot\nfoot\n", "all people in column 'by'"),
        ("by\n3\nfoot\n", "line 3: 'foot' is not a whole number"),
    ],
)
def test_names_that_are_no_answers_are_refused(
    shuffledp: Shell, tmp_path: Path, content: str, says: str
) -> None:
    (tmp_path / "people.csv").write_text(content)
    code, _, errors = shuffledp("demo", "--mechanism", "krr-histogram", "--data", "people.csv",
    "--column", "by",
                                "--max-value", "1", "--users", "4")  # fmt: skip
    assert code == 2
    assert says in errors
    assert not (tmp_path / "out").exists()


def test_drawn_users_are_the_same_each_time_and_enough_rows_are_taken_in_order() -> None:
    first, again = (
        load_column(None, None, users=50_000, max_value=20, draw=True) for _ in range(2)
    )
    assert (first.values == again.values).all()
    assert (len(first.values), first.drawn_from) == (50_000, 20_190)
    rows = load_column(None, None, users=20_190, max_value=20, draw=True)
    assert rows.drawn_from is None
    assert abs(first.values.mean() - rows.values.mean()) < 0.2
    with pytest.raises(UsageError, match="only 20190 rows"):
        load_column(None, None, users=20_191, max_value=20)
    with pytest.raises(UsageError, match="do not fit into memory; take at most 100,000,000"):
        load_column(None, None, users=10**9, max_value=20, draw=True)


def test_bad_input_of_the_real_command_is_no_traceback(tmp_path: Path) -> None:
    done = demo(tmp_path, "--suite", "rot13")
    assert done.returncode == 2
    assert "sealed-box" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def ctrl_c_counts() -> Iterator[None]:
    """A shell that starts the tests in the background has them ignore Ctrl-C, and with them every
    child: not here."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c_counts")
def test_ctrl_c_ends_the_demo_and_leaves_no_process_behind(tmp_path: Path) -> None:
    began = subprocess.Popen(
        [*COMMAND, "demo", "--users", "2000"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        group_members = _until_processes_run(began.pid)
        os.kill(began.pid, signal.SIGINT)
        _, errors = began.communicate(timeout=240)
    finally:
        began.kill()  # nothing, unless the test has failed or was interrupted
        began.wait()
    assert began.returncode == 130
    assert "Traceback" not in errors
    deadline = time.monotonic() + 240
    while alive := [pid for pid in group_members if _runs(pid)]:
        assert time.monotonic() < deadline, f"still there: {alive}"
        time.sleep(0.05)


def _until_processes_run(parent: int) -> list[int]:
    """All below the demo, once all eight processes run, which have one parent, and peeling ones
    of some node."""
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        parties, workers = _descendants(parent, 2), _descendants(parent, 3)
        if len(parties) >= 8 and len(workers) >= 3:
            return [*_descendants(parent, 1), *parties, *workers]
        time.sleep(0.05)
    raise AssertionError("the demo did not start its processes")


def _descendants(pid: int, generation: int) -> list[int]:
    found = [pid]
    for _ in range(generation):
        found = [child for one in found for child in _children(one)]
    return found


def _children(pid: int) -> list[int]:
    try:
        return [
            int(child)
            for task in Path(f"/proc/{pid}/task").iterdir()
            for child in (task / "children").read_text().split()
        ]
    except OSError:
        return []


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
