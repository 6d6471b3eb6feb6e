"""A failed test fails alone, and one that leaves a transport open fails itself."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]

TWO_TESTS = """
import gc
import socket

def test_that_fails():
    left = [socket.socket()]
    left.append(left)
    raise AssertionError

def test_beside_it():
    gc.collect()
"""

LEFT_OPEN = """
import asyncio
import gc
import os
import socket

import open_transports

open_transports.LONGEST_WAIT_SECONDS = 0.1

class Kept(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport

async def leave_a_socket():
    ends = socket.socketpair()
    await asyncio.get_running_loop().create_connection(Kept, sock=ends[0])
    ends[1].detach()  # the peer stays open

async def leave_a_pipe():
    read, write = os.pipe()
    await asyncio.get_running_loop().connect_read_pipe(Kept, os.fdopen(read))

async def leave_what_its_peer_closes():
    ends = socket.socketpair()
    await asyncio.get_running_loop().create_connection(Kept, sock=ends[0])
    ends[1].close()

def run(leave):
    loop = asyncio.new_event_loop()
    loop.run_until_complete(leave())
    loop.close()

def test_that_leaves_a_socket():
    run(leave_a_socket)

def test_that_leaves_a_pipe():
    run(leave_a_pipe)

def test_whose_transport_ends_in_a_step_of_its_loop():
    open_transports.LONGEST_WAIT_SECONDS = 60
    run(leave_what_its_peer_closes)

def test_beside_them():
    gc.collect()
"""


def run_tests(folder: Path, text: str) -> str:
    """Output of the tests in `text`, run by a pytest of their own with the repository's hooks."""
    for name in ("conftest.py", "core/open_transports.py"):
        shutil.copy(TESTS / name, folder)
    (folder / "test_them.py").write_text(text)
    options = ["-q", "-W", "error", "-p", "no:cacheprovider", "-p", "no:asyncio"]
    command = [sys.executable, "-m", "pytest", *options, "--rootdir", str(folder), str(folder)]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=240, check=False
    )
    return done.stdout


def test_what_a_failed_test_leaves_open_fails_no_other_test(tmp_path: Path) -> None:
    output = run_tests(tmp_path, TWO_TESTS)
    assert "1 failed, 1 passed" in output, output


def test_a_transport_that_outlives_its_loop_fails_the_test_that_opened_it(tmp_path: Path) -> None:
    output = run_tests(tmp_path, LEFT_OPEN)
    assert "4 passed, 2 errors" in output, output
    for name in ("socket", "pipe"):
        assert f"ERROR test_them.py::test_that_leaves_a_{name} - Failed" in output, output
        assert f"opened in test_them.py::test_that_leaves_a_{name} (call)" in output, output
