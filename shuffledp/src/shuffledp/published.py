"""Checks the mixing of a verified round from its published documents alone.

docs/mixing.md, P3.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from shuffledp_core.answering.answer import check_answer
from shuffledp_core.documents.digests import digest, document_digest
from shuffledp_core.documents.headers import check_headers
from shuffledp_core.documents.models import (
    Certificate,
    HistoryDigest,
    Manifest,
    Result,
    Roster,
    RoundKey,
)
from shuffledp_core.documents.signed import Signed, from_json
from shuffledp_core.errors import (
    BadBatchError,
    FalseResultError,
    ForeignDocumentError,
    NotInstalledError,
    RoundKeyError,
)
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.runtime.files import read_file, size_of
from shuffledp_core.runtime.keys import verify_from
from shuffledp_core.vocabulary import CertificateStage

if TYPE_CHECKING:
    from shuffledp_core.mixproof.chain import Chain

BOARD: Final = "board.bin"
HISTORY: Final = "history.bin"
"""Files of a round's folder: the published messages in mixed order, and what shows that they are
the right ones.
"""


def check_mixing(folder: Path, roster: Roster, signed: Signed) -> tuple[str, ...]:
    """Check claim list, headers, exclusions and board of a saved round; return the checks in words.

    Returns nothing for a plain round.

    1. The result is signed by the analyst; if the plan's mixing is verified, it names the digests
       of this board and history.
    2. The manifest is the analyst's, of the same round and plan; its round keys are the certified
       nodes' own.
    3. P3: the list is node 1's and holds, the headers lead from it to the board, and so do all
       exclusions.
    4. Result, final certificate and every node's header count the reports that are left; the answer
       follows from the board.

    Raises:
        ConfigError: a file is missing.
        NotInstalledError: the arithmetic is not installed here.
        DocumentError: step 1 or 2.
        BadListError, BadHopError, BadBlameError, UnansweredError, TooFewReportsError: step 3,
            naming who is at fault.
        FalseResultError: step 1 or 4, or a file is longer than the manifest allows, or the history
            cannot be read; of a node's header, as `check_headers`.
    """
    result = verify_from(roster.analyst, signed, Result)
    if not _is_verified(result):
        return ()
    if not isinstance(result.history, HistoryDigest):  # 1
        # Without this an analyst who exchanged the board would only have to keep silent about its
        # history.
        raise FalseResultError(
            "the plan's mixing is verified, but the result names no history that proves it; "
            "keep the result: it is evidence against the analyst"
        )
    announced = Signed.from_bytes(read_file(folder / "manifest.json", "manifest"))
    manifest = verify_from(roster.analyst, announced, Manifest)
    board = _read_named(folder / BOARD, manifest.most_board_bytes, result.board_digest or "")  # 1
    history = _read_named(folder / HISTORY, _most_history_bytes(manifest), result.history.digest)
    plan = _plan(result, manifest, roster)  # 2
    chain = _follow_mixing(announced, manifest, plan, roster, history, board)  # 3
    _check_counts(result, plan, chain.users, roster)  # 4
    check_answer(result, plan.mechanism, manifest.geometry, board)
    users = chain.case.listed.users
    terms = chain.case.terms
    dummies = (
        f"mixing: {terms.dummies:,} dummies of each of {terms.hops} nodes on the list, each claim "
        "signed by its node, all of them on the board",
    )
    return (
        f"mixing: {users:,} claims on the list of {manifest.route[0].signer}, each enrolled, "
        "signed and proved",
        *(dummies if terms.dummies else ()),
        f"mixing: {terms.hops} hops lead from it to the board of "
        f"{terms.count_messages(chain.users):,} messages, each proved; the answer "
        "follows from it",
        f"mixing: {len(chain.excluded):,} users excluded by evidence",
    )


def unchecked_mixing(signed: Signed) -> tuple[str, ...]:
    """Remark about a document checked without its folder: how to check its mixing."""
    if signed.label != Result.label or not _is_verified(from_json(signed.body, Result)):
        return ()
    return (
        "mixing: NOT checked; it needs the round's folder, with board and history: shuffledp "
        "verify FOLDER",
    )


def _is_verified(result: Result) -> bool:
    """True if any part of a result states that its round is verified, even if its plan does not.

    A result that leaves the plan out must not pass for a plain round's.
    """
    inside = (result.plan_certificate, result.final_certificate)
    is_declared = any(
        from_json(document.body, Certificate).verified
        for document in inside
        if document is not None
    )
    return is_declared or isinstance(result.history, HistoryDigest)


def _check_counts(result: Result, plan: Certificate, users: int, roster: Roster) -> None:
    if result.final_certificate is None:
        raise FalseResultError(
            "the result has no final certificate; keep it: it is evidence against the analyst"
        )
    final = verify_from(roster.accountant, result.final_certificate, Certificate)
    messages = plan.mechanism.messages_per_user
    claims = (final.deployment, final.round_id, final.stage, final.verified, final.mechanism)
    if claims != (result.deployment, result.round_id, CertificateStage.FINAL, True, plan.mechanism):
        raise FalseResultError(
            "the final certificate is for another round, mixing or mechanism; keep the result"
        )
    counted = (
        result.accepted,
        final.users,
        result.messages,
        result.dropped,
        final.dropped,
        final.invalid,
    )
    dummies = plan.mechanism.dummies_per_node
    if counted != (users, users, users * messages + len(plan.route) * dummies, 0, 0, 0):
        raise FalseResultError(
            f"the signed list and the exclusions leave {users} reports of {messages} messages, "
            f"besides {dummies} dummies of each node, but the result counts {result.accepted} "
            f"reports and {result.messages} messages, the final certificate {final.users} "
            f"reports, and the lost messages are {result.dropped}, {final.dropped} and "
            f"{final.invalid}; keep both: they are evidence"
        )
    route = [roster.party(name) for name in plan.route]
    check_headers(
        result.headers,
        route,
        result.round_id,
        messages,
        users,
        excluding=True,
        dummies_per_node=dummies,
    )


def _read_named(file: Path, most: int, kind: str) -> bytes:
    # The folder may be anyone's, and the digest is known only when all of it has been read.
    if (size := size_of(file)) > most:
        raise FalseResultError(
            f"{file} has {size:,} bytes, more than the {most:,} that the manifest allows; fetch "
            "the round again"
        )
    data = read_file(file, "published file of a verified round", most)
    if digest(data) != kind:
        raise FalseResultError(
            f"{file} does not have the digest that the result states; fetch the round again"
        )
    return data


def _most_history_bytes(manifest: Manifest) -> int:
    try:
        from shuffledp_core.mixproof.history import most_bytes
    except ImportError as error:
        raise _not_installed(error) from error
    return most_bytes(manifest)


def _not_installed(error: ImportError) -> NotInstalledError:
    return NotInstalledError(
        f"checking the mixing needs {error.name}: pip install 'shuffledp-core[verified]'"
    )


def _plan(result: Result, manifest: Manifest, roster: Roster) -> Certificate:
    if (manifest.deployment, manifest.round_id) != (result.deployment, result.round_id):
        raise ForeignDocumentError(
            f"the manifest is of round {manifest.round_id}, but the result is of round "
            f"{result.round_id}"
        )
    if result.plan_certificate is None or document_digest(
        result.plan_certificate
    ) != document_digest(manifest.certificate):
        raise ForeignDocumentError("manifest and result have different plan certificates")
    plan = verify_from(roster.accountant, manifest.certificate, Certificate)
    if manifest.geometry != Geometry.of(
        plan.mechanism, manifest.geometry.suite, plan.nodes, plan.mix
    ):
        raise ForeignDocumentError(
            "the manifest's lengths do not match the certified mechanism and mixing"
        )
    return plan


def _route(manifest: Manifest, plan: Certificate, roster: Roster) -> list[RoundKey]:
    if tuple(key.signer for key in manifest.route) != plan.route:
        raise RoundKeyError(
            f"the manifest's route is not the certified one, {', '.join(plan.route)}"
        )
    keys = [verify_from(roster.party(key.signer), key, RoundKey) for key in manifest.route]
    certified = document_digest(manifest.certificate)
    for position, (name, key) in enumerate(zip(plan.route, keys, strict=True), start=1):
        here = (manifest.deployment, manifest.round_id, name, position, certified)
        if (key.deployment, key.round_id, key.node, key.position, key.certificate_digest) != here:
            raise RoundKeyError(
                f"the round key of {name} is for another deployment, round, position or plan"
            )
    return keys


def _follow_mixing(
    announced: Signed,
    manifest: Manifest,
    plan: Certificate,
    roster: Roster,
    history: bytes,
    board: bytes,
) -> Chain:
    try:
        from shuffledp_core.mixproof.history import History, check_published
        from shuffledp_core.mixproof.manifests import mix_terms, mixing_part
    except ImportError as error:
        raise _not_installed(error) from error
    keys = _route(manifest, plan, roster)
    terms = mix_terms(announced, manifest, plan, keys, roster)
    population = roster.population(plan.population)
    try:
        signed = History.signed_by(roster.analyst.name, history, manifest)
    except BadBatchError as error:  # the result names its digest
        raise FalseResultError(f"{error}; keep it, with the result: they are evidence") from error
    return check_published(signed, manifest, terms, population, mixing_part(keys[0]), board)
