"""The papers' tables of δ: Theorem 1 next to other bounds, and over ε0, n and k."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from shuffledp_experiments import drawing
from shuffledp_experiments.biswas import forms
from shuffledp_experiments.biswas.truth import Group, agrees, both_sides, printed_delta
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
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_THEOREM: Final = "Theorem 1"
_WHY: Final = {
    Verdict.FALSE: "Theorem 1: its loss carries the factor (s-r)/N once too often (K8)",
    Verdict.OPEN: "Theorem 1 (K8): both sides of the truth are farther apart than doubles resolve "
    "here",
}


@dataclass(frozen=True, slots=True)
class _Column:
    """The digits of one bound in a table, and the formula that may have produced them.

    Attributes:
        name: heading of the table's column, which says whose bound it is.
        digits: the numbers copied from the table, one for each ε.
        significant: how many digits of each are printed.
        formula: the formula that is evaluated for comparison.
        stated: description of the formula.
        epsilon0: ε0 of the formula, if it is not the table's.
    """

    name: str
    digits: tuple[float, ...]
    significant: tuple[int, ...]
    formula: forms.Formula
    stated: str
    epsilon0: float | None = None


@dataclass(frozen=True, slots=True)
class _Table:
    """A table of bounds for one group of users, with the digits as printed.

    `nearest` is the group whose values come nearest to `published`, if those of `group` do not
    match.
    """

    group: Group
    epsilons: tuple[float, ...]
    published: tuple[float, ...]
    others: tuple[_Column, ...]
    nearest: Group | None = None


_KOSKELA = (
    "Koskela et al. 2021: no stated parameters give it; evaluated: the weak adversary for k = 2"
)
_ERLINGSSON = "Erlingsson et al. 2019, Theorem 7, outside its range (n >= 1000, ε0 < 1/2, δ < .01)"
_BALLE = "Balle et al. 2019: ε0 e^ε0 √(ln(1/δ)/n), an order of growth with constant 1"
_BALLE_1 = (
    "Balle et al. 2019: e^ε0 √(ln(1/δ)/n), an order of growth with constant 1, without min(1, ε0)"
)
_FELDMAN_2 = (
    "Feldman et al. 2021: (1 - e^-ε0) √(e^ε0 log2(1/δ)/n), an order of growth with constant 1, "
    "log to base 2"
)
_FELDMAN_1 = (
    "Feldman et al. 2021: √((e^ε0 - 1) ln(1/δ)/n), an order of growth with constant 1, 1 - e^-ε0 "
    "unsquared"
)

# Every number in these three blocks is copied from the papers, not computed.
_000_T1: Final = _Table(
    Group(100, 10, 0.5),
    (0.1, 0.2, 0.3, 0.4),
    (2.38e-28, 1.61e-42, 5.22e-57, 5.14e-72),
    (
        _Column(
            "Erlingsson", (0.97, 0.89, 0.77, 0.64), (2, 2, 2, 2), forms.erlingsson_form, _ERLINGSSON
        ),
        _Column("Balle", (0.229, 0.002, 1.77e-6, 5.95e-11), (3, 1, 3, 3), forms.balle_form, _BALLE),
        _Column(
            "Feldman",
            (0.066, 1.91e-5, 2.43e-11, 1.35e-19),
            (2, 3, 3, 3),
            forms.feldman_form_base_2,
            _FELDMAN_2,
        ),
        _Column(
            "Koskela",
            (9.01e-4, 1.89e-6, 2.19e-10, 3.14e-16),
            (3, 3, 3, 3),
            forms.koskela_two_symbols,
            _KOSKELA,
        ),
    ),
)
_001_T2: Final = (
    _Table(
        Group(100, 10, 0.49),
        (0.01, 0.1, 0.2, 0.3, 0.4),
        (1.18e-14, 1.26e-28, 2.69e-43, 1.39e-57, 9.46e-73),
        (
            _Column(
                "Erlingsson",
                (0.999, 0.97, 0.89, 0.77, 0.62),
                (3, 2, 2, 2, 2),
                forms.erlingsson_form,
                _ERLINGSSON,
            ),
            _Column(
                "Balle",
                (0.996, 0.68, 0.22, 0.03, 2.2e-3),
                (3, 2, 2, 1, 2),
                forms.balle_form_above_1,
                _BALLE_1,
                0.48,
            ),
            _Column(
                "Feldman",
                (0.984, 0.2, 1.78e-3, 6.58e-7, 1.02e-11),
                (3, 1, 3, 3, 3),
                forms.feldman_form_unsquared,
                _FELDMAN_1,
            ),
        ),
    ),
    _Table(
        Group(1000, 10, 0.49),
        (0.01, 0.1, 0.2, 0.3, 0.4),
        (6.66e-58, 3.82e-93, 6.02e-143, 4.46e-207, 3.61e-292),
        (
            _Column(
                "Erlingsson",
                (0.997, 0.75, 0.32, 0.08, 0.01),
                (3, 2, 2, 1, 1),
                forms.erlingsson_form,
                _ERLINGSSON,
                0.5,
            ),
            _Column(
                "Balle",
                (0.963, 0.02, 4.06e-7, 4.17e-15, 2.73e-26),
                (3, 1, 3, 3, 3),
                forms.balle_form_above_1,
                _BALLE_1,
                0.5,
            ),
            _Column(
                "Feldman",
                (0.853, 2.02e-7, 1.66e-27, 5.60e-61, 7.69e-108),
                (3, 3, 3, 3, 3),
                forms.feldman_form_unsquared,
                _FELDMAN_1,
                0.5,
            ),
        ),
        Group(1000, 2, 0.5, 1),
    ),
)

_000_T3_EPSILONS: Final = (0.1, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
_000_T3: Final[Mapping[str, tuple[Group, tuple[float, ...]]]] = {
    "ε0 = 1": (Group(100, 10, 1.0), (2.08e-20, 3.42e-43)),
    "ε0 = 2": (Group(100, 10, 2.0), (2.49e-15, 3.25e-22, 2.20e-30, 1.57e-40)),
    "ε0 = 3": (Group(100, 10, 3.0), (8.79e-11, 5.73e-13, 3.52e-16, 4.49e-20, 1.09e-25, 4.52e-33)),
    "n = 50": (Group(50, 10, 2.0), (1.91e-8, 5.02e-12, 2.40e-15, 4.49e-21)),
    "n = 100": (Group(100, 10, 2.0), (2.49e-15, 3.25e-22, 2.20e-30, 1.57e-40)),
    "n = 150": (Group(150, 10, 2.0), (6.58e-22, 7.83e-32, 2.75e-44, 6.99e-59)),
    "k = 5": (Group(100, 5, 2.0), (1.96e-10, 2.51e-14, 1.08e-19, 2.02e-27)),
    "k = 10": (Group(100, 10, 2.0), (2.49e-15, 3.25e-22, 2.20e-30, 1.57e-40)),
    "k = 15": (Group(100, 15, 2.0), (1.66e-18, 7.13e-28, 1.49e-38, 7.35e-50)),
}
"""The rest of each row is printed as 0."""


def _row(
    series: str, kind: Kind, epsilon: float, delta: float, group: Group, **more: object
) -> Row:
    return Row(
        series,
        kind,
        "ε (nats)",
        epsilon,
        "δ",
        delta,
        settings={**group.settings(), "verdict": "", **more},
    )


def _truth_rows(name: str, group: Group, epsilons: Sequence[float]) -> list[Row]:
    """Rows of certified and attained δ at each ε, and of Theorem 1 as printed."""
    sides = {epsilon: both_sides(group, epsilon) for epsilon in epsilons}
    printed = [
        _row(
            f"{name}: Theorem 1 as printed",
            Kind.PRINTED,
            epsilon,
            printed_delta(group, epsilon),
            group,
        )
        for epsilon in epsilons
    ]
    certified = [
        _row(f"{name}: certified", Kind.CERTIFIED, epsilon, sides[epsilon][0], group)
        for epsilon in epsilons
    ]
    return (
        printed
        + certified
        + [
            _row(f"{name}: attained", Kind.ATTAINED, epsilon, sides[epsilon][1], group)
            for epsilon in epsilons
        ]
    )


def _judge_rows(
    name: str, group: Group, digits: Mapping[float, float], claims: list[PaperClaim]
) -> list[Row]:
    """Rows of the papers' own theorem; their verdicts are appended to `claims`."""
    rows = []
    for epsilon, published in digits.items():
        certified, attained = both_sides(group, epsilon)
        claim = judge(
            f"{name}, {_THEOREM} at ε = {epsilon:g}",
            published,
            certified=certified,
            attained=attained,
            why=_WHY,
        )
        claims.append(claim)
        rows.append(
            _row(
                f"{name}: published",
                Kind.PUBLISHED,
                epsilon,
                published,
                group,
                verdict=claim.verdict.value,
            )
        )
        printed = printed_delta(group, epsilon)
        if not agrees(printed, published, 3):
            claims.append(
                PaperClaim(
                    f"{name}, {_THEOREM} at ε = {epsilon:g}, the digits",
                    Verdict.NOT_REPRODUCED,
                    f"the printed formula gives {printed:.3g}",
                    published,
                )
            )
    return rows


def _other(name: str, table: _Table, column: _Column, claims: list[PaperClaim]) -> list[Row]:
    """Rows of another bound's printed values, with a verdict on the formula behind them."""
    group = (
        table.group if column.epsilon0 is None else replace(table.group, epsilon0=column.epsilon0)
    )
    values = {epsilon: column.formula(group, epsilon) for epsilon in table.epsilons}
    why = (
        column.stated
        if column.epsilon0 is None
        else f"{column.stated}; with ε0 = {column.epsilon0:g}, which fits better"
    )
    rows = []
    for epsilon, published, significant in zip(
        table.epsilons, column.digits, column.significant, strict=True
    ):
        fits = agrees(values[epsilon], published, significant)
        verdict = Verdict.NO_BOUND if fits else Verdict.NOT_REPRODUCED
        reason = why if fits else f"{why}, gives {values[epsilon]:.3g}"
        sides = both_sides(table.group, epsilon)
        claims.append(
            PaperClaim(
                f"{name}, {column.name} at ε = {epsilon:g}", verdict, reason, published, *sides
            )
        )
        series = f"{name}: {column.name}, published"
        rows.append(
            _row(series, Kind.PUBLISHED, epsilon, published, table.group, verdict=verdict.value)
        )
    series = f"{name}: {column.name}, evaluated"
    return rows + [
        _row(series, Kind.PRINTED, epsilon, value, group) for epsilon, value in values.items()
    ]


def _compare(work: RunInputs) -> Results:
    rows: list[Row] = []
    claims: list[PaperClaim] = []
    for table in _TABLES[work.id]:
        name = f"n = {table.group.users}"
        rows += _truth_rows(name, table.group, table.epsilons)
        rows += _judge_rows(
            name, table.group, dict(zip(table.epsilons, table.published, strict=True)), claims
        )
        if table.nearest is not None:
            nearest = f"{name} as for k = {table.nearest.symbols}, n_x0 = {table.nearest.at_x0}"
            rows += _truth_rows(nearest, table.nearest, table.epsilons)
            rows += _judge_rows(
                nearest,
                table.nearest,
                dict(zip(table.epsilons, table.published, strict=True)),
                claims,
            )
        for column in table.others:
            rows += _other(name, table, column, claims)
    return Results(tuple(rows), tuple(claims), _notes(claims))


def _notes(claims: Sequence[PaperClaim]) -> tuple[str, ...]:
    false = [claim for claim in claims if claim.verdict is Verdict.FALSE and claim.published]
    orders = [math.log10((claim.attained or 0) / (claim.published or 1)) for claim in false]
    least, most = (math.floor(end) for end in (min(orders), max(orders)))
    return (
        "k = 10 and n_x0 = 0.8 n are inferred: with them the printed Theorem 1 gives all digits "
        "that it gives at all",
        "n counts the changed user",
        "certified δ has a floor near 1e-28, the mass that is cut off the tails (K0)",
        f"{len(false)} cells of Theorem 1 are false, by {least} to {most} orders of magnitude",
    )


def _vary(work: RunInputs) -> Results:
    rows: list[Row] = []
    claims: list[PaperClaim] = []
    epsilons = work["epsilon"]
    for name, (group, digits) in _000_T3.items():
        rows += _truth_rows(name, group, epsilons)
        cells = dict(zip(epsilons, digits, strict=False))
        rows += _judge_rows(name, group, cells, claims)
        zeros = epsilons[len(digits) :]
        sides = [both_sides(group, epsilon) for epsilon in zeros]
        certified, attained = (max(ends) for ends in zip(*sides, strict=True))
        claim = judge(
            f"{name}, {_THEOREM} at ε = {zeros[0]:g} and above", 0.0, certified=certified,
            attained=attained,
            why="from ε0 on the local guarantee is enough (K1)",
        )  # fmt: skip
        claims.append(claim)
        series = f"{name}: published"
        rows += [
            _row(series, Kind.PUBLISHED, zero, 0.0, group, verdict=claim.verdict.value)
            for zero in zeros
        ]
    return Results(tuple(rows), tuple(claims), _notes(claims))


def _finish(axes: Axes, title: str, decades: int) -> None:
    axes.set_yscale("log")
    axes.set_ylim(10.0**-decades, 100)
    axes.set_yticks([10.0**-exponent for exponent in range(0, decades, 20)])
    axes.set_xlabel("ε (nats)")
    axes.set_title(title, fontsize=11)


def _draw_compare(result: Results) -> Figure:
    names = list(dict.fromkeys(row.series.partition(":")[0] for row in result.rows))
    figure, grid = drawing.panels(1, len(names), width=max(8.6, 4.3 * len(names)), sharey=True)
    for axes, name in zip(grid[0], names, strict=True):
        drawing.line(axes, result, f"{name}: certified", label="certified, every dataset", lw=2.4)
        drawing.line(axes, result, f"{name}: attained", label="attained by a dataset", ls="--")
        drawing.line(axes, result, f"{name}: published", label="published: Theorem 1", marker="o")
        others = (
            row.series
            for row in result.rows
            if row.series.startswith(f"{name}: ") and ", pub" in row.series
        )
        for index, series in enumerate(dict.fromkeys(others)):
            label = f"published: {series.partition(': ')[2].partition(',')[0]} column"
            style = {
                "color": drawing.QUIET,
                "marker": drawing.MARKERS[index + 1],
                "lw": 0.9,
                "ms": 5,
            }
            drawing.line(axes, result, series, label=label, **style)
        _finish(axes, name, 110)
    grid[0, 0].set_ylabel("δ")
    drawing.legend_below(figure, columns=3)
    return figure


def _draw_vary(result: Results) -> Figure:
    figure, grid = drawing.panels(1, 3, width=11, sharey=True)
    styles = ("-", "--", ":")
    for axes, what in zip(grid[0], ("ε0", "n", "k"), strict=True):
        names = [name for name in _000_T3 if name.startswith(what)]
        for name, style, marker in zip(names, styles, drawing.MARKERS, strict=False):
            rows = [row for row in result.rows if row.series.startswith(f"{name}:") and row.y > 0]
            drawing.line(axes, rows, f"{name}: certified", label="certified", ls=style)
            drawing.line(axes, rows, f"{name}: attained", label="attained", ls=style, lw=1.1)
            drawing.line(
                axes, rows, f"{name}: published", label="published", ls=style, marker=marker, ms=4.5
            )
            axes.plot([], [], color=drawing.QUIET, ls=style, marker=marker, label=f"_{name}")
        handles = [line for line in axes.lines if str(line.get_label()).startswith("_")]
        axes.legend(handles, names, fontsize=8.5, frameon=False, loc="lower left")
        _finish(axes, f"{what} varies", 70)
    grid[0, 0].set_ylabel("δ")
    drawing.legend_below(figure, columns=3)
    return figure


_TABLES: Final = {"000-t1": (_000_T1,), "001-t2": _001_T2}

ENTRIES: Final = (
    Experiment(
        id="000-t1", source="Biswas et al. 2023, table 1",
        question="Is δ of Theorem 1 below that of four other papers because it is tighter, or "
                 "because it is wrong?",
        parameters={"n": 100, "epsilon0": 0.5, "k": 10, "n_x0": 80, "epsilon": _000_T1.epsilons},
        inferred=("k", "n_x0"), run=_compare, draw=_draw_compare, seconds=1, seconds_quick=0.6,
        verdicts=frozenset({Verdict.FALSE, Verdict.NO_BOUND, Verdict.NOT_REPRODUCED}),
    ),
    Experiment(
        id="001-t2", source="Biswas et al. 2022, table II",
        question="The same for 100 and 1,000 users: which digits follow from a formula, and is "
                 "any of them a bound?",
        parameters={"n": (100, 1000), "epsilon0": 0.49, "k": 10, "n_x0": (80, 800),
        "epsilon": _001_T2[0].epsilons},
        inferred=("k", "n_x0"), run=_compare, draw=_draw_compare, seconds=1, seconds_quick=1.1,
        verdicts=frozenset({Verdict.FALSE, Verdict.OPEN, Verdict.NO_BOUND, Verdict.NOT_REPRODUCED}),
    ),
    Experiment(
        id="000-t3", aliases=("001-t4",), source="Biswas et al. 2023, table 3; 2022, table IV",
        question="How far below the truth is the printed δ, as ε0, n and k vary?",
        parameters={"n": 100, "k": 10, "epsilon0": 2, "n_x0": "0.8 n", "epsilon": _000_T3_EPSILONS},
        inferred=("n_x0",), run=_vary, draw=_draw_vary, seconds=1, seconds_quick=0.9,
        verdicts=frozenset({Verdict.FALSE, Verdict.SOUND, Verdict.NOT_REPRODUCED}),
    ),
)  # fmt: skip
