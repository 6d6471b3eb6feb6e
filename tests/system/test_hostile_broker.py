"""A broker can only delay: a live attack on what publishes (announcer, node) and on what listens
(device, client)."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path

import hostile_broker as tricks
import msgspec
import pytest
from hostile_broker import (
    DOCUMENT,
    DOCUMENT_TOPIC,
    STATUS,
    HostileBroker,
    Line,
    Trick,
    document,
    peak,
    subscribed,
)
from shuffler_world import World

from shuffledp_client.transport import listen_for_announcements
from shuffledp_core.errors import BrokerError
from shuffledp_core.runtime.config import BrokerConfig
from shuffledp_core.transport import announce, broker_guard
from shuffledp_core.transport.announce import Announcer, Pauses, listening, manifest_topic

GROWTH = 12 * DOCUMENT
"""Bytes that a broker may make a publisher's memory grow by.

A publisher holds the document in a fixed number of copies: the library's packet, what is on its way
to the guard, and the packet of a session that has ended and is not collected yet. Six were measured
on an idle machine, seven on a busy one. One collected packet of 256 MiB takes over 32.
"""

TAKEN = 16 * 2**20
"""Bytes of one connection that a broker gets rid of: what is read, and the buffers of two sockets.
"""

AGAINST_PUBLISHERS: tuple[Trick, ...] = (
    tricks.silence,
    tricks.refusal,
    tricks.nonsense,
    *[tricks.hang_up] * 5,
    tricks.half_a_packet,
    tricks.withheld_acknowledgement,
    tricks.a_wrong_topic_to_whoever_gave_up_waiting,
    tricks.a_wrong_topic_after_the_acknowledgement,
    tricks.wrong_numbers,
    tricks.one_endless_packet,
    tricks.retained_documents_without_end,
    tricks.documents_that_are_never_released,
    tricks.answers_that_nobody_asked_for,
)


@contextlib.asynccontextmanager
async def victim(
    broker: HostileBroker,
) -> AsyncIterator[tuple[asyncio.subprocess.Process, asyncio.Future[bytes]]]:
    """The real announcer as a process of its own, and its log once it has ended."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        tricks.__file__,
        str(broker.port),
        "announce",
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    # Read as it is written: a process blocks on its next line once the pipe is full.
    log = asyncio.ensure_future(process.stderr.read())
    try:
        yield process, log
    finally:
        if process.returncode is None:
            process.kill()
        await asyncio.gather(process.wait(), log)


async def alive_until(
    event: Awaitable[object], broker: HostileBroker, process: asyncio.subprocess.Process
) -> None:
    """Fails when the process ends before."""
    happened, ended = asyncio.ensure_future(event), asyncio.ensure_future(process.wait())
    await asyncio.wait({happened, ended}, return_when=asyncio.FIRST_COMPLETED)
    ended.cancel()
    assert happened.done(), (
        f"the broker ended it with code {process.returncode}; done so far: {broker.sent}"
    )


async def test_an_announcer_outlives_every_trick_in_bounded_memory_and_publishes_afterwards() -> (
    None
):
    async with HostileBroker(AGAINST_PUBLISHERS) as broker, victim(broker) as (process, log):
        await alive_until(broker.connected.wait(), broker, process)
        before = peak(process.pid)
        await alive_until(broker.until_published(STATUS), broker, process)
        assert broker.published[STATUS] == b"online"
        # One for each trick; on a busy machine an honest connection may take longer than its limit.
        assert broker.connections > len(AGAINST_PUBLISHERS)
        assert peak(process.pid) - before < GROWTH
        assert max(sent for _, sent in broker.sent) < TAKEN
        process.kill()
        said = (await log).decode()
    assert "Traceback" not in said
    assert said.count('"warning"') == 1, "one warning, however often the broker is away"


async def test_a_node_outlives_its_broker_and_says_that_it_is_online_afterwards(
    world: World,
) -> None:
    script = (tricks.one_endless_packet, tricks.a_wrong_topic_after_the_acknowledgement)
    async with HostileBroker(script) as broker:
        config = f'{{ host = "127.0.0.1", port = {broker.port} }}'
        process = await world.start_process("node-1", broker=config)
        before = peak(process.pid)
        await alive_until(broker.until_published(STATUS), broker, process)
        assert broker.published == {STATUS: b"online"}
        assert peak(process.pid) - before < GROWTH


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = World(tmp_path, nodes=1)
    yield world
    await world.close()


# What a broker does to whoever listens.


async def no_confirmation(line: Line) -> None:
    await line.welcome()
    await line.gone()


async def nothing_at_all(line: Line) -> None:
    await subscribed(line)
    await line.gone()


async def drops_of_a_packet(line: Line) -> None:
    await subscribed(line)
    await line.say(b"\x31\xff\x7f")
    while True:
        await line.say(b"\0")
        await asyncio.sleep(0.01)


def without_end(piece: bytes) -> Trick:
    async def flood(line: Line) -> None:
        await subscribed(line)
        await line.flood(piece)

    return flood


AGAINST_LISTENERS: dict[str, Trick] = {
    "silence": tricks.silence,
    "refusal": tricks.refusal,
    "no confirmation": no_confirmation,
    "nothing": nothing_at_all,
    "drops": drops_of_a_packet,
    "small documents": without_end(document(DOCUMENT_TOPIC, b"{}") * 1000),
    "large documents": without_end(document(DOCUMENT_TOPIC, bytes(2**20 - 100))),
    "foreign documents": without_end(document(b"a/topic", bytes(2**15)) * 10),
    "wrong topics": without_end(document(b"#", b"x") * 1000),
    "torn documents": without_end(b"\x31\x02\xff\xff" * 1000),
    "documents to acknowledge": without_end(document(DOCUMENT_TOPIC, b"{}", flags=3) * 1000),
    "documents to release": without_end(document(DOCUMENT_TOPIC, b"{}", flags=5) * 1000),
    "an endless packet": without_end(b"\x31\xff\xff\xff\x7f" + bytes(2**16)),
    "an endless length": without_end(b"\x31" + b"\xff" * 2**16),
    "answers": without_end(b"\x40\x02\x00\x01" * 1000),
}


@pytest.mark.parametrize("trick", AGAINST_LISTENERS.values(), ids=AGAINST_LISTENERS)
async def test_a_device_waits_for_announcements_no_longer_than_it_was_told(trick: Trick) -> None:
    """Each is consumed slowly, as by a device that verifies it.

    The limit of four minutes is for a busy machine.
    """
    async with HostileBroker([trick]) as broker, asyncio.timeout(240):
        began, found = time.monotonic(), 0
        async for payload in listen_for_announcements(broker.config, "demo", None, 0.5):
            assert len(payload) < broker_guard.MAX_PUBLISH_BYTES
            found += 1
        waited = time.monotonic() - began
    assert found <= broker_guard.PACKETS_PER_SECOND * (waited + 1) + 1
    assert sum(sent for _, sent in broker.sent) < 2**28


async def drops_of_a_handshake(line: Line) -> None:
    """One TLS record of 16 KiB, byte after byte: each comes within the time-out of a single
    read."""
    await line.say(b"\x16\x03\x03\x40\x00")
    while True:
        await line.say(b"\2")
        await asyncio.sleep(0.05)


async def test_a_device_is_done_with_a_broker_whose_handshake_never_ends() -> None:
    """Done means that the device's process could end, too: no thread is left that waits for the
    broker."""
    async with HostileBroker([drops_of_a_handshake]) as broker, asyncio.timeout(240):
        secret = msgspec.structs.replace(broker.config, tls=True)
        assert [found async for found in listen_for_announcements(secret, "demo", None, 0.5)] == []
        assert not [
            thread.name for thread in threading.enumerate() if thread.name.startswith("asyncio_")
        ]


@pytest.mark.parametrize("name", sorted(AGAINST_LISTENERS.keys() - {"nothing"}))
async def test_listening_raises_one_typed_error_whatever_the_broker_does(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_guard, "CONNECT_SECONDS", 0.3)
    monkeypatch.setattr(broker_guard, "ANSWER_SECONDS", 0.3)
    monkeypatch.setattr(broker_guard, "PACKETS_PER_SECOND", 1e6)
    monkeypatch.setattr(tricks, "FLOOD_BYTES", 2**18)
    async with HostileBroker([AGAINST_LISTENERS[name]]) as broker:
        with pytest.raises(BrokerError):
            await everything(broker.config, manifest_topic("demo", "+"))


async def everything(broker: BrokerConfig, topic: str) -> None:
    async with listening(broker, topic) as payloads:
        async for _ in payloads:
            pass


# What the broker cannot make grow or go fast.


def test_pauses_double_up_to_a_minute_and_begin_anew_only_after_a_connection_that_lasted() -> None:
    pauses, pause, seen = Pauses(), 0.0, []
    for lasted in [0.0] * 8 + [59.0, 61.0, 0.0]:
        pause = pauses.next(pause, lasted)
        seen.append(pause)
    assert seen == [1, 2, 4, 8, 16, 32, 60, 60, 60, 1, 2]


async def test_documents_that_wait_for_a_broker_are_bounded_and_the_newest_stay() -> None:
    announcer = Announcer(BrokerConfig(host="127.0.0.1", port=1))
    for number in range(3 * announce.MAX_WAITING):
        announcer.publish(f"topic/{number}", b"document")
    for number in range(40):
        announcer.publish(f"large/{number}", bytes(2**20))
    announcer.publish("topic/last", b"document")
    async with HostileBroker([]) as broker:
        announcer._broker = broker.config
        task = asyncio.ensure_future(announcer.run())
        await broker.until_published("topic/last")
        task.cancel()
    assert sum(map(len, broker.published.values())) <= announce.MAX_WAITING_BYTES
    assert {f"large/{number}" for number in range(30, 40)} < set(broker.published)
