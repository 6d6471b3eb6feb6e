"""The paper's second experiment: the centroid of addresses in a plane.

Table 3, figures 5 and 23 to 29, and the map 22.

Each axis is summed by itself, with ε/(r in squares · √2) and δ/2 (its Appendix D). Additive noise
does not depend on the addresses, and that of bits hardly: the addresses only say how many bits are
ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from shuffledp_experiments import drawing
from shuffledp_experiments.athanasiou import printed
from shuffledp_experiments.athanasiou.grid import SquareGrid, metres
from shuffledp_experiments.athanasiou.guarantees import NAMES, bounds, calibrated_spec, least_error
from shuffledp_experiments.athanasiou.laws import (
    CENTRAL,
    LOCAL,
    local_law,
    printed_spec,
    rounding,
    spec_law,
)
from shuffledp_experiments.athanasiou.losses import COLOUR, STANDARD_ERRORS, WHY
from shuffledp_experiments.athanasiou.places import addresses, share_of_ones
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
from shuffledp_privacy.sums.errors import ErrorLaw, bits_error, sgdl_error

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]


MARK: Final[dict[str, dict[str, Any]]] = {
    name: {"marker": marker, "ms": size, "mfc": "none"}
    for name, marker, size in zip(NAMES, ("s", "o", "^"), (8, 4, 5), strict=True)
}
"""Marks of the series, which tell equal values apart."""

TABLE_3: Final[Mapping[tuple[int, float], tuple[str, str, str, str]]] = {
    (1000, 0.15): ("300", "120", "40", "2"),
    (1000, 0.2): ("210", "80", "40", ".9"),
    (1000, 0.3): ("100", "40", "20", ".04"),
    (2000, 0.1): ("190", "50", "10", "1"),
    (3000, 0.2): ("130", "40", "20", ".001"),
    (4000, 0.3): ("50", "5", "1", "6E-5"),
}
"""Table 3 as printed: metres by (n, ε), of Geo-Local, RR-, Geo- and SGDL-Shuffle."""

RELEASED_LOOSENESS: Final = 9 / 7
"""The released script takes the first λ whose ε is within 2ε/7 of the target."""


@cache
def axis_law(
    name: str, grid: SquareGrid, epsilon: float, delta: float, users: int, share: float
) -> ErrorLaw | None:
    """Law of the error of one axis's sum with the paper's parameters for (ε, δ) of the plane.

    None if no parameters satisfy the paper's condition.
    """
    run = grid.axis(epsilon)
    if name == LOCAL:
        return local_law(run, users)
    if name == CENTRAL:
        return sgdl_error(1.0, run)
    if name == "SGDL-Shuffle":
        return sgdl_error(1.0, run)
    spec = printed_spec(name, run, delta / 2, users, grid.squares)
    return None if spec is None else spec_law(spec, users, grid.squares, share)


@cache
def released_axis_law(
    name: str, grid: SquareGrid, epsilon: float, users: int, share: float
) -> ErrorLaw | None:
    """Law of the error of one axis's sum as the released script runs the mechanism.

    δ = 1e-3, RR at 9/7 of ε, Geo at 11/10 and half of t, SGDL with n ε.
    """
    run = grid.axis(epsilon)
    delta = printed.RELEASED_DELTA / 2
    if name == "SGDL-Shuffle":
        return sgdl_error(1.0, min(run * users, 30.0))
    if name == "Geo-Shuffle":
        rate = printed.geo_parameter(1.1 * run, delta, users, printed.RELEASED_STEEPNESS)
        return None if rate is None else sgdl_error(float(users), rate)
    chance = printed.randomise(RELEASED_LOOSENESS * run, delta, users, grid.squares)
    bits = users * grid.squares
    return None if chance is None else bits_error(bits, round(bits * share), chance)


def point(
    series: str,
    kind: Kind,
    law: ErrorLaw | None,
    users: int,
    grid: SquareGrid,
    *,
    manhattan: bool,
    **settings: Any,
) -> Row:
    """One row from an axis's law: mean distance in metres, with quartiles."""
    name = "Manhattan distance (m)" if manhattan else "Euclidean distance (m)"
    settings |= {"squares": grid.squares, "radius": grid.radius}
    if law is None:
        return Row(series, kind, "n", users, name, math.nan, settings=settings)
    return Row(
        series,
        kind,
        "n",
        users,
        name,
        *metres(law, users, grid.side, manhattan=manhattan),
        settings=settings,
    )


def certified_law(
    name: str, grid: SquareGrid, epsilon: float, delta: float, users: int, d_max: int, share: float
) -> ErrorLaw | None:
    """Law of the error of the best plan whose axes are certified for (ε/√2, δ/2).

    Changes are up to d_max squares.
    """
    spec = calibrated_spec(name, grid.axis(epsilon), delta / 2, users, d_max, grid.squares)
    return None if spec is None else spec_law(spec, users, grid.squares, share)


def guarantee(
    name: str, grid: SquareGrid, epsilon: float, delta: float, users: int
) -> tuple[PaperClaim, list[Row]] | None:
    """Judge the paper's stated ε of one axis by the certified and the attained ε.

    None if no parameters satisfy the paper's condition.
    """
    run = grid.axis(epsilon)
    spec = printed_spec(name, run, delta / 2, users, grid.squares)
    if spec is None:
        return None
    sides = bounds(spec, users, delta / 2, grid.squares)
    claim = judge(
        f"ε of an axis, {name} as printed, n = {users}, ε = {epsilon:g}, d <= {grid.squares}",
        run,
        certified=sides.certified,
        attained=sides.attained,
        why={Verdict.FALSE: WHY[name], Verdict.OPEN: f"not proved: {WHY[name]}"},
    )
    settings = {"epsilon": epsilon, "delta": delta, "d_max": grid.squares}
    settings |= {"squares": grid.squares, "radius": grid.radius}
    rows = [
        Row(
            f"ε of {name} as printed",
            kind,
            "n",
            users,
            "ε per square of an axis (nats)",
            value,
            settings=settings,
        )
        for kind, value in (
            (Kind.PRINTED, run),
            (Kind.CERTIFIED, sides.certified),
            (Kind.ATTAINED, sides.attained),
        )
    ]
    return claim, rows


def guarantees(
    grid: SquareGrid, epsilon: float, delta: float, users: Iterable[int]
) -> tuple[list[PaperClaim], list[Row]]:
    """Judge the stated guarantees of all mechanisms at several numbers of users."""
    pairs = [guarantee(name, grid, epsilon, delta, n) for name in NAMES for n in users]
    stated = [pair for pair in pairs if pair is not None]
    return [claim for claim, _ in stated], [row for _, rows in stated for row in rows]


def run_figure(work: RunInputs) -> Results:
    """Reproduce one of the figures 5 and 23 to 29."""
    grid, epsilon, delta, manhattan = (
        SquareGrid(work["squares"], work["radius"]),
        work["epsilon"],
        work["delta"],
        work["manhattan"],
    )
    dispersed = work["dispersed"]
    share = share_of_ones(work.data, dispersed=dispersed)
    note = addresses(work.data, dispersed=dispersed)[1]
    rows: list[Row] = []
    base = {"epsilon": epsilon, "delta": delta}
    base["addresses"] = _address_words(dispersed=dispersed, given=work.data is not None)
    for name in (LOCAL, *NAMES):
        rows += [
            point(
                f"{name} as printed", Kind.PRINTED, axis_law(name, grid, epsilon, delta, n,
                share), n, grid,
                manhattan=manhattan, d_max=1, **base,
            )
            for n in work["users"]
        ]  # fmt: skip
    for name in NAMES:
        rows += [
            point(
                f"{name} as released", Kind.PRINTED, released_axis_law(name, grid, epsilon, n,
                share), n, grid,
                manhattan=manhattan, d_max=1, **base,
            )
            for n in work["users"]
        ]  # fmt: skip
    for name in NAMES:
        for d_max in work["d_max"]:
            reach = min(d_max, grid.squares)
            rows += [
                point(
                    f"{name}, certified to d = {reach}", Kind.CERTIFIED,
                    certified_law(name, grid, epsilon, delta, n, reach, share), n, grid,
                    manhattan=manhattan, d_max=reach, **base,
                )
                for n in work["calibrated"]
            ]  # fmt: skip
    claims, more = guarantees(grid, epsilon, delta, work["judged"])
    fewest = printed.fewest_users(grid.axis(epsilon), delta / 2, grid.squares)
    return Results(
        (*rows, *more),
        tuple(claims),
        (note, f"by Theorem 3.1 RR-Shuffle needs {fewest} users here"),
    )


def _address_words(*, dispersed: bool, given: bool) -> str:
    """Describe a figure's addresses; the data file has only those outside the centre."""
    if not given:
        return f"made-up addresses in place of {'the dispersed ones' if dispersed else 'all'}"
    return "the dispersed addresses" if dispersed else "the dispersed addresses in place of all"


def draw_figure(result: Results) -> Figure:
    """Plot the error as printed, as released, and certified for changes by the whole grid."""
    widest = sorted({int(r.settings["d_max"]) for r in result.rows if ", certified" in r.series})  # type: ignore[call-overload]
    chosen = sorted({widest[0], widest[-1]})
    figure, axes = drawing.panels(
        1, 1 + len(chosen), width=4.1 * (1 + len(chosen)), height=4.9, sharey=True, sharex=True
    )
    first = result.rows[0]
    for panel in axes[0]:
        panel.set_yscale("log")
        panel.set_xlabel("users n")
        drawing.line(panel, result, f"{LOCAL} as printed", label=LOCAL, color=COLOUR[LOCAL])
    radius, squares = first.settings["radius"], first.settings["squares"]
    axes[0, 0].set_ylabel(f"{first.y_name}, mean and quartiles")
    axes[0, 0].set_title(
        f"As printed, ε = {first.settings['epsilon']:g} within {radius:g} m", fontsize=10.5
    )
    figure.suptitle(
        f"Data: {first.settings['addresses']}; grid of {squares:,} x {squares:,} squares\n"
        "No mark: no plan for that many users, or none was computed",
        fontsize=11,
    )
    for name in NAMES:
        style = {"label": name, "color": COLOUR[name], **MARK[name]}
        drawing.line(axes[0, 0], result, f"{name} as printed", **style)
        for panel, d_max in zip(axes[0, 1:], chosen, strict=True):
            drawing.line(panel, result, f"{name}, certified to d = {d_max}", **style)
    for panel, d_max in zip(axes[0, 1:], chosen, strict=True):
        moves = {1: "moves of up to 1 square", squares: "moves across the whole grid"}
        panel.set_title(
            f"Certified for {moves.get(d_max, f'moves of up to {d_max:,} squares')}", fontsize=10.5
        )
    drawing.legend_below(figure, columns=5)
    return figure


def run_table(work: RunInputs) -> Results:
    """Table 3: distances by exact laws with printed and released parameters; certified plans."""
    grid, delta = SquareGrid(work["squares"], work["radius"]), work["delta"]
    share = share_of_ones(work.data)
    note = addresses(work.data)[1]
    rows: list[Row] = []
    digits: list[PaperClaim] = []
    truths: list[PaperClaim] = []
    times = 0.0
    for index, ((n, epsilon), cells) in enumerate(TABLE_3.items()):
        base = {"epsilon": epsilon, "delta": delta}
        least = least_distance(grid, epsilon, delta, n)
        for name, cell in zip((LOCAL, *NAMES), cells, strict=True):
            law = axis_law(name, grid, epsilon, delta, n, share)
            settings = {**base, "d_max": 1, "squares": grid.squares, "radius": grid.radius}
            rows.append(
                Row(
                    f"{name}, table 3",
                    Kind.PUBLISHED,
                    "n",
                    n,
                    "Euclidean distance (m)",
                    float(cell),
                    settings=settings,
                )
            )
            rows.append(
                point(
                    f"{name} as printed",
                    Kind.PRINTED,
                    law,
                    n,
                    grid,
                    manhattan=False,
                    d_max=1,
                    **base,
                )
            )
            digits.append(judge_distance(name, cell, law, n, epsilon, delta, grid, least))
        central = axis_law(CENTRAL, grid, epsilon, delta, n, share)
        rows.append(
            point(
                CENTRAL, Kind.EXACT, central, n, grid, manhattan=False, d_max=grid.squares, **base
            )
        )
        rows.append(
            Row(
                "least distance of any mechanism",
                Kind.EXACT,
                "n",
                n,
                "Euclidean distance (m)",
                least,
                settings=settings,
            )
        )
        times = max(times, rows[-2].y / float(cells[-1]))
        for name in NAMES:
            law = released_axis_law(name, grid, epsilon, n, share)
            rows.append(
                point(
                    f"{name} as released",
                    Kind.PRINTED,
                    law,
                    n,
                    grid,
                    manhattan=False,
                    d_max=1,
                    **base,
                )
            )
        if index < work["calibrated"]:
            for name in NAMES:
                for d_max in work["d_max"]:
                    law = certified_law(name, grid, epsilon, delta, n, d_max, share)
                    series = f"{name}, certified to d = {d_max}"
                    rows.append(
                        point(
                            series,
                            Kind.CERTIFIED,
                            law,
                            n,
                            grid,
                            manhattan=False,
                            d_max=d_max,
                            **base,
                        )
                    )
        if index < work["judged"]:
            claims, more = guarantees(grid, epsilon, delta, [n])
            truths += claims
            rows += more
    released = [r.y for r in rows if r.series == "RR-Shuffle as released"]
    notes = (
        note,
        f"table 3's SGDL-Shuffle is up to {times:,.0f} times below {CENTRAL} on each axis",
        "RR-Shuffle as released, at 9/7 of ε and δ = 1e-3: "
        + ", ".join(f"{y:.0f}" for y in released[:3])
        + " m in rows 1 to 3",
    )
    return Results(tuple(rows), (*digits, *truths), notes)


def least_distance(grid: SquareGrid, epsilon: float, delta: float, users: int) -> float:
    """Lower bound on the mean Euclidean error in metres of every (ε, δ) mechanism.

    The centroid is the worst one.

    One coordinate of its output is (ε, δ) for changes along that axis, so that its mean absolute
    error is bounded by `least_error`; and E‖(X, Y)‖ >= ‖(E|X|, E|Y|)‖ (Jensen).
    """
    axis = least_error(grid.per_square(epsilon), delta, users * grid.squares)
    return math.sqrt(2) * axis * grid.side / users


def judge_distance(
    name: str,
    cell: str,
    law: ErrorLaw | None,
    users: int,
    epsilon: float,
    delta: float,
    grid: SquareGrid,
    least: float,
) -> PaperClaim:
    """Judge a printed distance: compare it with the exact law's and with the least possible one."""
    statement = f"table 3, {name}, n = {users}, ε = {epsilon:g}: {cell} m"
    value = float(cell)
    if value + rounding(cell) < least:
        return PaperClaim(
            statement, Verdict.IMPOSSIBLE, f"no mechanism is below {least:.3g} m", value
        )
    if law is None:
        fewest = printed.fewest_users(grid.axis(epsilon), delta / 2, grid.squares)
        return PaperClaim(
            statement, Verdict.NOT_REPRODUCED, f"Theorem 3.1 needs {fewest} users", value
        )
    mean = metres(law, users, grid.side, manhattan=False)[0]
    square = 2 * (law.root_mean_square() * grid.side / users) ** 2
    spread = math.sqrt(max(0.0, square - mean**2) / 1000)
    # From 10 m on the table has whole tens only.
    slack = (rounding(cell) if value < 10 else 5.0) + STANDARD_ERRORS * spread
    verdict = Verdict.SOUND if abs(value - mean) <= slack else Verdict.NOT_REPRODUCED
    return PaperClaim(statement, verdict, f"the printed parameters give {mean:.3g} m", value)


def draw_table(result: Results) -> Figure:
    """Plot a group of marks for each row of the table."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    figure, axes = drawing.panels(width=10.5, height=5.4)
    panel, places = axes[0, 0], list(TABLE_3)
    far = max(int(r.settings["d_max"]) for r in result.rows if ", certified" in r.series)  # type: ignore[call-overload]
    marks: dict[str, dict[str, Any]] = {
        ", table 3": {"marker": "X", "ms": 8, "label": "table 3 as printed"},
        " as printed": {
            "marker": "o",
            "ms": 5,
            "mfc": "none",
            "label": "printed parameters, exact",
        },
        " as released": {
            "marker": "^",
            "ms": 5,
            "mfc": "none",
            "label": "released parameters, exact",
        },
        f", certified to d = {far}": {
            "marker": "_",
            "ms": 15,
            "mew": 3,
            "label": f"certified for moves up to {far}",
        },
    }
    for column, name in enumerate((LOCAL, *NAMES)):
        for ending, style in marks.items():
            marked = [r for r in result.rows if r.series == name + ending and r.y > 1e-6]
            x = [
                places.index((int(r.x), float(r.settings["epsilon"]))) + (column - 1.5) * 0.2  # type: ignore[arg-type]
                for r in marked
            ]
            panel.plot(
                x, [r.y for r in marked], ls="", color=COLOUR[name], **{**style, "label": "_"}
            )
    for index, r in enumerate(
        r for r in result.rows if r.series == "least distance of any mechanism"
    ):
        panel.hlines(r.y, index - 0.42, index + 0.42, color="#333333", lw=1.2, ls=":")
    panel.set_yscale("log")
    panel.set_xticks(range(len(places)), [f"n = {n}\nε = {e:g}" for n, e in places])
    panel.set_ylabel("mean Euclidean error of the centroid (m)")
    panel.set_title(
        "Table 3's SGDL-Shuffle is closer than any mechanism with its guarantee can be", fontsize=11
    )
    handles: list[Any] = [Patch(color=COLOUR[name], label=name) for name in (LOCAL, *NAMES)]
    handles += [Line2D([], [], ls="", color="#333333", **style) for style in marks.values()]
    handles.append(Line2D([], [], ls=":", color="#333333", label="least of any mechanism"))
    figure.legend(handles=handles, loc="outside lower center", ncols=5, frameon=False, fontsize=8.5)
    return figure


def figure(number: int, epsilon: float, **options: Any) -> Experiment:
    """The experiment for one of the figures."""
    changed: dict[str, Any] = {
        key: options.pop(key)
        for key in ("squares", "radius", "manhattan", "dispersed")
        if key in options
    }
    squares = changed.get("squares", 1000)
    return Experiment(
        id=f"002-f{number}",
        source=f"Athanasiou et al. 2025, figure {number}",
        question=f"How far is the reported centroid from the true one by n, at ε = {epsilon:g}?",
        parameters={
            "epsilon": epsilon,
            "delta": 1e-4,
            "squares": squares,
            "radius": 600.0,
            "manhattan": False,
            "dispersed": False,
            **changed,
            "users": tuple(range(500, 4001, 500)),
            "calibrated": (500, 1000, 2000, 4000),
            "judged": (1000,),
            "d_max": (1, 10, 100, squares),
        },
        quick={"users": (500, 2000, 4000), "calibrated": (1000,), "d_max": (1,)},
        run=run_figure,
        draw=draw_figure,
        inferred=("calibrated", "judged", "d_max"),
        data=("austin",),
        **options,
    )


_FALSE: Final = frozenset({Verdict.FALSE, Verdict.LOOSE})
_RIGHT: Final = frozenset({Verdict.FALSE, Verdict.SOUND})
_SOUND: Final = _FALSE | _RIGHT
"""With ε = .15 Theorem 4.1 is right for the whole grid; Theorem 3.1 has no plan there for 1,000
users.
"""

TABLE: Final = Experiment(
    id="002-t3",
    source="Athanasiou et al. 2025, table 3",
    question="How far is the reported centroid from the true one, at which guarantee?",
    parameters={
        "delta": 1e-4, "squares": 1000, "radius": 600.0, "calibrated": len(TABLE_3),
        "judged": len(TABLE_3),
        "d_max": (1, 10, 100, 1000),
    },
    quick={"calibrated": 1, "judged": 2, "d_max": (1,)},
    run=run_table,
    draw=draw_table,
    seconds=60,
    seconds_quick=5.5,
    verdicts=_SOUND | {Verdict.IMPOSSIBLE, Verdict.NOT_REPRODUCED},
    data=("austin",),
)  # fmt: skip

FIGURES: Final = (
    figure(5, 0.15, verdicts=_RIGHT, seconds=37, seconds_quick=2.1),
    figure(23, 0.1, verdicts=_FALSE, seconds=37, seconds_quick=2),
    figure(24, 0.2, squares=500, verdicts=_FALSE, seconds=37, seconds_quick=2),
    figure(25, 0.3, squares=1500, radius=500.0, verdicts=_FALSE, seconds=37, seconds_quick=2),
    figure(26, 0.2, radius=300.0, dispersed=True, verdicts=_FALSE, seconds=37, seconds_quick=2),
    figure(27, 0.1, manhattan=True, verdicts=_FALSE, seconds=37, seconds_quick=1.2),
    figure(28, 0.2, manhattan=True, dispersed=True, verdicts=_FALSE, seconds=37, seconds_quick=2.4),
    figure(29, 0.15, dispersed=True, verdicts=_RIGHT, seconds=37, seconds_quick=1),
)

ENTRIES: Final[tuple[Experiment, ...]] = (TABLE, *FIGURES)
