"""Verified rounds whose parties are processes with different group libraries."""

from __future__ import annotations

from pathlib import Path

import pytest

from shuffledp_adversary.attacks.exchange.framing import FRAME
from shuffledp_adversary.attacks.exchange.mixproof import (
    SCENARIOS,
    observe_node,
    observe_respelled_claim,
)
from shuffledp_adversary.attacks.exchange.rounds import MALICIOUS, tamperable_system
from shuffledp_core.mixproof import acceleration

LIBRARIES = {"auto": "accelerator", "off": "libsodium"}
NODES = ("node-1", "node-2", "node-3")


@pytest.mark.slow
@pytest.mark.skipif(
    acceleration.points() is None, reason="shuffledp-accel is not installed: make accel"
)
@pytest.mark.parametrize(
    "accelerated",
    [{MALICIOUS}, set(NODES) - {MALICIOUS}, {"node-2"}, {"node-3", "analyst"}],
    ids=["the cheat", "its victims", "the entry node", "the last node and the analyst"],
)
async def test_two_libraries_agree_about_a_second_spelling(
    accelerated: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither an honest user nor an honest node is named, whichever party has which library."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=":")
    system, orders = tamperable_system(tmp_path / "system")
    settings = {name: "auto" if name in accelerated else "off" for name in (*NODES, "analyst")}
    for name, setting in settings.items():
        process = system.processes[name]
        record = str(tmp_path / f"{name}.library")
        process.command = ["engine_program", setting, record, *process.command]
    try:
        await system.start()
        # The cheat spells its share in the second way, to see whose record it accuses.
        frame = await observe_node(system, orders, FRAME, SCENARIOS[FRAME][-1])
        # A user claims one key in two spellings, at the door of the entry node.
        claim = await observe_respelled_claim(system)
    finally:
        system.stop()
    libraries = {name: (tmp_path / f"{name}.library").read_text() for name in settings}
    assert libraries == {name: LIBRARIES[setting] for name, setting in settings.items()}
    assert (frame.seen.public, frame.seen.error, frame.framed) == ("failed", "BadBlameError", 0)
    assert frame.names_node
    assert "group element" in str(frame.reason)
    # The round without that user is published.
    assert claim.right
    assert "group element" in str(claim.refusal)
