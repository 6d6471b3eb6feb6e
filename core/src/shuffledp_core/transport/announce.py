"""Announcements over MQTT: retained documents, node status with a last will. docs/protocol.md, "Announcements".

The broker is untrusted: what it carries is verified by whoever reads it, and when it is away publishers keep the
newest document per topic and try again; nobody waits for it.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import aiomqtt
import structlog

from shuffledp_core.config import BrokerConfig, broker_password

RETRY_SECONDS: Final = 1.0
QOS: Final = 1

ONLINE: Final = b"online"
CORRUPT: Final = b"online, corrupt"
"""The status of a node that writes down all it knows."""
OFFLINE: Final = b"offline"


def manifest_topic(deployment: str, round_id: str) -> str:
    """Where a round's announcement is retained; "+" as round_id subscribes to all."""
    return f"shuffledp/v1/{deployment}/rounds/{round_id}/manifest"


def result_topic(deployment: str, round_id: str) -> str:
    """Where a round's signed result is retained."""
    return f"shuffledp/v1/{deployment}/rounds/{round_id}/result"


def status_topic(deployment: str, node: str) -> str:
    """Where a node's status is retained; its last will says "offline"."""
    return f"shuffledp/v1/{deployment}/nodes/{node}/status"


def _client(broker: BrokerConfig, will: aiomqtt.Will | None = None) -> aiomqtt.Client:
    return aiomqtt.Client(
        broker.host,
        broker.port,
        username=broker.username,
        password=broker_password() if broker.username else None,
        will=will,
        tls_context=ssl.create_default_context() if broker.tls else None,
    )


class Announcer:
    """Publishes retained documents, newest per topic, for as long as `run` runs. Never blocks its callers."""

    def __init__(self, broker: BrokerConfig, will: aiomqtt.Will | None = None, status: bytes = ONLINE) -> None:
        self._broker = broker
        self._will = will
        self._status = status
        self._waiting: dict[str, bytes] = {}
        self._changed = asyncio.Event()
        self._log = structlog.get_logger()

    @classmethod
    def with_status(cls, broker: BrokerConfig, topic: str, status: bytes = ONLINE) -> Announcer:
        """An announcer whose owner is "online" (or `status`) on `topic` until the broker loses sight of it."""
        announcer = cls(broker, aiomqtt.Will(topic, OFFLINE, QOS, retain=True), status)
        announcer.publish(topic, status)
        return announcer

    def publish(self, topic: str, payload: bytes) -> None:
        """Queues a retained document; an older one waiting for the same topic is replaced."""
        self._waiting[topic] = payload
        self._changed.set()

    async def run(self) -> None:
        """Delivers until cancelled, reconnecting for ever."""
        while True:
            try:
                async with _client(self._broker, self._will) as client:
                    if self._will is not None:
                        self.publish(self._will.topic, self._status)
                    await self._deliver(client)
            except aiomqtt.MqttError as error:
                self._log.warning("broker away", host=self._broker.host, port=self._broker.port, error=str(error))
                await asyncio.sleep(RETRY_SECONDS)

    async def _deliver(self, client: aiomqtt.Client) -> None:
        lost = asyncio.ensure_future(_until_lost(client))
        try:
            while True:
                await self._publish_waiting(client)
                changed = asyncio.ensure_future(self._changed.wait())
                await asyncio.wait({changed, lost}, return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
                if lost.done():
                    lost.result()
        finally:
            lost.cancel()

    async def _publish_waiting(self, client: aiomqtt.Client) -> None:
        self._changed.clear()
        while self._waiting:
            topic, payload = next(iter(self._waiting.items()))
            await client.publish(topic, payload, qos=QOS, retain=True)
            if self._waiting.get(topic) == payload:
                del self._waiting[topic]


async def _until_lost(client: aiomqtt.Client) -> None:
    async for _ in client.messages:  # nothing is subscribed: the loop only ends when the connection does
        pass


@asynccontextmanager
async def listening(broker: BrokerConfig, topic: str) -> AsyncIterator[AsyncIterator[bytes]]:
    """The payloads on `topic`, retained ones first. Raises `aiomqtt.MqttError` when the broker goes away."""
    async with _client(broker) as client:
        await client.subscribe(topic, qos=QOS)

        async def payloads() -> AsyncIterator[bytes]:
            async for message in client.messages:
                if isinstance(message.payload, bytes | bytearray):
                    yield bytes(message.payload)

        yield payloads()
