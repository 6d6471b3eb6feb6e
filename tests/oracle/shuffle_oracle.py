"""An oracle for shuffled mechanisms, from their definitions alone: what concrete datasets really
cost.

It shares nothing with the accountant: no code, no proposition, no dominating pair. The view of the
adversary on two neighbouring datasets is written out outcome by outcome, by convolution in 80 bits,
where all terms are positive; ε and δ are then read from the two laws. The largest number over the
datasets tried is a lower bound of the truth."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from hashlib import sha256

import mpmath
import numpy as np
from numpy.typing import NDArray

Law = NDArray[np.longdouble]
Row = tuple[Fraction, ...]
Others = Mapping[int, int]
"""How many of the other users hold each value."""

LONG = 2000
"""A law of more points loses those that are next to impossible."""

IMPOSSIBLE = np.longdouble("1e-250")

MOST_CELLS = 60_000
"""Largest array of counts that is filled user by user."""

MOST_MULTISETS = 1_500_000
"""Most multisets of outcomes that are enumerated."""


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """The laws of the view on two neighbouring datasets, outcome by outcome, whose values differ by
    `distance`."""

    one: Law
    other: Law
    distance: int = 1


def delta_of_laws(one: Law, other: Law, epsilon: float) -> float:
    """Σ (P - e^ε Q)_+."""
    return float(np.maximum(one - np.exp(np.longdouble(epsilon)) * other, 0).sum())


def epsilon_of_laws(one: Law, other: Law, delta: float) -> float:
    """The least ε >= 0 with Σ (P - e^ε Q)_+ <= δ: the largest ln((P(A) - δ)/Q(A)) over events A of
    largest ratios."""
    known = one > 0
    one, other = one[known], other[known]
    with np.errstate(divide="ignore", over="ignore"):
        order = np.argsort(-(one / other), kind="stable")
    likely, unlikely = np.cumsum(one[order]), np.cumsum(other[order])
    left = likely - np.longdouble(delta)
    likely_enough = left > 0
    if np.any(unlikely[likely_enough] == 0):
        return math.inf
    if not likely_enough.any():
        return 0.0
    return max(0.0, float((np.log(left[likely_enough]) - np.log(unlikely[likely_enough])).max()))


def worst_delta(pairs: Iterable[Pair], epsilon: float, *, metric: bool) -> float:
    """The largest δ of all pairs, in both orders; ε counts per unit of distance if `metric`."""
    return max(
        delta_of_laws(one, other, epsilon * (pair.distance if metric else 1))
        for pair in pairs
        for one, other in ((pair.one, pair.other), (pair.other, pair.one))
    )


def worst_epsilon(pairs: Iterable[Pair], delta: float, *, metric: bool) -> float:
    """The largest ε of all pairs at δ, in both orders; per unit of distance if `metric`."""
    return max(
        epsilon_of_laws(one, other, delta) / (pair.distance if metric else 1)
        for pair in pairs
        for one, other in ((pair.one, pair.other), (pair.other, pair.one))
    )


# Sums: one user's report is a whole number, and the view is the sum.


def sum_pairs(
    report: Callable[[int], Law], others: Iterable[Others], changes: Sequence[tuple[int, int]]
) -> list[Pair]:
    """The view's laws for all changes (x, x') of one value, while the others hold each of
    `others`."""
    pairs = []
    for held in others:
        rest = np.ones(1, dtype=np.longdouble)
        for value, users in held.items():
            rest = _shortened(np.convolve(rest, _power(report(value), users)))
        laws = {value: np.convolve(rest, report(value)) for change in changes for value in change}
        pairs += [Pair(laws[x], laws[y], abs(x - y)) for x, y in changes]
    return pairs


def bits_report(max_value: int, flip: Fraction) -> Callable[[int], Law]:
    """rr-shuffle: of `max_value` bits, as many ones as the value says, each is flipped with this
    chance."""
    flipped = _exact(flip)
    zero, one = np.array([1 - flipped, flipped]), np.array([flipped, 1 - flipped])

    @cache
    def report(value: int) -> Law:
        return np.convolve(_power(one, value), _power(zero, max_value - value))

    return report


def one_bit_report(max_value: int, randomise: Fraction) -> Callable[[int], Law]:
    """one-bit-mean: a fair coin with chance `randomise`, else 1 with chance value/max_value."""

    @cache
    def report(value: int) -> Law:
        one = randomise / 2 + (1 - randomise) * Fraction(value, max_value)
        return np.array([_exact(1 - one), _exact(one)])

    return report


def quantised_report(max_value: int, bits: int, randomise: Fraction) -> Callable[[int], Law]:
    """quantised-rr: bit j of `bits` is 1 with chance value bits/max_value - j, within 0..1, or it
    is a fair coin."""

    @cache
    def report(value: int) -> Law:
        law = np.ones(1, dtype=np.longdouble)
        for place in range(bits):
            rounded = min(max(Fraction(value * bits, max_value) - place, Fraction(0)), Fraction(1))
            one = randomise / 2 + (1 - randomise) * rounded
            law = np.convolve(law, np.array([_exact(1 - one), _exact(one)]))
        return law

    return report


def noisy_report(max_value: int, padding: int, noise: Law) -> Callable[[int], Law]:
    """geo- and sgdl-shuffle: value + noise + padding, moved into 0..max_value + 2 padding.

    `noise` is P(N = m) for m = 0, 1, ... of a symmetric law, so long that what is missing does not
    count."""
    top = max_value + 2 * padding
    # From the far end: small terms first, and no difference of large ones.
    beyond = np.cumsum(noise[::-1])[::-1]

    @cache
    def report(value: int) -> Law:
        at = value + padding
        law = noise[np.abs(np.arange(top + 1) - at)]
        law[0], law[top] = beyond[at], beyond[top - at]
        return law

    return report


def modular_pairs(noise: Law, users: int, modulus: int, distances: Iterable[int]) -> list[Pair]:
    """split-mix: the sum modulo q, which all pieces together tell, of values with so many shares of
    noise.

    What the values of the others add up to moves both laws alike, and so does where the first point
    of a law is.

    Args:
        noise: P(N = m) for m = 0, 1, ... of one share, symmetric.
        users: honest ones, each with a share.
        modulus: q.
        distances: changes of one value.
    """
    total, held = _power(np.concatenate([noise[:0:-1], noise]), users), list(distances)
    law = np.zeros(min(modulus, total.size + max(held)), dtype=np.longdouble)
    np.add.at(law, np.arange(total.size) % modulus, total)
    return [Pair(law, np.roll(law, distance), distance) for distance in held]


def node_counts_pairs(rate: Fraction, mean: int, symbols: int, dummies: int) -> list[Pair]:
    """node-histogram: the counts of all symbols, behind one node's dummies.

    Those of two changed symbols, and the sum of all others, which tells whether there was room: the
    others alone are no more likely before the change than after it. Written out point by point.

    Args:
        rate: ε of the noise in one count.
        mean: of a node's dummies of each symbol.
        symbols: k.
        dummies: of the node, all together.
    """
    count = np.abs(np.arange(2 * mean + 1) - mean).astype(np.longdouble)
    one = np.exp(-_exact(rate) * count)
    one /= one.sum()
    rest = np.ones(1, dtype=np.longdouble)
    for _ in range(symbols - 2):
        rest = np.convolve(rest, one)
    law = one[:, None, None] * one[None, :, None] * rest[None, None, :]
    drawn = np.add.outer(
        np.add.outer(np.arange(one.size), np.arange(one.size)), np.arange(rest.size)
    )
    law = np.where(drawn <= dummies, law, 0)
    law /= law.sum()
    before = np.zeros((one.size + 1, one.size + 1, rest.size), dtype=np.longdouble)
    after = np.zeros_like(before)
    before[1:, :-1] = law
    after[:-1, 1:] = law
    return [Pair(before.ravel(), after.ravel())]


def answered_node_pairs(
    rate: Fraction, mean: int, symbols: int, dummies: int, blanket: Fraction
) -> list[Pair]:
    """node-histogram after k-RR: the counts of every symbol, behind one node's dummies.

    Args:
        rate: ε of the noise in one count.
        mean: of a node's dummies of each symbol.
        symbols: k.
        dummies: of the node, all together.
        blanket: chance that a report is uniform.
    """
    noise = np.exp(-_exact(rate) * np.abs(np.arange(2 * mean + 1) - mean).astype(np.longdouble))
    law = np.ones(1, dtype=np.longdouble)
    drawn = np.zeros(1, dtype=np.int64)
    for _ in range(symbols):
        law = np.multiply.outer(law, noise)
        drawn = np.add.outer(drawn, np.arange(noise.size))
    law = np.where(drawn <= dummies, law, 0)[0]
    law /= law.sum()
    views = []
    for answer in range(symbols):
        view = np.zeros([size + 1 for size in law.shape], dtype=np.longdouble)
        place = tuple(
            slice(1, None) if symbol == answer else slice(0, -1) for symbol in range(symbols)
        )
        view[place] = law
        views.append(view.ravel())
    uniform = sum(views) * _exact(blanket / symbols)
    kept = _exact(1 - blanket)
    return [Pair(kept * views[0] + uniform, kept * views[1] + uniform)]


def node_digits_pairs(
    rates: Sequence[Fraction], means: Sequence[int], values: Iterable[tuple[Row, Row, int]]
) -> list[Pair]:
    """node-sum: the ones of every digit, behind one node's dummies.

    Args:
        rates: ε of the noise in each digit, for a one.
        means: of a node's ones in each digit.
        values: the digits of two values, and how far these are apart.
    """
    pairs = []
    for first, second, distance in values:
        room = int(max(*first, *second))
        laws = []
        for digits in (first, second):
            law = np.ones(1, dtype=np.longdouble)
            for rate, mean, digit in zip(rates, means, digits, strict=True):
                noise = np.exp(-_exact(rate) * np.abs(np.arange(-mean, mean + 1)))
                noise /= noise.sum()
                moved = np.zeros(noise.size + room, dtype=np.longdouble)
                moved[int(digit) : int(digit) + noise.size] = noise
                law = np.outer(law, moved).ravel()
            laws.append(law)
        pairs.append(Pair(laws[0], laws[1], distance))
    return pairs


def laplace_noise(rate: Fraction, reach: int) -> Law:
    """Discrete Laplace noise: (1-φ)/(1+φ) φ^m, φ = e^-rate."""
    ratio = np.exp(-_exact(rate))
    count = np.arange(reach + _beyond(rate, 50), dtype=np.longdouble)
    return np.asarray(-np.expm1(-_exact(rate)) / (1 + ratio) * np.exp(-_exact(rate) * count))


def share_noise(rate: Fraction, shares: int, reach: int) -> Law:
    """The difference of two negative binomial variables of shape 1/shares, φ = e^-rate: Σ_j f(j)
    f(j + m)."""
    shape, ratio = 1 / np.longdouble(shares), np.exp(-_exact(rate))
    terms = _beyond(rate, 30)
    masses = reach + _beyond(rate, 50)
    count = np.arange(1, terms + masses, dtype=np.longdouble)
    steps = np.cumprod(ratio * (shape + count - 1) / count)
    law = (-np.expm1(-_exact(rate))) ** shape * np.concatenate(
        [np.ones(1, dtype=np.longdouble), steps]
    )
    return np.correlate(law, law[:terms], mode="valid")


def _beyond(rate: Fraction, nats: int) -> int:
    """So many points that φ^m has lost e^-nats, and some."""
    return math.ceil(nats / float(rate)) + 50


def _exact(value: Fraction) -> np.longdouble:
    return np.longdouble(value.numerator) / np.longdouble(value.denominator)


def _power(law: Law, times: int) -> Law:
    """The law of the sum of so many independent variables."""
    result = np.ones(1, dtype=np.longdouble)
    while times:
        if times % 2:
            result = _shortened(np.convolve(result, law))
        times //= 2
        if times:
            law = _shortened(np.convolve(law, law))
    return result


def _shortened(law: Law) -> Law:
    if law.size <= LONG:
        return law
    possible = np.flatnonzero(law > IMPOSSIBLE)
    return law[possible[0] : possible[-1] + 1]


# Multisets: one user's report is one of m outcomes, and the view is how often each occurs.


def local_pairs(
    rows: Sequence[Row], honest: int, changes: Sequence[tuple[int, int]], others: Iterable[Others]
) -> list[Pair]:
    """The view's laws for all changes while the others hold each of `others`.

    Left out where there is too much to sum.

    Args:
        rows: for each value the chance of each outcome.
        honest: all users, the changed one among them.
        changes: pairs of values.
        others: how many of the other honest - 1 users hold each value.
    """
    pairs = []
    for held, (x, y) in itertools.product(list(others), changes):
        holders = [value for value, users in held.items() if users]
        alike = rows[holders[0]] if len(holders) == 1 else None
        found = _of_equals(rows[x], rows[y], alike, honest) if alike and all(alike) else None
        if found is None and (honest + 1) ** (len(rows[0]) - 1) <= MOST_CELLS:
            found = _of_any(rows, x, y, held)
        if found is not None:
            pairs.append(found)
    return pairs


def krr_rows(symbols: int, blanket: Fraction) -> list[Row]:
    """k-RR where nobody holds a symbol beyond the third: all further ones tell the same, and are
    one outcome."""
    rare = blanket / symbols
    shown = min(symbols, 3)
    rows = [[1 - blanket + rare if x == y else rare for y in range(shown)] for x in range(shown)]
    return [(*row, rare * (symbols - 3)) if symbols > 3 else tuple(row) for row in rows]


def local_laplace_rows(max_value: int, rate: Fraction) -> list[Row]:
    """local-laplace: discrete Laplace noise on a value, cut to 0..k; chances to 2^-200, of sum 1.

    The chance of each single noise is added up, and the two tails by their closed form.
    """
    with mpmath.workdps(80):
        ratio = mpmath.exp(-mpmath.mpf(rate.numerator) / rate.denominator)
        rows = []
        for value in range(max_value + 1):
            tails = {0: ratio**value / (1 + ratio), max_value: ratio ** (max_value - value)}
            tails[max_value] /= 1 + ratio
            inner = (1 - ratio) / (1 + ratio)
            chances = [
                tails.get(place, inner * ratio ** abs(place - value))
                for place in range(max_value + 1)
            ]
            row = [Fraction(int(mpmath.nint(chance * 2**200)), 2**200) for chance in chances]
            row[value] += 1 - sum(row)
            rows.append(tuple(row))
    return rows


def filter_rows(symbols: int, bits: int, hashes: int, cohorts: int, fake: Fraction) -> list[Row]:
    """bloom-rappor, of the first three symbols: reports in the same ratios tell the same.

    Every cohort, and in it every pattern of the bits that one of these symbols sets.
    """
    flip = fake / 2
    shown = range(min(symbols, 3))
    joined: dict[tuple[Fraction, ...], list[Fraction]] = {}
    for cohort in range(cohorts):
        names = [[f"shuffledp/v1/bloom/{cohort}/{j}/{x}" for j in range(hashes)] for x in shown]
        sets = [{int(sha256(n.encode()).hexdigest()[:16], 16) % bits for n in own} for own in names]
        places = sorted(set().union(*sets))
        for pattern in itertools.product((False, True), repeat=len(places)):
            likely = []
            for own in sets:
                flips = sum(bit != (at in own) for at, bit in zip(places, pattern, strict=True))
                likely.append(flip**flips * (1 - flip) ** (len(places) - flips) / cohorts)
            ratios = tuple(chance / likely[0] for chance in likely)
            total = joined.setdefault(ratios, [Fraction(0)] * len(shown))
            joined[ratios] = [a + b for a, b in zip(total, likely, strict=True)]
    return list(zip(*joined.values(), strict=True))


def dummy_pairs(symbols: int, slots: int, fill: Fraction, honest: int) -> list[Pair]:
    """A value that changes among dummies of users: the counts of the old and the new symbol, slot
    by slot.

    Nothing if they are too many. What all others hold is a constant."""
    number = honest * slots
    if (number + 2) ** 2 > MOST_CELLS:
        return []
    symbol = _exact(fill / symbols)
    neither = 1 - 2 * symbol
    law = np.zeros((number + 2, number + 2), dtype=np.longdouble)
    law[0, 0] = 1
    for _ in range(number):
        after = neither * law
        after[1:] += symbol * law[:-1]
        after[:, 1:] += symbol * law[:, :-1]
        law = after
    before = np.zeros_like(law)
    changed = np.zeros_like(law)
    before[1:] = law[:-1]
    changed[:, 1:] = law[:, :-1]
    return [Pair(before.ravel(), changed.ravel())]


def answered_dummy_pairs(
    symbols: int, slots: int, fill: Fraction, blanket: Fraction, honest: int
) -> list[Pair]:
    """Values that go through k-RR before dummies of users, message by message.

    All others hold the old value, the new one, or a third. The view is the counts of these three,
    of all further symbols together, which tell the same, and of empty slots; only the counts of the
    first two where that is too much. Nothing if even they are."""
    answers = [(*row, Fraction(0)) for row in krr_rows(symbols, blanket)]
    single = fill / symbols
    slot = [single] * min(symbols, 3) + [single * (symbols - 3)] * (symbols > 3) + [1 - fill]
    size = honest * (slots + 1) + 1
    if size ** (len(slot) - 1) > MOST_CELLS:
        answers = [(*row[:2], sum(row[2:], Fraction(0))) for row in answers]
        slot = [*slot[:2], sum(slot[2:], Fraction(0))]
    if size ** (len(slot) - 1) > MOST_CELLS:
        return []
    rest = np.ones((1,) * (len(slot) - 1), dtype=np.longdouble)
    for _ in range(honest * slots):
        rest = _with_user(rest, tuple(slot))
    pairs = []
    for others in answers:
        law = rest
        for _ in range(honest - 1):
            law = _with_user(law, others)
        before, after = (_with_user(law, answer).ravel() for answer in answers[:2])
        pairs.append(Pair(before, after))
    return pairs


def hadamard_rows(symbols: int, blanket: Fraction) -> list[Row]:
    """Hadamard response of the first four symbols: indices that are alike for all of them tell the
    same, one outcome.

    The order is the least power of two above `symbols`; symbol x owns the indices with an even
    number of ones in common with x + 1, half of them all."""
    order, shown = 1, min(symbols, 4)
    while order <= symbols:
        order *= 2
    alike: dict[tuple[bool, ...], int] = {}
    for index in range(order):
        owners = tuple((index & (value + 1)).bit_count() % 2 == 0 for value in range(shown))
        alike[owners] = alike.get(owners, 0) + 1
    free = blanket / order
    own = free + 2 * (1 - blanket) / order
    return [
        tuple(count * (own if has[value] else free) for has, count in alike.items())
        for value in range(shown)
    ]


def rappor_rows(symbols: int, fake: Fraction, when_zero: Fraction, when_one: Fraction) -> list[Row]:
    """One report of basic RAPPOR, of the first three symbols: a bit of a symbol that nobody holds
    tells nothing."""
    shown = min(symbols, 3)
    rows = []
    for value in range(shown):
        kept = [1 - fake / 2 if symbol == value else fake / 2 for symbol in range(shown)]
        ones = [chance * when_one + (1 - chance) * when_zero for chance in kept]
        reports = itertools.product((False, True), repeat=shown)
        rows.append(
            tuple(
                math.prod(
                    (one if bit else 1 - one for bit, one in zip(bits, ones, strict=True)),
                    start=Fraction(1),
                )
                for bits in reports
            )
        )
    return rows


def _of_equals(one: Row, other: Row, rest: Row, honest: int) -> Pair | None:
    """All others report by the same law: P(c) = multinomial(c) (1/h) Σ_y c_y P_y/r_y."""
    chances: dict[tuple[Fraction, Fraction], Fraction] = {}
    for a, b, r in zip(
        one, other, rest, strict=True
    ):  # outcomes of the same two ratios tell the same
        chances[a / r, b / r] = chances.get((a / r, b / r), Fraction(0)) + r
    if math.comb(honest + len(chances) - 1, len(chances) - 1) > MOST_MULTISETS:
        return None
    counts = _multisets(honest, len(chances))
    factorials = np.concatenate(
        [[0], np.cumsum(np.log(np.arange(1, honest + 1, dtype=np.longdouble)))]
    )
    log_law = np.full(counts.shape[1], factorials[honest], dtype=np.longdouble)
    weights = np.zeros((2, counts.shape[1]), dtype=np.longdouble)
    for count, (ratios, chance) in zip(counts, chances.items(), strict=True):
        log_law += count * np.log(_exact(chance)) - factorials[count]
        weights += np.array([[_exact(ratio)] for ratio in ratios]) * count
    law = np.exp(log_law) / honest
    return Pair(law * weights[0], law * weights[1])


@lru_cache(maxsize=2)
def _multisets(total: int, kinds: int) -> NDArray[np.int64]:
    """All ways to add up to `total` with so many counts, shape (kinds, ways)."""
    counts = np.array([[total]])  # the last one holds what no other has taken yet
    for _ in range(kinds - 1):
        left = counts[-1]
        first = np.cumsum(left + 1) - (left + 1)
        way = np.repeat(np.arange(left.size), left + 1)
        taken = np.arange(way.size) - first[way]
        counts = np.vstack([counts[:-1, way], taken, left[way] - taken])
    return counts


def _of_any(rows: Sequence[Row], x: int, y: int, held: Others) -> Pair:
    law = np.ones((1,) * (len(rows[0]) - 1), dtype=np.longdouble)
    for value, users in held.items():
        for _ in range(users):
            law = _with_user(law, rows[value])
    return Pair(_with_user(law, rows[x]).ravel(), _with_user(law, rows[y]).ravel())


def _with_user(law: Law, row: Row) -> Law:
    """The counts of all outcomes but the last, after one more user."""
    grown = np.zeros([size + 1 for size in law.shape], dtype=np.longdouble)
    inside = tuple(slice(0, size) for size in law.shape)
    grown[inside] = law * _exact(row[-1])
    for axis in range(law.ndim):
        moved = tuple(
            slice(1, None) if axis == other else part for other, part in enumerate(inside)
        )
        grown[moved] += law * _exact(row[axis])
    return grown
