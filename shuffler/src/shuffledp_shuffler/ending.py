"""The end of a round at a node: submissions close, it is abandoned, or the analyst deletes it."""

from __future__ import annotations

import structlog

from shuffledp_core.documents.models import Discard
from shuffledp_core.documents.signed import Signed
from shuffledp_core.errors import ExpiredDocumentError, TooFewReportsError
from shuffledp_core.runtime.tasks import in_thread
from shuffledp_shuffler.live import LiveRound
from shuffledp_shuffler.metrics import DELETED
from shuffledp_shuffler.mixproof.dummies import require_all_dummies
from shuffledp_shuffler.registry import NodeServices, RoundRegistry
from shuffledp_shuffler.round_state import Phase


async def close_round(services: NodeServices, rounds: RoundRegistry, live: LiveRound) -> int:
    """Close submissions and start to mix; see `MixNode.close_round`."""
    async with live.lock:
        live.require_present()
        if live.record.phase is Phase.FAILED:
            live.record.raise_failure()
        if live.record.phase is Phase.PREPARED:
            live.require_terms()
        if live.record.phase is Phase.OPEN:
            await _close_open_round(services, live)
            rounds.start_work(live, services.work)
        live.require_spool()
        return live.record.accepted


async def _close_open_round(services: NodeServices, live: LiveRound) -> None:
    require_all_dummies(live)
    # A crash before the commit leaves the round OPEN and its spool taking submissions; the analyst
    # closes it again.
    accepted = await live.require_spool().close()
    try:
        closed = live.record.close(accepted, live.require_terms().manifest.min_reports)
    except TooFewReportsError as error:
        await live.fail(error)
        raise
    await live.commit(closed)
    size = accepted * live.require_terms().geometry.envelope_bytes
    services.metrics.batch_bytes.labels("in").inc(size)


async def abandon_overdue_round(services: NodeServices, live: LiveRound, patience: int) -> None:
    """Fail a waiting round that closed `patience` milliseconds ago, and erase its keys.

    If a verified round is done, erase what inquiries about its mixing need.
    """
    async with live.lock:
        record = live.record
        waits = record.phase in {Phase.PREPARED, Phase.OPEN}
        answers = record.phase is Phase.DONE and record.answerable and live.secret is not None
        if not (waits or answers) or live.deleted:
            return
        end = live.terms.manifest.closes_at if live.terms else record.plan().expires_at
        if services.clock() < end + patience:
            return
        if answers:
            await _erase_answers(live)
            return
        reason = f"round {record.round_id} was abandoned: it ended at {end}"
        await live.fail(ExpiredDocumentError(reason))


async def _erase_answers(live: LiveRound) -> None:
    """Erase everything that inquiries about a verified round's mixing need.

    If the disk refuses, the next sweep tries again.
    """
    try:
        await in_thread(live.folder.erase_consumed, Phase.DONE)
    except OSError as error:
        structlog.get_logger().error(
            "cannot erase the files of an ended round",
            round=live.record.round_id,
            reason=str(error),
        )
    else:
        live.forget_secrets()


async def delete_round(services: NodeServices, rounds: RoundRegistry, round_id: str) -> Signed:
    """Erase everything of a round; see `MixNode.delete`."""
    while True:
        live = rounds.find(round_id)
        if live is not None:
            # Before the lock of all rounds: the job's thread runs to its end, which takes minutes
            # for a large batch.
            await _stop(live)
        async with rounds.lock:
            if rounds.find(round_id) is live:
                return await _discard(services, rounds, round_id, live)
        # Prepared or deleted in between: once more, with the present state.


async def _stop(live: LiveRound) -> None:
    """Stop all work on a round that is to be deleted; its record stays unchanged."""
    async with live.lock:
        live.deleted = True
        await live.stop()


async def _discard(
    services: NodeServices, rounds: RoundRegistry, round_id: str, live: LiveRound | None
) -> Signed:
    """Erase a stopped, damaged or unknown round; return the signed discard.

    This holds the lock under which keys are made, so that no new key is made for a round that is
    being deleted.
    """
    earlier = services.store.discard_of(round_id)
    if earlier is not None:
        return earlier
    # A damaged round may have forwarded something: its budget must stay charged.
    forwarded = rounds.is_damaged(round_id)
    if live is not None:
        # The round is stopped: this cannot turn true after it was read and signed.
        forwarded = live.record.forwarded
        if not live.record.has_ended:
            services.metrics.rounds_ended.labels(DELETED).inc()
    discard = Discard(round_id=round_id, node=services.identity.name, forwarded=forwarded)
    signed = services.identity.sign(discard)
    await in_thread(services.store.discard, round_id, signed)
    rounds.remove(round_id)
    return signed
