"""The exchange attack on verified rounds: tampering nodes and users are named.

About 60 s, mostly slow.
"""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shuffledp_adversary.attacks.exchange.attack import run_exchange
from shuffledp_adversary.attacks.exchange.culprits import LAYERS, CulpritsObservation
from shuffledp_adversary.attacks.exchange.dummies import WITHHOLD
from shuffledp_adversary.attacks.exchange.framing import FRAME
from shuffledp_adversary.attacks.exchange.mixproof import (
    SCENARIOS,
    observe_node,
    observe_respelled_claim,
)
from shuffledp_adversary.attacks.exchange.noise_rounds import SCENARIOS as DUMMIES
from shuffledp_adversary.attacks.exchange.rounds import tamperable_system
from shuffledp_core.errors import UsageError
from shuffledp_core.vocabulary import Mix


@pytest.mark.slow
def test_whoever_tampers_with_a_verified_round_is_named() -> None:
    command = [sys.executable, "-m", "shuffledp.cli", "attack", "exchange", "--mix", "verified"]
    command += ["--users", "15", "--culprits", "1,3", "--tamperings", "5", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=840, check=False)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    details = json.loads(done.stdout)["details"]
    played = [(row["tampering"], row["position"]) for row in details["observations"]]
    assert played == [
        (name, position) for name, positions in SCENARIOS.items() for position in positions
    ]
    for row in details["observations"]:
        assert row["public"] == "failed", row
        assert row["names_node"], row
        assert row["identified"] == 0, row
        assert row["charge"] == "reserved", row
        assert row["framed"] == 0, row
    [claim] = details["respelled_claims"]
    assert claim["refusal"].startswith("BadClaimError: user "), claim
    assert claim["reason"] is None, claim
    tried = [(row["order"], row["position"]) for row in details["dummies"]]
    assert tried == [
        (name, position) for name, positions in DUMMIES.items() for position in positions
    ]
    for row in details["dummies"]:
        assert not row["published"], row
        if row["order"] == WITHHOLD:
            assert row["reason"].startswith("no answer from"), row
        else:
            assert f"node {row['position']}: " in row["reason"], row
    assert [(row["culprits"], row["layer"]) for row in details["users"]] == [
        (number, layer) for number in (1, 3) for layer in LAYERS
    ]
    for row in details["users"]:
        number = row["culprits"]
        assert (row["published"], row["accepted"], row["complaints"], row["reason"]) == (
            True,
            15 - number,
            0,
            None,
        )
        assert (row["named"], row["framed"]) == (number, 0)
    assert details["broken"] == []
    assert {who: sum(outcomes.values()) for who, outcomes in details["random"].items()} == {
        "node 1": 5,
        "node 2": 5,
        "node 3": 5,
        "a user": 5,
    }


async def test_a_second_spelling_of_an_element_frames_nobody(tmp_path: Path) -> None:
    """A decoder that ignores bit 255 would name an honest user here, and an honest node 1 there."""
    system, orders = tamperable_system(tmp_path)
    try:
        await system.start(lambda _done, _of: None)
        seen = await observe_node(system, orders, FRAME, SCENARIOS[FRAME][-1])
        claim = await observe_respelled_claim(system)
    finally:
        system.stop()
    assert (seen.seen.public, seen.seen.error, seen.framed) == ("failed", "BadBlameError", 0)
    assert seen.names_node
    assert claim.right
    assert "group element" in str(seen.reason)
    assert "group element" in str(claim.refusal)


@pytest.mark.parametrize("culprits", ["0", "14", "1,1", "x", "", "1,", "-1", "1e3", "٣"])
def test_other_numbers_of_culprits_than_a_round_can_have_start_nothing(culprits: str) -> None:
    with pytest.raises(
        UsageError, match="--culprits must be different numbers from 1 to 13, such as 1,10"
    ):
        run_exchange(mix=Mix.VERIFIED, users=15, culprits=culprits)


@pytest.mark.parametrize("users", [2, 10_001, 10**12])
def test_a_round_of_other_sizes_than_can_be_played_starts_nothing(users: int) -> None:
    with pytest.raises(UsageError, match="--users must be from 3 to 10,000"):
        run_exchange(mix=Mix.VERIFIED, users=users)


@pytest.mark.parametrize("option", [{"users": 15}, {"culprits": "1,3"}, {"tamperings": 5}])
def test_what_is_of_verified_rounds_is_not_passed_over_in_plain_ones(
    option: dict[str, Any],
) -> None:
    with pytest.raises(UsageError, match="add --mix verified"):
        run_exchange(**option)


@pytest.mark.parametrize("option", [{"trials": 7}, {"confidence": 0.5}])
def test_what_is_of_plain_rounds_is_not_passed_over_in_verified_ones(
    option: dict[str, Any],
) -> None:
    with pytest.raises(UsageError, match="need --mix plain"):
        run_exchange(mix=Mix.VERIFIED, **option)


SEEN = CulpritsObservation(
    layer=2,
    users=15,
    culprits=3,
    published=True,
    accepted=12,
    named=3,
    framed=0,
    complaints=0,
    seconds=1.0,
    reason=None,
)


@pytest.mark.parametrize(
    "wrong",
    [{"named": 2}, {"framed": 1}, {"accepted": 11}, {"complaints": 1}, {"published": False}],
)
def test_a_round_that_misses_a_culprit_frames_somebody_or_loses_a_report_is_not_right(
    wrong: dict[str, Any],
) -> None:
    assert SEEN.right
    assert not replace(SEEN, **wrong).right
