"""What evidence shows, and whom nobody can frame with it; what a device keeps, and for how long."""

from __future__ import annotations

import os
import random
from typing import Any

import msgspec
import pytest
from client_rounds import LENIENT, NOW, POPULATION, ROUND_ID, SUM, Draft, make_members, settled

from shuffledp_client.evidence import Evidence, ShownEvidence, check_evidence, gather, still_open
from shuffledp_client.submission import Member, PreparedSubmission, prepare
from shuffledp_client.verification import verify_round
from shuffledp_core.documents.digests import digest
from shuffledp_core.documents.models import Announcement, BatchHeader, Discard, Receipt, Result
from shuffledp_core.documents.signed import Signed, from_json, to_json
from shuffledp_core.documents.submission import SubmissionClaim
from shuffledp_core.errors import DocumentError, EvidenceError, ForeignDocumentError, SignatureError
from shuffledp_core.onion.layers import seal_envelope
from shuffledp_ops.keys.pki import Deployment

WIDTH = 17
NODES = ("node-1", "node-2", "node-3")


class Case:
    """A round with one victim and one other user; everything that the victim holds."""

    def __init__(self, deployment: Deployment, suite: str = "sealed-box") -> None:
        self.draft = Draft(deployment, suite=suite)
        self.roster = deployment.roster
        self.announcement: Announcement = self.draft.announcement()
        self.verified = verify_round(self.announcement, self.roster, LENIENT, POPULATION, NOW)
        self.member, other = make_members(deployment, 2)
        self.sent, self.other = (
            prepare(self.verified, 3, self.member),
            prepare(self.verified, 1, other),
        )

    def receipt(self, submission: PreparedSubmission, **changes: Any) -> Signed:
        document = Receipt(
            round_id=ROUND_ID,
            credential=submission.claim.signer,
            submission_digest=digest(submission.envelope),
        )
        return self.draft.signed_by("node-1", msgspec.structs.replace(document, **changes))

    def board(self, mine: bytes) -> bytes:
        packed = mine + self.other.messages
        rows = [packed[start : start + WIDTH] for start in range(0, len(packed), WIDTH)]
        random.shuffle(rows)
        return b"".join(rows)

    def result(self, board: bytes, **changes: Any) -> Signed:
        fields = settled(self.draft, board, 2) | changes
        return self.draft.signed_by(
            "analyst", Result(deployment=self.roster.deployment, round_id=ROUND_ID, **fields)
        )

    def bundle(self, board: bytes, **changes: Any) -> Evidence:
        genuine = gather(self.sent, self.announcement, self.receipt(self.sent), self.result(board))
        return msgspec.structs.replace(genuine, **changes)

    def check(self, bundle: Evidence, board: bytes) -> ShownEvidence:
        return check_evidence(from_json(to_json(bundle), Evidence), self.roster, board)


@pytest.fixture(scope="module")
def case(deployment: Deployment) -> Case:
    return Case(deployment)


def flipped(messages: bytes, count: int) -> bytes:
    changed = bytearray(messages)
    for place in range(count):
        changed[place * WIDTH] ^= 1
    return bytes(changed)


@pytest.mark.parametrize("count", [1, 3, 10])
def test_missing_messages_are_shown_to_whoever_has_roster_and_board(case: Case, count: int) -> None:
    board = case.board(flipped(case.sent.messages, count))
    shown = case.check(case.bundle(board), board)
    assert (shown.round_id, shown.missing, shown.messages, shown.suspects) == (
        ROUND_ID,
        count,
        10,
        NODES,
    )


def test_the_analyst_is_under_suspicion_unless_the_last_node_signed_for_this_board(
    case: Case,
) -> None:
    board = case.board(flipped(case.sent.messages, 1))
    other = BatchHeader(round_id=ROUND_ID, position=4, users=2, records=20, digest="0" * 64)
    for headers in (
        (),
        (case.draft.signed_by("node-3", other),),
        (case.draft.signed_by("node-2", other),),
    ):
        bundle = case.bundle(board, result=case.result(board, headers=headers))
        assert case.check(bundle, board).suspects == (*NODES, "analyst")


def test_a_user_whose_messages_arrived_shows_nothing(case: Case) -> None:
    board = case.board(case.sent.messages)
    with pytest.raises(EvidenceError, match="nothing proves that this user was cheated"):
        case.check(case.bundle(board), board)


def test_a_user_with_invented_tags_frames_nobody(case: Case) -> None:
    """The attack: an honest round, an honest receipt, and a user who claims to have sent other
    messages than it did.

    What used to be called evidence, the receipt and messages that are not on the board, anybody
    could make up."""
    board = case.board(case.sent.messages)
    assert os.urandom(16) not in board
    for invented in (
        {"seed": os.urandom(32)},
        {"symbols": bytes(byte ^ 1 for byte in case.sent.symbols)},
    ):
        with pytest.raises(EvidenceError, match="did not sign a claim"):
            case.check(case.bundle(board, **invented), board)
        # Nor does it help to claim anew: the entry node's receipt is for the envelope that it got.
        identity = case.member.identity()
        lie = case.bundle(board, **invented)
        claim = SubmissionClaim(
            round_id=ROUND_ID, credential=identity.name, envelope_digest="0" * 64
        )
        with pytest.raises(EvidenceError, match="did not sign a claim"):
            case.check(msgspec.structs.replace(lie, claim=identity.sign(claim)), board)


def test_a_second_envelope_of_the_same_user_needs_its_own_receipt(case: Case) -> None:
    board = case.board(case.sent.messages)
    second = prepare(case.verified, 0, case.member)
    bundle = gather(second, case.announcement, case.receipt(case.sent), case.result(board))
    with pytest.raises(EvidenceError, match="another submission"):
        case.check(bundle, board)


def test_an_accomplice_who_copies_tags_frames_nobody(deployment: Deployment) -> None:
    """The accomplice sends other symbols under the same tags: honest nodes bring both to the
    board."""
    case = Case(deployment)
    copies = flipped(case.sent.messages, 10)
    case.other = _with_messages(case, make_members(deployment, 1)[0], copies)
    board = case.sent.messages + copies
    with pytest.raises(EvidenceError, match="nothing proves that this user was cheated"):
        case.check(case.bundle(board), board)


def _with_messages(case: Case, member: Member, messages: bytes) -> PreparedSubmission:
    """A submission of a client that is not ours, and chooses its tags."""
    rows = [messages[start : start + WIDTH] for start in range(0, len(messages), WIDTH)]
    envelope = seal_envelope(case.sent.geometry, ROUND_ID, case.verified.public_keys, rows)
    return msgspec.structs.replace(prepare(case.verified, 0, member), envelope=envelope)


def test_symbols_that_nobody_counts_are_no_evidence(case: Case) -> None:
    board = case.board(case.sent.messages)
    for wrong, match in (
        ({"symbols": b"\2" * 10}, "alphabet"),
        ({"symbols": b"\1" * 9}, "length"),
        ({"seed": bytes(31)}, "length"),
    ):
        with pytest.raises(EvidenceError, match=match):
            case.check(case.bundle(board, **wrong), board)


def test_every_document_of_the_bundle_must_be_genuine(case: Case, deployment: Deployment) -> None:
    board = case.board(flipped(case.sent.messages, 1))
    other = Case(deployment)  # another draft of the round: other round keys
    stranger = prepare(case.verified, 1, make_members(deployment, 1)[0])
    node, analyst = case.draft.signed_by, case.result
    for changes, error in (
        (
            {
                "receipt": node(
                    "node-2", Receipt(round_id=ROUND_ID, credential="", submission_digest="")
                )
            },
            DocumentError,
        ),
        ({"receipt": case.receipt(case.sent, round_id="f" * 32)}, EvidenceError),
        ({"receipt": case.receipt(case.other)}, EvidenceError),
        (
            {"receipt": msgspec.structs.replace(case.receipt(case.sent), signature="0" * 128)},
            SignatureError,
        ),
        ({"claim": stranger.claim}, EvidenceError),
        ({"credential": stranger.credential}, EvidenceError),
        ({"announcement": other.announcement}, EvidenceError),
        (
            {"announcement": msgspec.structs.replace(case.announcement, countersignatures=())},
            SignatureError,
        ),
        ({"result": msgspec.structs.replace(analyst(board), signature="0" * 128)}, SignatureError),
        ({"result": analyst(board, board_digest="0" * 64)}, EvidenceError),
        ({"result": analyst(board, board_digest=None)}, EvidenceError),
        (
            {
                "result": case.draft.signed_by(
                    "node-1", Discard(round_id="", node="", forwarded=False)
                )
            },
            ForeignDocumentError,
        ),
    ):
        with pytest.raises(error):
            case.check(case.bundle(board, **changes), board)
    with pytest.raises(EvidenceError, match="digest"):
        case.check(case.bundle(board), board[:-1])
    assert case.check(case.bundle(board), board).missing == 1


@pytest.mark.parametrize("suite", ["hpke", "hpke-mlkem768-x25519"])
def test_a_suite_that_cannot_be_sealed_again_gives_no_evidence_and_gives_no_report_away(
    deployment: Deployment, suite: str
) -> None:
    case = Case(deployment, suite)
    board = case.board(flipped(case.sent.messages, 1))
    with pytest.raises(EvidenceError, match="the content of an envelope cannot be proved"):
        gather(case.sent, case.announcement, case.receipt(case.sent), case.result(board))
    sealed_box = Case(deployment)
    forced = msgspec.structs.replace(
        sealed_box.bundle(board),
        announcement=case.announcement,
        symbols=case.sent.symbols,
        seed=case.sent.seed,
    )
    with pytest.raises(EvidenceError, match="the content of an envelope cannot be proved"):
        case.check(forced, board)


def test_a_bundle_does_not_print_what_it_holds(case: Case) -> None:
    assert case.sent.seed.hex() not in repr(case.bundle(case.board(b"")))
    assert len(repr(case.bundle(case.board(b"")))) < 60


# Discards.


def test_a_round_is_settled_by_every_nodes_word_that_nothing_left_it(case: Case) -> None:
    def discard(name: str, by: str | None = None, **changes: Any) -> Signed:
        document = Discard(round_id=ROUND_ID, node=name, forwarded=False)
        return case.draft.signed_by(by or name, msgspec.structs.replace(document, **changes))

    def left(*discards: Signed) -> tuple[str, ...]:
        return still_open(case.announcement, case.roster, discards)

    clean = [discard(name) for name in NODES]
    assert left() == NODES
    assert left(*clean[:2]) == ("node-3",)
    assert left(*clean) == ()
    assert left(*reversed(clean), clean[0]) == ()
    for useless in (
        discard("node-3", forwarded=True),
        discard("node-3", round_id="f" * 32),
        discard("node-3", by="node-2"),
        discard("node-2", by="node-3"),
        discard("node-3", by="node-4"),
        discard("node-3", by="analyst"),
        msgspec.structs.replace(clean[2], signer="node-2"),
        msgspec.structs.replace(clean[2], signature="0" * 128),
        msgspec.structs.replace(clean[2], signer="nobody"),
    ):
        assert left(*clean[:2], useless) == ("node-3",)
    assert SUM.alphabet == 2
