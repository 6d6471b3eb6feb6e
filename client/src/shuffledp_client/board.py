"""Checks after a round: the result is genuine, and the board has each message of a user once.

`check_result` and `check_board` are pure. `changed_messages` looks up many users' messages at once,
in O((N + M) log (N + M)) for N messages on the board and M looked up, so that a fleet can check
itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from shuffledp_client.submission import PreparedSubmission
from shuffledp_core.answering.answer import check_answer
from shuffledp_core.documents.digests import digest, document_digest
from shuffledp_core.documents.headers import check_headers
from shuffledp_core.documents.losses import Losses
from shuffledp_core.documents.models import BatchHeader, Certificate, Result, Roster
from shuffledp_core.documents.signed import Signed, from_json
from shuffledp_core.errors import (
    BadBatchError,
    CountMismatchError,
    FalseResultError,
    ForeignDocumentError,
    MalformedDocumentError,
    ReceiptMissingError,
    RoundFailed,
    RoundStateError,
    by_code,
)
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.runtime.keys import verify_from
from shuffledp_core.transparency.board_tiles import TiledBoard
from shuffledp_core.vocabulary import CertificateStage

_WORD: Final = 8


@dataclass(frozen=True)
class CheckedResult:
    """A completed round's verified result, and its final certificate.

    `found` is the number of the user's messages that were found on the board; None: not looked up.
    """

    result: Result
    final: Certificate
    board_digest: str
    found: int | None = None


def check_result(prepared: PreparedSubmission, roster: Roster, signed: Signed) -> CheckedResult:
    """Verifies the signed result of a submission's round; docs/protocol.md, section "Close".

    1. It is signed by the analyst, for this deployment and round.
    2. The round completed.
    3. It rests on the certificate that the submission was prepared under.
    4. The final certificate is the accountant's, for this round and mechanism, of stage "final",
       and for the accepted reports and the messages that were lost.
    5. It counts m messages for every accepted report, less those that the nodes dropped.
    6. Every node of the certified route signed a header for exactly these reports, the last one for
       exactly this board.

    Raises:
        DocumentError: step 1, 3, 4, 5 or 6.
        RoundFailed: step 2; the class is the one that the analyst names, if it is a kind of
            `RoundFailed`.
    """
    result = verify_from(roster.analyst, signed, Result)  # 1
    _same(
        "the result", (result.deployment, result.round_id), (prepared.deployment, prepared.round_id)
    )
    if result.error is not None or result.board_digest is None:  # 2
        kind = by_code(result.error or "")
        # The analyst chooses the name: any class outside `RoundFailed` would pass for a finding of
        # our own checks.
        raise (kind if issubclass(kind, RoundFailed) else RoundFailed)(
            f"round {result.round_id} ended without a result: {result.reason or result.outcome}"
        )
    if result.plan_certificate is None or result.final_certificate is None:  # 3
        raise MalformedDocumentError(
            "the result lacks its plan certificate or its final certificate"
        )
    # The whole document: the plan must not be swapped for a looser one once the values are in.
    if document_digest(result.plan_certificate) != prepared.certificate_digest:
        raise ForeignDocumentError(
            "the result's plan certificate is not the one that you submitted under"
        )
    plan = verify_from(roster.accountant, result.plan_certificate, Certificate)
    final = verify_from(roster.accountant, result.final_certificate, Certificate)  # 4
    _same(
        "the final certificate",
        (final.deployment, final.round_id),
        (prepared.deployment, prepared.round_id),
    )
    _same(
        "the final certificate",
        (final.stage, str(final.users)),
        (CertificateStage.FINAL, str(result.accepted)),
    )
    if final.mechanism != plan.mechanism:
        raise ForeignDocumentError(
            "the final certificate is for another mechanism than the one you ran"
        )
    if final.wording != plan.wording:
        raise ForeignDocumentError(
            "the final certificate states a different question from the one that you answered"
        )
    # Lost messages cost honest reports: a certificate for fewer of them than the result admits
    # would be too good.
    losses = Losses(result.dropped, result.outside_alphabet + result.repeated_tags)
    if Losses(final.dropped, final.invalid) != losses:
        raise ForeignDocumentError(
            f"the final certificate counts {final.dropped} dropped and {final.invalid} invalid "
            f"messages, but the result counts {losses.dropped} and {losses.invalid}"
        )
    per_user = prepared.geometry.messages_per_user
    # The certified route, not the submission's own geometry: the dummies are those of its nodes.
    dummies = len(plan.route) * plan.mechanism.dummies_per_node
    if result.messages != result.accepted * per_user + dummies - result.dropped:  # 5
        raise MalformedDocumentError(
            f"the result counts {result.messages} messages, which does not match "
            f"{result.accepted} reports of {per_user} messages and {dummies} dummies, less "
            f"{result.dropped} dropped ones; keep the receipt: it is evidence"
        )
    _check_headers(result, plan, roster)  # 6
    return CheckedResult(result, final, result.board_digest)


def _check_headers(result: Result, plan: Certificate, roster: Roster) -> None:
    # The route is the certified one, not one that the result names: an analyst could name nodes of
    # its own choice.
    route = [roster.party(name) for name in plan.route]
    if len(result.headers) != len(route):
        raise MalformedDocumentError(
            f"the result carries {len(result.headers)} batch headers, but the route has "
            f"{len(route)} nodes: unless every node has signed one, the number of mixed reports "
            "is unproved"
        )
    try:
        dropped = check_headers(
            result.headers,
            route,
            result.round_id,
            plan.mechanism.messages_per_user,
            result.accepted,
            excluding=plan.verified,
            dummies_per_node=plan.mechanism.dummies_per_node,
        )
    except (
        RoundStateError,
        CountMismatchError,
    ) as error:  # of a round that is over: a lie, not a state
        raise FalseResultError(f"{error}; keep the result: it is evidence") from error
    if dropped != result.dropped:
        raise FalseResultError(
            f"the analyst states that {result.dropped} messages were dropped, but the nodes "
            f"signed for {dropped}; keep the result: it is evidence"
        )
    if plan.verified:
        # the last node did not deliver the board, but what the analyst opened: `shuffledp verify`
        # follows that
        return
    delivered = from_json(result.headers[-1].body, BatchHeader).digest
    if delivered != result.board_digest:
        raise FalseResultError(
            f"the analyst states the board digest {result.board_digest}, but {route[-1].name}, "
            f"who delivered the board, signed {delivered}: one of them lies; keep the result: it "
            "is evidence"
        )


def check_board(
    verified: CheckedResult, geometry: Geometry, board: bytes, submissions: Sequence[bytes]
) -> None:
    """Checks that every message of every submission is on the board once and unchanged.

    docs/protocol.md, "Board".

    1. The board has the length and the digest that the analyst signed.
    2. Each message `symbol || tag` is on it, and no other message carries its tag.
    3. The estimate is the one that its symbols give.
    4. The signed tiles, if there are any, are those of this board.

    Args:
        verified: verified documents of this round.
        geometry: geometry of this round.
        board: all plain messages, packed.
        submissions: `PreparedSubmission.messages` of one user or of many.

    Raises:
        BadBatchError: step 1.
        ReceiptMissingError: step 2; says how many messages of how many submissions are not there.
        FalseResultError: step 3 or 4; `BadBatchError` for a board from which no answer can
            be computed.
    """
    if len(board) != verified.result.messages * geometry.plain_bytes:  # 1
        raise BadBatchError(
            f"the board has {len(board)} bytes, which does not fit the "
            f"{verified.result.messages} messages that the result states"
        )
    if digest(board) != verified.board_digest:
        raise BadBatchError(
            "the board is not the one whose digest the analyst signed; fetch it again"
        )
    changed = changed_messages(geometry, board, b"".join(submissions))  # 2
    if changed.any():
        users = changed.reshape(len(submissions), geometry.messages_per_user).any(axis=1)
        raise ReceiptMissingError(
            f"{int(changed.sum())} of {changed.size} messages of {int(users.sum())} of "
            f"{len(submissions)} submissions are not on the board unchanged; keep the receipt: "
            "it is evidence"
        )
    check_answer(verified.result, verified.final.mechanism, geometry, board)  # 3
    root = verified.result.tiles_root
    if isinstance(root, str) and TiledBoard.of(board, geometry).root.hex() != root:  # 4
        raise FalseResultError(
            "the tiles that the analyst signed are not those of the board; keep the result: it is "
            "evidence"
        )


def changed_messages(geometry: Geometry, board: bytes, messages: bytes) -> npt.NDArray[np.bool_]:
    """Mask of the packed messages that are NOT on the board exactly once and unchanged.

    Tags, or in a verified round keys, are compared as 64-bit words. Board and messages are sorted
    together by tag; a message is intact if its run of equal tags holds one row of the board, and
    that row carries its symbol.

    Raises:
        ValueError: the lengths are not a whole number of messages.
    """
    width = geometry.plain_bytes
    if len(board) % width or len(messages) % width:
        raise ValueError(
            f"the board has {len(board)} bytes and the submission {len(messages)}, which are not "
            f"whole numbers of {width}-byte messages"
        )
    rows = np.frombuffer(board + messages, dtype=np.uint8).reshape(-1, width)
    size = len(board) // width
    words = (geometry.tag_at.stop - geometry.tag_at.start) // _WORD
    tags = np.ascontiguousarray(rows[:, geometry.tag_at]).view(np.uint64).reshape(len(rows), words)
    order = np.lexsort(tags.T[::-1])
    new_run = np.any(tags[order[1:]] != tags[order[:-1]], axis=1)
    run = np.empty(len(rows), dtype=np.int64)
    run[order] = np.concatenate(([0], np.cumsum(new_run)))
    runs = int(run.max(initial=0)) + 1
    once = np.bincount(run[:size], minlength=runs) == 1
    row_on_board = np.zeros(runs, dtype=np.int64)
    # Of a run with several rows of the board any one stands here; `once` is false for it, whatever
    # this compares.
    row_on_board[run[:size]] = np.arange(size)
    mine = run[size:]
    symbols = rows[:, geometry.symbol_at]
    same = np.all(symbols[size:] == symbols[row_on_board[mine]], axis=1)
    intact: npt.NDArray[np.bool_] = once[mine] & same
    return ~intact


def _same(what: str, actual: tuple[str, str], expected: tuple[str, str]) -> None:
    if actual != expected:
        raise ForeignDocumentError(f"{what} is for {actual}, not {expected}")
