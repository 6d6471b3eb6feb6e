"""Construction of a node from its configuration.

Kept apart from `cli`, which every worker imports.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import grpc
import structlog

from shuffledp_core.errors import ConfigError
from shuffledp_core.runtime.clock import Clock, system_clock
from shuffledp_core.runtime.keys import load_party, load_roster
from shuffledp_core.runtime.logs import configure_logs
from shuffledp_core.transport.announce import CORRUPT, ONLINE, Announcer, status_topic
from shuffledp_core.transport.service import Service, run_until_signal
from shuffledp_core.vocabulary import Role
from shuffledp_proto.v1 import batch_pb2_grpc, node_pb2_grpc
from shuffledp_shuffler.admission import Admission
from shuffledp_shuffler.cluster.engine import RayEngine
from shuffledp_shuffler.config import NodeConfig
from shuffledp_shuffler.corruption import Corruption
from shuffledp_shuffler.intake import Batches, Submissions
from shuffledp_shuffler.inventory import Inventory
from shuffledp_shuffler.metrics import NodeMetrics
from shuffledp_shuffler.node import MixNode
from shuffledp_shuffler.peeling import PeelPool
from shuffledp_shuffler.registry import NodeServices
from shuffledp_shuffler.relay import Relay
from shuffledp_shuffler.service import NAMES, RULES, BatchSinkServicer, NodeServicer
from shuffledp_shuffler.store import NodeStore
from shuffledp_shuffler.uploads import Uploads
from shuffledp_shuffler.work import RoundPipeline

NodeOf = Callable[[NodeServices], MixNode]
"""A function that makes a node from its components. A node that an experiment's function makes
declares itself corrupt.
"""


SWEEP_SECONDS: Final = 60.0
"""Interval of the search for abandoned rounds."""


def build(
    config: NodeConfig,
    clock: Clock = system_clock,
    *,
    node_of: NodeOf = MixNode,
    corrupt: Path | None = None,
    pool: PeelPool | None = None,
) -> tuple[MixNode, Service]:
    """Build a node and its server; the caller must `recover` the node before it starts the server.

    `corrupt` is the log folder of a deliberately corrupt node; None: an honest node. A node that
    `node_of` makes from an experiment's code also declares itself corrupt, because its behaviour is
    unknown. `pool` peels, and is closed with the node; None means a new pool with the configured
    number of workers.

    Must be called in a running event loop. Raises `ConfigError` for unusable keys, roster or state
    folder, and `DocumentError` for a roster that is not signed by the pinned root key.
    """
    roster = load_roster(config.roster, config.root_key, config.state, clock)
    identity = load_party(roster, Role.NODE, config.name, config.keys)
    metrics = NodeMetrics(config)
    metrics.corrupt.set(_is_corrupt(node_of, corrupt))
    corruption = (
        None if corrupt is None else Corruption.into(corrupt, roster.deployment, config.name)
    )
    if config.engine.kind == "ray" and _is_corrupt(node_of, corrupt):
        raise ConfigError(
            "a node with --corrupt must mix on its own machine, where it sees each record: "
            "remove [engine] from its configuration"
        )
    cluster = RayEngine(config.engine) if config.engine.kind == "ray" else None
    admission = Admission(config.withdrawals, config.state, roster)
    store = NodeStore(config.state)
    relay = Relay(config.keys, roster, config.relay_seconds)
    pool = PeelPool(config.worker_count) if pool is None else pool
    parts = NodeServices(
        identity=identity,
        roster=roster,
        store=store,
        work=RoundPipeline(
            identity, pool, relay, metrics, corruption, memory=config.mixing.memory, cluster=cluster
        ),
        submissions=Submissions(identity, roster, clock, Uploads(config.uploads), admission),
        batches=Batches(store.uploads),
        clock=clock,
        metrics=metrics,
        away_seconds=config.away_seconds,
        foreign=node_of is not MixNode,
    )
    node = node_of(parts)
    metrics.registry.register(Inventory(node.rounds, store))

    def register(server: grpc.aio.Server) -> None:
        node_pb2_grpc.add_NodeServicer_to_server(NodeServicer(node, metrics.count_refusal), server)
        batch_pb2_grpc.add_BatchSinkServicer_to_server(BatchSinkServicer(node), server)

    return node, Service(config, roster, RULES, NAMES, register, metrics)


def _is_corrupt(node_of: NodeOf, corrupt: Path | None) -> bool:
    return corrupt is not None or node_of is not MixNode


async def abandon_rounds_forever(node: MixNode, patience: float) -> None:
    """Abandon rounds that made no progress for `patience` seconds after their closing time.

    Runs until cancelled.
    """
    while True:
        await node.abandon_overdue_rounds(round(1000 * patience))
        await asyncio.sleep(SWEEP_SECONDS)


async def run(
    config: NodeConfig, *, node_of: NodeOf = MixNode, corrupt: Path | None = None
) -> None:
    """Run a node until SIGTERM or SIGINT; `corrupt` as in `build`."""
    configure_logs(config.log_level)
    node, service = build(config, node_of=node_of, corrupt=corrupt)
    if corrupt is not None:
        structlog.get_logger().warning(
            "CORRUPT NODE: all that it learns is recorded in the folder", folder=str(corrupt)
        )
    if node_of is not MixNode:
        structlog.get_logger().warning("CORRUPT NODE: it runs foreign code, for an experiment")
    background: list[Callable[[], Awaitable[None]]] = [
        lambda: abandon_rounds_forever(node, config.abandoned_seconds)
    ]
    if config.broker is not None:
        deployment = load_roster(config.roster, config.root_key).deployment
        status = CORRUPT if _is_corrupt(node_of, corrupt) else ONLINE
        announcer = Announcer.with_status(
            config.broker, status_topic(deployment, config.name), status
        )
        background.append(announcer.run)
    try:
        await node.warm(with_rate=config.metrics is not None)
        await node.recover()
        await run_until_signal(service, background=background)
    finally:
        await node.shut()
