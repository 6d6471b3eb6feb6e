"""A deployment as the console's source: one process fetches each round once for all viewers.

It asks the analyst every `REFRESH` seconds for new rounds, follows those that run, and asks the
accountant for budgets whenever a round began or ended. A party that does not answer is shown as
unreachable, with its last data.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from shuffledp.log_proofs import locate_announced
from shuffledp_client.transport import AnalystReader, Backoff
from shuffledp_core.documents.models import Announcement, Certificate, Manifest, Result
from shuffledp_core.documents.signed import Signed, from_json
from shuffledp_core.errors import (
    DocumentError,
    MalformedDocumentError,
    ShuffleDPError,
    UnknownRoundError,
    UnreachableError,
)
from shuffledp_core.runtime.keys import verify_from
from shuffledp_core.transport.rpc_errors import translate_errors
from shuffledp_core.vocabulary import ROUND_ID
from shuffledp_ops.console.accounts import Accounts
from shuffledp_ops.console.changes import Changes
from shuffledp_ops.console.model import (
    MOST_ROUNDS,
    PUBLISHED,
    RUNNING,
    ConsoleSnapshot,
    PublishedRound,
    RoundAnnouncement,
    RoundEnding,
    RoundInfo,
    StageProgress,
    Trouble,
)
from shuffledp_ops.keys.pki import ANALYST, Deployment, open_deployment
from shuffledp_ops.results.fetching import download, require_round, verify_downloaded
from shuffledp_ops.rounds.operate import trusted_files
from shuffledp_ops.rounds.running import control_of, corrupt_positions
from shuffledp_proto.v1 import analyst_pb2, analyst_pb2_grpc

REFRESH: Final = 2.0
"""Seconds between two questions for new rounds."""

_PAUSE: Final = 0.5
"""Shortest time between two changes of the snapshot, in seconds."""

_CALL: Final = 15.0
"""Deadline of one question, in seconds."""

_NEWEST: Final = 8
"""Rounds that are asked for to learn of new ones; all on the pages when none of these is known."""

_MOST_STEPS: Final = 1000
"""Most steps of a round that are kept; a round has a few for each node."""

_LONGEST_NAME: Final = 200
"""Most letters of a stage's or node's name."""

_MOST_FOLLOWED: Final = 16
_MOST_OPENED: Final = 16
_ENDED: Final = "ended"
_ANSWER: Final = "the answer of round"
_ONE_ATTEMPT: Final = Backoff(attempts=1)


class DeploymentWatch(Changes):
    """The console's source for a running deployment, whose key folder is `keys`."""

    live = True

    def __init__(self, keys: Path) -> None:
        super().__init__()
        self._keys = keys
        self.deployment: Deployment = open_deployment(keys)
        self._accounts = Accounts()
        self._rounds: dict[str, RoundInfo] = {}
        self._more = False
        self._troubles: dict[str, Trouble] = {}
        self._followed: set[str] = set()
        self._touched = asyncio.Event()
        self._hurried = asyncio.Event()
        self._opened: OrderedDict[str, PublishedRound] = OrderedDict()
        self._opening = asyncio.Lock()
        self._tried = ""
        self._newest: PublishedRound | None = None

    @property
    def title(self) -> str:
        """The deployment's name."""
        return self.deployment.roster.deployment

    def hurry(self) -> None:
        """Query budgets and rounds at once, because an action has changed them."""
        self._accounts.due = True
        self._hurried.set()

    async def until_listed(self, round_id: str) -> None:
        """Wait until a round that was just opened is in the snapshot.

        Gives up after a few seconds.
        """
        self.hurry()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CALL):
                version = self.version
                while self.snapshot.round(round_id) is None:
                    version = await self.wait_for_change(version)

    async def keep_current(self) -> None:
        """Keep the snapshot up to date until cancelled.

        After an error it reads the keys again and opens a new connection.
        """
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._publish())
            while True:
                try:
                    await self._session(tasks)
                except ShuffleDPError as error:
                    self._fail(ANALYST, error)
                await asyncio.sleep(REFRESH)

    async def check(self) -> None:
        """Query the analyst once, to fail early.

        Raises typed errors if the deployment is unreachable or does not accept these keys.
        """
        try:
            async with control_of(self.deployment) as control:
                await self._list(control)
        except UnreachableError as error:
            address = self.deployment.roster.analyst.address
            raise type(error)(
                f"{error}. Is the deployment up, can {address} be reached from here, and do the "
                f"keys in {self._keys} belong to this deployment?"
            ) from error

    async def open(self, round_id: str) -> PublishedRound:
        """Verify and return a published round; computed once.

        Raises `UnknownRoundError`, or what is wrong with it.
        """
        async with self._opening:
            if round_id not in self._opened:
                deployment = self.deployment
                async with asyncio.timeout(4 * _CALL):
                    downloaded = await download(deployment, round_id)
                fetched = await asyncio.to_thread(
                    verify_downloaded, deployment, round_id, downloaded
                )
                documents = {
                    f"{name}.json": document.to_bytes()
                    for name, document in fetched.report.documents.items()
                }
                self._opened[round_id] = PublishedRound(
                    fetched.report,
                    documents | fetched.report.published | trusted_files(self._keys),
                )
                while len(self._opened) > _MOST_OPENED:
                    self._opened.popitem(last=False)
            return self._opened[round_id]

    async def _session(self, tasks: asyncio.TaskGroup) -> None:
        self.deployment = deployment = open_deployment(self._keys)
        async with AsyncExitStack() as stack:
            control = await stack.enter_async_context(control_of(deployment))
            reader = AnalystReader.of(deployment.own_keys, deployment.roster, _ONE_ATTEMPT)
            await stack.enter_async_context(reader)
            while True:
                await self._list(control)
                self._recover(ANALYST)
                for running in [
                    round_info for round_info in self._rounds.values() if round_info.running
                ]:
                    if (
                        running.round_id not in self._followed
                        and len(self._followed) < _MOST_FOLLOWED
                    ):
                        self._followed.add(running.round_id)
                        tasks.create_task(self._follow(deployment, running.round_id))
                await self._learn(deployment, reader)
                await self._ask_accounts(deployment)
                first = next(
                    (
                        round_info.round_id
                        for round_info in self._rounds.values()
                        if round_info.outcome == PUBLISHED
                    ),
                    "",
                )
                if first != self._tried:
                    self._tried = first
                    tasks.create_task(self._verify_newest(first))
                self._touch()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._hurried.wait(), REFRESH)
                self._hurried.clear()

    async def _list(self, control: analyst_pb2_grpc.RoundControlAsyncStub) -> None:
        """Fetch the list of rounds, and add new ones to the snapshot.

        Known rounds change only while they run, and then they are followed.
        """
        for limit in (_NEWEST, MOST_ROUNDS):
            async with translate_errors(ANALYST):
                page = await control.ListRounds(
                    analyst_pb2.ListRoundsRequest(limit=limit), timeout=_CALL
                )
            overlaps = any(summary.round_id in self._rounds for summary in page.rounds)
            if overlaps or not page.more:
                break
        if not all(ROUND_ID.fullmatch(summary.round_id) for summary in page.rounds):
            raise MalformedDocumentError(
                "the analyst lists a round with a malformed id; see the analyst's log"
            )
        for summary in page.rounds:
            before = self._rounds.get(summary.round_id)
            if before is None or (before.running and summary.outcome != RUNNING):
                self._accounts.due = True
                fresh = before or RoundInfo(
                    summary.round_id,
                    summary.opened_at,
                    summary.population,
                    summary.mechanism,
                    summary.outcome,
                )
                self._rounds[summary.round_id] = replace(
                    fresh,
                    outcome=summary.outcome,
                    error=summary.error,
                    accepted=summary.accepted or fresh.accepted,
                )
        newest = sorted(
            self._rounds.values(),
            key=lambda summary: (summary.opened_at, summary.round_id),
            reverse=True,
        )
        self._more = self._more or (page.more and len(newest) >= MOST_ROUNDS)
        self._rounds = {summary.round_id: summary for summary in newest[:MOST_ROUNDS]}

    async def _follow(self, deployment: Deployment, round_id: str) -> None:
        """Follow a round until it ends or the analyst stops reporting; a later call resumes."""
        try:
            async with control_of(deployment) as control, translate_errors(ANALYST):
                async for event in control.FollowRound(
                    analyst_pb2.FollowRoundRequest(round_id=round_id)
                ):
                    self._progress(round_id, event)
                    if event.stage == _ENDED:
                        self._end(deployment, round_id, Signed.from_bytes(event.result))
        except ShuffleDPError as error:
            self._fail(ANALYST, error)
        finally:
            self._followed.discard(round_id)

    def _progress(self, round_id: str, event: analyst_pb2.FollowRoundResponse) -> None:
        current = self._rounds.get(round_id)
        if current is None or event.stage == _ENDED:
            return
        step = StageProgress(event.stage, event.node, event.done, event.total, event.seconds)
        accepted = event.done if event.stage == "accepting" else current.accepted
        key = (event.stage, event.node)
        if max(map(len, key)) > _LONGEST_NAME or (
            key not in current.steps and len(current.steps) >= _MOST_STEPS
        ):
            # nothing that a round does; an analyst may say whatever it likes, and for as long
            return
        steps = {**current.steps, key: step}
        self._rounds[round_id] = replace(current, steps=steps, accepted=accepted)
        self._touch()

    async def _learn(self, deployment: Deployment, reader: AnalystReader) -> None:
        """Fetch manifests and results that are still missing, a few at a time.

        These are the manifests of running and published rounds, and the results of ended ones.
        """
        missing = [
            incomplete
            for incomplete in self._rounds.values()
            if _lacks_announcement(incomplete) or _lacks_ending(incomplete)
        ]
        for incomplete in missing[:_NEWEST]:
            try:
                async with asyncio.timeout(_CALL):
                    if _lacks_announcement(incomplete):
                        announcement = from_json(
                            await reader.announcement(incomplete.round_id), Announcement
                        )
                        self._announce(deployment, incomplete.round_id, announcement)
                    if _lacks_ending(incomplete):
                        self._end(
                            deployment,
                            incomplete.round_id,
                            await reader.result(incomplete.round_id),
                        )
            except UnknownRoundError:
                # not announced yet; or it ended just now, and its result comes with the next turn
                continue
            except TimeoutError as error:
                raise UnreachableError(f"the analyst did not answer within {_CALL:g} s") from error
            except ShuffleDPError as error:  # one bad record hides no other round
                self._end_badly(incomplete.round_id, error)

    def _announce(self, deployment: Deployment, round_id: str, announcement: Announcement) -> None:
        manifest = verify_from(deployment.roster.analyst, announcement.manifest, Manifest)
        require_round(manifest, deployment.roster.deployment, round_id)
        plan = verify_from(deployment.roster.accountant, manifest.certificate, Certificate)
        announced = RoundAnnouncement(
            manifest.min_reports, manifest.max_reports, manifest.opens_at, manifest.closes_at, plan
        )
        all_corrupt = len(corrupt_positions(manifest)) == len(manifest.route)
        logged, log_error = None, None
        try:
            logged = locate_announced(announcement, deployment.roster)
        except DocumentError as error:  # devices take no part; an answer's page says it, too
            log_error = (type(error).__name__, str(error))
        self._rounds[round_id] = replace(
            self._rounds[round_id],
            announced=announced,
            all_corrupt=all_corrupt,
            logged=logged,
            log_error=log_error,
        )

    def _end(self, deployment: Deployment, round_id: str, signed: Signed) -> None:
        if (current := self._rounds.get(round_id)) is None:
            return
        result = verify_from(deployment.roster.analyst, signed, Result)
        require_round(result, deployment.roster.deployment, round_id)
        final = None
        if result.outcome == PUBLISHED and result.final_certificate is not None:
            final = verify_from(deployment.roster.accountant, result.final_certificate, Certificate)
        ending = RoundEnding(result.outcome, result.error or "", result.reason or "", final)
        self._rounds[round_id] = replace(
            current,
            outcome=result.outcome,
            error=ending.error,
            accepted=result.accepted or current.accepted,
            ending=ending,
        )
        self.hurry()

    def _end_badly(self, round_id: str, error: ShuffleDPError) -> None:
        current = self._rounds[round_id]
        if not current.running:
            ending = RoundEnding(current.outcome, type(error).__name__, str(error))
            self._rounds[round_id] = replace(current, ending=ending)

    async def _verify_newest(self, round_id: str) -> None:
        """Verify the newest answer once it is published, because the first page shows its chart."""
        try:
            self._newest = await self.open(round_id)
            self._troubles = {
                who: trouble
                for who, trouble in self._troubles.items()
                if not who.startswith(_ANSWER)
            }
        except (UnreachableError, TimeoutError):
            self._tried = ""  # again with the next turn
        except ShuffleDPError as error:
            self._fail(f"{_ANSWER} {round_id[:8]}", error)
        self._touch()

    async def _ask_accounts(self, deployment: Deployment) -> None:
        name = deployment.roster.accountant.name
        try:
            await self._accounts.ask(deployment, _CALL)
        except ShuffleDPError as error:
            self._fail(name, error)
        else:
            self._recover(name)

    def _fail(self, party: str, error: ShuffleDPError) -> None:
        self._troubles[party] = Trouble(party, type(error).__name__, str(error))
        self._touch()

    def _recover(self, party: str) -> None:
        self._troubles.pop(party, None)

    def _touch(self) -> None:
        self._touched.set()

    async def _publish(self) -> None:
        while True:
            await self._touched.wait()
            self._touched.clear()
            at = self.snapshot.at if ANALYST in self._troubles else round(time.time() * 1000)
            troubles, budgets = tuple(self._troubles.values()), self._accounts.budgets
            self.publish(
                ConsoleSnapshot(
                    at, tuple(self._rounds.values()), self._more, budgets, troubles, self._newest
                )
            )
            await asyncio.sleep(_PAUSE)


def _lacks_announcement(round_info: RoundInfo) -> bool:
    """True for a running or published round whose verified manifest is still to be fetched."""
    if round_info.ending is not None and round_info.ending.error:
        return False
    return round_info.announced is None and round_info.outcome in {RUNNING, PUBLISHED}


def _lacks_ending(round_info: RoundInfo) -> bool:
    """True for an ended round whose verified result is still to be fetched."""
    return not round_info.running and round_info.ending is None
