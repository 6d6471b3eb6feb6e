"""Fetching of results from the analyst, and their verification against the roster."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Final

from shuffledp.verification import CheckedCertificate, check_signed
from shuffledp_client.transport import AnalystReader, Backoff
from shuffledp_core.documents.models import Announcement, Manifest, Result
from shuffledp_core.documents.signed import Signed, from_json
from shuffledp_core.errors import ForeignDocumentError, UnknownRoundError
from shuffledp_core.runtime.keys import verify_from
from shuffledp_core.transparency.logged import check_result_manifest
from shuffledp_core.transport.rpc_errors import translate_errors
from shuffledp_ops.keys.pki import ANALYST, Deployment
from shuffledp_ops.rounds.report import RoundReport
from shuffledp_ops.rounds.running import (
    OpenedRound,
    control_of,
    make_report,
    read_result,
    with_published,
    with_result_proof,
)
from shuffledp_proto.v1 import analyst_pb2

PUBLISHED: Final = "published"

_ONE_ATTEMPT: Final = Backoff(attempts=1)


@dataclass(frozen=True)
class VerifiedResult:
    """The documents of a published round, all verified.

    Attributes:
        report: answer and guarantee; the durations of its stages are no longer known.
        checked: reports on the checks of both certificates.
    """

    report: RoundReport
    checked: tuple[CheckedCertificate, ...]


async def summaries(deployment: Deployment) -> AsyncIterator[analyst_pb2.RoundSummary]:
    """Yield the analyst's rounds, newest first, page by page; unverified.

    Raises its typed errors.
    """
    async with control_of(deployment) as control:
        request = analyst_pb2.ListRoundsRequest()
        while True:
            async with translate_errors(ANALYST):
                page = await control.ListRounds(request)
            for summary in page.rounds:
                yield summary
            if not page.more or not page.rounds:
                return
            request = analyst_pb2.ListRoundsRequest(after=page.rounds[-1].round_id)


async def newest_published(deployment: Deployment) -> str:
    """Identifier of the newest round that has an answer. Raises `UnknownRoundError`."""
    async for summary in summaries(deployment):
        if summary.outcome == PUBLISHED:
            return summary.round_id
    raise UnknownRoundError("the analyst has published no round yet; `shuffledp round` opens one")


async def fetch(deployment: Deployment, round_id: str) -> VerifiedResult:
    """Fetches and verifies a published round.

    1. The result is the analyst's, of this deployment and round.
    2. So is the manifest, and the result names it.
    3. Both certificates in the result are the accountant's, of this round, and their numbers are
       computed again.
    4. The proofs of the public log, where there are any and the roster names witnesses, show the
       plan certificate and the result there.

    Raises:
        UnknownRoundError: there is no such round, or it has not ended.
        ShuffleDPError: the error that failed the round.
        DocumentError: a step fails.
    """
    fetched = verify_downloaded(deployment, round_id, await download(deployment, round_id))
    return replace(fetched, report=await with_published(deployment, fetched.report))


@dataclass(frozen=True)
class DownloadedRound:
    """The signed result of a round, its announcement, and the proof that the result is logged."""

    result: Signed
    announcement: Announcement
    log: bytes | None = None


async def download(deployment: Deployment, round_id: str) -> DownloadedRound:
    """Fetch a published round from the analyst, unverified.

    Raises as `fetch`.
    """
    async with AnalystReader.of(deployment.own_keys, deployment.roster, _ONE_ATTEMPT) as analyst:
        end = await analyst.ending(round_id)
        read_result(deployment, end.result)  # a round that failed before it was announced says so
        announcement = from_json(await analyst.announcement(round_id), Announcement)
        return DownloadedRound(end.result, announcement, end.log)


def verify_downloaded(
    deployment: Deployment, round_id: str, downloaded: DownloadedRound
) -> VerifiedResult:
    """Verify a downloaded round by the steps of `fetch`; this takes some computing time.

    Raises as `fetch`.
    """
    roster = deployment.roster
    signed, announcement = downloaded.result, downloaded.announcement
    result = read_result(deployment, signed)  # 1
    require_round(result, roster.deployment, round_id)
    require_round(
        verify_from(roster.analyst, announcement.manifest, Manifest), roster.deployment, round_id
    )  # 2
    check_result_manifest(result, announcement.manifest, roster)
    checked = check_signed(signed, roster)  # 3
    opened = OpenedRound(round_id, announcement)
    report = make_report(deployment, opened, signed, result, {})  # 4
    if roster.log_terms is not None:
        report = with_result_proof(roster, report, downloaded.log)
    return VerifiedResult(report, checked)


def require_round(document: Result | Manifest, deployment: str, round_id: str) -> None:
    """Raise `ForeignDocumentError` for a document of another deployment or round."""
    # Genuine is not enough: an analyst could answer with the result of another round.
    if (document.deployment, document.round_id) != (deployment, round_id):
        raise ForeignDocumentError(
            f"the analyst answered with a {document.label} of round {document.round_id} of "
            f"{document.deployment!r}, but the request was for {round_id} of {deployment!r}"
        )
