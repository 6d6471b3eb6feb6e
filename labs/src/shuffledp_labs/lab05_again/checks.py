"""The checks of lab 5.

Each tests a property of the distribution of the student's functions, without a reference solution.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from typing import Any

from shuffledp_labs.errors import CheckFailure
from shuffledp_labs.instance import Draws
from shuffledp_labs.lab import CheckAttempt
from shuffledp_labs.lab05_again import layers
from shuffledp_labs.lab05_again.guessing import (
    best_success,
    draw_truths,
    likelihood,
    one_sided_halves,
    success,
)
from shuffledp_labs.lab05_again.memory import (
    AnswerLaw,
    Branch,
    QuestionOnDay,
    chance_of_truth,
    chance_that,
    joint_law,
    largest_ratio,
)

QUESTIONS = (
    "Do you smoke?",
    "do you smoke?",
    "Do you smoke? ",
    "Do you\nsmoke?",
    'Do you smoke "now and then"?',
    "Do you smoke?=1",
    "Do you smoke?\t0",
    "Rauchen Sie täglich?",
    "?",
)
"""Different questions that a careless file takes for one."""


LONG = (12, 21, 40)
"""Days of histories that are drawn, not walked."""

LONG_TURNS = 40
"""How often each of `QUESTIONS` is asked in one file: a wrong program that draws again differs in
one of them.
"""


def check_guess(attempt: CheckAttempt) -> str:
    """B: `guess` is optimal, exactly, over all histories."""
    tried = []
    for days in (1, 3, 5, 7, 9):
        truths = draw_truths(attempt.draws, days)

        def guess(history: tuple[tuple[int, Fraction], ...]) -> int:
            return _bit(attempt.program.call("guess", history), "guess")

        reached = success(truths, guess)
        best = best_success(truths)
        if reached < best:
            raise CheckFailure(
                f"over all {2**days} histories of {days} days, on which the answers are true with "
                f"probability {_join(truths)}, your guess is right {float(best - reached):.2%} "
                "less often than it could be (README, step B: how much is one answer worth?)"
            )
        tried.append(f"{days}")
        attempt.progress(
            f"{2**days} histories of {days} days: right with probability {float(reached):.4f}, the "
            "optimum"
        )
    for days in LONG:
        _long_histories(attempt, days)
    return (
        f"all histories of {', '.join(tried)} days: as often right as can be, exactly; and some "
        f"of up to {LONG[-1]}"
    )


def _long_histories(attempt: CheckAttempt, days: int) -> None:
    """Check histories too long to enumerate, in which every day counts.

    Half of their days point one way, half the other.
    """
    for strong_first in (False, True):
        value = attempt.draws.below(2)
        history = one_sided_halves(attempt.draws, days, value, strong_first=strong_first)
        if _bit(attempt.program.call("guess", history), "guess") != value:
            less = likelihood(1 - value, history) / likelihood(value, history)
            raise CheckFailure(
                f"a history of {days} days: your guess is right {float(1 - less):.2%} less often "
                "than the other one, because not all days count (README, step B)"
            )


def check_same(attempt: CheckAttempt) -> str:
    """C: the same question and value get the same answer, true with the stated probability."""
    truth = _truth(attempt.draws)
    first_question, second_question = attempt.draws.sample(QUESTIONS, 2)
    history = (
        QuestionOnDay(first_question, 1),
        QuestionOnDay(second_question, 0),
        QuestionOnDay(first_question, 1),
        QuestionOnDay(second_question, 0),
        QuestionOnDay(first_question, 1),
    )
    law = _law_of(attempt, history, truth)
    again = chance_that(
        law, lambda answers: answers[0] == answers[2] == answers[4] and answers[1] == answers[3]
    )
    if again != 1:
        raise CheckFailure(
            f"asked three times with the same value, with truth {truth}, the answers are all "
            f"alike with probability {again} only; anyone who averages the others still wins "
            "(README, step C)"
        )
    _truthful(law, history, truth)
    _check_long_memory(attempt, truth)
    return (
        f"five answers to two questions, {len(law)} different outcomes: kept for ever, true with "
        f"probability {truth}"
    )


def _check_long_memory(attempt: CheckAttempt, truth: Fraction) -> None:
    """Check that the first answer to each of many questions is repeated, in any order."""
    file = f"long-{attempt.draws.bytes(4).hex()}"
    first = dict[str, int]()
    for turn in range(LONG_TURNS):
        for question in attempt.draws.permute(QUESTIONS):
            value = QUESTIONS.index(question) % 2
            coins = attempt.draws.child(f"{turn} {question}")
            drawn_answer = _bit(
                attempt.program.sample("answer", file, question, value, truth, coins=coins),
                "answer",
            )
            if first.setdefault(question, drawn_answer) != drawn_answer:
                raise CheckFailure(
                    f"asked for the time number {turn + 1} between {len(QUESTIONS) - 1} other "
                    f"questions, the answer to {question!r} is another one than at first (README, "
                    "step C)"
                )


def check_fresh(attempt: CheckAttempt) -> str:
    """C: answers to different questions are independent of each other."""
    truth = _truth(attempt.draws)
    for question in attempt.draws.permute(QUESTIONS[1:]):
        # One value for both: two questions that are taken for one would else still be told apart by
        # it.
        value = attempt.draws.below(2)
        history = [QuestionOnDay(QUESTIONS[0], value), QuestionOnDay(question, value)]
        law = _law_of(attempt, history, truth)
        _truthful(law, history, truth)
        for answers in product((0, 1), repeat=2):
            lies = sum(answer != value for answer in answers)
            distance = law.get(answers, Fraction(0)) - truth ** (2 - lies) * (1 - truth) ** lies
            if distance:
                raise CheckFailure(
                    f"the answers to {_quote_history(history)} depend on each other: two of them "
                    f"together are off by {float(abs(distance)):.4f} from the product of their "
                    "chances (README, step C: each question has a lie of its own)"
                )
    return f"{len(QUESTIONS)} questions that look alike: an answer of its own for each, independent"


def check_restart(attempt: CheckAttempt) -> str:
    """C: memoised answers survive a restart of the program."""
    truth = _truth(attempt.draws)
    question = attempt.draws.choice(QUESTIONS)
    history = (QuestionOnDay(question, 1), QuestionOnDay(question, 1))
    law = _law_of(attempt, history, truth, restart_after=0)
    again = chance_that(law, lambda answers: answers[0] == answers[1])
    if again != 1:
        raise CheckFailure(
            "after a restart the answer to the same question is the same with probability "
            f"{again} only: what you keep in a variable is gone with the program (README, step C)"
        )
    return "ended with SIGKILL between two days: the same answer with probability 1"


def check_change(attempt: CheckAttempt) -> str:
    """C: a change of the value reveals no more than stated."""
    truth = _truth(attempt.draws)
    question = attempt.draws.choice(QUESTIONS)
    bound = (truth / (1 - truth)) ** 2
    shows = truth**2 + (1 - truth) ** 2
    laws: dict[tuple[int, ...], AnswerLaw] = {}
    for values in ((0, 1, 0, 1), (1, 0, 1, 0), (0, 0, 1, 0), (1, 1, 0, 1)):
        history = [QuestionOnDay(question, value) for value in values]
        laws[values] = _law_of(attempt, history, truth)
        _truthful(laws[values], history, truth)
        _change_hidden(laws[values], values, shows)
    for values, mirror in (((0, 1, 0, 1), (1, 0, 1, 0)), ((0, 0, 1, 0), (1, 1, 0, 1))):
        ratio = largest_ratio(laws[values], laws[mirror])
        if ratio is None or ratio > bound:
            seen = "without bound" if ratio is None else f"e^ε = {float(ratio):.4g}"
            raise CheckFailure(
                f"values {values} against {mirror} with truth {truth}: {seen}, which is more than "
                "two answers may cost (README, step C: how many different answers may one "
                "question ever get?)"
            )
    return (
        f"four histories of changing values, truth {truth}: twice the ε of one answer, however "
        "often it changes"
    )


def check_layers(attempt: CheckAttempt) -> str:
    """D: `keep` and `report` have exactly the laws of RAPPOR's two layers."""
    for size in (1, 2, 3, 4):
        # Both kinds of bits, as soon as there is room for them.
        bits = tuple(attempt.draws.permute([(index + size) % 2 for index in range(size)]))
        fake = attempt.draws.fraction(Fraction(1, 8), Fraction(7, 8), 8)
        when_zero, when_one = _zero_one(attempt.draws)
        _same_law(attempt, ("keep", bits, fake), layers.kept_law(bits, fake))
        _same_law(
            attempt,
            ("report", bits, when_zero, when_one),
            layers.report_law(bits, when_zero, when_one),
        )
    return "1 to 4 bits, both layers: equal in rationals"


def check_odds(attempt: CheckAttempt) -> str:
    """D: `odds` gives the exact e^ε of one report and of the memoised answer."""
    for hashes in (1, 2, 3):
        fake = attempt.draws.fraction(Fraction(1, 8), Fraction(7, 8), 8)
        when_zero, when_one = _zero_one(attempt.draws)
        returned = attempt.program.call("odds", hashes, fake, when_zero, when_one)
        if (
            not isinstance(returned, tuple)
            or len(returned) != 2
            or not all(isinstance(x, Fraction | int) for x in returned)
        ):
            raise CheckFailure(
                f"odds returns two Fractions, not {returned!r:.80}: floats are never exact "
                "(README, step D)"
            )
        for name, mine, right in zip(
            ("one report", "the kept answer"),
            returned,
            layers.odds(hashes, fake, when_zero, when_one),
            strict=True,
        ):
            if mine != right:
                # Not beyond 1,000,000%: a student's number may be too large for a float.
                off = min(abs(mine - right) / right, Fraction(10_000))
                raise CheckFailure(
                    f"e^ε of {name} with h = {hashes}, f = {fake}, p = {when_zero}, q = "
                    f"{when_one} is off by {float(off):.3%}, too "
                    f"{'large' if mine > right else 'small'} (README, step D: which report tells "
                    "most?)"
                )
    return "h = 1, 2, 3: both equal to what all reports, one by one, give away"


def check_campaign(attempt: CheckAttempt) -> str:
    """E: every day is charged once to the accountant's ledger, until it refuses."""
    from shuffledp_labs.lab05_again.budget import LedgerDoor, days_allowed, real_ledger

    seen = []
    for most in (100, 3):
        users = attempt.draws.integer(18, 24)
        epsilon = float(attempt.draws.fraction(Fraction(2), Fraction(3), 4))
        allowed = days_allowed(epsilon, users, most)
        # Lines are cut on the first call, on some others, and sometimes on three calls that follow
        # each other.
        first = attempt.draws.choice((True, False))
        run = attempt.draws.integer(2, 4)
        cuts = {0: first, 1: True, run + 1: False, run + 2: True, run + 3: True}
        with real_ledger(epsilon) as ledger:
            door = LedgerDoor(ledger, users, cuts)
            returned = attempt.program.call("campaign", most, door.reserve, door.ask)
        where = f"budget {epsilon:g}, {users} users, at most {most} days, {len(cuts)} cut lines"
        if len(door.rounds_asked) != allowed:
            few = len(door.rounds_asked) < allowed
            difference = "fewer than the budget pays for" if few else "too many"
            raise CheckFailure(
                f"{where}: the question was put on {len(door.rounds_asked)} days, "
                f"{abs(allowed - len(door.rounds_asked))} {difference} (README, step E: what has "
                "the ledger charged when there was no answer?)"
            )
        if returned != len(door.rounds_asked):
            raise CheckFailure(
                f"{where}: campaign returned {returned!r:.40}, not the number of days it asked on"
            )
        seen.append(str(allowed))
    return f"the real ledger, twice: asked on {' and '.join(seen)} days, nothing paid twice"


def _law_of(
    attempt: CheckAttempt,
    history: Sequence[QuestionOnDay],
    truth: Fraction,
    restart_after: int | None = None,
) -> AnswerLaw:
    """Joint law of all answers, with a restart of the program after answer `restart_after`."""
    label = attempt.draws.bytes(4).hex()

    def play(number: int, coins: Branch) -> tuple[int, ...]:
        file, answers = f"kept-{label}-{number}", []
        for day, entry in enumerate(history):
            returned = attempt.program.sample(
                "answer", file, entry.question, entry.value, truth, coins=coins
            )
            answers.append(_bit(returned, "answer"))
            if day == restart_after:
                attempt.program.kill()
        return tuple(answers)

    # A restart takes time, and whether there is randomness from elsewhere is seen without one.
    return joint_law(play, 0) if restart_after is not None else joint_law(play)


def _truthful(law: AnswerLaw, history: Sequence[QuestionOnDay], truth: Fraction) -> None:
    for day in range(len(history)):
        share = chance_of_truth(law, history, day)
        if share != truth:
            raise CheckFailure(
                f"answer {day + 1} to {_quote_history(history)} is that day's truth with a "
                f"probability that is off by {float(abs(share - truth)):.4f} (README, step C)"
            )


def _change_hidden(law: AnswerLaw, values: Sequence[int], most: Fraction) -> None:
    for day in range(1, len(values)):
        if values[day] == values[day - 1]:
            continue
        shown = chance_that(law, lambda answers: answers[day] != answers[day - 1])  # noqa: B023
        if shown > most:
            raise CheckFailure(
                f"values {tuple(values)}: the change before day {day + 1} shows with probability "
                f"{float(shown):.4f}, {float(shown - most):.4f} more than between two independent "
                "answers (README, step C)"
            )


def _same_law(
    attempt: CheckAttempt, call: tuple[Any, ...], expected: dict[tuple[int, ...], Fraction]
) -> None:
    name, *arguments = call
    walked = attempt.program.law(name, *arguments)
    call_text = f"{name}({', '.join(_format_argument(argument) for argument in arguments)}, coins)"
    strange = [value for value in walked.of if value not in expected]
    if strange:
        raise CheckFailure(
            f"{call_text} returned {strange[0]!r:.60}, not a tuple of that many bits (README, "
            "step D)"
        )
    if walked.lost or not walked.exact:
        raise CheckFailure(
            f"{call_text} has no rational law: use coins.flip with a Fraction (README, step D)"
        )
    distances = [
        abs(chance - Fraction(walked.of.get(value, 0))) for value, chance in expected.items()
    ]
    distance = sum(distances, start=Fraction(0)) / 2
    if distance:
        raise CheckFailure(
            f"{call_text} has another law than it should: total variation distance "
            f"{float(distance):.4f} (README, step D)"
        )


def _bit(value: object, name: str) -> int:
    if not isinstance(value, int) or value not in {0, 1}:
        raise CheckFailure(f"{name} returns 0 or 1, not {value!r:.60}")
    return int(value)


def _truth(draws: Draws) -> Fraction:
    return draws.choice((Fraction(3, 4), Fraction(2, 3), Fraction(3, 5), Fraction(4, 5)))


def _zero_one(draws: Draws) -> tuple[Fraction, Fraction]:
    zero = draws.fraction(Fraction(1, 8), Fraction(4, 8), 8)
    return zero, draws.fraction(zero + Fraction(1, 8), Fraction(7, 8), 8)


def _join(truths: Sequence[Fraction]) -> str:
    return ", ".join(map(str, truths))


def _quote_history(history: Sequence[QuestionOnDay]) -> str:
    values = ", ".join(str(entry.value) for entry in history)
    return f"{', '.join(sorted({repr(entry.question) for entry in history}))} (values {values})"


def _format_argument(argument: object) -> str:
    return str(argument) if isinstance(argument, Fraction) else repr(argument)
