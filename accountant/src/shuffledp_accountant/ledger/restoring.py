"""Recharges rounds that a ledger restored from a backup has lost, from signed certificates.

Each certificate states its round's place in the population's account, so that a gap is visible.
What was released meanwhile, or never settled, counts as reserved: more is charged than was spent,
never less. docs/operations.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Final

from shuffledp_accountant.ledger.charges import Charge, ChargeState, Settlement
from shuffledp_accountant.ledger.ledger import Ledger
from shuffledp_core.documents.losses import Losses, charged_reports
from shuffledp_core.documents.models import (
    Announcement,
    Certificate,
    Manifest,
    Party,
    Result,
    RoundPlan,
)
from shuffledp_core.documents.signed import (
    MAX_DOCUMENT_BYTES,
    DocumentT,
    Signed,
    from_json,
    to_json,
)
from shuffledp_core.errors import ConfigError, DocumentError, MalformedDocumentError
from shuffledp_core.mechanisms import Mechanism
from shuffledp_core.runtime.keys import verify_from
from shuffledp_core.vocabulary import CertificateStage, Mix
from shuffledp_privacy.analysis import Cost, analyse
from shuffledp_privacy.bounds import Setting

MOST_FILES: Final = 100_000
"""Most files that are looked at."""

MOST_REPORTS: Final = 10**9
"""Largest number of reports of a round whose plan is rebuilt: the accountant's own limit."""

CLOCK_MILLISECONDS: Final = 5_000
"""A charge reserved later than this after a higher entry was signed has reused its number."""


@dataclass(frozen=True, slots=True)
class RestoredLedger:
    """Outcome of the restoration for one population.

    Attributes:
        population: name of the population.
        rounds: the rounds that were charged again.
        highest: the highest entry that a certificate shows.
        missing: entries up to it that neither the ledger nor a certificate covers.
    """

    population: str
    rounds: tuple[str, ...]
    highest: int
    missing: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RoundCertificates:
    """A round's genuine plan certificate, and its final one if found, as signed documents."""

    plan: Certificate
    plan_bytes: bytes
    final: Certificate | None = None
    final_bytes: bytes | None = None


def read_certificates(
    folders: Iterable[Path], accountant: Party, deployment: str
) -> dict[str, RoundCertificates]:
    """Genuine certificates in all JSON files below these folders, by round.

    Certificates, manifests, announcements and results are read; every other file is passed over.

    Raises:
        ConfigError: a folder cannot be read, or there are more than `MOST_FILES` files.
    """
    plans: dict[str, tuple[Certificate, bytes]] = {}
    finals: dict[str, tuple[Certificate, bytes]] = {}
    for signed in _signed_certificates(folders):
        try:
            certificate = verify_from(accountant, signed, Certificate)
        except DocumentError:
            continue  # not this accountant's: anyone may put files there
        if certificate.deployment != deployment:
            continue
        certificates = finals if certificate.stage == CertificateStage.FINAL else plans
        certificates[certificate.round_id] = (certificate, signed.to_bytes())
    return {
        round_id: RoundCertificates(*plan, *finals.get(round_id, (None, None)))
        for round_id, plan in plans.items()
    }


def _signed_certificates(folders: Iterable[Path]) -> Iterator[Signed]:
    for path in _files(folders):
        try:
            data = path.read_bytes() if path.stat().st_size <= MAX_DOCUMENT_BYTES else b""
            yield from _certificates_in(data)
        except (OSError, MalformedDocumentError):
            continue


def _files(folders: Iterable[Path]) -> Iterator[Path]:
    count = 0
    for folder in folders:
        if not folder.is_dir():
            raise ConfigError(
                f"{folder} is not a folder; give the folder that holds the rounds' documents"
            )
        for path in sorted(folder.rglob("*.json")):
            if not path.is_file() or path.is_symlink():
                continue
            count += 1
            if count > MOST_FILES:
                raise ConfigError(
                    f"more than {MOST_FILES:,} files are below the named folders; name only the "
                    "folders of the rounds"
                )
            yield path


def _certificates_in(data: bytes) -> Iterator[Signed]:
    """All unverified certificates in an announcement or a signed document."""
    try:
        signed = from_json(data, Announcement).manifest
    except MalformedDocumentError:
        signed = Signed.from_bytes(data)
    inside: tuple[Signed | None, ...] = ()
    if signed.label == Certificate.label:
        inside = (signed,)
    elif signed.label == Manifest.label:
        inside = (_parse(signed, Manifest).certificate,)
    elif signed.label == Result.label:
        result = _parse(signed, Result)
        inside = (result.plan_certificate, result.final_certificate)
    yield from (certificate for certificate in inside if certificate is not None)


def _parse(signed: Signed, model: type[DocumentT]) -> DocumentT:
    return from_json(signed.body, model)


def restore(ledger: Ledger, evidence: dict[str, RoundCertificates]) -> list[RestoredLedger]:
    """Charge every round of `evidence` that the ledger lacks; reconcile complete accounts.

    A round that the ledger holds as reserved is settled by its final certificate.

    Until an account is reconciled up to what a node has seen, that node takes part in no round of
    its population.

    Raises:
        LedgerError: the database failed.
    """
    names = sorted({item.plan.population for item in evidence.values()} & ledger.populations)
    return [_restore_one(ledger, name, _of_population(evidence, name)) for name in names]


def _of_population(
    evidence: dict[str, RoundCertificates], population: str
) -> list[RoundCertificates]:
    mine = (item for item in evidence.values() if item.plan.population == population)
    return sorted(mine, key=lambda item: item.plan.ledger.entry)


def _restore_one(
    ledger: Ledger, population: str, evidence: list[RoundCertificates]
) -> RestoredLedger:
    charges = {item.plan.round_id: ledger.find(item.plan.round_id) for item in evidence}
    lost = [item for item in evidence if charges[item.plan.round_id] is None]
    for item in evidence:
        held_charge = charges[item.plan.round_id]
        if held_charge is not None and held_charge.state is ChargeState.RESERVED:
            _settle(ledger, item)
    positions = ledger.positions(population)
    newest = evidence[-1].plan
    # Entries that the restored ledger has given out anew, to rounds that nodes refused, are not the
    # lost ones.
    until = newest.issued_at + CLOCK_MILLISECONDS
    covered = {entry for entry, reserved_at in positions.items() if reserved_at <= until}
    covered |= {item.plan.ledger.entry for item in evidence}
    highest = newest.ledger.entry
    missing = tuple(entry for entry in range(1, highest + 1) if entry not in covered)
    ledger.readmit(population, [_charge(item) for item in lost], 0 if missing else highest)
    return RestoredLedger(population, tuple(item.plan.round_id for item in lost), highest, missing)


def _charge(evidence: RoundCertificates) -> Charge:
    plan, final = evidence.plan, evidence.final
    reserved = planned_cost(plan)
    cost = reserved if final is None else charged_cost_of(plan, final)
    epsilon = plan.epsilon.certified
    if cost != reserved:
        epsilon = analyse(cost, len(plan.route)).bounds.certified
    return Charge(
        round_id=plan.round_id,
        population=plan.population,
        entry=plan.ledger.entry,
        state=ChargeState.RESERVED if final is None else ChargeState.SETTLED,
        plan=to_json(plan_of(plan)).decode(),
        cost=cost,
        epsilon=float("inf") if epsilon is None else epsilon,
        plan_certificate=evidence.plan_bytes,
        accepted=None if final is None else final.users,
        final_certificate=evidence.final_bytes,
        reserved_at=plan.issued_at,
        changed_at=plan.issued_at if final is None else final.issued_at,
    )


def _settle(ledger: Ledger, evidence: RoundCertificates) -> None:
    """Settle a round that is only reserved in the backup, if its final certificate was found."""
    final, data = evidence.final, evidence.final_bytes
    if final is None or data is None:
        return
    charge = _charge(evidence)
    real = Settlement(final.users, charge.cost, charge.epsilon)
    ledger.settle(final.round_id, real, lambda _: data, is_restored=True)


def planned_cost(plan: Certificate) -> Cost:
    """Cost that a plan certificate reserved for its round."""
    setting = Setting(plan.users, plan.honest, plan.adjacency, plan.max_distance)
    return Cost(plan.mechanism, setting, plan.delta)


def charged_cost_of(plan: Certificate, final: Certificate) -> Cost:
    """Cost that a settled round was charged: `charges.settled_cost` from its certificates.

    Not the cost for the final certificate's honest reports: for dropped messages the certificate is
    stricter than the charge (docs/accounting.md, C17).
    """
    losses = Losses(final.dropped, final.invalid)
    honest = charged_reports(final.users, plan.users, plan.honest, plan.mechanism, losses)
    reserved = planned_cost(plan)
    if max(1, honest) >= plan.honest:
        return reserved
    setting = replace(reserved.setting, users=final.users, honest=max(1, honest))
    return replace(reserved, setting=setting)


def plan_of(certificate: Certificate) -> RoundPlan:
    """A plan that requests what was certified, so that the round can be settled or released."""
    mechanism: Mechanism = certificate.mechanism
    return RoundPlan(
        population=certificate.population,
        mechanism=mechanism.kind,
        size=mechanism.size,
        epsilon=certificate.epsilon.certified or 0.0,
        delta=certificate.delta,
        adjacency=certificate.adjacency,
        max_distance=certificate.max_distance,
        min_reports=certificate.users,
        max_reports=MOST_REPORTS,
        colluding=certificate.users - certificate.honest,
        route=certificate.route,
        mix=Mix.VERIFIED if certificate.verified else Mix.PLAIN,
        question=getattr(mechanism, "question", 0),
        wording=certificate.wording,
    )


def describe_ranges(entries: tuple[int, ...]) -> str:
    """Format numbers with consecutive ones joined: "3-5, 8"."""
    breaks = [i + 1 for i, (low, high) in enumerate(pairwise(entries)) if high != low + 1]
    bounds = pairwise([0, *breaks, len(entries)])
    parts = (entries[first:last] for first, last in bounds)
    return ", ".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)
