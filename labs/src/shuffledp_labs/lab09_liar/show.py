"""The picture of lab 9: the student's audit of the real sampler, as trials grow."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from shuffledp_labs.instance import Draws
from shuffledp_labs.lab import ShowRun
from shuffledp_labs.lab09_liar.laws import AuditedPair, Sampler, equal, shuffled_krr

if TYPE_CHECKING:
    from shuffledp_core.mechanisms import KRRHistogram

USERS, SYMBOLS, LOCAL, DELTA = 8, 3, 1.0, 0.01
"""The round of the picture: n, k, ε0 and δ."""

TRIALS = (1_000, 3_000, 10_000, 30_000, 100_000)
"""Rounds on each dataset at which the audit is asked; the largest are the same rounds and more."""

CONFIDENCE = 0.9

OUTCOMES, SAMPLES, REPETITIONS = 500, 2000, 100
"""Of the equal laws on which an audit that chooses and measures on the same samples is shown to cry
wolf.
"""


def pair() -> AuditedPair:
    """The exact laws of the histograms that are audited."""
    return shuffled_krr(USERS, SYMBOLS, Fraction(math.exp(LOCAL)), Fraction(DELTA))


def certified_epsilon() -> float:
    """The accountant's certified ε for the audited round."""
    from shuffledp_privacy.bounds import Setting, epsilon_bounds

    return epsilon_bounds(_spec(), Setting(USERS, USERS), DELTA).certified


def rounds(trials: int) -> tuple[Sequence[int], Sequence[int]]:
    """The published histograms of real samplers on both datasets, as whole numbers."""
    from shuffledp_adversary.audit.sampling import shuffled_counts
    from shuffledp_sim.users.sealing import sealing_pool

    others = (2,) * (USERS - 1)
    with sealing_pool() as pool:
        boards = shuffled_counts(_spec(), ((0, *others), (1, *others)), trials, pool)
    first, second = (board[:, 0] + (USERS + 1) * board[:, 1] for board in boards)
    return first.tolist(), second.tolist()


def audit_by_trials(audit: Callable[..., float], most: int = TRIALS[-1]) -> dict[int, float]:
    """The student's lower bound for each number of trials."""
    first, second = rounds(most)
    return {
        trials: audit(first[:trials], second[:trials], DELTA, CONFIDENCE)
        for trials in TRIALS
        if trials <= most
    }


def draw(bounds: dict[int, float], file: Path) -> None:
    """Draw the bounds over the number of trials, with the true and the certified ε."""
    from shuffledp_adversary.attacks.picture import Chart, CurveRole, PlottedCurve, draw_chart

    xs = list(bounds)
    ends, true = [xs[0], xs[-1]], pair().epsilon
    curves = (
        PlottedCurve(
            "certified for every dataset", CurveRole.CERTIFIED, ends, [certified_epsilon()] * 2
        ),
        PlottedCurve("true ε of these two datasets", CurveRole.LIMIT, ends, [true] * 2),
        PlottedCurve(
            "your lower bound", CurveRole.MEASURED, xs, list(bounds.values()), joined=False
        ),
    )
    title = (
        f"Audit of k-RR, n = {USERS}, k = {SYMBOLS}, ε0 = {LOCAL:g}, δ = {DELTA:g}, "
        f"{CONFIDENCE:.0%} confident"
    )
    draw_chart(Chart(title, "rounds on each dataset", "ε (nats)", curves), file)


def _spec() -> KRRHistogram:
    from shuffledp_core.mechanisms import KRRHistogram

    odds = Fraction(math.exp(LOCAL))
    return KRRHistogram(
        symbols=SYMBOLS, blanket=(SYMBOLS / (odds + SYMBOLS - 1)).limit_denominator(2**60)
    )


def show(showing: ShowRun) -> Path:
    """Audit the real client's sampler with the student's code, and draw the bounds."""
    picture = showing.out / "audit.png"
    showing.progress(f"{TRIALS[-1]:,} rounds of {USERS} real samplers on each of two datasets")
    bounds = audit_by_trials(
        lambda *sample: float(showing.program.call("audit", *sample, seconds=120.0))
    )
    for trials, bound in bounds.items():
        showing.progress(f"{trials:,} rounds: epsilon is at least {bound:.3f}")
    showing.progress(
        f"true epsilon of these datasets {pair().epsilon:.3f}, certified for all datasets "
        f"{certified_epsilon():.3f}"
    )
    wolves = count_false_alarms(
        lambda *counts: showing.program.call("interval", *counts, seconds=30.0), showing.draws
    )
    showing.progress(
        f"two equal laws over {OUTCOMES} outcomes, the event chosen on the {SAMPLES:,} samples "
        f"that measure it: your interval 'finds' epsilon > 0 in {wolves} of {REPETITIONS} "
        "repetitions"
    )
    draw(bounds, picture)
    return picture


def count_false_alarms(
    interval: Callable[[int, int, float], tuple[float, float]], draws: Draws
) -> int:
    """Count false alarms of an exact interval on equal laws, without sample splitting."""
    sampler = Sampler(draws.child("wolf"))
    law = equal(OUTCOMES, Fraction(0))
    false_alarms = 0
    for _ in range(REPETITIONS):
        first, second = (
            np.bincount(sample, minlength=OUTCOMES) for sample in sampler.trials(law, SAMPLES)
        )
        event = first > second
        low, _ = interval(int(first[event].sum()), SAMPLES, CONFIDENCE)
        _, high = interval(int(second[event].sum()), SAMPLES, CONFIDENCE)
        false_alarms += low > high
    return false_alarms
