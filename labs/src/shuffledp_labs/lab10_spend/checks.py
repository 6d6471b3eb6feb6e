"""The checks of lab 10.

None needs a reference solution: B uses the exact value, C a model, D accountants with known faults.
"""

from __future__ import annotations

import os
from fractions import Fraction
from typing import Final

from shuffledp_labs.errors import CheckFailure
from shuffledp_labs.instance import Draws
from shuffledp_labs.lab import CheckAttempt
from shuffledp_labs.lab10_spend import together
from shuffledp_labs.lab10_spend.exact import basic, exact_epsilon, sharper
from shuffledp_labs.lab10_spend.model import LARGEST_LIFE, Life, Model, draw_history
from shuffledp_labs.lab10_spend.trying import (
    Seat,
    Signer,
    check_database,
    compare,
    interrupt,
)
from shuffledp_labs.student.process import StudentProgram

ROUNDING: Final = 1e-9
"""Relative slack of every comparison of two ε."""

MOST_EPSILON: Final = 1e9
"""Above it, as for infinity, nothing is promised."""

KILLS_VARIABLE: Final = "SHUFFLEDP_LAB_KILLS"
"""Environment variable: how many times C-kill kills the program."""

KILLS: Final = 20


def kills() -> int:
    """Number of kills in C-kill: `KILLS`, or as set by the environment."""
    try:
        return max(1, int(os.environ.get(KILLS_VARIABLE, "")))
    except ValueError:
        return KILLS


def check_sound(attempt: CheckAttempt) -> str:
    """B: `compose` is never below the exact ε, and never above the sum."""
    cases = [
        ((), 1e-3),
        ((attempt.draws.integer(2, 9) / 10,), 0.0),
        *(_draw_rounds(attempt.draws, most) for most in (1, 2, 3, 8, 30, 100)),
        ((attempt.draws.integer(60, 90) / 100,) * 100, 1e-3),
        # The mean loss is most of ε for many rounds: a smaller one is below the truth.
        ((attempt.draws.integer(70, 90) / 100,) * 400, 1e-3),
        ((attempt.draws.integer(5, 20) / 1000,) * 60, 0.2),
        ((attempt.draws.integer(8, 12) / 100,) * 100, 1e-8),
        ((3.0,) * attempt.draws.integer(3, 9), 1e-2),
        # One large ε among small ones: a formula of the average ε is below the truth.
        ((attempt.draws.integer(18, 25) / 10, *(0.05,) * attempt.draws.integer(50, 70)), 1e-3),
    ]
    for rounds, delta in cases:
        epsilon = _call_compose(attempt, rounds, delta)
        title = _describe_rounds(rounds, delta)
        least = exact_epsilon(rounds, delta)
        most = basic(rounds)
        if epsilon < least * (1 - ROUNDING):
            raise CheckFailure(
                f"{title}: compose says ε {least - epsilon:.4g} below the truth: a broken promise "
                "(README, step B)"
            )
        if epsilon > most * (1 + ROUNDING):
            raise CheckFailure(
                f"{title}: compose says ε {epsilon - most:.4g} above the plain sum, which is "
                "a bound as well (README, step B)"
            )
    return f"{len(cases)} lists of rounds: between the exact value and the sum"


def check_sharp(attempt: CheckAttempt) -> str:
    """B: if many rounds compose to less than their sum, `compose` is below the sum."""
    for most in (30, 60, 100):
        epsilon = attempt.draws.integer(5, 15) / 100
        rounds = (epsilon,) * most + (epsilon / 2,) * attempt.draws.integer(10, 30)
        delta = 10.0 ** -attempt.draws.integer(3, 5)
        composed = _call_compose(attempt, rounds, delta)
        limit = min(basic(rounds), sharper(rounds, delta))
        if composed > limit * (1 + ROUNDING):
            raise CheckFailure(
                f"{_describe_rounds(rounds, delta)}: compose says ε {composed - limit:.4g} more "
                "than the closed form does (README, step B: the mean loss and its tail)"
            )
    return "three long lists of rounds: at most the sharper closed form"


def check_history(attempt: CheckAttempt) -> str:
    """C: the ledger answers every call of a history as the rules require."""
    count = 0
    for number in range(3):
        budget, calls = draw_history(attempt.draws, 40)
        model = Model(budget)
        signer = Signer(attempt.draws.child(f"seals {number}"))
        seat = Seat(attempt.program, f"history-{number}.db", budget, signer)
        for position, call in enumerate(calls, start=1):
            if attempt.draws.below(8) == 0:
                seat.reopen()
            compare(seat, model, call, f"history {number + 1}, budget {budget:,}, call {position}")
        check_database(seat, f"history {number + 1}")
        count += len(calls)
        attempt.progress(f"history {number + 1}: {len(calls)} calls")
    return f"three histories, {count} calls: as the rules say, and total_spent() after each"


def check_kills(attempt: CheckAttempt) -> str:
    """C: after a kill at any moment, nothing acknowledged is lost or charged twice."""
    total = kills()
    budget = total * LARGEST_LIFE
    model = Model(budget)
    # Seals from a stream of their own: how many are made depends on the moment of a kill, and the
    # instance must not.
    seat = Seat(attempt.program, "killed.db", budget, Signer(attempt.draws.child("seals")))
    life = Life(attempt.draws, model)
    for number in range(1, total + 1):
        where = f"kill {number} of {total}"
        for _ in range(2):
            compare(seat, model, life.reservation(), where)
        # In turn: while it waits for its certificate; some time after it began; during the end of
        # a round.
        kind = number % 3
        call = life.ending() if kind == 0 else life.reservation()
        seconds = None if kind == 1 else attempt.draws.integer(0, 100) / 10_000
        interrupt(seat, model, call, seconds, where)
        compare(seat, model, life.ending(), where)
        compare(seat, model, life.repetition(), f"{where}: an earlier round")
        if number % 10 == 0:
            attempt.progress(f"{number} of {total} kills")
    return f"{total} times SIGKILL in the middle of a call: nothing lost, nothing charged twice"


def check_together(attempt: CheckAttempt) -> str:
    """C: two programs can use one file at the same time."""
    budget = attempt.draws.integer(20, 40) * 100_000
    cost = attempt.draws.integer(1, 5) * 100_000
    with StudentProgram(attempt.file, attempt.scratch, until=attempt.program.until) as program:
        first = Seat(attempt.program, "together.db", budget, Signer(attempt.draws.child("first")))
        second = Seat(program, "together.db", budget, Signer(attempt.draws.child("second")))
        together.check_same_round(first, second, 0, cost)
        together.check_room_for_both(first, second, cost, cost)
        together.check_one_place(first, second, budget, 3 * cost)
    return "two programs at once: one place granted once, one round charged once, both totals true"


def check_judge(attempt: CheckAttempt) -> str:
    """D: `judge` names the fault of four broken accountants, and passes the real one."""
    from shuffledp_labs.lab10_spend.accountants import FAULTS, open_sealed

    for fault in attempt.draws.permute(FAULTS):
        users = attempt.draws.integer(18, 24)
        budget = attempt.draws.integer(20, 30) / 10
        with open_sealed(fault, users, budget) as accountant:
            verdict = attempt.program.call(
                "judge",
                budget,
                accountant.reserve,
                accountant.both,
                accountant.settle,
                accountant.release,
                accountant.spent_epsilon,
                seconds=60.0,
            )
        if verdict not in FAULTS:
            raise CheckFailure(
                f"judge returned {verdict!r:.60}; its answers are {', '.join(FAULTS)} (README, "
                "step D)"
            )
        if verdict != fault:
            wrong = (
                "accuses an accountant that is sound"
                if fault == "sound"
                else "lets a fault pass, or misnames it"
            )
            raise CheckFailure(
                f"budget {budget:g}, {users} users: judge {wrong}; it said {verdict!r} (README, "
                "step D: one experiment for each fault, none of which spoils the next)"
            )
        attempt.progress(f"an accountant with budget {budget:g}: named")
    return "the real accountant and four broken ones: each named"


def _call_compose(attempt: CheckAttempt, rounds: tuple[float, ...], delta: float) -> float:
    epsilon = attempt.program.call("compose", rounds, delta)
    if not isinstance(epsilon, int | float | Fraction) or not 0 <= epsilon <= MOST_EPSILON:
        raise CheckFailure(
            f"{_describe_rounds(rounds, delta)}: compose must return a finite number, at least 0, "
            f"not {epsilon!r:.60} (README, step B)"
        )
    return float(epsilon)


def _draw_rounds(draws: Draws, count: int) -> tuple[tuple[float, ...], float]:
    """Draw the ε of `count` rounds, unsorted and of up to three different values, and a δ."""
    kinds = [draws.integer(2, 90) / 100 for _ in range(3)]
    return tuple(draws.choice(kinds) for _ in range(count)), 10.0 ** -draws.integer(1, 8)


def _describe_rounds(rounds: tuple[float, ...], delta: float) -> str:
    if not rounds:
        return f"no rounds, δ = {delta:g}"
    return f"{len(rounds)} rounds of ε {min(rounds):g} to {max(rounds):g}, δ = {delta:g}"
