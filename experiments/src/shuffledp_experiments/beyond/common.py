"""Helpers for several of the new figures: settings, and rows of certified and attained ε."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.errors import CannotCertify
from shuffledp_core.privacy import Adjacency
from shuffledp_experiments import drawing
from shuffledp_experiments.entry import Kind, Results, Row
from shuffledp_privacy.bounds import Bounds, Setting, epsilon_bounds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DELTA: Final = 1e-6
"""δ of every new figure that does not say another."""

NAN: Final = math.nan


def standard(users: int) -> Setting:
    """Setting with `users` honest users, and any change of one value."""
    return Setting(users, users)


def metric(users: int, d_max: int) -> Setting:
    """Setting with `users` honest users, changes by up to `d_max`, and ε per unit."""
    return Setting(users, users, Adjacency.METRIC, d_max)


def both_sides(spec: object, setting: Setting, delta: float = DELTA) -> Bounds:
    """Certified and attained ε; the certified ε is infinite without a certificate."""
    try:
        return epsilon_bounds(spec, setting, delta)
    except CannotCertify as refusal:
        return Bounds(math.inf, 0.0, None, (str(refusal),))


def epsilon_rows(
    xs: Iterable[float],
    bounds: Callable[[Any], Bounds],
    x_name: str,
    series: str = "",
    **settings: object,
) -> list[Row]:
    """A certified and an attained row for each x; NaN without a certificate.

    Args:
        xs: values at which `bounds` is evaluated.
        bounds: function from x to a certified and an attained bound.
        x_name: name of x.
        series: words before "certified" and "attained", such as a panel's name.
        settings: settings of every row.
    """
    both_sides = [(x, bounds(x)) for x in xs]
    return [
        Row(
            f"{series} {kind}".strip(),
            kind,
            x_name,
            x,
            "ε (nats)",
            finite(getattr(both, kind)),
            settings=settings,
        )
        for kind in (Kind.CERTIFIED, Kind.ATTAINED)
        for x, both in both_sides
    ]


def finite(value: float | None) -> float:
    """The value, or NaN if it is not finite: an empty cell in the CSV."""
    return NAN if value is None or not math.isfinite(value) else value


SIDE_STYLES: Final[Mapping[Kind, Mapping[str, Any]]] = {
    Kind.CERTIFIED: {"lw": 3.4},
    Kind.ATTAINED: {"lw": 1.5, "ls": (0, (4, 3))},
}
"""The two sides are often one line on paper: the upper one is wide, the lower one dashed on it."""


def draw_sides(axes: Axes, result: Results, certified: str, attained: str) -> None:
    """Plot certified and attained values so that both are visible where they agree."""
    for kind, series in ((Kind.CERTIFIED, certified), (Kind.ATTAINED, attained)):
        drawing.line(axes, result, series, label=str(kind), **SIDE_STYLES[kind])


def logarithmic(axes: Axes, which: str = "xy") -> None:
    """Make axes logarithmic, with plain numbers at their ticks.

    Call it after everything is drawn.
    """
    from matplotlib.ticker import LogLocator, NullFormatter

    for name in which:
        axis = axes.xaxis if name == "x" else axes.yaxis
        (axes.set_xscale if name == "x" else axes.set_yscale)("log")
        low, high = axes.get_xlim() if name == "x" else axes.get_ylim()
        axis.set_major_formatter(_plain)
        if high / low > FEW_TICKS:
            axis.set_minor_formatter(NullFormatter())
        else:
            axis.set_minor_locator(
                LogLocator(subs=(2, 5) if high / low > FEW_TICKS / 10 else range(2, 10))
            )
            axis.set_minor_formatter(_plain)


def _plain(value: float, _: object = None) -> str:
    """Format a number in its most readable form: 0.01, 1000, 1e5."""
    return (
        f"{value:g}"
        if 1e-3 <= value < 1e5
        else f"{value:.0e}".replace("e+0", "e").replace("e-0", "e-")
    )


FEW_TICKS: Final = 30.0
"""An axis that spans less shows numbers between the powers of ten, too."""


def values_of(rows: Iterable[Row], series: str) -> NDArray[np.float64]:
    """The y values of one series, in the order of its rows."""
    return np.array([row.y for row in rows if row.series == series], dtype=np.float64)
