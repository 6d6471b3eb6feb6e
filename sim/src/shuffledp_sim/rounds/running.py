"""One round on a running local system, from values to a verified answer: what demo, load tests and attacks share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shuffledp_core import errors
from shuffledp_core.documents.models import Announcement, Certificate, Manifest, Result, RoundKey, RoundPlan
from shuffledp_core.documents.signed import Signed, from_json, to_json
from shuffledp_core.keys import verify_from
from shuffledp_core.mechanisms import KRRHistogram, Mechanism
from shuffledp_core.transport.rpc_errors import translated
from shuffledp_core.transport.tls import OPERATOR, channel_to
from shuffledp_proto.v1 import analyst_pb2, analyst_pb2_grpc
from shuffledp_sim.keys.pki import ACCOUNTANT, ANALYST, Deployment
from shuffledp_sim.progress import Stages
from shuffledp_sim.rounds.report import RoundReport
from shuffledp_sim.system.processes import LocalSystem
from shuffledp_sim.users.fleet import Fleet

WATCH_SECONDS: Final = 0.2
"""How often the local processes are looked at."""


class StageClock:
    """Seconds by stage, in the order in which the stages end."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._began = time.perf_counter()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Times the block."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = time.perf_counter() - began

    def finish(self) -> None:
        """Puts the stages in the order of the round, and adds the time since the clock was made."""
        self.seconds = dict(sorted(self.seconds.items(), key=lambda item: _order(item[0])))
        self.seconds["total"] = time.perf_counter() - self._began


def _order(stage: str) -> tuple[int, str]:
    """Where a stage stands in a round; all stages of the nodes come by node, in the order of their names."""
    order = ("start", "open", "sealing", "upload", "node", "decoding", "certifying", "verify")
    return (order.index(stage) if stage in order else order.index("node"), stage)


@dataclass(frozen=True)
class OpenedRound:
    """A round that accepts submissions."""

    round_id: str
    announcement: Announcement


@asynccontextmanager
async def control_of(deployment: Deployment) -> AsyncIterator[analyst_pb2_grpc.RoundControlAsyncStub]:
    """The operator's line to the analyst."""
    roster = deployment.roster
    async with channel_to(roster.the(ANALYST), deployment.keys_of(OPERATOR), roster) as channel:
        yield analyst_pb2_grpc.RoundControlStub(channel)


async def open_round(control: analyst_pb2_grpc.RoundControlAsyncStub, plan: RoundPlan) -> OpenedRound:
    """Certificate, keys, manifest and announcement of a new round; the analyst's typed error otherwise."""
    async with translated(ANALYST):
        opened = await control.OpenRound(analyst_pb2.OpenRoundRequest(plan=to_json(plan)))
    return OpenedRound(opened.round_id, from_json(opened.announcement, Announcement))


async def run_round(
    system: LocalSystem,
    plan: RoundPlan,
    values: NDArray[np.int64],
    pool: ProcessPoolExecutor,
    stages: Stages,
    clock: StageClock,
    *,
    capped: int = 0,
    credentials: list[bytes] | None = None,
) -> RoundReport:
    """Opens a round, plays one user per value, and waits for the verified result.

    Args:
        system: running processes.
        plan: what to ask.
        values: shape (users,), int64, inside the plan's domain.
        pool: sealing processes.
        stages: where progress is shown.
        clock: filled by stage.
        capped: shown in the report.
        credentials: gets the credential id of each user, in the order of `values`.

    Raises:
        ShuffleDPError: whatever ended the round; the round is aborted then.
    """
    async with control_of(system.deployment) as control:
        with clock.stage("open"), stages.one("open"):
            opened = await open_round(control, plan)
        fleet = Fleet(system, opened.round_id, values, pool, stages, clock.seconds)
        try:
            signed = await _until_ended(system, control, opened.round_id, fleet, stages, clock)
        except BaseException as error:
            await abort_round(control, opened.round_id, str(error) or type(error).__name__)
            raise
    result = read_result(system.deployment, signed)
    if credentials is not None:
        credentials.extend(fleet.credentials)
    with clock.stage("verify"):
        await fleet.verify(signed)
    clock.finish()
    stages.finish()
    report = make_report(system.deployment, opened, signed, result, clock.seconds)
    return replace(report, truth=count_truth(report.final.mechanism, values), capped=capped)


async def _until_ended(
    system: LocalSystem,
    control: analyst_pb2_grpc.RoundControlAsyncStub,
    round_id: str,
    fleet: Fleet,
    stages: Stages,
    clock: StageClock,
) -> Signed:
    """The signed result; the first failure of follower, fleet or a process otherwise."""
    follower = asyncio.ensure_future(follow_round(control, round_id, stages, clock))
    others = [asyncio.ensure_future(fleet.submit()), asyncio.ensure_future(_watch(system))]
    try:
        while not follower.done():
            waiting = [task for task in (follower, *others) if not task.done()]
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for other in others:
                if other.done():
                    other.result()
        return follower.result()
    finally:
        for task in (follower, *others):
            task.cancel()
        await asyncio.gather(follower, *others, return_exceptions=True)


async def follow_round(
    control: analyst_pb2_grpc.RoundControlAsyncStub,
    round_id: str,
    stages: Stages,
    clock: StageClock,
    *,
    accepting: bool = False,
) -> Signed:
    """The signed result, once the round has ended; `accepting` also shows the submissions as they come in."""
    async with translated(ANALYST):
        async for event in control.FollowRound(analyst_pb2.FollowRoundRequest(round_id=round_id)):
            if event.stage == "ended":
                return Signed.from_bytes(event.result)
            label = f"{event.node} {event.stage}".strip()
            if accepting or event.stage != "accepting":
                stages.update(label, event.done, event.total)
                if event.seconds:
                    clock.seconds[label] = event.seconds
    raise errors.UnreachableError("the analyst stopped reporting before the round had ended")


async def _watch(system: LocalSystem) -> None:
    while True:
        system.check_alive()
        await asyncio.sleep(WATCH_SECONDS)


async def abort_round(control: analyst_pb2_grpc.RoundControlAsyncStub, round_id: str, reason: str) -> None:
    """Tells the analyst to give the round up, if it still can hear that."""
    try:
        async with translated(ANALYST):
            await control.AbortRound(analyst_pb2.AbortRoundRequest(round_id=round_id, reason=reason), timeout=10.0)
    except errors.ShuffleDPError:
        return  # the analyst is gone or has ended the round itself: the caller's error says what happened


def read_result(deployment: Deployment, signed: Signed) -> Result:
    """The verified result of a round that succeeded; the error that ended the round otherwise."""
    result = verify_from(deployment.roster.the(ANALYST), signed, Result)
    if result.outcome != "published":
        raise errors.by_code(result.error or "RoundFailed")(f"round {result.round_id} failed: {result.reason}")
    return result


def count_truth(mechanism: Mechanism, values: NDArray[np.int64]) -> NDArray[np.int64]:
    """What a trusted party would answer: the histogram, shape (k,), or the sum, shape (1,)."""
    if isinstance(mechanism, KRRHistogram):
        return np.bincount(values, minlength=mechanism.symbols).astype(np.int64)
    return np.array([values.sum()], dtype=np.int64)


def make_report(
    deployment: Deployment, opened: OpenedRound, signed: Signed, result: Result, seconds: dict[str, float]
) -> RoundReport:
    """What a published round shows. Raises `DocumentError` for a certificate that is not the accountant's."""
    if result.plan_certificate is None or result.final_certificate is None or result.estimate is None:
        raise errors.MalformedDocumentError("the published result lacks its estimate or a certificate")
    manifest = from_json(opened.announcement.manifest.body, Manifest)
    keys = [from_json(signed_key.body, RoundKey) for signed_key in manifest.route]
    return RoundReport(
        round_id=opened.round_id,
        users=manifest.max_reports,
        accepted=result.accepted,
        messages=result.messages,
        estimate=result.estimate,
        final=verify_from(deployment.roster.the(ACCOUNTANT), result.final_certificate, Certificate),
        suite=manifest.geometry.suite,
        corrupt=tuple(key.position for key in keys if key.corrupt),
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
    )
