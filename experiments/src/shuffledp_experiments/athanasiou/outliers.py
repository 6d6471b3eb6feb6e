"""What an outlier reveals among shuffled numbers, and what message lengths reveal (paper 002)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from shuffledp_experiments import drawing
from shuffledp_experiments.athanasiou import printed
from shuffledp_experiments.entry import (
    Kind,
    PaperClaim,
    Results,
    Row,
    RunInputs,
    Verdict,
)
from shuffledp_privacy.sums.errors import ErrorLaw, sgdl_error

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Floats = NDArray[np.float64]


def right_by_largest(law: ErrorLaw, users: int, distance: int) -> float:
    """P(right guess) between `distance` and 0 for the far user, from the largest noisy number.

    All others hold 0.

    Args:
        law: law of one user's noise.
        users: the far one among them.
        distance: distance of the far value.
    """
    below = np.cumsum(law.mass)
    points = np.arange(law.errors[0], law.errors[-1] + distance + 1)

    def chance(limit: Floats) -> Floats:
        at = np.clip(limit - law.errors[0], -1, law.errors.size - 1).astype(np.int64)
        return np.where(at < 0, 0.0, np.minimum(below[at], 1.0))

    others = chance(points) ** (users - 1)
    return float(0.5 + 0.5 * np.max(others * (chance(points) - chance(points - distance))))


def right_by_sum(law: ErrorLaw, distance: int) -> float:
    """Probability of a right guess from one noisy number: (1 + total variation)/2."""
    padded = np.concatenate([law.mass, np.zeros(distance)])
    moved = np.concatenate([np.zeros(distance), law.mass])
    return float(0.5 + 0.25 * np.abs(padded - moved).sum())


def run_attacks(work: RunInputs) -> Results:
    """Section 4.1's outlier among shuffled numbers, and section 8's message lengths.

    Exact chances of both.
    """
    users, epsilon, delta, rows = work["users"], work["epsilon"], work["delta"], []
    rate = printed.present(printed.geo_parameter(epsilon, delta, users))
    single = sgdl_error(1.0, rate)
    total = sgdl_error(float(users), rate)
    settings = {"n": users, "epsilon": epsilon, "epsilon_geo": rate}
    views: dict[str, Callable[[int], float]] = {
        NUMBERS: lambda d: right_by_largest(single, users, d),
        BITS: lambda d: right_by_sum(total, d),
        LENGTH: lambda d: right_by_sum(single, d),
    }
    chances = {name: {d: view(d) for d in work["d"]} for name, view in views.items()}
    for name, values in chances.items():
        rows += [
            Row(name, Kind.EXACT, "d", d, "chance of a right guess", y, settings=settings)
            for d, y in values.items()
        ]
    claims = []
    for statement, open_view in (
        ("section 4.1: an outlier is seen among shuffled numbers, not among bits", NUMBERS),
        (
            "section 8: a length that depends on the value tells it, one that does not hides it",
            LENGTH,
        ),
    ):
        gap, at = max((chances[open_view][d] - chances[BITS][d], d) for d in work["d"])
        claims.append(
            PaperClaim(
                statement,
                Verdict.SOUND if gap > 0.25 else Verdict.NOT_REPRODUCED,
                f"d = {at}: guessed right with {chances[open_view][at]:.3f} against "
                f"{chances[BITS][at]:.3f}",
            )
        )
    return Results(
        tuple(rows),
        tuple(claims),
        ("attack outlier and attack length play both with the clients' own code",),
    )


NUMBERS: Final = "noisy numbers shuffled, the largest is seen"


BITS: Final = "bits shuffled, equally many from everybody"


LENGTH: Final = "only the ones sent, the length is seen"


def draw_attacks(result: Results) -> Figure:
    """Plot the probability of a right guess by the distance of the far value."""
    figure, axes = drawing.panels(width=7.2, height=4.6)
    panel = axes[0, 0]
    for index, name in enumerate((LENGTH, NUMBERS, BITS)):
        drawing.line(
            panel, result, name, color=(drawing.CYCLE[1], drawing.CYCLE[4], drawing.CYCLE[2])[index]
        )
    panel.axhline(0.5, color=drawing.QUIET, ls=":", lw=1)
    panel.set_xscale("log")
    panel.set_xlabel("far value d (everybody else holds 0)")
    panel.set_ylabel("chance to guess right: d or 0?")
    settings = result.rows[0].settings
    panel.set_title(
        "Bits of equal number hide what numbers and lengths show "
        f"(n = {settings['n']}, ε_geo = {settings['epsilon_geo']:.2f})",
        fontsize=10,
    )
    drawing.legend_below(figure, columns=2)
    return figure
