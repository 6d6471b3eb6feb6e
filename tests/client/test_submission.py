"""Preparing a submission, peeling it by hand, its receipt, and the board afterwards."""

from __future__ import annotations

import os
import pickle
import random
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from multiprocessing import get_context
from typing import Any

import msgspec
import pytest
from client_rounds import (
    LENIENT,
    NOW,
    POPULATION,
    ROUND_ID,
    SUM,
    Draft,
    make_certificate,
    make_members,
    peel_all,
    settled,
)
from hypothesis import given
from hypothesis import strategies as st

from shuffledp_client.board import CheckedResult, changed_messages, check_board, check_result
from shuffledp_client.encoding import encode, symbols
from shuffledp_client.http_api import SubmissionBody
from shuffledp_client.submission import Member, PreparedSubmission, check_receipt, prepare, seal
from shuffledp_client.verification import CheckedRound, verify_round
from shuffledp_core.documents.digests import digest
from shuffledp_core.documents.models import BatchHeader, Receipt, Result
from shuffledp_core.documents.signed import Signed, from_json, to_json
from shuffledp_core.documents.submission import check_submission
from shuffledp_core.documents.wording import QuestionAxis, QuestionWording, SymbolScale
from shuffledp_core.errors import (
    BadBatchError,
    DocumentError,
    FalseResultError,
    ForeignDocumentError,
    MalformedDocumentError,
    ReceiptMissingError,
    RoundFailed,
    SignatureError,
    TooFewReportsError,
    UsageError,
)
from shuffledp_core.mechanisms import GeoShuffle, KRRHistogram, Mechanism, RRShuffle
from shuffledp_core.onion.geometry import TAG_BYTES, Geometry
from shuffledp_core.onion.suites import SUITES
from shuffledp_ops.keys.pki import Deployment

QUIET = Fraction(40)
"""An ε at which noise is other than 0 with probability below 1e-17: answers are then known."""


@pytest.fixture(scope="module")
def draft(deployment: Deployment) -> Draft:
    return Draft(deployment)


@pytest.fixture(scope="module")
def member(deployment: Deployment) -> Member:
    return make_members(deployment, 1)[0]


def verified(draft: Draft) -> CheckedRound:
    any_guarantee = msgspec.structs.replace(LENIENT, epsilon=1e3, epsilon_corrupted=1e3)
    return verify_round(
        draft.announcement(), draft.deployment.roster, any_guarantee, POPULATION, NOW
    )


@pytest.fixture(scope="module")
def prepared(draft: Draft, member: Member) -> PreparedSubmission:
    return prepare(verified(draft), 3, member)


def test_the_unary_code_has_the_ones_first_and_a_fixed_length() -> None:
    spec = GeoShuffle(max_value=4, epsilon_geo=QUIET, padding=1)
    assert symbols(spec, 0) == [0] * 6
    assert symbols(spec, 2) == [1, 1, 0, 0, 0, 0]
    assert symbols(spec, 6) == [1] * 6
    for wrong in (-1, 7):
        with pytest.raises(ValueError, match="from 0 to 6"):
            symbols(spec, wrong)


class Talkative(KRRHistogram, frozen=True, tag="talkative"):
    """It sends more messages for larger answers: their number is the value."""

    def encode(self, answer: int) -> list[int]:
        return [answer] * answer


def test_a_code_whose_length_depends_on_the_answer_is_refused() -> None:
    with pytest.raises(ValueError, match="every answer as 1 symbols from 0 to 3"):
        symbols(Talkative(symbols=4, blanket=Fraction(1, 2)), 3)


def test_a_histogram_sends_one_big_endian_symbol() -> None:
    spec = KRRHistogram(symbols=1000, blanket=Fraction(1, 2))
    geometry = Geometry.of(spec, "sealed-box", 2)
    (message,) = encode(geometry, spec, 770, os.urandom)
    assert message[:2] == b"\x03\x02"
    assert len(message) == 2 + TAG_BYTES
    with pytest.raises(ValueError, match="from 0 to 999"):
        encode(geometry, spec, 1000, os.urandom)


def test_tags_are_all_different(prepared: PreparedSubmission) -> None:
    width = prepared.geometry.plain_bytes
    tags = {
        prepared.messages[start + 1 : start + width]
        for start in range(0, len(prepared.messages), width)
    }
    assert len(tags) == prepared.geometry.messages_per_user


@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize(
    ("mechanism", "value", "ones"),
    [
        (GeoShuffle(max_value=4, epsilon_geo=QUIET, padding=1), 3, 4),
        (RRShuffle(max_value=5, randomise=Fraction(1, 2**62)), 2, 2),
        (KRRHistogram(symbols=300, blanket=Fraction(1, 2**62)), 290, None),
    ],
)
def test_a_sealed_submission_peels_to_the_very_same_messages(
    deployment: Deployment,
    member: Member,
    mechanism: Mechanism,
    value: int,
    ones: int | None,
    suite: str,
) -> None:
    draft = Draft(deployment, mechanism=mechanism, suite=suite)
    submission = prepare(verified(draft), value, member)
    assert len(submission.envelope) == submission.geometry.envelope_bytes
    plain = peel_all(draft, submission.envelope)
    assert plain == submission.messages
    width = submission.geometry.plain_bytes
    found = [
        int.from_bytes(plain[start : start + width - TAG_BYTES], "big")
        for start in range(0, len(plain), width)
    ]
    assert found == (
        [value] if ones is None else [1] * ones + [0] * (mechanism.messages_per_user - ones)
    )


def test_every_value_gives_the_same_lengths(draft: Draft, member: Member) -> None:
    lengths = {
        (len(one.envelope), len(one.claim.to_bytes()), len(one.messages))
        for one in (prepare(verified(draft), value, member) for value in range(SUM.domain))
    }
    assert len(lengths) == 1


def test_the_entry_node_accepts_what_was_prepared(
    deployment: Deployment, member: Member, prepared: PreparedSubmission
) -> None:
    enrolment = deployment.enrolment_of(POPULATION).public_key
    who = check_submission(
        ROUND_ID, POPULATION, enrolment, prepared.credential, prepared.claim, prepared.envelope
    )
    assert who == member.identity().name


def test_symbols_and_seed_give_exactly_the_envelope_that_was_sent(
    draft: Draft, prepared: PreparedSubmission
) -> None:
    keys = verified(draft).public_keys
    assert (
        seal(prepared.geometry, ROUND_ID, keys, prepared.symbols, prepared.seed)
        == prepared.envelope
    )
    assert (
        seal(prepared.geometry, ROUND_ID, keys, prepared.symbols, os.urandom(32))
        != prepared.envelope
    )


def test_a_value_is_randomised_by_other_draws_than_the_seeds(
    deployment: Deployment, member: Member
) -> None:
    """The seed is drawn after the answer: whoever sees it can reproduce the tags, and none of the
    answer's draws."""
    drawn: list[bytes] = []

    def recorded(size: int) -> bytes:
        drawn.append(os.urandom(size))
        return drawn[-1]

    mechanism = KRRHistogram(symbols=300, blanket=Fraction(1, 2))
    submission = prepare(verified(Draft(deployment, mechanism=mechanism)), 7, member, recorded)
    assert submission.seed == drawn[-1]
    assert len(drawn) == 2
    assert submission.seed not in drawn[0]


def test_a_value_outside_the_domain_is_refused_without_naming_it(
    draft: Draft, member: Member
) -> None:
    with pytest.raises(UsageError, match="from 0 to 4") as caught:
        prepare(verified(draft), 87_654_321, member)
    assert "87654321" not in str(caught.value)


def test_worker_processes_can_prepare(draft: Draft, deployment: Deployment) -> None:
    users = make_members(deployment, 4)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        submissions = list(pool.map(prepare, [verified(draft)] * 4, range(4), users))
    for submission in submissions:
        assert peel_all(draft, submission.envelope) == submission.messages


def test_secrets_are_not_in_representations(member: Member, prepared: PreparedSubmission) -> None:
    assert "private" not in repr(member)
    assert prepared.messages.hex() not in repr(prepared)
    assert len(repr(prepared)) < 120
    assert pickle.loads(pickle.dumps(prepared)) == prepared  # noqa: S301 - our own bytes


# Receipts.


def receipt_for(prepared: PreparedSubmission, **changes: Any) -> Receipt:
    genuine = Receipt(
        round_id=ROUND_ID,
        credential=prepared.claim.signer,
        submission_digest=digest(prepared.envelope),
    )
    return msgspec.structs.replace(genuine, **changes)


def test_a_receipt_is_for_exactly_this_submission(
    deployment: Deployment, prepared: PreparedSubmission
) -> None:
    node, entry = deployment.identity_of("node-1"), deployment.roster.party("node-1")
    assert check_receipt(prepared, entry, node.sign(receipt_for(prepared)))
    for changes in ({"round_id": "f" * 32}, {"credential": "00"}, {"submission_digest": "00"}):
        with pytest.raises(ForeignDocumentError):
            check_receipt(prepared, entry, node.sign(receipt_for(prepared, **changes)))
    with pytest.raises(ForeignDocumentError):
        check_receipt(prepared, entry, deployment.identity_of("node-2").sign(receipt_for(prepared)))


@given(st.text(max_size=80), st.text(alphabet="0123456789abcdef", max_size=130))
def test_any_text_as_a_receipt_or_result_is_a_typed_error(
    deployment: Deployment, prepared: PreparedSubmission, body: str, signature: str
) -> None:
    receipt = Signed(label="receipt", signer="node-1", body=body, signature=signature)
    with pytest.raises(DocumentError):
        check_receipt(prepared, deployment.roster.party("node-1"), receipt)
    result = Signed(label="result", signer="analyst", body=body, signature=signature)
    with pytest.raises(DocumentError):
        check_result(prepared, deployment.roster, result)


# Results and boards.


def board_of(*submissions: PreparedSubmission) -> bytes:
    width = submissions[0].geometry.plain_bytes
    packed = b"".join(submission.messages for submission in submissions)
    rows = [packed[start : start + width] for start in range(0, len(packed), width)]
    random.shuffle(rows)
    return b"".join(rows)


def result_for(draft: Draft, board: bytes, users: int, **changes: Any) -> Result:
    fields = settled(draft, board, users)
    result = Result(deployment=draft.deployment.roster.deployment, round_id=ROUND_ID, **fields)
    return msgspec.structs.replace(result, **changes)


def checked(draft: Draft, prepared: PreparedSubmission, result: Result) -> CheckedResult:
    return check_result(
        prepared, draft.deployment.roster, draft.deployment.identity_of("analyst").sign(result)
    )


def test_a_genuine_result_and_board_are_accepted(
    draft: Draft, prepared: PreparedSubmission, member: Member
) -> None:
    others = [prepare(verified(draft), 1, member) for _ in range(5)]
    board = board_of(prepared, *others)
    found = checked(draft, prepared, result_for(draft, board, 6))
    check_board(found, prepared.geometry, board, [prepared.messages])
    check_board(found, prepared.geometry, board, [one.messages for one in others])


def test_a_final_certificate_with_other_words_than_the_answered_question_is_refused(
    deployment: Deployment, member: Member
) -> None:
    scale = SymbolScale(start="0", step="1", size=SUM.domain)
    axis = QuestionAxis(field="days", unit="", symbols=scale)
    asked = QuestionWording(id="q", text="On how many days did you go out?", axes=(axis,))
    draft = Draft(deployment, certificate={"wording": asked})
    prepared = prepare(verified(draft), 3, member)

    def result(**words: Any) -> Result:
        final = make_certificate(deployment, SUM, stage="final", users=1, **words)
        signed = deployment.identity_of("accountant").sign(final)
        return result_for(draft, board_of(prepared), 1, final_certificate=signed)

    assert checked(draft, prepared, result(wording=asked)).final.question_wording == asked
    other = msgspec.structs.replace(asked, text="On how many days were you ill?")
    for words in ({"wording": other}, {}):
        with pytest.raises(ForeignDocumentError, match="a different question from the one"):
            checked(draft, prepared, result(**words))


def test_a_result_of_another_key_round_or_certificate_is_refused(
    draft: Draft, prepared: PreparedSubmission
) -> None:
    board, accountant = board_of(prepared), draft.deployment.identity_of("accountant")
    genuine = result_for(draft, board, 1)
    forged = msgspec.structs.replace(
        draft.deployment.identity_of("analyst").sign(genuine), signature="00" * 64
    )
    with pytest.raises(SignatureError):
        check_result(prepared, draft.deployment.roster, forged)

    def final(**changes: Any) -> Signed:
        settled = {"stage": "final", "users": 1} | changes
        return accountant.sign(make_certificate(draft.deployment, draft.mechanism, **settled))

    other = accountant.sign(make_certificate(draft.deployment, draft.mechanism, users=1))
    for changes in (
        {"deployment": "other"},
        {"round_id": "f" * 32},
        {"plan_certificate": other},
        {"final_certificate": final(stage="plan")},
        {"final_certificate": final(users=2)},
        {"final_certificate": final(dropped=1)},
        {"final_certificate": final(invalid=1)},
        {"dropped": 1},
        {"outside_alphabet": 1},
        {"repeated_tags": 1},
        {"final_certificate": final(round_id="f" * 32)},
        {"final_certificate": final(mechanism=RRShuffle(max_value=4, randomise=Fraction(1, 2)))},
    ):
        with pytest.raises(ForeignDocumentError):
            checked(draft, prepared, msgspec.structs.replace(genuine, **changes))
    one_lost = {"dropped": 1, "final_certificate": final(dropped=1)}
    header = BatchHeader(
        round_id=ROUND_ID,
        position=2,
        users=1,
        records=9,
        dropped=1,
        digest=genuine.board_digest or "",
    )
    words = tuple(
        draft.signed_by(name, msgspec.structs.replace(header, position=position))
        for position, name in enumerate(draft.route, start=2)
    )
    checked(
        draft, prepared, msgspec.structs.replace(genuine, **one_lost, messages=9, headers=words)
    )
    for missing in (
        {"plan_certificate": None},
        {"final_certificate": None},
        {"messages": 11},
        one_lost,
    ):
        with pytest.raises(MalformedDocumentError):
            checked(draft, prepared, msgspec.structs.replace(genuine, **missing))


def test_a_failed_round_says_why_as_its_own_error(
    draft: Draft, prepared: PreparedSubmission
) -> None:
    failed = Result(
        deployment="demo",
        round_id=ROUND_ID,
        outcome="failed",
        reason="only 3",
        error="TooFewReportsError",
    )
    with pytest.raises(TooFewReportsError, match="only 3"):
        checked(draft, prepared, failed)
    for other in ("UnreachableError", "NotOfThisVersion"):
        with pytest.raises(RoundFailed, match="only 3"):
            checked(draft, prepared, msgspec.structs.replace(failed, error=other))


def test_a_missing_changed_or_doubled_message_is_evidence(
    draft: Draft, prepared: PreparedSubmission, member: Member
) -> None:
    other = prepare(verified(draft), 1, member)
    width = prepared.geometry.plain_bytes
    first, rest = prepared.messages[:width], prepared.messages[width:]
    flipped = bytes([first[0] ^ 1]) + first[1:]
    for mine, missing in (
        (flipped + rest, 1),
        (b"\1" + os.urandom(width - 1) + rest, 1),
        (rest[:width] + rest, 2),  # the first is gone, the second is there twice
        (
            first + rest[: 8 * width] + bytes([first[0] ^ 1]) + first[1:],
            2,
        ),  # another symbol under the same tag
        (b"".join(b"\0" + os.urandom(width - 1) for _ in range(10)), 10),
    ):
        board = mine + other.messages
        found = checked(draft, prepared, result_for(draft, board, 2))
        assert not changed_messages(prepared.geometry, board, other.messages).any()
        with pytest.raises(
            ReceiptMissingError, match=f"^{missing} of 20 messages .* 1 of 2 submissions"
        ):
            check_board(found, prepared.geometry, board, [prepared.messages, other.messages])


def test_an_answer_that_is_not_the_boards_is_refused(
    draft: Draft, prepared: PreparedSubmission
) -> None:
    """An estimate of 10^6 where the truth was 13 used to be accepted: nobody looked at it."""
    board = board_of(prepared)
    genuine = result_for(draft, board, 1)
    assert genuine.estimate is not None
    for changes in (
        {"values": (1e6,)},
        {"values": (genuine.estimate.values[0] + 0.01,)},
        {"values": ()},
        {"standard_errors": (0.0,)},
        {"lows": (genuine.estimate.lows[0] - 2,)},
        {"highs": (genuine.estimate.highs[0] + 2, 0.0)},
        {"mean": None},
        {"mean": 1e6},
        {"quantity": "histogram"},
    ):
        false = msgspec.structs.replace(
            genuine, estimate=msgspec.structs.replace(genuine.estimate, **changes)
        )
        with pytest.raises(FalseResultError):
            check_board(
                checked(draft, prepared, false), prepared.geometry, board, [prepared.messages]
            )
    none = checked(draft, prepared, msgspec.structs.replace(genuine, estimate=None))
    with pytest.raises(FalseResultError, match="no answer"):
        check_board(none, prepared.geometry, board, [prepared.messages])


def test_another_machines_rounding_is_no_lie(draft: Draft, prepared: PreparedSubmission) -> None:
    board = board_of(prepared)
    genuine = result_for(draft, board, 1)
    assert genuine.estimate is not None
    error, high = genuine.estimate.standard_errors[0], genuine.estimate.highs[0]
    close = msgspec.structs.replace(
        genuine.estimate, standard_errors=(error * (1 + 1e-12),), highs=(high + 1,)
    )
    near = msgspec.structs.replace(genuine, estimate=close)
    check_board(checked(draft, prepared, near), prepared.geometry, board, [prepared.messages])


def test_the_word_of_every_node_is_in_the_result_and_agrees(
    draft: Draft, prepared: PreparedSubmission
) -> None:
    board = board_of(prepared)
    genuine = result_for(draft, board, 1)

    def header(position: int, **changes: Any) -> Signed:
        true = BatchHeader(
            round_id=ROUND_ID,
            position=position + 1,
            users=1,
            records=10,
            digest=genuine.board_digest or "",
        )
        return draft.signed_by(f"node-{position}", msgspec.structs.replace(true, **changes))

    good = tuple(header(position) for position in (1, 2, 3))
    padded = good[1].body + " " * 2**20  # a node that makes the result too long for everybody
    key = draft.deployment.identity_of("node-2").key
    signature = key.sign(b"shuffledp/v1/batch\x00" + padded.encode()).hex()
    long = msgspec.structs.replace(good[1], body=padded, signature=signature)
    checked(draft, prepared, msgspec.structs.replace(genuine, headers=good))
    for headers, error in (
        ((), MalformedDocumentError),
        (good[:2], MalformedDocumentError),
        ((good[1], good[0], good[2]), ForeignDocumentError),
        ((good[0], good[0], good[2]), FalseResultError),
        ((good[0], header(2, users=2, records=20), good[2]), FalseResultError),
        ((good[0], header(2, records=9), good[2]), FalseResultError),
        ((good[0], header(2, round_id="f" * 32), good[2]), ForeignDocumentError),
        ((good[0], msgspec.structs.replace(good[1], signature="0" * 128), good[2]), SignatureError),
        ((good[0], good[1], header(3, digest="0" * 64)), FalseResultError),
        ((good[0], long, good[2]), MalformedDocumentError),
    ):
        with pytest.raises(error):
            checked(draft, prepared, msgspec.structs.replace(genuine, headers=headers))


@given(data=st.binary(max_size=400))
def test_any_bytes_as_a_board_are_a_typed_error(
    draft: Draft, prepared: PreparedSubmission, data: bytes
) -> None:
    found = checked(draft, prepared, result_for(draft, board_of(prepared), 1))
    with pytest.raises(BadBatchError):
        check_board(found, prepared.geometry, data, [prepared.messages])


@given(
    board=st.lists(st.integers(0, 5), max_size=12),
    mine=st.lists(st.integers(0, 5), max_size=6),
    data=st.data(),
)
def test_the_bulk_look_up_agrees_with_counting(
    board: list[int], mine: list[int], data: st.DataObject
) -> None:
    geometry = Geometry.of(SUM, "sealed-box", 2)

    def message(tag: int) -> bytes:
        shared = data.draw(st.booleans())  # tags that differ in one of their 64-bit halves only
        half = bytes(8) if shared else b"\x01" * 8
        return data.draw(st.sampled_from([b"\x00", b"\x01"])) + half + tag.to_bytes(8, "big")

    published, sent = [message(tag) for tag in board], [message(tag) for tag in mine]
    tags = [one[1:] for one in published]
    expected = [not (tags.count(one[1:]) == 1 and one in published) for one in sent]
    assert changed_messages(geometry, b"".join(published), b"".join(sent)).tolist() == expected


def test_a_torn_board_is_our_own_misuse() -> None:
    with pytest.raises(ValueError, match="whole number"):
        changed_messages(Geometry.of(SUM, "sealed-box", 2), bytes(16), bytes(17))


def test_an_envelope_in_another_spelling_of_base64_is_the_same_or_is_refused() -> None:
    """A gateway decodes it, and everybody compares the bytes."""
    frame = Signed(label="l", signer="s", body="{}", signature="")
    text = to_json(SubmissionBody(credential=frame, claim=frame, envelope=b"\xff\xefA\x00"))
    assert b"/+9BAA==" in text
    spare_bits = text.replace(b"/+9BAA==", b"/+9BAB==")
    assert from_json(spare_bits, SubmissionBody).envelope == b"\xff\xefA\x00"
    for other in (b"_-9BAA==", b"/+9BAA", b"/+9B\\nAA==", b"/+9BAA== ", b"/+9BAA==AA=="):
        with pytest.raises(MalformedDocumentError):
            from_json(text.replace(b"/+9BAA==", other), SubmissionBody)
