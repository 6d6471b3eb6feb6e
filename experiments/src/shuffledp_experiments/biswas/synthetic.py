"""The papers' synthetic data, N(0, 2) over fifteen symbols.

It plots the total variation by n, and the error of single bins.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from shuffledp_core.answering.postprocessing import iterative_bayesian_update
from shuffledp_experiments import drawing
from shuffledp_experiments.biswas import harness
from shuffledp_experiments.biswas.harness import Contest, Floats, Integers
from shuffledp_experiments.biswas.truth import Group
from shuffledp_experiments.entry import (
    Experiment,
    Kind,
    PaperClaim,
    Results,
    Row,
    RunInputs,
    Verdict,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SYMBOLS: Final = 15
_HALF: Final = SYMBOLS // 2

# Copied from the papers: Gaussian, shuffle + INV.
_C1: Final[Mapping[int, tuple[float, float]]] = {1000: (0.014, 0.026), 100_000: (0.0001, 0.0048)}
_T4: Final[Mapping[int, Mapping[int, tuple[float, float]]]] = {
    1000: {
        1: (3e-3, 1e-3), 3: (6e-4, 2e-4), 5: (12e-4, 11e-4), 7: (1e-4, 4e-3), 9: (9e-4, 3e-3),
        11: (6e-4, 1e-3),
        13: (15e-4, 15e-4),
    },
    100_000: {
        1: (6e-6, 3e-3), 3: (1e-5, 5e-4), 5: (1e-5, 5e-4), 7: (8e-6, 3e-5), 9: (7e-6, 8e-4),
        11: (6e-6, 7e-4),
        13: (2e-5, 4e-4),
    },
}  # fmt: skip


def datasets(users: int, runs: int, sd: float, generator: np.random.Generator) -> Integers:
    """Histograms of `runs` datasets of N(0, sd), rounded and cut to -7..7; shape (runs, 15)."""
    from scipy.special import ndtr

    edges = np.array([-np.inf, *(np.arange(-_HALF, _HALF) + 0.5), np.inf])
    return generator.multinomial(users, np.diff(ndtr(edges / sd)), size=runs)


def _contest(work: RunInputs, users: int) -> Contest:
    return Contest(Group(users, SYMBOLS, work["epsilon0"]))


def _by_users(work: RunInputs) -> tuple[list[Row], dict[int, Mapping[str, Floats]]]:
    """Rows of the total variation of every estimator at each n."""
    rows: list[Row] = []
    errors: dict[int, Mapping[str, Floats]] = {}
    for users in work["n"]:
        generator = work.generator(users)
        truth = datasets(users, work.runs or work["runs"], work["sd"], generator)
        more, errors[users] = harness.contest_rows("", _contest(work, users), truth, generator)
        rows += more
    if work.exact_sampler:
        users = min(work["n"])
        generator = work.generator("exact sampler")
        truth = datasets(users, 1, work["sd"], generator)[0]
        rows += harness.sampler_rows(_contest(work, users), truth, generator)
    return rows, errors


def ratio(errors: Mapping[str, Floats], above: str, below: str) -> float:
    """Ratio of the mean errors of two estimators."""
    return float(errors[above].mean() / errors[below].mean())


def _text(work: RunInputs) -> Results:
    rows, errors = _by_users(work)
    narrow = _narrower(work)
    claims: list[PaperClaim] = []
    for users, digits in _C1.items():
        contest, errors_of = _contest(work, users), errors[users]
        for name, published, same in zip(
            ("Gaussian", "shuffle + INV"),
            digits,
            (harness.GAUSSIAN_PAPER, harness.PROJECTED),
            strict=True,
        ):
            rows.append(
                Row(
                    f"published: {name}",
                    Kind.PUBLISHED,
                    "n",
                    float(users),
                    "total variation",
                    published,
                    settings=contest.group.settings(),
                )
            )
            if harness.within(published, errors_of[same]):
                remark = (
                    f"at equal guarantees the mean is {errors_of[harness.GAUSSIAN].mean():.2g} "
                    f"for the Gaussian and {errors_of[harness.PROJECTED].mean():.2g} for shuffle "
                    "+ INV"
                )
                claims.append(
                    contest.unequal(f"n = {users}: total variation of {name}", published, remark)
                )
            else:
                why = (
                    f"{len(errors_of[same])} runs give {errors_of[same].min():.2g} to "
                    f"{errors_of[same].max():.2g}"
                )
                claims.append(
                    PaperClaim(f"n = {users}: {name}", Verdict.NOT_REPRODUCED, why, published)
                )
    changed = max(abs(row.y / errors[int(row.x)][harness.PROJECTED].mean() - 1) for row in narrow)
    note = (
        "if N(0, 2) has variance 2, and not standard deviation 2, shuffle + INV changes by at "
        f"most {changed:.0%}"
    )
    return Results((*rows, *narrow), tuple(claims), (*_notes(errors), note))


def _narrower(work: RunInputs) -> list[Row]:
    """Rows of Shuffle + INV with a variance of 2, which the papers may have meant."""
    rows = []
    for users in work["n"]:
        generator = work.generator("variance 2", users)
        contest = _contest(work, users)
        truth = datasets(users, work.runs or work["runs"], math.sqrt(2), generator)
        errors = harness.total_variation(contest.play(truth, generator)[harness.PROJECTED], truth)
        name, settings = (
            f"variance 2: {harness.PROJECTED}",
            {**contest.group.settings(), "runs": len(truth)},
        )
        rows.append(
            harness.measured_row(name, ("n", float(users)), "total variation", errors, settings)
        )
    return rows


def _notes(errors: Mapping[int, Mapping[str, Floats]]) -> tuple[str, ...]:
    most = max(errors)
    unfair, fair = (
        ratio(errors[most], harness.PROJECTED, gaussian)
        for gaussian in (harness.GAUSSIAN_PAPER, harness.GAUSSIAN_PROJECTED)
    )
    return (
        f"at n = {most} shuffle + INV errs {unfair:.0f} times as much as the papers' Gaussian, "
        f"and {fair:.1f} times as much as the Gaussian with the same certified (ε, δ)",
        f"the papers' Gaussian is drawn with δ = {harness.DELTA:g}: their own, at ε = ε0, is 0",
    )


def _by_n(work: RunInputs) -> Results:
    rows, errors = _by_users(work)
    rows += [_iterate_update(work, users) for users in work["n"]]
    contest = _contest(work, max(work["n"]))
    claims = [
        contest.unequal(
            "figure 2: the Gaussian errs far less, and less and less as n grows",
            None,
            _notes(errors)[0],
        )
    ]
    apart = max(row.y for row in rows if row.series == _APART)
    note = (
        f"the iterative Bayesian update, iterated, ends within {apart:.1g} users of its closed "
        "form in every bin"
    )
    return Results(tuple(rows), tuple(claims), (*_notes(errors), note))


_APART: Final = "IBU, iterated against closed form"


def _iterate_update(work: RunInputs, users: int) -> Row:
    """Distance between the last step of the iterative update and its limit, on one dataset.

    In users of one bin.
    """
    contest = _contest(work, users)
    generator = work.generator("iterated", users)
    played = contest.play(datasets(users, 1, work["sd"], generator), generator)
    channel = np.full((SYMBOLS, SYMBOLS), contest.q) + contest.slope * np.eye(SYMBOLS)
    apart = np.abs(iterative_bayesian_update(played[harness.RAW], channel) - played[harness.IBU])
    settings = {**contest.group.settings(), "runs": 1}
    return Row(
        _APART,
        Kind.MEASURED,
        "n",
        float(users),
        "users of one bin",
        float(apart.max()),
        settings=settings,
    )


def _draw_by_n(result: Results) -> Figure:
    figure, grid = drawing.panels(1, 2, width=11, height=5.2)
    titles = ("as in the paper: unequal guarantees", "at equal certified (ε, δ)")
    for axes, title, names in zip(grid[0], titles, (_UNEQUAL, _EQUAL), strict=True):
        for name in names:
            drawing.line(axes, result, name, **drawing.series_style(harness.ESTIMATORS.index(name)))
        for row in (published for published in result.rows if published.kind is Kind.PUBLISHED):
            if axes is grid[0, 0]:
                hollow = row.series.endswith("INV")
                axes.plot(
                    row.x,
                    row.y,
                    "o" if hollow else "s",
                    ms=9,
                    mfc="none",
                    mew=1.6,
                    color=drawing.COLOURS[Kind.PUBLISHED],
                    label=row.series,
                )
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("users, n")
        axes.set_title(title, fontsize=11)
    grid[0, 0].set_ylabel("total variation, mean and 5-95%")
    grid[0, 1].sharey(grid[0, 0])
    drawing.legend_below(figure, columns=3)
    return figure


_UNEQUAL: Final = (harness.RAW, harness.INV, harness.PROJECTED, harness.GAUSSIAN_PAPER)
_EQUAL: Final = (
    harness.INV,
    harness.PROJECTED,
    harness.IBU,
    harness.GAUSSIAN,
    harness.GAUSSIAN_PROJECTED,
)


def single_bins(
    work: RunInputs,
    name: str,
    contest: Contest,
    truth: Integers,
    digits: Mapping[int, tuple[float, float]],
    first: int,
) -> tuple[list[Row], list[PaperClaim]]:
    """|π̂ - π| of single bins of one dataset: exact or simulated laws, and published draws.

    Args:
        work: supplies the random generator.
        name: name of the setting, which precedes the name of each series.
        contest: the users and their randomiser.
        truth: the dataset's histogram, shape (k,).
        digits: Gaussian and shuffle + INV, by x0.
        first: the number of the first symbol.
    """
    runs = work.runs or work["runs"]
    played = contest.play(np.broadcast_to(truth, (runs, truth.size)), work.generator(name))
    users, settings = contest.group.users, {**contest.group.settings(), "delta": harness.DELTA}
    rows = contest.rows(name)
    claims = list[PaperClaim]()
    for x0, published in digits.items():
        at_x0 = int(truth[x0 - first])
        point = ("x0", float(x0))
        for estimator in (harness.PROJECTED, harness.IBU):
            errors = np.abs(played[estimator][:, x0 - first] - at_x0) / users
            rows.append(harness.measured_row(f"{name}{estimator}", point, _ERROR, errors, settings))
        inverted = harness.exact_law(contest, at_x0)
        exact = {
            harness.INV: harness.summary(*inverted),
            harness.GAUSSIAN: _half_normal(contest.sigma / users),
            harness.GAUSSIAN_PAPER: _half_normal(contest.paper_sigma / users),
        }
        rows += [
            Row(f"{name}{label}", Kind.EXACT, *point, _ERROR, *three, settings)
            for label, three in exact.items()
        ]
        for mechanism, digit in zip(("Gaussian", "shuffle + INV"), published, strict=True):
            rows.append(
                Row(
                    f"{name}published: {mechanism}",
                    Kind.PUBLISHED,
                    *point,
                    _ERROR,
                    digit,
                    settings=settings,
                )
            )
        statement = f"{name}x0 = {x0}"
        chance = math.erfc(published[0] * users / contest.paper_sigma / math.sqrt(2))
        claims.append(
            _judge_draw(
                contest, f"{statement}, Gaussian", published[0], chance, exact[harness.GAUSSIAN][0]
            )
        )
        chance = float(inverted[1][inverted[0] >= published[1] * (1 - _CUT)].sum())
        claims.append(
            _judge_draw(
                contest, f"{statement}, shuffle + INV", published[1], chance, exact[harness.INV][0]
            )
        )
    return rows, claims


_ERROR: Final = "|π̂ - π|"

_CUT: Final = 0.05
"""Published errors have one or two digits."""

BEYOND: Final = 0.0027
"""Chance of more than three standard deviations."""


def _half_normal(sigma: float) -> tuple[float, float, float]:
    """Mean, 5th and 95th percentile of |N(0, σ)|."""
    from scipy.stats import halfnorm

    low, high = (float(halfnorm.ppf(level, scale=sigma)) for level in (0.05, 0.95))
    return sigma * math.sqrt(2 / math.pi), low, high


def _judge_draw(
    contest: Contest, statement: str, published: float, chance: float, mean: float
) -> PaperClaim:
    if chance < BEYOND:
        return PaperClaim(
            statement,
            Verdict.NOT_REPRODUCED,
            f"a draw so large has a chance of {chance:.1g}",
            published,
        )
    return contest.unequal(
        statement, published, f"one draw; at equal guarantees the mean is {mean:.2g}"
    )


def _bins(work: RunInputs) -> Results:
    rows: list[Row] = []
    claims: list[PaperClaim] = []
    for users, digits in _T4.items():
        truth = datasets(users, 1, work["sd"], work.generator("data", users))[0]
        more, judged = single_bins(work, f"n = {users}: ", _contest(work, users), truth, digits, 1)
        rows += more
        claims += judged
    return Results(
        tuple(rows),
        tuple(claims),
        (f"x0 = 1..{SYMBOLS} are taken for the values {-_HALF}..{_HALF}",),
    )


def draw_bins(result: Results) -> Figure:
    """Plot exact and simulated means with 5-95%, and published draws, one panel per setting."""
    names = list(dict.fromkeys(row.series.partition(": ")[0] for row in result.rows))
    figure, grid = drawing.panels(1, len(names), width=11, height=5.4)
    shown = (harness.INV, harness.PROJECTED, harness.IBU, harness.GAUSSIAN, harness.GAUSSIAN_PAPER)
    for axes, name in zip(grid[0], names, strict=True):
        for index, estimator in enumerate(shown):
            rows = [row for row in result.rows if row.series == f"{name}: {estimator}"]
            _spread(axes, rows, (index - 2) / 10, estimator, harness.ESTIMATORS.index(estimator))
        for marker, estimator in (("s", "Gaussian"), ("o", "shuffle + INV")):
            rows = [row for row in result.rows if row.series == f"{name}: published: {estimator}"]
            style = {
                "mfc": "none",
                "mew": 1.6,
                "ms": 8,
                "ls": "none",
                "color": drawing.COLOURS[Kind.PUBLISHED],
            }
            drawing.line(
                axes,
                rows,
                f"{name}: published: {estimator}",
                label=f"published: {estimator}",
                marker=marker,
                **style,
            )
        axes.set_yscale("log")
        axes.set_xticks(
            sorted(
                {
                    float(row.x)
                    for row in result.rows
                    if row.x_name == "x0" and row.series.startswith(f"{name}:")
                }
            )
        )
        axes.set_xlabel("x0")
        axes.set_title(name, fontsize=11)
    grid[0, 0].set_ylabel("|π̂ - π|, mean and 5-95%")
    drawing.legend_below(figure, columns=3)
    return figure


def _spread(axes: object, rows: Sequence[Row], shift: float, label: str, index: int) -> None:
    x = np.array([float(row.x) for row in rows])
    step = float(np.diff(x).min())
    y, low, high = (
        np.array([getattr(row, end) for row in rows], dtype=np.float64)
        for end in ("y", "low", "high")
    )
    style = {**drawing.series_style(index), "ls": "none", "elinewidth": 1.2, "capsize": 2}
    axes.errorbar(  # type: ignore[attr-defined]
        x + shift * step,
        y,
        yerr=(np.maximum(y - low, 0), np.maximum(high - y, 0)),
        label=label,
        **style,
    )


_SETTING: Final = {"epsilon0": 4.0, "epsilon": 4.0, "k": SYMBOLS, "sd": 2.0, "delta": harness.DELTA}

ENTRIES: Final = (
    Experiment(
        id="001-c1", source="Biswas et al. 2022, section V.C",
        question="Is the Gaussian histogram 48 times as good as the shuffled one at the same "
                 "guarantee?",
        parameters={"n": (1000, 100_000), **_SETTING, "runs": 2000}, quick={"runs": 200},
        inferred=("sd", "delta"),
        run=_text, draw=_draw_by_n, seconds=1, seconds_quick=1.5,
        verdicts=frozenset({Verdict.UNEQUAL}),
    ),
    Experiment(
        id="001-f2", source="Biswas et al. 2022, figure 2",
        question="How does the error fall with n, and what do projection and the iterative "
                 "Bayesian update gain?",
        parameters={"n": (1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000), **_SETTING,
        "runs": 2000},
        quick={"n": (1000, 10_000, 100_000), "runs": 200}, inferred=("sd", "delta"),
        run=_by_n, draw=_draw_by_n, seconds=1, seconds_quick=1.6,
        verdicts=frozenset({Verdict.UNEQUAL}),
    ),
    Experiment(
        id="000-t4", aliases=("001-t5",), source="Biswas et al. 2023, table 4; 2022, table V",
        question="What is the error of one bin, and can the printed errors be draws of it?",
        parameters={"n": (1000, 100_000), "x0": (1, 3, 5, 7, 9, 11, 13), **_SETTING, "runs": 2000},
        quick={"runs": 200}, inferred=("sd", "delta"),
        run=_bins, draw=draw_bins, seconds=1, seconds_quick=0.9,
        verdicts=frozenset({Verdict.UNEQUAL, Verdict.NOT_REPRODUCED}),
    ),
)  # fmt: skip
