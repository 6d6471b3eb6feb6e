"""Construction of the analyst from its configuration."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from shuffledp_analyst.config import AnalystConfig
from shuffledp_analyst.coordinator import Coordinator
from shuffledp_analyst.ending import AnalystServices
from shuffledp_analyst.metrics import AnalystMetrics
from shuffledp_analyst.peers import Peers
from shuffledp_analyst.records import Records
from shuffledp_analyst.service import make_service
from shuffledp_core.errors import ConfigError
from shuffledp_core.runtime.clock import system_clock
from shuffledp_core.runtime.keys import load_party, load_roster
from shuffledp_core.transport.announce import Announcer
from shuffledp_core.transport.service import Service
from shuffledp_core.vocabulary import Role


@dataclass(frozen=True)
class AnalystServer:
    """A server that has not been started, and its background tasks."""

    service: Service
    background: tuple[Callable[[], Awaitable[None]], ...]


def assemble(config: AnalystConfig) -> AnalystServer:
    """Build the analyst from its configuration.

    Raises `ConfigError` for unusable keys or an unusable state folder.
    """
    roster = load_roster(config.roster, config.root_key, config.state)
    identity = load_party(roster, Role.ANALYST, config.name, config.keys)
    metrics = AnalystMetrics(config)
    announcer = None if config.broker is None else Announcer(config.broker)
    coordinator = Coordinator(
        AnalystServices(
            config=config,
            deployment=roster.deployment,
            identity=identity,
            peers=Peers(config, roster),
            records=_open_records(config),
            clock=system_clock,
            publish=_nowhere if announcer is None else announcer.publish,
            metrics=metrics,
        ),
        roster,
    )
    background = (coordinator.run,) if announcer is None else (coordinator.run, announcer.run)
    return AnalystServer(make_service(config, roster, coordinator, metrics), background)


def _open_records(config: AnalystConfig) -> Records:
    try:
        return Records(config.state)
    except OSError as error:
        raise ConfigError(
            f"cannot make the state folder {config.state}: {error.strerror}"
        ) from error


def _nowhere(topic: str, payload: bytes) -> None:
    """`publish` for an analyst without a broker: does nothing, as clients query the analyst."""
    del topic, payload
