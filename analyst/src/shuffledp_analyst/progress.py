"""Progress of a round: the newest event of every stage, then every change until the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Final

ACCEPTING: Final = "accepting"
MIXING: Final = "mixing"
RELAYING: Final = "relaying"
DECODING: Final = "decoding"
CERTIFYING: Final = "certifying"
ENDED: Final = "ended"

OPEN: Final = "open"
DONE: Final = "done"
FAILED: Final = "failed"


@dataclass(frozen=True)
class Event:
    """Progress of one stage at one party; `seconds` is 0 until the stage ends there.

    Only "ended" has a result.
    """

    stage: str
    node: str = ""
    done: int = 0
    total: int = 0
    seconds: float = 0.0
    result: bytes = b""


@dataclass(frozen=True)
class NodeStatus:
    """A node's status of a round.

    The phase is OPEN, MIXING, RELAYING, DONE, FAILED, or "" for any other.

    `done` of `total` records have passed the present phase; `seconds` are the durations of finished
    phases. With DONE comes the signed header of the relayed batch, not verified yet. In a verified
    round, `accused` records failed to decrypt at the node, which waits until they are traced.
    """

    phase: str
    accepted: int = 0
    done: int = 0
    total: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)
    error: str = ""
    reason: str = ""
    header: bytes = b""
    accused: int = 0

    @property
    def last(self) -> bool:
        """True if the round has ended at this node."""
        return self.phase in {DONE, FAILED}


class Progress:
    """The events of one round. A slow follower misses intermediate counts, but no stage."""

    def __init__(self) -> None:
        self._newest: dict[tuple[str, str], tuple[int, Event]] = {}
        self._version = 0
        self._changed = asyncio.Event()

    def report(self, event: Event) -> None:
        """Store the newest event of a stage and party, and wake the followers if it changed."""
        key = (event.stage, event.node)
        newest = self._newest.get(key)
        if newest is not None and newest[1] == event:
            return
        self._version += 1
        self._newest[key] = (self._version, event)
        self._changed.set()
        self._changed = asyncio.Event()

    def newest(self, stage: str, node: str = "") -> Event:
        """The newest event of a stage at a party; an empty event before any."""
        return self._newest.get((stage, node), (0, Event(stage, node)))[1]

    def events(self) -> list[Event]:
        """The newest event of every stage and party. Safe from any thread."""
        return [event for _, event in list(self._newest.values())]

    def durations(self) -> dict[str, float]:
        """Seconds that every finished stage took, to 3 decimals, by "stage" or "stage node"."""
        return {
            f"{event.stage} {event.node}".rstrip(): round(event.seconds, 3)
            for event in self.events()
            if event.seconds > 0
        }

    def report_work(self, node: str, status: NodeStatus) -> None:
        """Report the progress of mixing and relaying at one node, from its status."""
        for stage in (MIXING, RELAYING):
            seconds = status.seconds.get(stage, 0.0)
            if stage == status.phase:
                self.report(Event(stage, node, status.done, status.total, seconds))
            elif seconds > 0:
                total = self.newest(stage, node).total
                self.report(Event(stage, node, total, total, seconds))

    async def follow(self) -> AsyncIterator[Event]:
        """Yield the newest events in order of change, then every change; stops after "ended"."""
        latest = 0
        while True:
            # Taken before the events are read: what is reported while one is passed on wakes the
            # wait below.
            changed = self._changed
            for version, event in sorted(self._newest.values(), key=lambda item: item[0]):
                if version > latest:
                    latest = version
                    yield event
                    if event.stage == ENDED:
                        return
            await changed.wait()
