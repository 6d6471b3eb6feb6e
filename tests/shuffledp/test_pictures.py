"""What is drawn: the local curve against its closed form, legends that name every line, bars that
can be told apart."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from matplotlib.figure import Figure

import shuffledp as sdp
from shuffledp.bars import MOST_NAMES, draw_bars
from shuffledp_core.mechanisms import KRRHistogram

GROUP = sdp.Setting(users=300, honest=300)
KRR = KRRHistogram(symbols=5, blanket=Fraction(1, 4))


def test_without_a_shuffler_a_report_costs_what_its_two_chances_say() -> None:
    """δ_L(ε) = p - e^ε q where above 0: p = 1 - γ + γ/k, q = γ/k."""
    found = sdp.curve(KRR, GROUP, [0.0, 0.5, 1.0, 2.0, 2.5, 3.0, 4.0])
    below = float(KRR.blanket) / 5
    truth = [max(1 - 4 * below - math.exp(epsilon) * below, 0.0) for epsilon in found.epsilons]
    local = found.local()
    assert local.tolist() == pytest.approx(truth, rel=1e-6, abs=1e-9)
    assert all(local >= np.array(truth) - 1e-15)
    assert all(local >= found.attained)
    assert sdp.curve(KRR, GROUP, [0.5], rounds=3).local().size == 0


def test_every_line_of_a_curve_is_named() -> None:
    axes = sdp.curve(KRR, GROUP, [0.1, 0.2, 0.3]).plot()
    names = set(axes.get_legend_handles_labels()[1])
    assert {
        "certified: never below the truth",
        "attained by a dataset",
        "local only: no shuffler",
    } <= names
    assert len([line for line in axes.lines if len(line.get_xdata()) == 3]) <= len(names)  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [2, 24, 25, 100, 5000])
def test_names_below_bars_are_few_and_the_last_one_is_there(count: int) -> None:
    axes = Figure().subplots()
    labels = [str(place) for place in range(count - 1)] + [f"≥ {count - 1}"]
    values = np.linspace(-3, 5, count)
    draw_bars(axes, labels, values, values - 1, values + 1, values)
    names = [name.get_text() for name in axes.get_xticklabels()]
    assert len(names) <= MOST_NAMES + 1
    assert (names[0], names[-1]) == ("0", labels[-1])
    assert set(axes.get_legend_handles_labels()[1]) == {"estimate", "95% interval", "truth"}


def test_a_name_is_never_a_formula_and_never_endless() -> None:
    figure = Figure()
    axes = figure.subplots()
    draw_bars(axes, ["$\\frac{", "x" * 500, "a\u202eb"], [1, 2, 3], [0, 1, 2], [2, 3, 4])
    figure.savefig("/dev/null", format="svg")
    assert [len(name.get_text()) for name in axes.get_xticklabels()] == [8, 18, 3]
    assert "\u202e" not in "".join(name.get_text() for name in axes.get_xticklabels())
