"""The exchange attack, by its command: each tampering of a real node is noticed by whom and by what
it must be.

One run of the command (about 35 s on two free cores) serves all tests that look at it; they are
slow. What is sampled in it has a false-alarm rate below 1e-9: the adversary of the guarded rounds
would have to guess a message or a 16-byte tag."""

import json
import subprocess
import sys
from typing import Any

import pytest

from shuffledp_adversary.attacks.exchange.attack import SCENARIOS, run_exchange
from shuffledp_adversary.attacks.exchange.node import Orders
from shuffledp_adversary.attacks.exchange.rounds import suspects
from shuffledp_adversary.attacks.exchange.tampering import COPIES, Pool, alter, double, replay
from shuffledp_adversary.attacks.exchange.unguarded import flip_every_bit, run_copy, run_mark
from shuffledp_core.errors import UsageError
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.onion.suites import SUITES

pytestmark = pytest.mark.timeout(
    900
)  # the command is all work: a loaded machine takes several times longer

MISCOUNTED = ("CountMismatchError", "failed", "reserved")
MISSED = ("ReceiptMissingError", "published, 12 reports", "settled")
ONE_USER = {"the victim", "another user"}
"""Behind the entry the node goes for somebody's message, and cannot know whose."""
OTHERS = {"another user", "2 other users"}
"""Two messages of others gave way; both may be one user's."""
ANYBODY = {*ONE_USER, *OTHERS, "3 other users", "the victim and 1 more", "the victim and 2 more"}


SLOW_RUN = pytest.param("0.999999999", marks=pytest.mark.slow, id="run")


@pytest.fixture(
    scope="module", params=[SLOW_RUN]
)  # a parameter's marks are those of all tests that look at the run
def report(request: pytest.FixtureRequest) -> dict[str, Any]:
    command = [sys.executable, "-m", "shuffledp.cli", "attack", "exchange", "--format", "json"]
    done = subprocess.run(
        [*command, "--confidence", request.param],
        capture_output=True,
        text=True,
        timeout=840,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def observed(report: dict[str, Any], tampering: str, position: int) -> dict[str, Any]:
    (row,) = [
        row
        for row in report["details"]["observations"]
        if (row["tampering"], row["position"]) == (tampering, position)
    ]
    return dict(row)


@pytest.mark.parametrize(
    ("tampering", "position", "who", "what"),
    [
        ("copy", 1, OTHERS, MISSED),
        ("copy", 2, ANYBODY, MISSED),
        ("replay", 1, {"another user"}, MISSED),
        ("mark", 1, {"the victim"}, MISSED),
        ("mark", 2, ONE_USER, MISSED),
        ("double", 3, ANYBODY, MISSED),
        ("drop", 1, {"the victim"}, MISSED),
        ("drop", 2, ONE_USER, MISSED),
        ("substitute", 1, {"the victim"}, MISSED),
        ("substitute", 2, ONE_USER, MISSED),
        ("exchange", 1, {"the victim"}, MISSED),
        ("exchange", 3, ONE_USER, MISSED),
        ("alter", 3, ONE_USER, MISSED),
        ("shrink", 1, {"analyst"}, MISCOUNTED),
        ("shrink", 3, {"analyst"}, MISCOUNTED),
        (
            "shrink-silently",
            1,
            {"the victim"},
            ("ReceiptMissingError", "published, 11 reports", "settled"),
        ),
        ("grow", 1, {"analyst"}, MISCOUNTED),
        ("grow", 3, {"analyst"}, MISCOUNTED),
        ("isolate", 1, {"11 other users"}, MISSED),
    ],
)
def test_a_tampering_is_noticed_by_this_party_with_this_error(
    report: dict[str, Any], tampering: str, position: int, who: set[str], what: tuple[str, str, str]
) -> None:
    row = observed(report, tampering, position)
    assert row["noticed_by"] in who
    assert (row["error"], row["public"], row["charge"]) == what


def test_every_scenario_is_looked_at(report: dict[str, Any]) -> None:
    played = {(row["tampering"], row["position"]) for row in report["details"]["observations"]}
    assert played >= {
        (name, position) for name, positions in SCENARIOS.items() for position in positions
    }


def test_honest_work_of_the_same_node_alarms_nobody(report: dict[str, Any]) -> None:
    row = observed(report, "nothing", 1)
    assert (row["noticed_by"], row["error"], row["changed"]) == ("nobody", None, 0)
    assert row["candidates"] == 12 * row["messages"]


def test_copies_replays_and_marks_show_the_adversary_nothing(report: dict[str, Any]) -> None:
    for tampering in ("copy", "replay", "mark"):
        for position in SCENARIOS[tampering]:
            row = observed(report, tampering, position)
            assert not row["got"]
            assert (
                row["candidates"] > 20
            )  # of 24 messages: whatever is left on the board may be anybody's


def test_what_is_exchanged_changes_the_answer_until_its_owner_looks(report: dict[str, Any]) -> None:
    assert (
        observed(report, "substitute", 1)["changed"]
        == observed(report, "substitute", 1)["messages"]
    )
    for tampering, position in (("exchange", 1), ("exchange", 3), ("alter", 3), ("substitute", 2)):
        assert observed(report, tampering, position)["changed"] == 1
        assert observed(report, tampering, position)["got"]


@pytest.mark.parametrize(
    ("name", "position", "noticed_by"),
    [("isolate", 1, "11 other users"), ("crowd", 1, "nobody"), ("surround", 2, "nobody")],
)
def test_a_user_without_a_crowd_is_identified(
    report: dict[str, Any], name: str, position: int, noticed_by: str
) -> None:
    row = observed(report, name, position)
    assert row["got"]
    assert row["identified"] == row["messages"] == row["candidates"]
    assert row["noticed_by"] == noticed_by


def test_at_the_door_only_the_very_same_submission_gets_its_receipt_again(
    report: dict[str, Any],
) -> None:
    assert report["details"]["at_the_door"] == {
        "the same submission again": None,
        "a stolen envelope, claimed with the thief's own credential": "InvalidSubmissionError",
        "a stolen submission with the credential exchanged": "InvalidSubmissionError",
        "a second, different submission of the same user": "DifferentSubmissionError",
        "a credential that is not enrolled": "UnknownCredentialError",
    }
    assert observed(report, "knock", 2)["public"] == "published, 11 reports"


def test_the_attack_is_real_without_the_defences_and_they_hold(report: dict[str, Any]) -> None:
    assert report["succeeded_undefended"]
    assert report["defence_held"]
    assert {one["defended"] for one in report["findings"]} == {True, False}


def test_a_copied_onion_is_traced_unless_nodes_drop_repetitions() -> None:
    """Exact: the copies are the only repetition, but for equal random tags (below 2^-100)."""
    assert run_copy(20, guarded=False).hits == 20
    guarded = run_copy(20, guarded=True)
    assert (guarded.hits, guarded.dropped) == (0, 20 * (COPIES - 1))


def test_a_marked_onion_is_traced_unless_layers_are_authenticated() -> None:
    assert run_mark(20).hits == 20
    for suite in SUITES.values():
        assert flip_every_bit(suite).hits == 0


def test_an_adversary_would_know_a_repeated_or_replayed_message_if_it_ever_reached_a_board() -> (
    None
):
    assert suspects([b"a", b"b", b"c", b"b"], [b"c"]) == {b"b"}
    assert suspects([b"a", b"b", b"c"], [b"c"], earlier={b"a"}) == {b"a"}
    assert suspects([b"a", b"b", b"c"], [b"c"]) == {b"a", b"b"}


def test_a_tampering_that_cannot_be_is_our_own_misuse(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    geometry = Geometry(suite="sealed-box", hops=3, messages_per_user=1, symbol_bytes=1)
    pool = Pool(geometry, "a-round", [], 1, [b"record"], [b"record"])
    with pytest.raises(ValueError, match="last node"):
        alter(pool)
    with pytest.raises(ValueError, match="last node"):
        double(pool)
    with pytest.raises(ValueError, match="no earlier round"):
        replay(pool)
    with pytest.raises(ValueError, match="'nonsense'"):
        Orders(tmp_path_factory.mktemp("orders")).give("nonsense")


@pytest.mark.parametrize(
    "wrong", [{"confidence": 1.0}, {"confidence": float("nan")}, {"trials": 0}]
)
def test_a_number_out_of_range_is_named_before_anything_is_started(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        run_exchange(**wrong)
