"""What a sum of pieces does not bear, on real rounds: a lost or exchanged message, no honest node.

One run of the command serves the tests that look at it; they are slow. Nothing asserted of it is
left to chance but the last one: that fewer than 60 of 100 users draw no noise of their own has a
probability below 1e-60."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from shuffledp_adversary.attacks.exchange.rounds import Observation
from shuffledp_adversary.attacks.findings import ClaimVerdict
from shuffledp_adversary.attacks.spoil import (
    SpoiledRound,
    findings_of_exchanges,
    findings_of_losses,
    run_spoil,
)
from shuffledp_core.errors import UsageError

SLOW_RUN = pytest.param("0.999999999", marks=pytest.mark.slow, id="run")


@pytest.fixture(scope="module", params=[SLOW_RUN])
def report(request: pytest.FixtureRequest) -> dict[str, Any]:
    command = [sys.executable, "-m", "shuffledp.cli", "attack", "spoil", "--format", "json"]
    done = subprocess.run(
        [*command, "--confidence", request.param],
        capture_output=True,
        text=True,
        timeout=840,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def played(report: dict[str, Any], what: str, mechanism: str = "split-mix") -> list[dict[str, Any]]:
    return [
        row
        for row in report["details"]["rounds"]
        if (row["what"], row["mechanism"]) == (what, mechanism)
    ]


@pytest.mark.parametrize(
    ("what", "who", "error"),
    [
        ("drop", "node-1", "BadBatchError"),
        ("copy", "node-3", "BadBatchError"),
        ("mark", "node-3", "BadBatchError"),
        ("double", "analyst", "LostMessagesError"),
    ],
)
def test_a_lost_or_doubled_message_leaves_no_answer_rather_than_a_wrong_one(
    report: dict[str, Any], what: str, who: str, error: str
) -> None:
    (row,) = played(report, what)
    assert (row["shift"], row["noticed_by"], row["error"], row["public"]) == (
        None,
        who,
        error,
        "failed",
    )


def test_an_exchanged_message_makes_the_sum_wrong_and_its_sender_notices(
    report: dict[str, Any],
) -> None:
    (altered,) = played(report, "alter")
    assert abs(altered["shift"]) == 1
    for row in (altered, *played(report, "exchange")):
        assert row["error"] == "ReceiptMissingError"
        assert row["public"] == "published, 12 reports"


def test_honest_work_of_the_same_node_gives_the_sum_of_the_messages(report: dict[str, Any]) -> None:
    (row,) = played(report, "nothing")
    assert (row["shift"], row["noticed_by"], row["changed"]) == (0, "nobody", 0)


def test_without_an_honest_node_values_are_read_off_and_with_one_they_are_not(
    report: dict[str, Any],
) -> None:
    assert report["succeeded_undefended"]
    assert report["defence_held"]


# ------------------------------------------------------------------ the verdicts, without rounds

SEEN = Observation(
    tampering="drop", position=2, stopped_by="node-1", users=0, victim=False,
    error="BadBatchError", public="failed",
    charge="reserved", messages=2, changed=0, candidates=None, identified=0,
)  # fmt: skip
PUBLISHED = replace(SEEN, stopped_by=None, public="published, 12 reports")


def test_an_answer_to_a_round_that_lost_a_message_would_be_our_failure() -> None:
    (silence,) = findings_of_losses([SpoiledRound("split-mix", "drop", SEEN, None)])
    (answer,) = findings_of_losses(
        [
            SpoiledRound("split-mix", "drop", SEEN, None),
            SpoiledRound("split-mix", "mark", PUBLISHED, 3.0),
        ]
    )
    assert (silence.verdict, answer.verdict) == (ClaimVerdict.HOLDS, ClaimVerdict.BROKEN)
    assert answer.defended
    assert answer.measured == 0.5


def test_an_exchange_that_nobody_notices_would_be_our_failure() -> None:
    missed, _ = findings_of_exchanges([SpoiledRound("split-mix", "alter", PUBLISHED, 1.0)])
    noticed, off = findings_of_exchanges(
        [SpoiledRound("split-mix", "alter", replace(PUBLISHED, users=1), 1.0)]
    )
    assert (missed.verdict, noticed.verdict) == (ClaimVerdict.BROKEN, ClaimVerdict.HOLDS)
    assert (off.verdict, off.measured, off.defended) == (ClaimVerdict.BROKEN, 1.0, False)


def test_a_report_names_what_was_played_in_its_order_and_says_where_there_is_no_answer() -> None:
    played = [
        SpoiledRound("split-mix", what, SEEN, None) for what in ("mark", "drop", "double", "copy")
    ]
    assert findings_of_losses(played)[0].scenario.startswith("mark, drop, double, copy: ")
    failed, off = findings_of_exchanges([SpoiledRound("split-mix", "alter", SEEN, None)])
    assert "no answer" in failed.note
    assert off.measured == 0


@pytest.mark.parametrize("wrong", [{"confidence": 1.0}, {"users": 1}])
def test_spoiling_with_a_number_out_of_range_starts_nothing(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        run_spoil(**wrong)
