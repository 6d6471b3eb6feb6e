"""The attack on rounds with corrupt nodes by its command, and on the files that a demo left.

A file of its own beside `test_corrupt_rounds`, so that two workers share the work.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import Shell

from shuffledp_adversary.attacks.findings import ClaimVerdict
from shuffledp_adversary.attacks.trace import trace_findings
from shuffledp_adversary.tracing.trace import load_captured, trace_round
from shuffledp_core.errors import ConfigError, CorruptLogError, MalformedDocumentError, UsageError

COMMAND = [sys.executable, "-m", "shuffledp.cli"]


@pytest.fixture(scope="module")
def demo_round(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The folder and the answer of `shuffledp demo --corrupt 1,2,3`."""
    folder = tmp_path_factory.mktemp("demo")
    answer = json.loads(
        run(folder, "demo", "--users", "100", "--mechanism", "rr-shuffle", "--epsilon", "4",
        "--max-value", "3",
            "--corrupt", "1,2,3", "--format", "json").stdout
    )  # fmt: skip
    return folder / "out" / answer["round"], answer


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *options], cwd=folder, capture_output=True, text=True, timeout=240, check=False
    )


def test_the_demo_shows_side_by_side_what_is_certified_and_what_was_found(
    demo_round: tuple[Path, dict[str, Any]],
) -> None:
    folder, answer = demo_round
    assert answer["corrupt_nodes"] == [1, 2, 3]
    assert answer["traced"] == 1.0
    assert answer["epsilon_for_this_corruption"] == answer["epsilon_corrupted"] > answer["epsilon"]
    low, high = answer["attack_interval"]
    assert low <= answer["attack_success"] <= high
    assert answer["guessing_without_messages"] > 0
    saved = json.loads((folder / "report.json").read_text())
    assert {name: saved[name] for name in answer} == answer


def test_the_attack_can_be_repeated_on_the_files_that_a_demo_left(
    demo_round: tuple[Path, dict[str, Any]],
) -> None:
    folder, answer = demo_round
    done = run(
        folder, "attack", "trace", "--round-folder", ".", "--local-trials", "0", "--format", "json"
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    for name in (
        "traced",
        "attack_success",
        "attack_interval",
        "guessing_without_messages",
        "epsilon_corrupted",
    ):
        assert found["details"][name] == answer[name]
    assert [one["measured"] for one in found["findings"] if "traced" in one["quantity"]] == [
        1.0,
        0.0,
        0.0,
        0.0,
    ]


def test_files_of_another_round_or_torn_ones_are_refused(
    demo_round: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    folder, answer = demo_round
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    log = copy / "corrupt" / "node-2" / f"{answer['round']}.npz"
    whole = log.read_bytes()
    with pytest.raises(ConfigError, match="root key"):
        load_captured(copy / "corrupt")
    with pytest.raises(CorruptLogError, match="it holds logs of: no round"):
        load_captured(copy, tmp_path / "nowhere")
    other = tmp_path / "other" / f"{'0' * 32}.npz"
    other.parent.mkdir()
    other.write_bytes(whole)
    with pytest.raises(
        CorruptLogError, match=f"holds no log of round {answer['round']}; it holds logs of: 0000"
    ):
        load_captured(copy, other.parent)
    other.rename(other.with_name(log.name)).write_bytes(whole[:40])
    with pytest.raises(CorruptLogError, match="truncated"):
        load_captured(copy, other.parent)
    with pytest.raises(UsageError, match="there are logs of"):
        trace_round(load_captured(copy), {4})
    log.write_bytes(whole[:-100])
    with pytest.raises(CorruptLogError, match="truncated"):
        load_captured(copy)
    log.unlink()
    assert trace_round(load_captured(copy)).traced_share == 0.0
    board = copy / "board.bin"
    board.write_bytes(board.read_bytes()[17:])
    with pytest.raises(MalformedDocumentError, match="board"):
        load_captured(copy)


def test_an_honest_node_that_forgets_to_mix_is_found_out(
    demo_round: tuple[Path, dict[str, Any]],
) -> None:
    """Without node 2's log nobody is traced.

    Had it kept the order, the guesses would be those of all three logs.
    """
    captured = load_captured(demo_round[0])
    order, third = captured.logs[2].permutation, captured.logs[3]
    unmixed = np.empty_like(third.incoming)
    unmixed[order] = third.incoming
    logs = {
        **captured.logs,
        3: replace(third, incoming=unmixed, permutation=order[third.permutation]),
    }
    traced, forgot = trace_round(captured), trace_round(replace(captured, logs=logs), {1, 3})
    assert forgot.traced_share == 0.0
    assert forgot.correct_by_place == traced.correct
    (found,) = (one for one in trace_findings(forgot) if "did not mix" in one.scenario)
    assert found.verdict is ClaimVerdict.BROKEN
    assert trace_round(captured, {2, 3}).correct_by_place is None


def test_without_a_truth_the_trace_is_the_same_and_success_is_unknown(
    demo_round: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(demo_round[0], copy)
    (copy / "truth.npz").unlink()
    trace = trace_round(load_captured(copy))
    assert (trace.traced_share, trace.success, trace.interval, trace.baseline) == (
        1.0,
        None,
        None,
        None,
    )


@pytest.mark.slow
def test_the_attack_guesses_far_better_than_without_messages_only_when_no_node_is_honest(
    tmp_path: Path,
) -> None:
    """Every interval at 1 - 1e-9, so that a defended claim breaks with at most that probability
    each. Undefended, about
    four fifths of 300 users are guessed; the verdict would change below 42%: binomial tail below
    1e-30.
    """
    done = run(
        tmp_path,
        "attack",
        "trace",
        "--confidence",
        "0.999999999",
        "--local-trials",
        "5000",
        "--format",
        "json",
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["succeeded_undefended"]
    assert found["defence_held"]
    assert found["details"]["attack_success"] > 2 * found["details"]["guessing_without_messages"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["nothing"], "nothing"),
        (["trace", "--corrupt", "1,5"], "from 1 to 3"),
        (["trace", "--confidence", "1"], "below 1, not 1"),
        (["trace", "--mechanism", "dice"], "geo-shuffle"),
        (["trace", "--logs", "."], "--round-folder"),
    ],
)
def test_bad_input_is_named_before_anything_is_started(
    shuffledp: Shell, options: list[str], says: str
) -> None:
    ended, _, errors = shuffledp("attack", *options)
    assert ended == 2
    assert says in errors.replace("\n", " ")
