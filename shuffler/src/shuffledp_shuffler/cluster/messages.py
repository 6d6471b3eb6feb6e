"""Messages between a node and its cluster's driver process, pickled through a pipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from shuffledp_core.errors import ShuffleDPError


@dataclass(frozen=True)
class PeeledMessage:
    """Number of records peeled so far."""

    records: int


@dataclass(frozen=True)
class StageMessage:
    """A stage (`metrics.STAGES`) that has ended, and its duration in seconds."""

    name: str
    seconds: float


@dataclass(frozen=True)
class DroppedMessage:
    """Number of records to drop; the node answers if it is allowed, else kills the driver."""

    records: int


@dataclass(frozen=True)
class EndMessage:
    """Mixing is done: SHA-256 of the target, number of records in it, and number dropped."""

    digest: str = ""
    records: int = 0
    dropped: int = 0


@dataclass(frozen=True)
class FailureMessage:
    """The error that ended the mixing; nothing was written."""

    error: ShuffleDPError


Message: TypeAlias = PeeledMessage | StageMessage | DroppedMessage | EndMessage | FailureMessage
