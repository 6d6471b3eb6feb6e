"""Step E of lab 1: people whose randomiser is the student's, in a real round with three mix
nodes.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import Final, cast

from shuffledp_core.documents.models import Result, RoundPlan
from shuffledp_core.keys import verify_from
from shuffledp_core.mechanisms import KRRHistogram
from shuffledp_core.vocabulary import Outcome
from shuffledp_labs.errors import CheckFailed
from shuffledp_labs.lab import Attempt
from shuffledp_labs.lab01_lie_well.specs import Spec
from shuffledp_labs.student.laws import RecordedCoins, Transcript
from shuffledp_labs.student.pipes import scratch_folder
from shuffledp_labs.student.process import StudentProgram
from shuffledp_labs.systems import running_system
from shuffledp_sim.system.processes import LocalSystem
from shuffledp_sim.users.small_round import SmallRound, open_small

PEOPLE: Final = 40
CHANCE: Final = 1e-9
"""Probability that the truth is further from a right estimate than the radius below, by Hoeffding's
inequality.
"""


def plan_of(system: LocalSystem, symbols: int) -> RoundPlan:
    """A histogram over so many symbols."""
    return RoundPlan(
        population=system.population,
        mechanism="krr-histogram",
        size=symbols,
        epsilon=1.0,
        delta=0.01,
        min_reports=PEOPLE - 1,
        max_reports=PEOPLE + 1,
        route=system.route,
        open_seconds=120.0,
    )


async def published(attempt: Attempt) -> str:
    """Plays the round; says what was published."""
    symbols = attempt.draws.integer(3, 5)
    values = [attempt.draws.below(symbols) for _ in range(PEOPLE)]
    attempt.progress("starting three mix nodes, an analyst and an accountant")
    async with running_system() as system:
        one = await open_small(system, plan_of(system, symbols))
        attempt.progress(f"{PEOPLE} people answer")
        spec = _spec(one)
        one.honest += one.sealed(answers_of(attempt, spec, values))
        await one.send(one.honest)
        attempt.progress("the nodes mix")
        signed = await one.finish()
        result = verify_from(one.roster.analyst, signed, Result)
        board = await one.board(result)
        if result.outcome != Outcome.PUBLISHED:
            raise CheckFailed(f"the round was not published: {result.reason}")
        for user in range(PEOPLE):
            if (complaint := one.complaint(signed, board, user)) is not None:
                raise CheckFailed(
                    f"person {user} does not find their message on the board: {complaint}"
                )
        found = [message[0] for message in one.split(board)]
    return _judged(attempt, spec, values, found, result)


def _spec(one: SmallRound) -> Spec:
    histogram = cast("KRRHistogram", one.verified.mechanism)  # the plan asks for one
    return {
        "mechanism": "krr",
        "symbols": histogram.symbols,
        "blanket": histogram.blanket,
        "asked": 0,
    }


def answers_of(attempt: Attempt, spec: Spec, values: list[int]) -> list[int]:
    """Everybody's answer, each compared with what the same coins lead to when the law is walked.

    Raises:
        CheckFailed: an answer is no symbol, or another one than the same coins led to in the walk.
    """
    walked = _transcripts(attempt, spec, set(values))
    answers = []
    for person, value in enumerate(values):
        coins = RecordedCoins(attempt.draws)
        answers.append(attempt.program.sample("randomise", spec, value, coins=coins))
        if walked[value].get(coins.transcript) != answers[-1]:
            raise CheckFailed(
                f"person {person}: in the real round the same coins led to another answer than "
                f"when the law of "
                "randomise was walked: it has to behave alike wherever it runs; README, step E"
            )
    if strange := [
        each for each in answers if type(each) is not int or each not in range(spec["symbols"])
    ]:
        raise CheckFailed(
            f"randomise answered {str(strange[0])[:60]!r}, which no message can carry; README, "
            f"step B"
        )
    return answers


def _transcripts(
    attempt: Attempt, spec: Spec, values: set[int]
) -> dict[int, dict[Transcript, int]]:
    """Where every sequence of coins leads, for each value, in another process than that of the
    round.
    """
    with (
        scratch_folder() as scratch,
        StudentProgram(attempt.file, scratch, until=attempt.program.until) as other,
    ):
        return {value: other.law("randomise", spec, value).transcripts for value in sorted(values)}


def _judged(
    attempt: Attempt, spec: Spec, values: list[int], found: list[int], result: Result
) -> str:
    """The student's estimates are the analyst's, and near the truth."""
    held, radius = Counter(values), 0.0
    estimate = result.estimate
    assert estimate is not None  # noqa: S101 - of every published round
    for asked in range(spec["symbols"]):
        mine = float(Fraction(attempt.program.call("estimate", spec | {"asked": asked}, found)))
        if not math.isclose(mine, estimate.values[asked], rel_tol=1e-6, abs_tol=1e-6):
            raise CheckFailed(
                f"symbol {asked}: your estimate from the board is "
                f"{abs(mine - estimate.values[asked]):.3g} away from "
                "the published one; README, step E"
            )
        radius = math.sqrt(PEOPLE * math.log(2 * spec["symbols"] / CHANCE) / 2) / float(
            1 - spec["blanket"]
        )
        if abs(mine - held[asked]) > radius:
            raise CheckFailed(
                f"symbol {asked}: {held[asked]} people hold it, the round says {mine:.1f}; chance "
                f"alone does that once "
                f"in {1 / CHANCE:,.0f} rounds. Does every answer come from `coins`? README, step E"
            )
    return (
        f"{PEOPLE} people, {spec['symbols']} symbols: published, everybody found their message, "
        f"your estimate is it"
    )
