"""Each kind of mechanism along its one noise parameter: where to look, how to round, what is surely
enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.errors import CannotCertify, UsageError
from shuffledp_core.mechanisms import (
    MAX_DOMAIN,
    MECHANISMS,
    GeoShuffle,
    HadamardHistogram,
    KRRHistogram,
    Mechanism,
    OneBitShuffle,
    QuantisedRR,
    RapporHistogram,
    RRShuffle,
    SGDLShuffle,
    SplitMix,
)
from shuffledp_core.mechanisms.rappor import MOST_SYMBOLS
from shuffledp_core.mechanisms.split import MAX_MODULUS, least_modulus
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.calibration.clamped import (
    LESS_NOISE,
    biased_at_most,
    refuse_too_wide,
    wasting_little,
)
from shuffledp_privacy.calibration.proposal import NoiseShares, least_padding, total_needed
from shuffledp_privacy.calibration.target import AIM, Target, certified_epsilon_of
from shuffledp_privacy.primitives.noise import sum_noise
from shuffledp_privacy.registry import load
from shuffledp_privacy.rounds.loss_distribution import Repeated, compose_curves
from shuffledp_privacy.splitting import (
    among_rounds,
    between_clamping_and_noise,
    left_to_mixing,
    own_tail,
)
from shuffledp_privacy.sums.mixing import MOST_SECURITY, SECURITY, least_pieces

PRECISION_BITS = 11
"""Bits of a calibrated parameter: the rounding costs at most 1/1024 of it, and samplers stay cheap.
"""

MOST_BITS = 62
"""Bits of the smallest parameter: at a δ so large that next to no noise is enough, a search would
go on to 0.
"""

SPARE = 0.004
"""Share of the noise of geo-shuffle that is given for fewer messages, besides what its padding
wastes anyway.
"""


ROUNDED = 0.45
"""Standard deviation that rounding to steps may add at worst, as a share of the noise's: a tenth to
the error.
"""

KEPT_FAKE = Fraction(1, 2)
"""f of a kept response, always: then all rounds of a question share one, and together cost 2 ln 3 =
2.1972 at most.
"""

LEAST_BLUR = Fraction(1, 64)
"""Least r of reports of a kept response: two of the same one are to differ sometimes."""


@dataclass(frozen=True, slots=True)
class Family:
    """One kind of mechanism along its noise parameter.

    Attributes:
        build: the spec for a parameter.
        guess: where to start.
        safest: a parameter that is private enough by itself (pure), the end of the search.
        rising: whether a larger parameter means more noise.
        spare: share of the noise that is given for fewer messages.
        least_padding: the padding that no certificate may go below, for a parameter, for the sake
            of the answer.
    """

    build: Callable[[Fraction], Mechanism]
    guess: float
    safest: float
    rising: bool
    spare: float = 0.0
    least_padding: Callable[[Fraction], int] = lambda _: 0

    def rounded(self, value: float) -> Fraction:
        """The nearest parameter with few bits on the noisy side."""
        bits = min(MOST_BITS, PRECISION_BITS + max(0, -math.frexp(value)[1] + 1))
        scaled = value * 2.0**bits
        return Fraction(math.ceil(scaled) if self.rising else max(1, math.floor(scaled)), 2**bits)

    def noisier(self, value: Fraction, steps: int) -> Fraction:
        """The parameter some small steps to the noisy side, at most the safest."""
        bits = max(0, PRECISION_BITS - value.numerator.bit_length() + 1)
        step = Fraction(steps, value.denominator * 2**bits)
        safest = self.rounded(self.safest)
        return min(value + step, safest) if self.rising else max(value - step, safest)

    def refusal(self, target: Target) -> CannotCertify:
        """The error for a target that even the safest parameter misses.

        Says what that one reaches.
        """
        spec = self.build(self.rounded(self.safest))
        closest = certified_epsilon_of(spec, target)
        found = (
            f"the closest is epsilon {closest:.6g}"
            if math.isfinite(closest)
            else "no finite epsilon is certified"
        )
        return CannotCertify(
            f"{spec.kind} cannot reach epsilon {target.epsilon:g} at delta {target.delta:g}: "
            f"{found}"
        )


def epsilon0_to_blanket(epsilon0: float, symbols: int) -> Fraction:
    """γ of k-ary randomised response with local parameter at most ε0: k/(e^ε0 + k - 1), rounded up.

    Args:
        epsilon0: nats, above 0, at most 25.
        symbols: k >= 2.

    Raises:
        UsageError: out of range.
    """
    if not 0 < epsilon0 <= 25:
        raise UsageError(f"epsilon0 must be above 0 and at most 25, not {epsilon0}")
    if not 2 <= symbols <= MAX_DOMAIN:
        raise UsageError(f"symbols must be from 2 to {MAX_DOMAIN}, not {symbols}")
    blanket = symbols / (math.exp(epsilon0) + symbols - 1) * (1 + 2.0**-50)
    bits = 20 + max(0, 1 - math.frexp(blanket)[1])
    return min(Fraction(1), Fraction(math.ceil(blanket * 2.0**bits), 2**bits))


def _deviations(target: Target) -> float:
    """Standard deviations of the loss that ε covers at δ, roughly: sqrt(2 ln(1/δ)) - 1, for first
    guesses.
    """
    return max(0.5, math.sqrt(2 * math.log(1 / target.delta)) - 1) * math.sqrt(target.rounds)


def _krr(target: Target) -> Family:
    local = min(target.epsilon / target.rounds, 25.0)
    safest = float(epsilon0_to_blanket(local, target.bins))
    guess = 2 * target.bins * (_deviations(target) / target.epsilon) ** 2 / target.honest
    return Family(
        lambda g: KRRHistogram(symbols=target.bins, blanket=min(g, Fraction(1))),
        guess,
        safest,
        rising=True,
    )


def _hadamard(target: Target) -> Family:
    # Half of all indices hide a symbol's half, so that the blanket need not grow with the symbols.
    safest = 2 / (1 + math.exp(target.epsilon / target.rounds)) * (1 + 1e-4)
    guess = 2 * (_deviations(target) / target.epsilon) ** 2 / target.honest
    return Family(
        lambda g: HadamardHistogram(symbols=target.bins, blanket=min(g, Fraction(1))),
        guess,
        min(1.0, safest),
        rising=True,
    )


def _rappor(target: Target) -> Family:
    """Along r = 2p = 2(1-q). f, which tells kept responses apart and so must not move from round to
    round, is set.
    """
    if target.bins > MOST_SYMBOLS:
        raise CannotCertify(
            f"{RapporHistogram.kind} has at most {MOST_SYMBOLS} symbols, one bit each in one "
            f"message, not {target.bins}"
        )
    fake = KEPT_FAKE if target.rounds == 1 else _fake_for(target.epsilon)

    def build(r: Fraction) -> Mechanism:
        half = min(max(r, LEAST_BLUR), Fraction(1)) / 2
        return RapporHistogram(symbols=target.bins, fake=fake, when_zero=half, when_one=1 - half)

    # Several rounds cost what the kept response does, whatever r is.
    if target.rounds > 1:
        return Family(build, float(LEAST_BLUR), 1.0, rising=True)
    # One report is pure with ε0 = 2 ln((1+s)/(1-s)), s = (1-f)(1-r).
    slope = math.tanh(target.epsilon / 4) * (1 - 1e-4)
    guess = target.epsilon / _deviations(target) * math.sqrt(target.honest / 8)
    own = float(1 - KEPT_FAKE)
    safest = min(1.0, max(float(LEAST_BLUR), 1 - slope / own))
    return Family(build, min(safest, max(float(LEAST_BLUR), 1 - guess / own)), safest, rising=True)


def _fake_for(epsilon: float) -> Fraction:
    """The least f, in 1024ths, with 2 ln((2-f)/f) <= ε."""
    return min(
        Fraction(1),
        Fraction(math.ceil(1024 * 2 / (1 + math.exp(epsilon * AIM / 2)) * (1 + 1e-12)), 1024),
    )


def _one_bit(target: Target) -> Family:
    metric = target.adjacency is Adjacency.METRIC
    # One report alone: ln(1 + 2 (1-p) d/(p k)) for a change by d, the largest per unit at d = 1
    # (S18).
    alone = (1 if metric else target.reach) / target.largest
    growth = math.expm1(min(target.epsilon / target.rounds, 50.0)) * (1 - 1e-4)
    need = _deviations(target) / target.epsilon / target.largest * (1 if metric else target.reach)
    return Family(
        lambda p: OneBitShuffle(max_value=target.largest, randomise=min(p, Fraction(1))),
        2 * need**2 / target.honest,
        min(1.0, 2 * alone / (growth + 2 * alone)),
        rising=True,
    )


def _quantised(target: Target) -> Family:
    units = target.reach if target.adjacency is Adjacency.STANDARD else 1
    need = _deviations(target) * units / target.epsilon
    # One user's rounding has a standard deviation of half a step at worst.
    step = 2 * ROUNDED * need / math.sqrt(target.users)
    # Half as many as rr-shuffle at most: with all of them it is rr-shuffle.
    bits = max(1, min(target.largest // 2, math.ceil(target.largest / step)))
    # Pure: a change by `units` is one by so many steps, and costs their ε0 each, or less where it
    # is below one (S20).
    steps = units * bits / target.largest
    local = target.epsilon / target.rounds
    each = (
        local / math.ceil(steps) if steps >= 1 else math.log1p(math.expm1(min(local, 50.0)) / steps)
    )
    return Family(
        lambda p: QuantisedRR(max_value=target.largest, bits=bits, randomise=min(p, Fraction(1))),
        2 * (need * bits / target.largest) ** 2 / (target.honest * bits),
        min(1.0, 2 / (1 + math.exp(min(each, 700.0))) * (1 + 1e-4)),
        rising=True,
    )


def _rr(target: Target) -> Family:
    units = target.reach if target.adjacency is Adjacency.STANDARD else 1
    local = target.epsilon / units / target.rounds
    safest = 2 / (1 + math.exp(local)) * (1 + 1e-4)
    need = _deviations(target) * units / target.epsilon
    guess = 2 * need**2 / (target.honest * target.largest)
    return Family(
        lambda p: RRShuffle(max_value=target.largest, randomise=min(p, Fraction(1))),
        guess,
        min(1.0, safest),
        rising=True,
    )


def _padding(target: Target, noise: NoiseShares) -> int:
    """A padding that leaves clamping its share of δ, for the largest change."""
    units = 1 if target.adjacency is Adjacency.STANDARD else target.reach
    if target.rounds == 1:
        total = total_needed(noise, target.reach, between_clamping_and_noise(target.delta).noise)
        total = min(total, target.epsilon * units)
    else:
        # Each round of several is needed up to where its own tail is far below δ.
        total = total_needed(noise, target.reach, own_tail(target.delta, target.rounds))
    clamping = between_clamping_and_noise(among_rounds(target.delta, target.rounds)).clamping
    return least_padding(noise, total, clamping, target.largest)


def _pure_unit(target: Target) -> float:
    """Noise parameter whose discrete Laplace noise alone keeps the target, with δ = 0 but for
    clamping.
    """
    units = target.reach if target.adjacency is Adjacency.STANDARD else 1
    return target.epsilon / units / target.rounds * AIM * (1 - 2.0**-20)


def _geo(target: Target) -> Family:
    units = target.reach if target.adjacency is Adjacency.STANDARD else 1
    safest = _pure_unit(target)
    # Under about this tilt several rounds together reach ε.
    tilt = target.epsilon / units / target.rounds

    def least_padding(epsilon: Fraction) -> int:
        return biased_at_most(float(epsilon), target.users, target.largest)

    def build(epsilon: Fraction) -> Mechanism:
        padding = max(wasting_little(epsilon, tilt, target.largest), least_padding(epsilon))
        return GeoShuffle(max_value=target.largest, epsilon_geo=epsilon, padding=padding)

    guess = max(safest, min(_without_clamping(target, safest), 20.0))
    return Family(build, guess, safest, rising=False, spare=SPARE, least_padding=least_padding)


def _without_clamping(target: Target, safest: float) -> float:
    """About the largest ε_geo whose noise is enough if nobody is clamped, less what
    `wasting_little` wastes.
    """
    units = target.reach if target.adjacency is Adjacency.STANDARD else 1
    total = target.epsilon * target.reach / units
    found = target.epsilon * math.sqrt(2 * target.honest) / (_deviations(target) * units)
    refuse_too_wide(max(found, safest), target.largest)
    # What a change costs grows nearly in proportion to ε_geo.
    for _ in range(4):
        found = min(max(found, safest), 20.0)
        needed = _needed_without_clamping(target, _dyadic(found))
        found *= total / needed if needed > 0 else 2.0
    return max(min(found, 20.0), safest) * (1 - LESS_NOISE)


def _dyadic(value: float) -> Fraction:
    """The value with a few bits, so that it is a double."""
    bits = 30 + max(0, 1 - math.frexp(value)[1])
    return Fraction(max(1, round(math.ldexp(value, bits))), 2**bits)


def _needed_without_clamping(target: Target, epsilon: Fraction) -> float:
    """Total ε of the target's rounds at the largest distance if nobody is clamped, nats."""
    noise = sum_noise(Fraction(target.honest), epsilon)
    pure = float(epsilon) * target.reach * target.rounds
    if target.rounds == 1:
        return min(float(noise.least(np.array([target.reach]), target.delta, 0.0)[0][0]), pure)

    def curve(epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        return noise.divergence(np.full(epsilons.shape, target.reach), epsilons)[0]

    return min(
        compose_curves([Repeated(curve, target.rounds)], target.delta, 60).epsilon(target.delta),
        pure,
    )


def _sgdl(target: Target) -> Family:
    safest = _pure_unit(target)

    def build(epsilon: Fraction) -> Mechanism:
        padding = _padding(target, NoiseShares(float(epsilon), 1 / target.honest, target.honest))
        return SGDLShuffle(
            max_value=target.largest, noise_epsilon=epsilon, shares=target.honest, padding=padding
        )

    return Family(build, _guess_of_whole_noise(target, safest), safest, rising=False)


def _guess_of_whole_noise(target: Target, safest: float) -> float:
    """Where to start for one discrete Laplace noise a round."""
    return (
        safest
        if target.rounds == 1
        else max(safest, safest * target.rounds / _deviations(target) * 1.4)
    )


def _split(target: Target) -> Family:
    safest = _pure_unit(target)
    total = target.epsilon * (1 if target.adjacency is Adjacency.STANDARD else target.reach)
    security = mixing_security(total, target.delta, target.rounds)

    def build(epsilon: Fraction) -> Mechanism:
        modulus = wide_modulus(
            target.largest, epsilon, target.honest, target.most_users or target.users
        )
        return SplitMix(
            max_value=target.largest,
            noise_epsilon=epsilon,
            shares=target.honest,
            modulus=modulus,
            pieces=least_pieces(target.honest, modulus, security),
        )

    return Family(build, _guess_of_whole_noise(target, safest), safest, rising=False)


def mixing_security(total: float, delta: float, rounds: int) -> float:
    """Bits σ, `SECURITY` at least, with 2^-σ (1 + e^E) next to nothing of δ, E the total ε of the
    largest change.

    Raises:
        CannotCertify: they are more than any number of pieces gives.
    """
    if delta == 0:
        return float(SECURITY)  # then nothing counts but a user's own noise
    needed = math.log2(math.e) * float(np.logaddexp(0.0, total)) - math.log2(
        left_to_mixing(delta, rounds)
    )
    if needed > MOST_SECURITY:
        raise CannotCertify(
            f"{SplitMix.kind} does not reach that far: the largest change may cost {total:.6g}; "
            f"cover a smaller "
            "distance, or take another mechanism"
        )
    return max(float(SECURITY), needed)


def wide_modulus(max_value: int, noise_epsilon: Fraction, shares: int, users: int) -> int:
    """The least power of two with room for the sum of so many users: then no draw of a piece is
    ever thrown away.

    Raises:
        CannotCertify: it is beyond what a message carries.
    """
    modulus = 1 << (least_modulus(max_value, noise_epsilon, shares, users) - 1).bit_length()
    if modulus > MAX_MODULUS:
        raise CannotCertify(
            f"{SplitMix.kind} needs a modulus of 2^{modulus.bit_length() - 1} for {users} values "
            f"up to {max_value} and "
            f"their noise, above 2^{MAX_MODULUS.bit_length() - 1}; take fewer users or smaller "
            f"values"
        )
    return modulus


FAMILIES: dict[str, Callable[[Target], Family]] = {
    KRRHistogram.kind: _krr,
    HadamardHistogram.kind: _hadamard,
    RapporHistogram.kind: _rappor,
    OneBitShuffle.kind: _one_bit,
    QuantisedRR.kind: _quantised,
    RRShuffle.kind: _rr,
    GeoShuffle.kind: _geo,
    SGDLShuffle.kind: _sgdl,
    SplitMix.kind: _split,
}
"""By the mechanism's name; an installed package adds its own when the registry is loaded, by
`register`.
"""


def register(spec: type[Mechanism], family: Callable[[Target], Family]) -> None:
    """Makes a mechanism one that can be calibrated."""
    FAMILIES[spec.kind] = family


def family_of(kind: str, target: Target) -> Family:
    """The family of a kind of mechanism, for a target.

    Raises:
        UsageError: for an unknown kind, one that cannot be calibrated, or a target that lacks what
            the kind needs.
    """
    if kind not in MECHANISMS:
        raise UsageError(f"unknown mechanism {kind!r}; known are {', '.join(MECHANISMS)}")
    if kind not in FAMILIES:
        load()
    if kind not in FAMILIES:
        raise UsageError(f"{kind} cannot be calibrated: its package registers no family of it")
    return FAMILIES[kind](target)
