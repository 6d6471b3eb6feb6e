"""Background work on a closed or delivered batch: mix, commit, erase, relay.

Every step starts from the files on disk, so that it can be repeated after a crash or the loss of a
worker. Nothing leaves the node before the permuted batch is committed, so a batch that is mixed
twice is sent in one order only.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from shuffledp_core.documents.models import BatchHeader
from shuffledp_core.documents.signed import from_json
from shuffledp_core.errors import DiskError, NodeFault, ShuffleDPError
from shuffledp_core.runtime.files import is_disk_full
from shuffledp_core.runtime.keys import Identity
from shuffledp_core.runtime.tasks import in_thread
from shuffledp_core.sampling.randomness import system_random
from shuffledp_shuffler.batch import Batch
from shuffledp_shuffler.checks import check_dropped
from shuffledp_shuffler.cluster.engine import RayEngine
from shuffledp_shuffler.corruption import Corruption
from shuffledp_shuffler.dummies import make_dummies
from shuffledp_shuffler.live import LiveRound
from shuffledp_shuffler.metrics import RELAY, NodeMetrics
from shuffledp_shuffler.mixing import DropCheck, MixResult, mix
from shuffledp_shuffler.mixproof.mixing import mix_provably
from shuffledp_shuffler.peel_worker import Layer, LayersBehind
from shuffledp_shuffler.peeling import PeelPool, WorkersLost
from shuffledp_shuffler.relay import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, Relay
from shuffledp_shuffler.round_state import MIXING_ATTEMPTS, Phase


@dataclass(frozen=True)
class RoundPipeline:
    """Mixes and relays rounds of one node.

    `corruption` is None on every honest node. For `memory`, in bytes, see `mix`. `cluster` is None
    on a node that mixes on its own machine.
    """

    identity: Identity
    pool: PeelPool
    relay: Relay
    metrics: NodeMetrics
    corruption: Corruption | None
    memory: int = field(kw_only=True)
    cluster: RayEngine | None = field(default=None, kw_only=True)

    async def run(self, live: LiveRound) -> None:
        """Bring a round from MIXING or RELAYING to DONE, or to FAILED with a typed error.

        Never raises.
        """
        try:
            await self._work_when_room(live)
        except ShuffleDPError as error:
            await live.fail(error)
        except OSError as error:
            await live.fail(NodeFault(f"the disk of this node failed: {error.strerror}"))
        except Exception as error:  # noqa: BLE001 - a bug must not leave a round that seems at work
            structlog.get_logger().exception(
                "unexpected failure, which ends the round", round=live.record.round_id
            )
            await live.fail(
                NodeFault(f"unexpected failure ({type(error).__name__}); see the node's log")
            )

    async def _work_when_room(self, live: LiveRound) -> None:
        """Mix and relay a round; wait while the disk is full.

        A step that fails on a full disk is repeated for `relay.patience` seconds from its first
        failure.
        """
        deadline: float | None = None
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                if live.record.phase is Phase.MIXING:
                    await self._mix(live)
                if live.record.phase is Phase.RELAYING:
                    await self._relay(live)
            except (DiskError, OSError) as error:
                if isinstance(error, OSError) and not is_disk_full(error):
                    raise
                now = time.monotonic()
                deadline = now + self.relay.patience if deadline is None else deadline
                if now + pause >= deadline:
                    raise
                structlog.get_logger().warning(
                    "disk is full: the round waits for free space",
                    round=live.record.round_id,
                    reason=str(error),
                )
            else:
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    async def mix_batch(self, live: LiveRound) -> BatchHeader:
        """Mix the round's input into `live.folder.outgoing`; return the batch header.

        This is a separate step, so that an experiment can replace an honest node by an adversary.
        """
        if live.require_terms().mixing is not None:
            return await mix_provably(live, self.identity, self.relay.roster, self.relay.patience)
        record = live.record
        done = await self._mix_with_retries(live)
        if done.dropped:
            self.metrics.dropped.inc(done.dropped)
            structlog.get_logger().warning(
                "onions dropped: repeated, or failed to decrypt",
                round=record.round_id,
                dropped=done.dropped,
            )
        return BatchHeader(
            round_id=record.round_id,
            position=record.position + 1,
            users=record.accepted,
            records=done.records,
            digest=done.digest,
            dropped=record.dropped_before + done.dropped,
        )

    async def _mix(self, live: LiveRound) -> None:
        started = time.monotonic()
        header = await self.mix_batch(live)
        await live.commit(
            live.record.finish_mixing(self.identity.sign(header), time.monotonic() - started)
        )
        # After the commit, never before: a crash in between finds the batch committed and erases
        # again, while input erased without a committed batch would lose the round. Without key and
        # input no one can link the two later.
        await in_thread(
            live.folder.erase_consumed, live.record.phase, answerable=live.record.answerable
        )

    async def _mix_with_retries(self, live: LiveRound) -> MixResult:
        record, terms, folder = live.record, live.require_terms(), live.folder
        layer = Layer(terms.geometry, record.round_id, record.position, live.require_key())
        before = record.dropped_before
        pool = record.accepted * terms.geometry.messages_per_user
        total = (
            pool
            if record.is_entry
            else terms.geometry.count_records(record.position, record.accepted, before)
        )
        units = record.accepted if record.is_entry else total
        added = terms.geometry.dummies_per_node
        source = folder.envelopes if record.is_entry else folder.incoming
        for attempt in range(1, MIXING_ATTEMPTS + 1):
            live.progress(0, added + total)
            try:
                dummies = await self._dummies(live, lambda done: live.progress(done, added + total))
                return await self._mix_once(
                    live,
                    Batch(layer, units, source, folder.outgoing, dummies),
                    lambda done: live.progress(added + done, added + total),
                    lambda dropped: check_dropped(before + dropped, record.accepted, terms),
                )
            except WorkersLost as error:
                structlog.get_logger().warning(
                    "mixing again after a lost worker",
                    round=record.round_id,
                    attempt=attempt,
                    reason=str(error),
                )
                lost = error
        raise NodeFault(f"mixing was abandoned after {MIXING_ATTEMPTS} attempts: {lost}")

    async def _mix_once(
        self,
        live: LiveRound,
        batch: Batch,
        progress: Callable[[int], None],
        allowed: DropCheck,
    ) -> MixResult:
        measured = self.metrics.record_stage
        # The cluster's actors get sealed units alone; a node adds its dummies itself.
        if self.cluster is not None and batch.added is None:
            return await self.cluster.mix(
                batch.layer,
                batch.units,
                batch.source,
                batch.target,
                system_random,
                progress,
                measured,
                allowed,
            )
        recorder = (
            None
            if self.corruption is None
            else self.corruption.recorder(live.record, batch.layer, live.folder)
        )
        return await mix(
            batch,
            self.pool,
            system_random,
            progress,
            measured,
            recorder,
            allowed,
            self.memory,
        )

    async def _dummies(self, live: LiveRound, progress: Callable[[int], None]) -> Path | None:
        """The file of this node's dummies, drawn at the first call; None without dummies.

        This is a separate step, so that an experiment can replace it by a node that adds no noise.
        """
        terms, path = live.require_terms(), live.folder.dummies
        if not terms.geometry.dummies_per_node:
            return None
        layers = LayersBehind(
            terms.geometry, live.record.round_id, terms.position, terms.public_keys
        )
        await make_dummies(path, terms.certificate.mechanism, layers, self.pool, progress)
        return path

    async def _relay(self, live: LiveRound) -> None:
        started = time.monotonic()
        record, terms = live.record, live.require_terms()
        if record.outgoing is None:
            raise NodeFault(f"the record of round {record.round_id} lacks the header of its batch")
        width = terms.geometry.record_bytes(record.position + 1)
        total = from_json(record.outgoing.body, BatchHeader).records

        async def forwarding() -> None:
            if (
                not live.record.forwarded
            ):  # on disk before a byte leaves: a discard must never deny what was sent
                await live.commit(live.record.begin_forwarding())

        live.progress(0, total)
        with self.metrics.time_stage(RELAY, total):
            await self.relay.send(
                terms.successor(self.relay.roster),
                record.outgoing,
                live.folder.outgoing,
                forwarding,
                lambda sent: live.progress(sent // width, total),
            )
        self.metrics.batch_bytes.labels("out").inc(total * width)
        # Killed before this commit, the node sends the batch again, which does no harm.
        await live.commit(live.record.finish_relaying(time.monotonic() - started))
        await in_thread(
            live.folder.erase_consumed, live.record.phase, answerable=live.record.answerable
        )
        structlog.get_logger().info("round relayed", round=record.round_id, records=total)
