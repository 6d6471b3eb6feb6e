"""Stands between the grader and a student's process, so that nothing of it is left when the grader ends, however.

Started with the standard library only. It starts the command it is given, waits until that ends or its control pipe
does (the grader closed it, or was killed), and then ends everything that the command has started. Arguments: the
control pipe's number, the user of the processes (0: whose end needs none), a folder, the command.

A grader that closes the pipe writes a byte before. One that was killed does not: then nobody else erases the folder of
what its program has written, and the keeper does.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from typing import Final

_CHILD_SUBREAPER: Final = 36
"""`PR_SET_CHILD_SUBREAPER` of Linux's prctl: orphans below become this process's children, not init's."""

_PATIENCE: Final = 100
"""Turns of ending children before their user's processes are ended all at once."""


def main() -> int:
    """The command's exit code."""
    control, user, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    _adopt_orphans()
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for ending in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(ending, signal.SIG_IGN)  # a terminal's Ctrl-C is the grader's: it closes the control pipe
    child = subprocess.Popen(sys.argv[4:], start_new_session=True)  # noqa: S603 - the grader's own command
    _let_go_of_the_pipes()
    while child.poll() is None:
        ready, _, _ = select.select([control, woken], [], [])
        if control in ready:
            break
        os.read(woken, 4096)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    code = child.wait()
    _end_all_of(user)
    if folder and _orphaned(control):
        shutil.rmtree(folder, ignore_errors=True)
    return code if code >= 0 else 128 - code


def _orphaned(control: int) -> bool:
    """Whether the grader has gone without a word."""
    ready, _, _ = select.select([control], [], [], 0)
    return bool(ready) and not os.read(control, 1)


def _adopt_orphans() -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_CHILD_SUBREAPER, 1, 0, 0, 0)


def _let_go_of_the_pipes() -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)


def _end_all_of(user: int) -> None:
    """Ends what left the command's process group: orphans become children of this process, one after another.

    What starts new ones faster than this ends them is ended by its user. That comes last, because two programs over one
    folder have one user.
    """
    for turn in itertools.count():
        for pid in _children():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            return
        time.sleep(0.002)
        if user and turn % _PATIENCE == _PATIENCE - 1:
            _end_user(user)


def _end_user(user: int) -> None:
    pid = os.fork()
    if pid == 0:
        os.setresuid(user, user, user)
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        os._exit(0)


def _children() -> list[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:  # noqa: PTH123 - starts fast
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return []


if __name__ == "__main__":
    sys.exit(main())
