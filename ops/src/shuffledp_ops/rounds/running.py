"""Round control: opens a round of a deployment, follows it, and reads its verified result."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

from shuffledp.log_proofs import (
    LOG_PROOF,
    RESULT_PROOF,
    check_result_proof,
    locate_announced,
)
from shuffledp.progress import Stages
from shuffledp.published import BOARD, HISTORY
from shuffledp_client.transport import AnalystReader
from shuffledp_core import errors
from shuffledp_core.documents.models import (
    Announcement,
    Certificate,
    HistoryDigest,
    Manifest,
    Result,
    Roster,
    RoundKey,
    RoundPlan,
)
from shuffledp_core.documents.signed import Signed, from_json, to_json
from shuffledp_core.runtime.keys import verify_from
from shuffledp_core.transport.rpc_errors import translate_errors
from shuffledp_core.transport.tls import channel_to
from shuffledp_core.vocabulary import Outcome
from shuffledp_ops.keys.pki import ANALYST, Deployment
from shuffledp_ops.rounds.report import RoundReport
from shuffledp_proto.v1 import analyst_pb2, analyst_pb2_grpc


class Trusting(Protocol):
    """An object whose roster verifies documents: a deployment, or a saved round's folder."""

    @property
    def roster(self) -> Roster:
        """The verified roster."""


class StageClock:
    """Stopwatch of a round: seconds by stage, in the order in which stages end.

    Attributes:
        seconds: duration of each stage that has ended.
        began_at: when the clock was started, in nanoseconds since 1970.
        ended_at: when each recorded stage ended, or was reported to have ended; likewise.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.ended_at: dict[str, int] = {}
        self.began_at = time.time_ns()
        self._began = time.perf_counter()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Context that measures the stage `name`."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.record(name, time.perf_counter() - began)

    def record(self, name: str, seconds: float) -> None:
        """Record a stage that has just ended; a second record of it is ignored."""
        if self.seconds.get(name) != seconds:
            self.ended_at[name] = self.now()
        self.seconds[name] = seconds

    def now(self) -> int:
        """Nanoseconds since 1970, counted from the start of this clock, so they never decrease."""
        return self.began_at + int(1e9 * (time.perf_counter() - self._began))

    def finish(self) -> None:
        """Sort the stages into the order of a round, and add the total time so far."""
        self.seconds = dict(sorted(self.seconds.items(), key=lambda item: _order(item[0])))
        self.seconds["total"] = time.perf_counter() - self._began


def _order(stage: str) -> tuple[int, str]:
    """Sort key of a stage: its position in a round, then the node's name."""
    order = ("start", "open", "sealing", "upload", "node", "decoding", "certifying", "verify")
    return (order.index(stage) if stage in order else order.index("node"), stage)


@dataclass(frozen=True)
class OpenedRound:
    """A round that was opened and accepts submissions."""

    round_id: str
    announcement: Announcement


@asynccontextmanager
async def control_of(
    deployment: Deployment,
) -> AsyncIterator[analyst_pb2_grpc.RoundControlAsyncStub]:
    """The channel to the analyst: an operator's, or a viewer's, who may only list and follow."""
    roster = deployment.roster
    async with channel_to(roster.analyst, deployment.own_keys, roster) as channel:
        yield analyst_pb2_grpc.RoundControlStub(channel)


async def open_round(
    control: analyst_pb2_grpc.RoundControlAsyncStub, plan: RoundPlan, round_id: str = ""
) -> OpenedRound:
    """Ask the analyst to open a new round.

    Returns its announcement, or raises the analyst's typed error.

    If the caller draws the `round_id` (32 hex digits), the call may be repeated: the round is
    opened only once.
    """
    async with translate_errors(ANALYST):
        opened = await control.OpenRound(
            analyst_pb2.OpenRoundRequest(plan=to_json(plan), round_id=round_id)
        )
    return OpenedRound(opened.round_id, from_json(opened.announcement, Announcement))


async def follow_round(
    control: analyst_pb2_grpc.RoundControlAsyncStub,
    round_id: str,
    stages: Stages,
    clock: StageClock,
    *,
    accepting: bool = False,
    heard: Callable[[], None] = lambda: None,
) -> Signed:
    """Follow a round to its end; return its signed result.

    `accepting` also shows the submissions as they come in.

    `heard` is called at each message from the analyst.
    """
    async with translate_errors(ANALYST):
        async for event in control.FollowRound(analyst_pb2.FollowRoundRequest(round_id=round_id)):
            heard()
            if event.stage == "ended":
                return Signed.from_bytes(event.result)
            label = f"{event.node} {event.stage}".strip()
            if accepting or event.stage != "accepting":
                stages.update(label, event.done, event.total)
                if event.seconds:
                    clock.record(label, event.seconds)
    raise errors.UnreachableError("the analyst stopped reporting before the round had ended")


async def abort_round(
    control: analyst_pb2_grpc.RoundControlAsyncStub, round_id: str, reason: str
) -> None:
    """Ask the analyst to cancel the round, if it can be reached."""
    try:
        async with translate_errors(ANALYST):
            await control.AbortRound(
                analyst_pb2.AbortRoundRequest(round_id=round_id, reason=reason), timeout=10.0
            )
    except errors.ShuffleDPError:
        # the analyst is gone or has ended the round itself: the caller's error says what happened
        return


def read_result(deployment: Trusting, signed: Signed) -> Result:
    """Verify the signed result of a successful round.

    Raises the error that ended the round otherwise.
    """
    result = verify_from(deployment.roster.analyst, signed, Result)
    if result.outcome != Outcome.PUBLISHED:
        raise errors.by_code(result.error or "RoundFailed")(
            f"round {result.round_id} failed: {result.reason}"
        )
    return result


async def fetch_board(deployment: Deployment, report: RoundReport) -> bytes:
    """Fetch the published messages of a round, packed, in mixed order; unverified."""
    result = from_json(report.documents["result"].body, Result)
    geometry = from_json(report.documents["manifest"].body, Manifest).geometry
    async with AnalystReader.of(deployment.own_keys, deployment.roster) as analyst:
        return await analyst.board(report.round_id, result.messages * geometry.plain_bytes)


async def with_published(deployment: Deployment, report: RoundReport) -> RoundReport:
    """Add to a report all other files of the round that the analyst publishes.

    That is the proof that its result is in the public log, and of a verified round also board and
    history, which are not verified here.

    Raises `DocumentError` for a proof that does not show this very result.
    """
    roster = deployment.roster
    if roster.log_terms is not None:
        async with AnalystReader.of(deployment.own_keys, roster) as analyst:
            end = await analyst.ending(report.round_id)
        report = with_result_proof(roster, report, end.log)
    result = from_json(report.documents["result"].body, Result)
    if not isinstance(result.history, HistoryDigest):
        return report
    board = await fetch_board(deployment, report)
    async with AnalystReader.of(deployment.own_keys, roster) as analyst:
        history = await analyst.history(report.round_id, result.history.length)
    return replace(report, published=report.published | {BOARD: board, HISTORY: history})


def with_result_proof(roster: Roster, report: RoundReport, proof: bytes | None) -> RoundReport:
    """Add to a report the proof that its result is in the public log, if there is a proof.

    The roster must name witnesses. Raises `DocumentError` if the proof does not show this result.
    """
    if proof is None:
        return report
    position = check_result_proof(proof, report.documents["result"], roster)
    published = report.published | {RESULT_PROOF: proof}
    return replace(report, published=published, result_logged=position)


def corrupt_positions(manifest: Manifest) -> tuple[int, ...]:
    """The positions of the nodes that declare in their round keys that they are corrupt.

    Raises `MalformedDocumentError` for a round key that cannot be read.
    """
    keys = [from_json(signed.body, RoundKey) for signed in manifest.route]
    return tuple(key.position for key in keys if key.corrupt)


def make_report(
    deployment: Trusting,
    opened: OpenedRound,
    signed: Signed,
    result: Result,
    seconds: dict[str, float],
) -> RoundReport:
    """Make the report of a published round.

    Raises `DocumentError` for a certificate that is not the accountant's, or a proof that does not
    show the plan certificate in the public log.
    """
    if (
        result.plan_certificate is None
        or result.final_certificate is None
        or result.estimate is None
    ):
        raise errors.MalformedDocumentError(
            "the published result lacks its estimate or a certificate"
        )
    manifest = from_json(opened.announcement.manifest.body, Manifest)
    proof = opened.announcement.log
    final = verify_from(deployment.roster.accountant, result.final_certificate, Certificate)
    words = final.question_wording
    labels: tuple[str, ...] = ()
    if words is not None and final.mechanism.counts_columns:
        labels = words.cell_names()
    elif words is not None and len(result.estimate.values) == words.size:
        labels = words.names()
    return RoundReport(
        round_id=opened.round_id,
        users=manifest.max_reports,
        accepted=result.accepted,
        messages=result.messages,
        estimate=result.estimate,
        final=final,
        column=None if words is None else ", ".join(words.fields),
        labels=labels,
        suite=manifest.geometry.suite,
        corrupt=corrupt_positions(manifest),
        dropped=result.dropped,
        outside_alphabet=result.outside_alphabet,
        repeated_tags=result.repeated_tags,
        seconds=seconds,
        documents={
            "certificate": result.final_certificate,
            "plan-certificate": result.plan_certificate,
            "manifest": opened.announcement.manifest,
            "result": signed,
        },
        published={LOG_PROOF: proof.encode()} if isinstance(proof, str) else {},
        # A round from before the roster named witnesses has no proof: `shuffledp verify` says so.
        logged=locate_announced(opened.announcement, deployment.roster)
        if isinstance(proof, str)
        else None,
    )
