"""Verified rounds with noise of nodes, over real processes: honest, with a node that cheats about
its own dummies or another's, and with one that dies between drawing and sending them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from rounds_for_tests import restart, until_released, within_a_minute

from shuffledp import verify
from shuffledp_adversary.attacks.exchange import dummies
from shuffledp_adversary.attacks.exchange.node import Orders
from shuffledp_adversary.attacks.exchange.noise_rounds import plan_for
from shuffledp_adversary.attacks.exchange.rounds import (
    LARGEST,
    MALICIOUS,
    ROUTES,
    USERS,
    charge_of,
    tamperable_system,
)
from shuffledp_core.documents.models import Certificate, Result
from shuffledp_core.documents.signed import Signed, from_json
from shuffledp_core.mixproof.history import History
from shuffledp_core.runtime.keys import verify_from
from shuffledp_core.vocabulary import Outcome
from shuffledp_ops.rounds.operate import trusted_files
from shuffledp_ops.rounds.running import OpenedRound, make_report, read_result, with_published
from shuffledp_ops.rounds.saving import save_round
from shuffledp_sim.system.processes import LocalSystem
from shuffledp_sim.users.small_round import SmallRound, open_small

NODES = 3
PATIENT = True
"""A node is killed and started again within a round."""


@dataclass
class MaliciousSystem:
    """A system of three nodes, the first of which obeys orders."""

    system: LocalSystem
    orders: Orders

    async def play(self, position: int) -> tuple[SmallRound, Signed]:
        """A round of honest users with the malicious node at this position, to its end."""
        played = await self.open(position)
        return played, await within_a_minute(played.finish())

    async def open(self, position: int) -> SmallRound:
        """The same up to the receipts."""
        played = await open_small(self.system, plan_for(self.system, position))
        played.honest += played.prepare_all([user % (LARGEST + 1) for user in range(USERS)])
        await played.send(played.honest)
        return played

    def dummies_file(self, node: str, round_id: str) -> Path:
        return self.system.folder / "state" / node / "rounds" / round_id / "dummies"


@pytest.fixture(scope="module")
def malicious(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MaliciousSystem]:
    system, orders = tamperable_system(tmp_path_factory.mktemp("dummies"))
    try:
        asyncio.run(system.start())
        yield MaliciousSystem(system, orders)
    finally:
        system.stop()


@pytest.fixture(autouse=True)
def _no_order_is_left(malicious: MaliciousSystem) -> Iterator[None]:
    yield
    malicious.orders.give(None)


async def save(played: SmallRound, signed: Signed, folder: Path) -> History:
    """Saves the round's documents; its history."""
    deployment = played.system.deployment
    result = read_result(deployment, signed)
    opened = OpenedRound(played.round_id, played.announcement)
    report = await with_published(deployment, make_report(deployment, opened, signed, result, {}))
    save_round(report, folder, trusted_files(deployment.folder))
    return History.from_bytes(report.published["history.bin"])


async def test_a_verified_round_has_the_dummies_of_every_node_and_anybody_can_check_it(
    malicious: MaliciousSystem, tmp_path: Path
) -> None:
    played, signed = await malicious.play(2)
    history = await save(played, signed, tmp_path)
    result = from_json(signed.body, Result)
    per_node = played.verified.mechanism.dummies_per_node
    assert per_node > 0
    assert (result.accepted, result.messages) == (USERS, USERS + NODES * per_node)
    assert result.dropped == 0
    assert isinstance(result.final_certificate, Signed)
    final = from_json(result.final_certificate.body, Certificate)
    assert final.holds
    assert final.honest == 1
    claims = history.split_claims(played.verified.geometry)
    assert [len(part) for part in claims] == [USERS, NODES]
    roster = played.roster
    assert [claim[:32].hex() for claim in claims[1]] == [
        roster.party(name).identity_key for name in ROUTES[2]
    ]
    board = await played.board(result)
    assert [played.complaint(signed, board, user) for user in range(USERS)] == [None] * USERS
    lines = [line for checked in verify(tmp_path) for line in checked.lines]
    assert (
        f"mixing: {per_node:,} dummies of each of {NODES} nodes on the list, each claim signed by "
        "its node, all of them on the board" in lines
    )


@pytest.mark.parametrize(
    ("order", "position", "error", "reason", "charge"),
    [
        # Seen by the next node on the list, which everybody checks.
        (dummies.FORGE, 1, "BadListError", "node-2: node 1: the list has a claim", "reserved"),
        # Seen by the next node in the batch.
        (dummies.DROP, 1, "BadHopError", "node-2: node 1: the header states", "reserved"),
        (dummies.EXCHANGE, 1, "BadHopError", "node-2: node 1: the keys of the batch", "reserved"),
        # Seen by node 2, wherever the owner stands, and traced to the owner's claim.
        (dummies.BREAK, 1, "BadBlameError", "node 1: one of its own dummies", "reserved"),
        (dummies.BREAK, 2, "BadBlameError", "node 2: one of its own dummies", "reserved"),
        (dummies.BREAK, 3, "BadBlameError", "node 3: one of its own dummies", "reserved"),
    ],
)
async def test_a_node_that_cheats_with_dummies_is_seen_and_the_round_has_no_answer(
    malicious: MaliciousSystem, order: str, position: int, error: str, reason: str, charge: str
) -> None:
    malicious.orders.give(order)
    played, signed = await malicious.play(position)
    result = verify_from(played.roster.analyst, signed, Result)
    assert (result.outcome, result.error) == (Outcome.FAILED, error), result.reason
    assert reason in str(result.reason)
    assert await charge_of(malicious.system, played.round_id) == charge


@pytest.mark.parametrize("position", [2, 3])
async def test_a_round_without_the_dummies_of_a_node_ends_before_anything_is_mixed(
    malicious: MaliciousSystem, position: int
) -> None:
    malicious.orders.give(dummies.WITHHOLD)
    played = await open_small(malicious.system, plan_for(malicious.system, position))
    signed = await within_a_minute(played.finish())
    result = verify_from(played.roster.analyst, signed, Result)
    assert result.error == "UnansweredError"
    assert result.reason == "no answer from node-1: node-1: this node sends no dummies"
    await within_a_minute(until_released(malicious.system, played.round_id))


async def test_a_node_that_dies_between_drawing_and_sending_sends_what_it_drew(
    malicious: MaliciousSystem, tmp_path: Path
) -> None:
    malicious.orders.give(dummies.CRASH)
    played = await malicious.open(2)
    process = malicious.system.processes[MALICIOUS]
    await asyncio.to_thread(process.wait, 240)
    assert not process.alive
    drawn = malicious.dummies_file(MALICIOUS, played.round_id).read_bytes()
    malicious.orders.give(None)
    await restart(malicious.system, MALICIOUS)
    signed = await within_a_minute(played.finish())
    history = await save(played, signed, tmp_path)
    claim = history.split_claims(played.verified.geometry)[1][1]
    assert claim == drawn[: len(claim)]
    assert [line for checked in verify(tmp_path) for line in checked.lines if "dummies" in line]
