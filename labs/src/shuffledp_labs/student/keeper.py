"""Runs between grader and student's process, which it ends when the grader ends.

Started with the standard library only. It starts the command it is given, waits until that ends or
its control pipe does (the grader closed it, or was killed), and then ends everything that the
command has started. Arguments: the control pipe's number, the user of the processes (0: whose end
needs none), a folder, the command.

A grader that closes the pipe writes a byte before. One that was killed does not: then the keeper
erases the folder of what its program has written.

Each check of each student starts one: what is imported here is most of its cost, so that is little.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` takes longer to import than all else here
    from collections.abc import Callable
    from typing import Final

_CHILD_SUBREAPER: Final = 36
"""`PR_SET_CHILD_SUBREAPER` of Linux's prctl: orphans below become this process's children, not
init's.
"""

_PATIENCE: Final = 100
"""Turns of ending children before their user's processes are ended all at once."""

_LAST_WORD: Final = 0.5
"""Seconds for a grader that is being killed; one that lives lets a program that ended by itself
wait so long.
"""


def main() -> int:
    """Run the command, and return its exit code."""
    control = int(sys.argv[1])
    user = int(sys.argv[2])
    folder = sys.argv[3]
    os.set_inheritable(control, False)  # noqa: FBT003 - takes it by place only
    _adopt_orphans()
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for ending in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(
            ending, signal.SIG_IGN
        )  # a terminal's Ctrl-C is the grader's: it closes the control pipe
    # Python ignores these two; a program may expect to be ended by them.
    child = os.posix_spawn(
        sys.argv[4],
        sys.argv[4:],
        os.environ,
        setsid=True,
        setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
    )
    _let_go_of_the_pipes()
    status = None
    while (status := _poll_status(child)) is None:
        ready, _, _ = select.select([control, woken], [], [])
        if control in ready:
            break
        os.read(woken, 4096)
    _kill(os.killpg, child)
    if status is None:
        status = os.waitpid(child, 0)[1]
    _end_all_of(user)
    if folder and _grader_was_killed(control):
        import shutil

        shutil.rmtree(folder, ignore_errors=True)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _poll_status(child: int) -> int | None:
    """Exit status of the command's process; None while it runs."""
    pid, status = os.waitpid(child, os.WNOHANG)
    return status if pid else None


def _kill(how: Callable[[int, int], None], target: int) -> None:
    """Kill a process or group, unless it is gone or belongs to someone else."""
    try:
        how(target, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _grader_was_killed(control: int) -> bool:
    """Return True if the grader's pipe closed without the final byte.

    A grader that is killed loses its pipes one after another: the command may see its own end
    first, and end, before this one is closed.
    """
    ready, _, _ = select.select([control], [], [], _LAST_WORD)
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
    """End the processes of `user` that left the command's process group.

    Orphans become children of this process, one after another. A program that starts new ones
    faster than this ends them is ended by its user. That comes last, because two programs over one
    folder have one user.
    """
    turn = 0
    while True:
        for pid in _children():
            _kill(os.kill, pid)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            return
        time.sleep(0.002)
        turn += 1
        if user and turn % _PATIENCE == 0:
            _end_user(user)


def _end_user(user: int) -> None:
    pid = os.fork()
    if pid == 0:
        os.setresuid(user, user, user)
        _kill(os.kill, -1)
        os._exit(0)


def _children() -> list[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:  # noqa: PTH123 - starts fast
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return []


if __name__ == "__main__":
    sys.exit(main())
