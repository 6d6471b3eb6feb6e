"""No core dumps, so that a crash leaves neither keys nor users' data in a file."""

from __future__ import annotations

import ctypes
import resource
import sys
from typing import Final

_PR_SET_DUMPABLE: Final = 4
"""See prctl(2)."""


def forbid_core_dumps() -> None:
    """Forbid core dumps of this process; call it first in every program and in every worker.

    1. `RLIMIT_CORE` is 0 for this process and its children, whatever the shell or container allows.
    2. On Linux the process is not dumpable: a handler in `core_pattern`, which ignores that limit,
       gets nothing, and no other process of the same user can attach to it or read its memory. A
       program that is executed later is dumpable again, so each one calls this itself.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # 1
    if sys.platform == "linux":  # 2
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
