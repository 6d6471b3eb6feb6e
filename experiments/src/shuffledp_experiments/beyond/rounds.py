"""Many rounds on the same people (n7), and rounds of which each asks only some of them (n14)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from shuffledp.commands.questions import krr_histogram
from shuffledp_experiments import drawing
from shuffledp_experiments.beyond.common import DELTA, both_sides, finite, logarithmic, standard
from shuffledp_experiments.entry import Entry, Found, Kind, Row, Work
from shuffledp_privacy.bounds import Setting
from shuffledp_privacy.rounds.composition import Round, compose_epsilon

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_Y: Final = "ε over all rounds (nats)"


def _run_n7(work: Work) -> Found:
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
                added = both_sides(spec, standard(users), share).certified * times if share >= least else np.nan
                found = {
                    "composed": compose_epsilon([item], DELTA),
                    "T times ε": finite(added),
                    "T times ε0": local * times,
                    "no shuffler, composed": compose_epsilon([Round(spec, Setting(users, 1), times)], DELTA),
                }
                rows += [
                    Row(name, Kind.CERTIFIED, "rounds", times, _Y, value, settings=settings)
                    for name, value in found.items()
                ]
            notes.append(_worth(rows, local, users))
    return Found(tuple(rows), notes=tuple(notes))


def _worth(rows: list[Row], local: float, users: int) -> str:
    """For how many rounds the shuffled ones together cost less than one report without a shuffler."""
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
    return f"n = {users:,}, ε0 = {local:g}: {words} as one report without a shuffler".replace("less as", "less than")


def _draw_n7(found: Found) -> Figure:
    locals_ = list(dict.fromkeys(row.settings["ε0"] for row in found.rows))
    sizes = list(dict.fromkeys(row.settings["n"] for row in found.rows))
    figure, axes = drawing.panels(1, len(locals_), width=6.2 * len(locals_), height=5.4, sharey=True)
    for each, local in zip(axes[0], locals_, strict=True):
        for index, users in enumerate(sizes):
            rows = [row for row in found.rows if row.settings["n"] == users and row.settings["ε0"] == local]
            drawing.line(each, rows, "composed", label=f"shuffled, composed, n = {users:,}", **drawing.cycled(index))
            style = {**drawing.cycled(index), "marker": "", "ls": ":"}
            drawing.line(each, rows, "T times ε", label=f"shuffled, T·ε, n = {users:,}", **style)
        drawing.line(each, rows, "T times ε0", label="no shuffler, T·ε0", color="black", lw=1.2)
        drawing.line(each, rows, "no shuffler, composed", color="black", ls="--", lw=1.2)
        each.axhline(float(str(local)), color=drawing.QUIET, lw=1, ls="-.", label="one report without a shuffler")
        each.set_title(f"ε0 = {local:g}, k = {rows[0].settings['k']}")
        each.set_xlabel("rounds T on the same people")
        logarithmic(each)
    axes[0, 0].set_ylabel(_Y)
    figure.suptitle(f"What many rounds cost together (k-RR, δ = {DELTA:g})")
    drawing.legend_below(figure, columns=3)
    return figure


N7: Final = Entry(
    id="n7", source="new", question="How fast does ε grow with the rounds, and when does shuffling stop helping?",
    parameters={
        "k": 10, "ε0": (1.0, 4.0), "n": (1000, 10_000, 100_000),
        "rounds": (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000),
    },
    quick={"ε0": (1.0,), "n": (1000, 10_000), "rounds": (1, 100, 10_000)},
    run=_run_n7, draw=_draw_n7, seconds=30, seconds_quick=4,
)  # fmt: skip
