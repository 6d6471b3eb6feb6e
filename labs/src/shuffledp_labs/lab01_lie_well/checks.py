"""The checks of lab 1.

Distributions and expectations are compared as rationals, so that no bias is too small to be
detected.
"""

from __future__ import annotations

import asyncio
import math
from fractions import Fraction
from typing import Any, Final

from shuffledp_labs.errors import CheckFailure, StudentException
from shuffledp_labs.instance import Draws
from shuffledp_labs.lab import CheckAttempt
from shuffledp_labs.lab01_lie_well.round import play_round
from shuffledp_labs.lab01_lie_well.specs import (
    CONFIDENCE,
    KINDS,
    Spec,
    answers,
    describe_spec,
    domain,
    draw_spec,
    hoeffding,
    law,
    likeliest,
    outcomes,
    truth,
)

LOW: Final = Fraction(1, 5)
HIGH: Final = Fraction(1, 2)
"""Blankets of the intervals' instances: with them, the textbook's interval fails on every one."""

MANY: Final = 2000

FLOATS: Final = 1e-12
"""A law that is off by less was meant rightly, and computed in floats."""


def law_is_exact(attempt: CheckAttempt) -> str:
    """Check the exact law of the randomiser for five specs and every value."""
    kinds = [*KINDS, attempt.draws.choice(KINDS), attempt.draws.choice(KINDS)]
    values = 0
    for spec in (draw_spec(attempt.draws, kind) for kind in attempt.draws.permute(kinds)):
        for value in domain(spec):
            _compare(attempt, spec, value)
            values += 1
    return f"5 specs, {values} values: equal in rationals"


def _compare(attempt: CheckAttempt, spec: Spec, value: int) -> None:
    expected = law(spec, value)
    walked = attempt.program.law("randomise", spec, value)
    where = f"randomise, {describe_spec(spec)}, value {value}"
    if strange := [answer for answer in walked.of if answer not in expected]:
        raise CheckFailure(
            f"{where}: {strange[0]!r} is not an answer of this mechanism; README, step B"
        )
    if not walked.exact or walked.lost:
        raise CheckFailure(
            f"{where}: these laws are rational: flip and below are enough, and every run ends; "
            "step B"
        )
    off: dict[int, Fraction] = {
        answer: abs(expected[answer] - Fraction(walked.of.get(answer, 0))) for answer in expected
    }
    if any(off.values()):
        worst = max(off, key=lambda answer: off[answer])
        distance = float(sum(off.values())) / 2
        # No one is off by so little but by a float, such as the one next to 1/3.
        cause = (
            "a float is not a fraction: give coins.flip a Fraction; " if distance < FLOATS else ""
        )
        raise CheckFailure(
            f"{where}: total variation distance {distance:.3g} to the law of the handout, most at "
            f"answer {worst}; {cause}README, step B"
        )


def others_are_refused(attempt: CheckAttempt) -> str:
    """Check that values outside the domain are refused."""
    for kind in KINDS:
        spec = draw_spec(attempt.draws, kind)
        for value in (-1, len(domain(spec)), len(domain(spec)) + attempt.draws.integer(1, 1000)):
            try:
                answer = attempt.program.sample("randomise", spec, value, coins=attempt.draws)
            except StudentException as error:
                if error.kind == "ValueError":
                    continue
                raise CheckFailure(
                    f"randomise, {describe_spec(spec)}: for the value {value}, outside of the "
                    f"domain, {error}; raise ValueError instead (README, step B)"
                ) from None
            raise CheckFailure(
                f"randomise, {describe_spec(spec)}: the value {value} is outside of the domain, "
                f"and the answer was {answer!r}; raise ValueError instead (README, step B)"
            )
    return "9 values outside of the domain: all refused"


def estimate_is_unbiased(attempt: CheckAttempt) -> str:
    """Check the exact expectation of the estimate over all outcomes."""
    seen = 0
    for kind in attempt.draws.permute(KINDS):
        spec = draw_spec(attempt.draws, kind)
        people = {"krr": 3, "bits": 3, "mean": 5}[kind]
        for values in _datasets(attempt.draws, spec, people):
            mean = Fraction(0)
            for given, mass in outcomes(spec, values):
                mean += mass * _number(
                    attempt.program.call("estimate", spec, list(given)), "estimate"
                )
                seen += 1
            if mean != truth(spec, values):
                off = float(abs(mean - truth(spec, values)))
                raise CheckFailure(
                    f"estimate, {describe_spec(spec)}, people who hold {values}: on average over "
                    f"all {len(answers(spec))}^{people} outcomes it is off by {off:.4g}; README, "
                    "step C"
                )
    return f"6 datasets, {seen} outcomes: the expectation is the truth, in rationals"


def _datasets(draws: Draws, spec: Spec, people: int) -> list[list[int]]:
    """A dataset without the symbol that is asked about, and random datasets."""
    nobody = (spec["asked"] + 1) % spec["symbols"] if "asked" in spec else 0
    return [[nobody] * people, [draws.choice(domain(spec)) for _ in range(people)]]


def _number(value: Any, function: str) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, int | Fraction):
        raise CheckFailure(
            f"{function} gave {str(value)[:60]!r}, a {type(value).__name__}: it has to be a "
            "Fraction (or an int), which is exact; README, step C"
        )
    return Fraction(value)


def interval_covers(attempt: CheckAttempt) -> str:
    """Check the exact coverage over all outcomes, and the width for many people."""
    least = 1.0
    for kind in attempt.draws.permute(KINDS):
        spec = draw_spec(attempt.draws, kind, LOW, HIGH)
        spec |= {"symbols": 3, "asked": spec["asked"] % 3} if kind == "krr" else {}
        spec |= {"max_value": 2} if kind != "krr" else {}
        people = {"krr": 6, "bits": 5, "mean": 8}[kind]
        # Everyone in the middle: fair coins, of which even 1.96 true standard errors cover .93
        # only.
        middle = [[1] * people] if kind == "mean" else []
        for values in [*_datasets(attempt.draws, spec, people), *middle]:
            covered = _coverage(attempt, spec, values)
            if covered < CONFIDENCE:
                raise CheckFailure(
                    f"interval, {describe_spec(spec)}, people who hold {values}: it holds the "
                    f"truth with probability {float(covered):.3f} only; README, step C (few "
                    "people: which inequality holds for every n?)"
                )
            least = min(least, float(covered))
        _width(attempt, spec)
    return (
        f"7 datasets: coverage {least:.3f} at least; for {MANY:,} people as narrow as it has to be"
    )


def _coverage(attempt: CheckAttempt, spec: Spec, values: list[int]) -> Fraction:
    right = float(truth(spec, values))
    covered = Fraction(0)
    for given, mass in outcomes(spec, values):
        low, high = _ends(attempt.program.call("interval", spec, list(given)))
        covered += mass if low - 1e-9 <= right <= high + 1e-9 else 0
    return covered


def _width(attempt: CheckAttempt, spec: Spec) -> None:
    given = [attempt.draws.choice(answers(spec)) for _ in range(MANY)]
    low, high = _ends(attempt.program.call("interval", spec, given))
    if high - low > 2 * hoeffding(spec, MANY) * (1 + 1e-6):
        raise CheckFailure(
            f"interval, {describe_spec(spec)}, {MANY:,} people: "
            f"{(high - low) / 2 / hoeffding(spec, MANY):.2f} times as wide as "
            "Hoeffding's; README, step C"
        )


def _ends(value: Any) -> tuple[float, float]:
    if (
        isinstance(value, tuple)
        and len(value) == 2
        and all(isinstance(end, int | float | Fraction) for end in value)
    ):
        low, high = map(float, value)
        if math.isfinite(low) and math.isfinite(high) and low <= high:
            return low, high
    raise CheckFailure(
        f"interval gave {str(value)[:60]!r}: it has to be (low, high), two numbers; README, step C"
    )


def guess_is_bayes(attempt: CheckAttempt) -> str:
    """Check the guess for every answer of 45 specs, under priors without ties.

    A wrong law often names the likeliest value for every answer of one spec under one prior.
    """
    seen = 0
    kinds = attempt.draws.permute([*KINDS] * 15)
    for kind in kinds:
        spec = draw_spec(attempt.draws, kind, Fraction(2, 5))
        prior = _prior(attempt.draws, spec)
        for answer in answers(spec):
            (best,) = likeliest(spec, answer, prior)
            value = attempt.program.call("guess", spec, answer, prior)
            if type(value) is not int or value not in domain(spec):
                raise CheckFailure(
                    f"guess gave {str(value)[:60]!r} ({type(value).__name__}): it has to be an "
                    f"int from 0 to {len(domain(spec)) - 1}, a value that a person can hold; "
                    "README, step D"
                )
            if value != best:
                loss = 1 - prior[value] * law(spec, value)[answer] / (
                    prior[best] * law(spec, best)[answer]
                )
                raise CheckFailure(
                    f"guess, {describe_spec(spec)}, answer {answer}, prior "
                    f"{', '.join(map(str, prior))}: guess returned {value}, but another value is "
                    f"likelier; {value} is right {float(loss):.0%} less often; README, step D"
                )
            seen += 1
    return f"{len(kinds)} specs, {seen} answers: the likeliest value each time"


def _prior(draws: Draws, spec: Spec) -> list[Fraction]:
    """Draw a prior without ties that makes the Bayes guess necessary.

    Under it neither the answer alone nor the prior alone always determines the most likely value.
    """
    size = len(domain(spec))
    flat = [Fraction(1, size)] * size
    while True:
        weights = [draws.integer(1, 60) for _ in range(size)]
        prior = [Fraction(weight, sum(weights)) for weight in weights]
        best = [likeliest(spec, answer, prior) for answer in answers(spec)]
        if (
            all(len(values) == 1 for values in best)
            and any(
                values[0] not in likeliest(spec, answer, flat)
                for answer, values in zip(answers(spec), best, strict=True)
            )
            and any(prior[values[0]] < max(prior) for values in best)
        ):
            return prior


def round_is_published(attempt: CheckAttempt) -> str:
    """Check a real round in which forty people answer by the student's function.

    Its estimate is that of the analyst.
    """
    return asyncio.run(play_round(attempt))
