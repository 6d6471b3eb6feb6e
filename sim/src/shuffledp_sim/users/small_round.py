"""A small round of a running system, step by step, with control over every user.

A fleet (`fleet`) plays thousands of users as they are. Here each submission is a value that the
caller can keep, change, hold back or look for on the board: for experiments and exercises with some
dozens of users.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from rich.console import Console

from shuffledp.progress import Stages
from shuffledp_client.board import check_board, check_result
from shuffledp_client.policy import Policy
from shuffledp_client.submission import Member, PreparedSubmission, prepare, prepare_answer
from shuffledp_client.transport import AnalystReader, EntryNode
from shuffledp_client.verification import CheckedRound, verify_round
from shuffledp_core.documents.models import Result, RoundPlan
from shuffledp_core.documents.signed import Signed
from shuffledp_core.errors import ShuffleDPError
from shuffledp_core.runtime.clock import system_clock
from shuffledp_core.runtime.keys import Identity
from shuffledp_core.transport.rpc_errors import translate_errors
from shuffledp_core.transport.tls import CLIENT
from shuffledp_core.vocabulary import Outcome
from shuffledp_ops.keys.pki import ANALYST, issue_credentials
from shuffledp_ops.rounds.running import (
    OpenedRound,
    StageClock,
    control_of,
    follow_round,
    open_round,
)
from shuffledp_proto.v1 import analyst_pb2
from shuffledp_sim.users.fleet import ANY_ROUND, System


class SmallRound:
    """One open round: make submissions, `send` them, then `finish`.

    Attributes:
        honest: submissions whose users look for their messages afterwards (`complaint`); the caller
            adds to it.
        verified: the round as a client verified it, under `policy`.
    """

    def __init__(self, system: System, opened: OpenedRound, policy: Policy = ANY_ROUND) -> None:
        self.system = system
        self.round_id = opened.round_id
        self.keys = system.deployment.keys_of(CLIENT)
        self.roster = system.deployment.roster
        self.announcement = opened.announcement
        self.verified: CheckedRound = verify_round(
            opened.announcement,
            self.roster,
            policy,
            system.population,
            system_clock(),
            opened.round_id,
        )
        self.honest: list[PreparedSubmission] = []

    @property
    def enrolment(self) -> Identity:
        """The population's real enrolment identity."""
        return self.system.deployment.enrolment_of(self.system.population)

    def entry(self) -> EntryNode:
        """A device's channel to the entry node, as a context manager."""
        return EntryNode(self.verified.entry, self.keys, self.roster)

    def members(self, users: int, enrolment: Identity | None = None) -> list[Member]:
        """New users with credentials under this key; None for the population's real key."""
        return [Member.of(*pair) for pair in issue_credentials(enrolment or self.enrolment, users)]

    def prepare_all(
        self, values: Sequence[int], enrolment: Identity | None = None
    ) -> list[PreparedSubmission]:
        """Submissions of new users who hold these values, made as a device makes them."""
        members = self.members(len(values), enrolment)
        return [
            prepare(self.verified, value, member)
            for value, member in zip(values, members, strict=True)
        ]

    def seal_all(
        self, answers: Sequence[int], enrolment: Identity | None = None
    ) -> list[PreparedSubmission]:
        """Submissions of new users with these answers, which are not randomised again."""
        members = self.members(len(answers), enrolment)
        return [
            prepare_answer(self.verified, answer, member)
            for answer, member in zip(answers, members, strict=True)
        ]

    async def send(self, submissions: Sequence[PreparedSubmission]) -> None:
        """Send submissions, and check their receipts.

        Raises the entry node's first refusal.
        """
        async with self.entry() as entry:
            await asyncio.gather(*(entry.submit(submission) for submission in submissions))

    async def finish(self) -> Signed:
        """Close the submissions; return the signed result, published or failed."""
        async with control_of(self.system.deployment) as control, translate_errors(ANALYST):
            await control.EndSubmissions(analyst_pb2.EndSubmissionsRequest(round_id=self.round_id))
            return await follow_round(control, self.round_id, _QUIET, StageClock())

    def split(self, packed: bytes) -> list[bytes]:
        """Split packed plain messages into single ones."""
        width = self.verified.geometry.plain_bytes
        return [packed[start : start + width] for start in range(0, len(packed), width)]

    async def board(self, result: Result) -> bytes:
        """The published board; empty if there is none."""
        if result.outcome != Outcome.PUBLISHED:
            return b""
        async with AnalystReader.of(self.keys, self.roster) as analyst:
            return await analyst.board(
                self.round_id, result.messages * self.verified.geometry.plain_bytes
            )

    def complaint(self, signed: Signed, board: bytes, user: int) -> ShuffleDPError | None:
        """The error with which this honest user's own client rejects a published round.

        None when all is well.
        """
        mine = self.honest[user]
        try:
            check_board(
                check_result(mine, self.roster, signed), mine.geometry, board, [mine.messages]
            )
        except ShuffleDPError as error:
            return error
        return None


async def open_small(system: System, plan: RoundPlan, policy: Policy = ANY_ROUND) -> SmallRound:
    """Open a new round whose users have this policy.

    Raises:
        ShuffleDPError: the analyst could not open it, or a user of this policy would not take part.
    """
    async with control_of(system.deployment) as control:
        return SmallRound(system, await open_round(control, plan), policy)


_QUIET: Final = Stages(Console(quiet=True))
