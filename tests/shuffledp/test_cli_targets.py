"""`shuffledp calibrate` and `shuffledp advise` through the command line."""

from __future__ import annotations

import json
import math
import sys
from fractions import Fraction
from typing import Any

import pytest

from shuffledp import cli, progress
from shuffledp_core.mechanisms import MECHANISMS, KRRHistogram
from shuffledp_privacy.bounds import Setting, epsilon_bounds

TARGET = "--users 1000 --epsilon 1 --delta 1e-6"


class Shell:
    """`shuffledp` in this process, from arguments to exit code, as `main` runs it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys
        monkeypatch.setattr(
            progress, "PATIENCE_SECONDS", 3600.0
        )  # how slow this machine is must not show in the output

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


@pytest.mark.parametrize("mechanism", list(MECHANISMS))
def test_a_calibrated_mechanism_keeps_its_target_without_waste(
    shell: Shell, mechanism: str
) -> None:
    # A response that is kept for all rounds of a question is noisier than one round of many people
    # asks for at 1.
    target = 0.1 if mechanism == "rappor-histogram" else 1.0
    answer = shell.json(f"calibrate {mechanism} {TARGET} --max-value 6 --epsilon {target}")
    assert answer["mechanism"] == mechanism
    assert 0.95 * target < answer["epsilon"]["certified"] <= target
    assert answer["parameters"]["target_epsilon"] == target
    assert math.isfinite(answer["standard_error"])


def test_what_calibration_prints_can_be_certified_again(shell: Shell) -> None:
    answer = shell.json(f"calibrate krr-histogram {TARGET} --symbols 7 --honest 900")
    spec = KRRHistogram(symbols=7, blanket=Fraction(answer["parameters"]["blanket"]))
    assert (
        epsilon_bounds(spec, Setting(1000, 900), 1e-6).certified == answer["epsilon"]["certified"]
    )


def test_a_calibrated_round_can_be_repeated(shell: Shell) -> None:
    answer = shell.json(
        "calibrate krr-histogram --users 500 --symbols 4 --epsilon 2 --delta 1e-6 --rounds 3"
    )
    assert answer["rounds"] == 3
    assert 1.9 < answer["epsilon"]["certified"] <= 2.0


def test_calibration_for_a_fully_corrupt_route_is_a_refusal(shell: Shell) -> None:
    code, _, err = shell.run(
        f"calibrate krr-histogram {TARGET} --symbols 4 --corrupt-nodes 1,2 --nodes 2"
    )
    assert code == 3
    assert "nothing is shuffled" in err


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            f"calibrate magic {TARGET} --max-value 5",
            "unknown mechanism 'magic'; choose one of bloom-rappor",
        ),
        (f"calibrate geo-shuffle {TARGET}", "--max-value"),
        (f"calibrate geo-shuffle {TARGET} --symbols 4", "name --max-value"),
        (
            "calibrate krr-histogram --users 10 --symbols 4 --epsilon 0 --delta 1e-6",
            "epsilon must be a finite number",
        ),
        ("calibrate krr-histogram --users 10 --symbols 4 --epsilon -2 --delta 1e-6", "not -2.0"),
        ("calibrate krr-histogram --users 10 --symbols 4 --epsilon nan --delta 1e-6", "not nan"),
        (
            "calibrate krr-histogram --users 10 --symbols 4 --epsilon 1 --delta 1",
            "below 1, not 1.0",
        ),
        (
            "calibrate krr-histogram --users 10 --symbols 1 --epsilon 1 --delta 1e-6",
            "symbols must be from 2",
        ),
        (
            "calibrate krr-histogram --users 10 --symbols 4 --epsilon 1 --delta 1e-6 --rounds 0",
            "not 0",
        ),
        (
            f"calibrate geo-shuffle {TARGET} --max-value 5 --max-distance 6",
            "max-distance must be from 1 to 5",
        ),
        (f"calibrate geo-shuffle {TARGET} --max-value 0", "max-value must be from 1"),
        (f"calibrate geo-shuffle {TARGET} --max-value 5 --honest 1001", "not 1001"),
        (f"advise {TARGET}", "--max-value"),
        (
            f"advise {TARGET} --max-value 5 --max-error 0",
            "max-error must be a finite number above 0, not 0.0",
        ),
        (
            f"advise {TARGET} --max-value 5 --max-messages 0",
            "max-messages must be at least 1, not 0",
        ),
        (f"advise {TARGET} --max-value five", "'five' is not a whole number"),
    ],
)
def test_bad_targets_are_refused_with_the_value_and_what_is_allowed(
    shell: Shell, line: str, words: str
) -> None:
    code, out, err = shell.run(line)
    assert (code, out) == (2, "")
    assert words in " ".join(err.replace("│", " ").split())


def test_advice_lists_every_mechanism_that_fits(shell: Shell) -> None:
    """Those that answer with a sum, or with the counts of one question."""
    rows = shell.json(f"advise {TARGET} --max-value 6")
    assert {row["mechanism"] for row in rows} == {
        kind
        for kind, mechanism in MECHANISMS.items()
        if not (mechanism.for_ranges or mechanism.counts_columns)
    }
    for row in rows:
        assert row["epsilon"]["attained"] <= row["epsilon"]["certified"] <= 1.0
        in_the_open = row["mechanism"] in {"dummy-histogram", "node-histogram", "node-sum"}
        assert in_the_open or row["corrupted"]["epsilon"] > 0
        assert (row["corrupted"]["epsilon"] is None) == in_the_open
    assert [row["messages_per_user"] for row in rows] == sorted(
        row["messages_per_user"] for row in rows
    )


def test_one_row_of_each_kind_is_recommended_beside_what_trust_would_save(shell: Shell) -> None:
    rows = shell.json(f"advise {TARGET} --max-value 6")
    taken = {row["mechanism"]: row for row in rows if row["recommended"]}
    assert {row["estimates"] for row in taken.values()} == {"sum", "count of one symbol"}
    assert len(taken) == 2
    for row in rows:
        assert row["central"]["standard_error"] < row["local"]["standard_error"]
        assert row["standard_error"] >= row["central"]["standard_error"] * 0.99
        assert bool(row["warnings"]) <= bool(row["recommended"])
    # Among the sums no row whose noise is made in shares, or that one lost message ends.
    assert all(MECHANISMS[kind].noise_alone and MECHANISMS[kind].bears_losses for kind in taken)
    counts = [row for row in rows if row["estimates"] != "sum"]
    least = min(counts, key=lambda row: row["standard_error"])
    assert [row for row in counts if row["recommended"]] == [least]


def test_fifty_people_gain_from_noise_of_nodes_and_not_from_each_other(shell: Shell) -> None:
    rows = shell.json("advise --users 50 --symbols 4 --epsilon 3 --delta 1e-6")
    (row,) = [row for row in rows if row["recommended"]]
    assert row["mechanism"] == "node-histogram"
    assert row["standard_error"] < 0.6 * row["local"]["standard_error"]
    crowd = [row for row in rows if MECHANISMS[row["mechanism"]].needs_crowd]
    assert all(row["standard_error"] > 0.9 * row["local"]["standard_error"] for row in crowd)
    many = shell.json("advise --users 5000 --symbols 4 --epsilon 1 --delta 1e-6")
    words = [line for row in many for line in row["warnings"]]
    assert [line[:29] for line in words] == ["if every node is corrupt, not"]


def test_an_error_beyond_the_people_is_called_that(shell: Shell) -> None:
    line = "advise --users 20 --symbols 50 --epsilon 0.1 --delta 1e-6"
    (row,) = [row for row in shell.json(line) if row["recommended"]]
    assert row["standard_error"] > 10
    assert any("no more than a guess of the middle" in words for words in row["warnings"])
    code, out, _ = shell.run(line)
    assert code == 0
    assert "Note: the error" in out
    assert "Sum of" not in out


def test_limits_leave_only_what_fits_or_refuse(shell: Shell) -> None:
    few = shell.json(f"advise {TARGET} --max-value 6 --max-messages 6")
    assert {row["mechanism"] for row in few} == {
        "dummy-histogram",
        "node-histogram",
        "node-sum",
        "krr-histogram",
        "hadamard-histogram",
        "rappor-histogram",
        "local-laplace",
        "bloom-rappor",
        "one-bit-mean",
        "quantised-rr",
        "rr-shuffle",
    }
    code, _, err = shell.run(f"advise {TARGET} --max-value 6 --max-messages 1 --max-error 0.001")
    assert code == 3
    assert "no mechanism fits" in err


def test_people_get_a_table_of_all_mechanisms(shell: Shell) -> None:
    code, out, _ = shell.run(f"advise {TARGET} --max-value 6")
    assert code == 0
    for word in (
        "krr-histogram",
        "sgdl-shuffle",
        "messages",
        "ε_L",
        "ε certified",
        "ε attained",
        "error",
        "no shuffler",
        "trusted party",
        "Histogram of 7 values",
        "Sum of 0..6",
        "Take node-histogram",
    ):
        assert word in out
