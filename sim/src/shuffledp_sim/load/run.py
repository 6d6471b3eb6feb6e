"""A load test: round, sealed users, connections, arrivals, end, and check of receipts."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from shuffledp.progress import Stages
from shuffledp_client.board import check_board, check_result
from shuffledp_client.submission import PreparedSubmission
from shuffledp_client.transport import AnalystReader, Backoff, with_retries
from shuffledp_client.verification import CheckedRound
from shuffledp_core.documents.signed import Signed, to_json
from shuffledp_core.errors import RoundFailed, ShuffleDPError, UnreachableError
from shuffledp_core.transport.rpc_errors import translate_errors
from shuffledp_core.transport.tls import CLIENT
from shuffledp_ops.keys.pki import ANALYST, open_deployment
from shuffledp_ops.rounds.running import (
    StageClock,
    abort_round,
    control_of,
    follow_round,
    open_round,
    read_result,
)
from shuffledp_proto.v1 import analyst_pb2, analyst_pb2_grpc
from shuffledp_sim.load import corpus as corpora
from shuffledp_sim.load.arrivals import Timeline, arrival_times, drive
from shuffledp_sim.load.connections import (
    EntryConnections,
    allow_open_files,
    connect_users,
    established_to,
)
from shuffledp_sim.load.corpus import Corpus
from shuffledp_sim.load.figures import (
    ACCEPTED,
    DRIVER,
    ENTRY,
    UNANSWERED,
    Calls,
    Ending,
    LoadMeasurements,
    LoadReport,
    accepted_users,
    count_lost,
)
from shuffledp_sim.load.machine import Usage, usage_from_metrics, usage_of
from shuffledp_sim.load.options import LoadOptions
from shuffledp_sim.system.processes import LocalBudget, LocalSystem
from shuffledp_sim.users.fleet import DeployedSystem, System, enrolled_users, verified_for
from shuffledp_sim.users.sealing import sealing_pool, warm

_LOCAL_BUDGET: Final = 1e6
"""Budget ε of the local system's accountant, which no single round exceeds."""


@dataclass(frozen=True)
class LoadOutcome:
    """Figures of a load test, and each user's times for the plot."""

    report: LoadReport
    timeline: Timeline


async def run_load(options: LoadOptions, stages: Stages) -> LoadOutcome:
    """Run one load test.

    Raises:
        ShuffleDPError: the test could not run. A round that fails at its end is reported with its
            `failure`.
    """
    allow_open_files(options.connections)
    with tempfile.TemporaryDirectory(prefix="shuffledp-") as folder, sealing_pool() as pool:
        async with _system(options, Path(folder) / "system", stages) as (system, pids):
            await warm(pool)
            corpus = options.corpus or Path(folder) / "corpus"
            return await LoadTest(system, pids, options, corpus, pool, stages).run()


@asynccontextmanager
async def _system(
    options: LoadOptions, folder: Path, stages: Stages
) -> AsyncIterator[tuple[System, dict[str, int]]]:
    """Context with the system under test, and its processes by name if they run here."""
    if options.keys is not None:
        yield DeployedSystem(open_deployment(options.keys), options.population, None), {}
        return
    budget = LocalBudget(_LOCAL_BUDGET, options.delta)
    local = LocalSystem(
        folder, nodes=options.nodes, budget=budget, forked=False
    )  # the memory of each is reported
    try:
        stages.update("start", 0, len(local.processes))
        await local.start(partial(stages.update, "start"))
        yield local, {name: process.pid for name, process in local.processes.items()}
    finally:
        local.stop()


class LoadTest:
    """One load test on a running system; call `run` once.

    Args:
        system: the system under test.
        pids: the system's processes on this machine, by name; figures of missing ones are unknown.
        options: options of the test.
        corpus: folder for the sealed submissions; an existing complete corpus for the round is used
            as it is.
        pool: sealing processes.
        stages: display of the progress.
    """

    def __init__(
        self,
        system: System,
        pids: dict[str, int],
        options: LoadOptions,
        corpus: Path,
        pool: ProcessPoolExecutor,
        stages: Stages,
    ) -> None:
        self._system = system
        self._pids = pids
        self._options = options
        self._corpus = corpus
        self._pool = pool
        self._stages = stages
        self._clock = StageClock()

    async def run(self) -> LoadOutcome:
        """Open or find the round, and run the test.

        If the test cannot continue, a round that it opened is aborted.
        """
        async with control_of(self._system.deployment) as control:
            with self._clock.stage("open"):
                verified = await self._round(control)
            follower = asyncio.ensure_future(
                follow_round(control, verified.round_id, self._stages, self._clock)
            )
            try:
                return await self._through(control, verified, follower)
            except BaseException as error:
                if self._options.round_id is None:
                    await abort_round(
                        control, verified.round_id, str(error) or type(error).__name__
                    )
                raise
            finally:
                follower.cancel()
                await asyncio.gather(follower, return_exceptions=True)

    async def _round(self, control: analyst_pb2_grpc.RoundControlAsyncStub) -> CheckedRound:
        deployment, round_id = self._system.deployment, self._options.round_id
        if round_id is None:
            opened = await open_round(control, self._options.plan(self._system))
            return verified_for(self._system, to_json(opened.announcement), opened.round_id)
        async with AnalystReader.of(deployment.keys_of(CLIENT), deployment.roster) as analyst:
            return verified_for(self._system, await analyst.announcement(round_id), round_id)

    async def _through(
        self,
        control: analyst_pb2_grpc.RoundControlAsyncStub,
        verified: CheckedRound,
        follower: asyncio.Future[Signed],
    ) -> LoadOutcome:
        with self._clock.stage("sealing"):
            await self._seal(verified)
        with Corpus(self._corpus, verified.round_id, self._options.users) as corpus:
            collected = await self._collect(verified, corpus)
            if not self._options.leave_open:
                async with translate_errors(ANALYST):
                    await control.EndSubmissions(
                        analyst_pb2.EndSubmissionsRequest(round_id=verified.round_id)
                    )
            signed = await follower
            with self._clock.stage("verify"):
                ending = await self._ending(corpus, collected.timeline, signed)
        self._stages.finish()
        peaks = {name: usage_of(pid) for name, pid in self._pids.items()}
        report = LoadReport.of(
            verified, self._options, collected, ending, peaks, self._clock.seconds
        )
        return LoadOutcome(report, collected.timeline)

    async def _seal(self, verified: CheckedRound) -> None:
        if corpora.exists(self._corpus):
            return
        users = self._options.users
        values = np.arange(users, dtype=np.int64) % verified.mechanism.domain
        chunks = enrolled_users(self._system, verified, values)
        await corpora.seal_corpus(
            self._corpus, verified, chunks, self._pool, partial(self._bar, "sealing"), users
        )

    async def _collect(self, verified: CheckedRound, corpus: Corpus) -> LoadMeasurements:
        count, bar = self._options.connections, partial(self._bar, "connecting")
        began = asyncio.get_running_loop().time()
        async with connect_users(self._system.deployment, verified, count, bar) as connections:
            self._clock.seconds["connecting"] = asyncio.get_running_loop().time() - began
            established = established_to(verified.entry.address)
            before = await self._usage(verified)
            options = self._options
            intended = arrival_times(
                options.arrivals, options.rate, options.users, np.random.default_rng()
            )
            users = Users(connections, corpus, options.users, Backoff(attempts=options.attempts))
            with self._clock.stage("arrivals"):
                timeline = await drive(intended, users.submit, partial(self._bar, "arrivals"))
            after = await self._usage(
                verified
            )  # before the round closes: mixing is not part of the measured load
        calls = Calls(users.calls, dict(users.unanswered.most_common()))
        return LoadMeasurements(timeline, calls, connections.handshakes, established, before, after)

    async def _usage(self, verified: CheckedRound) -> dict[str, Usage | None]:
        pid, url = self._pids.get(verified.entry.name), self._options.metrics
        entry = None if pid is None else usage_of(pid)
        if url is not None:
            entry = await asyncio.to_thread(usage_from_metrics, url)
        return {DRIVER: usage_of(os.getpid(), alone=True), ENTRY: entry}

    def _bar(self, stage: str, done: int, total: int) -> None:
        self._stages.update(stage, done, total)

    async def _ending(self, corpus: Corpus, timeline: Timeline, signed: Signed) -> Ending:
        """Outcome of the round, after checking the board for every user with a receipt."""
        deployment, receipts = self._system.deployment, accepted_users(timeline)
        try:
            result = read_result(deployment, signed)
        except RoundFailed as error:
            return Ending(None, None, str(error))
        if not len(receipts):
            return Ending(0, result.accepted, None)
        sample = corpus[int(receipts[0])]
        verified, geometry = check_result(sample, deployment.roster, signed), sample.geometry
        async with AnalystReader.of(deployment.keys_of(CLIENT), deployment.roster) as analyst:
            board = await analyst.board(sample.round_id, result.messages * geometry.plain_bytes)
        check_board(verified, geometry, board, ())
        lost = count_lost(geometry, board, (corpus[int(user)].messages for user in receipts))
        return Ending(lost, result.accepted, None)


class Users:
    """Arriving users: each submits as the real client does, and its calls are counted.

    Each reads its sealed submission, sends it, checks the receipt, and asks again while there
    is no answer. Repeating is harmless: the node gives the same receipt again.

    Args:
        connections: the connections that the users share.
        corpus: at least as many submissions as there are users.
        backoff: attempts and pauses of a user.

    Attributes:
        calls: number of calls of each user so far, shape (users,).
        unanswered: calls without an answer, by what gRPC said.
    """

    def __init__(
        self, connections: EntryConnections, corpus: Corpus, users: int, backoff: Backoff
    ) -> None:
        self.calls = np.zeros(users, dtype=np.int64)
        self.unanswered: Counter[str] = Counter()
        self._connections = connections
        self._corpus = corpus
        self._backoff = backoff

    async def submit(self, user: int) -> str:
        """Submit one user's sealed submission, with retries, and return the outcome.

        Returns `ACCEPTED`, `UNANSWERED` with the last reason, or the name of the error that refused
        it.
        """
        submission = self._corpus[user]
        try:
            await with_retries(lambda: self._ask(user, submission), self._backoff)
        except UnreachableError as error:
            return f"{UNANSWERED}{error}"
        except ShuffleDPError as error:
            return type(error).__name__
        return ACCEPTED

    async def _ask(self, user: int, submission: PreparedSubmission) -> None:
        self.calls[user] += 1
        try:
            await self._connections.entries[user % len(self._connections.entries)].submit(
                submission
            )
        except UnreachableError as error:
            self.unanswered[str(error)] += 1
            raise
