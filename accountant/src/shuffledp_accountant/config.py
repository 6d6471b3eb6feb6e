"""Configuration of the accountant: budgets, lifetime of certificates, and the ledger's location."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from shuffledp_core.privacy import Adjacency, CompositionRule
from shuffledp_core.runtime.config import Section, ServiceConfig

LEDGER_URL: Final = "SHUFFLEDP_LEDGER_URL"
"""Environment variable with the ledger's database URL; where it has a password, this is the place
for it.
"""

_MAX_DAYS: Final = 3660


class PopulationConfig(Section, frozen=True, kw_only=True):
    """Privacy budget of a population for all its rounds, in the configuration.

    ε is in nats, at δ, under `adjacency`; see `ledger.Budget`.

    `composition` is adaptive, unless it is known that no round's parameters depend on the results
    of earlier ones.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency = Adjacency.STANDARD
    composition: CompositionRule = CompositionRule.ADAPTIVE

    def __post_init__(self) -> None:
        if not 0 < self.epsilon < float("inf"):
            raise ValueError(f"epsilon must be above 0 and finite, not {self.epsilon}")
        if not 0 < self.delta < 1:
            raise ValueError(f"delta must be above 0 and below 1, not {self.delta}")


class AccountantConfig(ServiceConfig, frozen=True, kw_only=True):
    """Configuration of an accountant. `[populations.NAME]` tables hold the budgets.

    `ledger` is a database URL; by default SQLite in the state folder. A certificate may be relied
    upon for `certificate_days` after the round's planned closing time. `log` is the folder of the
    public log, for a web server; by default `log` in the state folder.
    """

    populations: dict[str, PopulationConfig]
    ledger: str | None = None
    certificate_days: float = 30.0
    log: Path | None = None

    def __post_init__(self) -> None:
        if not 0 < self.certificate_days <= _MAX_DAYS:
            raise ValueError(
                f"certificate_days must be above 0 and at most {_MAX_DAYS}, not "
                f"{self.certificate_days}"
            )

    @property
    def log_folder(self) -> Path:
        """Folder of the public log."""
        return self.state / "log" if self.log is None else self.log

    @property
    def ledger_url(self) -> str:
        """URL of the ledger: from the environment, the file, or ledger.db in the state folder."""
        return os.environ.get(LEDGER_URL) or self.ledger or f"sqlite:///{self.state / 'ledger.db'}"
