"""MQTT 3.1.1 for announcements: aiomqtt behind a `BrokerGuard`. docs/protocol.md, "Announcements".

A connection ends without DISCONNECT, so that the broker publishes the last will also when a node
stops in good order.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import AsyncIterator, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import aiomqtt

from shuffledp_core.errors import BrokerError
from shuffledp_core.runtime.config import BrokerConfig, broker_password
from shuffledp_core.transport import broker_guard
from shuffledp_core.transport.broker_guard import BrokerGuard, run_guard

KEEPALIVE_SECONDS: Final = 60
"""Longest silence of a publisher's connection. A listener's is short, and sends no PINGREQ."""

_LIBRARY_LOG: Final = logging.getLogger("shuffledp_core.transport.mqtt.library")
_LIBRARY_LOG.setLevel(logging.CRITICAL + 1)
"""The library's own log is silenced: `BrokerError` carries the reason, and its caller limits how
often it is logged."""

_ResultT = TypeVar("_ResultT")


@dataclass(frozen=True)
class Will:
    """Last will: the payload that the broker retains on `topic` when it loses the connection."""

    topic: str
    payload: bytes

    def to_library(self) -> aiomqtt.Will:
        """Convert to the library's type."""
        return aiomqtt.Will(self.topic, self.payload, qos=1, retain=True)


@contextlib.asynccontextmanager
async def connect(
    broker: BrokerConfig, *, will: Will | None = None, pattern: str | None = None
) -> AsyncIterator[BrokerConnection]:
    """A connection that the broker has accepted: fresh client identifier, clean session.

    Args:
        broker: address of the broker.
        will: the last will of a connection that publishes.
        pattern: the topics that `BrokerConnection.subscribe` subscribes to; None for a publisher.

    Raises:
        BrokerError: the broker is away, refuses, or breaks its protocol.
    """
    async with contextlib.AsyncExitStack() as stack:
        with _broker_at_fault(broker):
            guard = await stack.enter_async_context(run_guard(broker, pattern))
        client = aiomqtt.Client(
            guard.path,
            transport="unix",
            username=broker.username,
            password=broker_password() if broker.username else None,
            # Random: of two connections with one identifier a broker drops the older, so others
            # must not know ours.
            identifier=secrets.token_hex(8),
            clean_session=True,
            will=None if will is None else will.to_library(),
            keepalive=KEEPALIVE_SECONDS if pattern is None else 0,
            timeout=broker_guard.CONNECT_SECONDS,
            logger=_LIBRARY_LOG,
        )
        # Cancelling the library while it opens would leave its socket behind; the guard makes it
        # end soon.
        await guard.request.acquire()
        opening = asyncio.ensure_future(client.__aenter__())
        opening.add_done_callback(lambda _: guard.request.release())
        try:
            with _broker_at_fault(broker, guard):
                await asyncio.shield(opening)
            yield BrokerConnection(broker, client, guard, pattern)
        finally:
            guard.stop()
            await asyncio.shield(_until_closed(client, opening))


async def _until_closed(client: aiomqtt.Client, opening: asyncio.Future[aiomqtt.Client]) -> None:
    """Wait until the library has noticed the end of its connection and closed its socket."""
    await asyncio.wait({opening})
    if opening.exception() is None:
        with contextlib.suppress(aiomqtt.MqttError):
            async for _ in client.messages:
                pass


class BrokerConnection:
    """One connection to a broker. One call at a time; after a `BrokerError` it is unusable."""

    def __init__(
        self,
        broker: BrokerConfig,
        client: aiomqtt.Client,
        guard: BrokerGuard,
        pattern: str | None,
    ) -> None:
        self._broker = broker
        self._client = client
        self._guard = guard
        self._pattern = pattern

    async def publish(self, topic: str, payload: bytes) -> None:
        """Publish a retained document at QoS 1; return when the broker has acknowledged it."""
        seconds = broker_guard.ANSWER_SECONDS
        publishing = self._client.publish(topic, payload, qos=1, retain=True, timeout=seconds)
        await self._while_connected(publishing)

    async def wait_for(self, event: asyncio.Event) -> None:
        """Wait for an event, while the library sends PINGREQ and requires PINGRESP."""
        await self._while_connected(event.wait())

    async def subscribe(self) -> AsyncIterator[bytes]:
        """Subscribe at QoS 0 to the connection's pattern. Yields payloads, retained ones first."""
        if self._pattern is None:
            raise ValueError("the connection to the broker has no pattern to subscribe to")
        seconds = broker_guard.ANSWER_SECONDS
        await self._while_connected(self._client.subscribe(self._pattern, qos=0, timeout=seconds))
        return self._payloads()

    async def _payloads(self) -> AsyncIterator[bytes]:
        with _broker_at_fault(self._broker, self._guard):
            async for message in self._client.messages:
                self._guard.release_document()
                yield message.payload

    async def _while_connected(self, work: Coroutine[Any, Any, _ResultT]) -> _ResultT:
        """Await the library's work, but fail as soon as the connection ends."""
        ended = self._guard.ended
        with _broker_at_fault(self._broker, self._guard):
            async with self._guard.request:
                if ended.done():
                    work.close()
                    raise ConnectionError("the connection to the broker has ended")
                task = asyncio.ensure_future(work)
                try:
                    await asyncio.wait({task, ended}, return_when=asyncio.FIRST_COMPLETED)
                    if not task.done():
                        raise ConnectionError("the connection to the broker has ended")
                    return task.result()
                finally:
                    task.cancel()
                    await asyncio.wait({task})


@contextlib.contextmanager
def _broker_at_fault(broker: BrokerConfig, guard: BrokerGuard | None = None) -> Iterator[None]:
    """Turn errors of sockets, TLS, names, time limits and the library into `BrokerError`."""
    try:
        yield
    except (OSError, EOFError, UnicodeError, aiomqtt.MqttError) as error:
        cause = error if guard is None or guard.fault is None else guard.fault
        where = f"the broker at {broker.host}:{broker.port}"
        if isinstance(cause, TimeoutError):
            raise BrokerError(f"{where} does not answer") from error
        if isinstance(cause, EOFError):
            raise BrokerError(f"{where} closed the connection") from error
        raise BrokerError(f"{where} cannot be used: {cause}") from error
