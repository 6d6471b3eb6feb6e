"""The beginning of a round at a node: its round key, then its manifest."""

from __future__ import annotations

from collections.abc import Sequence

import structlog
from msgspec import UNSET

from shuffledp_core.documents.digests import document_digest
from shuffledp_core.documents.models import Certificate, Countersignature, RoundKey
from shuffledp_core.documents.signed import Signed
from shuffledp_core.errors import RoundStateError
from shuffledp_core.onion.suites import suite_named
from shuffledp_core.runtime.tasks import in_thread
from shuffledp_shuffler.checks import check_after_start, check_manifest, check_times
from shuffledp_shuffler.ledger_watch import LedgerWatch
from shuffledp_shuffler.live import LiveRound
from shuffledp_shuffler.mixproof.mixing import claim_check
from shuffledp_shuffler.mixproof.preparing import (
    SECRET_BYTES,
    MixingPart,
    check_memory,
    make_mixing_part,
    read_secret,
)
from shuffledp_shuffler.registry import NodeServices, RoundRegistry
from shuffledp_shuffler.round_state import RoundRecord
from shuffledp_shuffler.spool import Spool


async def prepare_round(
    services: NodeServices,
    rounds: RoundRegistry,
    ledgers: LedgerWatch,
    signed: Signed,
    plan: Certificate,
    position: int,
    suite: str,
    before: Sequence[bytes],
) -> Signed:
    """Create the signed round key for a plan whose certificate `signed` is already checked.

    Repeating the call gives the same key. See `MixNode.prepare`.
    """
    async with rounds.lock:
        # Asked of the disk: the id of a discarded round stays used after every restart.
        if services.store.discard_of(plan.round_id) is not None:
            raise RoundStateError(
                f"round {plan.round_id} was deleted on this node, and its id can never be used "
                "again"
            )
        if plan.round_id in rounds:
            live = rounds.get(plan.round_id)
            live.require_present()
            live.record.require_same_preparation(signed, position, suite)
            return live.record.round_key
        # An older round may be a discarded one that a restored backup does not contain.
        check_after_start(plan, rounds.started)
        await in_thread(ledgers.admit, plan)
        mixing = _mixing_part(services, signed, plan, position, suite, before)
        private, public = suite_named(suite).generate()
        key = RoundKey(
            deployment=services.roster.deployment,
            round_id=plan.round_id,
            node=services.identity.name,
            position=position,
            suite=suite,
            public_key=public.hex(),
            certificate_digest=document_digest(signed),
            corrupt=services.corrupt,
            mixing=mixing.public or UNSET,
        )
        if key.corrupt:
            structlog.get_logger().warning(
                "CORRUPT NODE: it may log all that it learns of this round", round=plan.round_id
            )
        round_key = services.identity.sign(key)
        record = RoundRecord(
            round_id=plan.round_id, position=position, certificate=signed, round_key=round_key
        )
        secrets = private + mixing.secret
        folder = await in_thread(services.store.create, record, secrets, mixing.withdrawals)
        live = LiveRound(folder, record, services.metrics)
        adopt_keys(live, secrets)
        rounds.add(live)
        return round_key


def _mixing_part(
    services: NodeServices,
    signed: Signed,
    plan: Certificate,
    position: int,
    suite: str,
    before: Sequence[bytes],
) -> MixingPart:
    return make_mixing_part(
        signed,
        plan,
        before,
        services.identity.name,
        position,
        suite,
        services.roster,
        services.submissions.admission,
        writes_down=services.work.corruption is not None,
    )


async def set_manifest(services: NodeServices, live: LiveRound, signed: Signed) -> Signed:
    """Countersign the manifest of a prepared round; see `MixNode.set_manifest`."""
    async with live.lock:
        live.require_present()
        record = live.record
        if record.manifest is None:
            terms = check_manifest(signed, record, services.roster)
            # Only the first time: a repetition, however late, gets the same countersignature.
            check_times(terms, services.clock())
            check_memory(terms, services.work.memory)
            opened = record.open(signed)
            live.terms = terms
            live.spool = live.spool or (make_spool(services, live) if record.is_entry else None)
            # On disk before it is countersigned, so that a second manifest is refused after a crash
            # as well.
            await live.commit(opened)
        # One manifest a round: this node enforces its counts and times, and every user must have
        # been shown the same ones.
        elif record.manifest != signed:
            raise RoundStateError(
                f"round {record.round_id} already has a different manifest; delete the round"
            )
    countersignature = Countersignature(
        round_id=record.round_id,
        node=services.identity.name,
        manifest_digest=document_digest(signed),
    )
    return services.identity.sign(countersignature)


def adopt_keys(live: LiveRound, packed: bytes) -> None:
    """Split a round's keys as stored on disk into round key and, if verified, mixing secrets."""
    length = suite_named(live.record.own_key().suite).private_key_bytes
    live.private_key = packed[:length]
    live.secret = read_secret(packed[length:]) if packed[length:] else None


def packed_key_bytes(key: RoundKey) -> int:
    """Length in bytes of a round's keys as stored on disk."""
    secret = 0 if key.mixing is UNSET else SECRET_BYTES
    return suite_named(key.suite).private_key_bytes + secret


def make_spool(services: NodeServices, live: LiveRound) -> Spool:
    """Open the store of a round's accepted submissions at its entry node."""
    terms, folder = live.require_terms(), live.folder
    live.claims = claim_check(live, services.roster)
    size = terms.geometry.envelope_bytes
    limit = terms.manifest.max_reports
    count = services.metrics.accepted.inc
    if live.claims is None:
        return Spool(folder.index, folder.envelopes, size, limit, count)
    return Spool(folder.index, folder.envelopes, size, limit, count, live.claims.guard)
