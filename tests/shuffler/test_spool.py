"""The spool: acknowledged is committed, once per credential, whatever order things come in."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from shuffledp_core.documents.digests import digest
from shuffledp_core.errors import (
    DifferentSubmissionError,
    InvalidSubmissionError,
    NodeFault,
    RoundStateError,
    SubmissionClosedError,
    UnknownRoundError,
)
from shuffledp_core.runtime.config import Limits
from shuffledp_core.runtime.tasks import finish_if_cancelled
from shuffledp_shuffler.spool import Spool, Submission

SIZE = 100


@contextmanager
def spool(folder: Path, max_reports: int = 1000) -> Iterator[Spool]:
    opened = Spool(folder / "index.sqlite", folder / "envelopes", SIZE, max_reports)
    try:
        yield opened
    finally:
        opened.shut()


async def append(opened: Spool, credential: str, data: bytes) -> None:
    submission = Submission(credential, digest(data), data)
    await opened.store(lambda: submission, lambda _: None, len(data))


def envelope() -> bytes:
    return os.urandom(SIZE)


async def test_everything_acknowledged_is_there_after_reopening_in_any_concurrency(
    tmp_path: Path,
) -> None:
    sent = {os.urandom(32).hex(): envelope() for _ in range(500)}
    with spool(tmp_path) as first:
        await asyncio.gather(*(append(first, who, data) for who, data in sent.items()))
    with spool(tmp_path) as again:
        assert again.accepted_count == 500
        again.require_whole()
        for who, data in sent.items():
            assert await again.find(who) == digest(data)
    packed = (tmp_path / "envelopes").read_bytes()
    assert sorted(packed[start : start + SIZE] for start in range(0, len(packed), SIZE)) == sorted(
        sent.values()
    )


async def test_the_answers_of_a_group_are_fewer_than_make_a_node_give_up_callers(
    tmp_path: Path,
) -> None:
    most = Limits().unread_answers // 2
    groups: list[int] = []
    begun, release = threading.Event(), threading.Event()
    first = Submission(os.urandom(32).hex(), digest(data := envelope()), data)

    def wait_and_take() -> Submission:
        begun.set()
        release.wait()
        return first

    opened = Spool(tmp_path / "index", tmp_path / "envelopes", SIZE, 2000, groups.append)
    try:
        waiting = opened.store(wait_and_take, lambda _: None, len(data))
        await asyncio.to_thread(begun.wait)
        rest = [append(opened, os.urandom(32).hex(), envelope()) for _ in range(3 * most)]
        everything = asyncio.gather(waiting, *rest)
        await asyncio.sleep(0)  # every call has asked
        release.set()
        await everything
    finally:
        release.set()
        opened.shut()
    assert groups == [1, most, most, most]


class Together:
    """Steps of submissions that are given as they are; the second envelope of all is refused."""

    def __init__(self, bad: bytes = b"") -> None:
        self.bad = bad
        self.begun, self.release = threading.Event(), threading.Event()
        self.checked: list[int] = []
        self.answered: list[int] = []

    def check(self, items: Sequence[Submission]) -> list[Submission | Exception]:
        self.begun.set()
        self.release.wait()
        self.checked.append(len(items))
        return [
            InvalidSubmissionError("bad") if item.envelope == self.bad else item for item in items
        ]

    def answer(self, stored: Sequence[Submission]) -> list[str]:
        self.answered.append(len(stored))
        return [submission.credential for submission in stored]


async def test_a_group_is_checked_together_and_each_gets_its_own_refusal(tmp_path: Path) -> None:
    sent = [Submission(os.urandom(32).hex(), digest(data := envelope()), data) for _ in range(5)]
    late = Submission(os.urandom(32).hex(), "", envelope(), SubmissionClosedError("late"))
    steps = Together(bad=sent[2].envelope or b"")
    with spool(tmp_path) as opened:
        first = opened.store_all(steps, sent[:1], SIZE)
        await asyncio.to_thread(steps.begun.wait)
        rest = [opened.store_all(steps, sent[1:4], 3 * SIZE)]
        rest.append(opened.store_all(steps, [sent[4], late], 2 * SIZE))
        steps.release.set()
        outcomes = [outcome for part in await asyncio.gather(first, *rest) for outcome in part]
        assert opened.accepted_count == 4
    assert steps.checked == [1, 5]
    assert steps.answered == [1, 3]
    assert isinstance(outcomes[2], InvalidSubmissionError)
    assert isinstance(outcomes[5], SubmissionClosedError)
    assert outcomes[:2] == [other.credential for other in sent[:2]]
    assert outcomes[3:5] == [other.credential for other in sent[3:]]


async def test_requests_of_many_share_a_group_only_as_far_as_it_goes(tmp_path: Path) -> None:
    steps = Together()
    sizes = [1, 200, 56, 1, 255, 2, 256, 256]
    with spool(tmp_path, max_reports=2000) as opened:
        requests = []
        for size in sizes:
            sent = [
                Submission(os.urandom(32).hex(), digest(data := envelope()), data)
                for _ in range(size)
            ]
            requests.append(opened.store_all(steps, sent, size * SIZE))
            if len(requests) == 1:
                await asyncio.to_thread(steps.begun.wait)
        steps.release.set()
        outcomes = await asyncio.gather(*requests)
        assert opened.accepted_count == sum(sizes)
    assert [len(each) for each in outcomes] == sizes
    assert steps.checked == [1, 256, 256, 2, 256, 256]


async def test_what_stops_the_check_of_a_group_refuses_all_of_it(tmp_path: Path) -> None:
    class Erased(Together):
        def check(self, items: Sequence[Submission]) -> list[Submission | Exception]:
            raise RoundStateError(f"the key is erased: {len(items)}")

    submission = Submission(os.urandom(32).hex(), digest(data := envelope()), data)
    with spool(tmp_path) as opened:
        outcomes = await opened.store_all(Erased(), [submission] * 2, 2 * SIZE)
        assert [type(outcome) for outcome in outcomes] == [RoundStateError] * 2
        assert opened.accepted_count == 0


async def test_the_same_submission_counts_once_even_in_one_group(tmp_path: Path) -> None:
    who, data = os.urandom(32).hex(), envelope()
    with spool(tmp_path) as opened:
        await asyncio.gather(*(append(opened, who, data) for _ in range(20)))
        assert opened.accepted_count == 1


async def test_of_two_different_submissions_at_once_exactly_one_is_accepted(tmp_path: Path) -> None:
    who, envelopes = os.urandom(32).hex(), [envelope(), envelope()]
    with spool(tmp_path) as opened:
        outcomes = await asyncio.gather(
            *(append(opened, who, data) for data in envelopes), return_exceptions=True
        )
        assert outcomes[0] is None
        assert isinstance(outcomes[1], DifferentSubmissionError)
        assert opened.accepted_count == 1


async def test_an_envelope_belongs_to_one_credential(tmp_path: Path) -> None:
    data = envelope()
    with spool(tmp_path) as opened:
        await append(opened, os.urandom(32).hex(), data)
        with pytest.raises(InvalidSubmissionError):
            await append(opened, os.urandom(32).hex(), data)


async def test_a_full_or_closed_spool_still_knows_what_it_accepted(tmp_path: Path) -> None:
    who, data, late = os.urandom(32).hex(), envelope(), envelope()
    with spool(tmp_path, max_reports=1) as opened:
        await append(opened, who, data)
        with pytest.raises(SubmissionClosedError, match="full"):
            await append(opened, os.urandom(32).hex(), late)
        assert await opened.close() == 1
        with pytest.raises(SubmissionClosedError, match="closed"):
            await append(opened, os.urandom(32).hex(), late)
        await append(opened, who, data)


async def test_bytes_that_were_never_committed_are_overwritten(tmp_path: Path) -> None:
    first, second = envelope(), envelope()
    with spool(tmp_path) as opened:
        await append(opened, os.urandom(32).hex(), first)
    with (tmp_path / "envelopes").open("ab") as file:
        file.write(b"torn by a crash")
    with spool(tmp_path) as opened:
        await append(opened, os.urandom(32).hex(), second)
    assert (tmp_path / "envelopes").read_bytes() == first + second


async def test_lost_envelopes_are_noticed(tmp_path: Path) -> None:
    data = envelope()
    with spool(tmp_path) as opened:
        await append(opened, os.urandom(32).hex(), data)
    os.truncate(tmp_path / "envelopes", SIZE - 1)
    with spool(tmp_path) as opened, pytest.raises(NodeFault, match="99 bytes"):
        opened.require_whole()


async def test_a_damaged_index_is_one_typed_error(tmp_path: Path) -> None:
    (tmp_path / "index.sqlite").write_bytes(os.urandom(8192))
    with pytest.raises(NodeFault, match="damaged"), spool(tmp_path):
        pass


async def test_nothing_waits_for_a_spool_that_was_shut(tmp_path: Path) -> None:
    with spool(tmp_path) as opened:
        pass
    with pytest.raises(UnknownRoundError):
        await opened.find(os.urandom(32).hex())


@contextmanager
def files_no_larger_than(size: int) -> Iterator[None]:
    """The system refuses every byte of this process beyond `size` in any file, as a full disk
    would."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    heard = signal.signal(
        signal.SIGXFSZ, signal.SIG_IGN
    )  # an error of the write, not the end of the process
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, heard)


async def test_a_disk_without_room_for_the_index_is_no_damage(tmp_path: Path) -> None:
    full = r"cannot be written .* is the disk of the state folder full"
    with files_no_larger_than(1000), pytest.raises(NodeFault, match=full), spool(tmp_path):
        pass


@pytest.mark.parametrize("refused", ["envelopes", "index"])
async def test_a_full_disk_refuses_what_comes_and_nothing_else(
    tmp_path: Path, refused: str
) -> None:
    """Half an envelope still fits, or all of it but not its row: what is refused leaves no trace,
    the rest goes on."""
    sent = {os.urandom(32).hex(): envelope() for _ in range(3)}
    (early, again, late) = sent
    with spool(tmp_path) as opened:
        await append(opened, early, sent[early])
        rows = (tmp_path / "index.sqlite-wal").stat().st_size
        assert rows > 2 * SIZE
        with files_no_larger_than(SIZE * 3 // 2 if refused == "envelopes" else rows):
            with pytest.raises(NodeFault, match="send it again later"):
                await append(opened, again, sent[again])
            assert opened.accepted_count == 1
        for who in (late, again):
            await append(opened, who, sent[who])
        assert await opened.close() == 3
    with spool(tmp_path) as reopened:
        assert reopened.accepted_count == 3
        assert [await reopened.find(who) for who in sent] == [
            digest(data) for data in sent.values()
        ]
    assert (tmp_path / "envelopes").read_bytes() == sent[early] + sent[late] + sent[again]


async def test_a_check_that_breaks_is_its_callers_alone_and_the_writer_goes_on(
    tmp_path: Path,
) -> None:
    who, data = os.urandom(32).hex(), envelope()

    def broken() -> Submission:
        raise KeyError("a bug")

    def unanswerable(_: Submission) -> None:
        raise ZeroDivisionError

    with spool(tmp_path) as opened:
        good = Submission(who, digest(data), data)
        calls = (
            opened.store(broken, str, SIZE),
            opened.store(lambda: good, unanswerable, SIZE),
            opened.store(lambda: good, lambda stored: stored.credential, SIZE),
        )
        first, second, third = await asyncio.gather(*calls, return_exceptions=True)
        assert isinstance(first, KeyError)
        assert isinstance(second, ZeroDivisionError)
        assert third == who
        assert opened.accepted_count == 1


async def test_what_a_cancelled_caller_handed_in_is_decided_before_it_leaves(
    tmp_path: Path,
) -> None:
    who, data, may_go = os.urandom(32).hex(), envelope(), threading.Event()

    def slow() -> Submission:
        may_go.wait()
        return Submission(who, digest(data), data)

    with spool(tmp_path) as opened:
        call = asyncio.ensure_future(finish_if_cancelled(opened.store(slow, str, SIZE)))
        await asyncio.sleep(0)
        call.cancel()
        done, _ = await asyncio.wait({call}, timeout=0)
        assert not done
        may_go.set()
        await asyncio.wait({call})
        assert call.cancelled()
        assert await opened.find(who) == digest(data)


async def test_a_refused_submission_is_answered_only_if_it_was_accepted_before(
    tmp_path: Path,
) -> None:
    who, data, late = os.urandom(32).hex(), envelope(), SubmissionClosedError("late")
    with spool(tmp_path) as opened:
        await append(opened, who, data)
        again = Submission(who, digest(data), b"", refusal=late)
        assert await opened.store(lambda: again, lambda stored: stored.digest, 0) == digest(data)
        with pytest.raises(DifferentSubmissionError):
            await opened.store(lambda: Submission(who, "other", b"", refusal=late), str, 0)
        with pytest.raises(SubmissionClosedError, match="late"):
            await opened.store(
                lambda: Submission(os.urandom(32).hex(), "other", b"", refusal=late), str, 0
            )
        assert opened.accepted_count == 1
