"""Vectors of claims, receipts, results and boards."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, Final

import msgspec
from client_rounds import POPULATION, ROUND_ID, Draft, settled
from vector_cases import (
    ASKED,
    LABELLED,
    Case,
    Fields,
    make_case,
    plain,
    text_of,
)
from vector_world import (
    coins,
    derive,
    identity,
    make_draft,
    make_member,
    sign_roster,
)
from wording_vectors import MINUTES

from shuffledp_client.encoding import encode
from shuffledp_core.answering.decoding import decode
from shuffledp_core.answering.estimation import estimate
from shuffledp_core.documents.digests import digest, document_digest
from shuffledp_core.documents.models import (
    BatchHeader,
    Certificate,
    Receipt,
    Result,
)
from shuffledp_core.documents.signed import Signed, from_json
from shuffledp_core.documents.submission import SubmissionClaim
from shuffledp_core.mechanisms import (
    KRRHistogram,
    Mechanism,
)
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.runtime.keys import ROOT, Identity
from shuffledp_core.transparency.board_tiles import TiledBoard


def claims() -> Iterator[Case]:
    """A submission's claim, and the entry node's checks of it."""
    member, other = make_member("alice"), make_member("bob")
    envelope = derive("envelope", size=113)
    positive = make_case(
        "a claim",
        "claim",
        {
            "private_key": member.private_key.hex(),
            "credential": text_of(member.credential),
            "round_id": ROUND_ID,
            "envelope": envelope.hex(),
        },
    )
    yield positive
    fields = {
        "round_id": ROUND_ID,
        "population": POPULATION,
        "enrolment_key": identity("enrolment").public_key.hex(),
        "credential": text_of(member.credential),
        "claim": positive["expect"]["ok"]["claim"],
        "envelope": envelope.hex(),
    }
    yield make_case("a submission", "submission", fields)
    mine = member.identity()

    def claim(signer: Identity, **changes: Any) -> str:
        document = SubmissionClaim(
            round_id=ROUND_ID, credential=mine.name, envelope_digest=digest(envelope)
        )
        return text_of(signer.sign(msgspec.structs.replace(document, **changes)))

    unknown, invalid = "UnknownCredentialError", "InvalidSubmissionError"
    impostor = Identity(mine.name, other.identity().key)
    elsewhere = make_member("alice", population="elsewhere").credential
    for name, changes, error in (
        (
            "a credential under another key",
            {"enrolment_key": identity("x").public_key.hex()},
            unknown,
        ),
        ("a credential of another population", {"credential": text_of(elsewhere)}, unknown),
        ("another population", {"population": "elsewhere"}, unknown),
        ("another user's credential", {"credential": text_of(other.credential)}, invalid),
        ("a claim under another key", {"claim": claim(impostor)}, invalid),
        ("a claim for another round", {"claim": claim(mine, round_id="f" * 32)}, invalid),
        ("a claim for another credential", {"claim": claim(mine, credential="ab" * 32)}, invalid),
        ("a claim for another envelope", {"claim": claim(mine, envelope_digest="0" * 64)}, invalid),
        ("another envelope", {"envelope": envelope[:-1].hex()}, invalid),
    ):
        yield make_case(name, "submission", fields | changes, error)


def receipts() -> Iterator[Case]:
    """The entry node's receipt."""
    envelope, credential = derive("envelope", size=113), make_member("alice").identity().name
    entry = identity("node-1")

    def receipt(signer: Identity = entry, **changes: Any) -> str:
        document = Receipt(
            round_id=ROUND_ID, credential=credential, submission_digest=digest(envelope)
        )
        return text_of(signer.sign(msgspec.structs.replace(document, **changes)))

    fields = {
        "entry": "node-1",
        "key": entry.public_key.hex(),
        "round_id": ROUND_ID,
        "credential": credential,
        "envelope": envelope.hex(),
        "receipt": receipt(),
    }
    yield make_case("a receipt", "receipt", fields)
    foreign = "ForeignDocumentError"
    for name, text, error in (
        ("of another node", receipt(identity("node-2")), foreign),
        ("under another key", receipt(Identity("node-1", identity("x").key)), "SignatureError"),
        ("for another round", receipt(round_id="f" * 32), foreign),
        ("for another credential", receipt(credential="ab" * 32), foreign),
        ("for another envelope", receipt(submission_digest="0" * 64), foreign),
        ("that is no document", "{}", "MalformedDocumentError"),
    ):
        yield make_case(f"a receipt {name}", "receipt", fields | {"receipt": text}, error)


USERS: Final = 7
"""Users of the rounds whose results are checked."""


def play(mechanism: Mechanism, label: str = "") -> tuple[Draft, list[list[bytes]], bytes]:
    """A draft, each user's messages, and the board in an order of its own."""
    label = label or mechanism.kind
    draft = make_draft(mechanism)
    geometry = Geometry.of(mechanism, draft.suite, len(draft.route))
    users = [
        encode(
            geometry,
            mechanism,
            mechanism.sample(user % mechanism.domain, _integers("answer", label, user)),
            coins(derive("board", label, user)),
        )
        for user in range(USERS)
    ]
    rows = [message for messages in users for message in messages]
    for node in range(geometry.hops if mechanism.dummies_per_node else 0):
        drawn = mechanism.sample_dummies(_integers("dummies", label, node)).tolist()
        source = coins(derive("dummy tags", label, node))
        rows += [symbol.to_bytes(geometry.symbol_bytes, "big") + source(16) for symbol in drawn]
    rows.sort(key=digest)
    return draft, users, b"".join(rows)


def _integers(*names: object) -> Any:
    from shuffledp_core.sampling.randomness import RandomIntegers

    return RandomIntegers(coins(derive(*names)))


def result_fields(draft: Draft, users: list[list[bytes]], board: bytes, **changes: Any) -> Fields:
    """The input of a case: the first user's submission, the signed result and the board."""
    geometry = Geometry.of(draft.mechanism, draft.suite, len(draft.route))
    signer = changes.pop("signer", identity("analyst"))
    document = Result(
        deployment="demo", round_id=ROUND_ID, **(outcome_of(draft, geometry, board) | changes)
    )
    return {
        "roster": text_of(sign_roster(draft.deployment.roster)),
        "root_key": identity(ROOT).public_key.hex(),
        "submission": {
            "deployment": "demo",
            "round_id": ROUND_ID,
            "entry": "node-1",
            "geometry": plain(geometry),
            "certificate_digest": document_digest(draft.signed_certificate()),
            "messages": [message.hex() for message in users[0]],
        },
        "result": text_of(signer.sign(document)),
        "board": board.hex(),
    }


def outcome_of(draft: Draft, geometry: Geometry, board: bytes) -> Fields:
    """What an honest analyst publishes of this board."""
    mechanism = draft.mechanism
    counted = decode(board, geometry, mechanism.alphabet, USERS, 0, mechanism.counts_of)
    if counted.invalid:  # the case says what an analyst makes of it
        return settled(draft, board, USERS)
    outcome = settled(draft, b"", USERS)
    headers = [
        BatchHeader(
            round_id=ROUND_ID,
            position=position,
            users=USERS,
            records=geometry.count_records(position, USERS),
            digest=digest(board),
        )
        for position in range(2, geometry.hops + 2)
    ]
    return outcome | {
        "messages": len(board) // geometry.plain_bytes,
        "board_digest": digest(board),
        "estimate": estimate(mechanism, counted.counts, USERS, nodes=geometry.hops),
        "headers": tuple(draft.signed_by(*pair) for pair in zip(draft.route, headers, strict=True)),
    }


def results() -> Iterator[Case]:
    """Results, boards and answers."""
    for label, mechanism in LABELLED.items():
        draft, users, board = play(mechanism, label)
        yield make_case(f"a result of {label}", "result", result_fields(draft, users, board))
        if mechanism.bears_losses and mechanism.alphabet < 256:
            yield board_with_losses(label, draft, users, board)
    draft, users, board = play(ASKED)
    geometry = Geometry.of(ASKED, draft.suite, len(draft.route))
    genuine = result_fields(draft, users, board)
    width = geometry.plain_bytes

    def case(name: str, refusal: str | None, /, **changes: Any) -> Case:
        return make_case(name, "result", result_fields(draft, users, board, **changes), refusal)

    foreign, malformed, false = "ForeignDocumentError", "MalformedDocumentError", "FalseResultError"
    yield case(
        "a result under another key",
        "SignatureError",
        signer=Identity("analyst", identity("x").key),
    )
    yield case("a result of a node", foreign, signer=identity("node-1"))
    yield case(
        "a failed round",
        "TooFewReportsError",
        outcome="failed",
        error="TooFewReportsError",
        reason="too few",
        board_digest=None,
    )
    yield case(
        "a failure that is a device's own finding",
        "RoundFailed",
        outcome="failed",
        error="ReceiptMissingError",
        board_digest=None,
    )
    yield case("no final certificate", malformed, final_certificate=None)
    other_plan = make_draft(ASKED, certificate={"delta": 1e-5}).signed_certificate()
    yield case("another plan's certificate", foreign, plan_certificate=other_plan)
    good = from_json(json.loads(genuine["result"])["body"], Result)
    estimate = good.estimate
    if good.final_certificate is None or estimate is None:
        raise AssertionError("a published round has a certificate and an estimate")
    final = from_json(good.final_certificate.body, Certificate)

    def certified(**changes: Any) -> Signed:
        return identity("accountant").sign(msgspec.structs.replace(final, **changes))

    of_final: dict[str, Fields] = {
        "a final certificate of another round": {"round_id": "f" * 32},
        "a final certificate of the plan's stage": {"stage": "plan"},
        "a final certificate for more users": {"users": USERS + 1},
        "a final certificate of another mechanism": {
            "mechanism": KRRHistogram(symbols=4, blanket=Fraction(1, 3))
        },
        "a final certificate for other losses": {"invalid": 1},
        "a final certificate of another question": {"wording": MINUTES},
    }
    for name, changes in of_final.items():
        yield case(name, foreign, final_certificate=certified(**changes))
    yield case("other numbers of messages", malformed, messages=USERS - 1)
    first, second, third = good.headers

    def header(position: int, **changes: Any) -> Signed:
        document = from_json(good.headers[position - 1].body, BatchHeader)
        return draft.signed_by(
            draft.route[position - 1], msgspec.structs.replace(document, **changes)
        )

    for name, headers, error in (
        ("no headers", (), malformed),
        ("a header too few", (first, second), malformed),
        ("headers in another order", (second, first, third), foreign),
        ("a header twice", (first, first, third), false),
        ("a header with more users", (first, header(2, users=8, records=8), third), false),
        ("a header with fewer records", (first, header(2, records=6), third), false),
        ("a header of another round", (first, header(2, round_id="f" * 32), third), foreign),
        (
            "a header under another key",
            (first, msgspec.structs.replace(second, signature="0" * 128), third),
            "SignatureError",
        ),
        ("another board's header", (first, second, header(3, digest="0" * 64)), false),
        (
            "a header that drops what the next has",
            (header(1, dropped=1, records=6), second, third),
            false,
        ),
        ("a header without a digest", (first, header(2, digest="x"), third), malformed),
    ):
        yield case(name, error, headers=headers)
    replace = msgspec.structs.replace
    for name, changed in {
        "no answer": None,
        "another value": replace(
            estimate, values=(estimate.values[0] + 1e-3, *estimate.values[1:])
        ),
        "a value too few": replace(estimate, values=estimate.values[1:]),
        "another error": replace(estimate, standard_errors=(1.0, *estimate.standard_errors[1:])),
        "another interval": replace(estimate, highs=(0.0, *estimate.highs[1:])),
        "another quantity": replace(estimate, quantity="sum"),
    }.items():
        yield case(f"an answer with {name}" if changed else name, false, estimate=changed)
    tiles_root = TiledBoard.of(board, geometry).root.hex()
    yield case("a result with tiles", None, tiles_root=tiles_root, manifest_digest="ab" * 32)
    yield case("tiles of another board", false, tiles_root="ab" * 32)
    yield case("a root of tiles in capitals", malformed, tiles_root=tiles_root.upper())
    yield case("a manifest's digest that is too short", malformed, manifest_digest="ab" * 31)
    yield case("messages outside the alphabet that are not there", foreign, outside_alphabet=1)
    yield make_case(
        "a board cut short", "result", genuine | {"board": board[:-width].hex()}, "BadBatchError"
    )
    swapped = bytes([board[0] ^ 1]) + board[1:]
    yield make_case(
        "an altered board", "result", genuine | {"board": swapped.hex()}, "BadBatchError"
    )
    yield from changed_boards(draft, users, board, width)


def board_with_losses(label: str, draft: Draft, users: list[list[bytes]], board: bytes) -> Case:
    """A board on which some messages of other users have no symbol of the alphabet."""
    mechanism = draft.mechanism
    geometry = Geometry.of(mechanism, draft.suite, len(draft.route))
    width = geometry.plain_bytes
    theirs = [users[1][0], users[2][-1]]
    rows = [board[start : start + width] for start in range(0, len(board), width)]
    odd = b"".join(b"\xff" + row[1:] if row in theirs else row for row in rows)
    counted = decode(odd, geometry, mechanism.alphabet, USERS, 0, mechanism.counts_of)
    genuine = outcome_of(draft, geometry, board)
    plan = from_json(genuine["final_certificate"].body, Certificate)
    headers = [
        draft.signed_by(
            name,
            msgspec.structs.replace(from_json(signed.body, BatchHeader), digest=digest(odd)),
        )
        for name, signed in zip(draft.route, genuine["headers"], strict=True)
    ]
    changed = {
        **genuine,
        "board_digest": digest(odd),
        "headers": tuple(headers),
        "outside_alphabet": len(theirs),
        "final_certificate": identity("accountant").sign(
            msgspec.structs.replace(plan, invalid=len(theirs))
        ),
        "estimate": estimate(mechanism, counted.counts, USERS, len(theirs), nodes=geometry.hops),
    }
    return make_case(
        f"a result of {label} without two messages",
        "result",
        result_fields(draft, users, odd, **changed),
    )


def changed_boards(
    draft: Draft, users: list[list[bytes]], board: bytes, width: int
) -> Iterator[Case]:
    """Boards that the last node signed for, and that lack or double the user's message."""
    mine = users[0][0]
    rows = [board[start : start + width] for start in range(0, len(board), width)]
    place = rows.index(mine)
    spare = (place + 1) % len(rows)
    missing = "ReceiptMissingError"
    for name, changes in {
        "a message of the user is missing": {place: mine[:1] + derive("tag", size=16)},
        "a message of the user has another symbol": {place: bytes([mine[0] ^ 1]) + mine[1:]},
        "a message of the user is there twice": {spare: mine},
        "another message has the tag of the user's": {spare: bytes([mine[0] ^ 1]) + mine[1:]},
    }.items():
        changed = b"".join(changes.get(index, row) for index, row in enumerate(rows))
        yield make_case(
            f"a board where {name}", "result", result_fields(draft, users, changed), missing
        )
    odd = {spare: b"\x09" + rows[spare][1:]}
    changed = b"".join(odd.get(index, row) for index, row in enumerate(rows))
    without = b"".join(row for index, row in enumerate(rows) if index != spare)
    fields = settled(draft, changed, USERS)
    symbols = [without[start] for start in range(0, len(without), width)]
    counts = [symbols.count(symbol) for symbol in range(draft.mechanism.alphabet)]
    plan = from_json(fields["final_certificate"].body, Certificate)
    final = identity("accountant").sign(msgspec.structs.replace(plan, invalid=1))
    counted = {
        "outside_alphabet": 1,
        "final_certificate": final,
        "estimate": estimate(draft.mechanism, counts, USERS, 1),
    }
    yield make_case(
        "a board with a symbol outside the alphabet, counted",
        "result",
        result_fields(draft, users, changed, **counted),
    )
