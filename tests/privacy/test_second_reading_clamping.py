"""A second reading of S5, S6b, S9, S17 and C12 with kept noise: everything computed anew, in
extended precision."""

from __future__ import annotations

import itertools
import math
import random
from fractions import Fraction

import numpy as np
import pytest
from composed_delta import compose_delta
from numpy.typing import NDArray

from shuffledp_core.answering.estimates import COVERAGE
from shuffledp_core.bounds import noise
from shuffledp_core.mechanisms import GeoShuffle, SGDLShuffle
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.bounds import Setting, certified_curve, delta_bounds, epsilon_bounds
from shuffledp_privacy.rounds.composition import Round, compose_epsilon
from shuffledp_privacy.sums.kept import kept_noise, resolvable_honest

Long = NDArray[np.longdouble]
Pair = tuple[Long, Long]

# A double has 53 bits where the platform has nothing longer.
NEAR = 1e-12


def report(spec: GeoShuffle, value: int) -> Long:
    """Law of clamp(x + N, -c, k + c), whose first point is -c."""
    rate = np.longdouble(spec.epsilon_geo.numerator) / spec.epsilon_geo.denominator
    size = np.abs(np.arange(spec.messages_per_user + 1) - spec.padding - value)
    law = np.exp(-rate * size) * (-np.expm1(-rate) / (1 + np.exp(-rate)))
    # Whatever lies beyond an end is moved to it.
    law[0], law[-1] = np.exp(-rate * size[[0, -1]]) / (1 + np.exp(-rate))
    return np.asarray(law, dtype=np.longdouble)


def power(law: Long, times: int) -> Long:
    found: Long = np.ones(1, dtype=np.longdouble)
    for bit in f"{times:b}" if times else "":
        found = np.convolve(found, found)
        if bit == "1":
            found = np.convolve(found, law)
    return found


def pair(spec: GeoShuffle, others: dict[int, int], old: int, new: int) -> Pair:
    rest: Long = np.ones(1, dtype=np.longdouble)
    for value, count in others.items():
        rest = np.convolve(rest, power(report(spec, value), count))
    return np.convolve(rest, report(spec, old)), np.convolve(rest, report(spec, new))


def divergence(laws: Pair, total: float) -> float:
    return float(np.maximum(laws[0] - np.exp(np.longdouble(total)) * laws[1], 0).sum())


def every_pair(spec: GeoShuffle, users: int, most: int) -> list[tuple[int, Pair]]:
    """All datasets, all changes of one value by at most `most`, both orders."""
    values, found = range(spec.max_value + 1), []
    for others in itertools.combinations_with_replacement(values, users - 1):
        counts = {value: others.count(value) for value in set(others)}
        for old, new in itertools.permutations(values, 2):
            if abs(old - new) <= most:
                found.append((abs(old - new), pair(spec, counts, old, new)))
    return found


def test_a_larger_distance_is_worse_for_log_concave_sequences_in_rational_numbers() -> None:
    """S5, with no rounding at all; e^ε as often as not exactly one of the ratios."""
    draw = random.Random(5)  # noqa: S311
    for _ in range(700):
        points = draw.randint(1, 9)
        ratios = sorted(
            (Fraction(draw.randint(1, 40), draw.randint(1, 20)) for _ in range(points - 1)),
            reverse=True,
        )
        law = [Fraction(1)]
        for ratio in ratios:
            law.append(law[-1] * ratio)
        growth = draw.choice([Fraction(draw.randint(10, 40), 10), *(r for r in ratios if r >= 1)])
        found = []
        for distance in range(1, points + 3):
            near = law + [Fraction(0)] * distance
            far = [Fraction(0)] * distance + law
            found.append(
                sum(
                    max(Fraction(0), a - growth**distance * b)
                    for a, b in zip(near, far, strict=True)
                )
            )
        assert found == sorted(found)


@pytest.mark.parametrize("seed", range(4))
def test_no_dataset_of_small_random_cases_is_outside_of_the_two_sides(seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311
    for _ in range(9):
        rate = Fraction(math.exp(draw.uniform(-4, 3))).limit_denominator(draw.choice([64, 10**6]))
        users, largest = draw.choice([(1, 5), (2, 3), (3, 2), (4, 1)])
        spec = GeoShuffle(max_value=largest, epsilon_geo=rate, padding=draw.choice([0, 1, 2, 3, 6]))
        most = draw.randint(1, largest)
        laws = every_pair(spec, users, most)
        for adjacency in Adjacency:
            setting = Setting(users + draw.choice([0, 2]), users, adjacency, most)
            metric = adjacency is Adjacency.METRIC

            def truth(
                epsilon: float,
                laws: list[tuple[int, Pair]] = laws,
                metric: bool = metric,  # noqa: FBT001
            ) -> float:
                return max(
                    divergence(both, epsilon * (distance if metric else 1))
                    for distance, both in laws
                )

            end = float(rate) * (1 if metric else most)
            for share in (0.0, draw.random(), 1 - 10 ** draw.uniform(-9, -1)):
                found = delta_bounds(spec, setting, share * end)
                assert (
                    found.attained * (1 - NEAR)
                    <= truth(share * end)
                    <= found.certified * (1 + NEAR) + 1e-17
                )
            for delta in (1e-12, 10 ** draw.uniform(-9, -0.1), 0.9):
                bounds = epsilon_bounds(spec, setting, delta)
                assert bounds.attained <= bounds.certified
                assert truth(bounds.certified) <= delta * (1 + NEAR) + 1e-17
                assert bounds.attained == 0.0 or truth(bounds.attained) >= delta * (1 - NEAR)


@pytest.mark.parametrize(
    ("rate", "padding", "users", "largest"),
    [
        (Fraction(1, 10), 9, 60, 20),
        (Fraction(1, 3), 3, 100, 5),
        (Fraction(3), 1, 300, 3),
        (Fraction(2917, 4096), 12, 40, 100),
        (Fraction(1), 60, 20, 200),
        (Fraction(5, 2), 7, 5, 260),
    ],
)
def test_ends_of_the_domain_are_inside_of_the_two_sides_from_one_report_to_far_tails(
    rate: Fraction, padding: int, users: int, largest: int
) -> None:
    spec, setting = (
        GeoShuffle(max_value=largest, epsilon_geo=rate, padding=padding),
        Setting(users, users),
    )
    low, high = ({0: users - 1}, 0, largest), ({largest: users - 1}, 0, largest)
    laws = [both for case in (low, high) for both in (pair(spec, *case), pair(spec, *case)[::-1])]
    worst = {
        total: max(divergence(both, total) for both in laws)
        for total in np.linspace(0, float(rate) * largest, 6)
    }
    for total, truth in worst.items():
        found = delta_bounds(spec, setting, total)
        assert found.attained * (1 - NEAR) <= truth <= found.certified * (1 + NEAR)
    curve = certified_curve(spec, setting, largest, np.array(list(worst)))
    assert (curve * (1 + NEAR) >= list(worst.values())).all()
    for delta in (1e-12, 1e-6, 1e-2):
        bounds = epsilon_bounds(spec, setting, delta)
        assert max(divergence(both, bounds.certified) for both in laws) <= delta * (1 + NEAR)
        assert bounds.attained == 0 or max(
            divergence(both, bounds.attained) for both in laws
        ) >= delta * (1 - NEAR)


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize(
    ("specs", "largest"),
    [
        # Kept noise twice; kept and whole noise together; two kept noises that are not alike.
        ([(Fraction(1, 2), 4, 6), (Fraction(1, 2), 4, 6)], 3),
        ([(Fraction(1, 2), 4, 6), (Fraction(1), 45, 4)], 3),
        ([(Fraction(2), 2, 20), (Fraction(1, 3), 8, 10)], 6),
    ],
)
def test_two_rounds_in_every_order_stay_below_what_is_composed(
    specs: list[tuple[Fraction, int, int]], largest: int, adjacency: Adjacency
) -> None:
    metric = adjacency is Adjacency.METRIC
    rounds, laws = [], []
    for rate, padding, users in specs:
        spec = GeoShuffle(max_value=largest, epsilon_geo=rate, padding=padding)
        rounds.append(Round(spec, Setting(users, users, adjacency)))
        sides = [(d, pair(spec, {0: users - 1}, 0, d)) for d in (1, largest)]
        laws.append(sides + [(d, both[::-1]) for d, both in sides])
    joint = [
        (d, (np.outer(a[0], b[0]).ravel(), np.outer(a[1], b[1]).ravel()))
        for (d, a), (e, b) in itertools.product(*laws)
        if d == e
    ]

    def truth(epsilon: float) -> float:
        return max(
            divergence(both, epsilon * (distance if metric else 1)) for distance, both in joint
        )

    for delta in (1e-8, 1e-4, 0.05):
        assert truth(compose_epsilon(rounds, delta)) <= delta * (1 + NEAR)
    for epsilon in (0.1, 0.3, 0.8):
        assert truth(epsilon) <= compose_delta(rounds, epsilon) * (1 + NEAR)


def test_noise_shorter_than_the_change_bounds_nothing_and_is_no_error() -> None:
    spec = GeoShuffle(max_value=6, epsilon_geo=Fraction(1), padding=1)
    assert compose_delta([Round(spec, Setting(2, 2, Adjacency.METRIC), 2)], 0.5) == 1.0


def test_more_users_than_can_be_told_apart_do_not_loosen_a_certificate() -> None:
    spec = GeoShuffle(max_value=1, epsilon_geo=Fraction(1, 2), padding=6)
    found = [epsilon_bounds(spec, Setting(h, h), 1e-6).certified for h in (10**7, 10**8, 10**9)]
    assert found[1] <= found[0] * 1.01
    assert found[2] <= found[0] * 1.01
    assert resolvable_honest(spec, 10**9, 1) < 10**9
    assert resolvable_honest(spec, 1000, 1) == 1000


def test_stated_pairs_of_flags_and_kept_noise_are_what_the_code_bounds() -> None:
    """S6b (a) with Bin(h, 1 - τ) term by term, by rows and by curves, from few noises to wide
    sums."""
    draw = random.Random(11)  # noqa: S311
    for _ in range(25):
        rate = Fraction(math.exp(draw.uniform(-3, 3))).limit_denominator(4096)
        padding, users = draw.choice([1, 2, 5, 25, 60]), draw.choice([1, 2, 10, 40])
        kept = kept_noise(GeoShuffle(max_value=1, epsilon_geo=rate, padding=padding), users)
        if kept is None:
            continue
        ratio = np.exp(-np.longdouble(rate.numerator) / rate.denominator)
        one = ratio ** np.abs(np.arange(-padding, padding + 1))
        tail = 2 * ratio ** (padding + 1) / (1 + ratio)
        distance = draw.choice([1, padding, padding * users])
        totals = np.minimum(np.linspace(0, float(rate) * distance, draw.choice([4, 30])), 690.0)
        found = kept.divergence(np.full(totals.shape, distance), totals)[0]
        laws: list[Long] = [np.ones(1, dtype=np.longdouble)]
        for _ in range(users):
            laws.append(np.convolve(laws[-1], one / one.sum()))
        nothing = np.zeros(distance, dtype=np.longdouble)
        for total, upper in list(zip(totals.tolist(), found.tolist(), strict=True))[
            :: max(1, totals.size // 4)
        ]:
            exact = sum(
                math.comb(users, m)
                * (1 - tail) ** m
                * tail ** (users - m)
                * divergence(
                    (np.concatenate([law, nothing]), np.concatenate([nothing, law])), total
                )
                for m, law in enumerate(laws)
            )
            assert exact <= upper * (1 + NEAR)


@pytest.mark.parametrize("rate", [Fraction(1, 20), Fraction(1, 2), Fraction(3)], ids=str)
@pytest.mark.parametrize("padding", [0, 1, 7])
def test_no_value_is_moved_farther_than_the_stated_bias_nor_spread_wider(
    rate: Fraction, padding: int
) -> None:
    for largest in (1, 2, 20):
        spec = GeoShuffle(max_value=largest, epsilon_geo=rate, padding=padding)
        points = np.arange(spec.messages_per_user + 1) - padding
        moved = []
        for value in range(largest + 1):
            law = report(spec, value)
            # From the value itself, so that no digits of a tiny bias cancel.
            moved.append(float(law @ (points - value)))
            assert float(law @ (points - value) ** 2) - moved[-1] ** 2 <= noise.standard_deviation(
                1.0, float(rate)
            ) ** 2 * (1 + 1e-9)
        assert moved[0] == pytest.approx(spec.bias, rel=1e-9, abs=1e-15)
        assert max(abs(move) for move in moved) <= spec.bias * (1 + NEAR) + 1e-15


def test_shares_are_moved_no_farther_than_the_stated_bias() -> None:
    for rate, shares, padding in itertools.product(
        (Fraction(1, 5), Fraction(2)), (1, 3, 50), (0, 2, 9)
    ):
        spec = SGDLShuffle(max_value=4, noise_epsilon=rate, shares=shares, padding=padding)
        ratio, reach = math.exp(-float(rate)), math.ceil(90 / float(rate))
        half = np.cumprod([1.0] + [ratio * (1 / shares + i) / (i + 1) for i in range(reach)])
        half /= half.sum()
        law, points = np.convolve(half, half[::-1]), np.arange(-reach, reach + 1)
        for value in range(5):
            mean = float(law @ np.clip(value + points, -padding, 4 + padding))
            assert abs(mean - value) <= spec.bias * (1 + 1e-9) + 1e-15


@pytest.mark.parametrize("users", [1, 3, 10, 30])
def test_intervals_that_reach_farther_by_the_bias_cover_as_often_as_they_say(users: int) -> None:
    for rate, padding, largest in itertools.product(
        (Fraction(1, 4), Fraction(2)), (0, 2, 8), (1, 5)
    ):
        spec = GeoShuffle(max_value=largest, epsilon_geo=rate, padding=padding)
        width = noise.half_width(float(users), float(rate), COVERAGE) + users * spec.bias
        for ends in {0, 1, users // 2, users}:
            law = np.convolve(
                power(report(spec, 0), users - ends), power(report(spec, largest), ends)
            )
            error = np.arange(law.size) - users * padding - ends * largest
            assert float(law[np.abs(error) <= width].sum()) >= COVERAGE
