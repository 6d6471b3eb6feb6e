"""Step E of lab 6: real rounds, one flooded by the student's accounts, one that half of its users
leave.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from shuffledp_core.documents.models import Certificate, Result, RoundPlan
from shuffledp_core.mechanisms import KRRHistogram, SGDLShuffle
from shuffledp_labs.errors import CheckFailed
from shuffledp_labs.words import short

if TYPE_CHECKING:
    from shuffledp_client.submission import PreparedSubmission
    from shuffledp_labs.lab06_surrounded.guessing import Flood
    from shuffledp_labs.student.process import StudentProgram
    from shuffledp_sim.system.processes import LocalSystem
    from shuffledp_sim.users.small_round import SmallRound

USERS: Final = 20
"""Accounts of the flooded round; all but the victim's are the adversary's."""

SYMBOLS: Final = 4
EXPECTED: Final = 40
"""Users that the round with shared noise hopes for; half of them come."""

EPSILON: Final = 1.0
DELTA: Final = 1e-3
"""Of the round with shared noise."""


@dataclass(frozen=True)
class Flooded:
    """What the adversary sees of the flooded round, and what it does not: the symbol that the
    victim sent.
    """

    board: tuple[int, ...]
    victim_sent: int


@dataclass(frozen=True)
class Left:
    """How the round ended that half of its users left.

    `final` and `holds` only of a published one.
    """

    reason: str | None
    final: float | None = None
    holds: bool = False


def submitted(program: StudentProgram, flood: Flood) -> tuple[int, ...]:
    """What the student's accounts send. Raises `CheckFailed` if it is not one symbol for each."""
    answer = program.call("submissions", flood.plan)
    whole = isinstance(answer, tuple) and all(
        type(one) is int and 0 <= one < flood.symbols for one in answer
    )
    if not whole or len(answer) != flood.accounts:
        raise CheckFailed(
            f"submissions must return {flood.accounts} whole numbers from 0 to "
            f"{flood.symbols - 1}, one for each of "
            f"your accounts, not {short(answer)}; see step B"
        )
    found: tuple[int, ...] = answer
    return found


def spec_of_flood() -> KRRHistogram:
    """The mechanism of the flooded round, as the accountant calibrates it."""
    from shuffledp_privacy.calibration.calibrate import Target, calibrate

    return cast(
        "KRRHistogram",
        calibrate(KRRHistogram.kind, Target(3.0, 1e-3, USERS, USERS, symbols=SYMBOLS)),
    )


def play(
    answers: Sequence[int] | None, value: int, plan: tuple[int, int] | None
) -> tuple[Flooded | None, Left | None]:
    """Plays the flooded round with these answers and a victim of this value, and the round with
    this plan; None: not.

    Args:
        answers: of the adversary's accounts.
        value: what the victim holds; it randomises by itself.
        plan: min_reports and colluding.
    """
    return asyncio.run(_play(answers, value, plan))


async def _play(
    answers: Sequence[int] | None, value: int, plan: tuple[int, int] | None
) -> tuple[Flooded | None, Left | None]:
    from shuffledp_labs.systems import running_system

    async with running_system() as system:
        flooded = None if answers is None else await _flood(system, answers, value)
        left = None if plan is None else await _leave(system, plan)
    return flooded, left


async def _flood(system: LocalSystem, answers: Sequence[int], value: int) -> Flooded:
    from shuffledp_sim.users.small_round import open_small

    one = await open_small(system, flooded_plan(system))
    victim, forged = one.prepared([value])[0], one.sealed(answers)
    # The victim somewhere in the middle: the order of arrival is nothing that the adversary needs.
    await one.send([*forged[: USERS // 2], victim, *forged[USERS // 2 :]])
    return await seen(one, victim)


def flooded_plan(system: LocalSystem) -> RoundPlan:
    """The plan of a round with one victim, which all other reports surround."""
    return _asked(system, "krr-histogram", SYMBOLS, 3.0, 1e-3, USERS, USERS, 0)


async def seen(one: SmallRound, victim: PreparedSubmission) -> Flooded:
    """Ends a round that is published, and gives what the adversary sees of it."""
    from shuffledp_core.decoding import decode
    from shuffledp_core.keys import verify_from

    result = verify_from(one.roster.analyst, await one.finish(), Result)
    geometry = one.verified.geometry
    board = decode(await one.board(result), geometry, SYMBOLS, result.accepted)
    return Flooded(board.counts, int.from_bytes(victim.messages[geometry.symbol_at], "big"))


async def _leave(system: LocalSystem, plan: tuple[int, int]) -> Left:
    from shuffledp_core.keys import verify_from
    from shuffledp_sim.users.small_round import open_small

    least, colluding = plan
    asked = _asked(system, "sgdl-shuffle", 1, EPSILON, DELTA, least, EXPECTED, colluding)
    one = await open_small(system, asked)
    await one.send(one.prepared([place % 2 for place in range(EXPECTED // 2)]))
    result = verify_from(one.roster.analyst, await one.finish(), Result)
    if result.final_certificate is None:
        return Left(result.reason or "no reason was given")
    final = verify_from(one.roster.accountant, result.final_certificate, Certificate)
    return Left(None, final.epsilon.certified, final.holds)


def _asked(
    system: LocalSystem,
    mechanism: str,
    size: int,
    epsilon: float,
    delta: float,
    least: int,
    most: int,
    colluding: int,
) -> RoundPlan:
    return RoundPlan(
        population=system.population,
        mechanism=mechanism,
        size=size,
        epsilon=epsilon,
        delta=delta,
        min_reports=least,
        max_reports=most,
        colluding=colluding,
        route=system.route,
        open_seconds=300.0,
    )


def noise_plan(
    expected: int, came: int, plan: tuple[int, int], epsilon: float, delta: float
) -> dict[str, Any]:
    """What the accountant says about a plan with shared noise when `came` of `expected` users take
    part.

    Returns:
        runs: whether as many came as the plan asks for; certified: ε with `came` reports; error:
            its standard error.
    """
    from shuffledp_privacy.bounds import Setting, epsilon_bounds, standard_error
    from shuffledp_privacy.calibration.calibrate import Target, calibrate

    least, colluding = plan
    spec = calibrate(
        SGDLShuffle.kind, Target(epsilon, delta, least, least - colluding, max_value=1)
    )
    if came < least:
        return {"runs": False}
    bounds = epsilon_bounds(spec, Setting(came, came - colluding), delta)
    return {
        "runs": True,
        "certified": bounds.certified,
        "error": standard_error(spec, came),
        "of": expected,
    }
