"""The exchange attack on verified rounds, by its command: every tampering is stopped and its node named. About 60 s."""

import json
import subprocess
import sys

import pytest

from shuffledp_adversary.attacks.exchange.verified import LAYERS, SCENARIOS


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_whoever_tampers_with_a_verified_round_is_named() -> None:
    command = [sys.executable, "-m", "shuffledp.cli", "attack", "exchange", "--mix", "verified", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=840, check=False)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    details = json.loads(done.stdout)["details"]
    played = [(row["tampering"], row["position"]) for row in details["observations"]]
    assert played == [(name, position) for name, positions in SCENARIOS.items() for position in positions]
    for row in details["observations"]:
        assert row["public"] == "failed", row
        assert row["names_node"], row
        assert row["identified"] == 0, row
        assert row["charge"] == "reserved", row
    assert [row["layer"] for row in details["users"]] == list(LAYERS)
    for row in details["users"]:
        assert (row["published"], row["accepted"], row["complaints"], row["reason"]) == (True, 12, 0, None)
