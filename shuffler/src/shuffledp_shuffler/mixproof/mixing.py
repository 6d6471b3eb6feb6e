"""Mixing of a verified round at one node, in memory: docs/mixing.md, "Hop i"."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ParamSpec, TypeVar

from shuffledp_core.documents.digests import digest
from shuffledp_core.documents.models import BatchHeader, Roster
from shuffledp_core.documents.signed import Signed, from_json
from shuffledp_core.errors import BadBatchError, NodeFault, RoundStateError, TooFewReportsError
from shuffledp_core.mixproof.claiming import (
    EnrolledClaim,
    pack_claim,
    pack_dummies_claim,
    signed_enrolments,
)
from shuffledp_core.mixproof.claims import list_digest, signed_list
from shuffledp_core.mixproof.group import number
from shuffledp_core.mixproof.history import (
    Accusation,
    History,
    check_claims,
    check_history,
    most_accused,
    most_bytes,
    pack_document,
    unpack_document,
)
from shuffledp_core.mixproof.hops import Hop
from shuffledp_core.mixproof.manifests import mixing_part
from shuffledp_core.mixproof.terms import MixTerms
from shuffledp_core.runtime.files import write_atomic
from shuffledp_core.runtime.keys import Identity
from shuffledp_core.runtime.tasks import in_thread
from shuffledp_core.sampling.randomness import system_random
from shuffledp_shuffler.live import LiveRound
from shuffledp_shuffler.mixproof.claims import ClaimCheck, open_sealed, split_submission
from shuffledp_shuffler.mixproof.dummies import (
    dummies_of,
    dummies_sent,
    listed_dummies,
    require_own_dummies,
)
from shuffledp_shuffler.round_state import MIXING_ATTEMPTS

P = ParamSpec("P")
T = TypeVar("T")


async def mix_provably(
    live: LiveRound, identity: Identity, roster: Roster, patience: float
) -> BatchHeader:
    """Mix the round's input into `live.folder.outgoing`; return the signed batch header.

    Records that fail to decrypt are accused. The node then waits up to `patience` seconds until all
    of them are traced to their users, who are left out; nothing leaves the node before that. After
    a crash before the batch is committed, mixing starts again in another order, because no party
    has seen the first order. The accusation stays the same.

    Raises:
        BadListError, BadHopError, BadBlameError, UnansweredError, TooFewReportsError: the input
        does not verify; the message names the party at fault, if there is one.
        NodeFault: every attempt at the batch so far has crashed this node's process.
    """
    mixing = _mixing(live)
    total = mixing.count_messages(live.record.accepted)
    live.progress(0, total)
    if mixing.dummies and live.record.is_entry:
        await dummies_of(live, identity)
    hop, history = await in_thread(_attempt, live, take_input, live, identity, roster)
    accused = await in_thread(_attempt, live, _accuse, live, hop)
    if accused:
        transcript = await live.settlement.wait_for_transcript(hop, accused, patience)
        history = replace(history, transcripts=(*history.transcripts, transcript))
    header = await in_thread(_attempt, live, _release, live, hop, history)
    await in_thread(live.folder.count_attempts, 0)
    live.progress(total, total)
    return header


def _accuse(live: LiveRound, hop: Hop) -> int:
    """Store the accusation of all records that fail to decrypt; return their number."""
    file, most = live.folder.accusation, most_accused(live.require_terms().manifest)
    if file.exists():
        accusation = unpack_document(file.read_bytes(), Accusation)
        hop.resume_accusation(accusation.accused)
        return len(accusation.accused)
    accused = hop.accuse(system_random)
    if len(accused) > most:
        raise TooFewReportsError(
            f"{len(accused)} records failed to decrypt at position {hop.position}, more than the "
            f"{most} that may be left out: nothing is forwarded, and no party can be blamed"
        )
    if accused:
        write_atomic(file, pack_document(Accusation(_history_of(live), accused)))
    return len(accused)


def _release(live: LiveRound, hop: Hop, history: History) -> BatchHeader:
    header, records = hop.release(system_random)
    passed_on = replace(history, headers=(*history.headers, header)).to_bytes()
    most = most_bytes(live.require_terms().manifest)
    if len(passed_on) > most:
        raise BadBatchError(
            f"the history would have {len(passed_on)} bytes, but the next party accepts only "
            f"{most}: nothing is forwarded"
        )
    batch = passed_on + b"".join(records)
    # The order first: a batch that is committed can then be answered for after every crash.
    write_atomic(live.folder.order, b"".join(number(index) for index in hop.order))
    write_atomic(live.folder.outgoing, batch)
    return BatchHeader(
        round_id=live.record.round_id,
        position=live.record.position + 1,
        users=hop.chain.users,
        records=len(records),
        digest=digest(batch),
        history=len(passed_on),
    )


def _history_of(live: LiveRound) -> History:
    """The history that came with the input batch."""
    with live.folder.incoming.open("rb") as file:
        return History.from_bytes(file.read(_history_bytes(live.record.incoming)))


def _history_bytes(signed: Signed | None) -> int:
    header = None if signed is None else from_json(signed.body, BatchHeader)
    if header is None or not isinstance(header.history, int):
        raise NodeFault("the header of a verified round's batch is missing, or names no history")
    return header.history


def _attempt(live: LiveRound, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run work on the batch, unless earlier attempts crashed the process, as huge batches do.

    Crashes are counted until the batch is committed. If the count began again once the input is
    read, a process that always dies while it makes the output could try endlessly.
    """
    before = live.folder.attempts
    if before >= MIXING_ATTEMPTS:
        raise NodeFault(
            f"mixing was abandoned: this node crashed {before} times while it worked on the batch"
        )
    live.folder.count_attempts(before + 1)
    try:
        return work(*args, **kwargs)
    finally:
        live.folder.count_attempts(before)


def take_input(live: LiveRound, identity: Identity, roster: Roster) -> tuple[Hop, History]:
    """Check and decrypt the round's input; return this node's hop, and the history up to it."""
    return _entry(live, identity) if live.record.is_entry else _receive(live, identity, roster)


def require_output(live: LiveRound) -> None:
    """Raise `RoundStateError` if this node has no output, or has erased the data for answers."""
    live.require_secret()
    if live.record.outgoing is None:
        raise RoundStateError(f"this node has sent no batch in round {live.record.round_id}")


def resume_output(live: LiveRound, identity: Identity, roster: Roster) -> Hop:
    """Rebuild this node's hop with the output that it committed, to answer inquiries about it.

    Raises:
        RoundStateError: as `require_output`.
    """
    require_output(live)
    record = live.record
    hop, _ = take_input(live, identity, roster)
    data = live.folder.outgoing.read_bytes()
    length = _history_bytes(record.outgoing)
    places = live.folder.order.read_bytes()
    width = live.require_terms().geometry.record_bytes(record.position + 1)
    order = [int.from_bytes(places[at : at + 4], "big") for at in range(0, len(places), 4)]
    records = [data[at : at + width] for at in range(length, len(data), width)]
    hop.resume_output(order, History.from_bytes(data[:length]).headers[-1], records)
    return hop


def _mixing(live: LiveRound) -> MixTerms:
    mixing = live.require_terms().mixing
    if mixing is None:
        raise NodeFault(
            f"round {live.record.round_id} uses plain mixing, and has no keys for provable mixing"
        )
    return mixing


def _entry(live: LiveRound, identity: Identity) -> tuple[Hop, History]:
    """At node 1: the hop of the signed list of all accepted claims, and the history."""
    terms, check = _mixing(live), live.claims
    if check is None:
        raise NodeFault(
            f"this node has no means to verify the claims of round {live.record.round_id}"
        )
    claims, records = read_spool(live)
    dummies = listed_dummies(live, claims)
    listed = [*(enrolled.claim for enrolled in claims), *dummies.values()]
    signature = identity.sign_bytes(signed_list(terms, list_digest(terms, listed)))
    claim_list = check_claims(terms, claims, tuple(dummies.values()), check.enrolment, signature)
    hop = Hop(terms, claim_list, 1, live.require_secret(), identity.sign_bytes)
    hop.take(records | dummies_sent(live))
    enrolments = identity.sign_bytes(signed_enrolments(terms, claims))
    return hop, History(
        _withdrawals(live),
        signature,
        enrolments,
        (*map(pack_claim, claims), *map(pack_dummies_claim, dummies.values())),
    )


def read_spool(live: LiveRound) -> tuple[list[EnrolledClaim], dict[bytes, bytes]]:
    """The claims that node 1 accepted, by ascending credential, and each one's seed and records."""
    geometry = live.require_terms().geometry
    spooled = live.folder.envelopes.read_bytes()
    size = geometry.envelope_bytes
    accepted = (
        spooled[start : start + size] for start in range(0, live.record.accepted * size, size)
    )
    submissions = sorted(
        (split_submission(geometry, submission) for submission in accepted),
        key=lambda submission: submission[0].claim.credential,
    )
    key = live.require_key()
    records = {
        enrolled.claim.credential: open_sealed(geometry, live.record.round_id, key, sealed)
        for enrolled, sealed in submissions
    }
    return [enrolled for enrolled, _ in submissions], records


def _withdrawals(live: LiveRound) -> bytes:
    file = live.folder.withdrawals
    return file.read_bytes() if file.exists() else b""


def _receive(live: LiveRound, identity: Identity, roster: Roster) -> tuple[Hop, History]:
    """At nodes 2 to L: the hop with the checked batch of the predecessor, and the history."""
    mixing = _mixing(live)
    terms = live.require_terms()
    record = live.record
    if record.incoming is None:
        raise NodeFault(f"the record of round {record.round_id} lacks the header of its batch")
    header = from_json(record.incoming.body, BatchHeader)
    length = _history_bytes(record.incoming)
    with live.folder.incoming.open("rb") as file:
        history = History.signed_by(record.incoming.signer, file.read(length), terms.manifest)
        data = file.read()
    if (
        history.board_signature
    ):  # no one has read it, and what is passed on with it could be too long for the next node
        raise BadBatchError(
            "the history before a batch has the signature of a board, which does not exist yet"
        )
    population = roster.population(terms.certificate.population)
    claim_list = check_history(
        history, terms.manifest, mixing, population, mixing_part(terms.route[0])
    )
    require_own_dummies(live, claim_list)
    hop = Hop(mixing, claim_list, record.position, live.require_secret(), identity.sign_bytes)
    width = terms.geometry.record_bytes(record.position)
    hop.receive(
        history.headers,
        history.transcripts,
        [data[at : at + width] for at in range(0, len(data), width)],
    )
    if hop.chain.users != header.users:
        raise BadBatchError(
            f"{terms.predecessor()} signed for {header.users} reports, but the signed list and "
            f"the exclusions leave {hop.chain.users}"
        )
    return hop, history


def claim_check(live: LiveRound, roster: Roster) -> ClaimCheck | None:
    """The entry node's checks of a verified round, or None; raises what `ClaimCheck.of` raises."""
    terms = live.require_terms()
    if terms.mixing is None:
        return None
    population = roster.population(terms.certificate.population)
    return ClaimCheck.of(
        terms.manifest, terms.mixing, population, terms.route[0], _withdrawals(live)
    )
