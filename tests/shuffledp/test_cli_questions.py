"""`simulate` and `advise` of a question by group, through the command line."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from shuffledp import cli, progress

ADULT = Path("/work/shared/data/adult_ints.csv.gz")
DESCRIPTION = """
id = "hours-by-age"
text = "How long do people of each age work a week?"
ask = "table"
of = ["age", "hours-per-week"]
[fields.age]
unit = "years"
edges = [17, 25, 35, 45, 55, 65, 75, inf]
[fields.hours-per-week]
unit = "h"
edges = [1, 20, 35, 41, 60, 100]
"""


class Shell:
    """`shuffledp` in this process, from arguments to exit code, as `main` runs it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys
        # How slow this machine is must not show in the output.
        monkeypatch.setattr(progress, "PATIENCE_SECONDS", 3600.0)

    def run(self, line: str) -> tuple[int, str, str]:
        self._monkeypatch.setattr(sys, "argv", ["shuffledp", *line.split()])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        printed = self._capsys.readouterr()
        return int(stop.value.code or 0), printed.out, printed.err

    def json(self, line: str) -> Any:
        code, out, err = self.run(f"{line} --format json")
        assert (code, err) == (0, "")
        return json.loads(out)


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(monkeypatch, capsys)


@pytest.fixture
def question(tmp_path: Path) -> Path:
    file = tmp_path / "question.toml"
    file.write_text(DESCRIPTION)
    return file


@pytest.fixture
def people(tmp_path: Path) -> Path:
    file = tmp_path / "people.csv"
    rows = [f"{17 + at % 70},{at % 90},{'abc'[at % 3]}" for at in range(700)]
    file.write_text("\n".join(("age,hours-per-week,letter", *rows)) + "\n")
    return file


def test_simulate_answers_by_group(shell: Shell, question: Path, people: Path) -> None:
    line = f"simulate --users 700 --question {question} --data {people}"
    answer = shell.json(line)
    assert (answer["question"], answer["mechanism"]) == ("hours-by-age", "node-histogram")
    table = answer["table"]
    assert len(table["cells"]) == 7
    people_in_cells = sum(sum(row["estimate"]) for row in table["cells"])
    others = table["others"]["estimate"][0]  # each 90th works no hour
    assert people_in_cells + others == pytest.approx(700)
    assert answer["labels"][-1] == "none of these"
    code, out, _ = shell.run(line)
    assert code == 0
    assert "age \\" in out
    assert "35 intervals contain the true count" in out


def test_simulate_counts_by_columns(shell: Shell, people: Path) -> None:
    answer = shell.json(f"simulate --users 700 --table letter,age --data {people}")
    assert answer["table"]["rows"] == ["a", "b", "c"]
    single = shell.json(f"simulate --users 700 --table letter --data {people}")
    assert "table" not in single
    assert single["labels"] == ["a", "b", "c", "none of these"]


HOMEPAGES = """
ask = "strings"
of = "homepage"
[fields.homepage]
text = true
bits = 6
"""


@pytest.fixture
def open_list(tmp_path: Path) -> Path:
    file = tmp_path / "homepages.toml"
    file.write_text(HOMEPAGES)
    return file


@pytest.fixture
def homepages(tmp_path: Path) -> Path:
    file = tmp_path / "homepages.csv"
    file.write_text("homepage\n" + "news\n" * 500 + "maps\n" * 190 + '""\n' * 10)
    return file


def test_simulate_finds_frequent_texts(shell: Shell, open_list: Path, homepages: Path) -> None:
    line = f"simulate --users 700 --question {open_list} --data {homepages}"
    answer = shell.json(line)
    assert (answer["question"], answer["mechanism"]) == ("strings-of-homepage", "node-columns")
    texts = {text["text"]: text for text in answer["open_list"]["texts"]}
    # A count of one node's noise is never off by more than its mean, 79 at three columns.
    assert texts["news"]["true"] == 500
    assert abs(texts["news"]["people"] - 500) < 2 * 79 + 200
    code, out, _ = shell.run(line)
    assert code == 0
    assert "2 candidates were looked up" in " ".join(out.split())


def test_advise_says_how_many_people_are_enough(shell: Shell, tmp_path: Path) -> None:
    question = tmp_path / "wide.toml"
    question.write_text(HOMEPAGES.replace("bits = 6", "bits = 13"))
    line = f"advise --users 10000 --epsilon 1 --delta 1e-6 --question {question}"
    advice = shell.json(line)
    enough = advice["least_people"]
    assert enough["1000"]["10"] <= enough["1000000"]["10"] <= 100
    assert enough["1000000"]["100"] is None
    assert 14 < advice["error"] < 15
    code, out, _ = shell.run(line)
    assert code == 0
    assert "3 columns of 8,192 cells" in out


def test_simulate_looks_up_the_candidates_of_a_file(
    shell: Shell, open_list: Path, homepages: Path, tmp_path: Path
) -> None:
    (tmp_path / "candidates.txt").write_text("mail\r\nnews \n\n")
    line = f"simulate --users 700 --question {open_list} --data {homepages}"
    answer = shell.json(f"{line} --candidates {tmp_path / 'candidates.txt'}")
    assert answer["open_list"]["candidates"] == 2
    assert "maps" not in {text["text"] for text in answer["open_list"]["texts"]}
    code, _, err = shell.run(f"{line} --candidates {tmp_path / 'absent.txt'}")
    assert code == 2
    assert "absent.txt" in err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--table age", "--table needs a file"),
        ("--table age --question {question} --data {people}", "leave one out"),
        ("--table age --data {people} --mechanism one-bit-mean", "one-bit-mean sums"),
        ("--table height --data {people}", "no column 'height'"),
        ("--question {question}", "name a file with --data"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    shell: Shell, question: Path, people: Path, options: str, words: str
) -> None:
    line = options.format(question=question, people=people)
    code, _, err = shell.run(f"simulate --users 700 {line}")
    assert code == 2
    assert words in " ".join(err.split())


def test_advise_prices_a_question(shell: Shell, question: Path) -> None:
    line = f"advise --users 10000 --epsilon 1 --delta 1e-6 --question {question}"
    code, out, _ = shell.run(line)
    assert code == 0
    assert "How long do people of each age work a week? (7 x 5 cells" in " ".join(out.split())
    rows = {row["mechanism"]: row for row in shell.json(line)}
    assert rows["node-histogram"]["standard_error"] < 7
    code, _, err = shell.run(f"{line} --symbols 36")
    assert (code, "leave out --max-value and --symbols" in " ".join(err.split())) == (2, True)


@pytest.mark.skipif(not ADULT.exists(), reason="the data set is not shipped")
def test_the_cross_table_of_adult_data_is_exact_within_seven(shell: Shell, question: Path) -> None:
    """7 x 5 cells from 10,000 people at ε = 1 and δ = 1e-6; margins add up."""
    answer = shell.json(f"simulate --users 10000 --question {question} --data {ADULT}")
    table = answer["table"]
    errors = [error for row in table["cells"] for error in row["standard_error"]]
    assert max(errors) < 7
    for at, row in enumerate(table["cells"]):
        assert sum(row["estimate"]) == pytest.approx(table["row_sums"]["estimate"][at])
    # The noise of a node is bounded by its mean number of dummies, 27.
    differences = [
        abs(value - true)
        for value, true in zip(answer["estimate"], answer["true_value"], strict=True)
    ]
    assert max(differences) < 28
