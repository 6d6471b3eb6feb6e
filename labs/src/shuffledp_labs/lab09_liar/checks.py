"""The checks of lab 9.

Where chance remains, a correct submission fails with a probability of at most 1e-9.

An audit is sound if it exceeds the true ε in at most 1 - confidence of runs. A check counts that
over many runs on laws whose ε is known exactly, and allows as many excesses as chance alone would
exceed once in 1e9.
"""

from __future__ import annotations

import math
from fractions import Fraction

from shuffledp_labs.lab import Check, CheckAttempt, CheckFailure
from shuffledp_labs.lab09_liar import clients as sealed
from shuffledp_labs.lab09_liar.laws import (
    AuditedPair,
    Sampler,
    equal,
    one_sided,
    rare,
    response,
    shuffled_krr,
)
from shuffledp_labs.words import short

CONFIDENCE = 0.9
"""Of the audits that are counted."""

RUNS = 200
"""Audits of one law in the checks that count excesses: what is wrong half of the time is told from
a tenth.
"""

ALLOWED = 49
"""P(Bin(200, .1) > 49) < 1e-9."""

OUTCOMES = 1000
"""Of each law in an audit that is counted."""

FEW_RUNS, FEW_ALLOWED = 60, 23
"""P(Bin(60, .1) > 23) < 1e-9, for what a wrong audit does every time."""

STRONG_RUNS = 16
"""Audits of one law of which the mean is compared: it varies by 2%."""

STRENGTH = 0.9
"""The share of the mean bound of shuffledp's audit that is required."""

MOST = 100
"""Nats: what no audit of a million trials can show."""

SEALED_CONFIDENCE = 1 - 1e-11
"""Of the audits of sealed clients: none of 30 honest ones is accused in 1 - 3e-10 of instances."""

IMPROBABLE = 1e-9
"""Probability of one honest client's answers: above 1 - SEALED_CONFIDENCE, so it is not accused."""

TRIALS = 8000
"""Answers to each value that a client gives."""

HONEST = 24
"""Honest clients of a crowd, with tight claims: a program that accuses each with probability 1/2 is
caught except with probability 6e-8.
"""

EXACT = 1e-6
"""Relative error that an end of an interval may have, for the sake of bisection in floats."""

ROUNDING = 1e-12
"""And its absolute error."""


def check_interval(attempt: CheckAttempt) -> str:
    """B: `interval` has both ends right, also for no successes and for successes only."""
    from shuffledp_adversary.evidence import clopper_pearson

    draws, cases = attempt.draws, [(0, attempt.draws.integer(5, 60)), (7, 7)]
    for most in (40, 40, 400, 2000):
        trials = draws.integer(most // 2, most)
        cases.append((draws.integer(1, trials - 1), trials))
    for successes, trials in cases:
        confidence = draws.choice((0.5, 0.9, 0.95, 0.99, 1 - 1e-6))
        instance = f"{successes} of {trials} at confidence {confidence:.7g}"
        answer = attempt.program.call("interval", successes, trials, confidence, seconds=30.0)
        if (
            not isinstance(answer, tuple)
            or len(answer) != 2
            or not all(map(_is_probability, answer))
        ):
            raise CheckFailure(
                f"interval must return (low, high), both from 0 to 1, not {short(answer)}, for "
                f"{instance}; see step B"
            )
        for end, actual, expected in zip(
            ("lower", "upper"), answer, clopper_pearson(successes, trials, confidence), strict=True
        ):
            # Relative to its distance from 0 or 1: of a rare event the lower end is a small number
            # that matters.
            distance = max(0.0, abs(actual - expected) - ROUNDING) / max(
                min(expected, 1 - expected), ROUNDING
            )
            if not distance <= EXACT:
                raise CheckFailure(
                    f"the {end} end of the interval for {instance} is off by {distance:.2g} of "
                    "its distance to 0 or 1; each side may err with half of what the confidence "
                    "leaves, exactly: see step B"
                )
    return f"{len(cases)} intervals, both ends"


def _is_probability(end: object) -> bool:
    return type(end) in {int, float} and 0 <= end <= 1  # type: ignore[operator] # a number, by its type


def check_strong(attempt: CheckAttempt) -> str:
    """C: the mean bound reaches nine tenths of shuffledp's own audit, on the same samples."""
    draws, sampler = attempt.draws, Sampler(attempt.draws.child("samples"))
    low = draws.fraction(_hundredths(8), _hundredths(12), 100)
    lopsided_pair = one_sided(low, 3 * low)
    crowd = shuffled_krr(
        8, 3, draws.fraction(_hundredths(500), _hundredths(800), 2), _hundredths(2)
    )
    shares = []
    for name, pair, trials in (
        ("shuffled k-RR of eight users", crowd, 20_000),
        ("an outcome that the second law shows more often", lopsided_pair, 10_000),
        ("an outcome that the first law shows more often", lopsided_pair.swap(), 10_000),
    ):
        attempt.progress(name)
        share = _share(attempt, sampler, pair, trials)
        if not share >= STRENGTH:
            raise CheckFailure(
                f"on {name} ({trials:,} outcomes each, {len(pair.first)} possible, delta = "
                f"{float(pair.delta):g}) your bound is on average {share:.2f} of that of "
                f"shuffledp's audit, and must be at least {STRENGTH}; look at both directions and "
                "at events of several outcomes, see step C"
            )
        shares.append(f"{share:.2f}")
    return f"on average {', '.join(shares)} of the bound of shuffledp's audit"


def _share(attempt: CheckAttempt, sampler: Sampler, pair: AuditedPair, trials: int) -> float:
    from shuffledp_adversary.evidence import epsilon_bound

    students, products = 0.0, 0.0
    for _ in range(STRONG_RUNS):
        first, second = sampler.trials(pair, trials)
        students += _call_audit(attempt, first.tolist(), second.tolist(), float(pair.delta))
        products += epsilon_bound(first, second, float(pair.delta), CONFIDENCE).lower
    return students / products


def check_sound(attempt: CheckAttempt) -> str:
    """C: on randomised response, bounds above the true ε stay rare."""
    for confidence in (CONFIDENCE, 1 - 1e-9):
        _check_extreme_samples(attempt, confidence)
    odds = attempt.draws.fraction(_hundredths(200), _hundredths(500), 4)
    return _count_excesses(
        attempt, response(odds), RUNS, ALLOWED, f"randomised response with p/q = {odds}"
    )


def check_quiet(attempt: CheckAttempt) -> str:
    """C: on equal laws with many outcomes, whose samples differ, the bound stays near 0."""
    outcomes = attempt.draws.integer(450, 550)
    return _count_excesses(
        attempt,
        equal(outcomes, _hundredths(0)),
        RUNS,
        ALLOWED,
        f"two equal laws over {outcomes} outcomes",
    )


def check_delta(attempt: CheckAttempt) -> str:
    """C-delta: `audit` uses δ: an event of probability δ is no evidence of a larger ε."""
    delta = attempt.draws.fraction(_hundredths(5), _hundredths(10), 100)
    pair = rare(delta, attempt.draws.integer(10, 20))
    return _count_excesses(
        attempt,
        pair,
        FEW_RUNS,
        FEW_ALLOWED,
        f"laws that differ by one outcome of probability {delta}",
    )


def _count_excesses(
    attempt: CheckAttempt, pair: AuditedPair, runs: int, allowed: int, name: str
) -> str:
    sampler, true, excesses = Sampler(attempt.draws.child("samples")), pair.epsilon, 0
    for run in range(runs):
        if run % 20 == 0:
            attempt.progress(f"audit {run} of {runs}")
        first, second = sampler.trials(pair, OUTCOMES)
        excesses += _call_audit(attempt, first.tolist(), second.tolist(), float(pair.delta)) > true
    if excesses > allowed:
        raise CheckFailure(
            f"on {name} at delta = {float(pair.delta):g} your bound was above the true epsilon in "
            f"{excesses} of {runs} audits; at confidence {CONFIDENCE} that may happen in a tenth "
            f"of them (more than {allowed} has a chance below 1e-9): see step C"
        )
    return (
        f"{name}: above the true epsilon in {excesses} of {runs} audits, {CONFIDENCE:g} confident"
    )


def _check_extreme_samples(attempt: CheckAttempt, confidence: float) -> None:
    """Check samples without a common outcome, which bound ε only as far as their size allows.

    Under randomised response with the largest odds for which they have a probability above
    1 - confidence, a sound audit must not exceed the true ε.
    """
    likeliest, other = attempt.draws.sample(range(100), 2)
    bound = _call_audit(attempt, [likeliest] * OUTCOMES, [other] * OUTCOMES, 0.0, confidence)
    chance = -math.expm1(math.log1p(-confidence) / (2 * OUTCOMES))
    if bound > math.log((1 - chance) / chance):
        raise CheckFailure(
            f"{OUTCOMES} times one outcome on the first dataset and {OUTCOMES} times another on "
            f"the second at confidence {confidence:.10g}: your bound is {bound:.2f}, but laws with "
            "a smaller epsilon show such samples more often than the confidence allows; see step C"
        )


def _call_audit(
    attempt: CheckAttempt,
    first: list[int],
    second: list[int],
    delta: float,
    confidence: float = CONFIDENCE,
) -> float:
    answer = attempt.program.call("audit", first, second, delta, confidence, seconds=30.0)
    if type(answer) not in {int, float} or not 0 <= answer <= MOST:
        raise CheckFailure(
            f"audit must return a number from 0 to {MOST}, not {short(answer)}; see step C"
        )
    return float(answer)


def check_liars(attempt: CheckAttempt) -> str:
    """D: `liars` finds the two or three faulty clients among six, with every kind of fault."""
    draws = attempt.draws
    krr = sealed.draw_krr(draws)
    geo = sealed.draw_geo(draws)
    group = [
        sealed.coin_not_flipped(sealed.draw_response(draws)),
        draws.choice((sealed.blanket_halved(krr), sealed.noise_halved(geo))),
        draws.choice((sealed.honest, sealed.blanket_halved))(sealed.draw_krr(draws)),
        sealed.honest(sealed.draw_krr(draws)),
        sealed.honest(sealed.draw_geo(draws)),
        sealed.honest(sealed.draw_response(draws)),
    ]
    return _accuse(attempt, group)


def check_crowd(attempt: CheckAttempt) -> str:
    """D: `liars` finds one faulty client among many honest ones whose claims are tight."""
    draws = attempt.draws
    group = [
        sealed.honest(draws.choice((sealed.draw_krr, sealed.draw_response))(draws))
        for _ in range(HONEST - 1)
    ]
    group.append(sealed.improbable(2 * TRIALS, IMPROBABLE))
    return _accuse(attempt, [*group, sealed.blanket_halved(sealed.draw_krr(draws))])


def _accuse(attempt: CheckAttempt, group: list[sealed.Client]) -> str:
    named = {
        f"client-{number}": client for number, client in enumerate(attempt.draws.permute(group), 1)
    }
    here = sealed.SealedClients(named, attempt.draws.child("answers"), 2 * TRIALS)
    answer = attempt.program.call(
        "liars", here.ask, here.claims, TRIALS, SEALED_CONFIDENCE, seconds=60.0
    )
    if not isinstance(answer, tuple) or not all(
        type(name) is str and name in named for name in answer
    ):
        raise CheckFailure(f"liars must return names of clients, not {short(answer)}; see step D")
    false = [name for name in answer if not named[name].fault]
    missed = [name for name, client in named.items() if client.fault and name not in answer]
    if false:
        raise CheckFailure(
            f"{len(false)} of {len(named)} clients accused although their answers do not refute "
            "their claims; an estimate above a claim proves nothing, a lower bound at the "
            "confidence given does: see step D"
        )
    if missed:
        raise CheckFailure(
            f"{len(missed)} of {len(named)} clients lie and were not named; both directions "
            "count, see step D"
        )
    return f"{len(named)} clients: {len(answer)} named, nobody falsely"


def _hundredths(number: int) -> Fraction:
    return Fraction(number, 100)


CHECKS = (
    Check("B-interval", 10, "interval is exact on both sides", check_interval, seconds=120.0),
    Check(
        "C-strong",
        12,
        "audit is nearly as strong as shuffledp's",
        check_strong,
        chance=1e-9,
        seconds=300.0,
    ),
    Check(
        "C-sound",
        10,
        "audit stays below the true epsilon",
        check_sound,
        ("C-strong",),
        chance=1e-9,
        seconds=300.0,
    ),
    Check(
        "C-quiet",
        10,
        "audit reports nothing on equal distributions",
        check_quiet,
        ("C-strong",),
        chance=1e-9,
        seconds=300.0,
    ),
    Check(
        "C-delta",
        8,
        "audit takes delta into account",
        check_delta,
        ("C-strong",),
        chance=1e-9,
        seconds=300.0,
    ),
    Check(
        "D-liars", 15, "liars names the clients that lie", check_liars, chance=1e-9, seconds=120.0
    ),
    Check(
        "D-crowd",
        10,
        "liars finds the one that lies among many",
        check_crowd,
        chance=1e-9,
        seconds=120.0,
    ),
)
