"""Figure 6 and the numbers in its text: guarantees if the shuffler is corrupt."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Final

import numpy as np

from shuffledp_core.mechanisms import RRShuffle
from shuffledp_core.privacy import Adjacency
from shuffledp_experiments import drawing
from shuffledp_experiments.athanasiou import printed
from shuffledp_experiments.athanasiou.guarantees import NAMES, calibrated_spec
from shuffledp_experiments.athanasiou.laws import printed_spec
from shuffledp_experiments.athanasiou.losses import COLOUR
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
from shuffledp_privacy.bounds import Setting, corrupted_bounds, epsilon_bounds
from shuffledp_privacy.sums.errors import sgdl_log_mass

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Y: Final = "ε_L per unit (nats)"


def rr(epsilon: float, delta: float, users: int) -> float | None:
    """ε_L by Theorem 7.1 as printed, for the p that Theorem 3.1 gives for ε."""
    share = printed.randomise(epsilon, delta, users)
    return None if share is None else printed.theorem_7_1(share, delta)


def rr_released(epsilon: float, delta: float, users: int) -> float | None:
    """ε_L by Theorem 7.1 with the released script's decimal logarithms, in both theorems."""
    logarithms = math.log10(4 / delta), math.log10(2 / delta)
    root = math.sqrt(2 * logarithms[1])
    needed = 32 * logarithms[0] / epsilon**2
    local = ((root + math.sqrt(root**2 + 4 * needed)) / 2) ** 2 / users
    if not printed.LARGEST >= local >= 14 * logarithms[0]:
        return None
    return math.sqrt(32 * logarithms[0] / (local - math.sqrt(2 * local * logarithms[1])))


def sgdl(epsilon: float, delta: float, users: int) -> float | None:  # noqa: ARG001
    """ε_L by Theorem 7.2 at d = 1: ln P(0)/P(1) of one user's share of noise, 1/n."""
    at_zero, at_one = sgdl_log_mass(1 / users, epsilon, np.array([0, 1]))
    return float(at_zero - at_one)


PRINTED: Final[dict[str, Callable[[float, float, int], float | None]]] = {
    "RR-Shuffle": rr,
    "Geo-Shuffle": printed.geo_parameter,
    "SGDL-Shuffle": sgdl,
}
"""ε_L as printed, from (ε_S, δ, n): Theorem 7.1, Proposition 5, Theorem 7.2."""


def true_local(spec: object, delta: float) -> tuple[float, float]:
    """(certified, attained) ε_L per unit of one device's report, for all changes.

    Each is pure (δ = 0) where possible, and else holds at δ.
    """
    alone = Setting(1, 1, Adjacency.METRIC)
    certified = corrupted_bounds(spec, alone, delta)
    # A pure ε_L is exact: the law of one report has that ratio (S8).
    attained = (
        epsilon_bounds(spec, alone, delta).attained if certified.delta > 0 else certified.epsilon
    )
    return certified.epsilon, attained


def run_corrupted(work: RunInputs) -> Results:
    """ε_L by n: as printed for ε_S, and at an equal certified ε_S."""
    delta, rows, claims = work["delta"], [], []

    def add(
        series: str, kind: Kind, n: int, value: float | None, epsilon: float, d_max: int
    ) -> None:
        settings = {"epsilon_s": epsilon, "delta": delta, "d_max": d_max}
        rows.append(
            Row(series, kind, "n", n, Y, math.nan if value is None else value, settings=settings)
        )

    for epsilon in work["epsilon_s"]:
        title = f"ε_S = {epsilon:g}"
        for name, formula in PRINTED.items():
            for n in work["users"]:
                add(
                    f"{name}, {title}, as printed",
                    Kind.PRINTED,
                    n,
                    formula(epsilon, delta, n),
                    epsilon,
                    1,
                )
        for n in work["users"]:
            share = printed.randomise(epsilon, delta, n)
            truth: tuple[float | None, float | None] = (None, None)
            if share is not None:
                spec = RRShuffle(max_value=printed.LARGEST, randomise=printed.rational(share))
                truth = true_local(spec, delta)
            for kind, value in zip((Kind.CERTIFIED, Kind.ATTAINED), truth, strict=True):
                add(
                    f"RR-Shuffle, {title}, {kind.value} at the printed p",
                    kind,
                    n,
                    value,
                    epsilon,
                    printed.LARGEST,
                )
            add(
                f"RR-Shuffle, {title}, as released",
                Kind.PRINTED,
                n,
                rr_released(epsilon, delta, n),
                epsilon,
                1,
            )
        for name in NAMES:
            for n in work["calibrated"]:
                plan = calibrated_spec(name, epsilon, delta, n, work["d_max"])
                local = None if plan is None else true_local(plan, delta)[0]
                series = f"{name}, {title}, certified to d = {work['d_max']}"
                add(series, Kind.CERTIFIED, n, local, epsilon, work["d_max"])
        claims += judge_statements(epsilon, delta, work["users"])
    claims += text_claims(delta)
    return Results(tuple(rows), tuple(claims))


def judge_statements(epsilon: float, delta: float, users: tuple[int, ...]) -> list[PaperClaim]:
    """Judge the figure's three statements at the largest n where both values exist.

    Theorem 7.1 also of what devices send here.
    """
    claims = []
    for name, statement in (
        ("RR-Shuffle", "Theorem 7.1"),
        ("Geo-Shuffle", "Proposition 5"),
        ("SGDL-Shuffle", "Theorem 7.2"),
    ):
        values = [
            (n, published)
            for n in users
            if (published := PRINTED[name](epsilon, delta, n)) is not None
        ]
        n, published = values[-1]
        spec = printed.present(printed_spec(name, epsilon, delta, n, printed.LARGEST))
        where = f"{name}, ε_S = {epsilon:g}, n = {n}"
        randomise = getattr(spec, "randomise", None)
        if randomise is not None:
            certified, attained = ordered_bit(randomise, delta)
            why = "unary bits are ordered: a change by 1 shows one bit alone (S10 (g))"
            claims.append(
                judge(
                    f"{statement}, {where}",
                    published,
                    certified=certified,
                    attained=attained,
                    why=why,
                )
            )
            statement = "the same for the number of ones that devices send here"  # noqa: PLW2901
        certified, attained = true_local(spec, delta)
        reasons = {
            Verdict.FALSE: "a change by 1000 costs more (S10 (g))",
            Verdict.SOUND: "one report's exact loss (S8)",
        }
        claims.append(
            judge(
                f"{statement}, {where}",
                published,
                certified=certified,
                attained=attained,
                why=reasons,
            )
        )
    return claims


def ordered_bit(randomise: Fraction, delta: float) -> tuple[float, float]:
    """(certified, attained) ε_L per unit if the position of each bit is visible.

    At d = 1 only one bit differs.
    """
    bit = RRShuffle(max_value=1, randomise=randomise)
    return corrupted_bounds(bit, Setting(1, 1), 0.0).epsilon, epsilon_bounds(
        bit, Setting(1, 1), delta
    ).attained


def text_claims(delta: float) -> list[PaperClaim]:
    """Judge section 7's text at n = 150: ε_L "about 5" for SGDL, "about 1" for Geo; ε_S = .2."""
    claims = []
    for name, stated in (("SGDL-Shuffle", 5.0), ("Geo-Shuffle", 1.0)):
        value = printed.present(PRINTED[name](0.2, delta, 150))
        verdict = Verdict.SOUND if round(value) == stated else Verdict.NOT_REPRODUCED
        claims.append(
            PaperClaim(
                f"section 7: {name}, n = 150, ε_S = 0.2, about {stated:g}",
                verdict,
                f"it is {value:.3g}",
                stated,
            )
        )
    return claims


def draw(result: Results) -> Figure:
    """Plot printed values above and certified values below, in one column for each ε_S."""
    levels = sorted({float(r.settings["epsilon_s"]) for r in result.rows})  # type: ignore[arg-type]
    d_max = next(r.settings["d_max"] for r in result.rows if ", certified to d = " in r.series)
    figure, axes = drawing.panels(
        2, len(levels), width=4.6 * len(levels), height=7.4, sharex=True, sharey=True
    )
    for column, level in zip(axes.T, levels, strict=True):
        title = f"ε_S = {level:g}"
        for name in NAMES:
            drawing.line(
                column[0], result, f"{name}, {title}, as printed", label=name, color=COLOUR[name]
            )
            series = f"{name}, {title}, certified to d = {d_max}"
            drawing.line(
                column[1], result, series, label=name, color=COLOUR[name], marker="o", ms=3.5
            )
        drawing.line(
            column[0], result, f"RR-Shuffle, {title}, "
                              f"certified at the printed p", label="RR-Shuffle, true at that p",
            color=COLOUR["RR-Shuffle"], ls="--",
        )  # fmt: skip
        column[0].set_title(f"{title} as printed, δ = 0.01", fontsize=10.5)
        column[1].set_title(f"{title} certified, changes up to {d_max}", fontsize=10.5)
        column[1].set_xlabel("users n")
        column[0].set_xscale("log")
        column[0].set_yscale("log")
    for panel in axes[:, 0]:
        panel.set_ylabel("ε_L per unit, shuffler corrupt (nats)")
    drawing.legend_below(figure, columns=4)
    return figure


ENTRIES: Final[tuple[Experiment, ...]] = (
    Experiment(
        id="002-f6",
        source="Athanasiou et al. 2025, figure 6 and section 7",
        question="What is left of each mechanism when the shuffler is corrupt, at the same ε_S?",
        parameters={
            "epsilon_s": (0.05, 0.2),
            "delta": 0.01,
            "users": tuple(
                sorted({*range(5, 50, 3), *range(50, 200, 15), 150, *range(200, 1000, 47), 999})
            ),
            "calibrated": (20, 50, 150, 400, 999),
            "d_max": 1000,
        },
        quick={"users": (20, 50, 100, 150, 999), "calibrated": (150,), "d_max": 1},
        run=run_corrupted,
        draw=draw,
        seconds=30,
        seconds_quick=2.5,
        verdicts=frozenset({Verdict.FALSE, Verdict.LOOSE, Verdict.SOUND}),
        inferred=("calibrated", "d_max"),
        aliases=("002-c3",),
    ),
)
