"""A histogram as bars: estimates from zero, intervals as lines, true counts as marks, labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike

ESTIMATE: Final = "#2a6f97"
TRUTH: Final = "#c25f0e"

MOST_NAMES: Final = 24
"""Names below the bars of one picture; of more bars every second, fifth, tenth, ... has its own."""

MOST_BARS: Final = 200
"""Bars with gaps between them; beyond, a gap is thinner than a pixel, and each bar takes its time.
"""

_LONGEST: Final = 18
"""Letters of a name."""

_LONG: Final = 4
"""Letters from which on names are turned, where there are more than a few."""


def draw_bars(
    axes: Axes,
    labels: Sequence[str],
    values: ArrayLike,
    lows: ArrayLike,
    highs: ArrayLike,
    truths: ArrayLike | None = None,
    *,
    truth: str = "truth",
) -> None:
    """Draw estimated counts as bars, one for each label; all sequences have the same length.

    The legend is the caller's.

    An unbiased estimate may be negative, and outside its interval: it is drawn as it is.
    """
    places = np.arange(len(labels))
    thin = len(labels) > 60
    if len(labels) > MOST_BARS:
        edges = np.arange(len(labels) + 1) - 0.5
        axes.stairs(values, edges, fill=True, color=ESTIMATE, alpha=0.45, lw=0, label="estimate")
    else:
        axes.bar(places, values, width=0.8, color=ESTIMATE, alpha=0.45, lw=0, label="estimate")
    axes.vlines(places, lows, highs, color=ESTIMATE, lw=1.0 if thin else 1.8, label="95% interval")
    if truths is not None:
        axes.hlines(truths, places - 0.4, places + 0.4, color=TRUTH, lw=1.8, label=truth)
    axes.axhline(0, color="#8a8f98", lw=0.8)
    axes.set_xlim(-0.7, len(labels) - 0.3)
    _name_bars(axes, labels)


def _name_bars(axes: Axes, labels: Sequence[str]) -> None:
    every = _thinning(len(labels))
    shown = [*range(0, len(labels), every)]
    if (
        shown[-1] != len(labels) - 1
    ):  # the last one says where the values end, and whether larger ones are in it
        shown = [index for index in shown if len(labels) - 1 - index >= 0.7 * every] + [
            len(labels) - 1
        ]
    # A dollar sign would begin a formula.
    words = [_short(labels[index]).replace("$", r"\$") for index in shown]
    turned = len(words) > 5 and max(map(len, words)) > _LONG
    axes.set_xticks(shown, words)
    axes.tick_params(axis="x", labelsize=8.5)
    if turned:
        axes.tick_params(axis="x", rotation=35)
        for name in axes.get_xticklabels():
            name.set_horizontalalignment("right")
            name.set_rotation_mode("anchor")


def _short(name: str) -> str:
    printable = "".join(letter if letter.isprintable() else "�" for letter in name)
    return printable if len(printable) <= _LONGEST else printable[: _LONGEST - 1] + "…"


def _thinning(count: int) -> int:
    """The smallest step among 1, 2, 5, 10, ... at which every step-th label still fits."""
    power = 1
    while 10 * power * MOST_NAMES < count:
        power *= 10
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power * MOST_NAMES >= count)
