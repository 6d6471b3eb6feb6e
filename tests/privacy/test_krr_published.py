"""The papers' own numbers, reproduced as printed, and the exact truth beside them."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import KRRHistogram
from shuffledp_privacy.bounds import Setting, delta_bounds, epsilon_bounds
from shuffledp_privacy.histogram.published import (
    balle_2019,
    corrected_marginal,
    published_theorem_1,
    strong_adversary_delta,
    weak_adversary_delta,
)
from shuffledp_privacy.primitives.inversion import certified_epsilon


def spec(symbols: int, epsilon0: float) -> KRRHistogram:
    blanket = symbols / (math.exp(epsilon0) + symbols - 1)
    return KRRHistogram(symbols=symbols, blanket=Fraction(blanket).limit_denominator(10**12))


# Biswas et al. 2023, Table 3: n, k, ε0, ε and the printed δ; n_x0 = 0.8 n.
TABLE_3 = [
    (100, 10, 1, 0.1, 2.08e-20),
    (100, 10, 2, 0.1, 2.49e-15),
    (100, 10, 2, 0.5, 3.25e-22),
    (100, 10, 2, 1.0, 2.20e-30),
    (100, 10, 3, 0.1, 8.79e-11),
    (100, 10, 3, 2.0, 1.09e-25),
    (100, 5, 2, 0.1, 1.96e-10),
    (100, 15, 2, 0.5, 7.13e-28),
]


@pytest.mark.parametrize(("users", "symbols", "epsilon0", "epsilon", "printed"), TABLE_3)
def test_theorem_1_as_printed_gives_the_papers_table(
    users: int, symbols: int, epsilon0: float, epsilon: float, printed: float
) -> None:
    assert published_theorem_1(users, 80, symbols, epsilon0, epsilon) == pytest.approx(
        printed, rel=0.01
    )


def one_bin(users: int, at_x0: int, symbols: int, epsilon0: float) -> tuple[np.ndarray, np.ndarray]:
    """The count of x0 with the changed user at x0 or elsewhere: plain convolutions, no identity."""
    p = math.exp(epsilon0) / (math.exp(epsilon0) + symbols - 1)
    q = p * math.exp(-epsilon0)
    law = np.ones(1)
    for chance in [p] * at_x0 + [q] * (users - 1 - at_x0):
        law = np.convolve(law, [1 - chance, chance])
    return np.convolve(law, [1 - p, p]), np.convolve(law, [1 - q, q])


@pytest.mark.parametrize(
    ("users", "at_x0", "symbols", "epsilon0"), [(100, 80, 10, 2), (40, 0, 2, 1), (30, 29, 3, 3)]
)
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0])
def test_the_corrected_loss_gives_the_delta_of_one_bin(
    users: int, at_x0: int, symbols: int, epsilon0: float, epsilon: float
) -> None:
    p, q = one_bin(users, at_x0, symbols, epsilon0)
    exact = float(np.maximum(0.0, p - math.exp(epsilon) * q).sum())
    assert corrected_marginal(users, at_x0, symbols, epsilon0, epsilon) == pytest.approx(
        exact, rel=1e-8
    )


def test_the_printed_loss_is_below_the_truth_by_twelve_orders_of_magnitude() -> None:
    assert corrected_marginal(100, 80, 10, 2, 0.1) == pytest.approx(6.147e-3, rel=1e-3)
    assert published_theorem_1(100, 80, 10, 2, 0.1) < 1e-14
    bounds = delta_bounds(spec(10, 2), Setting(100, 100), 0.5)
    assert bounds.certified == pytest.approx(1.150e-3, rel=1e-3)
    assert bounds.attained == pytest.approx(1.137e-3, rel=1e-3)
    assert bounds.published == pytest.approx(3.25e-22, rel=0.01)
    assert any("no guarantee" in note for note in bounds.lines())


def test_for_two_symbols_the_corrected_marginal_is_a_dataset_and_so_at_most_certified() -> None:
    for at_x0 in (0, 20, 59):
        exact = corrected_marginal(60, at_x0, 2, 1, 0.3)
        assert exact <= delta_bounds(spec(2, 1), Setting(60, 60), 0.3).certified


def test_the_strong_adversary_is_sound_and_a_hundred_times_worse_than_the_weak_one() -> None:
    krr = spec(10, 0.1)
    strong = certified_epsilon(lambda e: strong_adversary_delta(krr, 10**4, e), 1e-6, math.inf)
    weak = certified_epsilon(lambda e: weak_adversary_delta(krr, 10**4, e), 1e-6, 0.1)
    assert strong == pytest.approx(0.112, abs=5e-4)
    assert weak == pytest.approx(0.00116, abs=5e-6)
    assert weak == pytest.approx(
        epsilon_bounds(krr, Setting(10**4, 10**4), 1e-6).certified, rel=1e-5
    )


def test_the_strong_adversary_is_the_enumeration_of_its_definition() -> None:
    krr, honest, epsilon = KRRHistogram(symbols=3, blanket=Fraction(1, 2)), 12, 0.4
    total = 0.0
    for noise in range(honest):
        chance = math.comb(honest - 1, noise) * 0.5 ** (honest - 1)
        for a in range(noise + 1):
            for b in range(noise + 1 - a):
                rest = noise - a - b
                ways = math.factorial(noise) / (
                    math.factorial(a) * math.factorial(b) * math.factorial(rest)
                )
                # (a, b) + x0 against (a - 1 + x0, b + 1 - x1): compare the two laws at the same
                # counts.
                p = ways * 3.0**-noise
                q = p * (b / (a + 1)) if b else 0.0
                total += chance * max(0.0, p - math.exp(epsilon) * q)
    assert strong_adversary_delta(krr, honest, epsilon) == pytest.approx(total / 2, rel=1e-7)


def test_balle_2019_is_true_where_it_is_valid_and_silent_elsewhere() -> None:
    krr = spec(10, 1)
    printed = balle_2019(10, float(krr.blanket), 10**6, 1e-6)
    assert printed is not None
    assert printed > 5 * epsilon_bounds(krr, Setting(10**6, 10**6), 1e-6).certified
    assert balle_2019(10, float(krr.blanket), 100, 1e-6) is None


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(UsageError, match="users"):
        published_theorem_1(10**6, 0, 2, 1, 0.1)
    with pytest.raises(UsageError, match="at_x0"):
        corrected_marginal(10, 10, 2, 1, 0.1)
    with pytest.raises(UsageError, match="epsilon"):
        corrected_marginal(10, 5, 2, 1, 0.0)
