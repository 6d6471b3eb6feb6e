"""The checks of lab 6.

Guesses are judged in rationals, over every board; plans and policies by shuffledp itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from shuffledp_core.vocabulary import Mix
from shuffledp_labs.instance import Draws
from shuffledp_labs.kinds import kind_of
from shuffledp_labs.lab import Check, CheckAttempt, CheckFailure
from shuffledp_labs.lab06_surrounded import crowds, entry, policy, rounds
from shuffledp_labs.lab06_surrounded.guessing import Flood
from shuffledp_labs.words import short

if TYPE_CHECKING:
    from shuffledp_core.mechanisms import Spec

USERS = 20
LEFT = (1, 2, 5)
"""Honest users of the rounds of step B."""

QUESTIONS = 16
"""Certificates that step C may ask for: bisection needs 10, a search from either end at least 28.
"""

ROUNDING = 1e-6
"""By how much the error of a plan may exceed the least one."""


def check_submissions(attempt: CheckAttempt) -> str:
    """B: one symbol per account, for any plan."""
    floods = [draw_flood(attempt.draws, left) for left in LEFT]
    for flood in floods:
        rounds.call_submissions(attempt.program, flood)
    return f"{len(floods)} plans: {', '.join(str(flood.accounts) for flood in floods)} answers"


def draw_flood(draws: Draws, left: int) -> Flood:
    """Draw a round and a prior with one best guess per board, which no simple rule always finds."""
    while True:
        symbols = draws.integer(3, 4)
        p = Fraction(1, symbols) + Fraction(symbols - 1, symbols) * Fraction(
            draws.integer(30, 80), 100
        )
        weights = [draws.integer(5, 60) for _ in range(symbols)]
        prior = tuple(Fraction(weight, sum(weights)) for weight in weights)
        flood = Flood(USERS, USERS - left, symbols, p, prior)
        if _telling(flood):
            return flood


def _telling(flood: Flood) -> bool:
    """True if every board has one best guess, and none of four wrong rules is always right.

    The rules: the most frequent value; a commonest symbol; every message taken for the victim's;
    an average over the messages without normalising the posterior of each.
    """
    best = {left: flood.best(left) for left in flood.boards()}
    if any(len(values) > 1 for values in best.values()):
        return False
    likely = max(range(flood.symbols), key=lambda value: flood.prior[value])
    by_prior = all(values == {likely} for values in best.values())
    by_board = all(
        values <= {x for x, n in enumerate(left) if n == max(left)} for left, values in best.items()
    )
    all_its_own = all(
        values == {_if_all_were_its_own(flood, left)} for left, values in best.items()
    )
    unnormalised = all(
        values == {_without_normalising(flood, left)} for left, values in best.items()
    )
    return not (by_prior or by_board or (flood.honest > 1 and (all_its_own or unnormalised)))


def _without_normalising(flood: Flood, left: tuple[int, ...]) -> int:
    scores = [
        flood.prior[value]
        * sum(flood.sends(value, symbol) * count for symbol, count in enumerate(left))
        for value in range(flood.symbols)
    ]
    return scores.index(max(scores))


def _if_all_were_its_own(flood: Flood, left: tuple[int, ...]) -> int:
    chances = [
        flood.prior[value]
        * math.prod(flood.sends(value, symbol) ** count for symbol, count in enumerate(left))
        for value in range(flood.symbols)
    ]
    return chances.index(max(chances))


def check_guess(attempt: CheckAttempt) -> str:
    """B: the best guess on every board that 1, 2 or 5 honest users can leave."""
    summaries = []
    for left in LEFT:
        flood = draw_flood(attempt.draws, left)
        sent = rounds.call_submissions(attempt.program, flood)
        drawn = tuple(attempt.draws.below(flood.symbols) for _ in range(flood.accounts))
        right = Fraction(0)
        for index, residual in enumerate(flood.boards()):
            # The accounts' own answers are not always the student's: what is taken away must be
            # what was sent.
            mine = sent if index % 2 else drawn
            right += _joint_with_guess(attempt, flood, residual, mine)
        summaries.append(f"{left} honest: right in {float(right):.3f}")
        if right != flood.success():
            raise CheckFailure(
                f"with {left} honest users left, {flood.symbols} symbols, p = {flood.p} and the "
                f"prior {_format_prior(flood)} your guesses are right with a probability that is "
                f"{float(flood.success() - right):.2g} below the best; see 'The best guess' in "
                "step B"
            )
    return "; ".join(summaries)


def _joint_with_guess(
    attempt: CheckAttempt, flood: Flood, residual: tuple[int, ...], mine: tuple[int, ...]
) -> Fraction:
    """Probability of this board together with a right guess."""
    board = tuple(count + mine.count(symbol) for symbol, count in enumerate(residual))
    answer = attempt.program.call("guess", flood.plan, board, mine)
    if type(answer) is not int or not 0 <= answer < flood.symbols:
        raise CheckFailure(
            f"guess must return a value from 0 to {flood.symbols - 1}, not {short(answer)}; see "
            "step B"
        )
    return flood.joint(residual)[answer]


def _format_prior(flood: Flood) -> str:
    return "(" + ", ".join(str(weight) for weight in flood.prior) + ")"


def check_colluding(attempt: CheckAttempt) -> str:
    """C: the largest number of colluding users under shuffledp's certificates, in few queries."""
    cases = attempt.draws.permute([_histogram, _histogram, _sum, _hopeless, _exact])
    summaries = []
    for number, case in enumerate(cases, 1):
        attempt.progress(f"round {number} of {len(cases)}")
        summaries.append(_check_most(attempt, *case(attempt.draws)))
    return "; ".join(summaries)


def _histogram(draws: Draws) -> tuple[Spec, int, float]:
    from shuffledp_core.mechanisms import KRRHistogram

    spec = KRRHistogram(symbols=draws.integer(3, 8), blanket=Fraction(draws.integer(20, 50), 100))
    return _with_target(draws, spec, draws.integer(200, 400))


def _sum(draws: Draws) -> tuple[Spec, int, float]:
    from shuffledp_core.mechanisms import RRShuffle

    spec = RRShuffle(max_value=1, randomise=Fraction(draws.integer(30, 50), 100))
    return _with_target(draws, spec, draws.integer(200, 400))


def _hopeless(draws: Draws) -> tuple[Spec, int, float]:
    spec, users, _ = _histogram(draws)
    return spec, users, _certificate(spec, users)(users) * 0.9


def _exact(draws: Draws) -> tuple[Spec, int, float]:
    """The certified ε of a round with honest users only: spec, users, and ε."""
    spec, users, _ = _histogram(draws)
    return spec, users, _certificate(spec, users)(users)


def _with_target(draws: Draws, spec: Spec, users: int) -> tuple[Spec, int, float]:
    """An ε that holds if up to some hundred users collude: spec, users, and ε.

    The largest such number is neither half of the users nor proportional to them.
    """
    share = Fraction(draws.choice((*range(15, 46), *range(55, 86))), 100)
    return spec, users, _certificate(spec, users)(users - int(users * share)) * 1.0001


def _certificate(spec: Spec, users: int) -> Callable[[int], float]:
    from shuffledp_privacy.bounds import Setting, epsilon_bounds

    return lambda honest: epsilon_bounds(spec, Setting(users, honest), 1e-6).certified


def _check_most(attempt: CheckAttempt, spec: Spec, users: int, epsilon: float) -> str:
    certified, count = _certificate(spec, users), 0
    instance = f"{spec.kind} with {users} users and epsilon = {epsilon:.4g} at delta = 1e-6"

    def ask(*question: Any) -> float:
        nonlocal count
        count += 1
        if count > QUESTIONS:
            raise CheckFailure(
                f"{instance}: more than {QUESTIONS} certificates were asked for; see step C"
            )
        if len(question) != 1 or type(question[0]) is not int or not 0 <= question[0] <= users:
            raise CheckFailure(
                f"{instance}: certified takes one number of honest users, from 0 to {users}; see "
                "step C"
            )
        # No one honest: nothing is certified.
        return certified(question[0]) if question[0] else math.inf

    answer = attempt.program.call("most_colluding", ask, users, epsilon, seconds=60.0)
    if certified(users) > epsilon:
        if answer is not None:
            raise CheckFailure(
                f"{instance}: the answer must be None, because even with no colluding users the "
                "certified epsilon is above the limit; see step C"
            )
        return f"{users} users: none"
    if type(answer) is not int or not 0 <= answer < users:
        raise CheckFailure(
            f"{instance}: not a number of users from 0 to {users - 1}: {short(answer)}; see step C"
        )
    if certified(users - answer) > epsilon:
        raise CheckFailure(
            f"{instance}: with your number of colluding users the certified epsilon is above the "
            "limit; see step C"
        )
    if answer + 1 < users and certified(users - answer - 1) <= epsilon:
        raise CheckFailure(f"{instance}: more users than you say may collude; see step C")
    return f"{users} users: {answer}, by {count} certificates"


def check_policy(attempt: CheckAttempt) -> str:
    """D: thirty manifests, each accepted or refused as the client does."""
    refused = 0
    for manifest, limits in policy.draw_manifests(attempt.draws):
        right = policy.client_accepts(manifest, limits)
        refused += not right
        answer = attempt.program.call("accept", manifest, limits)
        if type(answer) is not bool:
            raise CheckFailure(
                f"accept returned {kind_of(answer)} where True or False is expected; see step D"
            )
        if answer is not right:
            raise CheckFailure(
                f"accept says {short(answer)} for the manifest {manifest} under the limits "
                f"{limits}, and the client does not; see step D"
            )
    return (
        f"{policy.MANIFESTS} manifests: {refused} refused, the others accepted, as the client does"
    )


def check_noise_plan(attempt: CheckAttempt) -> str:
    """E: the plan works with the users who come, is certified, and has the least noise."""
    draws, summaries = attempt.draws, []
    for colluding in (0, draws.integer(2, 6)):
        # Never a whole number of users: rounding up asks for one who does not come.
        expected = 2 * draws.integer(15, 30) + 1
        stays = Fraction(draws.choice((5, 6, 7)), 10) - Fraction(1, 100)
        came = int(expected * stays)
        plan = _call_noise_plan(attempt, expected, stays, colluding)
        error, if_all_come, for_all = _check_noise_plan(
            f"{expected} users of whom {stays} come and {colluding} collude",
            expected,
            came,
            colluding,
            plan,
        )
        summaries.append(
            f"{came} of {expected} come and {colluding} collude: standard error of the sum "
            f"{error:.2f}, and {if_all_come:.2f} if all come, where a plan for all would have "
            f"{for_all:.2f}"
        )
    return "both plans run, hold, and have no needless noise; " + "; ".join(summaries)


def _call_noise_plan(
    attempt: CheckAttempt, expected: int, stays: Fraction, colluding: int
) -> tuple[int, int]:
    answer = attempt.program.call("noise_plan", expected, stays, colluding)
    if (
        not isinstance(answer, tuple)
        or len(answer) != 2
        or not all(type(number) is int for number in answer)
    ):
        raise CheckFailure(
            f"noise_plan must return (min_reports, colluding), not {short(answer)}; see step E"
        )
    least, counted = answer
    if not 0 <= counted < least <= expected:
        raise CheckFailure(
            f"min_reports must be from 1 to {expected} and colluding below it, not "
            f"{short(answer)}; see step E"
        )
    return least, counted


def _check_noise_plan(
    instance: str, expected: int, came: int, colluding: int, plan: tuple[int, int]
) -> tuple[float, float, float]:
    """Check a plan; return standard errors for those who come, for all, and of a full plan."""
    if plan[1] < colluding:
        raise CheckFailure(
            f"{instance}: the plan counts on fewer colluding users than there may be; see step E"
        )
    outcome = rounds.noise_plan(expected, came, plan, rounds.EPSILON, rounds.DELTA)
    if not outcome["runs"]:
        raise CheckFailure(
            f"{instance}: the round needs more reports than come, and nothing is published; see "
            "step E"
        )
    if outcome["certified"] > rounds.EPSILON:
        raise CheckFailure(
            f"{instance}: what comes is certified above the plan's epsilon; see step E"
        )
    least = rounds.noise_plan(expected, came, (came, colluding), rounds.EPSILON, rounds.DELTA)[
        "error"
    ]
    if outcome["error"] > least * (1 + ROUNDING):
        excess = outcome["error"] / least - 1
        raise CheckFailure(
            f"{instance}: the plan holds, and its error is {excess:.1%} larger than it has to be; "
            "see step E"
        )
    with_all = (
        rounds.noise_plan(expected, expected, counted, rounds.EPSILON, rounds.DELTA)
        for counted in (plan, (expected, colluding))
    )
    return outcome["error"], *(outcome_of_plan["error"] for outcome_of_plan in with_all)


def check_rounds(attempt: CheckAttempt) -> str:
    """E: a real round that the accounts flood, and a real round that half of the users leave."""
    draws, spec = attempt.draws, rounds.spec_of_flood()
    p = 1 - spec.blanket + spec.blanket / spec.symbols
    weights = draws.permute((10, 17, 29, 44))
    flood = Flood(
        rounds.USERS,
        rounds.USERS - 1,
        spec.symbols,
        p,
        tuple(Fraction(weight, 100) for weight in weights),
    )
    mine = rounds.call_submissions(attempt.program, flood)
    plan = _call_noise_plan(attempt, rounds.EXPECTED, Fraction(1, 2), 0)
    attempt.progress(
        "a system of three nodes: the flooded round, then the round that half of its users leave"
    )
    flooded, left = rounds.play(mine, draws.below(spec.symbols), plan)
    if flooded is None or left is None:
        raise AssertionError("both rounds were asked for")
    answer = attempt.program.call("guess", flood.plan, flooded.board, mine)
    sent = tuple(int(symbol == flooded.victim_sent) for symbol in range(spec.symbols))
    if answer not in flood.best(sent):
        raise CheckFailure(
            f"the board of the real round was {flooded.board}, your accounts sent {mine}, the "
            f"prior is {_format_prior(flood)} and p = {p}: the guess is not the most probable "
            "value; see step B"
        )
    if left.reason is not None or not left.holds:
        raise CheckFailure(
            f"{rounds.EXPECTED // 2} of {rounds.EXPECTED} users came to the round planned as "
            f"{plan}, and it "
            f"{'did not end well: ' + left.reason if left.reason else 'does not hold'}; see step E"
        )
    return (
        "the victim's message was read off the board, the guess is the best there is; "
        f"{rounds.EXPECTED // 2} of {rounds.EXPECTED} users: published, certified {left.final:.3f}"
    )


def check_crowd(attempt: CheckAttempt) -> str:
    """F: the fewest honest reports that a round can leave, whatever corrupt parties do."""
    cases = crowds.draw_situations(attempt.draws)
    for case in attempt.draws.permute(cases):
        answer = attempt.program.call("crowd", case.as_student_data)
        if type(answer) is not int:
            raise CheckFailure(
                f"crowd returned {kind_of(answer)} where a whole number is expected; see step F"
            )
        if answer != case.least:
            what = (
                "fewer than you say can be left"
                if answer > case.least
                else "more than that are always left"
            )
            raise CheckFailure(
                f"crowd says {short(answer)} for {case.as_student_data}, and {what}; see step F"
            )
    spec, users, _ = _histogram(attempt.draws)
    accounts = attempt.draws.integer(users // 10, users // 5)
    certified, summaries = _certificate(spec, users), []
    for mix in Mix:
        nodes = (crowds.CORRUPT, crowds.HONEST, crowds.HONEST)
        left = crowds.Situation(mix, nodes, users, accounts, users).least
        summaries.append(f"{mix} {left} honest and ε {certified(left):.2f}")
    return (
        f"{len(cases)} rounds; behind a corrupt node 1 with {accounts} accounts a round of "
        f"{users} (ε {certified(users):.2f} if all are honest) leaves {' and '.join(summaries)}"
    )


CHECKS = (
    Check("B-submissions", 5, "submissions has one symbol for each account", check_submissions),
    Check(
        "B-guess",
        15,
        "guess is the most probable value, on every board",
        check_guess,
        seconds=120.0,
    ),
    Check(
        "C-colluding",
        15,
        "most_colluding finds the largest number that a certificate tolerates",
        check_colluding,
        seconds=240.0,
    ),
    Check("D-policy", 15, "accept decides as the client does", check_policy, seconds=60.0),
    Check(
        "E-plan", 5, "noise_plan counts on the users who take part", check_noise_plan, seconds=120.0
    ),
    Check(
        "E-rounds",
        5,
        "the guess and the plan hold in real rounds",
        check_rounds,
        ("B-submissions", "B-guess", "E-plan"),
        system=True,
        seconds=300.0,
    ),
    Check(
        "F-crowd",
        10,
        "crowd knows what a corrupt entry node can and cannot take away",
        check_crowd,
        seconds=120.0,
    ),
    Check(
        "F-rounds",
        5,
        "it is so in real rounds, plain and verified",
        entry.check_crowd_rounds,
        ("B-submissions",),
        system=True,
        seconds=300.0,
    ),
)
