"""What the analyst's disk holds of a verified round, wherever its process is killed."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import pytest
from analyst_world import plan
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from shuffledp_analyst import round_files as round_files_module
from shuffledp_analyst.records import Records
from shuffledp_core.documents.models import BatchHeader, Result
from shuffledp_core.documents.signed import Signed, sign
from shuffledp_core.errors import UnknownRoundError
from shuffledp_core.vocabulary import Mix, Outcome

ROUND = "ab" * 16
BATCH, BOARD, HISTORY = b"history and records", b"what they say", b"history and exclusions"
KEY = Ed25519PrivateKey.generate()


class Killed(BaseException):
    """The process is no more."""


def header() -> Signed:
    said = BatchHeader(round_id=ROUND, position=4, users=5, records=10, digest="cd" * 32, history=7)
    return sign(said, "node-3", KEY)


def result(outcome: Outcome) -> Signed:
    return sign(Result(deployment="demo", round_id=ROUND, outcome=outcome), "analyst", KEY)


def delivered(folder: Path) -> Records:
    records = Records(folder)
    records.create(ROUND, plan(mix=Mix.VERIFIED))
    records.files(ROUND).batch.part.write_bytes(BATCH)
    records.files(ROUND).batch.commit(header())
    return records


def files(records: Records) -> set[str]:
    return {path.name for path in records.files(ROUND).batch.path.parent.iterdir()}


def test_killed_just_before_the_result_the_batch_is_still_there_to_be_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(path: Path, _: BinaryIO) -> None:
        assert path.name == "result.json"
        raise Killed

    records = delivered(tmp_path)
    records.files(ROUND).batch.keep_opened(BOARD, HISTORY)
    with monkeypatch.context() as dying:
        dying.setattr(round_files_module, "commit_part", killed)
        with pytest.raises(Killed):
            records.files(ROUND).publish(result(Outcome.PUBLISHED))
    records = Records(tmp_path)
    for published in (records.files(ROUND).board, records.files(ROUND).history):
        with pytest.raises(UnknownRoundError):
            published()
    assert records.files(ROUND).batch.header() == header()
    assert records.files(ROUND).batch.path.read_bytes() == BATCH
    records.files(ROUND).batch.keep_opened(BOARD, HISTORY)
    records.files(ROUND).publish(result(Outcome.PUBLISHED))
    assert (
        records.files(ROUND).board().read_bytes(),
        records.files(ROUND).history().read_bytes(),
    ) == (
        BOARD,
        HISTORY,
    )


def test_the_batch_stays_until_nobody_sends_it_again_and_its_digest_for_ever(
    tmp_path: Path,
) -> None:
    records = delivered(tmp_path)
    records.files(ROUND).batch.keep_opened(BOARD, HISTORY)
    records.files(ROUND).publish(result(Outcome.PUBLISHED))
    assert records.files(ROUND).batch.length() == len(BATCH)
    records.files(ROUND).finish()
    assert "batch" not in files(records)
    assert records.files(ROUND).batch.digest() == "cd" * 32
    assert records.files(ROUND).board().read_bytes() == BOARD


def test_a_round_that_fails_behind_its_opening_leaves_neither_board_nor_history(
    tmp_path: Path,
) -> None:
    records = delivered(tmp_path)
    records.files(ROUND).batch.keep_opened(BOARD, HISTORY)
    records.files(ROUND).fail(result(Outcome.FAILED))
    assert not files(records) & {"batch", "batch.part", "opened", "board", "history"}
    for published in (records.files(ROUND).board, records.files(ROUND).history):
        with pytest.raises(UnknownRoundError):
            published()


def test_the_length_of_a_batch_is_known_after_the_batch_is_gone(tmp_path: Path) -> None:
    """The board is another file, of another length."""
    records = delivered(tmp_path)
    records.files(ROUND).batch.keep_opened(BOARD, HISTORY)
    records.files(ROUND).publish(result(Outcome.PUBLISHED))
    for _ in range(2):  # the second time as after a crash in the middle
        records.files(ROUND).finish()
        assert Records(tmp_path).files(ROUND).batch.length() == len(BATCH) != len(BOARD)


def test_the_time_of_the_close_is_the_first_that_was_recorded(tmp_path: Path) -> None:
    records = delivered(tmp_path)
    assert records.files(ROUND).closed_at(1_000) == 1_000
    assert Records(tmp_path).files(ROUND).closed_at(9_000) == 1_000
    (records.files(ROUND).batch.path.parent / "closed").write_bytes(b"1_0 00")
    assert records.files(ROUND).closed_at(9_000) == 9_000
