"""Bounds for basic RAPPOR (Erlingsson, Pihur, Korolova 2014), shuffled: one round, and all rounds
of a question (K14).

One round of people who were never asked before is a unary code (K11). Rounds of the same question
share the response that devices keep: they are no composition. What is certified for all of them,
however many and whoever takes part, is the local guarantee of that response, and `certified_curve`,
on which composition and ledger build, is its curve.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.mechanisms import RapporHistogram
from shuffledp_privacy.bounds import (
    Bounds,
    CorruptedBounds,
    Setting,
    certified_curve,
    corrupted_bounds,
    delta_bounds,
    epsilon_bounds,
    standard_error,
)
from shuffledp_privacy.local.encodings import UnaryEncoding
from shuffledp_privacy.local.matrix import LocalMatrix

ALONE = Setting(users=1, honest=1)
_NOTHING = LocalMatrix(((Fraction(1),), (Fraction(1),)))


def one_report(spec: RapporHistogram) -> UnaryEncoding | LocalMatrix:
    """The report of a user who was never asked before."""
    low, high = spec.reported
    return UnaryEncoding(spec.symbols, high, low) if low < high else _NOTHING


def kept_response(spec: RapporHistogram) -> UnaryEncoding | LocalMatrix:
    """The permanent response: all reports of a question that a user ever makes are drawn from
    it.
    """
    half = spec.fake / 2
    return UnaryEncoding(spec.symbols, 1 - half, half) if spec.fake < 1 else _NOTHING


@delta_bounds.register
def _(spec: RapporHistogram, setting: Setting, epsilon: float) -> Bounds:
    return _for_one_round(delta_bounds(one_report(spec), setting, epsilon))


@epsilon_bounds.register
def _(spec: RapporHistogram, setting: Setting, delta: float) -> Bounds:
    return _for_one_round(epsilon_bounds(one_report(spec), setting, delta))


def _for_one_round(bounds: Bounds) -> Bounds:
    line = (
        "of this round alone: rounds of one question share the kept response and are charged "
        "together (K14)"
    )
    return replace(bounds, basis=(*bounds.basis, line))


@corrupted_bounds.register
def _(spec: RapporHistogram, setting: Setting, delta: float) -> CorruptedBounds:
    """ε∞ of the kept response: it bounds all reports of the question together, not this one
    alone.
    """
    found = corrupted_bounds(kept_response(spec), setting, delta)
    line = "all reports of the question, of however many rounds: the kept response, pure (K14)"
    return CorruptedBounds(found.epsilon, found.delta, (line,))


@certified_curve.register
def _(
    spec: RapporHistogram, setting: Setting, distance: int, epsilons: NDArray[np.float64]
) -> NDArray[np.float64]:
    del (
        setting
    )  # who takes part may change from round to round: nobody is counted on to hide anybody
    return certified_curve(kept_response(spec), ALONE, distance, epsilons)


@standard_error.register
def _(spec: RapporHistogram, users: int) -> float:
    """Standard error of one count at worst, of one round: its bit is set in Bin(n_s, q*) + Bin(n -
    n_s, p*) reports.
    """
    low, high = (float(chance) for chance in spec.reported)
    if low == high:
        return math.inf
    return math.sqrt(users * max(low * (1 - low), high * (1 - high))) / (high - low)
