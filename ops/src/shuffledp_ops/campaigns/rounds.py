"""One round of a campaign at the analyst: found again, or opened, and followed to its end."""

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
from shuffledp_core.keys import verify_from
from shuffledp_core.vocabulary import Outcome
from shuffledp_ops.keys.pki import Deployment
from shuffledp_ops.results.fetching import fetch
from shuffledp_ops.rounds.report import RoundReport
from shuffledp_ops.rounds.running import StageClock, control_of, follow_round, open_round

PATIENCE_SECONDS: Final = 600.0
"""So long an analyst that does not answer is asked again, before the command gives up; the next one
goes on.
"""

PAUSE_SECONDS: Final = 1.0
MOST_PAUSE_SECONDS: Final = 30.0


@dataclass(frozen=True)
class Ended:
    """How a round ended: with a verified report, or with the error that ended it."""

    report: RoundReport | None = None
    error: ShuffleDPError | None = None


class NeverOpenedError(ShuffleDPError):
    """The analyst does not know the round, and it is too late to open it."""


async def round_to_its_end(
    deployment: Deployment,
    plan: RoundPlan,
    round_id: str,
    may_open: Callable[[], bool],
    opened: Callable[[], None],
    patience: float = PATIENCE_SECONDS,
) -> Ended:
    """Follows the round of this name to its end, and opens it where the analyst does not know it.

    Asked first is always whether it is there: so a round whose opening was cut short is found,
    never opened twice.

    Args:
        deployment: the operator's.
        plan: what to ask.
        round_id: drawn by the caller, and written down.
        may_open: whether an unknown round is opened.
        opened: called once it is open.
        patience: seconds in which an analyst that does not answer is asked again, from its last
            word on.

    Raises:
        NeverOpenedError: it is unknown, and may not be opened any more.
        UnreachableError: the analyst does not answer; nothing is known about the round.
        ShuffleDPError: the operator's own keys or files are wrong; nothing is known about the
            round.
    """
    waiting = _Patience(patience)
    refused: ShuffleDPError | None = None
    while True:
        try:
            return await _ended(deployment, round_id, waiting.answered)
        except UnknownRoundError as error:
            if refused is not None:
                return Ended(error=refused)
            if not may_open():
                raise NeverOpenedError(
                    f"round {round_id} is not known to the analyst, and its date is over"
                ) from error
        except UnreachableError as error:
            await waiting.after(error)
            continue
        try:
            async with control_of(deployment) as control:
                await open_round(control, plan, round_id)
        except (
            UnreachableError
        ) as error:  # the analyst, or a node: then the round's own end says which
            await waiting.after(error)
        except ShuffleDPError as error:
            refused = error  # a round that was begun says the same at its end
        else:
            opened()


class _Patience:
    """Growing pauses between questions to a party that is away, for so many seconds since it did
    not answer first.
    """

    def __init__(self, seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._seconds = seconds
        self.answered()

    def answered(self) -> None:
        """The party is there: the next time that it is away is counted from its own beginning."""
        self._until: float | None = None
        self._pause = PAUSE_SECONDS

    async def after(self, error: UnreachableError) -> None:
        """A pause; raises the error where patience is over, or a person has to mend something."""
        now = self._loop.time()
        if self._until is None:
            self._until = now + self._seconds
        if isinstance(error, ConfigError) or now > self._until:
            raise error
        await asyncio.sleep(self._pause)
        self._pause = min(2 * self._pause, MOST_PAUSE_SECONDS)


async def _ended(deployment: Deployment, round_id: str, heard: Callable[[], None]) -> Ended:
    with Stages(Console(stderr=True, quiet=not sys.stderr.isatty())) as stages:
        async with control_of(deployment) as control:
            signed = await follow_round(
                control, round_id, stages, StageClock(), accepting=True, heard=heard
            )
        stages.finish()
    try:
        failure = _failure(deployment, signed, round_id)
        if failure is not None:
            return Ended(error=failure)
        return Ended(report=(await fetch(deployment, round_id)).report)
    except DocumentError as error:
        return Ended(error=error)


def _failure(deployment: Deployment, signed: Signed, round_id: str) -> ShuffleDPError | None:
    """The error that a failed result names.

    Raises `DocumentError` for one that is not this round's.
    """
    roster = deployment.roster
    result = verify_from(roster.analyst, signed, Result)
    if (result.deployment, result.round_id) != (roster.deployment, round_id):
        raise ForeignDocumentError(
            f"the analyst answered with the result of round {result.round_id}, not {round_id}"
        )
    if result.outcome == Outcome.PUBLISHED:
        return None
    return by_code(result.error or "RoundFailed")(result.reason or "the analyst gives no reason")


HOPELESS: Final = (ConfigError, DocumentError, RoundStateError)
"""Errors of a round that another one would have as well."""
