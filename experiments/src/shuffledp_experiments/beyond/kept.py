"""Benefit and cost of memoising a randomised response, as RAPPOR does (n16)."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Final

import numpy as np

from shuffledp_core.mechanisms import RapporHistogram
from shuffledp_experiments import drawing
from shuffledp_experiments.beyond.common import DELTA, logarithmic, standard
from shuffledp_experiments.entry import Experiment, Kind, Results, Row, RunInputs
from shuffledp_privacy.bounds import epsilon_bounds
from shuffledp_privacy.mechanisms.rappor import kept_response, one_report
from shuffledp_privacy.rounds.composition import Round, compose_epsilon

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_EPSILON: Final = "ε over all rounds (nats)"
_ERROR: Final = "standard error of one count, mean of all rounds"
_FRESH: Final = "fresh responses, composed"
_ANYBODY: Final = "kept response, whoever takes part"
_SAME: Final = "kept response, the same people each time"


def _run_n16(work: RunInputs) -> Results:
    spec = RapporHistogram(
        symbols=work["k"],
        fake=Fraction(work["f"]),
        when_zero=Fraction(work["p"]),
        when_one=Fraction(work["q"]),
    )
    rows, notes = [], []
    for users in work["n"]:
        settings = {"n": users, "k": work["k"], "f": work["f"], "p": work["p"], "q": work["q"]}
        same = epsilon_bounds(kept_response(spec), standard(users), DELTA).certified
        for times in work["rounds"]:
            epsilons = {
                _FRESH: compose_epsilon([Round(one_report(spec), standard(users), times)], DELTA),
                # One round of people who were never asked has its own ε, however it is drawn.
                _ANYBODY: compose_epsilon([Round(spec, standard(users), times)], DELTA),
                _SAME: min(same, epsilon_bounds(spec, standard(users), DELTA).certified)
                if times == 1
                else same,
            }
            rows += [
                Row(name, Kind.CERTIFIED, "rounds", times, _EPSILON, value, settings=settings)
                for name, value in epsilons.items()
            ]
            fresh, memoised = errors(spec, users, times)
            rows.append(
                Row("fresh, error", Kind.EXACT, "rounds", times, _ERROR, fresh, settings=settings)
            )
            rows.append(
                Row("kept, error", Kind.EXACT, "rounds", times, _ERROR, memoised, settings=settings)
            )
            seen = _measure_error(
                spec, users, times, work.runs or work["runs"], work.generator(f"{users} {times}")
            )
            rows.append(
                Row(
                    "kept, measured",
                    Kind.MEASURED,
                    "rounds",
                    times,
                    _ERROR,
                    seen,
                    settings=settings,
                )
            )
        last = work["rounds"][-1]
        named = {row.series: row.y for row in rows if row.settings["n"] == users and row.x == last}
        notes.append(
            f"n = {users:,}, {last:,} rounds: ε {named[_FRESH]:.3g} fresh, {named[_ANYBODY]:.3g} "
            f"kept, {named[_SAME]:.3g} of the same people; error {named['fresh, error']:.3g} "
            f"fresh, {named['kept, error']:.3g} kept"
        )
    return Results(tuple(rows), notes=tuple(notes))


def errors(spec: RapporHistogram, users: int, times: int) -> tuple[float, float]:
    """Standard error of the count of a symbol without holders, averaged over `times` rounds.

    With fresh responses, and with memoised ones.
    """
    gap = float(spec.when_one - spec.when_zero)
    half = float(spec.fake / 2)
    low = float(spec.report_chances[0])
    slope = float(spec.report_chances[1]) - low
    permanent = gap**2 * half * (1 - half)
    blur = low * (1 - low) - permanent
    return math.sqrt(users * low * (1 - low) / times) / slope, math.sqrt(
        users * (permanent + blur / times)
    ) / slope


def _measure_error(
    spec: RapporHistogram, users: int, times: int, runs: int, generator: np.random.Generator
) -> float:
    """Root mean square error in simulations of devices that memoise a bit."""
    low, high = (float(chance) for chance in spec.report_chances)
    ones_kept = generator.binomial(users, float(spec.fake / 2), runs)
    ones = generator.binomial(times * ones_kept, float(spec.when_one))
    ones += generator.binomial(times * (users - ones_kept), float(spec.when_zero))
    counts = (ones / times - users * low) / (high - low)
    return float(np.sqrt(np.mean(counts**2)))


def _draw_n16(result: Results) -> Figure:
    sizes = list(dict.fromkeys(row.settings["n"] for row in result.rows))
    figure, axes = drawing.panels(1, 2, width=12, height=5)
    left, right = axes[0]
    for index, users in enumerate(sizes):
        rows = [row for row in result.rows if row.settings["n"] == users]
        # A first round is a fresh response; from the second on it is all rounds at once, and no
        # line leads there.
        later = [row for row in rows if row.x != 1]
        look = drawing.series_style(index)
        drawing.line(left, rows, _FRESH, label=f"fresh each round, composed, n = {users:,}", **look)
        drawing.line(
            left,
            later,
            _SAME,
            label=f"kept, the same {users:,} people",
            **{**look, "marker": "", "ls": "--"},
        )
        drawing.line(right, rows, "fresh, error", label="_fresh", **look)
        drawing.line(
            right, rows, "kept, error", label="_kept", **{**look, "marker": "", "ls": "--"}
        )
        drawing.line(
            right, rows, "kept, measured", label="_measured", **{**look, "ls": "", "mfc": "white"}
        )
    drawing.line(
        left,
        later,
        _ANYBODY,
        label="kept, whoever takes part: charged from the second on",
        color="black",
    )
    left.set_title("what all rounds cost together")
    left.set_ylabel(_EPSILON)
    right.set_title("error of their mean\n(dashed: kept; open marks: simulated)", fontsize=10)
    right.set_ylabel("standard error of one count")
    for panel in axes[0]:
        panel.set_xlabel("rounds of one question")
        logarithmic(panel)
    settings = result.rows[0].settings
    figure.suptitle(
        f"RAPPOR, k = {settings['k']}, f = {settings['f']}, p = {settings['p']}, "
        f"q = {settings['q']}, δ = {DELTA:g}"
    )
    drawing.legend_below(figure, columns=2)
    return figure


N16: Final = Experiment(
    id="n16", source="new", question="What does it buy to keep a randomised response, and what "
                                     "does it cost?",
    parameters={
        "k": 4, "f": "1/2", "p": "1/4", "q": "3/4", "n": (1000, 10_000),
        "rounds": (1, 2, 5, 10, 30, 100, 300, 1000, 3000, 10_000), "runs": 4000,
    },
    quick={"n": (1000,), "rounds": (1, 10, 1000), "runs": 1000},
    run=_run_n16, draw=_draw_n16, seconds=12, seconds_quick=1.5,
)  # fmt: skip
