"""Analysis of shuffled basic RAPPOR: one round, and all rounds of a question (K14).

Erlingsson, Pihur, Korolova 2014.

One round of people who were never asked before is a unary code (K11). Rounds of the same question
share the memoised response, so they are not composed. The certificate for all of them, for any
number of rounds and any users, is the local guarantee of that response. Its curve is
`certified_curve`, which composition and ledger use.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.errors import CannotCertify
from shuffledp_core.mechanisms import Mechanism, RapporHistogram
from shuffledp_core.mechanisms.rappor import MOST_SYMBOLS
from shuffledp_privacy.analyses import Analysis, analyses
from shuffledp_privacy.bounds import (
    Bounds,
    CorruptedBounds,
    Setting,
    certified_curve,
    certified_epsilon,
    corrupted_bounds,
    delta_bounds,
    epsilon_bounds,
)
from shuffledp_privacy.calibration.families import Family, deviations
from shuffledp_privacy.calibration.target import (
    AIM,
    Target,
)
from shuffledp_privacy.local.encodings import UnaryEncoding
from shuffledp_privacy.local.matrix import LocalMatrix
from shuffledp_privacy.primitives.contour import Floats

ALONE = Setting(users=1, honest=1)


_NOTHING = LocalMatrix(((Fraction(1),), (Fraction(1),)))

KEPT_FAKE = Fraction(1, 2)
"""f of a kept response, always: then all rounds of a question share one, and together cost 2 ln 3 =
2.1972 at most.
"""

LEAST_BLUR = Fraction(1, 64)
"""Least r of reports of a kept response: two of the same one are to differ sometimes."""


def one_report(spec: RapporHistogram) -> UnaryEncoding | LocalMatrix:
    """The local randomiser of a user's first report on a question, as its analysis takes it."""
    low, high = spec.report_chances
    return UnaryEncoding(spec.symbols, high, low) if low < high else _NOTHING


def kept_response(spec: RapporHistogram) -> UnaryEncoding | LocalMatrix:
    """The permanent response as a local randomiser, on which all reports depend."""
    half = spec.fake / 2
    return UnaryEncoding(spec.symbols, 1 - half, half) if spec.fake < 1 else _NOTHING


@analyses(RapporHistogram)
@dataclass(frozen=True, slots=True)
class RapporHistogramAnalysis(Analysis):
    """Analysis of one round, and of all rounds that share a memoised response."""

    spec: RapporHistogram
    grows_with_distance = True  # all changes of a value are the same change

    def delta(self, setting: Setting, epsilon: float) -> Bounds:
        """Certified and attained δ of one round."""
        return _for_one_round(delta_bounds(one_report(self.spec), setting, epsilon))

    def epsilon(self, setting: Setting, delta: float) -> Bounds:
        """Certified and attained ε of one round."""
        return _for_one_round(epsilon_bounds(one_report(self.spec), setting, delta))

    def certified_epsilon(self, setting: Setting, delta: float) -> float:
        """Only the certified ε, without the work for the attained one."""
        return certified_epsilon(one_report(self.spec), setting, delta)

    def corrupted_bounds(self, setting: Setting, delta: float) -> CorruptedBounds:
        """ε∞ of the memoised response, which bounds all reports to the question together."""
        bounds = corrupted_bounds(kept_response(self.spec), setting, delta)
        line = "all reports of the question, of however many rounds: the kept response, pure (K14)"
        return CorruptedBounds(bounds.epsilon, bounds.delta, (line,))

    def standard_error(self, users: int) -> float:
        """Standard error of one count in one round, in the worst case.

        Its bit is set in Bin(n_s, q*) + Bin(n - n_s, p*) reports.
        """
        low, high = (float(chance) for chance in self.spec.report_chances)
        if low == high:
            return math.inf
        return math.sqrt(users * max(low * (1 - low), high * (1 - high))) / (high - low)

    def curve(
        self, setting: Setting, distance: int, epsilons: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """δ at each total ε, for a change by exactly `distance`."""
        del (
            setting
        )  # who takes part may change from round to round: no one is counted on to hide anyone
        return certified_curve(kept_response(self.spec), ALONE, distance, epsilons)

    def log_likelihood(self, answers: NDArray[np.int64]) -> Floats:
        """Log-likelihood of the bits: p* for each other symbol's bit, q* for the value's.

        It is the likelihood of a single report.
        """
        low, high = (float(chance) for chance in self.spec.report_chances)
        set_bits = answers[:, None] >> np.arange(self.spec.symbols) & 1
        others = np.where(set_bits == 1, math.log(low), math.log1p(-low))
        of_value = np.where(set_bits == 1, math.log(high), math.log1p(-high))
        return np.asarray(others.sum(axis=1, keepdims=True) - others + of_value)

    @staticmethod
    def family(target: Target) -> Family:
        """The family of specs along r = 2p = 2(1-q); f is fixed, it identifies a response (K14)."""
        if target.bins > MOST_SYMBOLS:
            raise CannotCertify(
                f"{RapporHistogram.kind} has at most {MOST_SYMBOLS} symbols, one bit each in one "
                f"message, not {target.bins}"
            )
        fake = KEPT_FAKE if target.rounds == 1 else _fake_for(target.epsilon)

        def build(r: Fraction) -> Mechanism:
            half = min(max(r, LEAST_BLUR), Fraction(1)) / 2
            return RapporHistogram(
                symbols=target.bins, fake=fake, when_zero=half, when_one=1 - half
            )

        # Several rounds cost what the kept response does, whatever r is.
        if target.rounds > 1:
            return Family(build, float(LEAST_BLUR), 1.0, rising=True)
        # One report is pure with ε0 = 2 ln((1+s)/(1-s)), s = (1-f)(1-r).
        slope = math.tanh(target.epsilon / 4) * (1 - 1e-4)
        guess = target.epsilon / deviations(target) * math.sqrt(target.honest / 8)
        unfaked = float(1 - KEPT_FAKE)
        safest = min(1.0, max(float(LEAST_BLUR), 1 - slope / unfaked))
        return Family(
            build, min(safest, max(float(LEAST_BLUR), 1 - guess / unfaked)), safest, rising=True
        )


def _for_one_round(bounds: Bounds) -> Bounds:
    line = (
        "of this round alone: rounds of one question share the kept response and are charged "
        "together (K14)"
    )
    return replace(bounds, basis=(*bounds.basis, line))


def _fake_for(epsilon: float) -> Fraction:
    """The least f, in 1024ths, with 2 ln((2-f)/f) <= ε."""
    return min(
        Fraction(1),
        Fraction(math.ceil(1024 * 2 / (1 + math.exp(epsilon * AIM / 2)) * (1 + 1e-12)), 1024),
    )
