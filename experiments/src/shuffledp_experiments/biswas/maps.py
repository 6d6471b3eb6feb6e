"""The papers' maps: check-ins in San Francisco and Paris, counted in the cells of a grid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from shuffledp_experiments import drawing
from shuffledp_experiments.biswas import harness
from shuffledp_experiments.biswas.harness import Contest, Floats, Integers
from shuffledp_experiments.biswas.synthetic import draw_bins, ratio, single_bins
from shuffledp_experiments.biswas.truth import Group
from shuffledp_experiments.data import FILES, load
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


@dataclass(frozen=True, slots=True)
class City:
    """A box of the papers, with its grid.

    Attributes:
        name: name of the city, as in the papers.
        file: name of its data in `data.FILES`.
        south, north, west, east: degrees.
        rows, columns: cells along latitude and longitude; k is their product.
        users: check-ins in the paper.
    """

    name: str
    file: str
    south: float
    north: float
    west: float
    east: float
    rows: int
    columns: int
    users: int

    @property
    def symbols(self) -> int:
        """Number of cells, k."""
        return self.rows * self.columns

    def cells(self, places: Floats) -> Integers:
        """Users in each cell, row by row from the south-west; shape (k,).

        Places are latitude and longitude.
        """
        north = (places[:, 0] - self.south) / (self.north - self.south) * self.rows
        east = (places[:, 1] - self.west) / (self.east - self.west) * self.columns
        row, column = (
            np.clip(np.floor(part).astype(np.int64), 0, most - 1)
            for part, most in ((north, self.rows), (east, self.columns))
        )
        return np.bincount(row * self.columns + column, minlength=self.symbols).astype(np.int64)


CITIES: Final = (
    City("San Francisco", "san francisco", 37.7228, 37.7946, -122.5153, -122.3789, 17, 24, 123_108),
    City("Paris", "paris", 48.8286, 48.8798, 2.2855, 2.3909, 12, 16, 10_260),
)

# Copied from the papers: Gaussian, shuffle + INV, by x0.
_T5: Final[Mapping[str, Mapping[int, tuple[float, float]]]] = {
    "San Francisco": {
        40: (4e-6, 1e-3), 80: (3e-5, 5e-4), 120: (9e-6, 1e-3), 160: (4e-5, 2e-4), 200: (2e-5,
        2e-4), 240: (2e-5, 7e-4),
        280: (4e-6, 5e-4),
    },
    "Paris": {
        20: (2e-6, 3e-4), 40: (3e-5, 2e-3), 60: (4e-5, 2e-3), 80: (5e-5, 4e-4), 100: (7e-5, 1e-4),
        120: (3e-5, 2e-4),
        140: (1e-4, 1e-4),
    },
}  # fmt: skip


def places_of(work: RunInputs, city: City) -> tuple[Floats, str]:
    """Latitudes and longitudes, shape (users, 2), and a note on their source."""
    if work.data is not None:
        places = load(work.data, city.file)
        return places, f"{city.name}: {len(places):,} check-ins, the paper has {city.users:,}"
    generator = work.generator("stand-in", city.name)
    size = np.array([city.north - city.south, city.east - city.west])
    corner = np.array([city.south, city.west])
    spots = generator.uniform(0.15, 0.85, (6, 2))[generator.integers(6, size=city.users)]
    # Most of the places crowd around six spots, a tenth is anywhere: as uneven as check-ins are.
    anywhere = generator.random((city.users, 1)) < 0.1
    around = np.clip(spots + generator.normal(0, 0.08, spots.shape), 0, 1 - 1e-9)
    places = corner + size * np.where(anywhere, generator.random(spots.shape), around)
    file_name = FILES[city.file].name
    return (
        places,
        f"{city.name}: stand-in: {city.users:,} made-up places; give --data with "
        f"{file_name} for the paper's",
    )


def _contest(city: City, users: int, epsilon0: float) -> Contest:
    return Contest(Group(users, city.symbols, epsilon0))


def _cell_rows(
    series: str, kind: Kind, values: Floats | Integers, city: City, **settings: object
) -> list[Row]:
    shares = (values / values.sum()).tolist()
    about = {"city": city.name, "epsilon0": "", **settings}
    return [
        Row(series, kind, "cell", float(cell), "share of users", share, settings=about)
        for cell, share in enumerate(shares)
    ]


def _show(work: RunInputs) -> Results:
    rows: list[Row] = []
    notes = []
    for city in CITIES:
        places, note = places_of(work, city)
        truth = city.cells(places)
        rows += _cell_rows(f"{city.name}: true", Kind.EXACT, truth, city, n=len(places))
        notes.append(f"{note}; {int((truth == 0).sum())} of {city.symbols} cells are empty")
        shown = work.generator("shown", city.name).permutation(len(places))[: work["points"]]
        rows += [
            Row(
                f"{city.name}: places",
                Kind.EXACT,
                "longitude (degrees)",
                float(east),
                "latitude (degrees)",
                float(north),
                settings={"city": city.name, "epsilon0": "", "n": len(places)},
            )
            for north, east in places[shown]
        ]
    return Results(
        tuple(rows), (), (*notes, f"at most {work['points']:,} places of each city are drawn")
    )


def _draw_show(result: Results) -> Figure:
    figure, grid = drawing.panels(2, 2, width=11, height=8)
    for (left, right), city in zip(grid, CITIES, strict=True):
        east, north = result.series(f"{city.name}: places")
        left.plot(east.astype(np.float64), north, ",", color=drawing.CYCLE[3])
        left.set_title(f"{city.name}: check-ins", fontsize=11)
        left.set_xlim(city.west, city.east)
        left.set_ylim(city.south, city.north)
        mesh = _heat(right, result, f"{city.name}: true", city)
        right.set_title(f"{city.rows} x {city.columns} cells", fontsize=11)
        figure.colorbar(mesh, ax=right, label="share of users")
        for axes in (left, right):
            axes.set_xlabel("longitude (°)")
            axes.ticklabel_format(useOffset=False)
            axes.tick_params(labelsize=8)
            axes.set_aspect(1 / np.cos(np.radians(city.south)), adjustable="box")
        left.set_ylabel("latitude (°)")
    return figure


def _heat(axes: Any, result: Results, series: str, city: City) -> Any:
    from matplotlib.colors import LogNorm

    shares = result.series(series)[1].reshape(city.rows, city.columns)
    edges = (
        np.linspace(city.west, city.east, city.columns + 1),
        np.linspace(city.south, city.north, city.rows + 1),
    )
    # What is empty, or came out negative, stays grey.
    axes.set_facecolor("#e3e4e8")
    axes.grid(visible=False)
    return axes.pcolormesh(
        *edges, np.where(shares > 0, shares, np.nan), norm=LogNorm(1e-5, 0.1), cmap="viridis"
    )


_MAPPED: Final = (
    harness.GAUSSIAN_PAPER,
    harness.GAUSSIAN_PROJECTED,
    harness.PROJECTED,
    harness.IBU,
)


def _estimate(work: RunInputs) -> Results:
    rows: list[Row] = []
    claims, notes = [], []
    for city in CITIES:
        places, note = places_of(work, city)
        truth = city.cells(places)
        contest = _contest(city, len(places), work["epsilon0"])
        estimates = contest.play(truth[np.newaxis], work.generator(city.name))
        rows += _cell_rows(
            f"{city.name}: true", Kind.EXACT, truth, city, **contest.group.settings()
        )
        for estimator in _MAPPED:
            rows += _cell_rows(
                f"{city.name}: {estimator}",
                Kind.MEASURED,
                estimates[estimator][0],
                city,
                **contest.group.settings(),
            )
        far = {
            estimator: float(harness.total_variation(estimates[estimator], truth[np.newaxis])[0])
            for estimator in _MAPPED
        }
        remark = "total variation " + ", ".join(
            f"{value:.2g} ({estimator})" for estimator, value in far.items()
        )
        claims.append(
            contest.unequal(f"{city.name}: the Gaussian map is slightly better", None, remark)
        )
        rows += [_with_city(row, city) for row in contest.rows(f"{city.name}: ")]
        notes.append(note)
    return Results(tuple(rows), tuple(claims), tuple(notes))


def _with_city(row: Row, city: City) -> Row:
    return Row(
        row.series,
        row.kind,
        row.x_name,
        row.x,
        row.y_name,
        row.y,
        row.low,
        row.high,
        {**row.settings, "city": city.name},
    )


def _draw_estimate(result: Results) -> Figure:
    shown = ("true", *_MAPPED)
    figure, grid = drawing.panels(2, len(shown), width=15, height=5.6)
    for line, city in zip(grid, CITIES, strict=True):
        for axes, name in zip(line, shown, strict=True):
            mesh = _heat(axes, result, f"{city.name}: {name}", city)
            axes.set_title(f"{city.name}:\n{name}", fontsize=9.5)
            axes.set_aspect(1 / np.cos(np.radians(city.south)), adjustable="box")
            axes.set_xticks([])
            axes.set_yticks([])
    figure.colorbar(mesh, ax=grid.ravel().tolist(), label="share of users (grey: none)", shrink=0.8)
    return figure


def _samples(truth: Integers, users: int, runs: int, generator: np.random.Generator) -> Integers:
    """Histograms of `users` users drawn without replacement, or of all if there are fewer.

    Shape (runs, k).
    """
    return generator.multivariate_hypergeometric(
        truth, min(users, int(truth.sum())), size=runs, method="marginals"
    )


def _by_users(work: RunInputs) -> Results:
    rows: list[Row] = []
    claims: list[PaperClaim] = []
    notes = []
    for city in CITIES:
        places, note = places_of(work, city)
        truth = city.cells(places)
        notes.append(note)
        for epsilon0 in work["epsilon0"]:
            name = f"{city.name}, ε0 = {epsilon0:g}: "
            errors: dict[int, Mapping[str, Floats]] = {}
            for users in work["n"][city.name]:
                generator = work.generator(name, users)
                sampled = _samples(truth, users, work.runs or work["runs"], generator)
                contest = _contest(city, int(sampled[0].sum()), epsilon0)
                more, errors[users] = harness.contest_rows(name, contest, sampled, generator)
                rows += more
            claims += _compare(name, contest, errors)
            claims += _gap(name, errors)
    return Results(tuple(rows), tuple(claims), tuple(notes))


def _compare(
    name: str, contest: Contest, errors: Mapping[int, Mapping[str, Floats]]
) -> list[PaperClaim]:
    """Judge the papers' two statements on these figures."""
    most = max(errors)
    unfair, fair = (
        ratio(errors[most], harness.PROJECTED, gaussian)
        for gaussian in (harness.GAUSSIAN_PAPER, harness.GAUSSIAN_PROJECTED)
    )
    remark = (
        f"at n = {most} shuffle + INV errs {unfair:.0f} times as much, and {fair:.1f} times at "
        "equal guarantees"
    )
    claims = [contest.unequal(f"{name}the Gaussian is better, more so as n grows", None, remark)]
    for how in (harness.INV, harness.PROJECTED):
        worse = [
            users for users, of_users in errors.items() if ratio(of_users, how, harness.RAW) > 1
        ]
        statement = f"{name}{how} is better than the raw counts"
        if worse:
            which = ", ".join(str(users) for users in worse)
            claims.append(
                PaperClaim(statement, Verdict.FALSE, f"on average it is not for n = {which}")
            )
        else:
            least = max(ratio(of_users, how, harness.RAW) for of_users in errors.values())
            claims.append(
                PaperClaim(
                    statement,
                    Verdict.SOUND,
                    f"at most {least:.2f} of the raw error, for every n here",
                )
            )
    return claims


def _gap(name: str, errors: Mapping[int, Mapping[str, Floats]]) -> list[PaperClaim]:
    """Judge the two versions' opposite statements on the gap between shuffle and central model."""
    few = min(errors)
    many = max(errors)
    gaps = {}
    for users in (few, many):
        mean = {
            how: float(np.mean(errors[users][how])) for how in (harness.INV, harness.GAUSSIAN_PAPER)
        }
        gaps[users] = mean[harness.INV] - mean[harness.GAUSSIAN_PAPER]
    why = f"total variation {gaps[few]:.2g} at n = {few}, {gaps[many]:.2g} at n = {many}"
    shrinks = gaps[many] < gaps[few]
    times = [ratio(errors[users], harness.INV, harness.GAUSSIAN_PAPER) for users in (few, many)]
    grows = f"{why}; as a multiple it goes from {times[0]:.0f} to {times[1]:.0f}"
    return [
        PaperClaim(
            f"{name}the gap vanishes 'as the number of samples is small' (2023)",
            Verdict.FALSE if shrinks else Verdict.SOUND,
            why,
        ),
        PaperClaim(
            f"{name}the gap vanishes 'as the number of samples increases' (2022)",
            Verdict.SOUND if shrinks else Verdict.FALSE,
            grows,
        ),
    ]


def _draw_by_users(result: Results) -> Figure:
    names = list(dict.fromkeys(row.series.partition(": ")[0] for row in result.rows))
    figure, grid = drawing.panels(2, 2, width=11, height=8.2)
    for axes, name in zip(grid.ravel(), names, strict=True):
        for index, estimator in enumerate(harness.ESTIMATORS):
            style = {**drawing.series_style(index), "lw": 1.4}
            drawing.line(axes, result, f"{name}: {estimator}", label=estimator, **style)
        axes.set_yscale("log")
        axes.set_xlabel("users, n")
        axes.set_title(name, fontsize=11)
    for line in grid:
        line[0].set_ylabel("total variation, mean and 5-95%")
    drawing.legend_below(figure, columns=3)
    return figure


def _bins(work: RunInputs) -> Results:
    rows: list[Row] = []
    claims: list[PaperClaim] = []
    notes = [
        "cells are counted from 0, row by row from the south-west; the papers do not say how they "
        "count"
    ]
    for city in CITIES:
        places, note = places_of(work, city)
        contest = _contest(city, len(places), work["epsilon0"])
        more, judged = single_bins(
            work, f"{city.name}: ", contest, city.cells(places), _T5[city.name], 0
        )
        rows += more
        claims += judged
        notes.append(note)
    return Results(tuple(rows), tuple(claims), tuple(notes))


_FILES: Final = tuple(city.file for city in CITIES)
_SAN_FRANCISCO = tuple(range(10_000, 100_001, 10_000))
_PARIS = tuple(range(1000, 10_001, 1000))

ENTRIES: Final = (
    Experiment(
        id="000-f1", aliases=("001-f3",), source="Biswas et al. 2023, figure 1; 2022, figure 3",
        question="Where are the users, and how many are in each cell?",
        parameters={"points": 20_000}, quick={"points": 2000}, run=_show, draw=_draw_show,
        data=_FILES,
        seconds=1.5, seconds_quick=1.9,
    ),
    Experiment(
        id="000-f2", aliases=("001-f4", "001-f5"), source=
            "Biswas et al. 2023, figure 2; 2022, figures 4, 5",
        question="How do the maps look that the two mechanisms give?",
        parameters={"epsilon0": 4.0, "epsilon": 4.0, "delta": harness.DELTA}, inferred=("delta",),
        run=_estimate, draw=_draw_estimate, data=_FILES, seconds=1, seconds_quick=1.4,
        verdicts=frozenset({Verdict.UNEQUAL}),
    ),
    Experiment(
        id="000-f3", aliases=("001-f6", "001-f7"), source=
            "Biswas et al. 2023, figure 3; 2022, figures 6, 7",
        question="How does the error of the maps fall with n, and is inversion always better than "
                 "raw counts?",
        parameters={
            "n": {"San Francisco": _SAN_FRANCISCO, "Paris": _PARIS}, "epsilon0": (4.0, 6.0),
            "runs": 200,
            "delta": harness.DELTA,
        },
        quick={"n": {"San Francisco": (10_000, 100_000), "Paris": (1000, 10_000)}, "runs": 20},
        inferred=("delta",),
        run=_by_users, draw=_draw_by_users, data=_FILES, seconds=4, seconds_quick=1.7,
        verdicts=frozenset({Verdict.UNEQUAL, Verdict.FALSE, Verdict.SOUND}),
    ),
    Experiment(
        id="000-t5", aliases=("001-t6",), source="Biswas et al. 2023, table 5; 2022, table VI",
        question="What is the error of one cell, and can the printed errors be draws of it?",
        parameters={
            "x0": {name: (*digits,) for name, digits in _T5.items()}, "epsilon0": 4.0,
            "epsilon": 4.0, "runs": 2000,
            "delta": harness.DELTA,
        },
        quick={"runs": 100}, inferred=("delta",),
        run=_bins, draw=draw_bins, data=_FILES, seconds=1.5, seconds_quick=1.2,
        verdicts=frozenset({Verdict.UNEQUAL}),
    ),
)  # fmt: skip
