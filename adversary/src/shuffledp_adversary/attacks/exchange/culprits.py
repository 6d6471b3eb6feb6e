"""Users of a verified round whose messages do not decrypt: who is blamed, and who is counted.

A round has a given number of culprits among its users, and may exclude as many. Its published
files are checked like any other round's: the history must name exactly the culprits, and
`shuffledp verify` must accept the board.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from shuffledp import verify
from shuffledp_adversary.attacks.exchange.rounds import (
    LARGEST,
    TamperedRound,
    open_tampered,
    plan_for,
)
from shuffledp_adversary.attacks.exchange.spoiled import spoiled_submission
from shuffledp_client.submission import PreparedSubmission
from shuffledp_core.documents.models import Result
from shuffledp_core.documents.signed import Signed
from shuffledp_core.errors import UsageError
from shuffledp_core.mixproof.history import History
from shuffledp_core.runtime.keys import verify_from
from shuffledp_core.vocabulary import Mix, Outcome
from shuffledp_ops.rounds.operate import trusted_files
from shuffledp_ops.rounds.running import OpenedRound, make_report, read_result, with_published
from shuffledp_ops.rounds.saving import save_round
from shuffledp_sim.system.processes import LocalSystem

LAYERS: Final = (2, 3, 4)
"""Positions at which a user's message fails to decrypt; 4 is the analyst."""

FEWEST: Final = 2
"""Honest users that a round must have."""

MOST_USERS: Final = 10_000
"""Users of such a round: their claims are checked by every party, all on this machine."""

_AT_ONCE: Final = 50
"""Submissions that are on their way at a time."""


@dataclass(frozen=True)
class CulpritsObservation:
    """A round in which each culprit sends one message that fails to decrypt at `layer`.

    Attributes:
        layer: position of the party that cannot open it.
        users: number of users of the round.
        culprits: number of users who sent such a message.
        published: whether there is an answer.
        accepted: reports in it.
        named: culprits whom the published history names.
        framed: others whom it names.
        complaints: honest users whose own clients reject what was published.
        seconds: time from the end of the submissions to the result.
        reason: why it failed, as stated by the party that stopped it.
    """

    layer: int
    users: int
    culprits: int
    published: bool
    accepted: int
    named: int
    framed: int
    complaints: int
    seconds: float
    reason: str | None

    @property
    def right(self) -> bool:
        """True if exactly the culprits were named, and all other users were counted."""
        named = (self.named, self.framed) == (self.culprits, 0)
        return (
            self.published
            and named
            and self.accepted == self.users - self.culprits
            and not self.complaints
        )


def counts(users: int, culprits: str) -> tuple[int, ...]:
    """Parse the requested numbers of culprits, at most `users`.

    Raises `UsageError` unless each leaves enough honest users.
    """
    if not FEWEST < users <= MOST_USERS:
        raise UsageError(f"--users must be from {FEWEST + 1} to {MOST_USERS:,}, not {users}")
    most = users - FEWEST
    numbers = {str(number): number for number in range(1, most + 1)}
    parts = [part.strip() for part in culprits.split(",")]
    if not all(part in numbers for part in parts) or len(set(parts)) != len(parts):
        raise UsageError(
            f"--culprits must be different numbers from 1 to {most}, such as 1,10, for a round "
            f"of {users} users, not {culprits!r}"
        )
    return tuple(numbers[part] for part in parts)


async def observe_culprits(
    system: LocalSystem, layer: int, users: int, culprits: int
) -> CulpritsObservation:
    """Play one verified round of honest nodes in which `culprits` users cheat.

    The first message of each culprit fails to decrypt at `layer`.
    """
    # One more than there are: a round that is full would close by itself, before the clock below is
    # read.
    plan = plan_for(system, 1, max_reports=users + 1, min_reports=users - culprits)
    plan = msgspec.structs.replace(plan, mix=Mix.VERIFIED, open_seconds=86400.0)
    played = await open_tampered(system, plan)
    played.honest += played.prepare_all(
        [number % (LARGEST + 1) for number in range(users - culprits)]
    )
    bad = [
        spoiled_submission(played.verified, member, layer) for member in played.members(culprits)
    ]
    await _send(played, [*played.honest, *bad])
    began = time.perf_counter()
    signed = await played.finish()
    seconds = time.perf_counter() - began
    result = verify_from(played.roster.analyst, signed, Result)
    board = await played.board(result)
    complaints = [played.complaint(signed, board, user) for user in range(len(played.honest))]
    named = await named_in(played, signed) if result.outcome == Outcome.PUBLISHED else set[str]()
    guilty = {submission.claim.signer for submission in bad}
    return CulpritsObservation(
        layer=layer,
        users=users,
        culprits=culprits,
        published=result.outcome == Outcome.PUBLISHED,
        accepted=result.accepted,
        named=len(named & guilty),
        framed=len(named - guilty),
        complaints=sum(error is not None for error in complaints),
        seconds=seconds,
        reason=result.reason,
    )


async def _send(played: TamperedRound, submissions: Sequence[PreparedSubmission]) -> None:
    for start in range(0, len(submissions), _AT_ONCE):
        await played.send(submissions[start : start + _AT_ONCE])


async def named_in(played: TamperedRound, signed: Signed) -> set[str]:
    """The users whom the published history blames, after verifying the history."""
    deployment = played.system.deployment
    opened = OpenedRound(played.round_id, played.announcement)
    report = make_report(deployment, opened, signed, read_result(deployment, signed), {})
    published = await with_published(deployment, report)
    with tempfile.TemporaryDirectory(prefix="shuffledp-culprits-") as folder:
        saved = Path(folder) / "round"
        save_round(published, saved, trusted_files(deployment.folder))
        verify(saved)
    history = History.from_bytes(published.published["history.bin"])
    return {
        passage.credential.hex()
        for transcript in history.transcripts
        for passage in transcript.passages
    }
