"""δ(ε) of one question from both sides, computed and drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from shuffledp_accountant.numerics import clones, geo
from shuffledp_accountant.numerics.bounds import Setting, delta_bounds, epsilon_bounds
from shuffledp_accountant.numerics.composition import Round, compose_delta
from shuffledp_core.errors import CannotCertify, ConfigError, UsageError
from shuffledp_core.mechanisms import GeoShuffle, SGDLShuffle
from shuffledp_sim.accounting.answers import Answer
from shuffledp_sim.accounting.questions import Question
from shuffledp_sim.accounting.tables import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

ENDINGS: Final = (".png", ".svg", ".pdf")
POINTS: Final = 33
COMPOSED_POINTS: Final = 13
"""A composed curve costs about as much at every point as a whole answer."""

_CERTIFIED: Final = "#2a6f97"
_ATTAINED: Final = "#3f9b6c"
_PUBLISHED: Final = "#e07a1f"
_QUIET: Final = "#8a8f98"

_CLOSED_FORMS: Final[dict[type, Callable[[Any, Setting, float], float | None]]] = {
    clones.LocalRandomiser: lambda spec, setting, delta: clones.feldman_2021(spec.epsilon0, setting.honest, delta),
    GeoShuffle: lambda spec, setting, delta: geo.published_epsilon(spec.epsilon_geo, setting.users, delta),
    SGDLShuffle: lambda spec, setting, delta: epsilon_bounds(spec, setting, delta).published,
}
"""Published formulas that give ε for δ, by spec, where the analysis has no δ for ε."""


@dataclass(frozen=True, slots=True)
class Curves:
    """Three curves. Empty arrays where there is no such curve; δ = 0 stands where a curve ends.

    Attributes:
        epsilons: rising, nats, for the first two.
        certified: δ, never below the truth; 1 where nothing can be certified.
        attained: δ that a concrete dataset is known to cost.
        published: (ε, δ) points of the paper's formula, two rows.
        floor: smallest δ of interest.
    """

    epsilons: Floats
    certified: Floats
    attained: Floats
    published: Floats
    floor: float


def check_plot(file: Path) -> None:
    """Refuses a file whose ending names no format we draw; raises UsageError."""
    if file.suffix.lower() not in ENDINGS:
        raise UsageError(f"plot must be a file that ends in {', '.join(ENDINGS)}, not {str(file)!r}")


def curves(found: Answer) -> Curves:
    """The curves around the asked point, never further than ε_L."""
    asked = found.question
    floor = max(asked.delta * 1e-3, 1e-12) if asked.delta > 0 else 1e-12
    seen = [value for value in (found.certified, found.attained, found.published) if value]
    right = 1.6 * max(seen, default=found.corrupted_epsilon or 1.0)
    if found.corrupted_epsilon is not None:
        right = min(right, 1.08 * found.corrupted_epsilon)
    composed = asked.rounds > 1
    epsilons = np.linspace(0.0, right, COMPOSED_POINTS if composed else POINTS)
    epsilons = np.unique(np.append(epsilons, seen)) if not composed else epsilons
    setting = asked.setting
    if asked.all_corrupt:
        setting = Setting(setting.users, 1, setting.adjacency, setting.max_distance)
    singles = [_single(asked, setting, float(epsilon)) for epsilon in epsilons]
    return Curves(
        epsilons=epsilons,
        certified=_certified(found, epsilons, singles),
        attained=np.array([single[1] for single in singles]),
        published=_published(found, epsilons, singles, floor),
        floor=floor,
    )


Single = tuple[float, float, float | None]
"""δ of one round: certified, attained, published."""


def _single(asked: Question, setting: Setting, epsilon: float) -> Single:
    try:
        bounds = delta_bounds(asked.spec, setting, epsilon)
    except CannotCertify:
        return 1.0, 0.0, None
    return bounds.certified, bounds.attained, bounds.published


def _certified(found: Answer, epsilons: Floats, singles: list[Single]) -> Floats:
    asked = found.question
    if asked.all_corrupt:
        limit = np.inf if found.corrupted_epsilon is None else found.corrupted_epsilon
        return np.where(epsilons >= limit, found.corrupted_delta, 1.0)
    if asked.rounds == 1:
        return np.array([single[0] for single in singles])
    rounds = [Round(asked.spec, asked.setting, asked.rounds)]
    try:
        return np.array([compose_delta(rounds, float(epsilon)) for epsilon in epsilons])
    except CannotCertify:
        return np.ones_like(epsilons)


def _published(found: Answer, epsilons: Floats, singles: list[Single], floor: float) -> Floats:
    asked = found.question
    nothing = np.empty((2, 0))
    if asked.rounds > 1 or asked.all_corrupt:
        return nothing
    printed = [(epsilon, one[2]) for epsilon, one in zip(epsilons, singles, strict=True) if one[2] is not None]
    if len(printed) > 1:
        return np.array(printed, dtype=np.float64).T
    form = _CLOSED_FORMS.get(type(asked.spec))
    if form is None or found.published is None:
        return nothing
    deltas = np.geomspace(floor, 0.1, 17)
    points = [(form(asked.spec, asked.setting, float(delta)), delta) for delta in deltas]
    return np.array([point for point in points if point[0] is not None], dtype=np.float64).reshape(-1, 2).T


def draw(found: Answer, file: Path) -> None:
    """Writes the picture; raises ConfigError where that is not possible."""
    from matplotlib.figure import Figure

    lines = curves(found)
    figure = Figure(figsize=(8.6, 5.2), dpi=140, layout="constrained")
    axes = figure.subplots()
    _draw_curves(axes, found, lines)
    _mark(axes, found, lines)
    _dress(axes, found, lines)
    try:
        figure.savefig(file)
    except OSError as error:
        raise ConfigError(f"cannot write the plot {file}: {error.strerror}; check the folder") from error


def _draw_curves(axes: Axes, found: Answer, lines: Curves) -> None:
    bottom = lines.floor / 10
    upper, lower = (np.maximum(values, bottom) for values in (lines.certified, lines.attained))
    rounds = found.question.rounds
    axes.plot(lines.epsilons, upper, color=_CERTIFIED, lw=2.4, label="certified: true for every dataset", zorder=4)
    single = f" (by one of the {rounds:,} rounds)" if rounds > 1 else ""
    axes.plot(
        lines.epsilons, lower, color=_ATTAINED, lw=1.8, ls=(0, (5, 2)), label=f"attained by a dataset{single}", zorder=5
    )
    axes.fill_between(lines.epsilons, lower, upper, color=_CERTIFIED, alpha=0.10, lw=0, label="the truth lies here")
    if lines.published.size:
        axes.plot(
            lines.published[0],
            np.maximum(lines.published[1], bottom),
            color=_PUBLISHED,
            lw=1.8,
            ls="-.",
            label="published formula, for comparison",
            zorder=3,
        )


def _mark(axes: Axes, found: Answer, lines: Curves) -> None:
    """The asked δ, the certified ε at it, and ε_L where it is near."""
    asked = found.question
    if asked.delta > 0:
        axes.axhline(asked.delta, color=_QUIET, lw=1, ls=":", zorder=1)
        axes.annotate(
            f"δ = {asked.delta:g}",
            (1, asked.delta),
            xycoords=("axes fraction", "data"),
            xytext=(-4, 4),
            textcoords="offset points",
            ha="right",
            fontsize=9,
            color=_QUIET,
        )
    if found.certified is not None and asked.delta > 0:
        axes.plot([found.certified], [asked.delta], "o", color=_CERTIFIED, ms=8, mec="white", mew=1.2, zorder=6)
        axes.annotate(
            f"ε = {number(found.certified)}",
            (found.certified, asked.delta),
            xytext=(8, 10),
            textcoords="offset points",
            fontsize=10,
            color=_CERTIFIED,
            weight="bold",
        )
    local = found.corrupted_epsilon
    if local is not None and local <= lines.epsilons[-1]:
        axes.axvline(local, color=_QUIET, lw=1, zorder=1)
        axes.annotate(
            f"ε_L = {number(local)}\nall nodes corrupt",
            (local, 0.97),
            xycoords=("data", "axes fraction"),
            xytext=(-5, 0),
            textcoords="offset points",
            ha="right",
            va="top",
            fontsize=8.5,
            color=_QUIET,
        )


def _dress(axes: Axes, found: Answer, lines: Curves) -> None:
    asked = found.question
    unit = ", per unit of distance" if asked.per_unit else ""
    axes.set_yscale("log")
    axes.set(
        xlim=(0, lines.epsilons[-1]),
        ylim=(lines.floor, 2),
        xlabel=f"ε in nats{unit}",
        ylabel="δ",
    )
    over = f", {asked.rounds:,} rounds" if asked.rounds > 1 else ""
    settings = ", ".join(f"{name} = {value}" for name, value in asked.parameters.items())
    axes.set_title(
        f"{asked.kind}, {asked.setting.honest:,} of {asked.setting.users:,} users honest{over}\n",
        fontsize=12,
        loc="left",
    )
    axes.text(0, 1.02, settings, transform=axes.transAxes, fontsize=8.5, color=_QUIET)
    axes.grid(visible=True, which="major", color=_QUIET, alpha=0.18, lw=0.7)
    axes.legend(loc="lower left", frameon=True, framealpha=0.9, edgecolor="none", fontsize=9)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
