"""Announcements over MQTT: retained documents, and node status with a last will.

docs/protocol.md, "Announcements".

The broker is untrusted: every reader verifies what it carries, and it can only delay. When it is
away or breaks its protocol, publishers keep the newest document per topic and try again, ever more
rarely; no caller waits for it. The cost of one connection is bounded in
`shuffledp_core.transport.broker_guard`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import structlog

from shuffledp_core.errors import BrokerError
from shuffledp_core.runtime.config import BrokerConfig
from shuffledp_core.transport.mqtt import BrokerConnection, Will, connect
from shuffledp_core.vocabulary import PROTOCOL

MAX_WAITING_BYTES: Final = 2**24
MAX_WAITING: Final = 1000
"""Documents that wait for a broker that is away; the oldest go first, since everyone may ask the
analyst.
"""

REMIND_SECONDS: Final = 600.0
"""Interval between two warnings about the broker."""

ONLINE: Final = b"online"
CORRUPT: Final = b"online, corrupt"
"""The status of a node that logs all it learns."""
OFFLINE: Final = b"offline"


@dataclass(frozen=True)
class Pauses:
    """Seconds between attempts to reach a broker: from `first`, doubling up to `longest`.

    They start again from `first` after a connection that lasted longer than `longest`, so that a
    broker which accepts and drops connections gains nothing.
    """

    first: float = 1.0
    longest: float = 60.0

    def next(self, pause: float, lasted: float) -> float:
        """Next pause in seconds, after one of `pause` (0: none) and a connection that `lasted`."""
        return self.first if not pause or lasted > self.longest else min(2 * pause, self.longest)


def manifest_topic(deployment: str, round_id: str) -> str:
    """Topic of a round's retained announcement; "+" as round_id subscribes to all."""
    return f"{PROTOCOL}/{deployment}/rounds/{round_id}/manifest"


def result_topic(deployment: str, round_id: str) -> str:
    """Topic of a round's retained, signed result."""
    return f"{PROTOCOL}/{deployment}/rounds/{round_id}/result"


def status_topic(deployment: str, node: str) -> str:
    """Topic of a node's retained status; its last will says "offline"."""
    return f"{PROTOCOL}/{deployment}/nodes/{node}/status"


class Announcer:
    """Publishes retained documents, newest per topic, for as long as `run` runs.

    Never blocks its callers.
    """

    def __init__(
        self,
        broker: BrokerConfig,
        status: tuple[str, bytes] | None = None,
        pauses: Pauses | None = None,
    ) -> None:
        self._broker = broker
        self._status = status
        self._pauses = pauses or Pauses()
        self._waiting: dict[str, bytes] = {}
        self._changed = asyncio.Event()
        self._log = structlog.get_logger(host=broker.host, port=broker.port)
        self._warned: float | None = None
        self._away = False

    @classmethod
    def with_status(
        cls, broker: BrokerConfig, topic: str, status: bytes = ONLINE, pauses: Pauses | None = None
    ) -> Announcer:
        """An announcer with a retained `status` on `topic`, which a last will replaces."""
        return cls(broker, (topic, status), pauses)

    def publish(self, topic: str, payload: bytes) -> None:
        """Queues a retained document; an older one waiting for the same topic is replaced."""
        # A dict keeps the place of a key that is set again: the newest document might then be
        # dropped as the oldest.
        self._waiting.pop(topic, None)
        self._waiting[topic] = payload
        while (
            len(self._waiting) > MAX_WAITING
            or sum(map(len, self._waiting.values())) > MAX_WAITING_BYTES
        ):
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            self._log.warning(
                "announcement dropped: too many are waiting for the broker", topic=oldest
            )
        self._changed.set()

    async def run(self) -> None:
        """Publish queued documents until cancelled, reconnecting after every failure.

        Nothing else ends it, whatever the broker does.
        """
        clock, pause = asyncio.get_running_loop().time, 0.0
        while True:
            began = clock()
            try:
                await self._session()
            except BrokerError as error:
                self._complain(str(error), clock())
            except Exception:  # noqa: BLE001 - what nobody foresaw must not end a node because of its broker
                self._log.exception("unexpected failure of the announcements")
            pause = self._pauses.next(pause, clock() - began)
            await asyncio.sleep(pause)

    def _complain(self, error: str, now: float) -> None:
        """Log a warning about an unreachable broker, the first time and then rarely.

        In between it logs debug lines.
        """
        self._away = True
        if self._warned is None or now - self._warned > REMIND_SECONDS:
            self._warned = now
            self._log.warning("broker unreachable; retrying with growing pauses", error=error)
        else:
            self._log.debug("broker unreachable", error=error)

    async def _session(self) -> None:
        will = None if self._status is None else Will(self._status[0], OFFLINE)
        async with connect(self._broker, will=will) as connection:
            if self._status is not None:
                # On every connection afresh: the broker has published the last will of the one
                # before.
                self.publish(*self._status)
            while True:
                await self._publish_waiting(connection)
                if self._away:
                    self._away = False
                    self._log.info("broker reachable again")
                await connection.wait_for(self._changed)

    async def _publish_waiting(self, connection: BrokerConnection) -> None:
        # Cleared before the queue is read: what is queued while this publishes sets it again, and
        # is not forgotten.
        self._changed.clear()
        while self._waiting:
            topic, payload = next(iter(self._waiting.items()))
            await connection.publish(topic, payload)
            if (
                self._waiting.get(topic) == payload
            ):  # a newer document may have come while this one was sent
                del self._waiting[topic]


@asynccontextmanager
async def listening(broker: BrokerConfig, topic: str) -> AsyncIterator[AsyncIterator[bytes]]:
    """Subscribe to `topic`: an iterator over payloads, retained ones first.

    Raises:
        BrokerError: whatever goes wrong with the broker, also while the payloads are read.
    """
    async with connect(broker, pattern=topic) as connection:
        yield await connection.subscribe()
