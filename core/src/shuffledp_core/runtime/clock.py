"""The clock of the protocol.

Pure code takes it as a parameter; only process entry points use this one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeAlias

Clock: TypeAlias = Callable[[], int]
"""A function that returns whole milliseconds since 1970 (UTC)."""


def system_clock() -> int:
    """The system's clock, in whole milliseconds since 1970 (UTC)."""
    return time.time_ns() // 1_000_000
