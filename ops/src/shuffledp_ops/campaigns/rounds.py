"""One round of a campaign at the analyst: looked up or opened, and followed to its end."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from rich.console import Console

from shuffledp.progress import Stages
from shuffledp_core.documents.models import Result, RoundPlan
from shuffledp_core.documents.signed import Signed
from shuffledp_core.errors import (
    ConfigError,
    DocumentError,
    ForeignDocumentError,
    RoundStateError,
    ShuffleDPError,
    UnknownRoundError,
    UnreachableError,
    by_code,
)
from shuffledp_core.runtime.keys import verify_from
from shuffledp_core.vocabulary import Outcome
from shuffledp_ops.keys.pki import Deployment
from shuffledp_ops.results.fetching import fetch
from shuffledp_ops.rounds.report import RoundReport
from shuffledp_ops.rounds.running import StageClock, control_of, follow_round, open_round

PATIENCE_SECONDS: Final = 600.0
"""How long an analyst that does not answer is retried; a later run of the command resumes."""

PAUSE_SECONDS: Final = 1.0
MOST_PAUSE_SECONDS: Final = 30.0


@dataclass(frozen=True)
class RoundOutcome:
    """Outcome of a round: a verified report, or the error that ended the round."""

    report: RoundReport | None = None
    error: ShuffleDPError | None = None


class NeverOpenedError(ShuffleDPError):
    """The analyst does not have the round, and it is too late to open it."""


async def run_round_to_end(
    deployment: Deployment,
    plan: RoundPlan,
    round_id: str,
    may_open: Callable[[], bool],
    on_opened: Callable[[], None],
    on_ended: Callable[[StageClock, Result | ShuffleDPError], None] = lambda _clock, _end: None,
    patience: float = PATIENCE_SECONDS,
) -> RoundOutcome:
    """Follow the round with this id to its end; open it first if the analyst does not have it.

    The analyst is always asked for the round first, so that a round whose opening was interrupted
    is not opened twice.

    Args:
        deployment: the operator's.
        plan: the round's plan.
        round_id: drawn by the caller, and recorded on disk.
        may_open: returns True if a round that does not exist may be opened.
        on_opened: called once it is open.
        on_ended: called in a thread with the round's stages, as far as they were followed, and its
            result or the error that ended it.
        patience: for how many seconds after its last answer the analyst is retried.

    Raises:
        NeverOpenedError: the round does not exist, and may no longer be opened.
        UnreachableError: the analyst does not answer; the round's state is unknown.
        ShuffleDPError: the operator's own keys or files are invalid; the round's state is unknown.
    """
    waiting = _Patience(patience)
    refused: ShuffleDPError | None = None
    while True:
        try:
            return await _follow_to_end(deployment, round_id, waiting.reset, on_ended)
        except UnknownRoundError as error:
            if refused is not None:
                return RoundOutcome(error=refused)
            if not may_open():
                raise NeverOpenedError(
                    f"the analyst has no round {round_id}, and it is too late to open it"
                ) from error
        except UnreachableError as error:
            await waiting.after(error)
            continue
        try:
            async with control_of(deployment) as control:
                await open_round(control, plan, round_id)
        except UnreachableError as error:  # the analyst, or a node, which the round's result names
            await waiting.after(error)
        except ShuffleDPError as error:
            refused = error  # if the round was begun, its result has the same error
        else:
            on_opened()


class _Patience:
    """Growing pauses between calls to an unreachable party, up to a limit on their total time."""

    def __init__(self, seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._seconds = seconds
        self.reset()

    def reset(self) -> None:
        """Restart the limit, because the party has answered."""
        self._until: float | None = None
        self._pause = PAUSE_SECONDS

    async def after(self, error: UnreachableError) -> None:
        """Pause after an error; raise it if the time limit has passed or retrying cannot help."""
        now = self._loop.time()
        if self._until is None:
            self._until = now + self._seconds
        if isinstance(error, ConfigError) or now > self._until:
            raise error
        await asyncio.sleep(self._pause)
        self._pause = min(2 * self._pause, MOST_PAUSE_SECONDS)


async def _follow_to_end(
    deployment: Deployment,
    round_id: str,
    on_event: Callable[[], None],
    on_ended: Callable[[StageClock, Result | ShuffleDPError], None],
) -> RoundOutcome:
    clock = StageClock()
    with Stages(Console(stderr=True, quiet=not sys.stderr.isatty())) as stages:
        async with control_of(deployment) as control:
            signed = await follow_round(
                control, round_id, stages, clock, accepting=True, heard=on_event
            )
        stages.finish()
    try:
        end = _end_of(deployment, signed, round_id)
        await asyncio.to_thread(on_ended, clock, end)
        if isinstance(end, ShuffleDPError):
            return RoundOutcome(error=end)
        return RoundOutcome(report=(await fetch(deployment, round_id)).report)
    except DocumentError as error:
        return RoundOutcome(error=error)


def _end_of(deployment: Deployment, signed: Signed, round_id: str) -> Result | ShuffleDPError:
    """The result of a published round, or the error that a failed round's result states.

    Raises `DocumentError` for the result of another round.
    """
    roster = deployment.roster
    result = verify_from(roster.analyst, signed, Result)
    if (result.deployment, result.round_id) != (roster.deployment, round_id):
        raise ForeignDocumentError(
            f"the analyst answered with the result of round {result.round_id}, not {round_id}"
        )
    if result.outcome == Outcome.PUBLISHED:
        return result
    return by_code(result.error or "RoundFailed")(result.reason or "the analyst gives no reason")


HOPELESS: Final = (ConfigError, DocumentError, RoundStateError)
"""Errors that a retry would meet again."""
