"""Many rounds with the same people (n7), and rounds that sample some of them (n14)."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Final

import numpy as np

from shuffledp.commands.questions import krr_histogram
from shuffledp.views import subsampled
from shuffledp_core.mechanisms import KRRHistogram
from shuffledp_experiments import drawing
from shuffledp_experiments.beyond.common import DELTA, both_sides, finite, logarithmic, standard
from shuffledp_experiments.beyond.plans import GRAIN
from shuffledp_experiments.entry import Experiment, Kind, Results, Row, RunInputs
from shuffledp_privacy.bounds import Setting
from shuffledp_privacy.rounds.composition import Round, compose_epsilon

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_Y: Final = "ε over all rounds (nats)"


def _run_n7(work: RunInputs) -> Results:
    rows: list[Row] = []
    notes: list[str] = []
    least = 1e-12  # of the accountant's δ
    for local in work["ε0"]:
        spec, _ = krr_histogram(work["k"], local)
        for users in work["n"]:
            settings = {"ε0": local, "n": users, "k": work["k"]}
            for times in work["rounds"]:
                item = Round(spec, standard(users), times)
                share = DELTA / times
                added = (
                    both_sides(spec, standard(users), share).certified * times
                    if share >= least
                    else np.nan
                )
                epsilons = {
                    "composed": compose_epsilon([item], DELTA),
                    "T times ε": finite(added),
                    "T times ε0": local * times,
                    "no shuffler, composed": compose_epsilon(
                        [Round(spec, Setting(users, 1), times)], DELTA
                    ),
                }
                rows += [
                    Row(name, Kind.CERTIFIED, "rounds", times, _Y, value, settings=settings)
                    for name, value in epsilons.items()
                ]
            notes.append(_worth(rows, local, users))
    return Results(tuple(rows), notes=tuple(notes))


def _worth(rows: list[Row], local: float, users: int) -> str:
    """Number of shuffled rounds that together cost less ε than one unshuffled report."""
    composed = [
        (float(row.x), row.y)
        for row in rows
        if row.series == "composed" and row.settings["n"] == users and row.settings["ε0"] == local
    ]
    times, epsilons = np.array(composed).T
    if epsilons[-1] < local:
        words = f"more than {times[-1]:,.0f} rounds together cost less"
    elif epsilons[0] >= local * 0.99:
        words = "not even one round costs less"
    else:
        # Between the points ε grows like a power of T.
        limit = np.exp(np.interp(np.log(local), np.log(epsilons), np.log(times)))
        words = f"about {limit:,.0f} rounds together cost as much"
    return f"n = {users:,}, ε0 = {local:g}: {words} as one report without a shuffler".replace(
        "less as", "less than"
    )


def _draw_n7(result: Results) -> Figure:
    locals_ = list(dict.fromkeys(row.settings["ε0"] for row in result.rows))
    sizes = list(dict.fromkeys(row.settings["n"] for row in result.rows))
    figure, axes = drawing.panels(
        1, len(locals_), width=6.2 * len(locals_), height=5.4, sharey=True
    )
    for panel, local in zip(axes[0], locals_, strict=True):
        for index, users in enumerate(sizes):
            rows = [
                row
                for row in result.rows
                if row.settings["n"] == users and row.settings["ε0"] == local
            ]
            drawing.line(
                panel,
                rows,
                "composed",
                label=f"shuffled, composed, n = {users:,}",
                **drawing.series_style(index),
            )
            style = {**drawing.series_style(index), "marker": "", "ls": ":"}
            drawing.line(panel, rows, "T times ε", label=f"shuffled, T·ε, n = {users:,}", **style)
        drawing.line(panel, rows, "T times ε0", label="no shuffler, T·ε0", color="black", lw=1.2)
        drawing.line(panel, rows, "no shuffler, composed", color="black", ls="--", lw=1.2)
        panel.axhline(
            float(str(local)),
            color=drawing.QUIET,
            lw=1,
            ls="-.",
            label="one report without a shuffler",
        )
        panel.set_title(f"ε0 = {local:g}, k = {rows[0].settings['k']}")
        panel.set_xlabel("rounds T on the same people")
        logarithmic(panel)
    axes[0, 0].set_ylabel(_Y)
    figure.suptitle(f"What many rounds cost together (k-RR, δ = {DELTA:g})")
    drawing.legend_below(figure, columns=3)
    return figure


N7: Final = Experiment(
    id="n7", source="new", question="How fast does ε grow with the rounds, and when does "
                                    "shuffling stop helping?",
    parameters={
        "k": 10, "ε0": (1.0, 4.0), "n": (1000, 10_000, 100_000),
        "rounds": (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000),
    },
    quick={"ε0": (1.0,), "n": (1000,), "rounds": (1, 100, 10_000)},
    run=_run_n7, draw=_draw_n7, seconds=17, seconds_quick=1.8,
)  # fmt: skip


def _run_n14(work: RunInputs) -> Results:
    people, symbols = work["N"], work["k"]
    everyone, _ = krr_histogram(symbols, work["ε0"])
    goal = _share_variance(people, people, symbols, float(everyone.blanket))
    rows: list[Row] = []
    for slack in work["error"]:
        settings = {"N": people, "k": symbols, "error": slack}
        for rate in work["rate"]:
            blanket = _blanket_for(people, rate, symbols, goal * slack**2)
            secret = public = np.nan
            if blanket is not None:
                drawn = standard(round(people * rate))
                spec = KRRHistogram(symbols=symbols, blanket=blanket)
                secret = (
                    subsampled(spec, Fraction(rate), drawn, delta=DELTA).numbers["epsilon"]
                    or np.nan
                )
                public = both_sides(spec, drawn).certified
            epsilons = {"who is drawn is secret": secret, "who is drawn is known": public}
            rows += [
                Row(
                    name, Kind.CERTIFIED, "rate", rate, "ε (nats)", finite(value), settings=settings
                )
                for name, value in epsilons.items()
            ]
    return Results(tuple(rows), notes=tuple(_best_rate(rows, slack) for slack in work["error"]))


def _share_variance(people: int, drawn: int, symbols: int, blanket: float) -> float:
    """Variance of the estimated share of one of k equally frequent symbols.

    From the draw and from the randomisers.
    """
    share = 1 / symbols
    q = blanket / symbols
    p = 1 - blanket + q
    draw = share * (1 - share) * (people - drawn) / (people - 1)
    return (draw + (share * p * (1 - p) + (1 - share) * q * (1 - q)) / (1 - blanket) ** 2) / drawn


def _blanket_for(people: int, rate: float, symbols: int, variance: float) -> Fraction | None:
    """Largest γ at which the answer from the drawn users has this variance.

    None if the draw alone has more.
    """
    drawn = round(people * rate)
    low = 0.0
    high = 1.0 - 1e-6
    if _share_variance(people, drawn, symbols, low) >= variance:
        return None
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (
            (middle, high)
            if _share_variance(people, drawn, symbols, middle) <= variance
            else (low, middle)
        )
    blanket = Fraction(math.floor(low * GRAIN), GRAIN)
    return blanket if blanket > 0 else None


def _best_rate(rows: list[Row], slack: float) -> str:
    secret = [
        row
        for row in rows
        if row.settings["error"] == slack and row.series == "who is drawn is secret"
    ]
    feasible = [row for row in secret if not np.isnan(row.y)]
    best = min(feasible, key=lambda row: row.y)
    full = next(row.y for row in secret if row.x == 1.0)
    return (
        f"error {slack:g} times the least: least ε {best.y:.4g} at rate {best.x:g}, {full:.4g} "
        "with everybody"
    )


def _draw_n14(result: Results) -> Figure:
    slacks = list(dict.fromkeys(row.settings["error"] for row in result.rows))
    figure, axes = drawing.panels(width=8.6, height=5.2)
    panel = axes[0, 0]
    for index, slack in enumerate(slacks):
        rows = [row for row in result.rows if row.settings["error"] == slack]
        style = drawing.series_style(index)
        drawing.line(
            panel, rows, "who is drawn is secret", label=f"error x {slack:g}, secret draw", **style
        )
        dotted = {**style, "ls": ":", "marker": ""}
        drawing.line(
            panel, rows, "who is drawn is known", label=f"error x {slack:g}, known draw", **dotted
        )
    settings = result.rows[0].settings
    panel.set_title(
        f"Drawing some of N = {settings['N']:,} at one error (k-RR, k = {settings['k']}, δ = "
        f"{DELTA:g})"
    )
    panel.set_xlabel("rate: share of the people who are drawn")
    panel.set_ylabel("certified ε (nats)")
    logarithmic(panel)
    drawing.legend_below(figure, columns=3)
    return figure


N14: Final = Experiment(
    id="n14", source="new", question="Is it better to ask all with more noise, or some with less?",
    parameters={
        "N": 100_000, "k": 10, "ε0": 1.0, "error": (1.0, 2.0, 4.0),
        "rate": (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0),
    },
    quick={"error": (2.0,), "rate": (0.5, 1.0)},
    run=_run_n14, draw=_draw_n14, seconds=16, seconds_quick=2.2,
)  # fmt: skip
