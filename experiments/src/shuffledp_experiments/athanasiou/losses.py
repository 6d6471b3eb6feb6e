"""The paper's first experiment, the mean of numbers 0..1000: table 2, figures 4 and 15 to 21."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from shuffledp_experiments import drawing
from shuffledp_experiments.athanasiou import printed
from shuffledp_experiments.athanasiou.guarantees import NAMES, bounds, calibrated_spec, least_error
from shuffledp_experiments.athanasiou.laws import (
    CENTRAL,
    HALF,
    LOCAL,
    printed_law,
    printed_spec,
    rounding,
    spec_law,
)
from shuffledp_experiments.athanasiou.samplers import sampler_notes
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
from shuffledp_privacy.sums.errors import ErrorLaw

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

USERS: Final = (*range(2, 50), *range(50, 141, 15), *range(150, 301, 30))
"""n of figures 4 and 15 to 21."""

RUNS: Final = 1000
"""Runs of the paper for each point."""

STANDARD_ERRORS: Final = 4.0
"""A mean of 1,000 runs farther than this, and more than its last digit, from the exact law is not
reproduced.
"""

MECHANISMS: Final = (LOCAL, *NAMES, CENTRAL)
COLOUR: Final = {name: drawing.CYCLE[i] for i, name in enumerate((LOCAL, *NAMES))} | {
    CENTRAL: "#333333"
}

TABLE_2: Final[Mapping[tuple[int, float], tuple[str, str, str, str]]] = {
    (50, 0.2): ("1", "1.21", ".52", ".1"),
    (50, 0.5): (".42", ".43", ".05", ".0004"),
    (100, 0.1): ("1.2", "1.1", ".49", ".03"),
    (100, 0.2): (".66", ".67", ".18", ".01"),
    (100, 0.3): (".41", ".41", ".04", ".005"),
    (200, 0.1): (".92", ".43", ".11", ".007"),
}
"""Table 2 as printed: mean absolute error by (n, ε), of Geo-Local, RR-, Geo- and SGDL-Shuffle; δ =
1e-4.
"""


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure of the error of a mean, such as the mean absolute error.

    Attributes:
        name: with its unit.
        of: function from the law of the sum's error, the number of users and E[1/mean of the data]
            to the measure.
        spread: whether the quartiles of |error| are shown with it.
    """

    name: str
    of: Callable[[ErrorLaw, int, float], float]
    spread: bool = False


MEASURES: Final = {
    "mae": Measure("mean absolute error of the mean", lambda law, n, _: law.mean_absolute() / n),
    "rmse": Measure(
        "root mean square error of the mean", lambda law, n, _: law.root_mean_square() / n
    ),
    "relative": Measure(
        "mean absolute error, relative to the mean",
        lambda law, n, inverse: law.mean_absolute() / n * inverse,
    ),
    "box": Measure(
        "median absolute error of the mean", lambda law, n, _: law.quantile(0.5) / n, spread=True
    ),
}


def row(
    series: str,
    kind: Kind,
    law: ErrorLaw | None,
    users: int,
    measure: Measure,
    inverse: float,
    **settings: Any,
) -> Row:
    """One row from a law of the error; without a plan its y is empty."""
    if law is None:
        return Row(series, kind, "n", users, measure.name, math.nan, settings=settings)
    low, high = (law.quantile(level) / users if measure.spread else None for level in (0.25, 0.75))
    return Row(
        series,
        kind,
        "n",
        users,
        measure.name,
        measure.of(law, users, inverse),
        low,
        high,
        settings=settings,
    )


def inverse_mean(work: RunInputs, users: int) -> float:
    """E[1/mean] of the paper's data, uniform integers 0..1000, over the paper's number of runs."""
    data = work.generator("data", users).integers(
        0, printed.LARGEST + 1, size=(work.runs or RUNS, users)
    )
    return float((1 / np.maximum(data.mean(axis=1), 1 / users)).mean())


def curves(
    work: RunInputs, measure: Measure, users: Iterable[int], calibrated_users: Iterable[int]
) -> list[Row]:
    """The rows of one figure: as printed, as released, and at equal certified (ε, δ)."""
    epsilon, delta, rows = work["epsilon"], work["delta"], []
    inverse = {
        n: inverse_mean(work, n) if measure.name.endswith("to the mean") else 1.0
        for n in {*users, *calibrated_users}
    }
    base = {"epsilon": epsilon, "delta": delta}
    for name in (LOCAL, *NAMES):
        for n in users:
            law = printed_law(name, epsilon, delta, n)
            rows.append(
                row(
                    f"{name} as printed", Kind.PRINTED, law, n, measure, inverse[n], d_max=1, **base
                )
            )
    rows += [
        row(
            CENTRAL,
            Kind.EXACT,
            printed_law(CENTRAL, epsilon, delta, n),
            n,
            measure,
            inverse[n],
            d_max=1000,
            **base,
        )
        for n in users
    ]
    for name in NAMES:
        for n in users:
            released = printed.released_laws(epsilon, n, n * HALF)[name]
            rows.append(
                row(
                    f"{name} as released",
                    Kind.PRINTED,
                    released,
                    n,
                    measure,
                    inverse[n],
                    d_max=1,
                    **base,
                )
            )
    for name in NAMES:
        for d_max in work["d_max"]:
            for n in calibrated_users:
                spec = calibrated_spec(name, epsilon, delta, n, d_max)
                law = (
                    None
                    if spec is None
                    else spec_law(spec, n, printed.LARGEST, HALF / printed.LARGEST)
                )
                series = f"{name}, certified to d = {d_max}"
                rows.append(
                    row(series, Kind.CERTIFIED, law, n, measure, inverse[n], d_max=d_max, **base)
                )
    return rows


WHY: Final = {
    "RR-Shuffle": "Theorem 3.1 looks at d = 1 only (S11)",
    "Geo-Shuffle": "Theorem 4.1 looks at d = 1 only (S12)",
    "SGDL-Shuffle": "Lemma C.1's padding clamps somebody with far more than δ (S13)",
}


def guarantee(
    name: str, epsilon: float, delta: float, users: int
) -> tuple[PaperClaim, list[Row]] | None:
    """Judge the ε that the paper states for its parameters, by certified and attained ε.

    None if it has no plan.
    """
    spec = printed_spec(name, epsilon, delta, users, printed.LARGEST)
    if spec is None:
        return None
    d_max = printed.LARGEST
    sides = bounds(spec, users, delta, d_max)
    near = bounds(spec, users, delta, 1)
    why = f"{WHY[name]}; d = 1 alone attains {near.attained:.3g}"
    claim = judge(
        f"ε of {name} as printed, n = {users}, ε = {epsilon:g}, δ = {delta:g}, d <= {d_max}",
        epsilon,
        certified=sides.certified,
        attained=sides.attained,
        why={Verdict.FALSE: why, Verdict.OPEN: f"not proved: {why}"},
    )
    settings = {"epsilon": epsilon, "delta": delta, "d_max": d_max}
    rows = [
        Row(
            f"ε of {name} as printed",
            kind,
            "n",
            users,
            "ε per unit (nats)",
            value,
            settings=settings,
        )
        for kind, value in (
            (Kind.PRINTED, epsilon),
            (Kind.CERTIFIED, sides.certified),
            (Kind.ATTAINED, sides.attained),
        )
    ]
    return claim, rows


def guarantees(
    epsilon: float, delta: float, users: Iterable[int]
) -> tuple[list[PaperClaim], list[Row]]:
    """Judge the stated guarantees of all mechanisms at several numbers of users."""
    pairs = [guarantee(name, epsilon, delta, n) for name in NAMES for n in users]
    stated = [pair for pair in pairs if pair is not None]
    return [claim for claim, _ in stated], [row for _, rows in stated for row in rows]


def run_figure(work: RunInputs) -> Results:
    """Reproduce one of the figures 4 and 15 to 21."""
    measure, epsilon, delta = MEASURES[work["measure"]], work["epsilon"], work["delta"]
    claims, rows = guarantees(epsilon, delta, work["judged"])
    curve_rows = curves(work, measure, work["users"], work["calibrated"])
    return Results(
        (*curve_rows, *rows),
        tuple(claims),
        (*_crossing(curve_rows), *sampler_notes(work, epsilon, delta)),
    )


def _crossing(rows: Iterable[Row]) -> tuple[str, ...]:
    """Summarise the figure with numbers from its rows."""
    listed = list(rows)
    by_series: dict[str, dict[float, float]] = {}
    for row in listed:
        by_series.setdefault(row.series, {})[float(row.x)] = row.y
    far = max((int(r.settings["d_max"]) for r in listed if r.kind is Kind.CERTIFIED), default=0)  # type: ignore[call-overload]
    notes = []
    for name in ("RR-Shuffle", "Geo-Shuffle"):
        true, published = (
            by_series.get(f"{name}, certified to d = {far}", {}),
            by_series[f"{name} as printed"],
        )
        common = [
            n for n in true if math.isfinite(true[n]) and math.isfinite(published.get(n, math.nan))
        ]
        if common:
            n = max(common)
            notes.append(
                f"n = {n:g}: {name} certified for all changes up to {far} has "
                f"{true[n] / published[n]:.2g} times the error of its printed parameters"
            )
    return tuple(notes)


def draw_figure(result: Results) -> Figure:
    """Plot errors as printed, and certified for changes by 1 and by the whole domain."""
    widest = sorted(
        {
            int(r.settings["d_max"])  # type: ignore[call-overload]
            for r in result.rows
            if r.kind is Kind.CERTIFIED and "," in r.series
        }
    )
    chosen = sorted({widest[0], widest[-1]})
    figure, axes = drawing.panels(
        1, 1 + len(chosen), width=4.1 * (1 + len(chosen)), height=4.9, sharey=True, sharex=True
    )
    first = result.rows[0]
    epsilon, delta = first.settings["epsilon"], first.settings["delta"]
    for panel in axes[0]:
        panel.set_yscale("log")
        panel.set_xscale("log")
        panel.set_xlabel("users n")
        _line(panel, result, CENTRAL, CENTRAL, lw=1.4, ls=":")
        _line(panel, result, f"{LOCAL} as printed", LOCAL)
    axes[0, 0].set_ylabel(f"{first.y_name}\n(values 0..1000)")
    axes[0, 0].set_title(f"As printed for ε = {epsilon:g}, δ = {delta:g}", fontsize=10.5)
    for name in NAMES:
        _line(axes[0, 0], result, f"{name} as printed", name)
        if name != "SGDL-Shuffle":  # released, it has next to no noise
            drawing.line(
                axes[0, 0],
                result,
                f"{name} as released",
                label=f"{name}, released",
                color=COLOUR[name],
                ls="--",
                lw=1.0,
            )
        for panel, d_max in zip(axes[0, 1:], chosen, strict=True):
            _line(panel, result, f"{name}, certified to d = {d_max}", name, marker=".")
    for panel, d_max in zip(axes[0, 1:], chosen, strict=True):
        panel.set_title(f"Certified for that, changes up to {d_max}", fontsize=10.5)
    drawing.legend_below(figure, columns=5)
    return figure


def _line(axes: Axes, result: Results, series: str, name: str, **style: Any) -> None:
    drawing.line(axes, result, series, label=name, color=COLOUR[name], **style)


def run_table(work: RunInputs) -> Results:
    """Table 2: errors by exact laws with printed and released parameters, and calibrated plans."""
    delta, measure = work["delta"], MEASURES["mae"]
    rows: list[Row] = []
    digits: list[PaperClaim] = []
    truths: list[PaperClaim] = []
    for index, ((n, epsilon), cells) in enumerate(TABLE_2.items()):
        base = {"epsilon": epsilon, "delta": delta}
        for name, cell in zip((LOCAL, *NAMES), cells, strict=True):
            law = printed_law(name, epsilon, delta, n)
            rows.append(
                Row(
                    f"{name}, table 2",
                    Kind.PUBLISHED,
                    "n",
                    n,
                    measure.name,
                    float(cell),
                    settings={**base, "d_max": 1},
                )
            )
            rows.append(
                row(f"{name} as printed", Kind.PRINTED, law, n, measure, 1.0, d_max=1, **base)
            )
            digits.append(judge_error(name, cell, law, n, epsilon, delta))
        rows.append(
            row(
                CENTRAL,
                Kind.EXACT,
                printed_law(CENTRAL, epsilon, delta, n),
                n,
                measure,
                1.0,
                d_max=1000,
                **base,
            )
        )
        least = least_error(epsilon, delta, n * printed.LARGEST) / n
        rows.append(
            Row(
                "least error of any mechanism",
                Kind.EXACT,
                "n",
                n,
                measure.name,
                least,
                settings={**base, "d_max": 1},
            )
        )
        for name, released in printed.released_laws(epsilon, n, n * HALF).items():
            rows.append(
                row(f"{name} as released", Kind.PRINTED, released, n, measure, 1.0, d_max=1, **base)
            )
        if index < work["calibrated"]:
            for name in NAMES:
                for d_max in work["d_max"]:
                    spec = calibrated_spec(name, epsilon, delta, n, d_max)
                    law = (
                        None
                        if spec is None
                        else spec_law(spec, n, printed.LARGEST, HALF / printed.LARGEST)
                    )
                    series = f"{name}, certified to d = {d_max}"
                    rows.append(
                        row(series, Kind.CERTIFIED, law, n, measure, 1.0, d_max=d_max, **base)
                    )
        if index < work["judged"]:
            claims, more = guarantees(epsilon, delta, [n])
            truths += claims
            rows += more
    times = max(
        least_error(e, delta, n * printed.LARGEST) / n / float(cells[-1])
        for (n, e), cells in TABLE_2.items()
    )
    note = (
        f"table 2's SGDL-Shuffle is up to {times:.0f} times below what any mechanism with this "
        "guarantee can reach"
    )
    return Results(tuple(rows), (*digits, *truths), (note, *sampler_notes(work, 0.2, delta)))


def judge_error(
    name: str, cell: str, law: ErrorLaw | None, users: int, epsilon: float, delta: float
) -> PaperClaim:
    """Judge a printed error: compare it with the exact law's and with the least possible one."""
    statement = f"table 2, {name}, n = {users}, ε = {epsilon:g}: error {cell}"
    value = float(cell)
    least = least_error(epsilon, delta, users * printed.LARGEST) / users
    if value + rounding(cell) < least:
        return PaperClaim(
            statement, Verdict.IMPOSSIBLE, f"no mechanism is below {least:.3g}", value
        )
    if law is None:
        fewest = printed.fewest_users(epsilon, delta)
        return PaperClaim(
            statement, Verdict.NOT_REPRODUCED, f"Theorem 3.1 needs {fewest} users", value
        )
    exact = law.mean_absolute() / users
    # The standard error of a mean of |error| over the paper's runs.
    slack = rounding(cell) + STANDARD_ERRORS * math.sqrt(
        max(0.0, law.root_mean_square() ** 2 / users**2 - exact**2) / RUNS
    )
    if abs(value - exact) <= slack:
        return PaperClaim(
            statement, Verdict.SOUND, f"the printed parameters give {exact:.3g}", value
        )
    return PaperClaim(
        statement, Verdict.NOT_REPRODUCED, f"the printed parameters give {exact:.3g}", value
    )


def draw_table(result: Results) -> Figure:
    """Plot a group of bars for each row: printed digits, least error, and certified plans."""
    figure, axes = drawing.panels(width=10.5, height=5.2)
    panel, places = axes[0, 0], list(TABLE_2)
    offset = {name: (i - 1.5) * 0.2 for i, name in enumerate((LOCAL, *NAMES))}
    far = max(int(r.settings["d_max"]) for r in result.rows if ", certified" in r.series)  # type: ignore[call-overload]
    marks = {
        f", certified to d = {far}": {
            "marker": "_",
            "ms": 15,
            "mew": 3,
            "label": f"certified for changes up to {far}",
        },
        ", certified to d = 1": {
            "marker": "_",
            "ms": 15,
            "mew": 1.2,
            "label": "certified for changes by 1",
        },
        " as printed": {
            "marker": "o",
            "ms": 5,
            "mfc": "none",
            "label": "printed parameters, exact",
        },
        ", table 2": {"marker": "X", "ms": 8, "label": "table 2 as printed"},
    }
    for name in (LOCAL, *NAMES):
        for ending, style in marks.items():
            marked = [r for r in result.rows if r.series == name + ending and math.isfinite(r.y)]
            if marked:
                x = [
                    places.index((int(r.x), float(r.settings["epsilon"]))) + offset[name]  # type: ignore[arg-type]
                    for r in marked
                ]
                shown = {**style, "label": "_"}
                panel.plot(x, [r.y for r in marked], ls="", color=COLOUR[name], **shown)
    for index, r in enumerate(r for r in result.rows if r.series == "least error of any mechanism"):
        panel.hlines(r.y, index - 0.42, index + 0.42, color="#333333", lw=1.2, ls=":")
    panel.set_yscale("log")
    panel.set_xticks(range(len(places)), [f"n = {n}\nε = {e:g}" for n, e in places])
    panel.set_ylabel("mean absolute error of the mean (values 0..1000)")
    panel.set_title(
        "Table 2's SGDL-Shuffle is better than any mechanism with its guarantee can be", fontsize=11
    )
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [Patch(color=COLOUR[name], label=name) for name in (LOCAL, *NAMES)]
    handles += [Line2D([], [], ls="", color="#333333", **style) for style in marks.values()]  # type: ignore[arg-type]
    handles.append(Line2D([], [], ls=":", color="#333333", label="least error of any mechanism"))
    figure.legend(handles=handles, loc="outside lower center", ncols=5, frameon=False, fontsize=8.5)
    return figure


def figure(
    number: int,
    measure: str,
    epsilon: float,
    delta: float,
    *,
    reach: tuple[int, ...] = (1,),
    **options: Any,
) -> Experiment:
    """The experiment for one of the figures; `reach` are the d_max of its quick run."""
    return Experiment(
        id=f"002-f{number}",
        source=f"Athanasiou et al. 2025, figure {number}",
        question=f"How large is the {MEASURES[measure].name} by n, at ε = {epsilon:g}, δ = "
        f"{delta:g}?",
        parameters={
            "epsilon": epsilon,
            "delta": delta,
            "measure": measure,
            "users": USERS,
            "calibrated": (10, 20, 50, 100, 200, 300),
            "judged": (100,),
            "d_max": (1, 10, 100, 1000),
        },
        quick={"users": (5, 10, 20, 50, 100, 200, 300), "calibrated": (100,), "d_max": reach},
        run=run_figure,
        draw=draw_figure,
        inferred=("calibrated", "judged", "d_max"),
        **options,
    )


_FALSE: Final = frozenset({Verdict.FALSE})
_SOUND: Final = _FALSE | {Verdict.SOUND}
_LOOSE: Final = _FALSE | {Verdict.LOOSE}
"""For n = 100 and small ε Theorem 3.1 is right or loose."""

TABLE: Final = Experiment(
    id="002-t2",
    source="Athanasiou et al. 2025, table 2",
    question="Which mechanism sums numbers with the least error at which guarantee?",
    parameters={
        "delta": 1e-4,
        "calibrated": len(TABLE_2),
        "judged": len(TABLE_2),
        "d_max": (1, 10, 100, 1000),
    },
    quick={"calibrated": 1, "judged": 5, "d_max": (1,)},
    run=run_table,
    draw=draw_table,
    seconds=43,
    seconds_quick=4.4,
    verdicts=_LOOSE | _SOUND | {Verdict.IMPOSSIBLE, Verdict.NOT_REPRODUCED},
)

FIGURES: Final = (
    figure(
        4,
        "mae",
        0.1,
        1e-4,
        reach=(1, 1000),
        verdicts=_LOOSE,
        aliases=("002-f15",),
        seconds=40,
        seconds_quick=4.1,
    ),
    figure(16, "mae", 0.2, 1e-3, verdicts=_SOUND, seconds=36, seconds_quick=1.6),
    figure(17, "mae", 0.3, 1e-4, verdicts=_FALSE, seconds=34, seconds_quick=1.9),
    figure(18, "rmse", 0.2, 1e-4, verdicts=_LOOSE, seconds=36, seconds_quick=2),
    figure(
        19, "relative", 0.1, 1e-4, reach=(1, 1000), verdicts=_LOOSE, seconds=35, seconds_quick=3.5
    ),
    figure(20, "mae", 0.5, 1e-2, verdicts=_FALSE, seconds=40, seconds_quick=2),
    figure(21, "box", 0.2, 1e-4, verdicts=_LOOSE, seconds=17, seconds_quick=1.2),
)

ENTRIES: Final[tuple[Experiment, ...]] = (TABLE, *FIGURES)
