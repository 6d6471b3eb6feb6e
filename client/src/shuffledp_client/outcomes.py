"""Return values of the device kit: an open question, an acknowledged answer, and its outcome."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Self

from shuffledp_client.board import CheckedResult
from shuffledp_client.evidence import ShownEvidence
from shuffledp_client.verification import CheckedRound
from shuffledp_core.documents.models import Certificate
from shuffledp_core.documents.wording import FieldValue, QuestionWording
from shuffledp_core.errors import ShuffleDPError, UsageError

_LAST_MOMENT: Final = 2**47
"""Milliseconds since 1970, in the year 6429: a later time is shown as this one. Calendars end, what
others sign not.
"""


@dataclass(frozen=True)
class Question:
    """An open round that this device may answer: verified, and within the user's policy.

    The value is from 0 to `largest`.

    Attributes:
        round_id: id of the round.
        mechanism: kind of the mechanism that adds the noise.
        largest: largest possible value in this round.
        closes_at: when the round closes, UTC.
        epsilon: certified ε (nats) while one node is honest; per unit if the certificate says so.
        delta: δ of `epsilon`.
        epsilon_corrupted: ε_L, which holds even if every node is corrupt; infinite if there is no
            such guarantee.
        route: the mix nodes, in order.
        wording: the question in words, signed; None if the round has none.
        verified: all of the round's documents.
    """

    round_id: str
    mechanism: str
    largest: int
    closes_at: dt.datetime
    epsilon: float
    delta: float
    epsilon_corrupted: float
    route: tuple[str, ...]
    wording: QuestionWording | None
    verified: CheckedRound = field(repr=False)

    @classmethod
    def of(cls, verified: CheckedRound) -> Self:
        """The question of a round whose documents have been verified."""
        certificate = verified.certificate
        return cls(
            round_id=verified.round_id,
            mechanism=verified.mechanism.kind,
            largest=verified.mechanism.domain - 1,
            closes_at=dt.datetime.fromtimestamp(
                min(verified.closes_at, _LAST_MOMENT) / 1000, dt.UTC
            ),
            epsilon=_finite(certificate.epsilon.certified),
            delta=certificate.delta,
            epsilon_corrupted=_finite(certificate.corrupted.epsilon),
            route=certificate.route,
            wording=certificate.question_wording,
            verified=verified,
        )

    def locate(self, *answers: str) -> int:
        """The value to answer with, from one answer for each field of the question.

        An answer is a name or a number in the question's unit; without words, the value itself.

        Raises:
            UsageError: this is not a possible answer. The message does not repeat it.
        """
        return locate_answer(self.verified.certificate, *answers)

    def locate_record(self, record: Mapping[str, FieldValue]) -> int:
        """The value to answer with, from a record with the fields of the question.

        Raises:
            UsageError: the question has no words, or no symbol for such a record. The message does
                not repeat the record.
        """
        return locate_record(self.verified.certificate, record)


def locate_answer(certificate: Certificate, *answers: str) -> int:
    """The value in a round that these answers stand for; see `Question.locate`."""
    wording = certificate.question_wording
    if wording is None:
        return parse_whole(*answers)
    try:
        return wording.locate(*answers)
    except ValueError as error:
        raise UsageError(f"not an answer to the question {wording.id!r}: {error}") from error


def locate_record(certificate: Certificate, record: Mapping[str, FieldValue]) -> int:
    """The value in a round that a record stands for; see `Question.locate_record`."""
    wording = certificate.question_wording
    if wording is None:
        raise UsageError(
            "the round has no question in words, so it cannot be answered from a record: answer "
            "with a whole number"
        )
    try:
        return wording.locate_record(record)
    except ValueError as error:
        raise UsageError(
            f"the record has no answer to the question {wording.id!r}: {error}"
        ) from error


def parse_whole(*answers: str) -> int:
    """Parse a whole number in decimal digits. The `UsageError` does not repeat it."""
    digits = answers[0].strip() if len(answers) == 1 else ""
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 10):
        raise UsageError("the value must be a whole number from 0, with at most 10 digits")
    return int(digits)


def describe_question(certificate: Certificate) -> tuple[str, ...]:
    """Lines for people: the question, its field and unit, and the possible answers."""
    wording = certificate.question_wording
    if wording is None:
        largest = certificate.mechanism.domain - 1
        return (f"The round asks for a whole number from 0 to {largest:,}, without further words.",)
    lines = [f"Question {wording.id}: {wording.text}"]
    for axis in wording.axes:
        unit = f", in {axis.unit}" if axis.unit else ""
        lines.append(f"  {axis.field}{unit}: {axis.symbols.describe('')}")
    lines += [f"  only for {condition.describe()}" for condition in wording.where]
    if wording.others:
        lines.append(f"  for all others, and where a field is missing: {wording.others}")
    return tuple(lines)


@dataclass(frozen=True)
class Answered:
    """An acknowledged answer, whose receipt is kept.

    `repeated`: an answer was kept from before and is the one that counts; the value given now was
    not used.
    """

    round_id: str
    entry: str
    messages: int
    repeated: bool


class Standing(StrEnum):
    """Outcome of an answer after its round."""

    COUNTED = "counted"
    """The messages that the device looks for (`ReceiptCheck`: by default all) are on the board,
    unchanged. If it was the whole board, the published estimate is the board's. The device keeps
    nothing of the round any more.
    """
    WAITING = "waiting"
    """There is no result yet."""
    FAILED = "failed"
    """The round ended without a result."""
    LATE = "late"
    """There never was a receipt, and the answer is not in the round. The device keeps nothing of
    the round any more.
    """
    MISSING = "missing"
    """There is a receipt, and a message is on the board not at all or several times: someone
    cheated. The device keeps everything.
    """
    UNCLEAR = "unclear"
    """The round could not be checked, or a check failed; `Checked.error` says why. The device keeps
    everything.
    """


@dataclass(frozen=True)
class Checked:
    """Outcome of checking one round.

    Attributes:
        round_id: id of the round.
        standing: outcome of the answer.
        words: the outcome in a sentence.
        result: COUNTED: the verified result, with the published estimate.
        shown: for MISSING, what the evidence proves to others; None if there is no evidence: the
            round's suite gives none, provable mixing needs none, or the messages are on the board
            twice.
        error: the typed error behind any standing but COUNTED.
    """

    round_id: str
    standing: Standing
    words: str
    result: CheckedResult | None = None
    shown: ShownEvidence | None = None
    error: ShuffleDPError | None = None


def _finite(epsilon: float | None) -> float:
    """Convert a number of a certificate: None means infinite."""
    return math.inf if epsilon is None else epsilon
