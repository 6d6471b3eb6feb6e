"""Figures of a load test. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from shuffledp_client.board import changed_messages
from shuffledp_client.verification import CheckedRound
from shuffledp_core.onion.geometry import Geometry
from shuffledp_sim.load.arrivals import Timeline
from shuffledp_sim.load.machine import Usage, machine
from shuffledp_sim.load.options import LoadOptions

ACCEPTED: Final = "accepted"
UNANSWERED: Final = "unanswered: "
"""Outcomes of one user, the second followed by the reason; every other one is the name of the error
that refused it.
"""

DRIVER: Final = "driver"
ENTRY: Final = "entry node"
"""Processes whose processor time is reported."""

MESSAGES_AT_ONCE: Final = 2**22
"""Number of messages looked up on the board at a time, which bounds the memory of the check."""


@dataclass(frozen=True)
class Spread:
    """Exact percentiles of a sample, in milliseconds: each is one of the observed values."""

    p50: float
    p90: float
    p99: float
    p99_9: float
    max: float

    @classmethod
    def of(cls, seconds: NDArray[np.float64]) -> Spread | None:
        """Percentiles of a sample in seconds, shape (n,); None for an empty one."""
        if not len(seconds):
            return None
        percentiles = np.quantile(seconds, (0.5, 0.9, 0.99, 0.999, 1.0), method="inverted_cdf")
        return cls(*(1000 * percentiles).tolist())


@dataclass(frozen=True)
class Calls:
    """Number of calls by outcome: each is accepted, refused, or unanswered.

    Attributes:
        of_users: calls of each user, at least 1, shape (users,).
        unanswered: calls without an answer, by status code.
    """

    of_users: NDArray[np.int64]
    unanswered: dict[str, int]


@dataclass(frozen=True)
class LoadMeasurements:
    """Measurements from the start until the last answer.

    Attributes:
        timeline: timeline of every user.
        calls: calls of every user.
        handshakes: seconds, shape (connections,).
        established: established connections, by the kernel's count.
        before: resources that driver and entry node had used when the arrivals began.
        after: resources used when the arrivals were over.
    """

    timeline: Timeline
    calls: Calls
    handshakes: NDArray[np.float64]
    established: int | None
    before: dict[str, Usage | None]
    after: dict[str, Usage | None]


@dataclass(frozen=True)
class Ending:
    """Outcome of the round: accepted users missing on the board, counted reports, and failure."""

    lost: int | None
    counted: int | None
    failure: str | None


@dataclass(frozen=True)
class LoadReport:
    """Report of one load test. Rates are in users per second; unknown figures are None.

    Attributes:
        offered: users who wanted to submit.
        accepted: users who hold a checked receipt.
        refused: users who were refused, by the name of the error.
        unanswered: users who got no answer, however often they called: the connection was lost, a
            deadline passed, or the server had too many waiting calls.
        unanswered_reasons: the same users, by the last gRPC status of each.
        calls: calls of all users; accepted + refused + unanswered calls.
        unanswered_calls: calls without an answer, by status code. Most users call again and are
            accepted.
        accepted_later: users among `accepted` who had to call more than once.
        lost: users with a receipt who miss a message on the published board; must be 0. None if the
            round failed, so that there is no board.
        counted: reports that the round counted.
        latency: time from an accepted user's intended start to its checked receipt, including all
            pauses between calls.
        lateness: lateness of the driver, for all users; included in `latency`.
        handshake: duration of a connection's handshake, before the arrivals began.
        rate: rate at which users were to start.
        started_rate: rate at which the driver really started users.
        accepted_rate: receipts a second, from the beginning of the arrivals to the last receipt.
        established: established connections, by the kernel's count.
        pre_sealed: always true: submissions are sealed before the arrivals begin.
        peak_bytes: largest memory of each process and its workers over the whole round.
        collecting_bytes: largest memory of the entry node until the last answer.
        cpu_seconds: CPU seconds of driver and entry node during the arrivals.
        seconds: duration of each stage of the test and of the round.
        failure: why the round ended without a board.
    """

    round_id: str
    mechanism: str
    messages_per_user: int
    envelope_bytes: int
    suite: str
    nodes: int
    arrivals: str
    connections: int
    established: int | None
    offered: int
    accepted: int
    refused: dict[str, int]
    unanswered: int
    unanswered_reasons: dict[str, int]
    calls: int
    unanswered_calls: dict[str, int]
    accepted_later: int
    lost: int | None
    counted: int | None
    latency: Spread | None
    lateness: Spread | None
    handshake: Spread | None
    rate: float
    started_rate: float
    accepted_rate: float
    peak_bytes: dict[str, int | None]
    collecting_bytes: int | None
    cpu_seconds: dict[str, float | None]
    seconds: dict[str, float]
    machine: str
    failure: str | None
    pre_sealed: bool = True

    @classmethod
    def of(
        cls,
        verified: CheckedRound,
        options: LoadOptions,
        collected: LoadMeasurements,
        ending: Ending,
        peaks: Mapping[str, Usage | None],
        seconds: dict[str, float],
    ) -> LoadReport:
        """Compute all figures of a test; `peaks` are by process, at the end of the round."""
        timeline, geometry, after = collected.timeline, verified.geometry, collected.after
        receipts = accepted_users(timeline)
        accepted, refused, unanswered = outcomes_of(timeline)
        return cls(
            round_id=verified.round_id,
            mechanism=verified.mechanism.kind,
            messages_per_user=geometry.messages_per_user,
            envelope_bytes=geometry.envelope_bytes,
            suite=geometry.suite,
            nodes=geometry.hops,
            arrivals=options.arrivals.value,
            connections=options.connections,
            established=collected.established,
            offered=options.users,
            accepted=accepted,
            refused=refused,
            unanswered=sum(unanswered.values()),
            unanswered_reasons=unanswered,
            calls=int(collected.calls.of_users.sum()),
            unanswered_calls=collected.calls.unanswered,
            accepted_later=int((collected.calls.of_users[receipts] > 1).sum()),
            lost=ending.lost,
            counted=ending.counted,
            latency=Spread.of(timeline.latency[receipts]),
            lateness=Spread.of(timeline.lateness),
            handshake=Spread.of(collected.handshakes),
            rate=options.rate,
            started_rate=rate_of(timeline.started),
            accepted_rate=rate_of(timeline.finished[receipts]),
            peak_bytes={
                name: None if peak is None else peak.peak_bytes for name, peak in peaks.items()
            },
            collecting_bytes=None if (entry := after[ENTRY]) is None else entry.peak_bytes,
            cpu_seconds={
                name: _used_seconds(collected.before[name], after[name]) for name in after
            },
            seconds=seconds,
            machine=machine(),
            failure=ending.failure,
        )

    def to_dict(self) -> dict[str, Any]:
        """The report as a dictionary, for JSON."""
        return asdict(self)


def _used_seconds(before: Usage | None, after: Usage | None) -> float | None:
    return None if before is None or after is None else after.cpu_seconds - before.cpu_seconds


def outcomes_of(timeline: Timeline) -> tuple[int, dict[str, int], dict[str, int]]:
    """Number of accepted users, and of refused and unanswered ones by reason."""
    counts = Counter(timeline.outcomes)
    accepted = counts.pop(ACCEPTED, 0)
    unanswered = {name: counts.pop(name) for name in list(counts) if name.startswith(UNANSWERED)}
    reasons = {name.removeprefix(UNANSWERED): count for name, count in unanswered.items()}
    return accepted, dict(counts.most_common()), reasons


def accepted_users(timeline: Timeline) -> NDArray[np.int64]:
    """Numbers of the users who hold a receipt, ascending."""
    return np.flatnonzero(np.array(timeline.outcomes) == ACCEPTED)


def rate_of(moments: NDArray[np.float64]) -> float:
    """Events per second from time 0 to the last event; 0 without events."""
    last = float(moments.max(initial=0.0))
    return len(moments) / last if last > 0 else 0.0


def count_lost(geometry: Geometry, board: bytes, submissions: Iterable[bytes]) -> int:
    """Number of submissions that are not on the board with every message, once and unchanged.

    Args:
        geometry: geometry of the round.
        board: all published messages, packed, checked against the signed digest.
        submissions: `PreparedSubmission.messages` of every user with a receipt; read in pieces.
    """
    rest, lost = iter(submissions), 0
    at_once = max(1, MESSAGES_AT_ONCE // geometry.messages_per_user)
    while piece := list(islice(rest, at_once)):
        changed = changed_messages(geometry, board, b"".join(piece))
        lost += int(changed.reshape(len(piece), geometry.messages_per_user).any(axis=1).sum())
    return lost
