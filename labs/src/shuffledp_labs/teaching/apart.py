"""Runs this package's modules in separate processes, and ends all of them.

A process gets its task on standard input and answers with one JSON object on standard output. It
also gets the reading end of a pipe into which nothing is written: its end means that the waiting
process has ended, for any reason, and then this one ends itself (`end_with_the_one_who_waits`).
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from typing import Any, Final

SAID: Final = 300
"""Characters of what a process said last that are passed on when it broke off."""


class Apart:
    """The separate processes that are running. Thread-safe."""

    def __init__(self) -> None:
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._ended = False

    def run_module(
        self, module: str, task: dict[str, Any], seconds: float
    ) -> tuple[dict[str, Any], str]:
        """Run `python -m MODULE`; return its answer and an error message, empty on success."""
        watched, held_open = os.pipe()
        try:
            process = self._start(module, watched)
        finally:
            os.close(watched)
        try:
            if process is None:
                return {}, "broken off; the same command goes on"
            return _talk(process, task, seconds)
        finally:
            os.close(held_open)
            if process is not None:
                _end(process)
                with self._lock:
                    self._processes.discard(process)

    def end(self) -> None:
        """Start no further processes, and end the running ones.

        Threads that wait for them then continue.
        """
        with self._lock:
            self._ended = True
            for process in self._processes:
                _kill(process)

    def _start(self, module: str, watched: int) -> subprocess.Popen[bytes] | None:
        with self._lock:
            if self._ended:
                return None
            # -P: nothing of the folder that happens to be the current one, which may be a
            # student's, is imported.
            process = subprocess.Popen(  # noqa: S603 - a module of ours
                [sys.executable, "-P", "-m", module, str(watched)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(watched,),
                start_new_session=True,
            )
            self._processes.add(process)
            return process


def end_with_the_one_who_waits() -> None:
    """Make this process end with its parent, whose pipe is the first argument; call it first."""
    watched = int(sys.argv[1])

    def watch() -> None:
        os.read(watched, 1)
        # The group: whatever was started without a session of its own. The students' processes have
        # keepers.
        os.killpg(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, name="watch", daemon=True).start()


def _talk(
    process: subprocess.Popen[bytes], task: dict[str, Any], seconds: float
) -> tuple[dict[str, Any], str]:
    try:
        output, errors = process.communicate(json.dumps(task).encode(), timeout=seconds)
    except subprocess.TimeoutExpired:
        return {}, f"not done after {seconds:.0f} s"
    try:
        answer: dict[str, Any] = json.loads(output)
    except ValueError:
        last = (errors.decode(errors="replace").strip().splitlines() or ["it said nothing"])[-1]
        return {}, f"its grader ended with {process.returncode}: {last[-SAID:]}"
    return answer, str(answer.get("trouble", ""))


def _end(process: subprocess.Popen[bytes]) -> None:
    _kill(process)
    process.communicate()


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
