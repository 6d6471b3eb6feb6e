"""Tests in containers run where an engine answers and the images are built.

Elsewhere they are skipped and say why.

Two composed systems serve them all, one after the other: `deployment`, as a person starts one, and
`faulty`, with PostgreSQL and short patience. Both at once were too much for two cores."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from composed import (
    FLEETS,
    USERS_OF_A_FLEET,
    WITH_PAGES,
    Composed,
    FirstRound,
    has_grafana,
    why_no_docker,
)
from faulty import FaultySystem

from shuffledp_sim.system.ports import Ports


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips what is marked `docker` where it cannot run.

    The engine is asked once, and only if there is such a test.
    """
    marked = [item for item in items if item.get_closest_marker("docker")]
    reason = why_no_docker() if marked else None
    for item in marked if reason else ():
        item.add_marker(pytest.mark.skip(reason=str(reason)))


@pytest.fixture(scope="session")
def deployment() -> Iterator[Composed]:
    """A deployment with Prometheus, console, gateways, doors for devices and four fleets that `make
    up` started.

    Its last test is that of `make down`.
    """
    with Ports(8) as ports:  # let go at once: the engine refuses a port that anybody holds
        prometheus, grafana, node, analyst, broker, gateway, console, pages = ports.numbers
    environment = {
        "OVERLAYS": "observability devices gateway console" + (" web" if WITH_PAGES else ""),
        "DEVICES_ADDRESS": "127.0.0.1",
        "NODE_1_PORT": str(node),
        "ANALYST_PORT": str(analyst),
        "BROKER_PORT": str(broker),
        "GATEWAY_PORT": str(gateway),
        "CONSOLE_PORT": str(console),
        "PAGES_PORT": str(pages),
        "FLEETS": str(FLEETS),
        "FLEET_USERS": str(USERS_OF_A_FLEET),
        "MAX_VALUE": "5",  # a third of the messages of the default
        "VOLUMES": "1",
        "PROMETHEUS_PORT": str(prometheus),
        "GRAFANA_PORT": str(grafana),
        "COMPOSE_PROFILES": "grafana" if has_grafana() else os.environ.get("COMPOSE_PROFILES", ""),
    }
    composed = Composed("shuffledp-test", environment)
    composed.remove()
    try:
        composed.make("up")
        yield composed
    finally:
        composed.remove()


@pytest.fixture(scope="session")
def first_round(deployment: Composed) -> FirstRound:
    """`make round`, with all fleets."""
    return FirstRound.of(deployment)


@pytest.fixture(scope="session")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultySystem]:
    """The system that breaks on command, as it was started."""
    system = FaultySystem("spfaults", {"OVERLAYS": "postgres"}, tmp_path_factory.mktemp("faults"))
    system.remove()
    try:
        system.start()
        yield system
    finally:
        system.remove()
