"""Detects two processes with one identity, by the process identifier in each answer.

Every answer carries the random id of its process and how long that has run. A restarted process
began after its predecessor's last answer. If a process answers that began earlier and is not the
one that answered then, both run at the same time.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from shuffledp_core.errors import DuplicateIdentityError

KEY: Final = "shuffledp-instance"
"""Key of the trailing metadata."""

_VALUE: Final = re.compile(r"([0-9a-f]{16}) ([0-9]{1,12})")


def now() -> float:
    """Seconds on a clock that also counts while this machine sleeps, if the system has one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class OwnInstance:
    """The description of this process that every answer carries: id, and running time."""

    def __init__(self) -> None:
        self._id = secrets.token_hex(8)
        self._started = time.monotonic()

    def metadata(self) -> tuple[str, str]:
        """Metadata key and value of an answer: process id, and milliseconds since its start."""
        return KEY, f"{self._id} {round(1000 * (time.monotonic() - self._started))}"


@dataclass(frozen=True)
class _Answer:
    instance: str
    asked_at: float


class Instances:
    """Detects two processes of one party, without comparing clocks of two machines."""

    def __init__(self) -> None:
        self._last: dict[str, _Answer] = {}

    def check(
        self, party: str, metadata: Iterable[tuple[str, str | bytes]], asked_at: float
    ) -> None:
        """Record the process that answered a request sent at `asked_at` (`now()`).

        Answers of versions that do not describe their process are ignored.

        Raises:
            DuplicateIdentityError: another process answered before, after this one had begun.
        """
        match = _VALUE.fullmatch(str(dict(metadata).get(KEY, "")))
        if match is None:
            return
        last = self._last.get(party)
        self._last[party] = _Answer(match[1], asked_at)
        # At the latest: the answer took some time to get here. And the earlier answer is later than
        # its question.
        began = now() - int(match[2]) / 1000
        if last is not None and last.instance != match[1] and began < last.asked_at:
            raise DuplicateIdentityError(
                f"two processes run as {party} ({last.instance} and {match[1]}): stop one of "
                "them, and open a new round"
            )
