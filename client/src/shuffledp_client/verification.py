"""Verification of a round by a client, in numbered steps. Pure.

It takes an announcement, a roster, a policy and a time.

`verify_documents` checks that the documents are genuine and fit together, whenever the round was;
`verify_round` also that this user may take part in it now. It alone makes a `CheckedRound`, which
`submission.prepare` requires: nothing can be sealed for a round that was not verified.
"""

from __future__ import annotations

from dataclasses import InitVar, dataclass
from typing import Final

from shuffledp_client.claims import check_claims
from shuffledp_client.policy import Policy, check_policy
from shuffledp_core.documents.digests import document_digest
from shuffledp_core.documents.models import (
    Announcement,
    Certificate,
    Countersignature,
    Manifest,
    Party,
    Roster,
    RoundKey,
)
from shuffledp_core.documents.signed import MAX_DOCUMENT_BYTES, Signed, from_json
from shuffledp_core.errors import (
    ConfigError,
    ExpiredDocumentError,
    ForeignDocumentError,
    LogProofError,
    MalformedDocumentError,
    RoundKeyError,
    SignatureError,
    SubmissionClosedError,
)
from shuffledp_core.mechanisms import Mechanism
from shuffledp_core.mixproof.manifests import check_mix, mix_terms
from shuffledp_core.mixproof.terms import MixTerms
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.onion.layers import binding
from shuffledp_core.onion.suites import suite_named
from shuffledp_core.runtime.keys import require_current, verify_from
from shuffledp_core.transparency.logged import (
    CosignedCheckpoint,
    check_logged,
    check_same_history,
)
from shuffledp_core.vocabulary import ROUND_ID, CertificateStage, Role

_ONLY_HERE: Final = object()


@dataclass(frozen=True)
class CheckedRound:
    """A round that passed every check, with everything needed to take part.

    Picklable, holds no secret.
    """

    deployment: str
    round_id: str
    announcement: Announcement
    """All that was verified; kept to show what was sent, and under which manifest."""
    mechanism: Mechanism
    geometry: Geometry
    public_keys: tuple[bytes, ...]
    entry: Party
    """The node that takes submissions."""
    certificate: Certificate
    certificate_digest: str
    closes_at: int
    """Milliseconds since 1970 (UTC)."""
    corrupt: tuple[str, ...] = ()
    """Nodes of the route that say they are corrupt; only a policy that allows them lets any in."""
    mixing: MixTerms | None = None
    """Of a verified round."""
    log: CosignedCheckpoint | None = None
    """The public log with this round in it; None where it was not required."""
    made_by: InitVar[object] = None

    def __post_init__(self, made_by: object) -> None:
        if made_by is not _ONLY_HERE:
            raise ValueError("a CheckedRound is created only by verify_round")


@dataclass(frozen=True)
class RoundDocuments:
    """The documents of one round, verified and consistent.

    Neither the time nor a user's policy was checked.
    """

    manifest: Manifest
    certificate: Certificate
    certificate_digest: str
    route: tuple[Party, ...]
    keys: tuple[RoundKey, ...]
    mixing: MixTerms | None = None
    """Of a verified round, with the checked keys of its route."""

    @property
    def public_keys(self) -> tuple[bytes, ...]:
        """The round keys, in the route's order."""
        return tuple(bytes.fromhex(key.public_key) for key in self.keys)


def parse_announcement(data: bytes) -> Announcement:
    """Parses an announcement; nothing in it is trusted yet. Raises `MalformedDocumentError`."""
    if len(data) > MAX_DOCUMENT_BYTES:
        raise MalformedDocumentError(
            f"an announcement of {len(data)} bytes is longer than the {MAX_DOCUMENT_BYTES} bytes "
            "that a document may have"
        )
    return from_json(data, Announcement)


def verify_round(
    announcement: Announcement,
    roster: Roster,
    policy: Policy,
    population: str,
    now: int,
    round_id: str | None = None,
    remembered: CosignedCheckpoint | None = None,
) -> CheckedRound:
    """Check a round in every way that a client can; return the checked round.

    The client's steps of docs/protocol.md, "Submit".

    1. The roster is current; the manifest is signed by the analyst, for this deployment, and for
       the round that was asked for.
    2. The certificate is signed by the accountant, for this deployment, round and population, is a
       plan's, holds, and has not expired; the round aborts below the number of users it was
       computed for.
    3. The route is the certified one, of distinct nodes; every round key is signed by its node, in
       order, for this round, suite and certificate, and can be sealed to. In a verified round, and
       in no other, it has keys for the mixing, which hold (docs/mixing.md, "Keys").
    4. Every node of the route, and no other party, countersigned exactly this manifest.
    5. The geometry is the certified mechanism's, over as many hops as the route has.
    6. The round is open now.
    7. The certificate claims no more privacy than this device computes from the mechanism
       (`claims`).
    8. The user's policy allows it.
    9. Where the roster names witnesses: the certificate is in the public log, which enough of them
       signed, and which does not contradict what this device was shown before.

    Args:
        announcement: as parsed by `parse_announcement`.
        roster: verified under the pinned root key.
        policy: the user's own.
        population: the population of the user's credential.
        now: milliseconds since 1970 (UTC).
        round_id: the round that was asked for; None accepts any.
        remembered: the public log as this device saw it last.

    Raises:
        StaleRosterError: step 1.
        SignatureError: a signature is wrong or missing (steps 1 to 4).
        ForeignDocumentError: a genuine document of another round, deployment, party or population.
        MalformedDocumentError: a document breaks its schema, or they contradict each other (steps
            1, 2, 5).
        ExpiredDocumentError: step 2.
        RoundKeyError: step 3.
        SubmissionClosedError: step 6.
        FalseCertificateError: step 7; `MalformedDocumentError` for impossible numbers.
        ClientPolicyRefusal: step 8.
        LogProofError: step 9; `MalformedDocumentError` if the proof cannot be parsed.
    """
    require_current(roster, now)  # 1
    documents = verify_documents(announcement, roster, population, round_id)  # 1 to 5
    manifest, certificate = documents.manifest, documents.certificate
    # Not in `verify_documents`, by which evidence of rounds long over is checked, too.
    if now >= certificate.expires_at:  # 2
        raise ExpiredDocumentError(
            f"the certificate expired at {certificate.expires_at} ms; this device's clock says "
            f"{now} ms"
        )
    _check_open(manifest, now)  # 6
    corrupt = tuple(key.node for key in documents.keys if key.corrupt)
    check_claims(certificate)  # 7
    check_policy(policy, certificate, manifest.geometry, documents.route, corrupt)  # 8
    log = None
    if roster.log_terms is not None and policy.require_log:  # 9
        log = _check_log(announcement, roster, manifest, population, remembered)
    return CheckedRound(
        deployment=manifest.deployment,
        round_id=manifest.round_id,
        announcement=announcement,
        mechanism=certificate.mechanism,
        geometry=manifest.geometry,
        public_keys=documents.public_keys,
        entry=documents.route[0],
        certificate=certificate,
        certificate_digest=documents.certificate_digest,
        closes_at=manifest.closes_at,
        corrupt=corrupt,
        mixing=documents.mixing,
        log=log,
        made_by=_ONLY_HERE,
    )


def verify_documents(
    announcement: Announcement, roster: Roster, population: str, round_id: str | None = None
) -> RoundDocuments:
    """Check that a round's documents are genuine and match each other; return them.

    Steps 1 to 5 of `verify_round`, except for the time.
    """
    manifest = verify_from(roster.analyst, announcement.manifest, Manifest)  # 1
    _same("deployment", manifest.deployment, roster.deployment)
    if not ROUND_ID.fullmatch(manifest.round_id):
        raise MalformedDocumentError(
            f"a round id must be 32 lower-case hex digits, not {manifest.round_id!r}"
        )
    if round_id is not None:
        _same("round", manifest.round_id, round_id)
    certificate = _certificate(manifest, roster, population)  # 2
    certified = document_digest(manifest.certificate)
    route = tuple(_node_of(signed, roster) for signed in manifest.route)  # 3
    _check_route(route, certificate)
    keys = _round_keys(manifest, route, certified)
    _check_countersignatures(announcement, manifest, route)  # 4
    _check_geometry(manifest, certificate)  # 5
    check_mix(certificate, keys)  # 3
    terms = (
        mix_terms(announcement.manifest, manifest, certificate, keys, roster)
        if certificate.verified
        else None
    )
    return RoundDocuments(manifest, certificate, certified, route, keys, terms)


def _same(what: str, actual: str, expected: str) -> None:
    if actual != expected:
        raise ForeignDocumentError(
            f"expected a document for {what} {expected!r}, got one for {actual!r}; fetch the "
            "right one"
        )


def _certificate(manifest: Manifest, roster: Roster, population: str) -> Certificate:
    certificate = verify_from(roster.accountant, manifest.certificate, Certificate)
    _same("deployment", certificate.deployment, manifest.deployment)
    _same("round", certificate.round_id, manifest.round_id)
    _same("population", certificate.population, population)
    # A final certificate may state a smaller ε, for a crowd that has not come yet.
    _same("stage", certificate.stage, CertificateStage.PLAN)
    if not certificate.holds:
        raise MalformedDocumentError(
            "the certificate states that its guarantee does not hold; do not take part"
        )
    if (
        manifest.min_reports < certificate.users
    ):  # ε falls as the crowd grows: with fewer reports it is not certified
        raise MalformedDocumentError(
            f"the round would proceed with {manifest.min_reports} reports, but its certificate "
            f"assumes {certificate.users}; do not take part"
        )
    return certificate


def _check_geometry(manifest: Manifest, certificate: Certificate) -> None:
    hops = len(manifest.route)
    try:
        expected = Geometry.of(
            certificate.mechanism, manifest.geometry.suite, hops, certificate.mix
        )
    except (ValueError, ConfigError) as error:
        raise MalformedDocumentError(f"no client can take part in this round: {error}") from error
    if manifest.geometry != expected:
        raise MalformedDocumentError(
            f"the manifest's lengths do not match the certified {certificate.mechanism.kind} "
            f"over {hops} hops"
        )


def _node_of(signed: Signed, roster: Roster) -> Party:
    party = roster.party(signed.signer)
    if party.role != Role.NODE:
        raise RoundKeyError(
            f"{party.name!r} is on the route but is the {party.role}, not a mix node"
        )
    return party


def _check_route(route: tuple[Party, ...], certificate: Certificate) -> None:
    """Refuse any route except the certified one.

    For settlement and release, the accountant relies on signatures of the certified nodes; another
    route may have no honest node.
    """
    names = tuple(party.name for party in route)
    if len(set(names)) != len(names):
        raise RoundKeyError("a node occurs twice on the route; do not take part")
    if names != certificate.route:
        raise RoundKeyError(
            f"the route {', '.join(names)} is not the certified one, "
            f"{', '.join(certificate.route)}; do not take part"
        )


def _round_keys(
    manifest: Manifest, route: tuple[Party, ...], certified: str
) -> tuple[RoundKey, ...]:
    return tuple(
        _round_key(manifest, party, signed, position, certified)
        for position, (party, signed) in enumerate(zip(route, manifest.route, strict=True), start=1)
    )


def _round_key(
    manifest: Manifest, party: Party, signed: Signed, position: int, certified: str
) -> RoundKey:
    key = verify_from(party, signed, RoundKey)
    _same("deployment", key.deployment, manifest.deployment)
    _same("round", key.round_id, manifest.round_id)
    actual = (key.node, key.position, key.suite)
    expected = (party.name, position, manifest.geometry.suite)
    if actual != expected:
        raise RoundKeyError(
            f"the round key is for node, position and suite {actual}, expected {expected}"
        )
    if key.certificate_digest != certified:
        raise RoundKeyError(
            f"{party.name!r} signed its round key for a different certificate than the manifest's"
        )
    try:  # a key of small order, or of another length, fails here and not in the middle of sealing
        public = bytes.fromhex(key.public_key)
        if len(public) != suite_named(key.suite).public_key_bytes:
            raise RoundKeyError(
                f"the round key of {party.name!r} has the wrong length, {len(public)} bytes"
            )
        if public.hex() != key.public_key:  # nodes refuse it, too
            raise RoundKeyError(f"the round key of {party.name!r} is not lower-case hex")
        suite_named(key.suite).sealer(public, binding(key.round_id, position))(b"")
    except (ValueError, TypeError, RuntimeError, ConfigError) as error:
        raise RoundKeyError(
            f"nothing can be sealed to the round key of {party.name!r}: {error}"
        ) from error
    return key


def _check_countersignatures(
    announcement: Announcement, manifest: Manifest, route: tuple[Party, ...]
) -> None:
    missing = {party.name: party for party in route}
    expected = document_digest(announcement.manifest)
    # All nodes sign one manifest, so that no user can be given a round of its own, in which it
    # would be alone.
    for signed in announcement.countersignatures:
        party = missing.pop(signed.signer, None)
        if party is None:
            raise ForeignDocumentError(
                f"{signed.signer!r} countersigned twice or is not on the route"
            )
        countersignature = verify_from(party, signed, Countersignature)
        _same("round", countersignature.round_id, manifest.round_id)
        _same("node", countersignature.node, party.name)
        _same("manifest", countersignature.manifest_digest, expected)
    if missing:
        raise SignatureError(
            f"the manifest is not countersigned by {', '.join(sorted(missing))}: do not take part "
            "until it is"
        )


def _check_log(
    announcement: Announcement,
    roster: Roster,
    manifest: Manifest,
    population: str,
    remembered: CosignedCheckpoint | None,
) -> CosignedCheckpoint:
    if not isinstance(announcement.log, str):
        raise LogProofError(
            f"round {manifest.round_id} comes without a proof that it is in the public log; do "
            "not take part (a policy with require_log = false accepts such rounds)"
        )
    log = check_logged(
        announcement.log, roster, population, manifest.round_id, manifest.certificate
    )
    if remembered is not None:
        check_same_history(log, remembered)
    return log


def _check_open(manifest: Manifest, now: int) -> None:
    if not manifest.opens_at <= now < manifest.closes_at:
        raise SubmissionClosedError(
            f"round {manifest.round_id} is open from {manifest.opens_at} to {manifest.closes_at} "
            f"ms; this device's clock says {now} ms"
        )
