"""Draws cases for the accountant and holds its numbers against those of the oracle."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any, Final

import numpy as np
import shuffle_oracle as oracle
from fuzz_bloom import ONE_MESSAGE_CASES
from fuzz_columns import COLUMN_CASES
from fuzz_draws import Extremes, Numbers, draw_chance, draw_delta, draw_users, log_uniform
from msgspec import structs

from shuffledp_core.errors import CannotCertify
from shuffledp_core.mechanisms import (
    DummyHistogram,
    GeoShuffle,
    HadamardHistogram,
    KRRHistogram,
    NodeHistogram,
    NodeSum,
    OneBitShuffle,
    PaddedSpec,
    QuantisedRR,
    RapporHistogram,
    RRShuffle,
    SGDLShuffle,
    SplitMix,
)
from shuffledp_core.mechanisms.split import least_modulus
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.bounds import Setting, delta_bounds, epsilon_bounds
from shuffledp_privacy.calibration.calibrate import Target, calibrate
from shuffledp_privacy.local.matrix import LocalMatrix

KINDS: Final = (
    "krr-histogram", "rr-shuffle", "geo-shuffle", "sgdl-shuffle", "local-matrix",
    "hadamard-histogram", "one-bit-mean", "split-mix", "rappor-histogram", "quantised-rr",
    "dummy-histogram", "node-histogram", "node-sum", "krr-dummy-histogram", "krr-node-histogram",
    "node-tree", "node-columns", "local-laplace", "bloom-rappor",
)  # fmt: skip
CALIBRATED: Final = " (calibrated)"
ROUNDING: Final = 1e-9
"""What both sides may differ by for floating point alone."""

REACH: Final = 560.0
"""Largest ε that the oracle knows, nats: it forgets chances below 1e-250, at ln 1e250 = 576."""

MOST_POINTS: Final = 25_000
"""Longest law of a sum that is convolved."""

MOST_BITS: Final = 1000
"""Most bits of which datasets with one other user between the ends are tried, too."""


@dataclass(frozen=True, slots=True)
class Case:
    """One question: a mechanism and its users, δ, and the datasets that the oracle tries.

    Attributes:
        group: the row of the table it belongs to, without adjacency.
        spec: the mechanism.
        setting: its users.
        delta: at which ε is asked for.
        target: ε that `calibrate` was asked for; None for parameters drawn at random.
        pairs: the oracle's laws, of datasets that include the one that the accountant attains if
            `complete`.
        complete: whether no dataset can be in `attained` that the oracle did not try.
    """

    group: str
    spec: Any
    setting: Setting
    delta: float
    target: float | None
    pairs: Sequence[oracle.Pair] = field(repr=False)
    complete: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came out: certified/exact in ε where both are finite and above 0, and what must not
    be."""

    case: Case
    ratio: float | None
    violations: tuple[str, ...]


def draw(seed: int, number: int, kinds: Sequence[str] = KINDS, *, extreme: bool = False) -> Case:
    """The case of this number: the same for the same seed and kinds, whatever was drawn before."""
    bits = np.random.PCG64([seed, number])
    numbers = Extremes(bits) if extreme else np.random.Generator(bits)
    kind = kinds[number % len(kinds)]
    adjacency = list(Adjacency)[number // len(kinds) % 2]
    while True:
        users = draw_users(numbers)
        honest = users if numbers.random() < 0.7 else int(numbers.integers(1, users + 1))
        setting = Setting(users, honest, adjacency)
        try:
            case = _DRAWN[kind](numbers, setting, draw_delta(numbers))
        except CannotCertify:  # no mechanism of the kind meets the target that was drawn
            continue
        if case is not None:
            return case


def judge(case: Case) -> Verdict:
    """Certified against exact against attained: ε at the case's δ, then δ around that ε."""
    metric = case.setting.adjacency is Adjacency.METRIC
    exact = oracle.worst_epsilon(case.pairs, case.delta, metric=metric)
    try:
        found = epsilon_bounds(case.spec, case.setting, case.delta)
    except CannotCertify:
        return Verdict(case, None, ())
    farthest = max(pair.distance for pair in case.pairs) if metric else 1
    if math.isinf(exact) and found.certified * farthest > REACH:
        return Verdict(case, None, ())
    wrong = _disorder("epsilon", found.certified, exact, found.attained, complete=case.complete)
    if case.target is not None and found.certified > case.target * (1 + ROUNDING):
        wrong.append(f"calibrated for epsilon {case.target:.17g}, certified {found.certified:.17g}")
    if math.isfinite(exact) and exact > 0:
        for share in (0.5, 0.97):
            deltas = delta_bounds(case.spec, case.setting, share * exact)
            true = oracle.worst_delta(case.pairs, share * exact, metric=metric)
            name = f"delta at epsilon {share * exact:.17g}"
            wrong += _disorder(
                name, deltas.certified, true, deltas.attained, complete=case.complete
            )
    ratio = found.certified / exact if math.isfinite(found.certified) and exact > 0 else None
    return Verdict(case, ratio, tuple(wrong))


def _disorder(
    name: str, certified: float, exact: float, attained: float, *, complete: bool
) -> list[str]:
    wrong = []
    if not certified >= exact * (1 - ROUNDING):
        wrong.append(f"{name}: certified {certified:.17g} is below the exact {exact:.17g}")
    if not attained <= certified:
        wrong.append(f"{name}: attained {attained:.17g} is above the certified {certified:.17g}")
    if complete and not attained <= exact * (1 + ROUNDING) + 1e-300:
        wrong.append(f"{name}: attained {attained:.17g} is above the exact {exact:.17g}")
    return wrong


def _target(numbers: Numbers, setting: Setting, delta: float, max_value: int) -> Target:
    per_unit = max_value if setting.adjacency is Adjacency.METRIC else 1
    epsilon = log_uniform(numbers, 0.1, 8) / math.sqrt(per_unit)
    return Target(
        epsilon,
        delta,
        setting.users,
        setting.honest,
        setting.adjacency,
        setting.max_distance,
        max_value=max_value,
    )


# Histograms and matrices.


def _krr(numbers: Numbers, setting: Setting, delta: float) -> Case:
    symbols = int(numbers.choice([2, 2, 3, 4, 10, 100, 2**20]))
    target = (
        _target(numbers, setting, delta, symbols - 1)
        if numbers.random() < 0.3 and symbols <= 100
        else None
    )
    if target is None:
        spec: Any = KRRHistogram(symbols=symbols, blanket=draw_chance(numbers))
    else:
        spec = calibrate("krr-histogram", target)
    rest = setting.honest - 1
    split = int(numbers.integers(0, rest + 1))
    others: list[oracle.Others] = [
        {2: rest},
        {1: rest},
        {0: split // 2, 1: split - split // 2, 2: rest - split},
    ]
    if symbols == 2:  # every dataset: which one is attained depends on ε
        others = [{0: zeros, 1: rest - zeros} for zeros in range(rest + 1)]
    pairs = oracle.local_pairs(
        oracle.krr_rows(symbols, spec.blanket), setting.honest, [(0, 1)], others
    )
    wanted = None if target is None else target.epsilon
    return Case(_name("krr-histogram", wanted), spec, setting, delta, wanted, pairs, complete=True)


def _hadamard(numbers: Numbers, setting: Setting, delta: float) -> Case | None:
    symbols = int(numbers.choice([2, 3, 4, 7, 12, 100, 1000]))
    target = _target(numbers, setting, delta, symbols - 1) if numbers.random() < 0.3 else None
    if target is None:
        spec: Any = HadamardHistogram(symbols=symbols, blanket=draw_chance(numbers))
    else:
        spec = calibrate("hadamard-histogram", target)
    rows, rest = oracle.hadamard_rows(symbols, spec.blanket), setting.honest - 1
    others: list[oracle.Others] = [{value: rest} for value in range(len(rows))]
    pairs = oracle.local_pairs(rows, setting.honest, [(0, 1)], others)
    if not pairs:
        return None
    wanted = None if target is None else target.epsilon
    complete = len(pairs) == len(others)  # of many users some datasets are too much to sum
    return Case(_name("hadamard-histogram", wanted), spec, setting, delta, wanted, pairs, complete)


def _dummies(numbers: Numbers, setting: Setting, delta: float) -> Case | None:
    return _users_dummies(numbers, "dummy-histogram", setting, delta)


def _dummies_after_krr(numbers: Numbers, setting: Setting, delta: float) -> Case | None:
    return _users_dummies(numbers, "krr-dummy-histogram", setting, delta, after_krr=True)


def _users_dummies(
    numbers: Numbers, kind: str, setting: Setting, delta: float, *, after_krr: bool = False
) -> Case | None:
    symbols = int(numbers.choice([2, 3, 4, 7, 12, 100, 1000]))
    target = _target(numbers, setting, delta, symbols - 1) if numbers.random() < 0.3 else None
    if target is None:
        slots = int(numbers.integers(1, 6))
        spec: Any = DummyHistogram(symbols=symbols, slots=slots, fill=draw_chance(numbers))
        if after_krr:
            spec = structs.replace(spec, blanket=draw_chance(numbers) * Fraction(4095, 4096))
    else:
        limit = log_uniform(numbers, 0.5, 10) if after_krr else None
        spec = calibrate("dummy-histogram", replace(target, epsilon_local=limit))
    arguments = (symbols, spec.slots, spec.fill)
    if after_krr:
        pairs = oracle.answered_dummy_pairs(*arguments, spec.blanket, setting.honest)
    else:
        pairs = oracle.dummy_pairs(*arguments, setting.honest)
    if not pairs:
        return None
    goal = None if target is None else target.epsilon
    return Case(_name(kind, goal), spec, setting, delta, goal, pairs, complete=True)


def _rappor(numbers: Numbers, setting: Setting, delta: float) -> Case | None:
    symbols = int(numbers.choice([2, 3, 4, 7, 31]))
    target = _target(numbers, setting, delta, symbols - 1) if numbers.random() < 0.3 else None
    if target is None:
        when_zero, gap, fake = (draw_chance(numbers) for _ in range(3))
        when_zero = min(when_zero, Fraction(999, 1000))
        when_one = when_zero + gap * (1 - when_zero) * Fraction(4095, 4096)
        when_one = when_one.limit_denominator(2**62)
        spec: Any = RapporHistogram(
            symbols=symbols, fake=fake, when_zero=when_zero, when_one=when_one
        )
    else:
        spec = calibrate("rappor-histogram", target)
    rows, rest = (
        oracle.rappor_rows(symbols, spec.fake, spec.when_zero, spec.when_one),
        setting.honest - 1,
    )
    others: list[oracle.Others] = [{value: rest} for value in range(len(rows))]
    pairs = oracle.local_pairs(rows, setting.honest, [(0, 1)], others)
    if not pairs:
        return None
    wanted = None if target is None else target.epsilon
    complete = len(pairs) == len(others)
    return Case(_name("rappor-histogram", wanted), spec, setting, delta, wanted, pairs, complete)


def _matrix(numbers: Numbers, setting: Setting, delta: float) -> Case | None:
    inputs, outputs = int(numbers.integers(2, 5)), int(numbers.integers(2, 5))
    weights = numbers.integers(1, 100, (inputs, outputs)) ** int(numbers.integers(1, 4))
    if numbers.random() < 0.2:  # outputs that some values cannot send
        weights *= numbers.integers(0, 2, weights.shape)
        weights[:, 0] += 1
    if numbers.random() < 0.3:  # near to one another: little to tell
        weights = weights + 100 * int(weights.max())
    rows = tuple(tuple(Fraction(int(value), int(row.sum())) for value in row) for row in weights)
    rest = setting.honest - 1
    changes = [(x, y) for x in range(inputs) for y in range(x)]
    held = numbers.multinomial(rest, [1 / inputs] * inputs)
    alone: list[oracle.Others] = [{value: rest} for value in range(inputs)]
    if outputs == 2:  # which composition of the two ends is attained depends on ε
        rates = [row[1] for row in rows]
        top, bottom = rates.index(max(rates)), rates.index(min(rates))
        alone += [{top: ones, bottom: rest - ones} for ones in range(rest + 1)]
    mixed = dict(enumerate(held.tolist()))
    pairs = oracle.local_pairs(
        rows, setting.honest, changes, [*alone, mixed] if setting.honest <= 40 else alone
    )
    # Outcomes that a value never sends are summed user by user, of few users only.
    complete = len(oracle.local_pairs(rows, setting.honest, changes, alone)) == len(changes) * len(
        alone
    )
    if not pairs:
        return None
    return Case("local-matrix", LocalMatrix(rows), setting, delta, None, pairs, complete)


# Sums.


def _bits(numbers: Numbers, setting: Setting, delta: float) -> Case | None:
    max_value, setting = _range(numbers, setting)
    target = _target(numbers, setting, delta, max_value) if numbers.random() < 0.3 else None
    if setting.honest * max_value > MOST_POINTS:
        return None
    if target is None:
        spec: Any = RRShuffle(max_value=max_value, randomise=draw_chance(numbers))
    else:
        spec = calibrate("rr-shuffle", target)
    report, rest = oracle.bits_report(max_value, spec.randomise / 2), setting.honest - 1
    # At large δ the worst others are nearly all at an end: all of them but one, who holds anything.
    nearly: list[oracle.Others] = []
    if rest and setting.honest * max_value <= MOST_BITS:
        nearly = [
            {end: rest - 1, v: 1}
            for end in (0, max_value)
            for v in range(max_value + 1)
            if v != end
        ]
    return _of_sum(numbers, "rr-shuffle", spec, setting, delta, target, report, nearly)


def _quantised(numbers: Numbers, setting: Setting, delta: float) -> Case:
    max_value, setting = _range(numbers, setting)
    target = _target(numbers, setting, delta, max_value) if numbers.random() < 0.3 else None
    if target is None:
        bits = int(numbers.integers(1, min(max_value, 20) + 1))
        spec: Any = QuantisedRR(max_value=max_value, bits=bits, randomise=draw_chance(numbers))
    else:
        spec = calibrate("quantised-rr", target)
    report = oracle.quantised_report(max_value, spec.bits, spec.randomise)
    # Nobody who holds a whole number of steps is rounded, so that these may show more than the ends
    # do; where the first step and the last but one are no whole values, the nearest ones: little of
    # them is rounded.
    step = max_value // math.gcd(max_value, spec.bits)
    near = {step, max_value // spec.bits, -(-max_value // spec.bits)}
    held = sorted(near | {max_value - value for value in near})
    return _of_sum(numbers, "quantised-rr", spec, setting, delta, target, report, held=held)


def _one_bit(numbers: Numbers, setting: Setting, delta: float) -> Case:
    max_value, setting = _range(numbers, setting)
    target = _target(numbers, setting, delta, max_value) if numbers.random() < 0.3 else None
    if target is None:
        spec: Any = OneBitShuffle(max_value=max_value, randomise=draw_chance(numbers))
    else:
        spec = calibrate("one-bit-mean", target)
    report, rest = oracle.one_bit_report(max_value, spec.randomise), setting.honest - 1
    # Which number of others at the top is attained depends on ε: all of them.
    ends: list[oracle.Others] = [{0: rest - ones, max_value: ones} for ones in range(rest + 1)]
    return _of_sum(numbers, "one-bit-mean", spec, setting, delta, target, report, ends)


def _split(numbers: Numbers, setting: Setting, delta: float) -> Case | None:
    max_value, setting = _range(numbers, setting)
    target = _target(numbers, setting, delta, max_value) if numbers.random() < 0.6 else None
    spec: Any = (
        _split_spec(numbers, setting, max_value)
        if target is None
        else calibrate("split-mix", target)
    )
    deviation = math.sqrt(2 * setting.honest / spec.shares) / float(spec.noise_epsilon)
    if max(68 * deviation, 1200 / float(spec.noise_epsilon)) > MOST_POINTS:
        return None
    reach = min(setting.max_distance or max_value, max_value)
    complete, distances = _distances(reach, setting)
    noise = oracle.share_noise(spec.noise_epsilon, spec.shares, reach)
    pairs = oracle.modular_pairs(noise, setting.honest, spec.modulus, distances)
    wanted = None if target is None else target.epsilon
    return Case(_name("split-mix", wanted), spec, setting, delta, wanted, pairs, complete)


def _split_spec(numbers: Numbers, setting: Setting, max_value: int) -> SplitMix:
    rate = Fraction(max(1, round(4096 * log_uniform(numbers, 0.05, 5))), 4096)
    shares = max(1, round(setting.users * float(numbers.choice([0.3, 1, 1, 2]))))
    need = least_modulus(max_value, rate, shares, setting.users)
    modulus = need if numbers.random() < 0.5 else 2 ** need.bit_length()
    pieces = int(numbers.choice([2, 4, 8, 12, 20]))
    return SplitMix(
        max_value=max_value, noise_epsilon=rate, shares=shares, modulus=modulus, pieces=pieces
    )


def _node_counts(numbers: Numbers, setting: Setting, delta: float) -> Case | None:
    spec, goal = _node_histogram(numbers, setting, delta, None)
    if (2 * spec.mean + 2) ** 2 * (2 * spec.mean * (spec.symbols - 2) + 1) > 20 * MOST_POINTS:
        return None
    pairs = oracle.node_counts_pairs(spec.noise_epsilon, spec.mean, spec.symbols, spec.dummies)
    return Case(_name("node-histogram", goal), spec, setting, delta, goal, pairs, complete=True)


def _node_counts_after_krr(numbers: Numbers, setting: Setting, delta: float) -> Case | None:
    spec, goal = _node_histogram(numbers, setting, delta, log_uniform(numbers, 0.5, 10))
    if not spec.blanket:
        spec = structs.replace(spec, blanket=draw_chance(numbers) * Fraction(4095, 4096))
    if (2 * spec.mean + 2) ** spec.symbols > 20 * MOST_POINTS:
        return None
    pairs = oracle.answered_node_pairs(
        spec.noise_epsilon, spec.mean, spec.symbols, spec.dummies, spec.blanket
    )
    return Case(_name("krr-node-histogram", goal), spec, setting, delta, goal, pairs, complete=True)


def _node_histogram(
    numbers: Numbers, setting: Setting, delta: float, epsilon_local: float | None
) -> tuple[Any, float | None]:
    symbols = int(numbers.integers(2, 9))
    epsilon = log_uniform(numbers, 0.05, 8)
    if numbers.random() < 0.6:
        target = Target(
            epsilon,
            delta,
            setting.users,
            setting.honest,
            setting.adjacency,
            symbols=symbols,
            epsilon_local=epsilon_local,
        )
        return calibrate("node-histogram", target), epsilon
    mean = int(numbers.integers(1, 30))
    spec = NodeHistogram(
        symbols=symbols,
        noise_epsilon=Fraction(max(1, round(4096 * epsilon / 2)), 4096),
        mean=mean,
        dummies=int(numbers.integers(symbols * mean, 2 * symbols * mean + 1)),
    )
    return spec, None


def _node_sum(numbers: Numbers, setting: Setting, delta: float) -> Case | None:
    max_value = int(numbers.integers(1, 13))
    target = None
    if numbers.random() < 0.5:
        target = _target(numbers, setting, delta, max_value)
        spec: Any = calibrate("node-sum", target)
    else:
        least = NodeSum(
            max_value=max_value,
            noise_epsilon=Fraction(max(1, round(4096 * log_uniform(numbers, 0.1, 8))), 4096),
            base=int(numbers.integers(2, max_value + 2)),
            mean=max_value,
        )
        spec = structs.replace(least, mean=max_value + int(numbers.integers(0, 20)))
    if math.prod(2 * mean + max_value for mean in spec.means) > 20 * MOST_POINTS:
        return None
    digits = [_digits(value, spec.base, len(spec.means)) for value in range(max_value + 1)]
    values = [
        (digits[a], digits[b], b - a) for a, b in itertools.combinations(range(max_value + 1), 2)
    ]
    pairs = oracle.node_digits_pairs(spec.rates, spec.means, values)
    wanted = None if target is None else target.epsilon
    return Case(_name("node-sum", wanted), spec, setting, delta, wanted, pairs, complete=True)


def _digits(value: int, base: int, number: int) -> tuple[Fraction, ...]:
    return tuple(Fraction(value // base**place % base) for place in range(number))


def _geo(numbers: Numbers, setting: Setting, delta: float) -> Case | None:
    return _padded(numbers, "geo-shuffle", setting, delta)


def _sgdl(numbers: Numbers, setting: Setting, delta: float) -> Case | None:
    return _padded(numbers, "sgdl-shuffle", setting, delta)


def _padded(numbers: Numbers, kind: str, setting: Setting, delta: float) -> Case | None:
    max_value, setting = _range(numbers, setting)
    target = _target(numbers, setting, delta, max_value) if numbers.random() < 0.6 else None
    spec: Any = (
        _padded_spec(numbers, kind, setting, max_value)
        if target is None
        else calibrate(kind, target)
    )
    deviation = math.sqrt(2 * setting.honest / spec.noise_shares) / float(spec.noise_rate)
    # The law shrinks to what is possible at 1e-250: some 34 deviations on either side, or 576 nats
    # of one noise.
    width = max(68 * deviation, 1200 / float(spec.noise_rate)) + setting.honest * max_value
    if min(width, setting.honest * spec.messages_per_user) > MOST_POINTS:
        return None
    return _of_sum(numbers, kind, spec, setting, delta, target, _report(spec))


def _padded_spec(numbers: Numbers, kind: str, setting: Setting, max_value: int) -> PaddedSpec:
    padding = int(numbers.choice([0, 1, 5, 20, 60]))
    rate = Fraction(max(1, round(4096 * log_uniform(numbers, 0.02, 5))), 4096)
    if kind == "geo-shuffle":
        return GeoShuffle(max_value=max_value, epsilon_geo=rate, padding=padding)
    shares = max(1, round(setting.users * float(numbers.choice([0.3, 1, 1, 2]))))
    return SGDLShuffle(max_value=max_value, noise_epsilon=rate, shares=shares, padding=padding)


def _report(spec: PaddedSpec) -> Callable[[int], oracle.Law]:
    reach = spec.max_value + spec.padding + 1
    if spec.noise_shares == 1:
        noise = oracle.laplace_noise(spec.noise_rate, reach)
    else:
        noise = oracle.share_noise(spec.noise_rate, spec.noise_shares, reach)
    return oracle.noisy_report(spec.max_value, spec.padding, noise)


def _range(numbers: Numbers, setting: Setting) -> tuple[int, Setting]:
    """A largest value, small more often than not, and perhaps a largest distance below it."""
    max_value = round(log_uniform(numbers, 1, 12 if numbers.random() < 0.6 else 60))
    if numbers.random() < 0.05 and setting.honest <= 5:
        max_value = 1000
    reach = int(numbers.integers(1, max_value + 1)) if numbers.random() < 0.2 else None
    return max_value, Setting(setting.users, setting.honest, setting.adjacency, reach)


def _of_sum(
    numbers: Numbers,
    kind: str,
    spec: Any,
    setting: Setting,
    delta: float,
    target: Target | None,
    report: Callable[[int], oracle.Law],
    more: Sequence[oracle.Others] = (),
    held: Sequence[int] = (),
) -> Case:
    """`more`: others to try beside the ends.

    `held`: values beside them from which the changed user's goes.
    """
    top, rest = spec.max_value, setting.honest - 1
    reach = min(setting.max_distance or top, top)
    complete, distances = _distances(reach, setting)
    ends = {
        (value, value + move) for value in (0, top, *held) for d in distances for move in (d, -d)
    }
    changes = sorted(
        {(min(pair), max(pair)) for pair in ends if min(pair) >= 0 and max(pair) <= top}
    )
    between = int(numbers.integers(0, top + 1))
    # In the middle nobody is clamped: with little padding and much noise that may show what the
    # ends hide.
    others: list[oracle.Others] = [{0: rest}, {top: rest}, {top // 2: rest}, {between: rest}]
    others.append({0: rest // 2, top: rest - rest // 2})
    others += more
    wanted = None if target is None else target.epsilon
    pairs = oracle.sum_pairs(report, others, changes)
    return Case(_name(kind, wanted), spec, setting, delta, wanted, pairs, complete)


def _distances(reach: int, setting: Setting) -> tuple[bool, list[int]]:
    """Whether they include every one that may be attained, and the distances that are tried."""
    complete = reach <= 12 or setting.adjacency is Adjacency.STANDARD
    return complete, list(range(1, reach + 1)) if reach <= 12 else sorted(
        {1, 2, reach // 2, reach - 1, reach}
    )


def _name(kind: str, target: float | None) -> str:
    return kind if target is None else kind + CALIBRATED


_DRAWN: Final[dict[str, Callable[[Numbers, Setting, float], Case | None]]] = {
    "krr-histogram": _krr,
    "rr-shuffle": _bits,
    "geo-shuffle": _geo,
    "sgdl-shuffle": _sgdl,
    "local-matrix": _matrix,
    "dummy-histogram": _dummies,
    "hadamard-histogram": _hadamard,
    "one-bit-mean": _one_bit,
    "split-mix": _split,
    "rappor-histogram": _rappor,
    "quantised-rr": _quantised,
    "node-histogram": _node_counts,
    "node-sum": _node_sum,
    "krr-dummy-histogram": _dummies_after_krr,
    "krr-node-histogram": _node_counts_after_krr,
    **{kind: partial(drawn, Case) for kind, drawn in (ONE_MESSAGE_CASES | COLUMN_CASES).items()},
}
