"""Views of a guarantee in the papers' terms: adversaries, datasets, distances, noise. Pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from shuffledp.guarantees import guarantee_of, local_of
from shuffledp.plans import Plan, Planned
from shuffledp.views import View, shuffled_plan
from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import KRRHistogram
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.bounds import delta_bounds
from shuffledp_privacy.central import classical_gaussian_sigma, gaussian_sigma
from shuffledp_privacy.histogram import published
from shuffledp_privacy.numerics.rounding import up
from shuffledp_privacy.rounds.composition import Round

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from shuffledp_privacy.bounds import Setting

    Floats = NDArray[np.float64]

MULTIPLES: Final = (0.25, 0.5, 0.75, 1.0, 1.5)
"""Points of a view over ε that names none, as multiples of the certified ε."""

DELTAS: Final = (0.0, 1e-9, 1e-6, 1e-4, 1e-2, 0.1)
"""δ of a view over δ that names none."""

_ANALYSED: Final[frozenset[type]] = frozenset({KRRHistogram})
"""Mechanisms whose adversaries Koskela et al. and Biswas et al. analyse."""

MARGIN: Final = 512
"""Units of `rounding.up`: more than the roundings of each sum and product here."""


def adversaries(
    plan: Planned,
    setting: Setting | None = None,
    epsilons: ArrayLike | None = None,
) -> View:
    """δ(ε) against the weak and the strong adversary of Koskela et al. 2021.

    Both are upper bounds for every dataset.

    The weak one knows which of the other users reported at random, the strong one knows it of every
    user (docs/accounting.md, K9). Columns: `epsilon`, `weak`, `strong`.

    Args:
        plan: a k-RR histogram of one round: a plan, a certificate, or parameters, which need
            `setting`.
        setting: in place of the plan's own.
        epsilons: shape (points,), each > 0, nats.

    Raises:
        UsageError: another mechanism, several rounds, or an ε outside its range.
    """
    full_plan, spec = _histogram(plan, setting)
    points = _epsilons(full_plan, epsilons)
    honest = full_plan.setting.honest
    columns = {
        "epsilon": points,
        "weak": np.array(
            [published.weak_adversary_delta(spec, honest, epsilon) for epsilon in points.tolist()]
        ),
        "strong": np.array(
            [published.strong_adversary_delta(spec, honest, epsilon) for epsilon in points.tolist()]
        ),
    }
    return View(full_plan, "adversaries", {}, columns, ("K9: both are upper bounds of δ",))


def primary_count(
    plan: Planned,
    at_x0: int,
    setting: Setting | None = None,
    epsilons: ArrayLike | None = None,
) -> View:
    """δ(ε) if `at_x0` others hold the primary symbol, n_x0 of Biswas et al. 2023.

    Columns: `epsilon`; `published`, Theorem 1 as printed, no guarantee; `one_bin`, what this
    dataset costs if the adversary looks at one bin alone, never above the truth; `certified`, for
    every dataset (docs/accounting.md, K8).

    Args:
        plan: a k-RR histogram of one round: a plan, a certificate, or parameters, which need
            `setting`.
        at_x0: others that hold the primary symbol, 0 to the honest users - 1; 2 to 2,000 honest
            users.
        setting: in place of the plan's own.
        epsilons: shape (points,), each > 0, nats.

    Raises:
        UsageError: another mechanism, several rounds, or a number outside its range.
    """
    full_plan, spec = _histogram(plan, setting)
    points = _epsilons(full_plan, epsilons)
    honest = full_plan.setting.honest
    epsilon0 = local_of([Round(spec, full_plan.setting)], 0.0).epsilon
    given = (honest, at_x0, spec.symbols, epsilon0)
    columns = {
        "epsilon": points,
        "published": np.array(
            [published.published_theorem_1(*given, epsilon) for epsilon in points.tolist()]
        ),
        "one_bin": np.array(
            [published.corrected_marginal(*given, epsilon) for epsilon in points.tolist()]
        ),
        "certified": np.array(
            [
                delta_bounds(spec, full_plan.setting, epsilon).certified
                for epsilon in points.tolist()
            ]
        ),
    }
    basis = ("K8: published is no guarantee; one_bin is a lower bound, of this dataset",)
    return View(full_plan, "primary", {"at_x0": at_x0}, columns, basis)


def central_gaussian(
    plan: Planned, setting: Setting | None = None, *, delta: float | None = None
) -> View:
    """σ of a trusted curator's Gaussian mechanism with the plan's certified (ε, δ).

    Numbers: `sigma_optimal` (Balle and Wang 2018); `sigma_classical`, the printed 2 ln(1.25/δ)
    Δ²/ε² (Biswas et al. 2022, Definition V.1), None for ε >= 1, where its proof ends;
    `sensitivity`, Δ in the Euclidean norm: √2 for histograms, the largest change for sums.

    Args:
        plan: a plan, a certificate, or parameters, which need `setting`. Standard adjacency.
        setting: in place of the plan's own.
        delta: in place of the plan's own.

    Raises:
        UsageError: metric adjacency, or a parameter outside its range.
    """
    full_plan = shuffled_plan(plan, setting, delta, None)
    if full_plan.setting.adjacency is not Adjacency.STANDARD:
        raise UsageError(
            "Gaussian noise has no guarantee per unit of distance: use standard adjacency"
        )
    epsilon = guarantee_of(full_plan).certified
    reach = _reach(full_plan)
    sensitivity = math.sqrt(2) if reach is None else float(reach)
    numbers: dict[str, float | None] = {
        "sigma_optimal": None,
        "sigma_classical": None,
        "sensitivity": sensitivity,
    }
    if epsilon is not None and epsilon > 0 and full_plan.delta > 0:
        numbers["sigma_optimal"] = gaussian_sigma(sensitivity, epsilon, full_plan.delta)
        if epsilon < 1:
            numbers["sigma_classical"] = classical_gaussian_sigma(
                sensitivity, epsilon, full_plan.delta
            )
    basis = ("S16: sigma_optimal is exact; sigma_classical is proved for ε below 1",)
    return View(full_plan, "gaussian", numbers, {}, basis)


def all_corrupt(
    plan: Planned,
    setting: Setting | None = None,
    deltas: ArrayLike | None = None,
    distances: Sequence[int] | None = None,
) -> View:
    """ε_L, the guarantee if every node is corrupt, by δ and by the largest change.

    The result is never below the truth.

    ε_L is of the whole change, not per unit. Columns: `delta`, and `distance D` for each D;
    mechanisms without a metric have one column, `any change`.

    Args:
        plan: a plan, a certificate, or parameters, which need `setting`.
        setting: in place of the plan's own.
        deltas: shape (points,), each 0 <= δ < 1.
        distances: largest changes, each 1 to the domain's largest; default: powers of ten, and the
            largest.

    Raises:
        UsageError: a δ or a distance outside its range.
    """
    full_plan = replace(shuffled_plan(plan, setting, None, None, corrupt=True), notes=())
    points = np.atleast_1d(np.asarray(DELTAS if deltas is None else deltas, dtype=np.float64))
    if not np.all((points >= 0) & (points < 1)):
        raise UsageError("each delta must be from 0 to below 1")
    reach = _reach(full_plan)
    if reach is None:
        reaches: list[int | None] = [None]
    elif distances is None:
        reaches = [*(10**power for power in range(9) if 10**power < reach), reach]
    else:
        reaches = list(distances)
    columns = {"delta": points}
    for distance in reaches:
        neighbours = replace(full_plan.setting, adjacency=Adjacency.STANDARD, max_distance=distance)
        checked = replace(full_plan, setting=neighbours)
        name = "any change" if distance is None else f"distance {distance}"
        columns[name] = np.array([_local(checked, delta) for delta in points.tolist()])
    return View(full_plan, "corrupt", {}, columns, ("ε_L: each report by itself; rounds added",))


def _local(plan: Plan, delta: float) -> float:
    local = local_of([Round(plan.spec, plan.setting, plan.rounds)], delta)
    return local.epsilon if local.delta <= delta else math.inf


def datasets(
    plan: Planned,
    changes: Sequence[int],
    setting: Setting | None = None,
    *,
    delta: float | None = None,
) -> View:
    """(ε, δ) for datasets that differ in several users' values, from a metric guarantee.

    The result is never below the truth.

    ε per unit stays, at the sum of all distances (Athanasiou et al. 2025, (1)); δ grows: each
    change adds δ e^(ε times the distance of those before it), the smallest first
    (docs/accounting.md, C20). Numbers: `distance`, `epsilon_per_unit`, `epsilon` in all, `delta`;
    None if no finite bound is known.

    Args:
        plan: a plan, a certificate, or parameters, which need `setting`. Metric adjacency.
        changes: for each changed user the distance, 1 to the largest that the plan covers.
        setting: in place of the plan's own.
        delta: δ of one user's change, in place of the plan's own.

    Raises:
        UsageError: standard adjacency, no change, or one that the plan does not cover.
    """
    full_plan = _metric(plan, setting, delta)
    steps = sorted(changes)
    if not steps or len(steps) > full_plan.setting.honest:
        raise UsageError(
            f"give 1 to {full_plan.setting.honest:,} changes, one for each changed user, not "
            f"{len(steps):,}"
        )
    if steps[0] < 1 or (full_plan.max_distance is not None and steps[-1] > full_plan.max_distance):
        raise UsageError(
            f"each change must be from 1 to {full_plan.max_distance}, the largest that the plan "
            "covers"
        )
    certified = guarantee_of(full_plan).certified
    total = sum(steps)
    if certified is None:
        epsilon = spread = None
    else:
        before = itertools.accumulate(steps[:-1], initial=0)
        terms = [math.exp(min(up(certified * reach, MARGIN), 700.0)) for reach in before]
        epsilon = up(certified * total, MARGIN)
        spread = min(1.0, up(full_plan.delta * math.fsum(terms), MARGIN))
    numbers = {
        "distance": total,
        "epsilon_per_unit": certified,
        "epsilon": epsilon,
        "delta": spread,
    }
    return View(full_plan, "datasets", numbers, {}, ("C20: one changed user at a time",))


def growing_delta(
    plan: Planned, setting: Setting | None = None, *, delta: float | None = None
) -> View:
    """ε per unit if δ may grow with the distance: δ e^d for a change by d.

    The result is never below the truth.

    The weaker definition of Athanasiou et al. 2025, footnote 2. Beyond ln(1/δ) it promises nothing,
    as δ e^d is 1 there. Numbers: `epsilon`; `constant_delta`, the certified ε with the same δ at
    every distance; `distance`, from which on nothing is promised.

    Args:
        plan: a plan, a certificate, or parameters, which need `setting`. Metric adjacency, δ > 0.
        setting: in place of the plan's own.
        delta: in place of the plan's own.

    Raises:
        UsageError: standard adjacency, or δ = 0, which does not grow.
    """
    full_plan = _metric(plan, setting, delta)
    if full_plan.delta == 0:
        raise UsageError(
            "at delta 0 this view does not depend on the distance: give a delta above 0"
        )
    end = math.ceil(-math.log(full_plan.delta))
    reach = min(end - 1, full_plan.max_distance or end)
    epsilons = []
    for distance in range(1, reach + 1):
        grown = full_plan.delta * math.exp(distance) / up(1.0, MARGIN)
        if grown < 1:
            neighbours = replace(full_plan.setting, max_distance=distance)
            epsilons.append(
                guarantee_of(replace(full_plan, setting=neighbours, delta=grown)).certified
            )
    worst = (
        None
        if None in epsilons
        else max((epsilon for epsilon in epsilons if epsilon is not None), default=0.0)
    )
    numbers = {
        "epsilon": worst,
        "constant_delta": guarantee_of(full_plan).certified,
        "distance": end,
    }
    return View(
        full_plan,
        "growing-delta",
        numbers,
        {},
        ("a guarantee for changes up to d at δ e^d, for each d",),
    )


def _reach(plan: Plan) -> int | None:
    """Largest change of one user's value; None if the mechanism's values have no distance."""
    return plan.max_distance if hasattr(plan.spec, "max_value") else None


def _metric(plan: Planned, setting: Setting | None, delta: float | None) -> Plan:
    full_plan = shuffled_plan(plan, setting, delta, None)
    if full_plan.setting.adjacency is not Adjacency.METRIC:
        raise UsageError("this view is about distances: use metric adjacency")
    return full_plan


def _histogram(plan: Planned, setting: Setting | None) -> tuple[Plan, KRRHistogram]:
    full_plan = shuffled_plan(plan, setting, None, None)
    if type(full_plan.spec) not in _ANALYSED or full_plan.rounds > 1:
        raise UsageError(
            f"this view needs one round of krr-histogram, not {full_plan.rounds:,} of "
            f"{full_plan.kind}"
        )
    return full_plan, cast("KRRHistogram", full_plan.spec)


def _epsilons(plan: Plan, epsilons: ArrayLike | None) -> Floats:
    if epsilons is None:
        certified = guarantee_of(plan).certified or 1.0
        return np.array([multiple * certified for multiple in MULTIPLES])
    points = np.atleast_1d(np.asarray(epsilons, dtype=np.float64))
    if points.ndim != 1 or not points.size or not np.all(points > 0):
        raise UsageError("the points of this view must be a list of ε above 0")
    return points
