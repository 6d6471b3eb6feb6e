"""Verification of certificates on disk: signature, validity period, and recomputed numbers."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from shuffledp.log_proofs import (
    RESULT_PROOF,
    check_announced_proof,
    check_proof_beside,
    check_result_proof_beside,
    describe_checkpoint,
    missing_proof,
    unchecked_log,
)
from shuffledp.notebook import data_frame, html_table
from shuffledp.published import check_mixing, unchecked_mixing
from shuffledp_core.documents.digests import document_digest
from shuffledp_core.documents.losses import Losses, honest_reports
from shuffledp_core.documents.models import (
    Announcement,
    Certificate,
    Countersignature,
    Manifest,
    Party,
    Result,
    Roster,
)
from shuffledp_core.documents.signed import DocumentT, Signed, from_json
from shuffledp_core.documents.signed import verify as verify_signed
from shuffledp_core.errors import (
    ConfigError,
    DocumentError,
    ForeignDocumentError,
    MalformedDocumentError,
    UsageError,
)
from shuffledp_core.runtime.files import read_file
from shuffledp_core.runtime.keys import parse_hex_key, read_roster, read_signed, verify_from
from shuffledp_core.transparency.logged import CosignedCheckpoint, check_result_manifest
from shuffledp_core.vocabulary import CertificateStage, Role
from shuffledp_privacy.rechecking import recheck


@dataclass(frozen=True, slots=True)
class Trust:
    """Keys to trust: a roster with its root key, or only the accountant's key (hex)."""

    roster: Path | None = None
    root_key: str | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class CheckedCertificate:
    """A certificate with verified signature and numbers, and the checks in words.

    Attributes:
        title: where it was found, and its stage.
        certificate: the document; `compose` takes it as it is.
        lines: what was checked.
        genuine: True if the caller named the trusted key. Otherwise the key was read from a file
            next to the document, where a forger of the document could have put it.
    """

    title: str
    certificate: Certificate
    lines: tuple[str, ...]
    genuine: bool

    @property
    def verdict(self) -> str:
        """The outcome in one line."""
        if self.genuine:
            return f"{self.title}: genuine and right"
        return (
            f"{self.title}: numbers right, origin NOT shown (name the deployment's root key: "
            "--root-key)"
        )

    def to_dict(self) -> dict[str, Any]:
        """The keys of `shuffledp verify --format json`."""
        claimed = self.certificate
        return {
            "round": claimed.round_id,
            "stage": claimed.stage,
            "mechanism": claimed.mechanism.kind,
            "epsilon": claimed.epsilon.certified,
            "delta": claimed.delta,
            "holds": claimed.holds,
            "genuine": self.genuine,
            "checked": list(self.lines),
        }

    def to_pandas(self) -> Any:
        """One row; raises `NotInstalledError` without pandas."""
        row = {name: value for name, value in self.to_dict().items() if name != "checked"}
        return data_frame({name: [value] for name, value in row.items()})

    def _repr_html_(self) -> str:
        return html_table(self.verdict, [], self.lines)


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys with which documents are verified.

    A roster knows all parties, a bare key only the accountant.

    `trusted` describes the trusted key and its source; `named` is True if the caller named it.
    """

    roster: Roster | None
    accountant: bytes
    trusted: str
    named: bool

    def certificate(self, signed: Signed) -> Certificate:
        """The certificate, after verifying the accountant's signature. Errors as `verify`."""
        if self.roster is None:
            # A bare key knows no names: the signer may call itself anything.
            return verify_signed(signed, Certificate, signed.signer, self.accountant)
        claimed = verify_from(self.roster.accountant, signed, Certificate)
        # One identity key may stand in several rosters; a certificate counts in its own deployment
        # only.
        if claimed.deployment != self.roster.deployment:
            raise ForeignDocumentError(
                f"the certificate is of deployment {claimed.deployment!r}, but the roster is of "
                f"{self.roster.deployment!r}"
            )
        return claimed

    def by(self, role: str, signed: Signed, model: type[DocumentT]) -> DocumentT:
        """Verify a document of the only party with this role; needs the roster."""
        return verify_from(self._roster(signed).only(role), signed, model)

    def by_node(self, signed: Signed, model: type[DocumentT]) -> DocumentT:
        """Verify a document of the node that is named as its signer; needs the roster."""
        node: Party = self._roster(signed).party(signed.signer)
        # Every party of the roster can sign: the analyst's or the accountant's word must not pass
        # for a node's.
        if node.role != Role.NODE:
            raise ForeignDocumentError(
                f"{signed.signer!r} signed a {signed.label} but is not a mix node"
            )
        return verify_from(node, signed, model)

    def _roster(self, signed: Signed) -> Roster:
        if self.roster is None:
            raise UsageError(
                f"a {signed.label} can only be verified with a roster: give --roster and "
                "--root-key, not --key"
            )
        return self.roster


def trusted_keys(file: Path, trust: Trust) -> Keys:
    """The keys with which to verify `file`.

    Raises:
        UsageError: both kinds of trust are named.
        ConfigError: a key or the roster cannot be read.
        DocumentError: the roster is not signed by the root key.
    """
    if trust.key is not None:
        if trust.roster is not None or trust.root_key is not None:
            raise UsageError("give either --key, or --roster with --root-key, but not both")
        accountant = parse_hex_key(trust.key, "key")
        return Keys(
            None,
            accountant,
            f"accountant's key used: {accountant.hex()}, as you named it",
            named=True,
        )
    path = trust.roster if trust.roster is not None else file.parent / "roster.json"
    beside = path.parent / "root.pub"
    missing = [file.name for file in (path, beside) if not file.is_file()]
    if trust.roster is None and trust.root_key is None and missing:
        raise ConfigError(
            f"nothing is known to verify {file} with: there is no {' and no '.join(missing)} "
            "next to it; give --roster with --root-key, or the accountant's --key"
        )
    if trust.root_key is not None:
        root = _named_root(trust.root_key)
        words = f"root key used: {root}, as you named it"
    else:
        read_file(path, "roster")  # the roster is what was named: it is missed first
        root = _key_in(beside)
        words = (
            f"root key used: {root}, only because it is in {beside}; anyone can make such a file"
        )
    roster = read_roster(path, root)
    accountant = bytes.fromhex(roster.accountant.identity_key)
    return Keys(roster, accountant, words, named=trust.root_key is not None)


def _named_root(named: str) -> str:
    """The root key, given in hex or as a file that contains it."""
    return named if re.fullmatch(r"[0-9A-Fa-f]*", named) else _key_in(Path(named))


def _key_in(file: Path) -> str:
    return read_file(file, "root key").decode("ascii", errors="replace").strip()


def verify(
    document: str | Path,
    *,
    root_key: str | bytes | None = None,
    roster: str | Path | None = None,
    key: str | bytes | None = None,
    now: float | None = None,
    patient: bool = False,
) -> tuple[CheckedCertificate, ...]:
    """Verify every certificate in a file: signature, period, and every number recomputed.

    1. The file is a signed document, or an announcement.
    2. Its signature verifies, and so does the signature of every certificate inside.
    3. Every number of every certificate is recomputed (docs/protocol.md, "Rechecking").
    4. In a round's folder, the certificates and the manifest in files next to the result are those
       of the result (`check_beside`).
    5. If the roster names witnesses of the public log, the plan certificate is in the log (for a
       folder or an announcement, which have the proof; `log_proofs`), and so is the result of a
       folder.
    6. In the folder of a round with provable mixing, list, headers and board verify
       (`published.check_mixing`).

    It returns only if every signature verifies and no number is better than the truth; whether the
    numbers are good enough is the reader's decision. Only with `root_key` or `key` does it show who
    signed: see `CheckedCertificate.genuine`.

    Args:
        document: a signed certificate, manifest, announcement or result (JSON file), or the folder
            of a round.
        root_key: the deployment's root key, 32 bytes, hex, or the name of a file that holds it;
            None for `root.pub` next to the roster, which shows nothing about who signed.
        roster: the signed roster; None for `roster.json` next to the document.
        key: the accountant's public key instead of a roster, only for a certificate.
        now: seconds since 1970; None for the clock.
        patient: compute every number, however long it takes. Otherwise numbers that need more than
            about a second of processor time are refused, so that a hostile document cannot occupy
            the verifier.

    Raises:
        ConfigError: a file or key cannot be read, or both kinds of trust are named.
        DocumentError: a signature does not verify, the content is malformed, or a claim is too
            good.
        CannotCertify: nothing at all can be certified for the claimed parameters, or only with the
            additional work that `patient` allows.
    """
    if not isinstance(document, str | Path):
        raise UsageError(f"document must be the path of a file or a folder, not {document!r}")
    folder = Path(document) if Path(document).is_dir() else None
    file = Path(document) if folder is None else folder / "result.json"
    data = read_file(
        file, "document"
    )  # before the keys beside it: a file that is not there has none beside it
    trust = Trust(None if roster is None else Path(roster), _as_hex(root_key), _as_hex(key))
    keys = trusted_keys(file, trust)
    moment = (time.time() if now is None else now) * 1000
    reports = tuple(
        _report(title, claimed, moment, keys, patient=patient)
        for title, claimed in _certificates(data, keys)
    )
    logged: CosignedCheckpoint | None = None
    if folder is not None and keys.roster is not None:
        result = keys.by("analyst", Signed.from_bytes(data), Result)
        logged = check_beside(folder, result, keys.roster)  # 4
    remarks = _public_log(data, folder, keys, logged) + _mixing(data, folder, keys)  # 5, 6
    return (*reports[:-1], replace(reports[-1], lines=reports[-1].lines + remarks))


def check_beside(folder: Path, result: Result, roster: Roster) -> CosignedCheckpoint | None:
    """Check the documents in the folder of a verified result, if there are any.

    Readers assume that documents next to a verified result are verified, too.

    Returns:
        The checkpoint of the public log that has the plan certificate; None without its proof, or
        if the roster names no witnesses.

    Raises:
        ConfigError: a file cannot be read.
        DocumentError: a file is no document, or a genuine one of another round; or the log does not
            have the plan certificate.
    """
    inside = {
        "certificate.json": result.final_certificate,
        "plan-certificate.json": result.plan_certificate,
    }
    for name, signed in inside.items():
        file = folder / name
        if file.is_file() and read_signed(file, "certificate") != signed:
            raise ForeignDocumentError(
                f"{file} differs from the certificate inside result.json; fetch the round again"
            )
    logged = check_proof_beside(folder, result.plan_certificate, roster)
    file = folder / "manifest.json"
    if not file.is_file():
        return logged
    signed = read_signed(file, "manifest")
    manifest = verify_from(roster.analyst, signed, Manifest)
    if (manifest.deployment, manifest.round_id) != (result.deployment, result.round_id):
        raise ForeignDocumentError(
            f"{file} is of round {manifest.round_id} of {manifest.deployment!r}, but result.json "
            f"is of round {result.round_id} of {result.deployment!r}; fetch the round again"
        )
    check_result_manifest(result, signed, roster)
    return logged


def _public_log(
    data: bytes, folder: Path | None, keys: Keys, logged: CosignedCheckpoint | None
) -> tuple[str, ...]:
    roster = keys.roster
    if roster is None or roster.log_terms is None:
        return ()
    if folder is not None:
        if logged is None:
            raise missing_proof(folder)
        if not check_result_proof_beside(folder, Signed.from_bytes(data), roster):
            raise missing_proof(folder, RESULT_PROOF)
        return (describe_checkpoint(logged, roster.log_terms), "public log: it has the result, too")
    try:
        Signed.from_bytes(data)
    except MalformedDocumentError:
        logged = check_announced_proof(from_json(data, Announcement), roster)
        return (describe_checkpoint(logged, roster.log_terms),)
    return (unchecked_log(),)


def _mixing(data: bytes, folder: Path | None, keys: Keys) -> tuple[str, ...]:
    try:
        signed = Signed.from_bytes(data)
    except MalformedDocumentError:  # an announcement: nothing is mixed yet
        return ()
    if folder is None or keys.roster is None:
        return unchecked_mixing(signed)
    return check_mixing(folder, keys.roster, signed)


def _as_hex(key: str | bytes | None) -> str | None:
    return key.hex() if isinstance(key, bytes) else key


def check_signed(signed: Signed, roster: Roster) -> tuple[CheckedCertificate, ...]:
    """Check and return every certificate in a document, as `verify` does from step 2 on."""
    accountant = bytes.fromhex(roster.accountant.identity_key)
    keys = Keys(
        roster,
        accountant,
        f"roster used: number {roster.serial}, as the caller verified it",
        named=True,
    )
    moment = time.time() * 1000
    return tuple(_report(title, claimed, moment, keys) for title, claimed in _inside(signed, keys))


def _certificates(data: bytes, keys: Keys) -> Iterator[tuple[str, Certificate]]:
    try:
        signed = Signed.from_bytes(data)  # 1
    except MalformedDocumentError as error:
        # An announcement holds signed documents and is not one itself.
        signed = _announced_manifest(data, keys, error)
    yield from _inside(signed, keys)  # 2


def _announced_manifest(data: bytes, keys: Keys, refusal: MalformedDocumentError) -> Signed:
    """The manifest of an announcement, after verifying its countersignatures.

    `refusal` is raised for anything else.
    """
    try:
        announcement = from_json(data, Announcement)
    except MalformedDocumentError:
        # What the file was meant to be is unknown: the first refusal is the one that helps.
        raise refusal from None
    expected = document_digest(announcement.manifest)
    for countersigned in announcement.countersignatures:
        countersignature = keys.by_node(countersigned, Countersignature)
        # Neither may a node sign in another's name, nor a countersignature be moved to another
        # manifest.
        if (countersignature.node, countersignature.manifest_digest) != (
            countersigned.signer,
            expected,
        ):
            raise ForeignDocumentError(
                f"the countersignature of {countersigned.signer!r} is for a different manifest"
            )
    return announcement.manifest


def _inside(signed: Signed, keys: Keys) -> Iterator[tuple[str, Certificate]]:
    if signed.label == Certificate.label:
        yield "certificate", keys.certificate(signed)
    elif signed.label == Manifest.label:
        manifest = keys.by("analyst", signed, Manifest)
        yield (
            "certificate in the manifest",
            _same_round(keys.certificate(manifest.certificate), manifest),
        )
    elif signed.label == Result.label:
        result = keys.by("analyst", signed, Result)
        certificates = {"plan": result.plan_certificate, "final": result.final_certificate}
        for stage, inner in certificates.items():
            if inner is not None:
                yield (
                    f"{stage} certificate in the result",
                    _same_round(keys.certificate(inner), result),
                )
        _check_honest(result, keys)
        if not any(certificates.values()):
            raise MalformedDocumentError(
                "the result contains no certificate, so there is nothing to verify"
            )
    else:
        raise ForeignDocumentError(
            f"a {signed.label!r} contains no certificate; give a certificate, manifest, "
            "announcement or result"
        )


def _check_honest(result: Result, keys: Keys) -> None:
    """Check that a final certificate counts on no more honest reports than it may."""
    if result.plan_certificate is None or result.final_certificate is None:
        return
    plan = keys.certificate(result.plan_certificate)
    final = keys.certificate(result.final_certificate)
    losses = Losses(final.dropped, final.invalid)
    # `recheck` sees one certificate at a time: what the plan promised is known only here.
    most = honest_reports(
        final.users, plan.users, plan.honest, final.mechanism, losses, verified=final.verified
    )
    if final.honest > most:
        raise DocumentError(
            f"the final certificate counts on {final.honest} honest reports, but the plan and "
            f"the lost messages leave at most {most}; do not rely on it"
        )


def _same_round(claimed: Certificate, outer: Manifest | Result) -> Certificate:
    # A genuine certificate of another round, with a better ε, would otherwise fit into any
    # document.
    if claimed.round_id != outer.round_id:
        raise ForeignDocumentError(
            f"the certificate is for round {claimed.round_id}, not {outer.round_id}"
        )
    return claimed


def _report(
    where: str, claimed: Certificate, now: float, keys: Keys, *, patient: bool = False
) -> CheckedCertificate:
    # Without the clock: the numbers of an old round are as true as ever, and its period is a line
    # of its own.
    recheck(claimed, patient=patient)  # 3
    epsilon = (
        "no finite epsilon"
        if claimed.epsilon.certified is None
        else f"epsilon {claimed.epsilon.certified:.6g}"
    )
    corrupted = claimed.corrupted.epsilon
    lines = [
        keys.trusted,
        f"signature: holds, round {claimed.round_id} of deployment {claimed.deployment}",
        f"{claimed.mechanism.kind}, {claimed.adjacency.value} adjacency, changes up to "
        f"{claimed.max_distance:,}",
        f"holds while {claimed.condition}",
        f"{epsilon} at delta {claimed.delta:g}: computed again, not better than the truth",
        f"every node corrupt: epsilon {'none' if corrupted is None else f'{corrupted:.6g}'}, "
        "computed again",
        f"standard error {claimed.standard_error:.6g}: computed again",
        _period(claimed, now),
    ]
    if claimed.dropped or claimed.invalid:
        lines.append(
            f"lost: {claimed.dropped:,} messages dropped by nodes, {claimed.invalid:,} invalid on "
            "the board"
        )
    if not claimed.holds:
        lines.append("the certificate itself says that the planned guarantee does NOT hold")
    return CheckedCertificate(f"{where} ({claimed.stage})", claimed, tuple(lines), keys.named)


def _period(claimed: Certificate, now: float) -> str:
    if now <= claimed.expires_at:
        return f"valid until {_date(claimed.expires_at)}"
    if claimed.stage == CertificateStage.FINAL:
        return (
            f"final: what happened stays true (to be relied upon until {_date(claimed.expires_at)})"
        )
    return f"note: this plan expired on {_date(claimed.expires_at)}; no new round may start from it"


def _date(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
