"""One user's device: find and verify a round, submit once, verify afterwards. The I/O around the pure parts."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from shuffledp_client.board import VerifiedResult, check_board, check_result
from shuffledp_client.config import ClientConfig, load_member
from shuffledp_client.state import Kept, SubmissionStore
from shuffledp_client.submission import PreparedSubmission, prepare
from shuffledp_client.transport import AnalystReader, Backoff, EntryNode, find_round
from shuffledp_client.verification import VerifiedRound, parse_announcement, verify_round
from shuffledp_core.clock import Clock, system_clock
from shuffledp_core.errors import (
    ReceiptMissingError,
    RoundFailed,
    RoundStateError,
    SubmissionClosedError,
    UnknownRoundError,
)
from shuffledp_core.keys import load_roster

POLL_SECONDS: Final = 0.5
"""Between two questions for a result that is not there yet."""


@dataclass(frozen=True)
class Submitted:
    """How a submission went. `repeated`: an earlier one was sent again, and the value given now was not used."""

    round_id: str
    entry: str
    messages: int
    repeated: bool


class Device:
    """A configured client. Methods raise the typed errors of the steps they run."""

    def __init__(self, config: ClientConfig, backoff: Backoff | None = None, clock: Clock = system_clock) -> None:
        self._config = config
        self._backoff = backoff or Backoff()
        self._clock = clock
        self._roster = load_roster(config.roster, config.root_key)
        self._member, self._population = load_member(config.keys, self._roster)
        self._store = SubmissionStore(config.state)

    async def find_round(self, round_id: str | None = None) -> VerifiedRound:
        """The verified announcement of this round, or of one that is open now; see `transport.find_round`."""

        def verified(data: bytes) -> VerifiedRound:
            policy, population, now = self._config.policy, self._population, self._clock()
            return verify_round(parse_announcement(data), self._roster, policy, population, now, round_id)

        return await find_round(
            self._roster,
            self._config.keys,
            self._config.broker,
            verified,
            round_id=round_id,
            broker_seconds=self._config.broker_seconds,
            backoff=self._backoff,
        )

    async def submit(self, value: int, round_id: str | None = None) -> Submitted:
        """Submits the value to a round, at most once in the device's life.

        If a submission to the round is kept from before, that one is sent again, whatever the value is now.
        """
        kept = self._store.find(round_id) if round_id is not None else None
        if kept is None:
            verified = await self.find_round(round_id)
            kept = self._store.find(verified.round_id)
            if kept is None:
                prepared = prepare(verified, value, self._member)
                kept = self._store.keep(prepared)
                return await self._send(kept, repeated=kept.submission != prepared)
        return await self._send(kept, repeated=True)

    async def _send(self, kept: Kept, *, repeated: bool) -> Submitted:
        submission = kept.submission
        if kept.receipt is None:
            entry = self._roster.party(submission.entry)
            async with EntryNode(entry, self._config.keys, self._roster, self._backoff) as node:
                self._store.add_receipt(submission.round_id, await node.submit(submission))
        return Submitted(submission.round_id, submission.entry, submission.geometry.messages_per_user, repeated)

    def only_round(self) -> str:
        """The round of the one submission that is kept; `RoundStateError` when there is none or more than one."""
        rounds = self._store.rounds()
        if len(rounds) != 1:
            raise RoundStateError(f"{len(rounds)} submissions wait for verification here; name one with --round")
        return rounds[0]

    async def verify(self, round_id: str, *, wait: bool = False) -> VerifiedResult:
        """Checks result, certificates and board of a round that was submitted to; then erases what was kept of it.

        What is kept stays when the check fails: with the receipt it is the user's evidence. A round that failed by
        a genuine result is over as well, and is erased.

        Raises:
            UnknownRoundError: nothing was submitted from here, or there is no result (yet).
            ReceiptMissingError: messages are not on the board.
            SubmissionClosedError: they are not, but no receipt was ever given for them; erased, as it proves nothing.
        """
        kept = self._store.load(round_id)
        submission = kept.submission
        async with AnalystReader.of(self._config.keys, self._roster, self._backoff) as analyst:
            verified = await self._result(analyst, submission, wait=wait)
            geometry = submission.geometry
            board = await analyst.board(round_id, verified.result.messages * geometry.plain_bytes)
        try:
            check_board(verified, geometry, board, [submission.messages])
        except ReceiptMissingError as error:
            if kept.receipt is not None:
                raise
            self._store.finish(round_id)
            raise SubmissionClosedError(
                f"the submission to round {round_id} never got a receipt and is not in it: it came too late, or never"
            ) from error
        self._store.finish(round_id)
        return verified

    async def _result(self, analyst: AnalystReader, submission: PreparedSubmission, *, wait: bool) -> VerifiedResult:
        until = submission.closes_at + int(1000 * self._config.wait_seconds) if wait else 0
        while True:
            try:
                signed = await analyst.result(submission.round_id)
                break
            except UnknownRoundError:
                if self._clock() >= until:
                    raise
                await asyncio.sleep(POLL_SECONDS)
        try:
            return check_result(submission, self._roster, signed)
        except RoundFailed:  # only a genuine result says so
            self._store.finish(submission.round_id)
            raise
