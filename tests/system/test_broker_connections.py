"""The MQTT connection with real brokers and TLS: what it needs of memory, and that it leaves
nothing behind."""

from __future__ import annotations

import asyncio
import datetime as dt
import gc
import os
import shutil
import socket
import ssl
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiomqtt
import hostile_broker as tricks
import pytest
from hostile_broker import DOCUMENT_TOPIC, STATUS, HostileBroker, Line, Trick, document, subscribed

from shuffledp_core.errors import BrokerError
from shuffledp_core.runtime.config import BrokerConfig
from shuffledp_core.transport import broker_guard
from shuffledp_core.transport.announce import Announcer, Pauses, listening
from shuffledp_core.transport.mqtt import connect
from shuffledp_ops.keys.authority import Authority
from shuffledp_sim.system.ports import Ports

LISTENER_GROWTH = 24 * 2**20
"""Bytes that a broker may make a listening process larger by, at its largest."""


# Memory.


async def a_packet_of_200_mib(line: Line) -> None:
    await subscribed(line)
    await line.say(b"\x31\x80\x80\x80\x64")
    await line.flood(bytes(2**16), 200 * 2**20)


def flood_of(piece: bytes) -> Trick:
    async def flood(line: Line) -> None:
        await subscribed(line)
        await line.flood(piece)

    return flood


FLOODS: dict[str, Trick] = {
    "a packet of 200 MiB": a_packet_of_200_mib,
    "largest documents": flood_of(document(DOCUMENT_TOPIC, bytes(2**20 - 100))),
    "small documents": flood_of(document(DOCUMENT_TOPIC, b"{}") * 1000),
    "documents to acknowledge": flood_of(document(DOCUMENT_TOPIC, b"{}", flags=3) * 1000),
}


@pytest.mark.parametrize("trick", FLOODS.values(), ids=FLOODS)
async def test_a_listener_that_reads_slowly_stays_small_under_a_flood(trick: Trick) -> None:
    """The listener is a process of its own; it reports how much larger it became after an ordinary
    connection."""
    async with HostileBroker([tricks.one_document, trick]) as broker:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            tricks.__file__,
            str(broker.port),
            "listen",
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await process.communicate()
        assert process.returncode == 0
        assert broker.connections == 2
    assert int(out) < LISTENER_GROWTH


# Interruptions.


async def publish_status(broker: HostileBroker) -> None:
    """Run an announcer until the broker, honest at last, has its status."""
    announcer = Announcer.with_status(broker.config, STATUS, pauses=Pauses(0.01, 0.01))
    announcing = asyncio.ensure_future(announcer.run())
    await broker.until_published(STATUS)
    announcing.cancel()


def open_sockets() -> int:
    descriptors = [entry for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()]
    return sum("socket:" in str(entry.readlink()) for entry in descriptors)


@pytest.mark.parametrize("pause", [0.0, 0.01], ids=["at once", "slow thread"])
async def test_a_connection_that_is_cancelled_at_any_step_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pause: float
) -> None:
    """No socket, task or file is left, nor an exception that nobody retrieves.

    The library's thread may pause between opening its socket and asking for it to be written to.
    """
    opened = aiomqtt.Client._on_socket_open

    def open_and_pause(client: aiomqtt.Client, *arguments: Any) -> None:
        opened(client, *arguments)
        time.sleep(pause)

    monkeypatch.setattr(aiomqtt.Client, "_on_socket_open", open_and_pause)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    async with HostileBroker([]) as broker:
        loop = asyncio.get_running_loop()
        unhandled = list[object]()

        def note(_: object, context: dict[str, object]) -> None:
            unhandled.append(context)

        loop.set_exception_handler(note)
        before = open_sockets()
        steps = 0
        # On a busy machine more turns of the event loop pass before the status is published.
        while steps < 150 or STATUS not in broker.published:
            steps += 1 + steps // 150 * 15
            announcer = Announcer.with_status(broker.config, STATUS, pauses=Pauses(0, 0))
            announcing = asyncio.ensure_future(announcer.run())
            for _ in range(steps):
                await asyncio.sleep(0)
            announcing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await announcing
            await only_this_task_is_left()
            assert list(tmp_path.iterdir()) == []  # noqa: ASYNC240 - an empty folder
        gc.collect()
        assert open_sockets() == before
        assert unhandled == []


@pytest.mark.parametrize("said", [b"", b"\x10"], ids=["silent", "begun"])
async def test_a_guard_that_ends_has_closed_the_connection_to_its_client(
    monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    """A program that ends next cancels what still runs, and leaves its connections open."""
    serve = broker_guard.BrokerGuard.serve
    serving = asyncio.get_running_loop().create_future()

    async def noted(guard: broker_guard.BrokerGuard, *ends: Any) -> None:
        serving.set_result((asyncio.current_task(), ends[1]))
        await serve(guard, *ends)

    monkeypatch.setattr(broker_guard.BrokerGuard, "serve", noted)
    async with HostileBroker([]) as broker:
        async with broker_guard.run_guard(broker.config, None) as guard:
            reader, writer = await asyncio.open_unix_connection(guard.path)
            writer.write(said)
            task, served = await serving
        assert task.done()
        assert served.is_closing()
        with suppress(ConnectionError):
            await reader.read()
        writer.close()


async def only_this_task_is_left() -> None:
    """Wait for all other tasks; the test's own time limit ends a wait in vain."""
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others)


async def test_an_announcer_notices_at_once_that_the_broker_hangs_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The library alone would wait for the acknowledgement until its time limit."""
    monkeypatch.setattr(broker_guard, "ANSWER_SECONDS", 1000.0)
    async with (
        HostileBroker([tricks.hang_up_before_acknowledging] * 3) as broker,
        asyncio.timeout(240),
    ):
        await publish_status(broker)


# Refusals and errors name their cause.


@pytest.mark.parametrize("steps", range(12))
async def test_a_request_that_begins_as_the_connection_ends_uses_no_closed_socket(
    steps: int,
) -> None:
    raised: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: raised.append(context))
    async with HostileBroker(()) as broker:
        place = BrokerConfig(host="127.0.0.1", port=broker.port)
        async with connect(place) as connection:
            connection._guard.stop()
            for _ in range(steps):
                await asyncio.sleep(0)
            with pytest.raises(BrokerError):
                await connection.publish("a/topic", b"a document")
    assert raised == []


async def test_the_reason_of_a_refusal_reaches_the_caller() -> None:
    async with HostileBroker([tricks.refusal]) as broker:
        with pytest.raises(BrokerError, match="refuses the connection: not authorised"):
            async with listening(broker.config, STATUS):
                pass


async def test_without_a_folder_for_temporary_files_the_broker_is_reported_as_unusable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A device then asks the analyst, as it does when the broker is away."""
    monkeypatch.setattr(tempfile, "tempdir", "/nonexistent")
    async with HostileBroker([]) as broker:
        with pytest.raises(BrokerError, match=r"cannot be used: .*nonexistent"):
            async with listening(broker.config, STATUS):
                pass


# TLS and IPv6.


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
async def test_a_broker_is_reached_over_ipv6() -> None:
    async with HostileBroker([], host="::1") as broker:
        await publish_status(broker)


@pytest.fixture
def server_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """The TLS context of a broker whose authority this process trusts by SSL_CERT_FILE."""
    now = dt.datetime.now(dt.UTC)
    authority = Authority.create("demo", now)
    authority.save(tmp_path)
    authority.issue(tmp_path / "broker", "broker", ("127.0.0.1",), now)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "broker" / "tls.pem", tmp_path / "broker" / "tls-key.pem")
    return context


async def test_a_document_is_published_over_tls_by_the_guard(server_tls: ssl.SSLContext) -> None:
    async with HostileBroker([], tls=server_tls) as broker:
        await publish_status(broker)
        assert broker.published == {STATUS: b"online"}


async def test_a_broker_with_an_untrusted_certificate_gets_no_packet(
    server_tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    async with HostileBroker([], tls=server_tls) as broker:
        with pytest.raises(BrokerError, match="CERTIFICATE_VERIFY_FAILED"):
            async with listening(broker.config, STATUS):
                pass
        assert broker.connections == 0


# Honest brokers, which know nothing of our client.


MOSQUITTO = shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin")

HONEST_BROKERS = [
    pytest.param([sys.executable, "-m", "shuffledp_sim.system.broker"], id="amqtt"),
    pytest.param(
        [MOSQUITTO, "-p"],
        id="mosquitto",
        marks=pytest.mark.skipif(MOSQUITTO is None, reason="Mosquitto is not installed here"),
    ),
]


@pytest.mark.parametrize("command", HONEST_BROKERS)
async def test_an_announcer_that_stops_is_offline_to_an_honest_broker(command: list[str]) -> None:
    with Ports(1) as ports:
        (port,) = ports.numbers
        quiet = asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(*command, str(port), stderr=quiet)
        broker = BrokerConfig(host="127.0.0.1", port=port)
        announcer = Announcer.with_status(broker, STATUS, pauses=Pauses(0.05, 0.05))
        publishing = asyncio.ensure_future(announcer.run())
        try:
            await asyncio.wait_for(seen_online_then_offline(broker, publishing), 240)
        finally:
            publishing.cancel()
            process.kill()
            await process.wait()


async def seen_online_then_offline(broker: BrokerConfig, publishing: asyncio.Future[None]) -> None:
    while not publishing.cancelled():
        with suppress(BrokerError):  # it may still be starting
            async with listening(broker, STATUS) as payloads:
                assert await anext(payloads) == b"online"
                publishing.cancel()
                assert await anext(payloads) == b"offline"
                return
    raise AssertionError("the broker did not say that it is offline")


async def test_a_guard_whose_client_reads_on_after_its_end_leaves_without_an_error() -> None:
    """The guard closes a connection on which a document still waits, and the client reads it: after
    the last byte asyncio's transport ends by itself."""

    async def large_document(line: Line) -> None:
        await line.welcome()
        await line.say(document(DOCUMENT_TOPIC, bytes(2**20 - 100)))
        await line.gone()

    async with HostileBroker([large_document]) as broker, asyncio.timeout(240):
        async with broker_guard.run_guard(broker.config, "shuffledp/#") as guard:
            reader, writer = await asyncio.open_unix_connection(guard.path, limit=2**10)
            writer.write(b"\x10\x0c\0\4MQTT\4\2\0\x3c\0\0")
            await reader.readexactly(len(tricks.CONNACK) + 1)
            guard.stop()
            rest = 0
            while piece := await reader.read(2**16):
                rest += len(piece)
            assert rest > 2**20 - 100
            for _ in range(10):
                await asyncio.sleep(0)
        writer.close()
        await writer.wait_closed()
