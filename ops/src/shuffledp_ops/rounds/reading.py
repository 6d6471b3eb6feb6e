"""Reads a saved round: its signed documents, verified again, and facts from `report.json`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from shuffledp.log_proofs import LOG_PROOF, RESULT_PROOF, check_result_proof_beside
from shuffledp.verification import check_beside, check_signed
from shuffledp_core.answering.strings import OpenListAnswer
from shuffledp_core.documents.models import Announcement, Roster
from shuffledp_core.documents.open_list import LONGEST_STRING
from shuffledp_core.documents.signed import MAX_DOCUMENT_BYTES, Signed, from_json
from shuffledp_core.errors import ConfigError, ForeignDocumentError, MalformedDocumentError
from shuffledp_core.mechanisms.columns import answer_size
from shuffledp_core.runtime.keys import read_roster, read_signed
from shuffledp_core.transparency.proofs import MAX_PROOF_BYTES
from shuffledp_core.vocabulary import ROUND_ID
from shuffledp_ops.rounds.report import RoundReport, TracedPerson, is_open
from shuffledp_ops.rounds.running import OpenedRound, make_report, read_result, with_result_proof
from shuffledp_ops.rounds.saving import LATEST

MOST_BYTES: Final = 4 * MAX_DOCUMENT_BYTES
"""Of `report.json`, which has every number of a result once more, and the truth."""

LARGEST: Final = 1e15
"""No number of a round is beyond it; a page could not show one."""

LONGEST_NAME: Final = 600
"""Characters of a column's or a symbol's name: cells of a table have several with their units."""


class _Extras(msgspec.Struct, frozen=True):
    """The unsigned facts in `report.json`, in addition to the signed documents."""

    round: str
    true_value: float | tuple[float, ...] | None = None
    capped: int = 0
    drawn_with_replacement_from: int | None = None
    column: str | None = None
    labels: tuple[str, ...] | None = None
    seconds: dict[str, float] = {}
    traced: float | None = None
    attack_success: float | None = None
    attack_interval: tuple[float, float] | None = None
    attack_confidence: float = 0.0
    guessing_without_messages: float | None = None
    open_list: OpenListAnswer | None = None


@dataclass(frozen=True)
class _FolderRoster:
    """The roster in a round's folder, used in place of a deployment."""

    roster: Roster


@dataclass(frozen=True)
class SavedTrace:
    """Result of an attack, read from `report.json`; fields as in `TraceOutcome`."""

    def people(self) -> Iterator[TracedPerson]:
        """No one, because `report.json` has only counts."""
        return iter(())

    users: int
    traced_share: float
    success: float | None
    interval: tuple[float, float] | None
    confidence: float
    baseline: float | None

    @property
    def traced(self) -> int:
        """Number of users all of whose messages were found on the board."""
        return round(self.users * self.traced_share)

    def to_dict(self) -> dict[str, Any]:
        """The fields for the report's JSON."""
        return {
            "traced": self.traced_share,
            "attack_success": self.success,
            "attack_interval": None if self.interval is None else list(self.interval),
            "attack_confidence": self.confidence,
            "guessing_without_messages": self.baseline,
        }


def round_folder(named: Path) -> Path:
    """Resolve a path to the folder of a saved round.

    `latest` may also be a file that holds the folder's name, as on systems without links.

    Raises:
        ConfigError: there is no such folder, or it holds no round.
    """
    try:
        named.exists()
    except OSError as error:  # such as a name that no file can have
        raise ConfigError(
            f"cannot find {named}: {error.strerror}; name a folder such as out/latest"
        ) from error
    folder = named
    if named.name == LATEST and named.is_file():
        name = (
            _read_bounded(named, "name of the last round", 100)
            .decode("ascii", errors="replace")
            .strip()
        )
        folder = named.parent / (name if ROUND_ID.fullmatch(name) else "no-round")
    if not folder.is_dir():
        raise ConfigError(
            f"{named} is not a round's folder; name one that `shuffledp demo`, `round` or "
            "`results show --out` has made, such as out/latest"
        )
    if not (folder / "result.json").exists():
        raise ConfigError(
            f"{folder} has no result.json, and so no published round; name the folder of a "
            "round, such as out/latest"
        )
    return folder


def read_round(folder: Path) -> RoundReport:
    """Read and verify a saved round; return its report.

    1. The roster is signed by the root key next to it.
    2. The result is the analyst's, and its certificates are the accountant's; every number is
       computed again.
    3. The manifest is the analyst's, of the same round.
    4. The certificates in files of their own, if any, are those of the result; proofs of the
       public log show the plan certificate and the result there.
    5. The answer has the shape that the mechanism gives, with numbers that a round can have.
    6. `report.json`, if it is there, is of the same round. It is unsigned, and only adds to them.

    Raises:
        ConfigError: a file is missing or cannot be read.
        DocumentError: a step fails; the message names the file.
        ShuffleDPError: the error that failed the round.
    """
    root = (
        _read_bounded(folder / "root.pub", "root key", 1000)
        .decode("ascii", errors="replace")
        .strip()
    )
    _read_bounded(folder / "roster.json", "roster", MAX_DOCUMENT_BYTES)
    roster = read_roster(folder / "roster.json", root)  # 1
    trusted = _FolderRoster(roster)
    signed = _read_document(folder / "result.json")
    result = read_result(trusted, signed)  # 2
    check_signed(signed, roster)
    if result.deployment != roster.deployment:
        raise ForeignDocumentError(
            f"result.json is of deployment {result.deployment!r}, but the roster is of "
            f"{roster.deployment!r}"
        )
    announcement = Announcement(
        manifest=_read_document(folder / "manifest.json"), countersignatures=()
    )
    if check_beside(folder, result, roster) is not None:  # 3, 4
        proof = _read_bounded(folder / LOG_PROOF, "proof of the public log", MAX_PROOF_BYTES)
        announcement = msgspec.structs.replace(announcement, log=proof.decode())
    report = make_report(trusted, OpenedRound(result.round_id, announcement), signed, result, {})
    if check_result_proof_beside(folder, signed, roster):  # 4
        proof = _read_bounded(folder / RESULT_PROOF, "proof of the public log", MAX_PROOF_BYTES)
        report = with_result_proof(roster, report, proof)
    _check_shape(report)  # 5
    extras = _extras(folder / "report.json", report)  # 6
    return report if extras is None else _with_extras(report, extras)


def _check_shape(report: RoundReport) -> None:
    estimate, spec = report.estimate, report.final.mechanism
    columns = (estimate.values, estimate.standard_errors, estimate.lows, estimate.highs)
    expected = answer_size(spec)
    if any(len(column) != expected for column in columns):
        raise MalformedDocumentError(
            "the answer in result.json has a wrong length: it must have "
            f"{expected:,} values for {spec.kind}"
        )
    means = (
        number for number in (estimate.mean, estimate.mean_standard_error) if number is not None
    )
    if not all(abs(number) <= LARGEST for column in (*columns, tuple(means)) for number in column):
        raise MalformedDocumentError(
            "the answer in result.json has a number that no round can have"
        )
    if report.final.ledger.limit < 0 or not 0 <= report.final.issued_at < 2**47:
        raise MalformedDocumentError(
            "the certificate in result.json has an impossible time or budget"
        )


def _extras(file: Path, report: RoundReport) -> _Extras | None:
    if not file.exists():
        return None
    data = _read_bounded(file, "report", MOST_BYTES)
    try:
        extras = from_json(data, _Extras)
    except MalformedDocumentError as error:
        raise MalformedDocumentError(
            f"{file} is not a valid report of a round; delete it, it is not needed"
        ) from error
    if extras.round != report.round_id:
        raise ForeignDocumentError(
            f"{file} is of another round than result.json; delete it, it is not needed"
        )
    count = len(report.estimate.values)
    truths = _truths(extras)
    texts = [extras.column or "", *extras.seconds, *(extras.labels or ())]
    numbers = [
        *extras.seconds.values(),
        extras.capped,
        extras.drawn_with_replacement_from or 0,
    ]
    shares = (extras.traced, extras.attack_success, extras.guessing_without_messages)
    if (
        len(truths) not in {0, count}
        or len(extras.labels or ()) not in {0, count}
        or len(extras.seconds) > 100
        or any(len(text) > LONGEST_NAME for text in texts)
        or not all(0 <= number <= LARGEST for number in numbers)
        or not all(-LARGEST <= number <= LARGEST for number in truths.tolist())
        or (truths.size > 0 and _as_symbols(truths, report).min() < 0)
        or not all(0 <= share <= 1 for share in shares if share is not None)
        or not (extras.open_list is None or _fits(extras.open_list, report))
    ):
        raise MalformedDocumentError(
            f"{file} does not fit the round; delete it, and the page is made without it"
        )
    return extras


def _fits(answer: OpenListAnswer, report: RoundReport) -> bool:
    """True if an open-list answer can belong to the round of the report."""
    numbers = [answer.threshold or 0.0, answer.expected_false, answer.least or 0, answer.candidates]
    for text in answer.texts:
        numbers += [text.people, text.low, text.high, text.true or 0]
    return (
        is_open(report)
        and all(-LARGEST <= number <= LARGEST for number in numbers)
        and all(len(text.text) <= LONGEST_STRING for text in answer.texts)
    )


def _truths(extras: _Extras) -> NDArray[np.float64]:
    """The true answer, shape (1,) for a sum, (values,) for a histogram, (0,) if unknown."""
    return np.atleast_1d(
        np.array([] if extras.true_value is None else extras.true_value, dtype=np.float64)
    )


def _as_symbols(truths: NDArray[np.float64], report: RoundReport) -> NDArray[np.int64]:
    """Convert the true answer from the question's unit into the devices' symbols."""
    scale = report.scale
    if scale is None:
        return truths.astype(np.int64)
    least = scale.convert(0.0, report.counted_reports)
    return np.rint((truths - least) / float(scale.step)).astype(np.int64)


def _with_extras(report: RoundReport, extras: _Extras) -> RoundReport:
    truths = _truths(extras)
    trace = None
    if extras.traced is not None:
        trace = SavedTrace(
            report.accepted,
            extras.traced,
            extras.attack_success,
            extras.attack_interval,
            extras.attack_confidence,
            extras.guessing_without_messages,
        )
    return replace(
        report,
        truth=_as_symbols(truths, report) if truths.size else None,
        capped=extras.capped,
        drawn_from=extras.drawn_with_replacement_from,
        column=report.column or extras.column,  # signed words come first
        labels=report.labels or extras.labels or (),
        seconds=extras.seconds,
        trace=trace,
        open_list=extras.open_list,
    )


def _read_document(file: Path) -> Signed:
    _read_bounded(file, "document", MAX_DOCUMENT_BYTES)  # of bounded length, before it is parsed
    return read_signed(file, "document")


def _read_bounded(file: Path, what: str, most: int) -> bytes:
    """Read a regular file of bounded length; devices and pipes, possibly endless, are refused."""
    if not file.is_file():
        raise ConfigError(
            f"there is no {what} {file}; fetch the round again with `shuffledp results show KEYS "
            "--out`"
        )
    try:
        with file.open("rb") as stream:
            data = stream.read(most + 1)
    except OSError as error:
        raise ConfigError(
            f"cannot read the {what} {file}: {error.strerror}; check its permissions"
        ) from error
    if len(data) > most:
        raise MalformedDocumentError(
            f"the {what} {file} is longer than {most:,} bytes; fetch the round again"
        )
    return data
