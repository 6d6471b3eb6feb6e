"""Three statements in the text and appendices of paper 002 that exact counting refutes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from scipy.stats import binom

from shuffledp_experiments import drawing
from shuffledp_experiments.entry import (
    Experiment,
    Kind,
    PaperClaim,
    Results,
    Row,
    RunInputs,
    Verdict,
    judge,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TOGETHER: Final = "δ of n reports together"
VARIANCE: Final = "variance of one bit"
TAIL: Final = "chance of the upper tail"


def revealing_delta(delta: float, changed: int) -> float:
    """δ of (M(x_1), .., M(x_n)) if `changed` values change; exact, for every ε.

    M publishes its value with probability δ and nothing otherwise: it is (ε, δ)-private for every ε
    >= 0. Outputs that show a changed value are impossible from the other dataset; the others have
    the same probability.
    """
    return -math.expm1(changed * math.log1p(-delta))


def bit_variance(randomise: float, bit: int) -> float:
    """Variance of a bit that is replaced by a fair coin with probability `randomise`."""
    mean = randomise / 2 + (1 - randomise) * bit
    return mean - mean**2


def tails(users: int, mean: float, beta: float) -> tuple[float, float]:
    """Probabilities of the events that Theorem F.1 bounds by β, below and above the mean.

    Exact binomial sums.
    """
    expected = users * mean
    below = expected - math.sqrt(2 * expected * -math.log(beta))
    above = expected + math.sqrt(3 * expected * -math.log(beta))
    return float(binom.cdf(math.floor(below), users, mean)), float(
        binom.sf(math.ceil(above) - 1, users, mean)
    )


def run_sentences(work: RunInputs) -> Results:
    """Each of the three statements as printed, with the exact values."""
    parts = [_together(work), _variances(work), _upper_tail(work)]
    return Results(
        tuple(row for rows, _ in parts for row in rows),
        tuple(claim for _, claims in parts for claim in claims),
    )


def _together(work: RunInputs) -> tuple[list[Row], list[PaperClaim]]:
    delta, rows = work["delta"], list[Row]()
    for changed in work["changed"]:
        rows += [
            Row("as printed: δ", Kind.PRINTED, "changed values", changed, TOGETHER, delta),
            Row(
                "M that publishes with δ",
                Kind.ATTAINED,
                "changed values",
                changed,
                TOGETHER,
                revealing_delta(delta, changed),
            ),
        ]
    most = work["changed"][-1]
    truth = revealing_delta(delta, most)
    statement = (
        f"section 2: (M(x1), .., M(xn)) is (ε, δ)-d_X-private, δ = {delta:g}, {most} values changed"
    )
    why = (
        "for δ > 0 every change adds up to δ; the sentence holds for δ = 0, and for one changed "
        "value"
    )
    return rows, [judge(statement, delta, certified=truth, attained=truth, why=why)]


def _variances(work: RunInputs) -> tuple[list[Row], list[PaperClaim]]:
    rows = list[Row]()
    wrong = dict[str, float]()
    for p in work["p"]:
        exact = bit_variance(p, 0)
        laws = {"(19)": p / 2 * (1 - p), "(22), for one bit": p / 2 * (1 - p / 2)}
        rows.append(Row("from the law", Kind.EXACT, "p", p, VARIANCE, exact))
        for name, value in laws.items():
            rows.append(Row(name, Kind.PRINTED, "p", p, VARIANCE, value))
            gaps = [abs(value - bit_variance(p, bit)) for bit in (0, 1)]
            wrong[name] = max(wrong.get(name, 0.0), *gaps)
    last = work["p"][-1]
    first, second = (Verdict.FALSE if gap > 1e-12 else Verdict.SOUND for gap in wrong.values())
    return rows, [
        PaperClaim(
            f"(19): the variance of a randomised bit, p = {last:g}",
            first,
            "contradicts (22): the bit is one with probability p/2, so that the variance is p/2 "
            "(1 - p/2)",
            last / 2 * (1 - last),
            bit_variance(last, 0),
            bit_variance(last, 0),
        ),
        PaperClaim(
            "(22): the variance of the estimate",
            second,
            "n k variances p/2 (1 - p/2), divided by (1 - p)²",
        ),
    ]


def _upper_tail(work: RunInputs) -> tuple[list[Row], list[PaperClaim]]:
    users, mean, rows = work["users"], work["mean"], list[Row]()
    chances = {beta: tails(users, mean, beta) for beta in work["beta"]}
    for beta, (below, above) in chances.items():
        rows += [
            Row("as printed: β", Kind.PRINTED, "β", beta, TAIL, beta),
            Row("upper tail", Kind.EXACT, "β", beta, TAIL, above),
            Row("lower tail", Kind.EXACT, "β", beta, TAIL, below),
        ]
    smallest = min(chances)
    largest_wrong = max(
        (beta for beta, (_, above) in chances.items() if above > beta), default=math.nan
    )
    bound = math.exp(-users * mean / 3)
    where = f"n = {users}, mean {mean:g}, β = {smallest:g}"
    above = chances[smallest][1]
    why = (
        f"its proof needs β >= e^(-n μ/3) = {bound:.2g}; of the values here it fails "
        f"for β = {largest_wrong:g} and below"
    )
    lower = (
        Verdict.FALSE
        if any(below > beta for beta, (below, _) in chances.items())
        else Verdict.SOUND
    )
    return rows, [
        judge(
            f"Theorem F.1, upper tail, {where}", smallest, certified=above, attained=above, why=why
        ),
        PaperClaim(
            f"Theorem F.1, lower tail, n = {users}, mean {mean:g}",
            lower,
            "below β for every β here",
        ),
    ]


def draw_sentences(result: Results) -> Figure:
    """Plot one panel for each statement."""
    figure, axes = drawing.panels(1, 3, width=11.5, height=4.2)
    titles = ("section 2: n reports together", "appendix A: (19) and (22)", "Theorem F.1, n μ = 1")
    for panel, name, title in zip(axes[0], (TOGETHER, VARIANCE, TAIL), titles, strict=True):
        rows = [row for row in result.rows if row.y_name == name and row.y > 0]
        for index, series in enumerate(dict.fromkeys(row.series for row in rows)):
            drawing.line(panel, rows, series, **drawing.series_style(index))
        panel.set(xlabel=rows[0].x_name, ylabel=name)
        panel.set_title(title, fontsize=10)
        panel.legend(frameon=False, fontsize=8.5)
        if name != VARIANCE:
            panel.set(xscale="log", yscale="log")
    return figure


ENTRIES: Final = (
    Experiment(
        id="002-c8",
        source="Athanasiou et al. 2025, section 2, appendices A and F",
        question="Do three statements hold: private reports together, a bit's variance, a "
                 "Chernoff bound?",
        parameters={
            "delta": 1e-4, "changed": (1, 2, 5, 10, 20, 50, 100),
            "p": (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8),
            "users": 1000, "mean": 1e-3, "beta": (0.5, 0.2, 0.1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6),
        },
        run=run_sentences,
        draw=draw_sentences,
        seconds=0.7,
        seconds_quick=0.7,
        verdicts=frozenset({Verdict.FALSE, Verdict.SOUND}),
        inferred=("delta", "changed", "p", "users", "mean", "beta"),
    ),
)  # fmt: skip
