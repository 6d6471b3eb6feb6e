"""The law of SGDL noise, and the ratios in the paper's proofs: figures 2 and 7 to 14."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from shuffledp_experiments import drawing
from shuffledp_experiments.entry import (
    Experiment,
    Kind,
    PaperClaim,
    Results,
    Row,
    RunInputs,
    Verdict,
)
from shuffledp_privacy.sums.errors import sgdl_log_mass

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def log_g(points: Integers, distance: int, shape: float, ratio: float) -> Floats:
    """ln g(r, d) of Theorem 4.1: |ln P(⌊r - d/2⌋)/P(⌊r + d/2⌋)|, centred on the change."""
    left = np.floor(points - distance / 2)
    right = np.floor(points + distance / 2)
    both = sgdl_log_mass(shape, -math.log(ratio), np.concatenate([left, right]).astype(np.int64))
    return np.abs(both[: points.size] - both[points.size :])


def per_unit(points: Integers, distances: Integers, shape: float, ratio: float) -> Floats:
    """K(r, d) = ln g(r, d)/d, shape (points, distances)."""
    return np.stack([log_g(points, int(d), shape, ratio) / d for d in distances], axis=1)


def outward(points: Integers, distances: Integers, shape: float, ratio: float) -> Floats:
    """ln(P(a)/P(a + d))/d: cost per unit of a change by d, with the output at a from one end."""
    points_seen = (np.abs(points)[:, None] + np.append(0, distances)[None, :]).astype(np.int64)
    masses = sgdl_log_mass(shape, -math.log(ratio), points_seen.ravel()).reshape(points_seen.shape)
    return np.asarray((masses[:, :1] - masses[:, 1:]) / distances, dtype=np.float64)


def run_pmf(work: RunInputs) -> Results:
    """Figures 2, 7 and 8: the law of the noise, and its ratios."""
    rows = []
    reach = np.arange(-work["reach"], work["reach"] + 1)
    for shape, ratio in work["laws"]:
        masses = np.exp(sgdl_log_mass(shape, -math.log(ratio), reach))
        settings = {"beta": shape, "p": ratio}
        rows += [
            Row(
                f"SGDL({shape}, {ratio:g})",
                Kind.EXACT,
                "r",
                int(r),
                "P(Y = r)",
                float(y),
                settings=settings,
            )
            for r, y in zip(reach, masses, strict=True)
        ]
    shape, ratio = work["ratio_of"]
    for d in work["distances"]:
        rows += [
            Row(
                f"g(r, {d})",
                Kind.EXACT,
                "r",
                int(r),
                "g(r, d)",
                float(y),
                settings={"beta": shape, "p": ratio},
            )
            for r, y in zip(reach, np.exp(log_g(reach, d, shape, ratio)), strict=True)
        ]
    return Results(tuple(rows), (*pmf_claims(), *symmetry_claims(shape, ratio, work["distances"])))


def pmf_claims() -> list[PaperClaim]:
    """Judge the values that appendix B reads off figure 2."""
    claims = []
    for shape, ratio, point, stated in (
        (10, 0.5, 0, 0.065),
        (10, 0.5, 10, 0.01),
        (50, 0.8, 0, 0.009),
        (50, 0.8, 50, 0.005),
    ):
        value = math.exp(float(sgdl_log_mass(shape, -math.log(ratio), np.array([point]))[0]))
        # Read off a plot: a tenth is let pass.
        close = abs(value - stated) <= 0.1 * stated
        claims.append(
            PaperClaim(
                f"appendix B: P[SGDL({shape}, {ratio:g}) = {point}] is about {stated:g}",
                Verdict.SOUND if close else Verdict.FALSE,
                f"it is {value:.4f}",
                stated,
                value,
                value,
            )
        )
    return claims


def symmetry_claims(shape: float, ratio: float, distances: tuple[int, ...]) -> list[PaperClaim]:
    """Judge Theorem B.2: g(r, d) rises away from its middle, about which it is symmetric.

    The middle is 0 for an even d and 1/2 for an odd one.
    """
    points = np.arange(-30, 31)
    holds = True
    for d in distances:
        here = log_g(points, d, shape, ratio)
        mirrored = log_g(-points if d % 2 == 0 else 1 - points, d, shape, ratio)
        rising = np.diff(here[points >= d % 2])
        holds = (
            holds and bool(np.allclose(here, mirrored, rtol=1e-9)) and bool((rising >= -1e-9).all())
        )
    verdict = Verdict.SOUND if holds else Verdict.FALSE
    value = math.exp(float(log_g(np.array([0]), 2, shape, ratio)[0]))
    return [
        PaperClaim(
            "Theorem B.2 (1), (2): g rises outward, and its symmetry",
            verdict,
            "seen for |r| up to 30",
        ),
        PaperClaim(
            "Theorem B.2 (3): g(0, d) = 0 for even d",
            Verdict.FALSE,
            f"a misprint for {value:g}",
            0.0,
            value,
            value,
        ),
    ]


def draw_pmf(result: Results) -> Figure:
    """Plot the laws, and g both far out and near 0."""
    figure, axes = drawing.panels(1, 3, width=12.5, height=4.3)
    laws = list(dict.fromkeys(r.series for r in result.rows if r.series.startswith("SGDL")))
    ratios = list(dict.fromkeys(r.series for r in result.rows if r.series.startswith("g")))
    for index, name in enumerate(laws):
        drawing.line(axes[0, 0], result, name, color=drawing.CYCLE[index])
    axes[0, 0].set_title("Figure 2: SGDL(β, p) is log-concave for β ≥ 1", fontsize=10.5)
    axes[0, 0].set_ylabel("P(Y = r)")
    for index, name in enumerate(ratios):
        for panel in axes[0, 1:]:
            drawing.line(
                panel,
                result,
                name,
                color=drawing.CYCLE[4 + index],
                marker="." if panel is axes[0, 2] else "",
            )
    axes[0, 1].set_title("Figure 7: g(r, d) grows outward", fontsize=10.5)
    axes[0, 2].set_title("Figure 8: symmetric about 0 or 1/2", fontsize=10.5)
    near = [r.y for r in result.rows if r.series in ratios and abs(float(r.x)) <= 5]
    axes[0, 2].set_xlim(-5.2, 5.2)
    axes[0, 2].set_ylim(1 - 0.05 * (max(near) - 1), max(near) * 1.002)
    axes[0, 1].set_ylabel("g(r, d), β = 100, p = 0.81")
    for panel in axes[0]:
        panel.set_xlabel("r")
        panel.legend(frameon=False, fontsize=8.5)
    return figure


def run_per_unit(work: RunInputs) -> Results:
    """Figures 9 to 12: K(r, d) by d, centred on the change and from one end of it."""
    rows, claims = [], []
    points = np.array(work["r"])
    distances = np.array(work["d"])
    for users, rate in work["laws"]:
        ratio = math.exp(-rate)
        parts = {
            "K(r, d)": per_unit(points, distances, users, ratio),
            "from an end": outward(points, distances, users, ratio),
        }
        for name, values in parts.items():
            for r, line in zip(points, values, strict=True):
                settings = {"n": users, "epsilon_geo": rate, "r": int(r)}
                rows += [
                    Row(
                        f"{name}, r = {r}, n = {users}, ε_geo = {rate:g}", Kind.EXACT, "d",
                        int(d), "ε per unit (nats)",
                        float(y), settings=settings,
                    )
                    for d, y in zip(distances, line, strict=True)
                ]  # fmt: skip
        middle, end = parts.values()
        falling = bool((np.diff(middle[:, distances % 2 == 1]) <= 1e-12).all())
        setting = f"n = {users}, ε_geo = {rate:g}"
        claims.append(
            PaperClaim(
                f"appendix B: K(r, d) falls with d, {setting}",
                Verdict.SOUND if falling else Verdict.FALSE,
                "as a formula: r is the middle of the change, which hides its cost",
            )
        )
        at = int(np.argmax(end[0]))
        claims.append(
            PaperClaim(
                f"appendix B: so d = 1 is the worst, {setting}",
                Verdict.FALSE if at > 0 else Verdict.SOUND,
                f"with the output at {-points[0]} from one end d = {distances[at]} costs more for "
                "each unit",
                published=float(end[0, 0]),
                certified=float(end[0, at]),
                attained=float(end[0, at]),
            )
        )
    return Results(tuple(rows), tuple(claims))


def draw_per_unit(result: Results) -> Figure:
    """Plot the paper's K above and the cost from one end below, in one column for each law."""
    laws = list(
        dict.fromkeys((int(r.settings["n"]), float(r.settings["epsilon_geo"])) for r in result.rows)  # type: ignore[arg-type, call-overload]
    )
    points = list(dict.fromkeys(int(r.settings["r"]) for r in result.rows))  # type: ignore[call-overload]
    figure, axes = drawing.panels(
        2, len(laws), width=4.1 * len(laws), height=7.0, sharex=True, sharey="col"
    )
    for column, (users, rate) in zip(axes.T, laws, strict=True):
        for panel, name in zip(column, ("K(r, d)", "from an end"), strict=True):
            for index, r in enumerate(points):
                series = f"{name}, r = {r}, n = {users}, ε_geo = {rate:g}"
                odd = [row for row in result.rows if row.series == series and float(row.x) % 2 == 1]
                drawing.line(panel, odd, series, label=f"r = {r}", color=drawing.CYCLE[index])
        column[0].set_title(f"n = {users:,}, ε_geo = {rate:g}: the paper's K falls", fontsize=10)
        column[1].set_title("the output at an end: it rises", fontsize=10)
        column[1].set_xlabel("distance d (odd)")
    axes[0, 0].set_ylabel("K(r, d) = ln g(r, d)/d (nats per unit)")
    axes[1, 0].set_ylabel("ln(P(a)/P(a + d))/d, a = |r| (nats per unit)")
    drawing.legend_below(figure, columns=6)
    return figure


def run_small(work: RunInputs) -> Results:
    """Figures 13 and 14: g(r, 1) for β < 1, where it falls from the middle on."""
    rows, claims = [], []
    points = np.arange(-work["reach"], work["reach"] + 1)
    for shape in work["beta"]:
        values = np.exp(log_g(points, 1, shape, work["p"]))
        settings = {"beta": shape, "p": work["p"]}
        rows += [
            Row(f"β = {shape:g}", Kind.EXACT, "r", int(r), "g(r, 1)", float(y), settings=settings)
            for r, y in zip(points, values, strict=True)
        ]
        falling = bool((np.diff(values[points >= 1]) <= 0).all()) and float(values.max()) == float(
            values[points == 0][0]
        )
        claims.append(
            PaperClaim(
                f"Theorem 7.2's proof, β = {shape:g}: g(r, 1) is largest at r = 0 and falls "
                "outward",
                Verdict.SOUND if falling else Verdict.FALSE,
                f"g(0, 1) = {values[points == 0][0]:.4g}",
            )
        )
    return Results(tuple(rows), tuple(claims))


def draw_small(result: Results) -> Figure:
    """Plot one panel for each β."""
    names = list(dict.fromkeys(r.series for r in result.rows))
    figure, axes = drawing.panels(1, len(names), width=4.6 * len(names), height=4.0)
    for panel, name in zip(axes[0], names, strict=True):
        drawing.line(panel, result, name, marker=".", color=drawing.CYCLE[0])
        panel.set_yscale("log")
        panel.set_xlabel("r")
        panel.set_ylabel("g(r, 1)")
        panel.set_title(
            f"{name}, p = {result.rows[0].settings['p']:g}: one report's worst is at 0",
            fontsize=10.5,
        )
    return figure


ENTRIES: Final[tuple[Experiment, ...]] = (
    Experiment(
        id="002-f2",
        source="Athanasiou et al. 2025, figures 2, 7 and 8",
        question="What does the law of SGDL noise look like, and the ratio g(r, d) of two shifted "
        "ones?",
        parameters={
            "laws": ((10, 0.5), (10, 0.8), (50, 0.5), (50, 0.8)),
            "ratio_of": (100, 0.81),
            "distances": (10, 11),
            "reach": 100,
        },
        run=run_pmf,
        draw=draw_pmf,
        seconds=1.7,
        seconds_quick=0.8,
        verdicts=frozenset({Verdict.SOUND, Verdict.FALSE}),
        aliases=("002-f7", "002-f8"),
        inferred=("distances", "reach"),
    ),
    Experiment(
        id="002-f9",
        source="Athanasiou et al. 2025, figures 9 to 12",
        question="Which distance d is the worst for each unit of it?",
        parameters={
            "laws": ((100, 0.2), (100, 0.8), (10_000, 0.8)),
            "r": (-1, -15, -30, -45, -60, -75),
            "d": tuple(range(1, 501)),
        },
        quick={"d": (1, 2, 3, 11, 51, 101, 201, 301, 401, 499, 500)},
        run=run_per_unit,
        draw=draw_per_unit,
        seconds=2.7,
        seconds_quick=1.2,
        verdicts=frozenset({Verdict.SOUND, Verdict.FALSE}),
        aliases=("002-f10", "002-f11", "002-f12"),
    ),
    Experiment(
        id="002-f13",
        source="Athanasiou et al. 2025, figures 13 and 14",
        question="Where is one report of SGDL-Shuffle most telling?",
        parameters={"beta": (0.01, 0.001), "p": 0.9, "reach": 20},
        run=run_small,
        draw=draw_small,
        seconds=1.7,
        seconds_quick=0.8,
        verdicts=frozenset({Verdict.SOUND}),
        aliases=("002-f14",),
        inferred=("p", "reach"),
    ),
)
