"""Step E of lab 1: a real round with three mix nodes and the student's randomiser."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import Final, cast

from shuffledp_core.documents.models import Result, RoundPlan
from shuffledp_core.mechanisms import KRRHistogram
from shuffledp_core.runtime.keys import verify_from
from shuffledp_core.vocabulary import Outcome
from shuffledp_labs.errors import CheckFailure
from shuffledp_labs.lab import CheckAttempt
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
    """Plan of a round with a histogram over `symbols` symbols."""
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


async def play_round(attempt: CheckAttempt) -> str:
    """Run the round; return a sentence about the published result."""
    symbols = attempt.draws.integer(3, 5)
    values = [attempt.draws.below(symbols) for _ in range(PEOPLE)]
    attempt.progress("starting three mix nodes, an analyst and an accountant")
    async with running_system() as system:
        small_round = await open_small(system, plan_of(system, symbols))
        attempt.progress(f"{PEOPLE} people answer")
        spec = _spec(small_round)
        small_round.honest += small_round.seal_all(answers_of(attempt, spec, values))
        await small_round.send(small_round.honest)
        attempt.progress("the nodes mix")
        signed = await small_round.finish()
        result = verify_from(small_round.roster.analyst, signed, Result)
        board = await small_round.board(result)
        if result.outcome != Outcome.PUBLISHED:
            raise CheckFailure(f"the round was not published: {result.reason}")
        for user in range(PEOPLE):
            if (complaint := small_round.complaint(signed, board, user)) is not None:
                raise CheckFailure(
                    f"person {user} does not find their message on the board: {complaint}"
                )
        answers = [message[0] for message in small_round.split(board)]
    return _judge(attempt, spec, values, answers, result)


def _spec(small_round: SmallRound) -> Spec:
    histogram = cast("KRRHistogram", small_round.verified.mechanism)  # the plan asks for one
    return {
        "mechanism": "krr",
        "symbols": histogram.symbols,
        "blanket": histogram.blanket,
        "asked": 0,
    }


def answers_of(attempt: CheckAttempt, spec: Spec, values: list[int]) -> list[int]:
    """All users' answers, checked against the enumerated law with the same coins.

    Raises:
        CheckFailure: an answer is no symbol, or differs from the result of the same coins there.
    """
    walked = _transcripts(attempt, spec, set(values))
    answers = []
    for person, value in enumerate(values):
        coins = RecordedCoins(attempt.draws)
        answers.append(attempt.program.sample("randomise", spec, value, coins=coins))
        if walked[value].get(coins.transcript) != answers[-1]:
            raise CheckFailure(
                f"person {person}: in the real round the same coins led to another answer than "
                "when the law of randomise was walked: it has to behave alike wherever it runs; "
                "README, step E"
            )
    if strange := [
        answer
        for answer in answers
        if type(answer) is not int or answer not in range(spec["symbols"])
    ]:
        raise CheckFailure(
            f"randomise answered {str(strange[0])[:60]!r}, which no message can carry; README, "
            "step B"
        )
    return answers


def _transcripts(
    attempt: CheckAttempt, spec: Spec, values: set[int]
) -> dict[int, dict[Transcript, int]]:
    """For each value, the answer to every sequence of coins, enumerated in another process."""
    with (
        scratch_folder() as scratch,
        StudentProgram(attempt.file, scratch, until=attempt.program.until) as other,
    ):
        return {value: other.law("randomise", spec, value).transcripts for value in sorted(values)}


def _judge(
    attempt: CheckAttempt, spec: Spec, values: list[int], answers: list[int], result: Result
) -> str:
    """Check that the student's estimates equal the analyst's and are near the truth."""
    holders, radius = Counter(values), 0.0
    estimate = result.estimate
    assert estimate is not None  # noqa: S101 - of every published round
    for symbol in range(spec["symbols"]):
        mine = float(Fraction(attempt.program.call("estimate", spec | {"asked": symbol}, answers)))
        if not math.isclose(mine, estimate.values[symbol], rel_tol=1e-6, abs_tol=1e-6):
            raise CheckFailure(
                f"symbol {symbol}: your estimate from the board is "
                f"{abs(mine - estimate.values[symbol]):.3g} away from "
                "the published one; README, step E"
            )
        radius = math.sqrt(PEOPLE * math.log(2 * spec["symbols"] / CHANCE) / 2) / float(
            1 - spec["blanket"]
        )
        if abs(mine - holders[symbol]) > radius:
            raise CheckFailure(
                f"symbol {symbol}: {holders[symbol]} people hold it, the round says {mine:.1f}; "
                f"chance alone does that once in {1 / CHANCE:,.0f} rounds. Does every answer come "
                "from `coins`? README, step E"
            )
    return (
        f"{PEOPLE} people, {spec['symbols']} symbols: published, everybody found their message, "
        "your estimate is it"
    )
