"""The noise that clamping leaves (docs/accounting.md, S6b): against all datasets of small cases and
40 digits."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import lru_cache

import mpmath
import numpy as np
import pytest
from composed_delta import compose_delta
from dp_accounting.pld import privacy_loss_distribution
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from shuffledp_core.answering.estimates import Present
from shuffledp_core.mechanisms import GeoShuffle, SGDLShuffle
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.bounds import (
    Setting,
    certified_curve,
    delta_bounds,
    epsilon_bounds,
    standard_error,
)
from shuffledp_privacy.calibration.calibrate import Target, calibrate
from shuffledp_privacy.primitives import truncated
from shuffledp_privacy.primitives.pairs import hockey_stick
from shuffledp_privacy.primitives.truncated import TruncatedLaw, TruncatedNoise, TruncatedPair
from shuffledp_privacy.primitives.truncated_table import kept_table
from shuffledp_privacy.primitives.work import limited_work
from shuffledp_privacy.rounds.composition import Round, compose_epsilon
from shuffledp_privacy.sums import geo
from shuffledp_privacy.sums.kept import KeptNoise, cells, kept_noise
from shuffledp_privacy.sums.worst import worst_delta

Numbers = tuple[mpmath.mpf, ...]
DIGITS = 40


def number(value: Fraction) -> mpmath.mpf:
    return mpmath.mpf(value.numerator) / value.denominator


def convolved(first: Numbers, second: Numbers) -> Numbers:
    total = [mpmath.mpf(0)] * (len(first) + len(second) - 1)
    for i, left in enumerate(first):
        for j, right in enumerate(second):
            total[i + j] += left * right
    return tuple(total)


def divergence(first: Numbers, second: Numbers, epsilon: float) -> mpmath.mpf:
    growth = mpmath.exp(mpmath.mpf(epsilon))
    return mpmath.fsum(a - growth * b for a, b in zip(first, second, strict=True) if a > growth * b)


def shifted(law: Numbers, distance: int, epsilon: float) -> mpmath.mpf:
    """HS of a law and itself moved up."""
    nothing = (mpmath.mpf(0),) * distance
    return divergence(law + nothing, nothing + law, epsilon)


def kept_law(rate: Fraction, padding: int) -> Numbers:
    weights = [mpmath.exp(-number(rate) * abs(j)) for j in range(-padding, padding + 1)]
    total = mpmath.fsum(weights)
    return tuple(weight / total for weight in weights)


@lru_cache(maxsize=64)
def kept_laws(rate: Fraction, padding: int, most: int) -> tuple[Numbers, ...]:
    laws: list[Numbers] = [(mpmath.mpf(1),)]
    for _ in range(most):
        laws.append(convolved(laws[-1], kept_law(rate, padding)))
    return tuple(laws)


def outside(rate: Fraction, padding: int) -> mpmath.mpf:
    q = mpmath.exp(-number(rate))
    return 2 * q ** (padding + 1) / (1 + q)


def stated_bound(
    rate: Fraction, padding: int, honest: int, distance: int, epsilon: float
) -> mpmath.mpf:
    """E HS_E(W_M‖W_M + d), M ~ Bin(h, 1 - τ), term by term."""
    tail = outside(rate, padding)
    laws = kept_laws(rate, padding, honest)
    return mpmath.fsum(
        math.comb(honest, m)
        * (1 - tail) ** m
        * tail ** (honest - m)
        * shifted(laws[m], distance, epsilon)
        for m in range(honest + 1)
    )


@lru_cache(maxsize=64)
def report(spec: GeoShuffle, value: int) -> Numbers:
    """Law of clamp(x + N + c, 0, k + 2c), its ends in closed form."""
    q, top = mpmath.exp(-number(spec.epsilon_geo)), spec.messages_per_user
    middle = value + spec.padding
    law = [(1 - q) / (1 + q) * q ** abs(y - middle) for y in range(top + 1)]
    law[0], law[top] = q**middle / (1 + q), q ** (top - middle) / (1 + q)
    return tuple(law)


def true_delta(spec: GeoShuffle, users: int, distance: int, epsilon: float) -> mpmath.mpf:
    """The largest δ over all datasets, for all changes of one value by `distance`, in both
    orders."""
    worst = mpmath.mpf(0)
    for others in itertools.combinations_with_replacement(range(spec.max_value + 1), users - 1):
        rest: Numbers = (mpmath.mpf(1),)
        for value in others:
            rest = convolved(rest, report(spec, value))
        laws = [convolved(rest, report(spec, value)) for value in range(spec.max_value + 1)]
        for low in range(spec.max_value + 1 - distance):
            near, far = laws[low], laws[low + distance]
            worst = max(worst, divergence(near, far, epsilon), divergence(far, near, epsilon))
    return worst


@pytest.mark.parametrize("honest", [1, 2, 3])
@pytest.mark.parametrize("padding", [1, 2, 4])
@pytest.mark.parametrize("rate", [Fraction(1, 3), Fraction(1), Fraction(5, 2)], ids=str)
def test_no_dataset_of_small_cases_exceeds_the_bound_and_the_code_computes_it(
    rate: Fraction, padding: int, honest: int
) -> None:
    with mpmath.workdps(DIGITS):
        for largest, share in itertools.product((1, 2, 3), (0.02, 0.2, 0.5, 0.7, 0.9)):
            spec = GeoShuffle(max_value=largest, epsilon_geo=rate, padding=padding)
            epsilon = share * float(rate) * largest
            bound = stated_bound(rate, padding, honest, largest, epsilon)
            assert true_delta(spec, honest, largest, epsilon) <= bound
            kept = kept_noise(spec, honest)
            if kept is not None:
                found = float(kept.divergence(np.array([largest]), np.array([epsilon]))[0][0])
                assert bound <= found
                if bound > 1e-30:
                    assert found <= min(1, bound * (1 + mpmath.mpf("1e-6")))
            setting = Setting(honest, honest, Adjacency.STANDARD)
            assert (
                true_delta(spec, honest, largest, epsilon)
                <= delta_bounds(spec, setting, epsilon).certified
            )


def test_a_smaller_change_is_covered_by_the_bound_of_a_larger_one() -> None:
    spec = GeoShuffle(max_value=4, epsilon_geo=Fraction(3, 4), padding=2)
    with mpmath.workdps(DIGITS):
        for epsilon in (0.05, 0.2, 0.4):
            bounds = [stated_bound(spec.epsilon_geo, 2, 2, d, epsilon * d) for d in (1, 2, 3, 4)]
            assert bounds == sorted(bounds)
            for distance in (1, 2, 3, 4):
                assert true_delta(spec, 2, distance, epsilon * distance) <= bounds[distance - 1]


@pytest.mark.parametrize(
    ("rate", "padding", "count", "distance"),
    [
        (Fraction(1, 2), 6, 24, 7),
        (Fraction(3), 1, 9, 2),
        (Fraction(1, 7), 20, 5, 20),
        (Fraction(1, 3), 5, 16, 9),
        (Fraction(1), 9, 2, 4),
    ],
)
def test_sums_of_kept_noise_are_bracketed_to_many_digits(
    rate: Fraction, padding: int, count: int, distance: int
) -> None:
    with mpmath.workdps(DIGITS):
        law = kept_laws(rate, padding, count)[count]
        noise = TruncatedNoise.of(rate, padding)
        epsilons = np.linspace(0.0, 0.75 * noise.widest_tilt * distance, 6)
        rows = np.ones(6)
        found = hockey_stick(
            TruncatedPair.of(TruncatedLaw(noise, count * rows), distance * rows), epsilons
        )
        for epsilon, low, high in zip(epsilons.tolist(), found.lower, found.upper, strict=True):
            truth = shifted(law, distance, epsilon)
            assert low <= truth <= high
            assert high <= truth * (1 + mpmath.mpf("1e-6"))


@pytest.mark.parametrize(
    ("rate", "padding", "count", "distance"), [(Fraction(1), 7, 70, 5), (Fraction(3, 2), 5, 80, 3)]
)
def test_tables_of_kept_noise_are_above_the_truth_by_next_to_nothing(
    rate: Fraction, padding: int, count: int, distance: int
) -> None:
    with mpmath.workdps(DIGITS):
        law = kept_laws(rate, padding, count)[count]
        noise = TruncatedNoise.of(rate, padding)
        table = kept_table(noise, count, distance)
        assert table is not None
        middle = count * padding
        for y in range(min(table.logs.size, 100)):
            assert abs(mpmath.log(law[middle + y]) - float(table.logs[y])) <= table.margin
        epsilons = np.linspace(0.0, 0.8 * float(rate) * distance, 6)
        for epsilon, found in zip(
            epsilons.tolist(), table.divergence(distance, epsilons), strict=True
        ):
            truth = shifted(law, distance, epsilon)
            assert truth <= found <= truth * (1 + mpmath.mpf("1e-5")) + mpmath.mpf("1e-38")


@pytest.mark.parametrize(
    ("honest", "padding", "rate"), [(1900, 12, Fraction(2917, 4096)), (300, 20, Fraction(1, 3))]
)
def test_a_curve_from_tables_is_that_from_sums(honest: int, padding: int, rate: Fraction) -> None:
    kept = kept_noise(GeoShuffle(max_value=20, epsilon_geo=rate, padding=padding), honest)
    assert kept is not None
    epsilons, steps = np.linspace(0.0, 3.0, 40), np.full(40, 20)
    together = kept.divergence(steps, epsilons)[0]
    apart = np.concatenate(
        [kept.divergence(steps[i : i + 10], epsilons[i : i + 10])[0] for i in range(0, 40, 10)]
    )
    assert np.allclose(together, apart, rtol=1e-4, atol=1e-30)


@settings(deadline=None, max_examples=60)
@given(
    rate=st.floats(0.01, 4.0),
    padding=st.integers(1, 200),
    count=st.integers(1, 10**6),
    share=st.floats(-0.95, 0.95),
)
def test_the_envelope_is_above_the_modulus_and_never_rises(
    rate: float, padding: int, count: int, share: float
) -> None:
    noise = TruncatedNoise(rate, padding, 0.0)
    if noise.widest_tilt == 0.0:
        return
    law = TruncatedLaw(noise, np.array([float(count)]))
    tilt = np.array([[share * noise.widest_tilt]])
    angles = np.linspace(0.0, math.pi, 4001)[None, :]
    above, modulus = law.log_envelope(tilt, angles), law.log_modulus(tilt, angles)
    margin = 1e-9 * count
    assert (above >= modulus - margin).all()
    assert (np.diff(above) <= margin).all()
    # The modulus from the definition.
    j = np.arange(-padding, padding + 1)
    weights = np.exp(-rate * np.abs(j) + tilt[0, 0] * j)
    exact = np.abs(np.exp(1j * np.outer(angles[0, ::500], j)) @ (weights / weights.sum()))
    assert np.allclose(np.exp(modulus[0, ::500] / count), exact, atol=1e-9)


@settings(deadline=None, max_examples=40)
@given(honest=st.integers(1, 10**9), exponent=st.floats(-9, -0.5))
def test_cells_never_count_more_noises_than_there_are(honest: int, exponent: float) -> None:
    tail = 10.0**exponent
    found = cells(honest, tail)
    assert (found.counts >= 1).all()
    assert (found.counts <= honest).all()
    assert (np.diff(found.counts) < 0).all()
    assert 1.0 <= found.masses.sum() + found.lost <= 1.0 + 1e-6
    # So few that a certificate takes no time, and near the mean: few noises are given away.
    assert found.counts.size <= 64
    if honest * tail < honest / 4 and honest > 1000:
        assert found.counts @ found.masses >= honest * (1 - tail) * (1 - 3e-3)


def test_cells_are_above_the_binomial_law() -> None:
    with mpmath.workdps(DIGITS):
        tail, honest = mpmath.mpf("0.05"), 40
        found = cells(honest, 0.05)
        reached = mpmath.mpf(0)
        for count, mass in zip(found.counts, np.cumsum(found.masses[::-1])[::-1], strict=True):
            # P(M <= the largest number of a cell) is at most the mass of it and all below it.
            above = [c for c in found.counts if c > count]
            largest = int(min(above)) - 1 if above else honest
            reached = mpmath.fsum(
                math.comb(honest, m) * (1 - tail) ** m * tail ** (honest - m)
                for m in range(largest + 1)
            )
            assert reached <= mass + found.lost


REFERENCE = GeoShuffle(max_value=20, epsilon_geo=Fraction(2917, 4096), padding=12)


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_little_padding_costs_next_to_nothing_in_one_round_and_in_thirty(
    adjacency: Adjacency,
) -> None:
    units = 20 if adjacency is Adjacency.METRIC else 1
    setting = Setting(2000, 1900, adjacency)
    for times, most in ((1, 0.9975), (8, 3.1125), (30, 6.59)):
        assert compose_epsilon([Round(REFERENCE, setting, times)], 1e-6) * units <= most
    assert any(
        line.startswith("S6") and "S6b" in line
        for line in epsilon_bounds(REFERENCE, setting, 1e-6).basis
    )


def test_composed_rounds_agree_with_another_library() -> None:
    """The pair (M, W_M), (M, W_M + d) itself, by dp_accounting's grid of 1e-3."""
    rate, padding, honest, distance, times = Fraction(1, 2), 6, 45, 4, 6
    tail = float(outside(rate, padding))
    one = np.array([float(mass) for mass in kept_law(rate, padding)])
    near: dict[tuple[int, int], float] = {}
    far: dict[tuple[int, int], float] = {}
    law = np.ones(1)
    for m in range(honest + 1):
        chance = math.comb(honest, m) * (1 - tail) ** m * tail ** (honest - m)
        for place, mass in enumerate(law):
            near[m, place] = chance * mass
            far[m, place + distance] = chance * mass
        law = np.convolve(law, one)
    spec, setting = (
        GeoShuffle(max_value=distance, epsilon_geo=rate, padding=padding),
        Setting(honest, honest),
    )
    found = compose_epsilon([Round(spec, setting, times)], 1e-4)
    pairs = [
        {key: math.log(mass) for key, mass in side.items() if mass > 0} for side in (far, near)
    ]
    for pessimistic in (False, True):
        loss = privacy_loss_distribution.from_two_probability_mass_functions(
            *pairs, pessimistic_estimate=pessimistic, value_discretization_interval=1e-3
        )
        other = loss.self_compose(times).get_epsilon_for_delta(1e-4)
        if pessimistic:
            assert found <= other * 1.002
        else:
            assert found >= other * (1 - 1e-6)


@pytest.mark.parametrize("epsilon", [0.15, 0.4, 0.6])
def test_two_rounds_of_clamped_reports_stay_below_the_composed_bound(epsilon: float) -> None:
    spec, users = GeoShuffle(max_value=3, epsilon_geo=Fraction(4, 5), padding=3), 2
    with mpmath.workdps(DIGITS):
        near = np.array([float(mass) for mass in convolved(report(spec, 0), report(spec, 0))])
        exact = []
        for distance in (1, 2, 3):
            far = np.array(
                [float(mass) for mass in convolved(report(spec, 0), report(spec, distance))]
            )
            p, q = np.outer(near, near), np.outer(far, far)
            total = math.exp(epsilon * distance)
            exact += [
                float(np.maximum(p - total * q, 0).sum()),
                float(np.maximum(q - total * p, 0).sum()),
            ]
    rounds = [Round(spec, Setting(users, users, Adjacency.METRIC), 2)]
    assert compose_delta(rounds, epsilon) >= max(exact)


def test_the_long_curve_is_above_the_exact_bound_at_any_sign() -> None:
    spec, honest, distance = GeoShuffle(max_value=5, epsilon_geo=Fraction(2, 3), padding=4), 4, 5
    epsilons = np.linspace(-2.0, 2.0, 1001)
    curve = certified_curve(spec, Setting(honest, honest), distance, epsilons)
    with mpmath.workdps(DIGITS):
        for place in range(0, 1001, 100):
            epsilon = float(epsilons[place])
            truth = true_delta_at_zero(spec, honest, distance, epsilon)
            assert curve[place] >= truth


def true_delta_at_zero(spec: GeoShuffle, users: int, distance: int, epsilon: float) -> mpmath.mpf:
    near: Numbers = report(spec, 0)
    for _ in range(users - 2):
        near = convolved(near, report(spec, 0))
    first, second = convolved(near, report(spec, 0)), convolved(near, report(spec, distance))
    return max(divergence(first, second, epsilon), divergence(second, first, epsilon))


@pytest.mark.parametrize(("honest", "gap"), [(10**5, 0.005), (10**9, 0.02)])
def test_very_many_users_with_little_padding_are_certified_from_both_sides(
    honest: int, gap: float
) -> None:
    little = epsilon_bounds(
        GeoShuffle(max_value=20, epsilon_geo=Fraction(3), padding=4), Setting(honest, honest), 1e-7
    )
    plenty = epsilon_bounds(
        GeoShuffle(max_value=20, epsilon_geo=Fraction(3), padding=60), Setting(honest, honest), 1e-7
    )
    assert plenty.attained <= little.certified <= plenty.certified * 1.001
    assert little.certified * (1 - gap) <= little.attained <= little.certified


@pytest.mark.parametrize("epsilon", [7.0, 10.0, 14.0])
def test_what_is_attained_at_large_totals_is_below_the_truth_and_near_it(epsilon: float) -> None:
    spec, honest = GeoShuffle(max_value=30, epsilon_geo=Fraction(3, 5), padding=5), 3
    with mpmath.workdps(DIGITS):
        truth = true_delta_at_zero(spec, honest, 30, epsilon)
        found = delta_bounds(spec, Setting(honest, honest), epsilon)
        assert found.attained <= truth <= found.certified
        assert found.attained >= truth * (1 - mpmath.mpf("1e-4"))
        total = epsilon_bounds(spec, Setting(honest, honest), float(truth))
        assert total.attained <= epsilon <= total.certified * (1 + 1e-9)


def test_large_metric_totals_are_attained_with_little_padding() -> None:
    spec = GeoShuffle(max_value=1000, epsilon_geo=Fraction(1, 5), padding=70)
    found = epsilon_bounds(spec, Setting(100, 100, Adjacency.METRIC), 1e-4)
    assert found.certified * 0.99 <= found.attained <= found.certified


def mean_report(spec: GeoShuffle, value: int) -> float:
    with mpmath.workdps(DIGITS):
        return float(
            mpmath.fsum((y - spec.padding) * mass for y, mass in enumerate(report(spec, value)))
        )


def test_the_stated_error_covers_the_bias_of_clamping_at_both_ends() -> None:
    spec = GeoShuffle(max_value=6, epsilon_geo=Fraction(1, 2), padding=2)
    biases = [mean_report(spec, value) - value for value in range(7)]
    assert biases[0] == pytest.approx(spec.bias, rel=1e-9)
    assert biases == sorted(biases, reverse=True)
    assert [-bias for bias in reversed(biases)] == pytest.approx(biases, abs=1e-12)
    # The root of the mean squared error of the worst dataset, exactly, is at most what is stated.
    users = 40
    for value in (0, 3, 6):
        with mpmath.workdps(DIGITS):
            squares = mpmath.fsum(
                (y - spec.padding - value) ** 2 * m for y, m in enumerate(report(spec, value))
            )
        variance = users * (float(squares) - biases[value] ** 2)
        error = math.sqrt(variance + (users * biases[value]) ** 2)
        assert error <= standard_error(spec, users)
    shares = SGDLShuffle(max_value=6, noise_epsilon=Fraction(1, 2), shares=3, padding=2)
    law = stats.nbinom.pmf(np.arange(200), 1 / 3, -math.expm1(-0.5))
    noise = np.convolve(law, law[::-1])
    moved = np.clip(np.arange(-199, 200), -2, 8)
    assert 0 < float(moved @ noise) <= shares.bias


def test_an_interval_reaches_over_the_bias_of_clamping() -> None:
    spec, users = GeoShuffle(max_value=6, epsilon_geo=Fraction(1, 2), padding=2), 30
    for law, truth in ((report(spec, 0), 0), (report(spec, 6), 6 * users)):
        total = np.ones(1)
        for _ in range(users):
            total = np.convolve(total, np.array([float(mass) for mass in law]))
        covered = 0.0
        for ones, mass in enumerate(total):
            if mass > 1e-12:
                answer = spec.estimate(
                    [users * spec.messages_per_user - ones, ones], Present(Fraction(users))
                )
                covered += float(mass) * (answer.lows[0] - 1e-9 <= truth <= answer.highs[0] + 1e-9)
        assert covered >= 0.95


def test_a_delta_that_unclamped_noise_meets_for_nothing_is_met_by_kept_noise() -> None:
    spec, setting = (
        GeoShuffle(max_value=1, epsilon_geo=Fraction(1, 4), padding=8),
        Setting(400, 400),
    )
    needed = epsilon_bounds(spec, setting, 0.004)
    assert 0.0 <= needed.attained <= needed.certified
    assert 0.0 < needed.certified <= 0.005
    few = Setting(1, 1, Adjacency.METRIC)
    alone = epsilon_bounds(
        GeoShuffle(max_value=200, epsilon_geo=Fraction(1, 4), padding=8), few, 1e-6
    )
    # One noise, which clamping costs nothing: 1 - (φ + e^E φ^200)/(1 + φ) = δ.
    below = math.log1p(-1e-6 * (1 + math.exp(-0.25))) / 200
    assert alone.certified == pytest.approx(0.25 + below, rel=1e-9)


def test_so_little_padding_that_no_digits_are_left_is_left_to_the_other_bounds() -> None:
    assert kept_noise(GeoShuffle(max_value=3, epsilon_geo=Fraction(1, 100), padding=2), 50) is None
    assert kept_noise(GeoShuffle(max_value=3, epsilon_geo=Fraction(1), padding=0), 50) is None
    found = kept_noise(GeoShuffle(max_value=3, epsilon_geo=Fraction(1), padding=6), 50)
    assert isinstance(found, KeptNoise)
    with pytest.raises(ValueError, match="second time"):
        found.least(np.array([3]), 1e-6, 1e-3)


def test_noise_that_is_enough_for_one_report_is_not_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the ε of one report on no bound of shuffled noise is asked.

    For five users it would take minutes.
    """

    def refuse(*_: object) -> None:
        raise AssertionError("the shuffled noise was evaluated")

    with monkeypatch.context() as patched:
        patched.setattr(KeptNoise, "divergence", refuse)
        spec = GeoShuffle(max_value=240, epsilon_geo=Fraction(3481, 8388608), padding=7058)
        assert worst_delta(geo.noisy_sum(spec, Setting(5, 5)), 0.1) == 0.0
    found = calibrate("geo-shuffle", Target(0.1, 1e-6, 5, 5, max_value=240))
    # As much noise as one report needs by itself, and no more.
    assert isinstance(found, GeoShuffle)
    assert 0.999 * 0.1 / 240 < found.epsilon_geo <= Fraction(1, 2400)


def test_noise_most_of_which_is_clamped_has_no_epsilon(monkeypatch: pytest.MonkeyPatch) -> None:
    """All noises are clamped at once with chance 0.29: no ε has a smaller δ by S6b, and none is
    searched."""
    item = geo.noisy_sum(
        GeoShuffle(max_value=100, epsilon_geo=Fraction(1, 900), padding=226), Setting(5, 5)
    )
    assert isinstance(item.kept, KeptNoise)
    assert item.kept.cells.lost > 0.2
    monkeypatch.setattr(KeptNoise, "divergence", None)
    assert math.isinf(item.kept.least(np.array([100]), 1e-6, 0.0)[0][0])


@pytest.mark.parametrize("padding", [1, 2, 63, 64, 300])
def test_a_noise_is_added_by_doublings_as_by_a_direct_sum(padding: int) -> None:
    """S6b's long laws of few noises: every digit of a convolution, tails included."""
    noise = TruncatedNoise.of(Fraction(1, 3), padding)
    weights = np.exp(-noise.rate * np.abs(np.arange(-padding, padding + 1)))
    law = np.exp(-np.abs(np.arange(-40.0, 41.0)))
    np.testing.assert_allclose(
        truncated._add_noise(noise, law), np.convolve(law, weights), rtol=1e-13
    )


def test_few_users_with_much_padding_are_calibrated_with_little_work() -> None:
    """Counted, not timed: 4e7 are about two seconds of a core."""
    target = Target(1e-3, 1e-6, 5, 5, Adjacency.METRIC, max_value=240)
    with limited_work(4e7):
        spec = calibrate("geo-shuffle", target)
    assert 0.99e-3 < epsilon_bounds(spec, target.setting, 1e-6).certified <= 1e-3
