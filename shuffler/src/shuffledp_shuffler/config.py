"""What a mix node can be told in its configuration file."""

from __future__ import annotations

import os

from shuffledp_core.config import BrokerConfig, ServiceConfig


class NodeConfig(ServiceConfig, frozen=True, kw_only=True):
    """A mix node's TOML file: the keys of every service, and these.

    Its status is announced at `broker`, if there is one. `workers` processes peel (0: one per processor). At most
    `max_submissions` submissions are received at a time, each for at most `submission_seconds`. The next hop may be
    unreachable for `relay_seconds` before the round is given up. A round that nobody continues within
    `abandoned_seconds` after its closing time is given up, too, so that its key does not lie on the disk for ever.
    """

    broker: BrokerConfig | None = None
    workers: int = 0
    max_submissions: int = 256
    submission_seconds: float = 60.0
    relay_seconds: float = 900.0
    abandoned_seconds: float = 86_400.0

    def __post_init__(self) -> None:
        if not 0 <= self.workers <= 1024:
            raise ValueError(f"workers must be from 0 to 1024, not {self.workers}")
        if not 1 <= self.max_submissions <= 65_536:
            raise ValueError(f"max_submissions must be from 1 to 65536, not {self.max_submissions}")
        for name in ("submission_seconds", "relay_seconds", "abandoned_seconds"):
            if not 0 < getattr(self, name) <= 366 * 86_400:
                raise ValueError(f"{name} must be above 0 and at most a year, not {getattr(self, name)}")

    @property
    def worker_count(self) -> int:
        """Processes that peel."""
        return self.workers or os.cpu_count() or 1
