"""Simulated users are the same people in every round of a run: what a device keeps, they keep."""

from __future__ import annotations

from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Self

import numpy as np
import pytest
from client_rounds import NOW, POPULATION, Draft, make_deployment

from shuffledp_client.blocks import Block
from shuffledp_client.verification import CheckedRound, verify_round
from shuffledp_core.documents.signed import Signed
from shuffledp_core.mechanisms import KRRHistogram, RapporHistogram
from shuffledp_core.onion.geometry import TAG_BYTES
from shuffledp_sim.users import fleet, play
from shuffledp_sim.users.fleet import ANY_ROUND, DeployedSystem, Fleet
from shuffledp_sim.users.memory import Memory

SURE = RapporHistogram(
    symbols=31, fake=Fraction(1), when_zero=Fraction(1, 2**63), when_one=1 - Fraction(1, 2**63)
)
"""31 coins that a report shows as they are, but with probability 1e-17; two draws are the same with
2^-31 = 5e-10.

Among the 25 or 10 pairs of a test one may be the same by chance (1e-8); that two are has a chance
below 1e-15. """

USERS = 5


class Uploads:
    """In the place of the way to the entry node: keeps the messages of every user."""

    sent: list[bytes]

    def __init__(self, *_: object) -> None:
        pass

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def submit_block(self, block: Block) -> list[None]:
        self.sent += block.messages
        return [None] * len(block)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    Uploads.sent = []
    monkeypatch.setattr(fleet, "LongStream", Uploads)
    return Uploads.sent


def symbols_of(messages: bytes, width: int) -> list[bytes]:
    """The symbols of packed messages of this width, without their tags."""
    return [messages[start : start + width - TAG_BYTES] for start in range(0, len(messages), width)]


async def test_the_users_of_a_run_keep_their_responses_over_its_rounds(
    tmp_path: Path, sent: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment = make_deployment(tmp_path / "deployment")
    questions = [SURE, SURE, SURE.about(1)]
    drafts = [Draft(deployment, mechanism=mechanism) for mechanism in questions]
    rounds = [
        verify_round(one.announcement(), deployment.roster, ANY_ROUND, POPULATION, NOW)
        for one in drafts
    ]

    async def announced(_: object) -> AsyncIterator[CheckedRound]:
        for one in rounds:
            yield one

    async def ended(*_: object) -> Signed:
        return Signed(label="", signer="", body="{}", signature="")

    async def nothing(*_: object) -> None:
        pass

    monkeypatch.setattr(play, "new_rounds", announced)
    monkeypatch.setattr(play, "_result", ended)
    monkeypatch.setattr(play, "read_result", lambda *_: None)
    monkeypatch.setattr(Fleet, "verify", nothing)
    with ThreadPoolExecutor(1) as pool:
        system = DeployedSystem(deployment, POPULATION, None)
        await play.play(system, play.FixedValues(np.arange(USERS)), pool, once=False)  # type: ignore[arg-type] # threads are fewer to start
    assert len(sent) == 3 * USERS
    width = rounds[0].geometry.plain_bytes
    first, second, other = (
        sorted(symbols_of(one, width) for one in sent[k * USERS : (k + 1) * USERS])
        for k in range(3)
    )
    assert first == second
    assert len(set(map(tuple, first)) & set(map(tuple, other))) <= 1


async def test_pieces_of_any_size_find_the_same_users_and_other_mechanisms_keep_nothing() -> None:
    memory = Memory(USERS)
    with ThreadPoolExecutor(1) as pool:
        head = await memory.recall(pool, SURE, 0, [0, 1, 2])
        whole = await memory.recall(pool, SURE, 0, [9] * USERS)
        tail = await memory.recall(pool, SURE, 3, [7, 7])
        assert (
            await memory.recall(pool, KRRHistogram(symbols=3, blanket=Fraction(1, 2)), 0, [1])
            is None
        )
    assert head is not None
    assert tail is not None
    assert whole == head + tail
    assert len(set(whole)) >= USERS - 1
