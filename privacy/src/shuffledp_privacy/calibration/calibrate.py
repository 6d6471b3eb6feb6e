"""Calibration: from a target (ε, δ) to the exactly samplable mechanism with the least error.

The search only proposes: whatever `calibrate` returns was certified with the rounded parameters, so
its soundness depends only on the analyses (docs/accounting.md, proposition C11).
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from msgspec import structs

from shuffledp_core.errors import CannotCertify, ParameterError
from shuffledp_core.mechanisms import Mechanism, PaddedSpec
from shuffledp_core.mechanisms.work import check_work
from shuffledp_privacy.bounds import corrupted_bounds, standard_error
from shuffledp_privacy.calibration.families import (
    PRECISION_BITS,
    Family,
    family_of,
)
from shuffledp_privacy.calibration.target import Target, certified_epsilon_of, excess
from shuffledp_privacy.numerics.search import bisect_whole

SEARCH_TOLERANCE = 3e-4
"""Width of the final bracket in the logarithm of the parameter."""

NEAR = {"delta": 1e-2, "epsilon": 5e-4}
"""A passing parameter this close to the target, in ln δ or ln ε, is not searched further."""

ROUGH = 5e-3
"""Certified so much below the target is searched once more, for rounds that the search only
estimates.
"""

_MOST_STEPS = 40

_MOST_CORRECTIONS = 2

__all__ = ["Target", "calibrate", "certified_epsilon_of"]


class _Search:
    """Search for the least noise along t = ln of its amount, over rounded parameters only."""

    def __init__(self, family: Family, target: Target) -> None:
        self._family, self._target = family, target
        self._sign = 1.0 if family.rising else -1.0
        self._last = self._sign * math.log(family.safest)
        self._excesses: dict[Mechanism, float] = {}

    def _parameter(self, t: float) -> Fraction:
        return self._family.round_parameter(math.exp(self._sign * min(t, self._last)))

    def _excess(self, t: float) -> float:
        # A family may end before its parameters do: what it builds then is looked at once.
        spec = self._family.build(self._parameter(t))
        if spec not in self._excesses:
            self._excesses[spec] = excess(spec, self._target)
        return self._excesses[spec]

    def _bracket(self) -> tuple[float, float, float, float]:
        """A failing and a passing pair (t, excess), by steps that grow geometrically."""
        t = min(self._sign * math.log(self._family.guess), self._last)
        value, step = self._excess(t), 0.1
        failing = value > 0
        while step < 100:
            after = min(t + step, self._last) if failing else t - step
            if failing and t >= self._last:
                self._refuse_unless_certified()
                return t, value, t, 0.0
            new = self._excess(after)
            if (new > 0) != failing:
                return (t, value, after, new) if failing else (after, new, t, value)
            t, value, step = after, new, 2 * step
        return t - step, math.inf, t, value

    def _refuse_unless_certified(self) -> None:
        """Refuse the target unless the safest parameter is certified for it after all."""
        spec = self._family.build(self._parameter(self._last))
        if certified_epsilon_of(spec, self._target) > self._target.epsilon:
            raise self._family.refusal(self._target)

    def least(self) -> Fraction:
        """The parameter with the least noise that passes, to about `SEARCH_TOLERANCE`.

        Raises:
            CannotCertify: if even the safest parameter fails.
        """
        bad, high, good, low = self._bracket()
        near = NEAR["delta" if self._target.rounds == 1 else "epsilon"]
        slack, last = low, 0
        for step in range(_MOST_STEPS):
            if (
                slack > -near
                or good - bad <= SEARCH_TOLERANCE
                or self._parameter(good) == self._parameter(bad)
            ):
                break
            # Every fourth step halves: a curve that bends much cannot hold up the search.
            share = high / (high - low) if math.isfinite(high) and step % 4 != 3 else 0.5
            middle = bad + (good - bad) * min(max(share, 0.02), 0.98)
            value = self._excess(middle)
            # Illinois: an end that stays twice in a row is given half its weight, so that the other
            # moves far.
            if value > 0:
                bad, high, low, last = middle, value, low / (2 if last > 0 else 1), 1
            else:
                good, low, slack, high, last = (
                    middle,
                    value,
                    value,
                    high / (2 if last < 0 else 1),
                    -1,
                )
        return self._parameter(good)


def _trim_padding(family: Family, parameter: Fraction, target: Target) -> Mechanism:
    """Reduce the padding as far as a slight increase of the noise allows."""
    if isinstance(spec := family.build(parameter), PaddedSpec) and family.spare > 0:
        spec = _with_padding(
            family.build(family.round_parameter(float(parameter) * (1 - family.spare))),
            spec.padding,
        )
    if not isinstance(spec, PaddedSpec):
        return spec
    padding = bisect_whole(
        lambda padding: excess(_with_padding(spec, padding), target) <= 0,
        passing=spec.padding,
        failing=min(family.least_padding(parameter), spec.padding) - 1,
    )
    return _with_padding(spec, padding)


def _search_again(family: Family, target: Target) -> Fraction | None:
    """Search again with a corrected aim; returns None if no parameter is found."""
    try:
        return _Search(family, target).least()
    except CannotCertify:
        return None


def _with_padding(spec: Mechanism, padding: int) -> Mechanism:
    return structs.replace(spec, padding=padding)


def calibrate(kind: str, target: Target) -> Mechanism:
    """The mechanism of this kind with the least error that meets the target, ε_L included.

    It is the result of `_least_error`, checked against the target's limit of ε_L and against the
    work that devices and nodes accept.

    Raises:
        UsageError: the kind is unknown, or the target lacks what the kind needs.
        CannotCertify: no parameter is enough, and the message states the least possible ε; or the
            noise takes too long to draw.
    """
    spec = _least_error(kind, target)
    try:
        check_work(spec)
    except ParameterError as error:
        raise CannotCertify(str(error)) from error
    limit = target.epsilon_local
    if limit is not None:
        local = corrupted_bounds(spec, target.setting, target.delta).epsilon
        if not local <= limit:
            raise CannotCertify(
                f"{kind} keeps epsilon {local:.4g} if every node is corrupt, above {limit:g}"
            )
    return spec


def _least_error(kind: str, target: Target) -> Mechanism:
    """The mechanism of this kind with the least error whose certificate meets the target.

    The result's parameters are rationals whose denominator is a power of two, at most 2^20 unless
    the parameter itself is below 1/512. The rounded parameters are certified again, so that the
    certified ε is never above `target.epsilon` (proposition C11). The noise is
    within about 1/2048 of the least that the certificate allows.

    Args:
        kind: one of `MECHANISMS`.
        target: the guarantee to give.

    Raises:
        UsageError: the kind is unknown, or the target lacks what the kind needs.
        CannotCertify: if no parameter is enough; the message states the least possible ε.
    """
    family = family_of(kind, target)
    parameter, spec = _propose(family, target)
    aim = target
    looser: Mechanism | None = None
    for attempt in range(_MOST_STEPS):
        # Pure noise meets every target and answers nothing.
        if math.isinf(standard_error(spec, target.users)):
            raise CannotCertify(
                f"{kind} meets epsilon {target.epsilon:g} only with noise that hides every value"
            )
        certified = certified_epsilon_of(spec, target)
        is_met = certified <= target.epsilon
        if looser is not None:
            return spec if is_met else looser
        can_correct = attempt < _MOST_CORRECTIONS and _is_estimate(spec, certified, target)
        if is_met and (not can_correct or certified > target.epsilon * (1 - ROUGH)):
            return spec
        if can_correct:
            # The search's estimate may be off by some percent: now it is known by how much.
            # A fifth of what is called rough is left below the target: the estimate is not exact.
            wanted = target.epsilon * (1 - ROUGH / 5)
            aim = replace(aim, epsilon=min(100.0, aim.epsilon * wanted / certified))
            corrected = _search_again(replace(family, guess=float(parameter)), aim)
            if corrected is not None and family.build(corrected) != spec:
                looser = spec if is_met else None
                parameter = corrected
                spec = family.build(parameter)
                continue
        if is_met:
            return spec
        steps = _steps_to_noisier(spec, certified, target, attempt)
        parameter = family.noisier(parameter, steps)
        spec = family.build(parameter)
    raise family.refusal(target)


def _propose(family: Family, target: Target) -> tuple[Fraction, Mechanism]:
    """The parameter and mechanism that the search proposes, not certified yet."""
    parameter = _Search(family, target).least()
    spec = _trim_padding(family, parameter, target)
    if not isinstance(spec, PaddedSpec):
        return parameter, spec
    # Paddings are whole numbers: what the last one leaves of δ goes to the noise.
    padding = spec.padding
    fixed = replace(
        family,
        build=lambda value: _with_padding(family.build(value), padding),
        guess=float(parameter),
    )
    parameter = _Search(fixed, target).least()
    return parameter, fixed.build(parameter)


def _is_estimate(spec: Mechanism, certified: float, target: Target) -> bool:
    """True if the search only estimates this spec's ε, so that the certificate may correct it."""
    return target.rounds > 1 and not isinstance(spec, PaddedSpec) and 0 < certified < math.inf


def _steps_to_noisier(spec: Mechanism, certified: float, target: Target, attempt: int) -> int:
    """Number of steps to a noisier parameter if the certified ε exceeds the target.

    They double from attempt to attempt, so that the safest parameter comes last.
    """
    doubling: int = 2**attempt // 2
    # The padding that the estimate saved comes first.
    if attempt == 0 and isinstance(spec, PaddedSpec):
        return doubling
    # As much at once as ε is too large: a step is a 2^-11th at most, and ε changes no faster than
    # the parameter.
    missing = int(2.0**PRECISION_BITS * min(certified / target.epsilon - 1, 1.0))
    return max(doubling, missing + 1 if attempt == 0 else missing)
