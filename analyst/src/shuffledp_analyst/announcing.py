"""Opening of a round: certify its plan, prepare its nodes, and announce it.

Also resumes a round that an earlier process announced.
"""

from __future__ import annotations

import asyncio

from shuffledp_analyst.disk import typed_disk_errors
from shuffledp_analyst.mixproof import check_route_keys
from shuffledp_analyst.opening import (
    check_corrupt,
    check_countersignature,
    check_log_proof,
    check_plan_certificate,
    check_round_key,
    make_manifest,
)
from shuffledp_analyst.progress import ACCEPTING, Event
from shuffledp_analyst.running import RunningRound
from shuffledp_core.documents.models import Announcement, BatchHeader, Certificate, Manifest
from shuffledp_core.documents.signed import Signed, from_json, to_json, verify
from shuffledp_core.runtime.keys import verify_from
from shuffledp_core.transport.announce import manifest_topic


async def open_round(running: RunningRound) -> bytes:
    """Open a planned round; return its announcement. Steps of docs/protocol.md, "Opening"."""
    services, plan, round_id = running.services, running.round.plan, running.round_id
    signed, proof = await services.peers.certify(round_id, plan)  # 2
    # Only now: certifying may take long, and must not shorten the time for submissions.
    opens_at = services.clock()
    closes_at = opens_at + round(plan.open_seconds * 1000)
    certificate = check_plan_certificate(
        signed, services.peers.accountant, services.deployment, round_id, plan, closes_at
    )
    running.certificate = signed, certificate
    log = check_log_proof(proof, services.peers.roster, certificate, signed)
    keys = await _prepare_nodes(running)  # 3
    check_route_keys(certificate, signed, keys)
    corrupt = check_corrupt(keys, plan)  # 5, before a manifest names such a node
    if corrupt:
        running.log.warning(
            "nodes of the route declare that they are corrupt, which the plan allows", nodes=corrupt
        )
    manifest = make_manifest(
        services.deployment, certificate, signed, keys, plan, (opens_at, closes_at)
    )
    signed_manifest = services.identity.sign(manifest)  # 4: its keys are all verified
    countersignatures = await asyncio.gather(
        *(_countersign(running, name, signed_manifest) for name in plan.route)
    )
    announcement = to_json(
        Announcement(manifest=signed_manifest, countersignatures=tuple(countersignatures), log=log)
    )
    with typed_disk_errors():
        # Before it is published: devices may submit at once.
        services.records.files(round_id).keep_announcement(announcement)
    running.adopt_manifest(signed_manifest, manifest)
    services.publish(manifest_topic(services.deployment, round_id), announcement)
    running.progress.report(Event(ACCEPTING, total=plan.max_reports))
    running.log.info("round open", route=plan.route)
    return announcement


async def _prepare_nodes(running: RunningRound) -> list[Signed]:
    positions = list(enumerate(running.round.plan.route, 1))
    if not running.certified()[1].verified:
        return await asyncio.gather(
            *(_prepare_node(running, name, position) for position, name in positions)
        )
    keys: list[Signed] = []
    # In turn: the keys of each node rest on those of all nodes before it, which it checks.
    for position, name in positions:
        keys.append(await _prepare_node(running, name, position, tuple(keys)))
    return keys


async def _prepare_node(
    running: RunningRound, name: str, position: int, before: tuple[Signed, ...] = ()
) -> Signed:
    peers, suite = running.services.peers, running.round.plan.suite
    signed = running.certified()[0]
    key = await peers.prepare(name, position, signed, suite, before)
    check_round_key(key, peers.node(name), position, suite, signed, running.round_id)
    return key


async def _countersign(running: RunningRound, name: str, manifest: Signed) -> Signed:
    peers = running.services.peers
    countersignature = await peers.set_manifest(name, manifest)
    check_countersignature(countersignature, peers.node(name), manifest, running.round_id)
    return countersignature


def resume_round(running: RunningRound) -> None:
    """Resume a round that an earlier process announced, from the files of the round.

    Nodes and accountant are called again: closing, statuses, headers and the settlement are
    idempotent, and a complete batch on the disk was verified before it was stored.

    1. Check that the announcement is signed by this analyst, and its certificate by the accountant.
    2. Accept submissions until their closing time, unless the entry node may have been told to
       close.
    3. If the batch is complete, check that its header is signed by the last node.

    Raises:
        UnknownRoundError: the round was never announced.
        DocumentError: in step 1 or 3, the files are not what this analyst wrote.
    """
    services, round_id = running.services, running.round_id
    data = services.records.files(round_id).announcement()  # 1
    announced = from_json(data, Announcement).manifest
    manifest = verify(announced, Manifest, services.identity.name, services.identity.public_key)
    certificate = verify_from(services.peers.accountant, manifest.certificate, Certificate)
    running.certificate = manifest.certificate, certificate
    running.adopt_manifest(announced, manifest)
    running.opened.set_result(data)
    running.progress.report(Event(ACCEPTING, total=running.round.plan.max_reports))
    if not services.records.files(round_id).is_closing():  # 2
        # Announced again: the earlier process may have died before the broker had it.
        services.publish(manifest_topic(services.deployment, round_id), data)
        return
    running.round.end_submissions()
    header = services.records.files(round_id).batch.header()  # 3
    if header is not None:
        last = services.peers.node(running.round.plan.route[-1])
        running.round.deliver(verify_from(last, header, BatchHeader))
        running.delivered.set()
