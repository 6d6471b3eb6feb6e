"""The analyst's checks before a round is announced, and its signed manifest. Pure.

docs/protocol.md, section "Opening". The analyst verifies every answer before it passes it on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from shuffledp_core.answering.estimation import check_informative
from shuffledp_core.documents.digests import document_digest
from shuffledp_core.documents.losses import Losses, honest_reports
from shuffledp_core.documents.models import (
    Certificate,
    Countersignature,
    Manifest,
    Party,
    Roster,
    RoundKey,
    RoundPlan,
)
from shuffledp_core.documents.signed import Signed, from_json
from shuffledp_core.documents.wording import QuestionWording
from shuffledp_core.errors import (
    CannotCertify,
    DocumentError,
    ExpiredDocumentError,
    ForeignDocumentError,
    MalformedDocumentError,
    PolicyRefusal,
    RoundKeyError,
    UsageError,
)
from shuffledp_core.mechanisms import MECHANISMS, Answers
from shuffledp_core.onion.geometry import MAX_HOPS, Geometry
from shuffledp_core.onion.suites import check_suite, suite_named
from shuffledp_core.runtime.keys import verify_from
from shuffledp_core.transparency.logged import check_logged
from shuffledp_core.vocabulary import CertificateStage, Mix, Role

MAX_SYMBOLS: Final = 2**15
"""Largest histogram: its estimates with errors and intervals must fit into one signed result (4
MiB).
"""


def read_plan(data: bytes, roster: Roster) -> RoundPlan:
    """Parse the operator's plan and check it against the roster.

    1. It parses without unknown fields.
    2. Its population is in the roster.
    3. Its route has 2 to 16 parties of the roster, all nodes (the plan itself refuses repeats).
    4. Suite and mechanism are known; a histogram's result fits into a document.

    Raises:
        UsageError: the plan contains an impossible value, which the message names.
        ConfigError: unknown suite.
    """
    try:  # 1
        plan = from_json(data, RoundPlan)
    except MalformedDocumentError as error:
        raise UsageError(f"the plan cannot be read: {error}") from error
    try:
        roster.population(plan.population)  # 2
        parties = [roster.party(name) for name in plan.route]  # 3
    except ForeignDocumentError as error:
        raise UsageError(
            f"{error}; the plan must name populations and nodes of the roster"
        ) from error
    if not 2 <= len(parties) <= MAX_HOPS:
        raise UsageError(f"the route must have 2 to {MAX_HOPS} nodes, not {len(parties)}")
    for party in parties:
        if party.role != Role.NODE:
            raise UsageError(
                f"{party.name!r} is the {party.role}, not a mix node; a route may only name mix "
                "nodes"
            )
    check_suite(plan.suite, plan.mix)  # 4
    if plan.mechanism not in MECHANISMS:
        raise UsageError(
            f"unknown mechanism {plan.mechanism!r}; choose one of {', '.join(MECHANISMS)}"
        )
    if (
        MECHANISMS[plan.mechanism].answers is Answers.HISTOGRAM
        and _number_of_counts(plan) > MAX_SYMBOLS
    ):
        raise UsageError(
            f"a histogram may have at most {MAX_SYMBOLS} symbols, not {_number_of_counts(plan)}; "
            "merge some"
        )
    return plan


def _number_of_counts(plan: RoundPlan) -> int:
    """Number of counts in a histogram's estimate: symbols, or cells of all columns."""
    if isinstance(plan.wording, QuestionWording) and MECHANISMS[plan.mechanism].counts_columns:
        return sum(plan.wording.columns)
    return plan.size


def check_plan_certificate(
    signed: Signed,
    accountant: Party,
    deployment: str,
    round_id: str,
    plan: RoundPlan,
    closes_at: int,
) -> Certificate:
    """Verify the accountant's certificate of the plan.

    1. It is signed by the accountant, for this round and deployment, at stage "plan".
    2. It is for this plan: population, mechanism, domain, reports, colluding users, route,
       adjacency, delta.
    3. Its claim holds, and it does not expire before submissions close.
    4. Its messages carry information.

    Raises:
        DocumentError: step 1 or 2; `ExpiredDocumentError`: step 3.
        CannotCertify: step 3, because the claim does not hold.
        UsageError: step 4.
    """
    certificate = verify_from(accountant, signed, Certificate)  # 1
    _same(certificate, "deployment", certificate.deployment, deployment)
    _same(certificate, "round_id", certificate.round_id, round_id)
    _same(certificate, "stage", certificate.stage, CertificateStage.PLAN)
    for field, actual, expected in (  # 2
        ("population", certificate.population, plan.population),
        ("mechanism", certificate.mechanism.kind, plan.mechanism),
        ("size", certificate.mechanism.size, plan.size),
        ("users", certificate.users, plan.min_reports),
        ("honest", certificate.honest, plan.honest),
        ("route", certificate.route, plan.route),
        ("adjacency", certificate.adjacency, plan.adjacency),
        ("delta", certificate.delta, plan.delta),
        ("mix", certificate.verified, plan.mix == Mix.VERIFIED),
        ("wording", certificate.wording, plan.wording),
    ):
        _same(certificate, field, actual, expected)
    if not certificate.holds:  # 3
        raise CannotCertify(
            f"the accountant's certificate for epsilon {plan.epsilon} does not hold; ask for more"
        )
    # Nodes would refuse the manifest, and devices an expired certificate: better to fail before a
    # key is made.
    if closes_at > certificate.expires_at:
        raise ExpiredDocumentError(
            f"the certificate expires {closes_at - certificate.expires_at} ms before the "
            "submissions would close; ask for a shorter open_seconds"
        )
    check_informative(certificate.mechanism)  # 4
    return certificate


def check_log_proof(
    proof: bytes, roster: Roster, certificate: Certificate, signed: Signed
) -> str | msgspec.UnsetType:
    """Check the proof that a plan's certificate is logged; return it in an announcement's form.

    Devices would refuse a round without this proof, so the round fails here, before it opens.

    Raises:
        DocumentError: the roster names witnesses of the log, and the proof does not show that the
            certificate is logged.
    """
    if roster.log_terms is None:
        return msgspec.UNSET
    try:
        text = proof.decode()
    except UnicodeDecodeError as error:
        raise MalformedDocumentError("the proof of the public log is not text") from error
    check_logged(text, roster, certificate.population, certificate.round_id, signed)
    return text


def check_final_certificate(
    signed: Signed, accountant: Party, plan: Certificate, accepted: int, losses: Losses
) -> Certificate:
    """Verify that the final certificate matches the plan's.

    Only what depends on the number of reports that arrived may differ.

    Raises:
        DocumentError: it is not signed by the accountant, or is for other parameters.
    """
    certificate = verify_from(accountant, signed, Certificate)
    for field, actual, expected in (
        ("deployment", certificate.deployment, plan.deployment),
        ("round_id", certificate.round_id, plan.round_id),
        ("stage", certificate.stage, CertificateStage.FINAL),
        ("population", certificate.population, plan.population),
        ("mechanism", certificate.mechanism, plan.mechanism),
        ("users", certificate.users, accepted),
        ("route", certificate.route, plan.route),
        ("adjacency", certificate.adjacency, plan.adjacency),
        ("delta", certificate.delta, plan.delta),
        ("dropped", certificate.dropped, losses.dropped),
        ("invalid", certificate.invalid, losses.invalid),
        ("mix", certificate.mix, plan.mix),
        ("wording", certificate.wording, plan.wording),
    ):
        _same(certificate, field, actual, expected)
    most = honest_reports(
        accepted, plan.users, plan.honest, plan.mechanism, losses, verified=plan.verified
    )
    if certificate.honest > most:  # fewer may be counted where more would only loosen the bound
        raise ForeignDocumentError(
            f"the final certificate counts on {certificate.honest} honest users, but {accepted} "
            f"reports, {plan.users - plan.honest} colluding users and the lost messages leave at "
            f"most {most}"
        )
    return certificate


def _same(certificate: Certificate, field: str, actual: object, expected: object) -> None:
    if actual != expected:
        raise ForeignDocumentError(
            f"the accountant's {certificate.stage} certificate is for another round or plan: "
            f"its {field} is {_shorten(actual)}, not {_shorten(expected)}"
        )


def _shorten(value: object) -> str:
    """The first 200 characters of a value; a wording may have up to 16 KiB."""
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}…"


def check_round_key(
    signed: Signed, node: Party, position: int, suite: str, certificate: Signed, round_id: str
) -> None:
    """Raise `RoundKeyError` unless the key is this node's for its position in this round."""
    try:
        key = verify_from(node, signed, RoundKey)
    except DocumentError as error:
        raise RoundKeyError(
            f"{node.name} did not answer with a valid round key of its own: {error}"
        ) from error
    expected = (round_id, node.name, position, suite, document_digest(certificate))
    if (key.round_id, key.node, key.position, key.suite, key.certificate_digest) != expected:
        raise RoundKeyError(
            f"the round key of {node.name} is for position {key.position} of round "
            f"{key.round_id} with suite {key.suite!r}, or for another certificate; expected one "
            f"for position {position} of round {round_id} with {suite!r}"
        )
    if len(key.public_key) != 2 * suite_named(suite).public_key_bytes:
        raise RoundKeyError(f"the round key of {node.name} has the wrong length for {suite!r}")


def check_corrupt(keys: Sequence[Signed], plan: RoundPlan) -> tuple[str, ...]:
    """Names of nodes that declare themselves corrupt in their verified round keys.

    Raises:
        PolicyRefusal: there are some, and the plan does not allow them.
    """
    corrupt = tuple(
        key.node for key in (from_json(signed.body, RoundKey) for signed in keys) if key.corrupt
    )
    if corrupt and not plan.allow_corrupt:
        raise PolicyRefusal(
            f"{', '.join(corrupt)}: corrupt by the node's own declaration, and logs who sent "
            "what; plan a route without it, or in a laboratory set allow_corrupt in the plan"
        )
    return corrupt


def make_manifest(
    deployment: str,
    certificate: Certificate,
    signed: Signed,
    keys: Sequence[Signed],
    plan: RoundPlan,
    times: tuple[int, int],
) -> Manifest:
    """Make a round's manifest; `times` are opening and closing, in ms since 1970.

    Raises:
        UsageError: the mechanism needs more messages per user than a round carries.
    """
    try:
        geometry = Geometry.of(certificate.mechanism, plan.suite, len(plan.route), plan.mix)
    except ValueError as error:
        raise UsageError(
            f"this plan cannot be carried out: {error}; ask for a smaller size or a larger epsilon"
        ) from error
    return Manifest(
        deployment=deployment,
        round_id=certificate.round_id,
        certificate=signed,
        route=tuple(keys),
        geometry=geometry,
        min_reports=plan.min_reports,
        max_reports=plan.max_reports,
        opens_at=times[0],
        closes_at=times[1],
    )


def check_countersignature(signed: Signed, node: Party, manifest: Signed, round_id: str) -> None:
    """Raise `DocumentError` unless this node countersigned exactly this manifest."""
    countersignature = verify_from(node, signed, Countersignature)
    if (countersignature.round_id, countersignature.node, countersignature.manifest_digest) != (
        round_id,
        node.name,
        document_digest(manifest),
    ):
        raise ForeignDocumentError(
            f"{node.name} countersigned a manifest that is not that of round {round_id}"
        )
