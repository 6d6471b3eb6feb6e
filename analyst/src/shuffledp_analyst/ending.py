"""End of a round: announce the result, have every node erase the round, and release its budget.

The budget is released only where that is sound.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import structlog

from shuffledp_analyst.config import AnalystConfig
from shuffledp_analyst.disk import write_when_room
from shuffledp_analyst.metrics import AnalystMetrics
from shuffledp_analyst.peers import MAX_RETRY_SECONDS, RETRY_SECONDS, Peers
from shuffledp_analyst.progress import ENDED, Event, Progress
from shuffledp_analyst.records import Records
from shuffledp_analyst.static_files import export_board
from shuffledp_core.documents.digests import document_digest
from shuffledp_core.documents.models import Result
from shuffledp_core.documents.signed import Signed
from shuffledp_core.errors import LedgerError, ShuffleDPError, UnreachableError
from shuffledp_core.runtime.keys import Identity
from shuffledp_core.runtime.tasks import in_thread
from shuffledp_core.transparency.logged import check_result_logged
from shuffledp_core.transport.announce import manifest_topic, result_topic
from shuffledp_core.vocabulary import Outcome


@dataclass(frozen=True)
class AnalystServices:
    """Services shared by all rounds of an analyst.

    `clock` gives ms since 1970; `publish` takes topic and bytes.
    """

    config: AnalystConfig
    deployment: str
    identity: Identity
    peers: Peers
    records: Records
    clock: Callable[[], int]
    publish: Callable[[str, bytes], None]
    metrics: AnalystMetrics
    unlogged: set[str] = field(default_factory=set)
    """Ended rounds whose result the public log is about to get: readers are not shown it yet."""

    def failed_result(self, round_id: str, error: ShuffleDPError) -> Signed:
        """Sign a result that states only that the round failed, and the reason."""
        return self.identity.sign(
            Result(
                deployment=self.deployment,
                round_id=round_id,
                outcome=Outcome.FAILED,
                reason=str(error),
                error=type(error).__name__,
            )
        )

    def withdraw(self, round_id: str) -> None:
        """Clear the announcement at the broker, so that devices do not consider the round open."""
        self.publish(manifest_topic(self.deployment, round_id), b"")

    def announce_end(self, round_id: str, progress: Progress) -> None:
        """Announce the result on disk to the broker and all followers."""
        # Read back from the disk: what is announced now is what a restart would announce.
        result = self.records.files(round_id).result()
        self.withdraw(round_id)
        self.publish(result_topic(self.deployment, round_id), result)
        progress.report(Event(ENDED, result=result))

    async def finish(self, round_id: str) -> None:
        """Record that a round needs no more work, once the disk has room for that."""

        async def finish() -> None:
            # Not in a thread: a party that has heard of the end must find the round gone.
            self.records.files(round_id).finish()

        await write_when_room(finish)


async def end_failed(
    services: AnalystServices,
    round_id: str,
    route: Sequence[str],
    error: ShuffleDPError | None,
    progress: Progress,
) -> None:
    """End a round without a result, and return when nothing is left to do.

    The nodes are asked once before the failure is announced, so that the budget is back by then if
    they all answer. `error` is None for a round whose failed result is on disk already.
    """
    files = services.records.files(round_id)
    if error is not None:
        await in_thread(files.erase_arrived)  # makes room for what is written below
    discarding = Discarding(services, round_id, route, release=True)
    done = await discarding.attempt()
    if error is not None:
        # On disk before anyone is told: a restarted analyst must not go on with a round that it
        # has declared failed.
        result = services.failed_result(round_id, error)
        await write_when_room(lambda: in_thread(files.fail, result))
        services.metrics.rounds.labels(type(error).__name__).inc()
    services.announce_end(round_id, progress)
    if not done:
        await discarding.persist(services.config.discard_seconds)
    await services.finish(round_id)


async def end_published(
    services: AnalystServices, round_id: str, route: Sequence[str], progress: Progress
) -> None:
    """Log and announce the result on disk, and have every node erase the round.

    The operator does not wait for unreachable witnesses: after `recovery_seconds` the result is
    announced without its proof, and devices that require one ask again. Returns when nothing is
    left to do.
    """
    logging = asyncio.ensure_future(_log_result(services, round_id))
    try:
        await asyncio.wait({logging}, timeout=services.config.recovery_seconds)
        services.unlogged.discard(round_id)
        await _export_board(services, round_id)
        services.announce_end(round_id, progress)
        discarding = Discarding(services, round_id, route, release=False)
        await discarding.persist(services.config.discard_seconds)
        await logging
    finally:
        logging.cancel()
    await services.finish(round_id)


async def _export_board(services: AnalystServices, round_id: str) -> None:
    """Copy board and tiles into the web server's folder. The analyst also serves them itself."""
    public = services.config.public
    if public is None:
        return
    try:
        await in_thread(export_board, services.records.files(round_id), round_id, public)
    except OSError as error:
        structlog.get_logger().warning(
            "board not copied for the web server; free space or repair the folder (docs/tiles.md)",
            round=round_id,
            folder=str(public),
            reason=error.strerror,
        )


async def _log_result(services: AnalystServices, round_id: str) -> None:
    """Have the accountant add a round's result to the public log, and store the proof."""
    files = services.records.files(round_id)
    log = structlog.get_logger().bind(round=round_id)
    if files.log_proof():
        return
    signed = Signed.from_bytes(files.result())
    roster = services.peers.roster
    digest = document_digest(signed)
    try:
        proof = await services.peers.persistently(
            lambda: services.peers.log_result(round_id, digest), services.config.settle_seconds
        )
        if roster.log_terms is not None:
            population = files.plan().population
            check_result_logged(proof, roster, population, signed)
            await write_when_room(lambda: in_thread(files.keep_log_proof, proof))
    except ShuffleDPError as error:
        log.warning("result not in the public log: devices refuse it", reason=str(error))


class Discarding:
    """Collects each node's discard, then asks the accountant for a release if it is sound.

    Releasing is sound if every node of the route signs that it forwarded nothing: one of them is
    honest by assumption, and without it no one can read the messages. docs/protocol.md, section
    "Discards".
    """

    def __init__(
        self, services: AnalystServices, round_id: str, route: Sequence[str], *, release: bool
    ) -> None:
        self._peers = services.peers
        self._files = services.records.files(round_id)
        self._round_id = round_id
        self._missing = list(route)
        self._discards: list[Signed] = []
        self._release = release
        self._log = structlog.get_logger().bind(round=round_id)

    async def attempt(self) -> bool:
        """Ask every node without a discard once; return True if nothing is left to do."""
        answers = await asyncio.gather(*(self._ask(name) for name in self._missing))
        self._missing = [
            name for name, answered in zip(self._missing, answers, strict=True) if not answered
        ]
        # Devices ask for them, with the result.
        await write_when_room(lambda: in_thread(self._files.keep_discards, self._discards))
        if self._missing or not self._release:
            return not self._missing
        try:
            await self._peers.release(self._round_id, self._discards)
        # These two may pass; any other error is the accountant's decision, and asking again would
        # not change it.
        except (UnreachableError, LedgerError) as error:
            self._log.warning("charge not released yet; trying again", reason=str(error))
            return False
        except ShuffleDPError as error:
            self._log.warning("the accountant refused to release the charge", reason=str(error))
        else:
            self._log.info("charge released")
        return True

    async def persist(self, seconds: float) -> None:
        """Repeat `attempt` until nothing is left to do, for at most `seconds`."""
        loop = asyncio.get_running_loop()
        deadline, pause = loop.time() + seconds, RETRY_SECONDS
        while not await self.attempt():
            if loop.time() > deadline:
                self._log.warning(
                    "gave up asking nodes to discard the round"
                    if self._missing
                    else "gave up asking the accountant to release the charge",
                    missing=self._missing,
                )
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, MAX_RETRY_SECONDS)

    async def _ask(self, name: str) -> bool:
        try:
            discard, forwarded = await self._peers.delete(name, self._round_id)
        except ShuffleDPError as error:
            self._log.warning("node has not discarded the round yet", node=name, reason=str(error))
            return False
        # Someone may have seen messages: the accountant is not even asked, and the charge stays.
        if forwarded and self._release:
            self._log.warning("charge not released: the node had forwarded messages", node=name)
            self._release = False
        self._discards.append(discard)
        return True
