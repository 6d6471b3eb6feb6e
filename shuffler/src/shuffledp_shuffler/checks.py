"""A mix node's checks of everything that other parties send.

Pure: the roster and the time are parameters.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from msgspec import UNSET

from shuffledp_core.documents import submission
from shuffledp_core.documents.digests import document_digest
from shuffledp_core.documents.losses import most_dropped
from shuffledp_core.documents.models import (
    BatchHeader,
    Certificate,
    Manifest,
    Party,
    Roster,
    RoundKey,
)
from shuffledp_core.documents.signed import Signed
from shuffledp_core.documents.submission import GenuineClaim
from shuffledp_core.errors import (
    AccessDenied,
    BadBatchError,
    ClientFault,
    DocumentError,
    ExpiredDocumentError,
    ForeignDocumentError,
    MalformedDocumentError,
    RoundKeyError,
    SubmissionClosedError,
    UnknownRoundError,
)
from shuffledp_core.mixproof.history import most_bytes
from shuffledp_core.mixproof.manifests import check_mix, mix_terms
from shuffledp_core.mixproof.terms import MixTerms
from shuffledp_core.onion.geometry import MAX_HOPS, Geometry
from shuffledp_core.onion.suites import suite_named
from shuffledp_core.runtime.keys import require_current, verify_from
from shuffledp_core.vocabulary import ROUND_ID, CertificateStage, Role
from shuffledp_shuffler.round_state import ENTRY, RoundRecord

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")

CLOCK_MILLISECONDS: Final = 600_000
"""Largest difference between the parties' clocks: ten minutes. A round is announced as soon as it
is certified, and opens when it is announced.
"""


def check_round_id(round_id: str) -> str:
    """Return a round id that is fit to name a folder; raise `UnknownRoundError` for any other."""
    if not ROUND_ID.fullmatch(round_id):
        raise UnknownRoundError(
            f"a round id must be 32 lower-case hex digits, not {round_id[:80]!r}"
        )
    return round_id


def check_certificate(
    signed: Signed, roster: Roster, name: str, position: int, suite: str, now: int
) -> Certificate:
    """Verify the certificate of a plan before taking part in it; docs/protocol.md, "PrepareRound".

    1. It is signed by the roster's accountant, and the roster is current.
    2. It is for this deployment.
    3. Its stage is "plan", and the round id has the form of one.
    4. It has not expired at `now` (milliseconds since 1970), and was issued less than ten minutes
       before or after `now`: an older one may be of a round that has ended.
    5. Its route has node `name` at the position, and the suite is known. For settlement and release
       the accountant accepts headers and discards of that route only, so no other node may take
       part.

    Raises:
        DocumentError: one of its subclasses in steps 1 to 5; `StaleRosterError` for the
            roster, `UnknownRoundError` for the id, and `ConfigError` for the suite.
    """
    require_current(roster, now)  # 1
    certificate = verify_from(roster.accountant, signed, Certificate)
    _require_deployment(certificate.deployment, roster)  # 2
    if certificate.stage != CertificateStage.PLAN:  # 3
        raise ForeignDocumentError(
            f"a certificate of stage {certificate.stage!r} cannot open a round; send the plan "
            "certificate"
        )
    check_round_id(certificate.round_id)
    if now >= certificate.expires_at:  # 4
        raise ExpiredDocumentError(
            f"the certificate of round {certificate.round_id} expired at "
            f"{certificate.expires_at}, and this node's clock says {now}; ask the accountant for "
            "a new one"
        )
    if abs(now - certificate.issued_at) > CLOCK_MILLISECONDS:
        raise ExpiredDocumentError(
            f"the certificate of round {certificate.round_id} was issued at "
            f"{certificate.issued_at}, and this node's clock says {now}, more than the ten "
            "minutes within which a round must be opened: open a new round, or set the clocks"
        )
    if not 2 <= certificate.nodes <= MAX_HOPS:  # 5
        raise MalformedDocumentError(
            f"the certificate is for {certificate.nodes} nodes, but a route has 2 to {MAX_HOPS}"
        )
    if not 1 <= position <= certificate.nodes:
        raise ForeignDocumentError(
            f"a route of {certificate.nodes} nodes has no position {position}"
        )
    if certificate.route[position - 1] != name:
        raise ForeignDocumentError(
            f"{name} is not at position {position} of the certified route "
            f"{', '.join(certificate.route)[:200]}"
        )
    suite_named(suite)
    return certificate


def check_after_start(certificate: Certificate, started: int) -> None:
    """Refuse an unknown round that was certified before this node started (ms since 1970).

    A node remembers every round in which it has taken part since it started, and knows earlier ones
    from its disk. If the disk is a restored backup, the node could mix a round again whose budget
    was released. docs/protocol.md, "PrepareRound".

    Raises:
        ExpiredDocumentError: the certificate was issued before the start.
    """
    if certificate.issued_at < started:
        raise ExpiredDocumentError(
            f"the certificate of round {certificate.round_id} was issued "
            f"{(started - certificate.issued_at) / 1000:g} s before this node was started, and "
            "the node has no record of the round: open a new round, or set the clocks"
        )


def named_round(signed: Signed, roster: Roster) -> str:
    """The id of the round in a manifest that the analyst signed; raises what `verify` raises."""
    return verify_from(roster.analyst, signed, Manifest).round_id


@dataclass(frozen=True)
class Terms:
    """A verified manifest, with its certificate, its route and this node's position."""

    manifest: Manifest
    certificate: Certificate
    route: tuple[RoundKey, ...]
    position: int
    mixing: MixTerms | None = None
    """The terms of provable mixing; None in a plain round."""

    @property
    def geometry(self) -> Geometry:
        """The round's geometry."""
        return self.manifest.geometry

    @property
    def public_keys(self) -> tuple[bytes, ...]:
        """Round keys of the whole route, in route order."""
        return tuple(bytes.fromhex(key.public_key) for key in self.route)

    def predecessor(self) -> str | None:
        """Name of the node that sends this node its batch; None at the entry node."""
        return None if self.position == ENTRY else self.route[self.position - 2].node

    def successor(self, roster: Roster) -> Party:
        """The recipient of this node's batch: the next node, or the analyst after the last."""
        if self.position == len(self.route):
            return roster.analyst
        return roster.party(self.route[self.position].node)

    def require_open(self, now: int) -> None:
        """Raise `SubmissionClosedError` unless the manifest's times allow submissions at `now`.

        `now` is in milliseconds since 1970.
        """
        opens, closes = self.manifest.opens_at, self.manifest.closes_at
        if now < opens:
            raise SubmissionClosedError(
                f"round {self.manifest.round_id} opens at {opens}, and this node's clock says "
                f"{now}; submit again after it has opened"
            )
        if now >= closes:
            raise SubmissionClosedError(
                f"round {self.manifest.round_id} closed at {closes}, and this node's clock says "
                f"{now}"
            )


def check_manifest(signed: Signed, record: RoundRecord, roster: Roster) -> Terms:
    """Verify the manifest that a node is to countersign; docs/protocol.md, "SetManifest".

    `check_times` checks the times in it.

    1. It is signed by the roster's analyst, for this deployment and this round.
    2. The certificate inside is the one the round was prepared with.
    3. Every round key on the route verifies, in order (`_check_route`).
    4. The key at our position is exactly the one we made.
    5. The geometry is the one that mechanism, suite, route and mixing give.
    6. The smallest number of reports is at most the largest, and not below the number for which the
       certificate was computed.
    7. In a verified round the mixing keys of the whole route hold (docs/mixing.md, K1 to K3), and
       its claims are judged by the enrolment key of this roster (C1).

    Raises:
        DocumentError: one of its subclasses in steps 1, 2, 5 and 6; `ForeignDocumentError`
            for the enrolment key of step 7.
        RoundKeyError: steps 3, 4 and 7.
    """
    manifest = verify_from(roster.analyst, signed, Manifest)  # 1
    _require_deployment(manifest.deployment, roster)
    if manifest.round_id != record.round_id:
        raise ForeignDocumentError(
            f"the manifest is for round {manifest.round_id[:80]!r}, not {record.round_id}"
        )
    # The whole document: clients believe the certificate in the manifest, and this node promised
    # its key for that one.
    if document_digest(manifest.certificate) != document_digest(record.certificate):  # 2
        raise ForeignDocumentError(
            "the manifest's certificate is not the one with which this round was prepared"
        )
    certificate = record.plan()
    route = _check_route(manifest.route, certificate, record, roster)  # 3
    # Signed by this node is not enough: it must be the key whose private half is here, or no onion
    # would open.
    if manifest.route[record.position - 1] != record.round_key:  # 4
        raise RoundKeyError(
            f"the round key at position {record.position} of the route is not the one that this "
            "node made for the round"
        )
    if manifest.geometry != _geometry(certificate, record.own_key().suite):  # 5
        raise MalformedDocumentError(
            "the manifest's geometry is not the one that mechanism, suite, route and mixing "
            "determine"
        )
    # ε falls as the crowd grows: a round that continues with fewer reports than this is not covered
    # by its certificate.
    if not 1 <= certificate.users <= manifest.min_reports <= manifest.max_reports:  # 6
        raise MalformedDocumentError(
            f"the manifest allows {manifest.min_reports} to {manifest.max_reports} reports, "
            f"which does not fit a certificate for at least {certificate.users}"
        )
    check_mix(certificate, route)  # 7
    mixing = (
        mix_terms(signed, manifest, certificate, route, roster) if certificate.verified else None
    )
    return Terms(manifest, certificate, route, record.position, mixing)


def _geometry(certificate: Certificate, suite: str) -> Geometry:
    try:
        return Geometry.of(certificate.mechanism, suite, certificate.nodes, certificate.mix)
    except ValueError as error:
        raise MalformedDocumentError(f"no round has this mechanism: {error}") from error


def check_times(terms: Terms, now: int) -> None:
    """Check a manifest's times at `now` (milliseconds since 1970).

    1. The round opens before it closes. 2. The closing time is in the future. 3. The round closes
    before the certificate expires. 4. The round opens now, up to the clocks' largest difference: an
    analyst announces a round when it opens it, so anything else means that a clock is wrong.

    Raises:
        ExpiredDocumentError: steps 2 and 4. MalformedDocumentError: steps 1 and 3.
    """
    opens, closes = terms.manifest.opens_at, terms.manifest.closes_at
    if not opens < closes:  # 1
        raise MalformedDocumentError(
            f"the manifest's opening time, {opens}, is not before its closing time, {closes}"
        )
    if closes <= now:  # 2
        raise ExpiredDocumentError(
            f"the round closed at {closes}, and this node's clock says {now}; open a new round, "
            "or set the clocks"
        )
    if closes > terms.certificate.expires_at:  # 3
        raise MalformedDocumentError(f"closing at {closes} is after the certificate expires")
    if opens - now > CLOCK_MILLISECONDS:  # 4
        raise ExpiredDocumentError(
            f"the round opens in {(opens - now) / 1000:g} s by this node's clock, but now by the "
            "analyst's; set the clocks"
        )


def check_header(signed: Signed, peer: str, roster: Roster) -> BatchHeader:
    """Verify the header of a batch from `peer` under its identity key; it names the round.

    Raises:
        DocumentError: the header is not signed by the caller.
        UnknownRoundError: the header names no valid round id.
    """
    # Under the identity key, too: a stolen TLS key alone must not commit a node to a batch.
    header = verify_from(roster.party(peer), signed, BatchHeader)
    check_round_id(header.round_id)
    return header


def check_batch(header: BatchHeader, peer: str, terms: Terms) -> int:
    """Check that a header fits the round.

    Returns the number of bytes that must follow. docs/protocol.md, "Batches".

    1. The caller is our predecessor on the route.
    2. The batch is meant for our position.
    3. The number of users is one that the manifest allows.
    4. The number of records is that of all users' messages and of the earlier nodes' dummies, less
       those dropped before, which are not too many.
    5. The digest is 64 digits of lower-case hex.

    Raises:
        AccessDenied: step 1. BadBatchError: steps 2 to 5.
    """
    if peer != terms.predecessor():  # 1
        raise AccessDenied(
            f"{peer!r} is not the predecessor of position {terms.position} in this round"
        )
    if header.position != terms.position:  # 2
        raise BadBatchError(
            f"the batch is for position {header.position}, but this node is at position "
            f"{terms.position}"
        )
    manifest = terms.manifest
    # It bounds the bytes that are read as well: their number follows from this one.
    if not manifest.min_reports <= header.users <= manifest.max_reports:  # 3
        raise BadBatchError(
            f"the batch header states {header.users} users, but the round allows "
            f"{manifest.min_reports} to {manifest.max_reports}"
        )
    check_dropped(header.dropped, header.users, terms)  # 4
    expected = terms.geometry.count_records(terms.position, header.users, header.dropped)
    if header.records != expected:
        raise BadBatchError(
            f"the batch header states {header.records} records, but {header.users} users and the "
            f"dummies of {terms.position - 1} nodes, less {header.dropped} dropped ones, make "
            f"{expected}"
        )
    if not _DIGEST.fullmatch(header.digest):  # 5
        raise BadBatchError("the digest of the batch must be 64 lower-case hex digits")
    return _history_bytes(header, terms) + expected * terms.geometry.record_bytes(terms.position)


def _history_bytes(header: BatchHeader, terms: Terms) -> int:
    """Length in bytes of the history in front of the records, in a batch of a verified round.

    It is bounded, because the history is read before it is verified.
    """
    if terms.mixing is None:
        if header.history is not UNSET:
            raise BadBatchError("a batch of a plain round must have no history")
        return 0
    most = most_bytes(terms.manifest)
    if not isinstance(header.history, int) or not 0 < header.history <= most:
        raise BadBatchError(
            f"the batch header states a history of {header.history} bytes; in this round it must "
            f"have 1 to {most}"
        )
    return header.history


def check_dropped(dropped: int, users: int, terms: Terms) -> None:
    """Raise `BadBatchError` if the nodes so far have dropped more onions than the plan allows.

    docs/protocol.md, "Lost messages": beyond that limit there may be fewer honest reports than the
    certificate requires.
    """
    if dropped and terms.mixing is not None:
        raise BadBatchError("in a verified round no onion may be dropped")
    if dropped and not terms.certificate.mechanism.bears_losses:
        raise BadBatchError(
            f"{dropped} onions of {users} reports failed to decrypt or were repeated, but the "
            f"answer of {terms.certificate.mechanism.kind} needs every one: nothing is "
            "forwarded; run the round again"
        )
    most = most_dropped(users, terms.certificate.honest, terms.geometry.messages_per_user)
    # Below 0, too: it would make room for onions that no one sent.
    if not 0 <= dropped <= most:
        raise BadBatchError(
            f"{dropped} onions of {users} reports failed to decrypt or were repeated, but the "
            f"plan, which counts on {terms.certificate.honest} honest reports, tolerates at most "
            f"{most}: nothing is forwarded; plan for more colluding users"
        )


def check_claims(
    terms: Terms, roster: Roster, pairs: Sequence[tuple[Signed, Signed]]
) -> list[GenuineClaim | ClientFault]:
    """Check claims before their envelopes are read; see core's `check_claims`.

    `pairs` are credentials and claims.
    """
    population = roster.population(terms.certificate.population)
    enrolment = bytes.fromhex(population.enrolment_key)
    return submission.check_claims(terms.manifest.round_id, population.name, enrolment, pairs)


def _require_deployment(deployment: str, roster: Roster) -> None:
    if deployment != roster.deployment:
        raise ForeignDocumentError(
            f"the document is of deployment {deployment[:80]!r}, but this node belongs to "
            f"{roster.deployment!r}"
        )


def _check_route(
    route: tuple[Signed, ...], certificate: Certificate, record: RoundRecord, roster: Roster
) -> tuple[RoundKey, ...]:
    """Verify that each of a route's round keys is the certified node's own, for its position."""
    if tuple(signed.signer for signed in route) != certificate.route:
        raise RoundKeyError(
            f"the manifest's route is not the certified one, {', '.join(certificate.route)[:200]}"
        )
    own_key = record.own_key()
    keys = check_round_keys(
        route, record.round_id, own_key.suite, own_key.certificate_digest, roster
    )
    if len({key.node for key in keys}) != len(keys):
        raise RoundKeyError("a node occurs twice on the manifest's route")
    return keys


def check_round_keys(
    route: tuple[Signed, ...], round_id: str, suite: str, certified: str, roster: Roster
) -> tuple[RoundKey, ...]:
    """Verify round keys of a route's first nodes, or all, against position, suite and certificate.

    `certified` is the certificate's digest.

    Raises `RoundKeyError` for a key that does not fit.
    """
    keys = tuple(_route_key(signed, roster) for signed in route)
    for position, key in enumerate(keys, start=1):
        # Each key names the certificate that its node was shown: all must have agreed to the same
        # plan.
        here = (roster.deployment, round_id, position, suite, certified)
        if (key.deployment, key.round_id, key.position, key.suite, key.certificate_digest) != here:
            raise RoundKeyError(
                f"the round key of {key.node!r} is for another deployment, round, position, "
                "suite or plan"
            )
        if not re.fullmatch(
            rf"[0-9a-f]{{{2 * suite_named(suite).public_key_bytes}}}", key.public_key
        ):
            raise RoundKeyError(
                f"the round key of {key.node!r} does not have the length of a {suite} key"
            )
    return keys


def _route_key(signed: Signed, roster: Roster) -> RoundKey:
    try:
        party = roster.party(signed.signer)
        key = verify_from(party, signed, RoundKey)
    except DocumentError as error:
        raise RoundKeyError(
            f"a round key on the route is not signed by its node: {error}"
        ) from error
    if party.role != Role.NODE or key.node != party.name:
        raise RoundKeyError(
            f"{signed.signer!r} signed a round key that names {key.node[:80]!r}, or is not a mix "
            "node"
        )
    return key
