"""Second reading of S18, S19 and K13: the proofs' steps by enumeration, written apart from the
product's code."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from functools import cache

import mpmath
import numpy as np
import pytest

from shuffledp_core.mechanisms import HadamardHistogram, OneBitShuffle, SplitMix
from shuffledp_core.mechanisms.split import WRAPPED
from shuffledp_core.privacy import Adjacency
from shuffledp_core.sampling.randomness import RandomIntegers
from shuffledp_privacy.bounds import (
    Setting,
    certified_curve,
    corrupted_bounds,
    delta_bounds,
    epsilon_bounds,
)
from shuffledp_privacy.calibration.calibrate import Target, calibrate
from shuffledp_privacy.rounds.composition import Round, compose_epsilon
from shuffledp_privacy.sums import attained, mixing, split
from shuffledp_privacy.sums.mixing import mixing_distance

Law = dict[tuple[int, ...], Fraction]


def hockey_stick(one: Law, other: Law, growth: Fraction) -> Fraction:
    return sum(
        (max(Fraction(0), p - growth * other.get(at, Fraction(0))) for at, p in one.items()),
        Fraction(0),
    )


def worst(pairs: list[tuple[Law, Law]], growth: Fraction) -> Fraction:
    return max(max(hockey_stick(p, q, growth), hockey_stick(q, p, growth)) for p, q in pairs)


def together(one: Law, other: Law) -> Law:
    """The law of the sum, entry by entry, of two independent vectors."""
    found: Law = {}
    for (a, p), (b, q) in itertools.product(one.items(), other.items()):
        key = tuple(x + y for x, y in zip(a, b, strict=True))
        found[key] = found.get(key, Fraction(0)) + p * q
    return found


# S19 (a): the collision argument, by matrices in the place of permutations.


def rows_with(total: int, room: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    if not room:
        if total == 0:
            yield ()
        return
    for first in range(min(total, room[0]) + 1):
        for rest in rows_with(total - first, room[1:]):
            yield (first, *rest)


def tables(rows: int, pieces: int, room: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Matrices of edges between left and right vertices, every vertex with `pieces` ends."""
    if rows == 0:
        yield ()
        return
    for row in rows_with(pieces, room):
        for rest in tables(rows - 1, pieces, tuple(a - b for a, b in zip(room, row, strict=True))):
            yield (row, *rest)


def components(table: tuple[tuple[int, ...], ...]) -> int:
    left, found = set(range(len(table))), 0
    while left:
        found += 1
        todo = [left.pop()]
        while todo:
            row = table[todo.pop()]
            near = {i for i in left if any(a and b for a, b in zip(table[i], row, strict=True))}
            left -= near
            todo += near
    return found


@cache
def chance_of_components(honest: int, pieces: int) -> dict[int, Fraction]:
    found: dict[int, Fraction] = {}
    for table in tables(honest, pieces, (pieces,) * honest):
        ways = Fraction(math.factorial(pieces) ** (2 * honest), math.factorial(honest * pieces))
        for number in itertools.chain.from_iterable(table):
            ways /= math.factorial(number)
        size = components(table)
        found[size] = found.get(size, Fraction(0)) + ways
    assert sum(found.values()) == 1
    return found


def excess(honest: int, pieces: int, modulus: int) -> Fraction:
    """𝔼[M^(C-1)] - 1."""
    found = chance_of_components(honest, pieces)
    return sum((p * modulus ** (size - 1) for size, p in found.items()), Fraction(-1))


class Told(RandomIntegers):
    """A source of whole numbers that says what it was told to."""

    def __init__(self, told: tuple[int, ...]) -> None:
        super().__init__()
        self._told = list(told)

    def below(self, bound: int) -> int:
        number = self._told.pop(0)
        assert number < bound
        return number


def user(value: int, modulus: int, pieces: int) -> Law:
    """How often each number is among the pieces of one value, as the client draws them."""
    spec = SplitMix(
        max_value=1, noise_epsilon=Fraction(1), shares=1, modulus=modulus, pieces=pieces
    )
    found: Law = {}
    for told in itertools.product(range(modulus), repeat=pieces - 1):
        said = spec.say(value, Told(told))
        key = tuple(said.count(symbol) for symbol in range(modulus))
        found[key] = found.get(key, Fraction(0)) + Fraction(1, modulus ** (pieces - 1))
    return found


@cache
def crowd(values: tuple[int, ...], modulus: int, pieces: int) -> Law:
    first = user(values[0], modulus, pieces)
    return first if len(values) == 1 else together(first, crowd(values[1:], modulus, pieces))


@cache
def coins(modulus: int, messages: int) -> Law:
    one = {tuple(int(i == j) for j in range(modulus)): Fraction(1, modulus) for i in range(modulus)}
    return one if messages == 1 else together(one, coins(modulus, messages - 1))


def ideal(total: int, modulus: int, messages: int) -> Law:
    """Uniform numbers with this sum."""
    whole = coins(modulus, messages)
    return {
        k: p * modulus
        for k, p in whole.items()
        if sum(i * n for i, n in enumerate(k)) % modulus == total
    }


@pytest.mark.parametrize(
    ("honest", "pieces", "modulus"),
    [(2, 3, 4), (2, 3, 6), (2, 4, 4), (3, 3, 3), (3, 3, 4), (4, 3, 2), (2, 5, 3)],
)
def test_the_client_s_pieces_are_as_near_to_their_sum_as_s19_says(
    honest: int, pieces: int, modulus: int
) -> None:
    tau = mixing_distance(honest, modulus, pieces)
    exact = math.sqrt(excess(honest, pieces, modulus)) / 2
    assert exact <= tau
    for values in itertools.combinations_with_replacement(range(modulus), honest):
        perfect = ideal(sum(values) % modulus, modulus, honest * pieces)
        law = crowd(values, modulus, pieces)
        assert law.keys() <= perfect.keys()
        assert hockey_stick(law, perfect, Fraction(1)) <= exact * (1 + 1e-12)
        # In places the multiset is one of N!/(Π n_i!) vectors, all as likely.
        collisions = sum(
            p * p * math.prod(map(math.factorial, key)) / Fraction(math.factorial(honest * pieces))
            for key, p in law.items()
        )
        scaled = collisions * modulus ** (honest * pieces - 1) - 1
        assert scaled <= excess(honest, pieces, modulus)
        if len(set(values)) == 1:
            assert scaled == excess(honest, pieces, modulus)


@pytest.mark.parametrize(
    ("honest", "pieces"), [(1, 3), (2, 3), (3, 3), (4, 3), (2, 8), (3, 6), (4, 4)]
)
@pytest.mark.parametrize("modulus", [2, 3, 12, 2**10, 2**31])
def test_the_recursion_is_above_every_graph(honest: int, pieces: int, modulus: int) -> None:
    exact, found = excess(honest, pieces, modulus), mixing._log_excess(honest, modulus, pieces)
    if exact == 0:
        assert found == -math.inf
    else:
        # q in the place of q - 1, which with q = 2 is a factor of 2 for each further component.
        assert (
            math.log(exact)
            <= found
            <= math.log(exact) + (honest - 1) * math.log(modulus / (modulus - 1)) + 0.3
        )


# S19 (c), (d): the recursion in fractions, the claims about c, and the closed form far out.


def closed(users: int, size: int, pieces: int) -> Fraction:
    return Fraction(math.comb(users, size) ** 2, math.comb(users * pieces, size * pieces))


@pytest.mark.parametrize("pieces", [3, 4, 7])
def test_expected_closed_sets_fall_with_the_crowd_and_are_convex_in_their_size(pieces: int) -> None:
    for users in range(2, 30):
        sizes = range(users + 1)
        now = [closed(users, i, pieces) for i in sizes]
        assert all(closed(users + 1, i, pieces) <= now[i] for i in sizes)
        assert (users + 1) * closed(users + 1, 2, pieces) <= users * now[2]
        assert all(2 * now[i] <= now[i - 1] + now[i + 1] for i in sizes[1:-1])


def recursion(most: int, modulus: int, pieces: int) -> list[mpmath.mpf]:
    """u_1, u_2, ... by S19 (c), every term kept."""
    with mpmath.workdps(40):
        log_whole = [mpmath.loggamma(n + 1) for n in range(most * pieces + 1)]

        def part(users: int, size: int) -> mpmath.mpf:
            few = log_whole[users] - log_whole[size] - log_whole[users - size]
            many = (
                log_whole[users * pieces]
                - log_whole[size * pieces]
                - log_whole[(users - size) * pieces]
            )
            return mpmath.exp(2 * few - many)

        found = [mpmath.mpf(1)]
        for users in range(2, most + 1):
            terms = (
                mpmath.mpf(users - i) / users * part(users, i) * found[i - 1]
                for i in range(1, users)
            )
            found.append(1 + modulus * mpmath.fsum(terms))
        return found


@pytest.mark.parametrize(
    ("modulus", "pieces"), [(2, 3), (2**8, 4), (2**17, 7), (3 * 2**20, 10), (2**31, 24)]
)
def test_the_shortened_sum_is_above_the_whole_recursion(modulus: int, pieces: int) -> None:
    found = recursion(60, modulus, pieces)
    for users in range(2, 61):
        bound = mixing._log_excess(users, modulus, pieces)
        assert bound >= float(mpmath.log(found[users - 1] - 1)) - 1e-9
    # Where the induction starts is early enough for most of these to be shortened.
    falling = [n for n in range(3, 60) if all(u <= 2 for u in found[n:])]
    assert falling


@pytest.mark.parametrize("users", [300, 10**4, 10**6, 10**9, 10**12])
@pytest.mark.parametrize(("modulus", "pieces"), [(2**17, 8), (2**31, 12), (2**31, 40)])
def test_large_crowds_lie_between_the_graphs_with_one_user_apart_and_a_little_more(
    users: int, modulus: int, pieces: int
) -> None:
    """𝔼[M^(C-1)] - 1 >= (M-1) P(C > 1) >= (M-1) (S1 - S2), S1 and S2 the users, and pairs of them,
    closed alone."""
    one = closed(users, 1, pieces)
    two = Fraction(
        math.comb(users, 2) * users * (users - 1) * math.factorial(pieces) ** 2,
        math.prod(range(users * pieces, (users - 2) * pieces, -1)),
    )
    least = (modulus - 1) * (one - two)
    found = mixing._log_excess(users, modulus, pieces)
    assert float(mpmath.log(mpmath.mpf(least.numerator) / least.denominator)) <= found + 1e-9
    assert found <= float(mpmath.log(mpmath.mpf(modulus) * one.numerator / one.denominator)) + 0.1
    tau = mixing_distance(users, modulus, pieces)
    assert tau >= 0.5 * math.exp(found / 2)


def test_a_larger_crowd_s_bound_is_not_needed_for_a_sound_one() -> None:
    """At no number of users does the bound fall below the leading term, also where sum and closed
    form meet."""
    for users in range(2, 400):
        leading = math.log((2**17 - 1) * (closed(users, 1, 6) / users))
        assert mixing._log_excess(users, 2**17, 6) >= leading


# S19 (b): dishonest users, lost pieces, and the certificate.

NOISE = {0: Fraction(5, 8), 1: Fraction(1, 4), 2: Fraction(1, 8)}
"""Of each honest user modulo 3: nothing is assumed of its shape there."""


def noisy(values: tuple[int, ...], pieces: int) -> Law:
    found: Law = {}
    for drawn in itertools.product(NOISE, repeat=len(values)):
        chance = math.prod((NOISE[n] for n in drawn), start=Fraction(1))
        moved = tuple(sorted((v + n) % 3 for v, n in zip(values, drawn, strict=True)))
        for key, p in crowd(moved, 3, pieces).items():
            found[key] = found.get(key, Fraction(0)) + chance * p
    return found


@pytest.mark.parametrize("growth", [Fraction(1), Fraction(2), Fraction(8)])
def test_a_lost_piece_leaves_at_most_what_one_user_fewer_shows(growth: Fraction) -> None:
    """h = 3, m = 3, q = 3: the third user's other pieces are coins, so that two users' bound is the
    bound."""
    pieces = 3
    rest = coins(3, pieces - 1)
    # One piece of the third is missing, whichever: the others are uniform and independent.
    for value in range(3):
        told = [
            SplitMix.say(split_of(pieces), value, Told(t))
            for t in itertools.product(range(3), repeat=2)
        ]
        for kept in itertools.combinations(range(pieces), pieces - 1):
            assert len({tuple(said[i] for i in kept) for said in told}) == 9
    tau = Fraction(mixing_distance(2, 3, pieces))
    for other in range(3):
        one, two = (noisy((value, other), pieces) for value in (0, 1))
        shown = [
            hockey_stick(together(a, rest), together(b, rest), growth)
            for a, b in ((one, two), (two, one))
        ]
        sums = [summed(law) for law in (one, two)]
        central = max(
            hockey_stick(sums[0], sums[1], growth), hockey_stick(sums[1], sums[0], growth)
        )
        assert max(shown) <= central + (1 + growth) * tau


def split_of(pieces: int) -> SplitMix:
    return SplitMix(max_value=1, noise_epsilon=Fraction(1), shares=1, modulus=3, pieces=pieces)


def summed(law: Law) -> Law:
    found: Law = {}
    for key, p in law.items():
        total = (sum(i * n for i, n in enumerate(key)) % 3,)
        found[total] = found.get(total, Fraction(0)) + p
    return found


def noise_law(shape: float, rate: float, last: int) -> list[mpmath.mpf]:
    """P(N = 0..last) of SGDL(shape, e^-rate), from its sum over negative binomials."""
    ratio = mpmath.exp(-mpmath.mpf(rate))
    far = last + int(120 / rate)
    first = [mpmath.mpf(1)]
    for j in range(1, far + 1):
        first.append(first[-1] * ratio * (shape + j - 1) / j)
    scale = (1 - ratio) ** (2 * mpmath.mpf(shape))
    return [
        scale * mpmath.fsum(first[j] * first[j + m] for j in range(far - m))
        for m in range(last + 1)
    ]


@pytest.mark.parametrize(
    ("honest", "epsilon"), [(1, 0.6), (2, 0.6), (40, 0.3), (40, 0.9), (25, 0.5)]
)
def test_the_certificate_is_the_noise_and_the_mixing_and_both_sides_hold(
    honest: int, epsilon: float
) -> None:
    """Written out for one distance; the attained side before it is cut at the certified one."""
    spec = SplitMix(max_value=3, noise_epsilon=Fraction(1, 2), shares=40, modulus=2**10, pieces=12)
    setting = Setting(users=50, honest=honest)
    law = noise_law(honest / 40, 0.5, 400)
    central = float(
        mpmath.fsum(
            max(law[abs(y)] - mpmath.exp(epsilon) * law[abs(y - 3)], mpmath.mpf(0))
            for y in range(-390, 391)
        )
    )
    tau = mixing_distance(honest, 2**10, 12)
    found = delta_bounds(spec, setting, epsilon)
    assert found.certified <= (central + tau * (1 + math.exp(epsilon))) * (1 + 1e-6)
    assert central * (1 - 1e-9) <= found.certified
    item = split.noisy_sum(spec, setting)
    low = attained.attained_delta(None, item.noise, WRAPPED, 3, epsilon)
    assert low <= min(central, found.certified)


@pytest.mark.parametrize("modulus", [5, 8, 31])
def test_one_user_s_noise_modulo_q_costs_no_more_than_without(modulus: int) -> None:
    """S8 is kept by what is done to the value afterwards, here taking it modulo q."""
    law = noise_law(1 / 40, 0.5, 150)
    wrapped = [
        mpmath.fsum(law[abs(y)] for y in range(-150, 151) if (y - at) % modulus == 0)
        for at in range(modulus)
    ]
    spec = SplitMix(max_value=3, noise_epsilon=Fraction(1, 2), shares=40, modulus=modulus, pieces=3)
    for adjacency in Adjacency:
        stated = corrupted_bounds(spec, Setting(50, 50, adjacency), 0.0).epsilon
        for d in range(1, 4):
            cost = max(abs(mpmath.log(wrapped[at] / wrapped[at - d])) for at in range(modulus))
            assert cost <= stated * (d if adjacency is Adjacency.METRIC else 1) * (1 + 1e-9)


@pytest.mark.parametrize("users", [3, 50, 2000])
def test_the_calibrated_modulus_has_room_for_the_noise_of_all(users: int) -> None:
    spec = calibrate(
        "split-mix", Target(1.0, 1e-6, users=users, honest=users, max_value=7, most_users=2 * users)
    )
    assert isinstance(spec, SplitMix)
    assert spec.modulus.bit_count() == 1
    room = (spec.modulus - 1 - 2 * users * 7) // 2
    # Chernoff with a tilt of its own: P(|Y| > room) <= 2 M(θ) e^(-θ room).
    rate = float(spec.noise_epsilon)
    ratio, shape = math.exp(-rate), 2 * users / spec.shares
    tails = []
    for theta in np.linspace(0.02, 0.98, 97).tolist():
        t = rate * theta
        moment = (
            (1 - ratio) ** 2 / ((1 - ratio * math.exp(t)) * (1 - ratio * math.exp(-t)))
        ) ** shape
        tails.append(2 * moment * math.exp(-t * (room + 1)))
    assert min(tails) <= 2.0**-40


# S18: one bit a user, every dataset.


def ones(values: tuple[int, ...], largest: int, randomise: Fraction) -> Law:
    law: Law = {(0,): Fraction(1)}
    for value in values:
        own = randomise / 2 + (1 - randomise) * Fraction(value, largest)
        law = together(law, {(0,): 1 - own, (1,): own})
    return law


@pytest.mark.parametrize("honest", [1, 2, 4])
@pytest.mark.parametrize("randomise", [Fraction(1, 10), Fraction(2, 3)])
@pytest.mark.parametrize("epsilon", [0.0, 0.2, 0.7, 1.5])
def test_one_bit_covers_every_dataset_and_some_dataset_reaches_it(
    honest: int, randomise: Fraction, epsilon: float
) -> None:
    largest = 3
    spec = OneBitShuffle(max_value=largest, randomise=randomise)
    worst_by_distance = {}
    for d in range(1, largest + 1):
        # Metric adjacency asks at ε d, standard at ε.
        for total in (epsilon, epsilon * d):
            growth = Fraction(math.exp(total))
            pairs = [
                (ones((x, *others), largest, randomise), ones((x + d, *others), largest, randomise))
                for x in range(largest + 1 - d)
                for others in itertools.combinations_with_replacement(
                    range(largest + 1), honest - 1
                )
            ]
            worst_by_distance[d, total] = float(worst(pairs, growth))
            curve = certified_curve(spec, Setting(honest, honest), d, np.array([total]))
            assert worst_by_distance[d, total] <= curve[0] + 1e-13
            # S18 (a): the randomised response of 0 and k alone.
            inner = 1 + (growth - 1) * Fraction(largest, d)
            extremes = [
                (
                    ones((0, *others), largest, randomise),
                    ones((largest, *others), largest, randomise),
                )
                for others in itertools.combinations_with_replacement((0, largest), honest - 1)
            ]
            assert worst(pairs, growth) == Fraction(d, largest) * worst(extremes, inner)
    for adjacency in Adjacency:
        found = delta_bounds(spec, Setting(honest, honest, adjacency), epsilon)
        metric = adjacency is Adjacency.METRIC
        truth = max(
            worst_by_distance[d, epsilon * d if metric else epsilon] for d in range(1, largest + 1)
        )
        assert found.attained <= truth + 1e-13
        assert truth <= found.certified + 1e-13
        assert found.certified <= truth * 1.001 + 1e-9
        if 1e-6 < truth < 1:
            answer = epsilon_bounds(spec, Setting(honest, honest, adjacency), truth)
            assert answer.attained <= epsilon + 1e-9
            assert epsilon <= answer.certified + 1e-9


# K13: the Hadamard histogram, every dataset of a few users.


def hadamard_user(value: int, order: int, blanket: Fraction) -> Law:
    chances = [
        blanket / order + (0 if ((value + 1) & y).bit_count() % 2 else 2 * (1 - blanket) / order)
        for y in range(order)
    ]
    return {tuple(int(i == y) for i in range(order)): p for y, p in enumerate(chances)}


@cache
def hadamard(values: tuple[int, ...], order: int, blanket: Fraction) -> Law:
    first = hadamard_user(values[0], order, blanket)
    return first if len(values) == 1 else together(first, hadamard(values[1:], order, blanket))


@pytest.mark.parametrize(("symbols", "order"), [(2, 4), (3, 4), (4, 8), (7, 8)])
@pytest.mark.parametrize("honest", [1, 3])
def test_hadamard_covers_every_dataset_in_both_orders(
    symbols: int, order: int, honest: int
) -> None:
    for blanket in (Fraction(1, 4), Fraction(3, 4)):
        spec, setting = HadamardHistogram(symbols=symbols, blanket=blanket), Setting(honest, honest)
        shown = [
            [p for _, p in sorted(hadamard_user(x, order, blanket).items())] for x in range(symbols)
        ]
        # (a): what all symbols have in common; the index 0 sorts last.
        common = [min(column) for column in zip(*shown, strict=True)]
        assert common[-1] == (2 - blanket) / order
        assert set(common[:-1]) == {blanket / order}
        pairs = [
            (
                hadamard(tuple(sorted((0, *o))), order, blanket),
                hadamard(tuple(sorted((1, *o))), order, blanket),
            )
            for o in itertools.combinations_with_replacement(range(min(symbols, 4)), honest - 1)
        ]
        top = math.log((2 - blanket) / blanket)
        assert corrupted_bounds(spec, setting, 0.0).epsilon == pytest.approx(top)
        for epsilon in (0.0, 0.3 * top, 0.9 * top):
            truth = float(worst(pairs, Fraction(math.exp(epsilon))))
            found = delta_bounds(spec, setting, epsilon)
            assert truth <= found.certified + 1e-13
            assert found.attained <= truth + 1e-13
        below = float(worst(pairs, Fraction(math.exp(-0.4))))
        assert below <= certified_curve(spec, setting, 1, np.array([-0.4]))[0] + 1e-13


# Two rounds (C1, C12), of S18, S19 and K13.


def twice(one: Law) -> Law:
    return {a + b: p * q for (a, p), (b, q) in itertools.product(one.items(), one.items())}


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("delta", [0.2, 1e-2, 1e-5])
def test_two_rounds_of_one_bit_cover_every_dataset_and_distance(
    adjacency: Adjacency, delta: float
) -> None:
    spec = OneBitShuffle(max_value=3, randomise=Fraction(1, 3))
    epsilon = compose_epsilon([Round(spec, Setting(3, 3, adjacency), 2)], delta)
    for d in range(1, 4):
        growth = Fraction(math.exp(epsilon * (d if adjacency is Adjacency.METRIC else 1)))
        for others in itertools.combinations_with_replacement(range(4), 2):
            for x in range(4 - d):
                p, q = (twice(ones((value, *others), 3, spec.randomise)) for value in (x, x + d))
                assert float(
                    max(hockey_stick(p, q, growth), hockey_stick(q, p, growth))
                ) <= delta * (1 + 1e-9)


@pytest.mark.parametrize("delta", [0.2, 1e-2, 1e-5])
def test_two_rounds_of_the_hadamard_histogram_cover_every_dataset(delta: float) -> None:
    spec = HadamardHistogram(symbols=4, blanket=Fraction(1, 2))
    growth = Fraction(math.exp(compose_epsilon([Round(spec, Setting(2, 2), 2)], delta)))
    for other in range(4):
        p, q = (twice(hadamard(tuple(sorted((value, other))), 8, spec.blanket)) for value in (0, 1))
        assert float(max(hockey_stick(p, q, growth), hockey_stick(q, p, growth))) <= delta * (
            1 + 1e-9
        )


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("honest", [20, 40])
def test_two_rounds_of_split_values_cost_no_less_than_their_sums(
    adjacency: Adjacency, honest: int
) -> None:
    """With pieces to spare they cost little more either."""
    delta = 1e-5
    spec = SplitMix(max_value=3, noise_epsilon=Fraction(1, 2), shares=40, modulus=2**10, pieces=30)
    epsilon = compose_epsilon([Round(spec, Setting(50, honest, adjacency), 2)], delta)
    half = np.array([float(p) for p in noise_law(honest / 40, 0.5, 90)])
    whole = np.concatenate([half[:0:-1], half])
    units = np.arange(1, 4) if adjacency is Adjacency.METRIC else np.ones(3)

    def exact(asked: float) -> float:
        found = []
        for d, unit in enumerate(units.tolist(), 1):
            one, two = np.append(whole, np.zeros(d)), np.append(np.zeros(d), whole)
            lost = np.outer(one, one) - math.exp(asked * unit) * np.outer(two, two)
            found.append(float(np.maximum(lost, 0.0).sum()))
        return max(found)

    assert exact(epsilon) <= delta
    if adjacency is Adjacency.STANDARD:
        assert exact(epsilon * 0.99) > delta
