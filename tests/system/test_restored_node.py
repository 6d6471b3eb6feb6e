"""A round that was given back to the budget is not mixed again by nodes whose state comes from a
copy. About 15 s.

The test plays the analyst: it has a certificate for which nothing is charged any more.
"""

from __future__ import annotations

import shutil
import signal

import pytest
from rounds_for_tests import restart, small_plan, until_released, within_a_minute

from shuffledp_core.documents.models import Manifest
from shuffledp_core.documents.signed import from_json
from shuffledp_core.errors import ExpiredDocumentError
from shuffledp_core.transport.rpc_errors import translate_errors
from shuffledp_core.transport.tls import channel_to
from shuffledp_ops.keys.pki import ANALYST
from shuffledp_ops.rounds.running import abort_round, control_of, open_round
from shuffledp_proto.v1 import node_pb2, node_pb2_grpc
from shuffledp_sim.system.processes import STOP_SECONDS, LocalSystem


async def prepare(system: LocalSystem, name: str, certificate: bytes, position: int) -> None:
    deployment = system.deployment
    request = node_pb2.PrepareRoundRequest(
        certificate=certificate, position=position, suite="sealed-box"
    )
    keys = deployment.keys_of(ANALYST)
    async with (
        channel_to(deployment.roster.party(name), keys, deployment.roster) as channel,
        translate_errors(name),
    ):
        await node_pb2_grpc.NodeStub(channel).PrepareRound(request)


async def test_restored_nodes_do_not_take_part_in_a_round_that_costs_nothing(
    system: LocalSystem,
) -> None:
    backup = shutil.copytree(system.folder / "state", system.folder / "backup")
    async with control_of(system.deployment) as control:
        opened = await open_round(control, small_plan(system))
        await abort_round(control, opened.round_id, "for the test")
    await within_a_minute(until_released(system, opened.round_id))
    for name in system.route:
        system.processes[name].signal_group(signal.SIGTERM)
        system.processes[name].wait(STOP_SECONDS)
        shutil.rmtree(system.folder / "state" / name)
        shutil.copytree(backup / name, system.folder / "state" / name)
        await restart(system, name)
    certificate = from_json(opened.announcement.manifest.body, Manifest).certificate.to_bytes()
    for position, name in enumerate(system.route, 1):
        with pytest.raises(ExpiredDocumentError, match="before this node was started"):
            await prepare(system, name, certificate, position)
    async with control_of(
        system.deployment
    ) as control:  # a new round, for which is paid, works at once
        await abort_round(
            control, (await open_round(control, small_plan(system))).round_id, "for the test"
        )
