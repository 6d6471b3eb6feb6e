"""Step E of lab 6: a real round that the student floods, and one that half of the users leave."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from shuffledp_core.documents.models import Certificate, Result, RoundPlan
from shuffledp_core.mechanisms import KRRHistogram, NodeHistogram, SGDLShuffle
from shuffledp_labs.errors import CheckFailure
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
class FloodedRound:
    """A flooded round: the adversary's view, and the symbol that the victim sent."""

    board: tuple[int, ...]
    victim_sent: int


@dataclass(frozen=True)
class ShrunkRound:
    """Outcome of the round that half of the users left.

    `final` and `holds` are meaningful only if the round was published.
    """

    reason: str | None
    final: float | None = None
    holds: bool = False


def call_submissions(program: StudentProgram, flood: Flood) -> tuple[int, ...]:
    """Call the student's `submissions` for the accounts, and check its form.

    Raises `CheckFailure` if they are not one symbol for each.
    """
    answer = program.call("submissions", flood.plan)
    valid = isinstance(answer, tuple) and all(
        type(symbol) is int and 0 <= symbol < flood.symbols for symbol in answer
    )
    if not valid or len(answer) != flood.accounts:
        raise CheckFailure(
            f"submissions must return {flood.accounts} whole numbers from 0 to "
            f"{flood.symbols - 1}, one for each of your accounts, not {short(answer)}; see step B"
        )
    sent: tuple[int, ...] = answer
    return sent


def spec_of_flood() -> KRRHistogram:
    """The mechanism of the flooded round, as the accountant calibrates it."""
    from shuffledp_privacy.calibration.calibrate import Target, calibrate

    return cast(
        "KRRHistogram",
        calibrate(KRRHistogram.kind, Target(3.0, 1e-3, USERS, USERS, symbols=SYMBOLS)),
    )


def play(
    answers: Sequence[int] | None, value: int, plan: tuple[int, int] | None
) -> tuple[FloodedRound | None, ShrunkRound | None]:
    """Play the flooded round and the round with shared noise; None leaves one out.

    Args:
        answers: answers of the adversary's accounts.
        value: what the victim holds; it randomises by itself.
        plan: min_reports and colluding.
    """
    return asyncio.run(_play(answers, value, plan))


async def _play(
    answers: Sequence[int] | None, value: int, plan: tuple[int, int] | None
) -> tuple[FloodedRound | None, ShrunkRound | None]:
    from shuffledp_labs.systems import running_system

    async with running_system() as system:
        flooded = None if answers is None else await _flood(system, answers, value)
        left = None if plan is None else await _leave(system, plan)
    return flooded, left


async def _flood(system: LocalSystem, answers: Sequence[int], value: int) -> FloodedRound:
    from shuffledp_sim.users.small_round import open_small

    small_round = await open_small(system, flooded_plan(system))
    victim = small_round.prepare_all([value])[0]
    forged = small_round.seal_all(answers)
    # The victim somewhere in the middle: the order of arrival is nothing that the adversary needs.
    await small_round.send([*forged[: USERS // 2], victim, *forged[USERS // 2 :]])
    return await finish_and_observe(small_round, victim)


def flooded_plan(system: LocalSystem) -> RoundPlan:
    """The plan of a round in which all reports but the victim's are the adversary's."""
    return _plan(system, "krr-histogram", SYMBOLS, 3.0, 1e-3, USERS, USERS, 0)


@dataclass(frozen=True)
class NoisyFlood:
    """A flooded round with noise of the nodes: the published counts, and the guarantee.

    Attributes:
        estimates: published, by symbol.
        epsilon: certified, with one honest node and no other honest person.
        dummies: messages that every node added.
    """

    estimates: tuple[float, ...]
    epsilon: float | None
    dummies: int


def play_both_floods(answers: Sequence[int], value: int) -> tuple[FloodedRound, NoisyFlood]:
    """Play the flooded round, and the same flood with noise of every node."""
    return asyncio.run(_play_both(answers, value))


async def _play_both(answers: Sequence[int], value: int) -> tuple[FloodedRound, NoisyFlood]:
    from shuffledp_labs.systems import running_system

    async with running_system() as system:
        return await _flood(system, answers, value), await _flood_noise(system, answers, value)


async def _flood_noise(system: LocalSystem, answers: Sequence[int], value: int) -> NoisyFlood:
    from shuffledp_core.runtime.keys import verify_from
    from shuffledp_sim.users.small_round import open_small

    plan = _plan(system, NodeHistogram.kind, SYMBOLS, EPSILON, DELTA, USERS, USERS, 0)
    small_round = await open_small(system, plan)
    # A user of node-histogram sends its value as it is, and so do the adversary's accounts.
    await small_round.send([*small_round.prepare_all([value]), *small_round.seal_all(answers)])
    result = verify_from(small_round.roster.analyst, await small_round.finish(), Result)
    if result.estimate is None or result.final_certificate is None:
        raise CheckFailure(f"the round with node-histogram was not published: {result.reason}")
    final = verify_from(small_round.roster.accountant, result.final_certificate, Certificate)
    mechanism = cast("NodeHistogram", final.mechanism)  # the plan asks for one
    return NoisyFlood(result.estimate.values, final.epsilon.certified, mechanism.dummies)


async def finish_and_observe(small_round: SmallRound, victim: PreparedSubmission) -> FloodedRound:
    """End a round that is published, and return the adversary's view of it."""
    from shuffledp_core.answering.decoding import decode
    from shuffledp_core.runtime.keys import verify_from

    result = verify_from(small_round.roster.analyst, await small_round.finish(), Result)
    geometry = small_round.verified.geometry
    board = decode(await small_round.board(result), geometry, SYMBOLS, result.accepted)
    return FloodedRound(board.counts, int.from_bytes(victim.messages[geometry.symbol_at], "big"))


async def _leave(system: LocalSystem, plan: tuple[int, int]) -> ShrunkRound:
    from shuffledp_core.runtime.keys import verify_from
    from shuffledp_sim.users.small_round import open_small

    least, colluding = plan
    plan_of_round = _plan(system, "sgdl-shuffle", 1, EPSILON, DELTA, least, EXPECTED, colluding)
    small_round = await open_small(system, plan_of_round)
    await small_round.send(small_round.prepare_all([index % 2 for index in range(EXPECTED // 2)]))
    result = verify_from(small_round.roster.analyst, await small_round.finish(), Result)
    if result.final_certificate is None:
        return ShrunkRound(result.reason or "no reason was given")
    final = verify_from(small_round.roster.accountant, result.final_certificate, Certificate)
    return ShrunkRound(None, final.epsilon.certified, final.holds)


def _plan(
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
    """The accountant's numbers for shared noise if `came` of `expected` users come.

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
