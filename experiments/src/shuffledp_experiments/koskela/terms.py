"""Lemma 6: number of terms that a tight evaluation needs, and number of nodes that ours has."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy import stats

from shuffledp_experiments import drawing
from shuffledp_experiments.drawing import CYCLE, line
from shuffledp_experiments.entry import (
    Experiment,
    Kind,
    PaperClaim,
    Results,
    Row,
    RunInputs,
    Verdict,
)
from shuffledp_privacy.local.clones import Clones

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def lemma_6(epsilon0: float, users: int, tolerance: float) -> tuple[int, float]:
    """Number of terms that Lemma 6 keeps of the clones' law, and the exact mass of the others.

    Kept are numbers C of clones within (n-1)(e^-ε0 ± √(ln(4/τ)/(2(n-1)))), and for each of them
    halves A within C (1/2 ± √(ln(4/τ)/(2C))): Hoeffding's inequality, τ/2 for each.

    Args:
        epsilon0: local parameter, nats.
        users: n >= 2.
        tolerance: τ, mass that may be left out.
    """
    trials = users - 1
    share = math.exp(-epsilon0)
    reach = math.sqrt(math.log(4 / tolerance) * trials / 2)
    low = max(0, math.ceil(trials * share - reach))
    high = min(trials, math.floor(trials * share + reach))
    count = np.arange(low, high + 1)
    half = np.sqrt(math.log(4 / tolerance) * count / 2)
    first = np.maximum(0, np.ceil(count / 2 - half)).astype(np.int64)
    last = np.minimum(count, np.floor(count / 2 + half)).astype(np.int64)
    # Both tails of A: the law is symmetric.
    missed = 2 * stats.binom.cdf(first - 1, count, 0.5)
    weights = stats.binom.pmf(count, trials, share)
    outside = float(stats.binom.cdf(low - 1, trials, share) + stats.binom.sf(high, trials, share))
    return int((last - first + 1).sum()), outside + float(weights @ missed)


def run_terms(work: RunInputs) -> Results:
    """By n: terms of Lemma 6, nodes of our evaluation, and the mass that is left out.

    The seconds stand in a note, for they differ from run to run.
    """
    epsilon0, tolerance = work["ε0"], work["τ"]
    rows: list[Row] = []
    left, shares, spent = [], [], {}
    for users in work["n"]:
        terms, outside = lemma_6(epsilon0, users, tolerance)
        began = time.perf_counter()
        table = Clones(epsilon0, users).table
        spent[users] = time.perf_counter() - began
        left.append(outside)
        shares.append(terms / users)
        rows += [
            Row("all terms of the law", Kind.EXACT, "n", users, "terms", users * (users + 1) / 2),
            Row("terms that Lemma 6 keeps", Kind.PRINTED, "n", users, "terms", terms),
            Row("our table's entries", Kind.EXACT, "n", users, "terms", table.mean.size),
            Row("our nodes for one ε", Kind.EXACT, "n", users, "terms", table.a.size),
            Row("mass that Lemma 6 leaves out", Kind.EXACT, "n", users, "mass", outside),
        ]
    sound = max(left) <= tolerance
    bounded = shares[-1] <= 2 * shares[len(shares) // 2]
    claims = (
        PaperClaim(f"Lemma 6 leaves out at most τ = {tolerance:g}",
        Verdict.SOUND if sound else Verdict.FALSE,
              f"exactly {max(left):.2g} at most"),
        PaperClaim("Lemma 6 keeps O(n) terms", Verdict.SOUND if bounded else Verdict.FALSE,
              f"{shares[-1]:.3g} n at the largest n; the table of K3 keeps {int(rows[-3].y):,} "
              "entries there"),
    )  # fmt: skip
    slowest = max(spent, key=lambda users: spent[users])
    notes = (
        f"our table for one round takes {spent[slowest]:.2g} s at most (n = {slowest:,}); the "
        "paper: a minute",
    )
    return Results(tuple(rows), claims, notes)


def draw_terms(result: Results) -> Figure:
    """Plot the terms by n, on logarithmic axes."""
    figure, axes = drawing.panels(width=7.4, height=5.0)
    panel = axes[0, 0]
    for name, style in {
        "all terms of the law": {"color": CYCLE[6], "ls": "--"},
        "terms that Lemma 6 keeps": {"marker": "s"},
        "our table's entries": {"color": CYCLE[0], "marker": "o"},
        "our nodes for one ε": {"color": CYCLE[2], "marker": "^"},
    }.items():
        line(panel, result, name, ms=4.5, **style)
    panel.set(xscale="log", yscale="log", xlabel="n, users", ylabel="terms")
    panel.set_title("One round of any 4-LDP randomiser: nodes take the place of terms")
    drawing.legend_below(figure, columns=2)
    return figure


ENTRIES: Final = (
    Experiment(
        id="004-c1", source="Koskela et al. 2021, Lemma 6",
        question="How much work is one tight evaluation?",
        parameters={"n": tuple(10**exponent for exponent in range(2, 9)), "ε0": 4.0, "τ": 1e-12},
        inferred=("n", "ε0", "τ"),
        run=run_terms, draw=draw_terms, seconds=1, seconds_quick=0.9,
        verdicts=frozenset({Verdict.SOUND}),
    ),
)  # fmt: skip
