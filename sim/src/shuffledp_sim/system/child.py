"""Launches a process that ends with its parent: `python -m shuffledp_sim.system.child MODULE`.

The kernel's parent-death signal survives the exec. It is set here, after the parent's own fork and
exec, because code between the two (`preexec_fn`) would run the fork handlers of gRPC in a process
with threads.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PARENT = "SHUFFLEDP_PARENT"
"""Environment variable with the process id of the parent."""

_PR_SET_PDEATHSIG = 1


def end_with_parent(parent: int | None = None) -> None:
    """Ask the kernel for SIGTERM at the parent's death (Linux only); exit if it is already dead.

    `parent` is the parent's process id; None for the one in the environment.
    """
    named = os.environ.pop(PARENT, None)
    if parent is None and named is not None:
        parent = int(named)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if parent is not None and os.getppid() != parent:
        sys.exit(0)  # it died before this process could ask to hear of it


def main() -> None:
    """Become the module named on the command line, in a process that ends with its parent."""
    end_with_parent()
    os.execv(sys.executable, [sys.executable, "-m", *sys.argv[1:]])  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main()
