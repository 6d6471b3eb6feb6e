"""Compares the mechanisms that can meet a target, with one row for each."""

from __future__ import annotations

import math

from shuffledp_core.errors import CannotCertify, UsageError
from shuffledp_core.mechanisms import MECHANISMS, Answers, Mechanism
from shuffledp_core.runtime.arguments import check_number
from shuffledp_privacy.analysis import Cost, CostAnalysis, analysis_with
from shuffledp_privacy.bounds import epsilon_bounds
from shuffledp_privacy.calibration.calibrate import calibrate
from shuffledp_privacy.calibration.target import Target
from shuffledp_privacy.rounds.composition import Round, compose_bounds


def describe(spec: Mechanism, target: Target, nodes: int) -> CostAnalysis:
    """The row of a given spec in the target's setting, whether or not it meets the target.

    Args:
        spec: the mechanism.
        target: who takes part, and δ.
        nodes: nodes of the route, all of which add their noise if the mechanism has any.

    Raises:
        CannotCertify: the spec has no finite certificate at the target's δ.
    """
    if target.rounds == 1:
        bounds = epsilon_bounds(spec, target.setting, target.delta)
    else:
        bounds = compose_bounds([Round(spec, target.setting, target.rounds)], target.delta)
    return analysis_with(bounds, Cost(spec, target.setting, target.delta), nodes)


def _kinds(target: Target) -> tuple[str, ...]:
    return tuple(
        kind
        for kind, spec in MECHANISMS.items()
        if (target.max_value is not None or spec.answers is Answers.HISTOGRAM)
        and not (spec.for_ranges or spec.counts_columns)
    )


def advise(
    target: Target,
    nodes: int,
    max_error: float | None = None,
    max_messages: int | None = None,
) -> list[CostAnalysis]:
    """Every mechanism within target and limits: fewest messages first, then least error.

    Args:
        target: the guarantee to give; without `max_value` only histograms are considered.
        nodes: nodes of the route.
        max_error: largest standard error accepted, of the sum or of one count; None for any.
        max_messages: most messages per user and round; None for any.

    Raises:
        UsageError: a limit that is not a number above 0.
        CannotCertify: if nothing is left, with the reason for each mechanism.
    """
    for name, limit in (("max-error", max_error), ("max-messages", max_messages)):
        if limit is not None:
            check_number(name, limit)
            if not limit > 0:
                raise UsageError(f"{name} must be above 0, not {limit}")
    rows, refused = [], []
    for kind in _kinds(target):
        try:
            row = describe(calibrate(kind, target), target, nodes)
        except CannotCertify as refusal:
            refused.append(str(refusal))
            continue
        if row.error > (math.inf if max_error is None else max_error):
            refused.append(f"{kind} has a standard error of {row.error:.4g}, above {max_error:g}")
        elif row.messages > (math.inf if max_messages is None else max_messages):
            refused.append(f"{kind} sends {row.messages} messages per user, above {max_messages}")
        else:
            rows.append(row)
    if not rows:
        raise CannotCertify("no mechanism fits: " + "; ".join(refused))
    return sorted(rows, key=lambda row: (row.messages, row.error))
