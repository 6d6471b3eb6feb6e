"""The checks of lab 11: all results are compared exactly with an independent computation."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final

from shuffledp_labs.errors import CheckFailure, StudentException
from shuffledp_labs.kinds import kind_of
from shuffledp_labs.lab import CheckAttempt
from shuffledp_labs.lab11_always import cover
from shuffledp_labs.lab11_always.histories import (
    OPEN,
    PROVED,
    TARGET,
    WRONG_RULES,
    Pattern,
    draw_pattern,
    draw_telling_history,
)
from shuffledp_labs.words import short

FLOATS: Final = 1e-12
"""A law that is off by less was meant rightly, and computed in floats."""

HISTORIES: Final = 2
"""Histories of each kind."""


def check_certain(attempt: CheckAttempt) -> str:
    """B-certain: `suspects` has all users who are senders in every explanation of the counts."""
    named = 0
    for pattern in _patterns(attempt, PROVED):
        answer = _suspects(attempt, pattern)
        if missing := set(pattern.certain) - set(answer):
            raise CheckFailure(
                f"{_title(pattern)}: you do not name {len(missing)} of the {len(pattern.certain)} "
                "who must be senders; try every set of users that explains the counts (README, "
                "step B)"
            )
        named += len(pattern.certain)
    return f"{HISTORIES * len(PROVED)} histories: all {named} users who must be senders are named"


def check_innocent(attempt: CheckAttempt) -> str:
    """B-innocent: `suspects` has only users who are senders in every explanation of the counts."""
    for pattern in _patterns(attempt, (*OPEN, *PROVED)):
        answer = _suspects(attempt, pattern)
        if wrong := set(answer) - set(pattern.certain):
            users = "user" if len(wrong) == 1 else "users"
            raise CheckFailure(
                f"{_title(pattern)}: you name {len(wrong)} {users} without whom the counts can be "
                "explained as well (README, step B)"
            )
    return (
        f"{HISTORIES * len((*OPEN, *PROVED))} histories, of which {HISTORIES * len(OPEN)} prove "
        "nothing: no user is named who need not be a sender"
    )


def _patterns(attempt: CheckAttempt, kinds: tuple[str, ...]) -> list[Pattern]:
    drawn = [draw_pattern(attempt.draws, kind) for kind in kinds for _ in range(HISTORIES)]
    return attempt.draws.permute(drawn)


def _title(pattern: Pattern) -> str:
    return f"{len(pattern.rounds)} rounds, {pattern.kind}"


def _suspects(attempt: CheckAttempt, pattern: Pattern) -> tuple[str, ...]:
    rounds = tuple(seen.as_student_data for seen in pattern.rounds)
    answer = attempt.program.call("suspects", rounds, pattern.symbol, pattern.senders)
    if not isinstance(answer, tuple | list) or not all(isinstance(name, str) for name in answer):
        raise CheckFailure(
            f"suspects returned {kind_of(answer)}, expected a list of names (README, step B)"
        )
    return tuple(answer)


def check_guess(attempt: CheckAttempt) -> str:
    """C-guess: `guess` is the most probable value, where simpler rules are wrong."""
    number = 0
    for rule in attempt.draws.permute(WRONG_RULES):
        for _ in range(HISTORIES):
            crowd, rounds = draw_telling_history(attempt.draws, rule)
            seen = tuple(item.as_student_data for item in rounds)
            guess = attempt.program.call("guess", seen, TARGET, crowd.as_student_data)
            weights = crowd.weights(rounds)
            if type(guess) is not int or not 0 <= guess < crowd.symbols:
                raise CheckFailure(
                    f"guess returned {_describe(guess)} where a value from 0 to "
                    f"{crowd.symbols - 1} is expected (README, step C)"
                )
            if guess not in crowd.best(rounds):
                less = weights[guess] / max(weights)
                present = sum(TARGET in item.present for item in rounds)
                raise CheckFailure(
                    f"{len(rounds)} rounds, the victim in {present} of them, {len(crowd.crowds)} "
                    f"possible crowds: your guess has {float(less):.2g} times the probability of "
                    "the best one (README, step C)"
                )
            number += 1
    return f"{number} histories on which simpler rules are wrong: the most probable value each time"


def _describe(value: Any) -> str:
    """A value in words; for a list only its type, as lists and tuples both arrive as tuples."""
    if not isinstance(value, tuple | list):
        return short(value)
    return f"{kind_of(value)} (length {len(value)})"


def check_law(attempt: CheckAttempt) -> str:
    """D-law: `answer` has the exact law of a message, for every value and for none."""
    laws = 0
    for _ in range(3):
        spec = cover.draw_spec(attempt.draws)
        for value in (*range(spec["symbols"]), None):
            _compare_law(attempt, spec, value)
            laws += 1
        _refuse_others(attempt, spec)
    return f"{laws} laws, with and without a value: equal in rationals"


def _compare_law(attempt: CheckAttempt, spec: dict[str, Any], value: int | None) -> None:
    expected = cover.answer_law(spec, value)
    where = f"answer, {spec['symbols']} values, odds {spec['odds']}, value {value}"
    try:
        walked = attempt.program.law("answer", spec, value)
    except StudentException as error:
        raise CheckFailure(
            f"for value {value}, answer raised an exception ({spec['symbols']} values, odds "
            f"{spec['odds']}): {error} (README, step D)"
        ) from None
    if strange := [symbol for symbol in walked.of if symbol not in range(len(expected))]:
        raise CheckFailure(
            f"{where}: {short(strange[0])} is not a symbol from 0 to {len(expected) - 1}; every "
            "device sends one in every round (README, step D)"
        )
    if not walked.exact or walked.lost:
        raise CheckFailure(f"{where}: this law is rational; use flip and below (README, step D)")
    distance = sum(
        abs(chance - Fraction(walked.of.get(symbol, 0))) for symbol, chance in enumerate(expected)
    )
    if distance:
        hint = "a float was used; coins.flip needs a Fraction; " if distance < FLOATS else ""
        raise CheckFailure(
            f"{where}: {hint}total variation distance {float(distance) / 2:.3g} to the law of the "
            "handout (README, step D)"
        )


def _refuse_others(attempt: CheckAttempt, spec: dict[str, Any]) -> None:
    for value in (-1, spec["symbols"]):
        try:
            symbol = attempt.program.sample("answer", spec, value, coins=attempt.draws)
        except StudentException as error:
            if error.kind == "ValueError":
                continue
            raise
        raise CheckFailure(
            f"answer, {spec['symbols']} values: {value} is none of them, and the answer was "
            f"{short(symbol)}; raise ValueError (README, step D)"
        )


def check_unbiased(attempt: CheckAttempt) -> str:
    """D-unbiased: `estimate` has the right expectation over all outcomes of small rounds."""
    outcomes = 0
    for number in range(3):
        spec = cover.draw_spec(attempt.draws)
        values = [attempt.draws.below(spec["symbols"]) for _ in range(2 + number % 2)]
        people = attempt.draws.permute([*values, None])
        mean = [Fraction(0)] * spec["symbols"]
        for board, chance in cover.boards(spec, people):
            estimate = _estimate(attempt, board, spec)
            mean = [total + chance * part for total, part in zip(mean, estimate, strict=True)]
            outcomes += 1
        for value, total in enumerate(mean):
            if total != people.count(value):
                raise CheckFailure(
                    f"estimate, {spec['symbols']} values, odds {spec['odds']}, {len(people)} "
                    f"users of whom one has no value: on average the count of value {value} is "
                    f"off by {float(abs(total - people.count(value))):.3g} (README, step D)"
                )
    return f"3 rounds, {outcomes} outcomes: exactly unbiased"


def _estimate(
    attempt: CheckAttempt, board: tuple[int, ...], spec: dict[str, Any]
) -> tuple[Fraction, ...]:
    estimate = attempt.program.call("estimate", board, spec)
    if (
        not isinstance(estimate, tuple | list)
        or len(estimate) != spec["symbols"]
        or not all(type(part) in {int, Fraction} for part in estimate)
    ):
        raise CheckFailure(
            f"estimate returned {_describe(estimate)} where {spec['symbols']} whole numbers or "
            "Fractions are expected (README, step D)"
        )
    return tuple(Fraction(part) for part in estimate)


def check_price(attempt: CheckAttempt) -> str:
    """E-price: `price` gives messages and variance with cover, as multiples of those without."""
    prices = []
    for _ in range(4):
        spec = cover.draw_spec(attempt.draws)
        counts = tuple(attempt.draws.integer(1, 40) for _ in range(spec["symbols"]))
        silent = attempt.draws.integer(10, 200)
        answer = attempt.program.call("price", spec, counts, silent)
        expected = cover.price_of(spec, counts, silent)
        for part, (what, right) in enumerate(zip(("messages", "variance"), expected, strict=True)):
            if not isinstance(answer, tuple | list) or len(answer) != len(expected):
                raise CheckFailure(
                    f"price returned {kind_of(answer)} where two Fractions are expected (README, "
                    "step E)"
                )
            if type(answer[part]) not in {int, Fraction}:
                raise CheckFailure(
                    f"price: the factor of the {what} is a {type(answer[part]).__name__}; a "
                    "Fraction is expected (README, step E)"
                )
            if answer[part] != right:
                raise CheckFailure(
                    f"price, {spec['symbols']} values, odds {spec['odds']}, {sum(counts)} users "
                    f"with a value and {silent} without: the factor of the {what} is wrong "
                    "(README, step E)"
                )
        prices.append(f"{float(expected[0]):.2f} and {float(expected[1]):.2f}")
    return f"factors of messages and variance: {'; '.join(prices)}"
