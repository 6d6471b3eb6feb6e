"""The process of a student's program: bytes in and out, time and resource limits."""

from __future__ import annotations

import math
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from shuffledp_labs.errors import LabError, StudentCrash, StudentTimeout
from shuffledp_labs.student import clock, sandbox, wire

READY_SECONDS: Final = 60.0
"""For the sandbox and the interpreter, on a busy machine."""

MAX_PRINTED: Final = 16 * sandbox.MIB
"""Most that a program may print, in bytes; the last `TAIL_BYTES` of them can be shown."""

TAIL_BYTES: Final = 4000

_LOOK: Final = 0.25
"""Seconds between looks at what a program has written to its folder."""

_SHORTEST_GRANT: Final = 0.01
"""Seconds of waiting for a processor below which a program had its time."""

_CHUNK: Final = 2**16

SCRATCH: Final = "shuffledp-lab-"
"""How the names of folders begin that are made for a check, in the system's folder for temporary
files.
"""

_working: list[str] = []
"""The box that worked before in this process."""


class BoxError(LabError):
    """A sandbox could not be started on this machine."""


def start_process(scratch: Path) -> Process:
    """Start a process in the best sandbox that works here, ready for requests.

    `scratch` is one of `scratch_folder`.
    """
    return _start_confined(working_box(), scratch)


def working_box() -> str:
    """Name of the best sandbox that works here, found by starting a process in each.

    Raises:
        BoxError: no sandbox works.
    """
    trouble = ""
    for box in () if _working else sandbox.available():
        try:
            with _folder(box) as scratch:
                _start_confined(box, scratch).close()
        except LabError as error:
            trouble = str(error)
            continue
        _working[:] = [box]
        break
    if not _working:
        raise BoxError(
            f"no process of a student's can be started here ({trouble}): run `shuffledp lab doctor`"
        )
    return _working[0]


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Context with a new folder for a student's program, erased at the end."""
    with _folder(working_box()) as scratch:
        yield scratch


@contextmanager
def _folder(box: str) -> Iterator[Path]:
    scratch = Path(tempfile.mkdtemp(prefix=SCRATCH, dir=sandbox.scratch_parent(box)))
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _start_confined(box: str, scratch: Path) -> Process:
    process = Process(box, scratch)
    try:
        process.confine()
    except (StudentCrash, StudentTimeout) as error:
        process.close()
        raise BoxError(process.output.strip() or str(error)) from None
    except BaseException:
        process.close()
        raise
    return process


def _erasable(box: str, scratch: Path) -> str:
    """Path that a keeper may erase if the grader is killed; "" for none.

    Only a folder that was made for a check qualifies.
    """
    made_here = scratch.name.startswith(SCRATCH) and scratch.parent == sandbox.scratch_parent(box)
    return str(scratch) if made_here else ""


class Process:
    """A keeper process, a sandbox, and the worker in it; `close` ends all three."""

    def __init__(self, box: str, scratch: Path) -> None:
        self._start = sandbox.start(box, scratch)
        self._scratch = scratch
        self._buffer = bytearray()
        self._output_tail = bytearray()
        self._output_bytes = 0
        self._looked = math.inf  # nothing of the student's runs before `confine` has ended
        hold, self._control = os.pipe()  # its end tells the keeper that the grader has gone
        try:
            self._keeper = subprocess.Popen(  # noqa: S603 - the grader's own command
                [
                    sys.executable, "-I", "-S", str(Path(__file__).with_name("keeper.py")),
                    str(hold), str(self._start.ended_by), _erasable(box, scratch),
                    *self._start.command,
                ],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
                pass_fds=(hold,), cwd=self._start.cwd, env=self._start.variables,
                start_new_session=True,
            )  # fmt: skip
        except BaseException:
            os.close(self._control)
            raise
        finally:
            os.close(hold)
        self._waits = clock.ProcessorWaits(self._keeper.pid)
        assert self._keeper.stdin and self._keeper.stdout and self._keeper.stderr  # noqa: S101, PT018 - pipes, above
        self._in, self._out, self._err = (
            self._keeper.stdin,
            self._keeper.stdout,
            self._keeper.stderr,
        )
        for stream in (self._in, self._out, self._err):
            os.set_blocking(stream.fileno(), False)
        self._poll = select.poll()
        self._poll.register(self._out, select.POLLIN)
        self._poll.register(self._err, select.POLLIN)

    @property
    def box(self) -> str:
        """Name of the sandbox."""
        return self._start.box

    @property
    def output(self) -> str:
        """The end of the printed output."""
        return self._output_tail.decode(errors="replace")

    def confine(self) -> None:
        """Set the limits, before any of the student's code is loaded."""
        deadline = clock.now() + READY_SECONDS
        self.send(wire.pack([self._start.root, self._start.user, sandbox.LIMITS]), deadline)
        with suppress(wire.WireError):
            if wire.unpack(self.receive(deadline)) == ("ready",):
                self._looked = 0.0
                return
        raise StudentCrash("the sandbox did not start")

    def send(self, data: bytes, deadline: float) -> None:
        """Write a frame by the deadline, a time of `clock.now()`."""
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._in.fileno(), rest) :]
            except BlockingIOError:
                self._poll.register(self._in, select.POLLOUT)
                try:
                    self._wait(deadline)
                finally:
                    self._poll.unregister(self._in)
            except BrokenPipeError:
                self._raise_exit()

    def receive(self, deadline: float) -> bytes:
        """Read the body of the next frame by the deadline."""
        try:
            size = wire.length(self._exactly(wire.HEAD_BYTES, deadline))
        except wire.WireError as error:
            raise StudentCrash(f"its answer is too large: {error}") from None
        return self._exactly(size, deadline)

    def close(self) -> None:
        """End the process and everything that it started, and wait for the end."""
        self._let_go()
        self._in.close()
        self._keeper.wait()
        self._drain()
        self._out.close()
        self._err.close()

    def _let_go(self) -> None:
        """Tell the keeper to end everything."""
        if self._control >= 0:
            with suppress(OSError):
                os.write(self._control, b".")
            os.close(self._control)
            self._control = -1

    def _exactly(self, size: int, deadline: float) -> bytes:
        while len(self._buffer) < size:
            self._wait(deadline)
            try:
                chunk = os.read(self._out.fileno(), _CHUNK)
            except BlockingIOError:
                continue
            if not chunk:
                self._raise_exit()
            self._buffer += chunk
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    def _wait(self, deadline: float) -> None:
        """Wait until the pipe is readable or writable; read printed output meanwhile."""
        while True:
            left = deadline - clock.now()
            if left <= 0:
                if self._waits.grant() < _SHORTEST_GRANT:
                    raise StudentTimeout(
                        "it took longer than it may: is there a loop that does not end?"
                    )
                continue
            ready = self._poll.poll(1000 * min(left, _LOOK))
            self._look()
            if any(number == self._err.fileno() for number, _ in ready):
                self._drain()
            if any(number != self._err.fileno() for number, _ in ready):
                return

    def _drain(self) -> None:
        """Read printed output."""
        while True:
            try:
                chunk = os.read(self._err.fileno(), _CHUNK)
            except BlockingIOError:
                return
            if not chunk:
                with suppress(KeyError):
                    self._poll.unregister(self._err)
                return
            self._output_bytes += len(chunk)
            self._output_tail = (self._output_tail + chunk)[-TAIL_BYTES:]
            if self._output_bytes > MAX_PRINTED and self._keeper.returncode is None:
                raise StudentCrash(
                    f"it printed more than {MAX_PRINTED // sandbox.MIB} MiB: take the print out "
                    "of the loop"
                )

    def _look(self) -> None:
        now = time.monotonic()
        if now < self._looked + _LOOK:
            return
        self._looked = now
        if sandbox.weight(self._scratch) > sandbox.MAX_SCRATCH:
            raise StudentCrash(
                f"it wrote more than {sandbox.MAX_SCRATCH // sandbox.MIB} MiB into its folder"
            )

    def _raise_exit(self) -> None:
        """Raise the error for how the process ended, after the pipe was closed."""
        self._let_go()
        code = self._keeper.wait()
        how = "it ended itself" if code in {0, 1} else f"it was ended (code {code})"
        hint = "for memory, time or by a crash" if code > 128 else "by exit() or os._exit()"
        raise StudentCrash(f"its process is gone in the middle of a call: {how}, {hint}")
