"""A process that outlives its parent, and is identified by a lock that it holds while it runs.

A process id in a file may later belong to another process. So the file is also locked, through a
descriptor that the process inherits: while the lock is held, the id is right.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

STOP_SECONDS: Final = 10.0
"""Time a process may take to stop before it is killed; above the services' own grace period."""

_POLL_SECONDS: Final = 0.05

_NUMBERED: Final = 'echo $$ > "$0"; exec "$@"'
"""Shell line that writes the process id: it must be known even if the starting process ends in the
next moment.
"""


@dataclass(frozen=True)
class DetachedProcess:
    """One process of a deployment in `folder`, with its own session, log and lock file."""

    name: str
    command: tuple[str, ...]
    folder: Path

    @property
    def log(self) -> Path:
        """File for the process's standard output and error."""
        return self.folder / "log" / f"{self.name}.log"

    @property
    def _lock(self) -> Path:
        return self.folder / "run" / f"{self.name}.pid"

    @property
    def running(self) -> bool:
        """True while the process runs."""
        with contextlib.suppress(FileNotFoundError), self._lock.open("rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def start(self) -> None:
        """Start the process, unless it runs.

        It gets no terminal, and no signals of the terminal that started it.
        """
        for path in (self._lock, self.log):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._lock.open("ab") as lock, self.log.open("ab") as log:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            lock.truncate(0)
            process = subprocess.Popen(  # noqa: S603 - our own command lines
                ("/bin/sh", "-c", _NUMBERED, str(self._lock), *self.command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                # The lock goes along: the kernel holds it for as long as the process lives, and no
                # longer.
                pass_fds=(lock.fileno(),),
            )
            process.returncode = 0  # no one here waits for it

    def ask_to_stop(self) -> None:
        """Send SIGTERM to the process and all of its children."""
        if self.running:
            self._signal(signal.SIGTERM)

    def clear(self) -> None:
        """Wait until the process ends, and kill the remaining processes of its group."""
        deadline, was_running = time.monotonic() + STOP_SECONDS, self.running
        while self.running and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        if was_running or not _exists(self._pid()):
            self._signal(signal.SIGKILL)
        deadline = time.monotonic() + STOP_SECONDS
        while self.running and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)

    def last_words(self) -> str:
        """The last line of the process's log, for error messages."""
        lines = (
            self.log.read_text(errors="replace").strip().splitlines() if self.log.exists() else []
        )
        return lines[-1] if lines else "it left no log"

    def _pid(self) -> int | None:
        with contextlib.suppress(FileNotFoundError, ValueError):
            return int(self._lock.read_text())
        return None

    def _signal(self, number: signal.Signals) -> None:
        pid = self._pid()
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, number)


def _exists(pid: int | None) -> bool:
    """True if some process has this id, so that its process group may be another program's."""
    if pid is None:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
