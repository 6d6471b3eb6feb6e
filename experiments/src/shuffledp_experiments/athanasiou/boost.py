"""Figure 3: how much shuffling lowers ε of Geo-Shuffle, and for which changes."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from shuffledp_core.mechanisms import GeoShuffle
from shuffledp_experiments import drawing
from shuffledp_experiments.athanasiou import printed
from shuffledp_experiments.athanasiou.guarantees import bounds
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
from shuffledp_privacy.sums.geo import published_epsilon, published_padding

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROOM: Final = 2000
"""Bits of padding beyond the paper's, on each side: what is seen is then the distance alone, not
clamping.
"""

Y: Final = "ε per unit (nats)"


def spec(rate: float, users: int, delta: float) -> GeoShuffle:
    """Geo-Shuffle with padding so large that it almost never clamps."""
    exact = printed.rational(rate)
    return GeoShuffle(
        max_value=printed.LARGEST,
        epsilon_geo=exact,
        padding=published_padding(exact, users, delta) + ROOM,
    )


def run_boost(work: RunInputs) -> Results:
    """By n: ε of Theorem 4.1, as printed and as released, with certified and attained ε.

    Changes are up to d_max.
    """
    delta, rows, claims = work["delta"], [], []
    for rate in work["epsilon_geo"]:
        for name, steepness in (
            ("printed", printed.PRINTED_STEEPNESS),
            ("released", printed.RELEASED_STEEPNESS),
        ):
            for n in work["users"]:
                value = published_epsilon(Fraction(rate), n, delta, steepness)
                settings = {"epsilon_geo": rate, "delta": delta, "d_max": 1}
                y = math.nan if value is None else value
                rows.append(
                    Row(
                        f"ε_geo = {rate:g}, as {name}",
                        Kind.PRINTED,
                        "n",
                        n,
                        Y,
                        y,
                        settings=settings,
                    )
                )
        for d_max in work["d_max"]:
            settings = {"epsilon_geo": rate, "delta": delta, "d_max": d_max}
            both_sides = {
                n: bounds(spec(rate, n, delta), n, delta, d_max) for n in work["certified"]
            }
            for n, sides in both_sides.items():
                series = f"ε_geo = {rate:g}, d <= {d_max}"
                rows.append(
                    Row(
                        f"{series}, certified",
                        Kind.CERTIFIED,
                        "n",
                        n,
                        Y,
                        sides.certified,
                        settings=settings,
                    )
                )
                rows.append(
                    Row(
                        f"{series}, attained",
                        Kind.ATTAINED,
                        "n",
                        n,
                        Y,
                        sides.attained,
                        settings=settings,
                    )
                )
        n = work["judged"]
        published = printed.present(published_epsilon(Fraction(rate), n, delta))
        for d_max in (min(work["d_max"]), max(work["d_max"])):
            sides = bounds(spec(rate, n, delta), n, delta, d_max)
            claims.append(
                judge(
                    f"Theorem 4.1 at d = 1, n = {n}, ε_geo = {rate:g}, changes up to {d_max}",
                    published,
                    certified=sides.certified,
                    attained=sides.attained,
                    why={
                        Verdict.FALSE: "d = 1 is its best case (S12)",
                        Verdict.LOOSE: "at d = 1 it is far above",
                    },
                )
            )
    none = [n for n in range(1, 10) if published_epsilon(Fraction(1, 5), n, delta) is None]
    claims.append(
        PaperClaim(
            "figure 3 from n = 1 on",
            Verdict.NOT_REPRODUCED,
            f"Theorem 4.1 has no value for n <= {max(none)}: its t is not below ε_geo there",
        )
    )
    return Results(tuple(rows), tuple(claims))


def draw(result: Results) -> Figure:
    """One panel for each of three ε_geo: printed and true ε, for two largest changes."""
    rates = sorted({float(r.settings["epsilon_geo"]) for r in result.rows})  # type: ignore[arg-type]
    reach = sorted({int(r.settings["d_max"]) for r in result.rows if r.kind is Kind.CERTIFIED})  # type: ignore[call-overload]
    chosen = sorted({rates[0], rates[len(rates) // 2], rates[-1]})
    figure, axes = drawing.panels(1, len(chosen), width=3.9 * len(chosen), height=4.8)
    for panel, rate in zip(axes[0], chosen, strict=True):
        name = f"ε_geo = {rate:g}"
        panel.axhline(rate, color=drawing.QUIET, lw=1, ls=":", label="ε_geo: one report by itself")
        drawing.line(panel, result, f"{name}, as printed", label="Theorem 4.1 as printed (d = 1)")
        drawing.line(panel, result, f"{name}, as released", label="as released", ls="--", lw=1.1)
        ends = ((reach[0], "-.", ("s", "+")), (reach[-1], "-", ("o", "x")))
        for d_max, style, (certified, attained) in ends:
            drawing.line(
                panel,
                result,
                f"{name}, d <= {d_max}, certified",
                label=f"certified, d ≤ {d_max}",
                ls=style,
                marker=certified,
                ms=5,
            )
            drawing.line(
                panel,
                result,
                f"{name}, d <= {d_max}, attained",
                label=f"attained, d ≤ {d_max}",
                ls=style,
                lw=1.0,
                marker=attained,
                ms=5,
            )
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_xlabel("users n")
        panel.set_title(f"{name}: the boost is for small changes", fontsize=10)
    axes[0, 0].set_ylabel("ε per unit of distance (nats)")
    drawing.legend_below(figure, columns=4)
    return figure


ENTRIES: Final[tuple[Experiment, ...]] = (
    Experiment(
        id="002-f3",
        source="Athanasiou et al. 2025, figure 3",
        question="How much does shuffling lower ε of Geo-Shuffle, by n and by the largest change?",
        parameters={
            "epsilon_geo": (0.1, 0.2, 0.3, 0.4, 0.8),
            "delta": 1e-3,
            "users": (*range(1, 21), *range(25, 501, 25)),
            "certified": (2, 5, 10, 20, 50, 100, 200, 500),
            "d_max": (1, 10, 100, 1000),
            "judged": 100,
        },
        quick={"users": (5, 10, 20, 50, 100, 200, 500), "certified": (100,), "d_max": (1, 1000)},
        run=run_boost,
        draw=draw,
        seconds=20,
        seconds_quick=1.9,
        verdicts=frozenset({Verdict.FALSE, Verdict.LOOSE, Verdict.NOT_REPRODUCED}),
        inferred=("certified", "d_max", "judged"),
    ),
)
