"""Configuration file of a mix node."""

from __future__ import annotations

from pathlib import Path

from shuffledp_core.runtime.config import BrokerConfig, Section, ServiceConfig
from shuffledp_core.runtime.workers import cores
from shuffledp_shuffler.cluster.config import EngineConfig
from shuffledp_shuffler.layout import LEAST_MEMORY_BYTES, MEMORY_BYTES, MOST_MEMORY_BYTES
from shuffledp_shuffler.uploads import UploadLimits


class MixingConfig(Section, frozen=True, kw_only=True):
    """Memory for mixing: at most `memory` bytes of the node's own process for any batch.

    The rest is kept on disk, encrypted. docs/operations.md, "Sizing".
    """

    memory: int = MEMORY_BYTES

    def __post_init__(self) -> None:
        if not LEAST_MEMORY_BYTES <= self.memory <= MOST_MEMORY_BYTES:
            raise ValueError(
                f"mixing.memory must be from {LEAST_MEMORY_BYTES} to {MOST_MEMORY_BYTES} bytes, "
                f"not {self.memory}"
            )


class NodeConfig(ServiceConfig, frozen=True, kw_only=True):
    """A mix node's TOML file: the keys that every service has, and the following.

    The node's status is announced at `broker`, if there is one. `workers` processes peel (0: one
    per processor). At most `max_submissions` submissions, or `submission_bytes` of them, are
    received as streams at one time, each for at most `submission_seconds` and at `submission_rate`
    bytes a second or faster; at most `waiting_submissions` others wait for their turn, and as many
    single-message ones are checked at a time. The round fails if the next hop is unreachable for
    `relay_seconds`, or if it makes no progress within `abandoned_seconds` after its closing time,
    so that its key does not stay on the disk. If no node used the state folder for `away_seconds`,
    its open rounds fail at the start: it may be a restored backup. `withdrawals` is the folder with
    the list of withdrawn credentials of every population, `<population>.json`; None: no credential
    is ever withdrawn. `mixing` limits the memory for mixing; `engine` selects the machines that do
    it.
    """

    broker: BrokerConfig | None = None
    workers: int = 0
    max_submissions: int = 256
    submission_bytes: int = 64 * 2**20
    submission_seconds: float = 60.0
    submission_rate: float = 8192.0
    waiting_submissions: int = 1024
    relay_seconds: float = 900.0
    abandoned_seconds: float = 86_400.0
    away_seconds: float = 3_600.0
    withdrawals: Path | None = None
    mixing: MixingConfig = MixingConfig()
    engine: EngineConfig = EngineConfig()

    def __post_init__(self) -> None:
        if not 0 <= self.workers <= 1024:
            raise ValueError(f"workers must be from 0 to 1024, not {self.workers}")
        for name in ("max_submissions", "waiting_submissions"):
            if not 1 <= getattr(self, name) <= 65_536:
                raise ValueError(f"{name} must be from 1 to 65536, not {getattr(self, name)}")
        if not (self.submission_bytes > 0 and self.submission_rate > 0):
            raise ValueError("submission_bytes and submission_rate must be above 0")
        for name in ("submission_seconds", "relay_seconds", "abandoned_seconds", "away_seconds"):
            if not 0 < getattr(self, name) <= 366 * 86_400:
                raise ValueError(
                    f"{name} must be above 0 and at most a year, not {getattr(self, name)}"
                )

    @property
    def uploads(self) -> UploadLimits:
        """Limits on submissions that are being received."""
        return UploadLimits(
            places=self.max_submissions,
            size=self.submission_bytes,
            line=self.waiting_submissions,
            seconds=self.submission_seconds,
            rate=self.submission_rate,
        )

    @property
    def worker_count(self) -> int:
        """Number of worker processes for peeling."""
        return self.workers or cores()
