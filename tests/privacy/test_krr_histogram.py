"""k-RR from both sides: exact rational enumeration of every dataset, anchors, Monte Carlo,
monotonicity."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest
from counted_work import counted
from hypothesis import given, settings
from hypothesis import strategies as st

from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import KRRHistogram
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.bounds import (
    Setting,
    certified_curve,
    corrupted_bounds,
    delta_bounds,
    epsilon_bounds,
    standard_error,
)
from shuffledp_privacy.histogram.blanket import ExactCells, GridBlanket, law_of

Law = dict[tuple[int, ...], Fraction]


def spec(symbols: int, epsilon0: float) -> KRRHistogram:
    blanket = symbols / (math.exp(epsilon0) + symbols - 1)
    return KRRHistogram(symbols=symbols, blanket=Fraction(blanket).limit_denominator(10**12))


def everyone(users: int, adjacency: Adjacency = Adjacency.STANDARD) -> Setting:
    return Setting(users=users, honest=users, adjacency=adjacency)


@lru_cache(maxsize=4096)
def histogram_law(
    krr: KRRHistogram, data: tuple[int, ...]
) -> tuple[tuple[tuple[int, ...], Fraction], ...]:
    """Exact law of the histogram of everybody's report, user by user."""
    q = krr.blanket / krr.symbols
    law: Law = {(0,) * krr.symbols: Fraction(1)}
    for value in data:
        grown: Law = {}
        for counts, mass in law.items():
            for symbol in range(krr.symbols):
                after = (*counts[:symbol], counts[symbol] + 1, *counts[symbol + 1 :])
                share = q + (1 - krr.blanket if symbol == value else 0)
                grown[after] = grown.get(after, Fraction(0)) + mass * share
        law = grown
    return tuple(law.items())


def true_delta(krr: KRRHistogram, users: int, growth: Fraction) -> Fraction:
    """max over ALL datasets and changes of Σ (P - e^ε Q)_+, with e^ε = growth, in rationals."""
    worst = Fraction(0)
    for others in itertools.combinations_with_replacement(range(krr.symbols), users - 1):
        q = dict(histogram_law(krr, (*others, 1)))
        p = histogram_law(krr, (*others, 0))
        worst = max(
            worst,
            sum((max(Fraction(0), mass - growth * q[counts]) for counts, mass in p), Fraction(0)),
        )
    return worst


SMALL = [
    (KRRHistogram(symbols=2, blanket=Fraction(1, 2)), 6),
    (KRRHistogram(symbols=2, blanket=Fraction(1, 20)), 8),
    (KRRHistogram(symbols=3, blanket=Fraction(3, 10)), 5),
    (KRRHistogram(symbols=3, blanket=Fraction(9, 10)), 6),
    (KRRHistogram(symbols=4, blanket=Fraction(2, 5)), 5),
    (KRRHistogram(symbols=4, blanket=Fraction(7, 8)), 4),
    (KRRHistogram(symbols=4, blanket=Fraction(1, 8)), 2),
    (KRRHistogram(symbols=3, blanket=Fraction(1, 8)), 1),
]


@pytest.mark.parametrize(("krr", "users"), SMALL)
@pytest.mark.parametrize("growth", [Fraction(1), Fraction(5, 4), Fraction(2), Fraction(4)])
def test_the_truth_over_every_dataset_lies_between_attained_and_certified(
    krr: KRRHistogram, users: int, growth: Fraction
) -> None:
    truth = float(true_delta(krr, users, growth))
    bounds = delta_bounds(krr, everyone(users), math.log(growth))
    assert bounds.attained <= truth * (1 + 1e-12) + 1e-300
    assert bounds.certified >= truth * (1 - 1e-12)
    curve = certified_curve(krr, everyone(users), 1, np.array([math.log(growth)]))
    assert curve[0] >= truth * (1 - 1e-12)
    if krr.symbols == 2:
        assert bounds.certified == pytest.approx(truth, rel=1e-6, abs=1e-14)
        assert bounds.attained == pytest.approx(truth, rel=1e-6, abs=1e-14)


@pytest.mark.parametrize(("krr", "users"), SMALL)
@pytest.mark.parametrize("growth", [Fraction(1, 3), Fraction(9, 10), Fraction(3, 2)])
def test_the_curve_bounds_negative_epsilons_too(
    krr: KRRHistogram, users: int, growth: Fraction
) -> None:
    truth = float(true_delta(krr, users, growth))
    curve = certified_curve(krr, everyone(users), 1, np.array([math.log(growth)]))
    assert curve[0] >= truth * (1 - 1e-12)


def test_the_grid_of_any_size_brackets_the_exact_sum() -> None:
    for krr, honest in [
        (spec(3, 1), 40),
        (spec(10, 2), 400),
        (spec(5, 0.5), 900),
        (spec(2, 1), 900),
    ]:
        law = law_of(krr)
        exact, grid = ExactCells(law, honest), GridBlanket(law, honest)
        for epsilon in (0.0, 0.01, 0.05, 0.1, 0.3):
            middle = exact.blanket(epsilon)
            assert float(grid.upper(np.array([epsilon]))[0]) >= middle * (1 - 1e-9) - 1e-25
            if krr.symbols > 2:
                assert grid.lower(epsilon) <= exact.third_symbol(epsilon) * (1 + 1e-9)


def test_the_blanket_of_the_worked_example_is_reproduced() -> None:
    krr = spec(4, 2)
    assert delta_bounds(krr, everyone(6), 0.5).certified == pytest.approx(0.3049237876, abs=2e-8)
    assert delta_bounds(krr, everyone(6), 0.5).attained <= 0.3044169367 + 1e-9


# k, ε0, n, then the blanket (or, k = 2, the composition) in the design's table and the dataset that
# attains.
ANCHORS = [
    (2, 1, 10**3, 0.1487, 0.1266),
    (2, 1, 10**4, 0.04321, 0.03566),
    (2, 4, 10**4, 0.4108, 0.3146),
    (2, 1, 10**6, 0.003514, 0.002849),
    (10, 1, 10**3, 0.08016, 0.08013),
    (10, 1, 10**4, 0.02325, 0.02325),
    (10, 4, 10**4, 0.3805, 0.3805),
    (10, 1, 10**6, 0.001854, 0.001854),
    (100, 1, 10**3, 0.02547, None),
    (100, 1, 10**4, 0.007183, None),
    (100, 4, 10**4, 0.2337, None),
    (100, 1, 10**6, 0.0005438, None),
]


def half_a_last_digit(value: float) -> float:
    return 0.5 * 10.0 ** (math.floor(math.log10(value)) - 3)


@pytest.mark.parametrize(("symbols", "epsilon0", "users", "blanket", "attained"), ANCHORS)
def test_published_prototype_values_bracket_the_answer(
    symbols: int, epsilon0: float, users: int, blanket: float, attained: float | None
) -> None:
    bounds = epsilon_bounds(spec(symbols, epsilon0), everyone(users), 1e-6)
    assert bounds.attained <= bounds.certified <= blanket + half_a_last_digit(blanket)
    if attained is not None:
        assert bounds.certified >= attained - half_a_last_digit(attained)
        assert bounds.attained == pytest.approx(attained, abs=1.01 * half_a_last_digit(attained))


@pytest.mark.parametrize(
    ("symbols", "epsilon0", "users", "floor"),
    [(10, 4, 100, 3.46036), (4, 2, 30, 1.74544), (10, 1, 100, 0.268102)],
)
def test_the_soundness_floors_hold(symbols: int, epsilon0: float, users: int, floor: float) -> None:
    bounds = epsilon_bounds(spec(symbols, epsilon0), everyone(users), 1e-6)
    assert bounds.certified >= floor
    assert bounds.attained == pytest.approx(floor, rel=1e-5)


@pytest.mark.parametrize("symbols", [3, 10, 1000])
def test_at_a_billion_users_the_central_limit_is_met(symbols: int) -> None:
    """Independent: the form is nearly normal there, and 𝔼[(m + s N)_+] = s φ(m/s) + m Φ(m/s)."""
    krr, honest = spec(symbols, 1), 10**9
    law = law_of(krr)
    bounds = epsilon_bounds(krr, everyone(honest), 1e-8)
    assert bounds.certified <= bounds.attained * (1 + 5e-4)
    growth = math.exp(bounds.attained)
    alpha, beta, kappa = law.p - growth * law.q, law.p * growth - law.q, (growth - 1) * law.q
    mean = -honest * law.q * (growth - 1)
    variance = honest * law.q * (alpha**2 + beta**2 + (symbols - 2) * kappa**2)
    z = mean / math.sqrt(variance)
    normal = (
        math.sqrt(variance) * math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        + mean * math.erfc(-z / math.sqrt(2)) / 2
    )
    assert normal / (honest * law.q) == pytest.approx(1e-8, rel=0.03)


def test_monte_carlo_of_the_third_symbol_dataset_is_covered() -> None:
    """Hoeffding with values in [0, 1]: at 400,000 samples a deviation of 0.006 has probability
    below 1e-12."""
    krr, honest, epsilon = spec(5, 1.5), 300, 0.15
    law = law_of(krr)
    draw = np.random.default_rng(20240229).multinomial
    counts = draw(honest - 1, [law.q, law.q, law.p, law.q, law.q], size=400_000)
    own = draw(1, [law.p, law.q, law.q, law.q, law.q], size=400_000)
    counts = counts + own
    base = counts[:, 3] + counts[:, 4] + counts[:, 2] * law.q / law.p
    p = counts[:, 0] * law.p / law.q + counts[:, 1] + base
    q = counts[:, 0] + counts[:, 1] * law.p / law.q + base
    sample = float(np.maximum(0.0, 1 - math.exp(epsilon) * q / p).mean())
    bounds = delta_bounds(krr, everyone(honest), epsilon)
    assert bounds.attained - 0.006 <= sample <= bounds.certified + 0.006
    assert bounds.attained == pytest.approx(bounds.certified, rel=0.01)


@given(
    st.sampled_from([2, 3, 10, 500]),
    st.floats(0.05, 6.0),
    st.sampled_from([2, 30, 700, 30_000, 10**6]),
    st.floats(0.01, 0.9),
)
@settings(deadline=None, max_examples=12)
def test_delta_falls_in_epsilon_and_epsilon_in_delta_and_in_honest_users(
    symbols: int, epsilon0: float, honest: int, part: float
) -> None:
    krr = spec(symbols, epsilon0)
    here = epsilon_bounds(krr, everyone(honest), 1e-6)
    assert 0.0 <= here.attained <= here.certified <= law_of(krr).epsilon0
    assert epsilon_bounds(krr, everyone(honest), 1e-4).certified <= here.certified * (1 + 2e-6)
    more = Setting(users=2 * honest, honest=honest + honest // 4 + 1)
    assert epsilon_bounds(krr, more, 1e-6).certified <= here.certified * (1 + 2e-6)
    at, below = here.certified, here.certified * part
    delta = delta_bounds(krr, everyone(honest), at).certified
    assert delta <= 1e-6
    assert delta_bounds(krr, everyone(honest), below).certified >= delta * (1 - 1e-9)


@pytest.mark.parametrize(
    ("symbols", "honest"), [(2, 500), (2, 50_000), (10, 200), (10, 20_000), (100, 10**6)]
)
def test_the_curve_is_falling_and_never_below_the_dataset_that_attains(
    symbols: int, honest: int
) -> None:
    krr = spec(symbols, 1)
    epsilons = np.linspace(-1.2, 1.2, 241)
    curve = certified_curve(krr, everyone(honest), 1, epsilons)
    assert (np.diff(curve) <= 1e-12).all()
    assert (curve >= np.maximum(0.0, -np.expm1(epsilons))).all()
    assert (curve[epsilons >= law_of(krr).epsilon0] == 0.0).all()
    scale = epsilon_bounds(krr, everyone(honest), 1e-6).certified
    for epsilon in (0.0, 0.3 * scale, scale):
        value = certified_curve(krr, everyone(honest), 1, np.array([epsilon]))[0]
        assert value >= delta_bounds(krr, everyone(honest), epsilon).attained


def test_metric_and_standard_adjacency_agree_and_fewer_honest_users_cost_more() -> None:
    krr = spec(10, 1)
    standard = epsilon_bounds(krr, everyone(1000), 1e-6)
    metric = epsilon_bounds(krr, everyone(1000, Adjacency.METRIC), 1e-6)
    assert standard.certified == metric.certified
    assert epsilon_bounds(krr, Setting(users=1000, honest=500), 1e-6).certified > standard.certified


def test_one_user_keeps_the_local_guarantee_and_so_do_all_under_corruption() -> None:
    krr = spec(10, 1)
    alone = epsilon_bounds(krr, everyone(1), 1e-9)
    assert 0.99 < alone.attained <= alone.certified <= law_of(krr).epsilon0
    for adjacency in Adjacency:
        corrupted = corrupted_bounds(krr, everyone(1000, adjacency), 1e-6)
        assert corrupted.epsilon == pytest.approx(1.0, abs=1e-9)
        assert corrupted.delta == 0.0


def test_pure_noise_needs_no_epsilon_and_an_almost_open_report_amplifies_nothing() -> None:
    noise = KRRHistogram(symbols=4, blanket=Fraction(1))
    assert epsilon_bounds(noise, everyone(100), 1e-6).certified == 0.0
    assert standard_error(noise, 100) == math.inf
    plain = KRRHistogram(symbols=4, blanket=Fraction(1, 10**12))
    assert epsilon_bounds(plain, everyone(10**6), 1e-6).certified > 20


@pytest.mark.parametrize("epsilon0", [1e-6, 2e-4, 20.5, 22.0])
@pytest.mark.parametrize("symbols", [3, 10])
def test_very_small_and_very_large_epsilon0_are_known_as_well(
    epsilon0: float, symbols: int
) -> None:
    krr = spec(symbols, epsilon0)
    honest, delta = (300, epsilon0 * 1e-3) if epsilon0 < 1 else (10**9, 1e-6)
    bounds = epsilon_bounds(krr, everyone(honest), delta)
    assert 0 < bounds.attained <= bounds.certified <= law_of(krr).epsilon0
    assert bounds.certified <= 1.02 * bounds.attained
    if epsilon0 < 1:
        assert bounds.certified < 0.9 * epsilon0


def test_the_standard_error_is_that_of_the_worst_count() -> None:
    krr = KRRHistogram(symbols=4, blanket=Fraction(2, 5))
    p, q = 0.7, 0.1
    worst = max(m * p * (1 - p) + (1000 - m) * q * (1 - q) for m in range(1001))
    assert standard_error(krr, 1000) == pytest.approx(math.sqrt(worst) / (p - q))


def test_bad_arguments_are_refused_with_their_range() -> None:
    with pytest.raises(UsageError, match="delta"):
        epsilon_bounds(spec(3, 1), everyone(10), 0.0)
    for epsilon in (-0.1, math.nan):
        with pytest.raises(UsageError, match="epsilon"):
            delta_bounds(spec(3, 1), everyone(10), epsilon)
    assert delta_bounds(spec(3, 1), everyone(10), math.inf).certified == 0.0


@pytest.mark.parametrize(
    ("symbols", "epsilon0", "honest"),
    [
        (10, 1, 10**6),
        (10, 1, 10**9),
        (2, 1, 10**9),
        (2**16, 20, 10**9),
        (2**16, 1, 10**9),
        (3, 0.001, 10**9),
    ],
)
def test_no_certificate_computes_more_than_some_million_numbers(
    symbols: int, epsilon0: float, honest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`make bench` says how long that takes; here it is counted."""
    work = counted(monkeypatch)
    bounds = epsilon_bounds(spec(symbols, epsilon0), everyone(honest), 1e-6)
    assert bounds.attained <= bounds.certified
    assert 0 < work.probabilities < 8_000_000
    assert 0 < work.cells < 1_000_000


@pytest.mark.parametrize(("blanket", "delta"), [("1/2", 1e-6), ("1/100", 1e-6), ("1/2", 1e-10)])
def test_two_symbols_are_certified_closely_among_a_billion(blanket: str, delta: float) -> None:
    krr = KRRHistogram(symbols=2, blanket=Fraction(blanket))
    found = epsilon_bounds(krr, everyone(10**9), delta)
    assert found.attained <= found.certified <= 1.001 * found.attained
    assert delta_bounds(krr, everyone(10**9), found.certified).certified <= delta * 1.005
