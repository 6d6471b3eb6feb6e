"""One user's device: finds and verifies a round, submits once, verifies the result.

The I/O around the pure parts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from shuffledp_client.board import CheckedResult, check_result
from shuffledp_client.config import ClientConfig, load_member
from shuffledp_client.evidence import Evidence, check_evidence, gather, still_open
from shuffledp_client.links import Link, Reader, link_to
from shuffledp_client.log_memory import LogMemory
from shuffledp_client.outcomes import locate_answer, locate_record
from shuffledp_client.receipts import find_messages
from shuffledp_client.responses import ResponseStore
from shuffledp_client.state import StoredSubmission, SubmissionStore
from shuffledp_client.submission import PreparedSubmission, prepare
from shuffledp_client.transport import Backoff, RoundEnd, find_round
from shuffledp_client.verification import CheckedRound, parse_announcement, verify_round
from shuffledp_core.documents.models import Result, Roster
from shuffledp_core.documents.signed import Signed
from shuffledp_core.documents.wording import FieldValue
from shuffledp_core.errors import (
    EvidenceError,
    LogProofError,
    ReceiptMissingError,
    RoundFailed,
    RoundStateError,
    SubmissionClosedError,
    UnknownRoundError,
)
from shuffledp_core.runtime.clock import Clock, system_clock
from shuffledp_core.runtime.keys import load_roster, verify_from
from shuffledp_core.transparency.entries import log_key_of
from shuffledp_core.transparency.logged import (
    check_result_logged,
    check_result_manifest,
    check_same_history,
)
from shuffledp_core.transparency.proofs import MAX_PROOF_BYTES

POLL_SECONDS: Final = 0.5
"""Interval between two questions for a result that is not there yet."""


@dataclass(frozen=True)
class SubmissionOutcome:
    """An acknowledged submission.

    `repeated`: an earlier one was sent again, and the value given now was not used.
    """

    round_id: str
    entry: str
    messages: int
    repeated: bool


class DeviceSteps:
    """The steps of a configured device. Methods raise the typed errors of their steps.

    `link` is how it reaches analyst and entry node; None: as the configuration says.
    """

    def __init__(
        self,
        config: ClientConfig,
        backoff: Backoff | None = None,
        clock: Clock = system_clock,
        link: Link | None = None,
    ) -> None:
        self._config = config
        self._backoff = backoff or Backoff()
        self._clock = clock
        self._roster = config.require_addresses(
            load_roster(config.roster, config.root_key, config.state, clock)
        )
        self._member, self._population = load_member(config.keys, self._roster)
        self._link = link or link_to(config, self._roster, self._backoff)
        self._store = SubmissionStore(config.state, config.kept_bytes)
        # By deployment and population: a device keeps one state folder, and may be told to join
        # another one of them.
        scope = f"{self._roster.deployment} {self._population}"
        self._responses = ResponseStore(config.state / "responses", scope)
        self._log = LogMemory(config.state, self._roster)
        self._store.expire(clock(), 86_400 * config.evidence_days)

    def verified(self, data: bytes, round_id: str | None = None) -> CheckedRound:
        """Verify an announcement for this device at the present time; see `verify_round`.

        The device remembers the public log that comes with it.
        """
        announcement = parse_announcement(data)
        policy, population, now = self._config.policy, self._population, self._clock()
        remembered = self._log.load() if policy.require_log else None
        try:
            verified = verify_round(
                announcement, self._roster, policy, population, now, round_id, remembered
            )
        except LogProofError as error:
            if not isinstance(announcement.log, str) or len(announcement.log) > MAX_PROOF_BYTES:
                raise
            evidence = self._log.keep_conflict(announcement.log)
            raise LogProofError(f"{error}; the proof is kept in {evidence}") from error
        if verified.log is not None and isinstance(announcement.log, str):
            self._log.remember(verified.log, announcement.log)
        return verified

    async def find_round(self, round_id: str | None = None) -> CheckedRound:
        """Find and verify this round, or one that is open now.

        See `transport.find_round`.
        """

        def verify_candidate(data: bytes) -> CheckedRound:
            return self.verified(data, round_id)

        return await find_round(
            self._roster,
            self._config.keys,
            self._config.broker,
            verify_candidate,
            round_id=round_id,
            broker_seconds=self._config.broker_seconds,
            reader=self._link.reader,
        )

    async def submit(
        self,
        value: int | str | Mapping[str, FieldValue],
        round_id: str | None = None,
        *,
        verified: CheckedRound | None = None,
    ) -> SubmissionOutcome:
        """Submit the value to a round, at most once in the device's lifetime.

        If a submission to the round is kept from before, that one is sent again, whatever the value
        is now. `verified`: the round where the caller has verified it a moment ago. A value that is
        text is an answer to the round's question in words, and a record is evaluated by them.
        """
        stored = self._store.find(round_id) if round_id is not None else None
        if stored is None:
            verified = verified or await self.find_round(round_id)
            stored = self._store.find(verified.round_id)
            if (
                stored is None
                # another process may keep one meanwhile: then `keep` gives that one, and ours is
                # dropped
            ):
                number = value
                if isinstance(number, str):
                    number = locate_answer(verified.certificate, number)
                elif isinstance(number, Mapping):
                    number = locate_record(verified.certificate, number)
                # In a thread: sealing takes the processor for a while, and an app has more to do
                # meanwhile.
                prepared = await asyncio.to_thread(
                    prepare, verified, number, self._member, recall=self._responses.recall
                )
                stored = self._store.keep(prepared, verified.announcement)
                return await self._send(stored, repeated=stored.submission != prepared)
        return await self._send(stored, repeated=True)

    async def _send(self, stored: StoredSubmission, *, repeated: bool) -> SubmissionOutcome:
        submission = stored.submission
        if stored.receipt is None:
            entry = self._roster.party(submission.entry)
            async with self._link.entry(entry) as node:
                self._store.add_receipt(submission.round_id, await node.submit(submission))
        return SubmissionOutcome(
            submission.round_id, submission.entry, submission.geometry.messages_per_user, repeated
        )

    async def fetch_announcement(self) -> bytes:
        """Fetch the newest open round's announcement, unverified; pass it to `verified`."""
        async with self._link.reader() as analyst:
            return await analyst.announcement()

    @property
    def store(self) -> SubmissionStore:
        """The device's sealed submissions and evidence on disk."""
        return self._store

    @property
    def roster(self) -> Roster:
        """The deployment's roster, with the configuration's addresses."""
        return self._roster

    def only_round(self) -> str:
        """The only round that awaits a result; if there is none, of the only kept submission.

        Raises:
            RoundStateError: there is no round, or more than one.
        """
        stored_rounds = self._store.rounds()
        rounds = (
            tuple(
                round_id for round_id in stored_rounds if self._store.load(round_id).result is None
            )
            or stored_rounds
        )
        if not rounds:
            raise RoundStateError(
                "no submission of this device waits for verification: none was made, or all "
                "have been verified"
            )
        if len(rounds) != 1:
            raise RoundStateError(
                f"{len(rounds)} submissions of this device wait for verification; name one with "
                "--round"
            )
        return rounds[0]

    async def verify(self, round_id: str, *, wait: bool = False) -> CheckedResult:
        """Check result, certificates, answer and board of a submission's round.

        Afterwards the stored submission is erased.

        It stays when a check fails: with the receipt it is the user's evidence. It also stays when
        the analyst says that the round failed, until every node of its route has signed that it
        forwarded nothing.

        Raises:
            UnknownRoundError: this device submitted nothing, or there is no result (yet).
            RoundFailed: the round failed; the message says whether anything is kept.
            ReceiptMissingError: messages are not on the board.
            SubmissionClosedError: messages are missing, but there never was a receipt. The
                submission is erased, because it proves nothing.
        """
        stored = self._store.load(round_id)
        submission = stored.submission
        async with self._link.reader() as analyst:
            end = await self._ending(analyst, submission, wait=wait)
            signed = end.result
            try:
                verified = check_result(submission, self._roster, signed)
            except RoundFailed as error:  # only a genuine result says so
                raise self._settle_failure(stored, signed, end.discards, error) from error
            self._keep_result(
                stored, signed
            )  # before the board is asked for: an analyst cannot take its word back
            self._check_result_logged(end, round_id)
            check_result_manifest(verified.result, stored.announcement.manifest, self._roster)
            found = await self._find_messages(analyst, verified, stored)
        self._store.finish(round_id)
        return found

    async def _find_messages(
        self, analyst: Reader, verified: CheckedResult, stored: StoredSubmission
    ) -> CheckedResult:
        config, round_id = self._config, stored.submission.round_id
        try:
            return await find_messages(
                analyst, verified, stored.submission, config.receipts, config.tile_crowd
            )
        except ReceiptMissingError as error:
            # With a receipt this is evidence, and stays; without one no one promised anything
            # ("Evidence", 3).
            if stored.receipt is not None:
                raise
            self._store.finish(round_id)
            raise SubmissionClosedError(
                f"the submission to round {round_id} has no receipt and is not on the board: it "
                "arrived too late or not at all"
            ) from error

    def _check_result_logged(self, end: RoundEnd, round_id: str) -> None:
        """Check that a result is in the public log, if the user's policy requires it."""
        if not self._needs_log:
            return
        if end.log is None:
            raise LogProofError(
                f"the result of round {round_id} comes without a proof that it is in the public "
                "log, so others may be shown a different one; all files are kept: retry later"
            )
        try:
            log = check_result_logged(end.log, self._roster, self._population, end.result)
            remembered = self._log.load()
            if remembered is not None and log.checkpoint.origin == remembered.checkpoint.origin:
                check_same_history(log, remembered)
        except LogProofError as error:
            evidence = self._log.keep_conflict(end.log.decode())
            raise LogProofError(
                f"{error}; the result is kept, and the proof is in {evidence}"
            ) from error
        if log.checkpoint.origin == log_key_of(self._roster).name:
            self._log.remember(log, end.log.decode())

    @property
    def _needs_log(self) -> bool:
        return self._roster.log_terms is not None and self._config.policy.require_log

    def _settle_failure(
        self,
        stored: StoredSubmission,
        signed: Signed,
        discards: tuple[Signed, ...],
        error: RoundFailed,
    ) -> RoundFailed:
        """Keep or erase a round that failed according to the analyst; return the error to raise."""
        round_id = stored.submission.round_id
        missing = still_open(stored.announcement, self._roster, discards)
        # docs/protocol.md, "Evidence", 2 and 3: nothing left any node, the honest one included, or
        # no one promised it.
        if stored.receipt is None or not missing:
            self._store.finish(round_id)
            return error
        self._keep_result(stored, signed)
        return type(error)(
            f"{error}; receipt and messages are kept for {self._config.evidence_days:g} days: "
            f"{', '.join(missing)} did not sign that nothing was forwarded; ask again later"
        )

    def _keep_result(self, stored: StoredSubmission, signed: Signed) -> None:
        if stored.result != signed:
            self._store.add_result(stored.submission.round_id, signed)

    async def evidence(self, round_id: str) -> tuple[Evidence, bytes]:
        """Checked evidence that messages with a receipt are missing, and the board that lacks them.

        Raises:
            UnknownRoundError: nothing is kept of the round, or it has not ended.
            EvidenceError: the documents prove nothing; the message says why.
        """
        stored = self._store.load(round_id)
        if stored.receipt is None:
            raise EvidenceError(
                f"no receipt of round {round_id} is stored, so there is nothing to prove"
            )
        async with self._link.reader() as analyst:
            signed = stored.result or await analyst.result(round_id)
            bundle = gather(stored.submission, stored.announcement, stored.receipt, signed)
            result = verify_from(self._roster.analyst, signed, Result)
            size = result.messages * stored.submission.geometry.plain_bytes
            board = await analyst.board(round_id, size) if result.board_digest is not None else b""
        check_evidence(bundle, self._roster, board)
        return bundle, board

    async def _ending(
        self, analyst: Reader, submission: PreparedSubmission, *, wait: bool
    ) -> RoundEnd:
        until = submission.closes_at + int(1000 * self._config.wait_seconds) if wait else 0
        while True:
            try:
                return await analyst.ending(submission.round_id)
            except UnknownRoundError:
                if self._clock() >= until:
                    raise
                await asyncio.sleep(POLL_SECONDS)
