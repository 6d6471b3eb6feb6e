"""How a device finds its messages: on the whole board, in the tile of one, in a random tile."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import msgspec
import pytest
from client_rounds import LENIENT, NOW, POPULATION, ROUND_ID, SUM, Draft, make_members, settled

from shuffledp_client.board import CheckedResult
from shuffledp_client.receipts import ReceiptCheck, find_messages
from shuffledp_client.submission import PreparedSubmission, prepare
from shuffledp_client.verification import verify_round
from shuffledp_core.documents.digests import digest
from shuffledp_core.documents.models import Certificate, Result
from shuffledp_core.documents.signed import from_json
from shuffledp_core.errors import (
    BadBatchError,
    ClientPolicyRefusal,
    FalseResultError,
    MalformedDocumentError,
    ReceiptMissingError,
)
from shuffledp_core.mechanisms import KRRHistogram, Mechanism
from shuffledp_core.transparency.board_tiles import MAX_TILE_BYTES, TiledBoard, tile_of
from shuffledp_ops.keys.pki import Deployment

ONE = KRRHistogram(symbols=4, blanket=Fraction(1, 2))
WIDTH = 17
MESSAGES = 10_000


@dataclass
class Published:
    """A long board with one real submission on it, and what is asked of its server."""

    submission: PreparedSubmission
    final: Certificate
    rows: list[bytes]
    asked: list[int] = field(default_factory=list)
    boards: int = 0

    @property
    def packed(self) -> bytes:
        return b"".join(self.rows)

    def tiles(self) -> TiledBoard:
        return TiledBoard.of(self.packed, self.submission.geometry)

    def checked(self, **changes: Any) -> CheckedResult:
        result = Result(
            deployment="demo",
            round_id=ROUND_ID,
            outcome="published",
            messages=len(self.rows),
            board_digest=digest(self.packed),
            tiles_root=self.tiles().root.hex(),
        )
        changed = msgspec.structs.replace(result, **changes)
        return CheckedResult(changed, self.final, digest(self.packed))

    async def board(self, _round_id: str, _length: int) -> bytes:
        self.boards += 1
        return self.packed

    async def tile(self, _round_id: str, index: int) -> bytes:
        self.asked.append(index)
        return self.tiles().tile(index)


def published(deployment: Deployment, mechanism: Mechanism, **certificate: Any) -> Published:
    draft = Draft(deployment, mechanism=mechanism)
    policy = msgspec.structs.replace(LENIENT, epsilon=100.0)
    verified = verify_round(draft.announcement(), deployment.roster, policy, POPULATION, NOW)
    submission = prepare(verified, 1, make_members(deployment, 1)[0])
    final = from_json(draft.signed_certificate().body, Certificate)
    mine = submission.messages
    rows = [mine[start : start + WIDTH] for start in range(0, len(mine), WIDTH)]
    rows += [bytes([1]) + secrets.token_bytes(WIDTH - 1) for _ in range(MESSAGES - len(rows))]
    fields = {"users": MESSAGES, "honest": 9000} | certificate
    return Published(submission, msgspec.structs.replace(final, **fields), rows)


@pytest.fixture
def one(deployment: Deployment) -> Published:
    return published(deployment, ONE)


async def test_a_tile_shows_the_only_message_and_is_short(one: Published) -> None:
    tiles = one.tiles()
    assert tiles.bits == 3
    for _ in range(3):  # asked again, the request is the same
        found = await find_messages(one, one.checked(), one.submission, ReceiptCheck.TILE)
        assert found.found == 1
    index = tile_of(one.rows[0], tiles.bits, one.submission.geometry)
    assert (one.asked, one.boards) == ([index] * 3, 0)
    assert max(map(len, tiles.tiles())) <= MAX_TILE_BYTES


@pytest.mark.parametrize("change", ["another symbol", "removed", "twice"])
async def test_a_tile_shows_that_a_message_is_missing(one: Published, change: str) -> None:
    mine = one.rows[0]
    replaced = {"another symbol": [bytes([mine[0] ^ 1]) + mine[1:]], "removed": []}
    one.rows[:1] = replaced.get(change, [mine, mine])
    with pytest.raises(ReceiptMissingError, match="1 of 1 messages"):
        await find_messages(one, one.checked(), one.submission, ReceiptCheck.TILE)


async def test_a_random_tile_is_the_same_whatever_the_messages_are(one: Published) -> None:
    checked = await find_messages(one, one.checked(), one.submission, ReceiptCheck.SAMPLE)
    mine = tile_of(one.rows[0], 3, one.submission.geometry)
    assert checked.found == int(one.asked == [mine])
    other = replace(one, rows=[*one.rows[1:], bytes(WIDTH)], asked=[])
    if one.asked != [mine]:
        await find_messages(other, other.checked(), one.submission, ReceiptCheck.SAMPLE)
        assert other.asked == one.asked  # a missing message elsewhere does not change the request


async def test_one_of_several_messages_is_checked_in_a_random_tile_only(
    deployment: Deployment,
) -> None:
    several = published(deployment, SUM)
    with pytest.raises(ClientPolicyRefusal, match="nothing is certified about what"):
        await find_messages(several, several.checked(), several.submission, ReceiptCheck.TILE)
    assert several.asked == []
    found = await find_messages(several, several.checked(), several.submission, ReceiptCheck.SAMPLE)
    assert several.asked
    index = several.asked[0]
    geometry = several.submission.geometry
    mine = [row for row in several.rows[:10] if tile_of(row, 3, geometry) == index]
    assert found.found == len(mine)


async def test_no_tile_is_asked_for_that_too_few_honest_people_share(
    deployment: Deployment,
) -> None:
    few = published(deployment, ONE, honest=7000)
    with pytest.raises(ClientPolicyRefusal, match="875 honest people"):
        await find_messages(few, few.checked(), few.submission, ReceiptCheck.TILE)
    assert few.asked == []
    assert await find_messages(few, few.checked(), few.submission, ReceiptCheck.TILE, crowd=875)
    # A short board is one tile, and its request tells nothing.
    few.rows, few.asked = few.rows[:100], []
    assert (await find_messages(few, few.checked(), few.submission, ReceiptCheck.TILE)).found == 1
    assert few.asked == [0]


async def test_results_without_tiles_and_false_tiles_are_refused(one: Published) -> None:
    untiled = one.checked(tiles_root=msgspec.UNSET)
    with pytest.raises(MalformedDocumentError, match="no tiles"):
        await find_messages(one, untiled, one.submission, ReceiptCheck.TILE)
    lie = one.checked(tiles_root="ab" * 32)
    with pytest.raises(BadBatchError, match="not the one that the analyst signed"):
        await find_messages(one, lie, one.submission, ReceiptCheck.TILE)


async def test_whoever_fetches_the_whole_board_finds_tiles_that_are_not_its_own(
    deployment: Deployment,
) -> None:
    draft = Draft(deployment, mechanism=ONE)
    one = published(deployment, ONE)
    one.rows = one.rows[:1]
    fields = settled(draft, one.packed, 1)
    final = from_json(fields["final_certificate"].body, Certificate)
    genuine = Result(
        deployment="demo", round_id=ROUND_ID, tiles_root=one.tiles().root.hex(), **fields
    )
    for root, error in (
        (genuine.tiles_root, None),
        ("ab" * 32, "the tiles"),
        (msgspec.UNSET, None),
    ):
        result = msgspec.structs.replace(genuine, tiles_root=root)
        checked = CheckedResult(result, final, digest(one.packed))
        if error is None:
            assert (await find_messages(one, checked, one.submission)).found == 1
            continue
        with pytest.raises(FalseResultError, match=error):
            await find_messages(one, checked, one.submission)
