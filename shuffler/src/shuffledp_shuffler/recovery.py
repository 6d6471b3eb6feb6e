"""Recovery of a node's rounds after a restart: docs/protocol.md, "What survives a crash"."""

from __future__ import annotations

from typing import Final

import structlog

from shuffledp_core.errors import NodeFault, ShuffleDPError
from shuffledp_core.runtime.tasks import in_thread
from shuffledp_shuffler.checks import check_manifest
from shuffledp_shuffler.live import LiveRound
from shuffledp_shuffler.opening import adopt_keys, make_spool, packed_key_bytes
from shuffledp_shuffler.registry import NodeServices, RoundRegistry
from shuffledp_shuffler.round_state import KEYLESS, Phase, RoundRecord

_WORKING: Final = frozenset({Phase.MIXING, Phase.RELAYING})


async def recover_rounds(services: NodeServices, rounds: RoundRegistry) -> None:
    """Load every round from disk; resume what a crash interrupted.

    Damaged rounds fail, and so do open rounds if the state folder was idle for too long.
    """
    away = rounds.started - services.store.last_seen()
    for folder in services.store.folders():
        try:
            live = LiveRound(folder, folder.read(), services.metrics)
        except NodeFault as error:
            rounds.add_damaged(folder.round_id, error)
            structlog.get_logger().error("round damaged", round=folder.round_id, reason=str(error))
            continue
        rounds.add(live)
        await _resume(services, live, away)
        if live.record.phase in _WORKING:
            rounds.start_work(live, services.work)
    # Last: a crash while rounds are judged must not make an old copy look recent.
    await record_use(services)


async def record_use(services: NodeServices) -> None:
    """Record on disk the current time as the last use of the state folder."""
    try:
        await in_thread(services.store.be_seen, services.clock())
    except OSError as error:
        structlog.get_logger().error(
            "cannot record that the state folder is in use", reason=str(error)
        )


async def _resume(services: NodeServices, live: LiveRound, away: int) -> None:
    record = live.record
    try:
        if not record.has_ended:
            _require_trusted(services, record, away)
        if record.phase not in KEYLESS or (record.answerable and live.folder.has_key):
            adopt_keys(live, live.folder.read_key(packed_key_bytes(record.own_key())))
        if record.manifest is not None:
            # Without `check_times`: the round was open, and its closing time may be over by now.
            live.terms = check_manifest(record.manifest, record, services.roster)
            if record.is_entry:
                await _resume_spool(services, live)
    except ShuffleDPError as error:
        if not record.has_ended:
            await live.fail(error)
    # Without its secrets it cannot answer: an earlier process ended while it erased them and the
    # rest.
    answerable = live.record.answerable and live.secret is not None
    await in_thread(live.folder.erase_consumed, live.record.phase, answerable=answerable)


async def _resume_spool(services: NodeServices, live: LiveRound) -> None:
    phase = live.record.phase
    live.spool = make_spool(services, live)
    if phase in {Phase.OPEN, Phase.MIXING}:
        # Before it is read: what this disk lost is not a user's false claim.
        live.spool.require_whole()
    if live.claims is not None and phase is Phase.OPEN:
        await in_thread(live.claims.remember, live.folder.envelopes, live.spool.accepted_count)


def _require_trusted(services: NodeServices, record: RoundRecord, away: int) -> None:
    """Raise `NodeFault` for an open round on disk that must not continue.

    1. The state folder was idle for too long. It may be a restored backup: after it was made, this
       node may have signed that it forwarded nothing of the round, so that the round's budget was
       released.
    2. An honest node made the round's key, and this node runs an experiment's code.
    """
    if away > 1000 * services.away_seconds:  # 1
        raise NodeFault(
            f"the state folder was not in use for more than {services.away_seconds:g} s and may "
            "be a restored copy: its open rounds are abandoned (see `away_seconds`)"
        )
    if services.foreign and not record.own_key().corrupt:  # 2
        raise NodeFault(
            f"round {record.round_id} was prepared by an honest node; a node that runs foreign "
            "code does not continue it"
        )
