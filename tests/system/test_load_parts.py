"""The parts of the load test without a system: arrivals in virtual time, exact figures, what is
lost. A second."""

import asyncio
import selectors
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from shuffledp_client.transport import Backoff
from shuffledp_core.errors import SubmissionClosedError, UnreachableError
from shuffledp_core.onion.geometry import TAG_BYTES, Geometry
from shuffledp_sim.load.arrivals import Timeline, arrival_times, drive
from shuffledp_sim.load.connections import EntryConnections
from shuffledp_sim.load.corpus import Corpus
from shuffledp_sim.load.figures import (
    ACCEPTED,
    UNANSWERED,
    Spread,
    accepted_users,
    count_lost,
    outcomes_of,
)
from shuffledp_sim.load.process import ATTEMPTS, ArrivalProcess
from shuffledp_sim.load.run import Users

GEOMETRY = Geometry(suite="sealed-box", hops=3, messages_per_user=3, symbol_bytes=1)


class VirtualTime(asyncio.SelectorEventLoop):
    """An event loop whose clock moves on by itself when everybody sleeps, and never otherwise."""

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__(_Leap(self))

    def time(self) -> float:
        return self._now

    def leap(self, seconds: float) -> None:
        self._now += seconds


class _Leap(selectors.DefaultSelector):
    def __init__(self, loop: VirtualTime) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout:
            self._loop.leap(timeout)
        return super().select(0)


def in_virtual_time(intended: list[float], send: Callable[[int], Awaitable[str]]) -> Timeline:
    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        return runner.run(drive(np.array(intended), send))


def test_a_stalled_server_makes_latencies_grow_from_the_intended_start() -> None:
    async def one_at_a_time(_: int) -> str:
        async with server:
            if asyncio.get_running_loop().time() < 10:  # stalls once, for the first ten seconds
                await asyncio.sleep(10 - asyncio.get_running_loop().time())
            return ACCEPTED

    server = asyncio.Lock()
    timeline = in_virtual_time([1.0, 2.0, 5.0, 9.0, 12.0], one_at_a_time)
    assert timeline.started == pytest.approx([1, 2, 5, 9, 12])  # nobody waited for anybody
    assert timeline.latency == pytest.approx([9, 8, 5, 1, 0])


def test_a_slow_server_stops_no_arrival() -> None:
    under_way = most = 0

    async def slow(_: int) -> str:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(100)
        under_way -= 1
        return ACCEPTED

    timeline = in_virtual_time([float(second) for second in range(50)], slow)
    assert most == 50
    assert timeline.latency == pytest.approx([100.0] * 50)


def test_a_driver_that_is_late_says_so_and_counts_it_as_latency() -> None:
    async def hogs_the_driver(user: int) -> str:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTime)
        if user == 0:
            loop.leap(4.0)  # computes for four seconds without giving way
        return ACCEPTED

    timeline = in_virtual_time([1.0, 2.0, 8.0], hogs_the_driver)
    assert timeline.lateness == pytest.approx([0, 3, 0])
    assert timeline.latency == pytest.approx([4, 3, 0])


def test_outcomes_are_counted_by_what_users_were_told() -> None:
    told = [
        ACCEPTED,
        "SubmissionClosedError",
        f"{UNANSWERED}socket closed",
        ACCEPTED,
        "SubmissionClosedError",
    ]

    async def tell(user: int) -> str:
        return told[user]

    timeline = in_virtual_time([0.1 * user for user in range(5)], tell)
    assert outcomes_of(timeline) == (2, {"SubmissionClosedError": 2}, {"socket closed": 1})
    assert accepted_users(timeline).tolist() == [0, 3]


def test_a_user_without_an_outcome_ends_the_test_and_is_in_no_column() -> None:
    async def cancelled_from_inside(user: int) -> str:
        if user == 1:
            raise asyncio.CancelledError
        return ACCEPTED

    with pytest.raises(RuntimeError, match="1 users have no outcome"):
        in_virtual_time([0.1, 0.2, 0.3], cancelled_from_inside)


class ScriptedEntry:
    """An entry node that gives each user the answers of its script, one a call.

    An exception is raised.
    """

    def __init__(self, script: dict[str, list[Exception | None]]) -> None:
        self._script = script

    async def submit(self, user: str) -> None:
        await asyncio.sleep(1)
        answer = self._script[user].pop(0)
        if answer is not None:
            raise answer


def played(script: dict[str, list[Exception | None]], attempts: int) -> tuple[Timeline, Users]:
    """One user per script, all at the same moment; a submission is the user's name."""
    connections = cast("EntryConnections", SimpleNamespace(entries=(ScriptedEntry(script),)))
    users = Users(
        connections, cast("Corpus", list(script)), len(script), Backoff(attempts, first=2.0)
    )
    return in_virtual_time([1.0] * len(script), users.submit), users


def test_a_user_asks_again_while_nobody_answers_and_every_call_is_counted_once() -> None:
    script: dict[str, list[Exception | None]] = {
        "at once": [None],
        "later": [UnreachableError("full"), UnreachableError("gone"), None],
        "never": [UnreachableError("full"), UnreachableError("full"), UnreachableError("gone")],
        "refused": [UnreachableError("full"), SubmissionClosedError("over")],
    }
    timeline, users = played(script, attempts=3)
    accepted, refused, unanswered = outcomes_of(timeline)
    assert (accepted, refused, unanswered) == (2, {"SubmissionClosedError": 1}, {"gone": 1})
    assert users.calls.tolist() == [1, 3, 3, 2]
    assert users.unanswered == {"full": 4, "gone": 2}
    assert users.calls.sum() == accepted + sum(refused.values()) + users.unanswered.total()


def test_the_pauses_of_a_user_that_asks_again_are_latency() -> None:
    timeline, _ = played({"later": [UnreachableError("full"), None]}, attempts=2)
    assert 2 * 1 <= timeline.latency[0] < 2 * 1 + 2  # two calls of a second, a pause of up to 2 s


def test_a_user_that_is_told_to_ask_once_does_not_ask_again() -> None:
    timeline, users = played({"never": [UnreachableError("full"), None]}, attempts=1)
    assert outcomes_of(timeline) == (0, {}, {"full": 1})
    assert users.calls.tolist() == [1]


def test_a_user_asks_as_often_as_a_real_client() -> None:
    assert Backoff().attempts == ATTEMPTS


def test_uniform_arrivals_keep_their_distance() -> None:
    times = arrival_times(ArrivalProcess.UNIFORM, 4.0, 8, np.random.default_rng(1))
    assert times == pytest.approx(0.25 * np.arange(1, 9))


def test_poisson_arrivals_have_the_rate_and_the_spread_of_a_poisson_process() -> None:
    """Mean and standard deviation of 40,000 gaps.

    8 standard errors on a fixed seed: it cannot flake.
    """
    gaps = np.diff(arrival_times(ArrivalProcess.POISSON, 50.0, 40_001, np.random.default_rng(7)))
    error = 1 / (50 * np.sqrt(len(gaps)))
    assert gaps.mean() == pytest.approx(1 / 50, abs=8 * error)
    assert gaps.std() == pytest.approx(1 / 50, abs=8 * np.sqrt(2) * error)
    assert (gaps >= 0).all()


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan")])
def test_a_rate_that_is_none_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        arrival_times(ArrivalProcess.UNIFORM, rate, 3, np.random.default_rng(1))


def test_percentiles_are_observed_values_in_milliseconds() -> None:
    spread = Spread.of(np.arange(1, 1001) / 1000)
    assert spread == Spread(p50=500.0, p90=900.0, p99=990.0, p99_9=999.0, max=1000.0)
    assert Spread.of(np.empty(0)) is None


def users_on_a_board(users: int) -> tuple[list[bytes], list[bytes]]:
    """What each user sent, and the board of all of them in another order."""
    random = np.random.default_rng(3)
    width = GEOMETRY.plain_bytes
    assert width == 1 + TAG_BYTES
    sent = [bytes(random.bytes(width * GEOMETRY.messages_per_user)) for _ in range(users)]
    whole = b"".join(sent)
    board = [whole[start : start + width] for start in range(0, len(whole), width)]
    random.shuffle(board)
    return sent, board


def test_nothing_is_lost_when_every_message_is_on_the_board() -> None:
    sent, board = users_on_a_board(20)
    assert count_lost(GEOMETRY, b"".join(board), sent) == 0


def test_a_user_is_lost_whose_message_is_missing_from_the_board() -> None:
    sent, board = users_on_a_board(20)
    gone = [sent[4][:17], sent[11][17:34], sent[11][34:]]  # of two users, one twice
    assert count_lost(GEOMETRY, b"".join(row for row in board if row not in gone), sent) == 2


def test_a_user_is_lost_whose_message_was_changed_on_the_board(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent, board = users_on_a_board(20)
    board[7] = bytes([board[7][0] ^ 1]) + board[7][1:]
    assert count_lost(GEOMETRY, b"".join(board), sent) == 1
    monkeypatch.setattr(
        "shuffledp_sim.load.figures.MESSAGES_AT_ONCE", 10
    )  # in pieces it is the same
    assert count_lost(GEOMETRY, b"".join(board), sent) == 1
