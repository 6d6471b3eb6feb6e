"""Configuration of the analyst's process."""

from __future__ import annotations

from pathlib import Path

from shuffledp_core.runtime.config import BrokerConfig, ServiceConfig


class AnalystConfig(ServiceConfig, frozen=True, kw_only=True):
    """Configuration of the analyst, besides the common keys. All times are in seconds, above 0.

    `broker`: where manifests and results are announced; None: nowhere.
    `recovery_seconds`: how long a node may be away in the middle of a round (a restart).
    `settle_seconds`: how long a decoded round waits for the accountant and its ledger, counted
    afresh when the analyst is restarted. `mix_timeout_seconds`: from the end of the submissions
    until the last node has delivered and all are done, however often the analyst is restarted
    meanwhile. `call_seconds`: one ordinary call. `certify_seconds`: a calibration at the
    accountant, which computes. `discard_seconds`: how long an ended round keeps asking an absent
    node for its discard. `history_memory`: bytes of memory for reading a verified round's
    history, an accusation or an answer, which takes up to six times its length; what a round
    without accusations may need is always read. `public`: a folder for a web server, which gets
    the boards of published rounds and their tiles; None: nowhere.
    """

    broker: BrokerConfig | None = None
    recovery_seconds: float = 60.0
    settle_seconds: float = 86400.0
    mix_timeout_seconds: float = 3600.0
    call_seconds: float = 30.0
    certify_seconds: float = 300.0
    discard_seconds: float = 3600.0
    history_memory: int = 128 * 2**20
    public: Path | None = None

    def __post_init__(self) -> None:
        for name in (
            "recovery_seconds",
            "settle_seconds",
            "mix_timeout_seconds",
            "call_seconds",
            "certify_seconds",
            "discard_seconds",
        ):
            if not 0 < getattr(self, name) <= 366 * 86400:
                raise ValueError(
                    f"{name} must be above 0 and at most a year, not {getattr(self, name)}"
                )
        if not 2**20 <= self.history_memory <= 2**40:
            raise ValueError(
                f"history_memory must be from 2^20 to 2^40 bytes, not {self.history_memory}"
            )
