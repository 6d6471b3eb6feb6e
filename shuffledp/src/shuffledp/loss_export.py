"""Export of a guarantee as a privacy loss distribution of the library dp-accounting."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from shuffledp.notebook import import_optional
from shuffledp.plans import DEFAULT_DELTA, Planned, as_plan
from shuffledp_core.errors import CannotCertify, UsageError
from shuffledp_core.runtime.arguments import check_number
from shuffledp_privacy.bounds import Setting, certified_curve, corrupted_bounds
from shuffledp_privacy.rounds.composition import Round, grows_with_distance, largest_distance

if TYPE_CHECKING:
    from numpy.typing import NDArray

DEFAULT_INTERVAL: Final = 1e-3
"""Spacing of the grid of privacy losses, nats."""

MOST_POINTS: Final = 200_001
"""Most points of the grid; a curve is evaluated at each."""

_NEGLIGIBLE: Final = 1e-15
"""δ at which the grid may end: dp-accounting adds it to every result."""


def privacy_loss_distribution(
    plan: Planned,
    setting: Setting | None = None,
    *,
    interval: float = DEFAULT_INTERVAL,
) -> Any:
    """Convert one round of a plan into a `dp_accounting.pld` privacy loss distribution.

    Use it to compose shuffle rounds with mechanisms that dp-accounting knows. The distribution is
    pessimistic: it comes from the certified curve by the connect-the-dots rule (Doroshenko et al.
    2022), so results are never below the truth. δ below about 1e-13 is lost in dp-accounting.

    Args:
        plan: a plan, mechanism spec or certificate; `plan.rounds` and `plan.delta` are not used.
        setting: who takes part, instead of the plan's own setting.
        interval: spacing of the grid, nats, 1e-5 to 1; a finer grid is tighter and slower.

    Returns:
        A `PrivacyLossDistribution` for replacing one person's value by any other that the setting
        allows. ε is total, not per unit, under metric adjacency, too.

    Raises:
        NotInstalledError: dp-accounting is not installed.
        UsageError: an invalid interval, or one that is too fine for the largest loss.
        CannotCertify: the mechanism has no certified curve for this setting.
    """
    check_number("interval", interval)
    if not 1e-5 <= interval <= 1:
        raise UsageError(f"interval must be from 1e-5 to 1, not {interval}")
    losses = import_optional("dp_accounting", "dp-accounting", "a privacy loss distribution").pld
    full_plan = as_plan(plan, setting, delta=DEFAULT_DELTA)
    distance = _distance(full_plan.spec, full_plan.setting)
    steps = _half_width(full_plan.spec, full_plan.setting, distance, interval)
    epsilons = interval * np.arange(-steps, steps + 1, dtype=np.float64)
    deltas = certified_curve(full_plan.spec, full_plan.setting, distance, epsilons)
    masses = losses.pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(
        interval, -steps, steps, _falling(deltas, epsilons)
    )
    return losses.privacy_loss_distribution.PrivacyLossDistribution(masses)


def _distance(spec: object, setting: Setting) -> int:
    """The distance whose curve is above all others."""
    if not grows_with_distance(spec):
        raise CannotCertify(
            f"it is not known that the largest change is the worst one for {type(spec).__name__}, "
            "so its rounds have no single privacy loss distribution: use shuffledp.compose"
        )
    return largest_distance([Round(spec, setting)])


def _half_width(spec: object, setting: Setting, distance: int, interval: float) -> int:
    """Number of grid steps from 0 to the largest loss."""
    width = 1.0
    local = corrupted_bounds(spec, setting, 0.0).epsilon * distance
    while certified_curve(spec, setting, distance, np.array([width]))[0] > _NEGLIGIBLE:
        if width >= local:
            break
        width *= 2
    steps = math.ceil(width / interval)
    if 2 * steps + 1 > MOST_POINTS:
        coarser = 2 * width / (MOST_POINTS - 1)
        raise UsageError(
            f"losses up to {width:g} need an interval of at least {coarser:.2g}, not {interval:g}"
        )
    return steps


def _falling(deltas: NDArray[np.float64], epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
    """Raise a curve as dp-accounting requires: not increasing, and at least 1 - e^ε."""
    least = np.maximum(deltas, -np.expm1(np.minimum(epsilons, 0.0)))
    raised: NDArray[np.float64] = np.maximum.accumulate(least[::-1])[::-1]
    return np.minimum(raised, 1.0)
