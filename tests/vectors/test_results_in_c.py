"""The C library after a round: the result in the public log, its manifest, messages and tiles."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from c_library import CLibrary, CodedError, build_library
from client_rounds import NOW, POPULATION, ROUND_ID
from log_vectors import LogDraft, witnessed_roster
from page_world import POLICY, PageGateway
from vector_world import derive, identity, make_member, sign_roster

from shuffledp_core.documents.digests import document_digest
from shuffledp_core.documents.signed import to_json
from shuffledp_core.runtime.keys import ROOT
from shuffledp_core.transparency.board_tiles import TiledBoard, tile_of
from shuffledp_core.transparency.entries import result_entry

pytestmark = pytest.mark.slow


class LoggedRound:
    """A round in a public log with three witnesses, answered by the library."""

    def __init__(self, library: CLibrary) -> None:
        self.library = library
        roster = witnessed_roster()
        self.gateway = PageGateway(roster=roster)
        self.log = LogDraft(self.gateway.draft.signed_certificate(), roster, size=51, index=50)
        announced = msgspec.structs.replace(self.gateway.draft.announcement(), log=self.log.text())
        member = make_member("in-c")
        self.roster = sign_roster(roster).to_bytes()
        self.root_key = identity(ROOT).public_key.hex().encode()
        request = {
            "roster": self.roster.decode(), "root_key": self.root_key.decode(),
            "announcement": to_json(announced).decode(), "policy": POLICY,
            "population": POPULATION, "now": NOW, "round_id": ROUND_ID,
            "credential": member.credential.to_bytes().decode(),
        }  # fmt: skip
        body, self.record, _ = library.answer(request, member.private_key, 2)
        self.gateway.accepted["member"] = base64.b64decode(json.loads(body)["envelope"])

    def logged(self) -> LogDraft:
        """The log with the result as its last entry."""
        assert self.gateway.result is not None
        digest = document_digest(self.gateway.result)
        return replace(
            self.log, size=60, last=result_entry(POPULATION, ROUND_ID, digest).to_bytes()
        )

    def find(self, log: LogDraft | None) -> int:
        """Messages of the record that the library finds, with this proof of the log."""
        return self.library.find_messages(*self.evidence(log), self.gateway.board)

    def evidence(self, log: LogDraft | None) -> tuple[bytes, bytes, bytes, bytes]:
        """What every check after the round starts from."""
        body: dict[str, Any] = {"result": msgspec.to_builtins(self.gateway.result), "discards": []}
        if log is not None:
            body["log"] = log.text()
        return self.roster, self.root_key, self.record, json.dumps(body).encode()

    def draw_tile(self, index: int) -> None:
        """Let the record name this tile, as if it had been drawn."""
        head, _, messages = self.record.partition(b"\n")
        facts = json.loads(head)
        assert 0 <= facts["draw"] < 2**24
        self.record = json.dumps(facts | {"draw": index}).encode() + b"\n" + messages


@pytest.fixture(scope="module")
def library() -> CLibrary:
    return CLibrary.load(build_library())


def test_no_result_is_believed_but_the_one_in_the_log(library: CLibrary) -> None:
    answered = LoggedRound(library)
    answered.gateway.end()
    logged = answered.logged()
    assert logged.last is not None
    for lie in (
        None,  # no proof
        answered.log,  # of the round's reservation
        replace(logged, last=logged.last.replace(b"published", b"reserved")),
        replace(logged, witnesses=("witness-1",)),
        replace(logged, history="fork"),
    ):
        with pytest.raises(CodedError, match="LogProofError"):
            answered.find(lie)
    assert answered.find(logged) == 1


def with_others(messages: list[bytes]) -> list[bytes]:
    """These messages among as many others as four tiles have."""
    others = [bytes([at % 4]) + derive("other", at, size=16) for at in range(6_000)]
    return sorted(messages + others)


def test_a_tile_shows_the_messages_that_belong_into_it(library: CLibrary) -> None:
    answered = LoggedRound(library)
    answered.gateway.end(with_others)
    geometry = answered.gateway.geometry
    tiled = TiledBoard.of(answered.gateway.board, geometry)
    assert tiled.bits == 2
    log = answered.logged()
    message = answered.record.partition(b"\n")[2]
    mine = tile_of(message, tiled.bits, geometry)
    assert answered.find(log) == 1
    assert library.sample_tile(*answered.evidence(log)) in range(4)
    for index in range(4):
        answered.draw_tile(index + 4 * 7)
        evidence = answered.evidence(log)
        assert library.sample_tile(*evidence) == index
        assert library.find_in_tile(*evidence, tiled.tile(index)) == int(index == mine)
        with pytest.raises(CodedError, match="BadBatchError"):
            library.find_in_tile(*evidence, tiled.tile(index ^ 1))


def test_a_message_that_is_not_in_its_tile_is_missing(library: CLibrary) -> None:
    answered = LoggedRound(library)
    message = answered.record.partition(b"\n")[2]
    answered.gateway.end(lambda messages: with_others([row for row in messages if row != message]))
    geometry = answered.gateway.geometry
    tiled = TiledBoard.of(answered.gateway.board, geometry)
    mine = tile_of(message, tiled.bits, geometry)
    answered.draw_tile(mine)
    with pytest.raises(CodedError, match="ReceiptMissingError"):
        library.find_in_tile(*answered.evidence(answered.logged()), tiled.tile(mine))
    assert answered.find(answered.logged()) == 0


def test_an_answer_that_the_board_does_not_give_is_a_lie(library: CLibrary) -> None:
    answered = LoggedRound(library)
    answered.gateway.end()
    users = len(answered.gateway.board) // answered.gateway.geometry.plain_bytes
    honest = answered.gateway.outcome_of(users)["estimate"]
    answered.gateway.end(estimate=honest)
    assert answered.find(answered.logged()) == 1
    other = (*honest.values[:-1], honest.values[-1] + 1e-3)
    answered.gateway.end(estimate=msgspec.structs.replace(honest, values=other))
    with pytest.raises(CodedError, match="FalseResultError"):
        answered.find(answered.logged())


def test_tiles_that_are_not_the_boards_are_a_lie(library: CLibrary) -> None:
    answered = LoggedRound(library)
    answered.gateway.end(tiles_root="ab" * 32)
    with pytest.raises(CodedError, match="FalseResultError"):
        answered.find(answered.logged())


@pytest.mark.parametrize(
    ("named", "expected"), [("ab" * 32, "FalseResultError"), (None, "MalformedDocumentError")]
)
def test_no_result_of_another_manifest_is_believed(
    library: CLibrary, named: str | None, expected: str
) -> None:
    answered = LoggedRound(library)
    answered.gateway.end(manifest_digest=named or msgspec.UNSET)
    with pytest.raises(CodedError, match=expected):
        answered.find(answered.logged())
