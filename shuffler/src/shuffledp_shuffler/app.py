"""Puts a node together from its configuration and runs it. Kept apart from `cli`, which every worker imports."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import grpc

from shuffledp_core.clock import Clock, system_clock
from shuffledp_core.keys import load_party, load_roster
from shuffledp_core.logs import configure_logs
from shuffledp_core.transport.announce import Announcer, status_topic
from shuffledp_core.transport.service import Service, run_until_signal
from shuffledp_proto.v1 import batch_pb2_grpc, node_pb2_grpc
from shuffledp_shuffler.config import NodeConfig
from shuffledp_shuffler.intake import Batches, Submissions
from shuffledp_shuffler.node import MixNode, Parts
from shuffledp_shuffler.peeling import PeelPool
from shuffledp_shuffler.relay import Relay
from shuffledp_shuffler.service import NAMES, RULES, BatchSinkServicer, NodeServicer
from shuffledp_shuffler.store import Store
from shuffledp_shuffler.work import Work


def build(config: NodeConfig, clock: Clock = system_clock) -> tuple[MixNode, Service]:
    """A node and the server in front of it; `recover` the node before the server starts.

    Must be called in a running event loop. Raises `ConfigError` for unusable keys, roster or state folder, and
    `DocumentError` for a roster that is not signed by the pinned root key.
    """
    roster = load_roster(config.roster, config.root_key)
    identity = load_party(roster, "node", config.name, config.keys)
    store = Store(config.state)
    parts = Parts(
        identity=identity,
        roster=roster,
        store=store,
        work=Work(identity, PeelPool(config.worker_count), Relay(config.keys, roster, config.relay_seconds)),
        submissions=Submissions(identity, roster, clock, config.submission_seconds),
        batches=Batches(store.uploads),
        clock=clock,
    )
    node = MixNode(parts)

    def register(server: grpc.aio.Server) -> None:
        node_pb2_grpc.add_NodeServicer_to_server(NodeServicer(node, config.max_submissions), server)
        batch_pb2_grpc.add_BatchSinkServicer_to_server(BatchSinkServicer(node), server)

    return node, Service(config, roster, RULES, NAMES, register)


async def run(config: NodeConfig) -> None:
    """Runs a node until SIGTERM or SIGINT."""
    configure_logs(config.log_level)
    node, service = build(config)
    background: list[Callable[[], Awaitable[None]]] = [lambda: node.sweep(config.abandoned_seconds)]
    if config.broker is not None:
        deployment = load_roster(config.roster, config.root_key).deployment
        announcer = Announcer.with_status(config.broker, status_topic(deployment, config.name))
        background.append(announcer.run)
    try:
        await node.warm()
        await node.recover()
        await run_until_signal(service, background=background)
    finally:
        await node.shut()
