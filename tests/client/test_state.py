"""What is kept on the device: written once, bounded, and gone when it is not needed any more."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest
from client_rounds import LENIENT, NOW, POPULATION, ROUND_ID, Draft, make_deployment, make_members
from hypothesis import given
from hypothesis import strategies as st

from shuffledp_client.state import SubmissionStore
from shuffledp_client.submission import Member, PreparedSubmission, prepare
from shuffledp_client.verification import CheckedRound, verify_round
from shuffledp_core.documents.models import Announcement
from shuffledp_core.errors import ClientPolicyRefusal, RoundStateError, UnknownRoundError


@pytest.fixture(scope="module")
def draft(tmp_path_factory: pytest.TempPathFactory) -> Draft:
    return Draft(make_deployment(tmp_path_factory.mktemp("keys") / "deployment"))


@pytest.fixture(scope="module")
def announcement(draft: Draft) -> Announcement:
    return draft.announcement()


@pytest.fixture(scope="module")
def member(draft: Draft) -> Member:
    return make_members(draft.deployment, 1)[0]


def verified(draft: Draft) -> CheckedRound:
    return verify_round(draft.announcement(), draft.deployment.roster, LENIENT, POPULATION, NOW)


@pytest.fixture(scope="module")
def prepared(draft: Draft, member: Member) -> PreparedSubmission:
    return prepare(verified(draft), 3, member)


def test_the_first_submission_kept_is_the_one_sent(
    tmp_path: Path,
    draft: Draft,
    announcement: Announcement,
    prepared: PreparedSubmission,
    member: Member,
) -> None:
    store = SubmissionStore(tmp_path / "state")
    assert store.find(ROUND_ID) is None
    assert store.keep(prepared, announcement).submission == prepared
    second = prepare(verified(draft), 0, member)
    assert SubmissionStore(tmp_path / "state").keep(second, announcement).submission == prepared
    assert store.rounds() == (ROUND_ID,)


def test_nobody_else_can_read_what_is_kept(
    tmp_path: Path, announcement: Announcement, prepared: PreparedSubmission
) -> None:
    store = SubmissionStore(tmp_path / "state")
    store.keep(prepared, announcement)
    store.add_receipt(ROUND_ID, prepared.claim)
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700
    modes = {
        path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "state").iterdir()
    }
    assert modes == {f"{ROUND_ID}.json": 0o600}
    assert store.load(ROUND_ID).receipt == prepared.claim


def test_a_finished_round_is_erased_and_never_entered_again(
    tmp_path: Path, announcement: Announcement, prepared: PreparedSubmission
) -> None:
    store = SubmissionStore(tmp_path / "state")
    store.keep(prepared, announcement)
    store.finish(ROUND_ID)
    store.finish(ROUND_ID)
    assert [path.name for path in (tmp_path / "state").iterdir()] == [f"{ROUND_ID}.done"]
    with pytest.raises(RoundStateError, match="only once"):
        store.keep(prepared, announcement)
    with pytest.raises(RoundStateError, match="only once"):
        store.load(ROUND_ID)


def test_a_crash_while_erasing_is_made_good_at_the_next_start(
    tmp_path: Path, announcement: Announcement, prepared: PreparedSubmission
) -> None:
    SubmissionStore(tmp_path).keep(prepared, announcement)
    (tmp_path / f"new-{ROUND_ID}-00").write_bytes(prepared.messages)
    (tmp_path / f"{ROUND_ID}.done").touch()
    SubmissionStore(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [f"{ROUND_ID}.done"]


class Disk:
    """The state folder as a thief of the disk finds it: what was last flushed of every inode whose
    last name went."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gone: list[bytes] = []
        self._flushed: dict[int, bytes] = {}
        unlink, replace, fsync = Path.unlink, Path.replace, os.fsync

        def watched_fsync(descriptor: int) -> None:
            fsync(descriptor)
            found = os.fstat(descriptor)
            if stat.S_ISREG(found.st_mode):
                self._flushed[found.st_ino] = Path(f"/proc/self/fd/{descriptor}").read_bytes()

        def watched_unlink(path: Path, *arguments: Any, **options: Any) -> None:
            self._note(path)
            unlink(path, *arguments, **options)

        def watched_replace(path: Path, target: Path) -> Path:
            if target.exists():
                self._note(target)
            return replace(path, target)

        monkeypatch.setattr(os, "fsync", watched_fsync)
        monkeypatch.setattr(Path, "unlink", watched_unlink)
        monkeypatch.setattr(Path, "replace", watched_replace)

    def _note(self, path: Path) -> None:
        if path.exists() and path.stat().st_nlink == 1:
            self.gone.append(self._flushed.pop(path.stat().st_ino))


def test_no_copy_of_a_secret_is_unlinked_before_it_is_overwritten(
    tmp_path: Path,
    announcement: Announcement,
    prepared: PreparedSubmission,
    draft: Draft,
    member: Member,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before: the receipt's file replaced the first copy by a rename, and its blocks stayed on the
    disk."""
    disk, store = Disk(monkeypatch), SubmissionStore(tmp_path)
    store.keep(prepared, announcement)
    store.keep(prepare(verified(draft), 0, member), announcement)
    store.add_receipt(ROUND_ID, prepared.claim)
    store.add_result(ROUND_ID, prepared.claim)
    store.finish(ROUND_ID)
    assert len(disk.gone) == 3  # the first copy, the one with the receipt, the one with the result
    assert all(set(data) == {0} for data in disk.gone)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_crash_while_a_file_is_replaced_loses_nothing_and_leaves_nothing(
    tmp_path: Path, announcement: Announcement, prepared: PreparedSubmission, moment: str
) -> None:
    store = SubmissionStore(tmp_path)
    store.keep(prepared, announcement)
    live, old = tmp_path / f"{ROUND_ID}.json", tmp_path / f"new-{ROUND_ID}-00"
    data = live.read_bytes()
    if moment == "before":  # killed between the second name and the replacement
        old.hardlink_to(live)
        (tmp_path / f"new-{ROUND_ID}-01").write_bytes(data)
    else:  # killed between the replacement and the overwriting
        old.write_bytes(data)
    assert SubmissionStore(tmp_path).load(ROUND_ID).submission == prepared
    assert [path.name for path in tmp_path.iterdir()] == [f"{ROUND_ID}.json"]


def test_after_the_receipt_the_envelope_is_not_kept(
    tmp_path: Path, announcement: Announcement, prepared: PreparedSubmission
) -> None:
    store = SubmissionStore(tmp_path)
    store.keep(prepared, announcement)
    store.add_receipt(ROUND_ID, prepared.claim)
    kept = store.load(ROUND_ID)
    assert kept.submission.envelope == b""
    assert kept.submission.messages == prepared.messages
    assert kept.announcement == announcement


def test_what_is_kept_is_bounded_in_bytes_and_never_makes_place_for_another_round(
    tmp_path: Path, announcement: Announcement, prepared: PreparedSubmission
) -> None:
    store = SubmissionStore(tmp_path, limit=100_000)
    store.keep(prepared, announcement)
    one = (tmp_path / f"{ROUND_ID}.json").stat().st_size
    kept = [f"{number:032x}" for number in range(100_000 // one - 1)]
    for round_id in kept:
        store.keep(msgspec.structs.replace(prepared, round_id=round_id), announcement)
    with pytest.raises(ClientPolicyRefusal, match="kept_bytes"):
        store.keep(msgspec.structs.replace(prepared, round_id="f" * 32), announcement)
    assert store.rounds() == tuple(sorted([*kept, ROUND_ID]))
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 100_000
    assert (
        store.keep(
            msgspec.structs.replace(prepared, round_id=kept[0]), announcement
        ).submission.round_id
        == kept[0]
    )


def test_what_is_kept_is_bounded_in_time(
    tmp_path: Path, announcement: Announcement, prepared: PreparedSubmission
) -> None:
    store = SubmissionStore(tmp_path)
    store.keep(prepared, announcement)
    store.add_receipt(ROUND_ID, prepared.claim)
    (tmp_path / f"{'f' * 32}.json").write_bytes(b"damaged")
    store.expire(prepared.closes_at + 60_000, 60)
    assert store.load(ROUND_ID).receipt is not None
    store.expire(prepared.closes_at + 60_001, 60)
    assert store.rounds() == ("f" * 32,)
    with pytest.raises(RoundStateError, match="only once"):
        store.load(ROUND_ID)


@given(data=st.binary(max_size=100))
def test_damaged_state_is_a_typed_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    folder = tmp_path_factory.mktemp("state")
    (folder / f"{ROUND_ID}.json").write_bytes(data)
    with pytest.raises(RoundStateError, match="damaged"):
        SubmissionStore(folder).load(ROUND_ID)


def test_an_unknown_or_unsafe_round_id_is_refused(tmp_path: Path) -> None:
    store = SubmissionStore(tmp_path)
    for round_id in ("f" * 32, "../escape", ""):
        with pytest.raises(UnknownRoundError):
            store.load(round_id)
