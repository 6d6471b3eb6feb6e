"""Callers of a running console who send half of a request: none of them keeps a connection, and
others are served."""

from __future__ import annotations

import http.client
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from shuffledp_ops.console.guards import MOST_FORM
from shuffledp_ops.console.web import MOST_STREAMS
from shuffledp_sim.system.ports import Ports

CONNECTIONS = 256
"""That a console serves at a time."""

EVERYWHERE = "0.0.0.0"  # noqa: S104 - as where others reach it

NEVER = 300
"""Seconds after which a hang-up that has not come is taken for one that does not come."""

HEAD = b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n"
FORM = (
    b"POST /open HTTP/1.1\r\nhost: 127.0.0.1\r\norigin: http://127.0.0.1\r\n"
    b"content-type: application/x-www-form-urlencoded\r\ncontent-length: 100\r\n\r\n"
)
BEGUN = {
    "nothing": b"",
    "a line": b"GET / HTTP/1.1\r\n",
    "half a head": HEAD,
    "half a form": FORM + b"population=",
    "no body after a long head": HEAD + f"content-length: {MOST_FORM}\r\n\r\n".encode(),
}


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """A console of an empty deployment of saved rounds, for everybody, in its own process."""
    saved = tmp_path / "saved" / ("1" * 32)
    saved.mkdir(parents=True)
    (saved / "result.json").write_text("{}")
    with Ports(1, EVERYWHERE) as ports, running(saved.parent, ports.numbers[0]):
        yield ports.numbers[0]


@contextmanager
def running(folder: Path, port: int) -> Iterator[None]:
    """The console, from the moment at which it listens.

    What it says beside its address is the failure.
    """
    command = [sys.executable, "-m", "shuffledp.cli", "console", str(folder), "--port", str(port)]
    with subprocess.Popen(
        [*command, "--host", EVERYWHERE, "--plaintext"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert f":{port}" in process.stdout.readline()
            deadline = time.monotonic() + NEVER
            while not listens(port):  # the address is said just before
                assert time.monotonic() < deadline
                time.sleep(0.01)
            yield
        finally:
            process.terminate()
            _, errors = process.communicate(timeout=NEVER)
    assert errors == ""


def listens(port: int) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


def status_of(port: int) -> int:
    """What somebody is told who asks for the first page."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=NEVER)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status
    finally:
        connection.close()


def wait_for_the_end(callers: list[socket.socket], drip: bytes) -> None:
    """Reads until the console has hung up on all; whoever is slow sends its next byte meanwhile."""
    with selectors.DefaultSelector() as selector:
        for caller in callers:
            caller.settimeout(0)
            selector.register(caller, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select(timeout=0.5):
                ready = caller_of(key)
                try:
                    ended = not ready.recv(2**16)
                except ConnectionError:
                    ended = True
                if ended:
                    selector.unregister(ready)
            for key in list(selector.get_map().values()) if drip else []:
                try:
                    caller_of(key).send(drip)
                except OSError:  # hung up on: seen above in a moment
                    continue


def caller_of(key: selectors.SelectorKey) -> socket.socket:
    assert isinstance(key.fileobj, socket.socket)
    return key.fileobj


@pytest.mark.timeout(NEVER)
@pytest.mark.parametrize("dripping", [False, True])
def test_half_a_request_is_hung_up_on_and_the_console_serves_again(
    port: int, *, dripping: bool
) -> None:
    begun = [HEAD] if dripping else list(BEGUN.values())
    assert status_of(port) == 200
    callers = [socket.create_connection(("127.0.0.1", port)) for _ in range(CONNECTIONS)]
    try:
        for number, caller in enumerate(callers):
            caller.sendall(begun[number % len(begun)])
        wait_for_the_end(callers, b"x: y\r\n" if dripping else b"")
        assert status_of(port) == 200
    finally:
        for caller in callers:
            caller.close()


def test_half_requests_at_one_address_keep_no_other_address_out(port: int) -> None:
    """An attacker replaces every connection that the console closes.

    Each of 20 honest requests is answered.
    """
    callers = [half_of_a_request(port) for _ in range(CONNECTIONS)]
    try:
        statuses = []
        for number in range(20):
            statuses.append(status_of(port))
            callers.append(half_of_a_request(port))
            callers[number].close()
        assert statuses == [200] * 20
    finally:
        for caller in callers:
            caller.close()


def half_of_a_request(port: int) -> socket.socket:
    caller = socket.create_connection(("127.0.0.1", port), source_address=("127.0.0.2", 0))
    caller.sendall(HEAD)
    return caller


def test_streams_of_events_are_bounded_and_shared_between_addresses(port: int) -> None:
    """Forty streams are asked for at the same moment.

    A page at another address is brought up to date all the same.
    """
    callers = [half_of_a_stream(port, "127.0.0.2") for _ in range(MOST_STREAMS + 8)]
    try:
        for caller in callers:
            caller.sendall(b"\r\n")
        statuses = [status_line(caller) for caller in callers]
        assert statuses.count(200) == MOST_STREAMS
        assert statuses.count(503) == 8
        callers.append(half_of_a_stream(port, "127.0.0.1"))
        callers[-1].sendall(b"\r\n")
        assert status_line(callers[-1]) == 200
    finally:
        for caller in callers:
            caller.close()


def half_of_a_stream(port: int, source: str) -> socket.socket:
    caller = socket.create_connection(
        ("127.0.0.1", port), timeout=NEVER, source_address=(source, 0)
    )
    caller.sendall(b"GET /events HTTP/1.1\r\nhost: 127.0.0.1\r\n")
    return caller


def status_line(caller: socket.socket) -> int:
    with caller.makefile("rb") as answer:
        return int(answer.readline().split()[1])
