"""A fork server: a process that has imported everything, and forks the parties' processes.

`python -m shuffledp_sim.system.nursery SOCKET`.

Most of a party's start is importing, and a system on one machine has six parties. The nursery
imports for all of them once. For each command line that it receives it forks, and the child runs
the module as `python -m` would. It has no thread, no event loop and no gRPC channel at any time, so
that a fork copies none.

The nursery ends when its socket does. When the nursery dies, for any reason, its children end.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Annotated, Final

import typer

from shuffledp_core.errors import ConfigError, UnreachableError, UsageError
from shuffledp_sim.system.child import PARENT, end_with_parent

PRELOADED: Final = (
    "amqtt.broker",
    "shuffledp_accountant.metrics",
    "shuffledp_accountant.service",
    "shuffledp_analyst.app",
    "shuffledp_ops.witness",
    "shuffledp_shuffler.command",
)
"""What the parties import, but for their command lines themselves: these are run, each as
`__main__`.
"""

_MESSAGE_BYTES: Final = 2**16


def available() -> bool:
    """True if this system has what a fork server needs, as Linux does."""
    return sys.platform == "linux" and hasattr(os, "pidfd_open")


class ForkedProcess:
    """A process that a fork server started.

    It is known by a descriptor, so no later process of the same number is taken for it.
    """

    def __init__(self, pid: int, descriptor: int) -> None:
        self.pid = pid
        self._descriptor = descriptor

    def __del__(self) -> None:
        os.close(self._descriptor)

    def wait(self, seconds: float | None) -> bool:
        """Wait until the process ends, at most `seconds` (None: no limit); True if it has ended."""
        return bool(select.select([self._descriptor], [], [], seconds)[0])

    def kill(self) -> None:
        """Send SIGKILL to this process only."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)


class Nursery:
    """A fork server of this process, from `begin` to `close`; its output goes to the file `log`."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._ready = False

    def begin(self) -> None:
        """Start the fork server, unless it runs; it then imports for a second.

        It ends with the thread that calls this.
        """
        if self._process is not None and self._process.poll() is None:
            return
        self.close()
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other, self._log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own command line
                [sys.executable, "-m", "shuffledp_sim.system.nursery", str(other.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[other.fileno()],
                start_new_session=True,
                env={**os.environ, PARENT: str(os.getpid())},
            )

    def until_ready(self) -> None:
        """Wait until everything is imported. Raises `ConfigError` if the server ended instead."""
        if self._ready:
            return
        if self._connection().recv(_MESSAGE_BYTES) == b"":
            answer = self._log.read_text(errors="replace").strip().splitlines() or [
                "it said nothing"
            ]
            raise ConfigError(
                f"the process from which all others are forked did not start: {answer[-1]}"
            )
        self._ready = True

    def start(self, command: Sequence[str], log: Path) -> ForkedProcess:
        """Fork a process for a module with arguments; its output is appended to `log`.

        Raises:
            ConfigError: the nursery did not start.
            UnreachableError: the fork server has died since.
        """
        self.begin()
        self.until_ready()
        connection = self._connection()
        try:
            connection.send(json.dumps([str(log.absolute()), *command]).encode())
            answer, descriptors, _, _ = socket.recv_fds(connection, _MESSAGE_BYTES, 1)
        except OSError as error:
            raise UnreachableError(_DIED) from error
        if not descriptors:
            raise UnreachableError(_DIED)
        return ForkedProcess(int(answer), descriptors[0])

    def close(self) -> None:
        """End the server and every process that it started. Safe to call twice."""
        self._ready = False
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None

    def _connection(self) -> socket.socket:
        if self._socket is None:
            raise ValueError("the nursery is not started")
        return self._socket


_DIED: Final = "the process that all others are forked from has died; is the machine out of memory?"


def main() -> None:
    """Entry point of the nursery: one argument, the number of its socket.

    Serves until the socket is closed. In a forked child, it goes on to run the program that the
    parent requested.
    """
    if len(sys.argv) != 2 or not sys.argv[1].isdecimal():
        raise UsageError("usage: python -m shuffledp_sim.system.nursery SOCKET")
    end_with_parent()
    for name in PRELOADED:
        import_module(name)
    _parse_options()
    # the collector of a child then leaves these objects, and with them their shared pages, alone
    gc.freeze()
    signal.signal(signal.SIGCHLD, _reap)
    command = _serve(socket.socket(fileno=int(sys.argv[1])))
    if command is not None:
        sys.argv = list(command)
        runpy.run_module(command[0], run_name="__main__", alter_sys=True)


def _parse_options() -> None:
    """Parse a command line before forking: typer loads its converters at the first one.

    They take a quarter of a second of a processor in each process.
    """
    app = typer.Typer(add_completion=False)

    @app.command()
    def _command(config: Annotated[Path, typer.Option()]) -> None:
        del config

    app(["--config", "none"], standalone_mode=False)


def _serve(connection: socket.socket) -> list[str] | None:
    """Fork on request; return the command in a child, and None in the server at its end."""
    nursery = os.getpid()
    with connection:
        connection.send(b"ready")
        while request := connection.recv(_MESSAGE_BYTES):
            answer: list[str] = json.loads(request)
            log, *command = answer
            # Held back until its descriptor is open: one that ended at once could be another
            # process by then.
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
            pid = os.fork()
            if pid == 0:
                _become(Path(log), nursery)
                return command
            with suppress(OSError):  # it has done so itself, or ended
                os.setpgid(pid, pid)
            descriptor = os.pidfd_open(pid)
            socket.send_fds(connection, [str(pid).encode()], [descriptor])
            os.close(descriptor)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    return None


def _become(log: Path, nursery: int) -> None:
    """Set up a child as a new process: its own group, signals, log, and randomness."""
    os.setpgid(0, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    end_with_parent(nursery)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    # Ours is the operating system's, OpenSSL and `random` begin afresh in a child by themselves;
    # numpy's does not.
    if "numpy.random" in sys.modules:
        import_module("numpy.random").seed()


def _reap(*_: object) -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue


if __name__ == "__main__":
    main()
