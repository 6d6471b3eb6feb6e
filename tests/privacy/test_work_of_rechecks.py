"""The work of rechecks: enough for every calibrated certificate, little for hostile ones."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import pytest

from shuffledp_core.errors import CannotCertify
from shuffledp_core.mechanisms import (
    GeoShuffle,
    HadamardHistogram,
    KRRHistogram,
    Mechanism,
    NodeSum,
    QuantisedRR,
    RapporHistogram,
    RRShuffle,
    SGDLShuffle,
)
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.bounds import Setting, certified_epsilon, corrupted_bounds, epsilon_bounds
from shuffledp_privacy.calibration.calibrate import Target, calibrate
from shuffledp_privacy.histogram.binary import binary_compositions
from shuffledp_privacy.histogram.blanket import exact_cells, grid_blanket
from shuffledp_privacy.primitives.work import limited_work, spend_work
from shuffledp_privacy.rechecking import MOST_WORK


def recompute(mechanism: Mechanism, setting: Setting, delta: float) -> float:
    """What a recheck computes; the certified epsilon."""
    epsilon = certified_epsilon(mechanism, setting, delta)
    corrupted_bounds(mechanism, setting, delta)
    return epsilon


@pytest.fixture
def spent(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """The work of all computations, in the units of `MOST_WORK`."""
    parts: list[float] = []

    def spend(nodes: float) -> None:
        parts.append(nodes)
        spend_work(nodes)

    for name in (
        "primitives.contour",
        "primitives.few_losses",
        "primitives.pairs",
        "primitives.table",
        "primitives.excess",
        "primitives.trinomial",
        "histogram.binary",
        "histogram.blanket",
    ):
        monkeypatch.setattr(f"shuffledp_privacy.{name}.spend_work", spend)
    yield parts
    assert parts, "nothing was counted"


@pytest.mark.parametrize(
    ("kind", "users", "max_value", "epsilon", "delta"),
    [
        ("quantised-rr", 10**9, 900_000, 1e-6, 1e-12),
        ("quantised-rr", 10**6, 100_000, 1e-3, 1e-6),
        ("rr-shuffle", 10**9, 900_000, 1e-6, 1e-6),
        ("geo-shuffle", 10**6, 100_000, 1e-6, 1e-6),
        ("geo-shuffle", 10**9, 100_000, 1e-2, 1e-6),
        ("krr-histogram", 10**9, 999, 1e-2, 1e-12),
        ("krr-histogram", 10**6, 1, 1e-1, 1e-12),
        ("krr-histogram", 150_000, 1, 1e-1, 1e-12),
        ("hadamard-histogram", 10**9, 99_999, 1.0, 1e-12),
        ("rappor-histogram", 10**9, 30, 1e-3, 1e-12),
        ("one-bit-mean", 10**9, 1000, 1e-4, 1e-12),
        ("dummy-histogram", 10**6, 99, 1.0, 1e-12),
        ("node-sum", 1000, 5_000, 1e-2, 1e-9),
    ],
)
def test_the_largest_calibrated_rounds_are_within_the_limit(
    kind: str, users: int, max_value: int, epsilon: float, delta: float, spent: list[float]
) -> None:
    target = Target(epsilon, delta, users, users, Adjacency.METRIC, max_value=max_value)
    mechanism = calibrate(kind, target)
    spent.clear()
    with limited_work(MOST_WORK):
        assert recompute(mechanism, target.setting, delta) <= epsilon
    assert sum(spent) < 0.92 * MOST_WORK, "a calibrated round hardly passes"


# Near the dearest that `make fuzz-rechecks` finds: what each once took is not counted on, but that
# it is counted.
@pytest.mark.parametrize(
    ("mechanism", "honest", "delta"),
    [
        (HadamardHistogram(symbols=100, blanket=Fraction(437522203, 2**60)), 1766480, 8.5e-10),
        (KRRHistogram(symbols=2, blanket=Fraction(1796844663, 2**31)), 190632, 1.7e-11),
        (KRRHistogram(symbols=10, blanket=Fraction(303615995, 2**31)), 151135191, 3.8e-6),
        (
            RapporHistogram(
                symbols=3,
                fake=Fraction(44248547, 2**44),
                when_zero=Fraction(3554111, 2**23),
                when_one=Fraction(5352336094480296161, 2**63),
            ),
            90324992,
            8.7e-6,
        ),
    ],
)
def test_work_on_histograms_is_counted(
    mechanism: Mechanism, honest: int, delta: float, spent: list[float]
) -> None:
    assert recompute(mechanism, Setting(honest, honest), delta) > 0
    assert sum(spent) > 2e5
    clear_tables()
    with limited_work(0.5 * sum(spent)), pytest.raises(CannotCertify, match="evaluations"):
        recompute(mechanism, Setting(honest, honest), delta)


def clear_tables() -> None:
    """Forgets what is cached, which costs no work a second time."""
    for cached in (binary_compositions, exact_cells, grid_blanket):
        cached.cache_clear()


# Drawn at random: each took 2 to 27 s of a core.
@pytest.mark.parametrize(
    ("mechanism", "honest", "delta"),
    [
        (QuantisedRR(max_value=24, bits=6, randomise=Fraction(24251245, 2**51)), 10**6, 1e-6),
        (RRShuffle(max_value=10155, randomise=Fraction(34222955, 2**53)), 433, 1.35e-12),
        (GeoShuffle(max_value=20556, epsilon_geo=Fraction(7158, 1000), padding=10014), 3586, 1e-6),
        (GeoShuffle(max_value=399714, epsilon_geo=Fraction(69, 100), padding=76481), 2, 1e-12),
        (
            SGDLShuffle(
                max_value=20556, noise_epsilon=Fraction(7158, 1000), shares=3586, padding=10014
            ),
            1000,
            1e-6,
        ),
    ],
)
def test_numbers_that_no_calibration_gives_cost_no_more(
    mechanism: Mechanism, honest: int, delta: float
) -> None:
    with limited_work(MOST_WORK):
        assert recompute(mechanism, Setting(10**6, honest, Adjacency.METRIC), delta) > 0


@pytest.mark.parametrize(
    ("mechanism", "honest"),
    [
        # Twenty tables of kept shares, asked at 19 distances: 5 s before tables were counted.
        (
            SGDLShuffle(
                max_value=838,
                noise_epsilon=Fraction(4298962605, 2**38),
                shares=2,
                padding=23,
            ),
            57415,
        ),
        # The losses of 577 distances: 29 s before they were counted.
        (
            NodeSum(
                max_value=61764,
                noise_epsilon=Fraction(3819989965, 2**29),
                base=61765,
                mean=646971,
            ),
            279,
        ),
    ],
)
def test_numbers_that_would_cost_more_are_refused(mechanism: Mechanism, honest: int) -> None:
    setting = Setting(10**9, honest, Adjacency.METRIC)
    with limited_work(MOST_WORK), pytest.raises(CannotCertify, match="evaluations"):
        recompute(mechanism, setting, 2e-3 if isinstance(mechanism, NodeSum) else 1e-12)


@pytest.mark.parametrize(
    ("mechanism", "honest", "most"),
    [
        # Of nearly certain sums a tilt by a deviation needs half a million nodes for a row.
        (RRShuffle(max_value=10155, randomise=Fraction(34222955, 2**53)), 433, 1.2e7),
        (QuantisedRR(max_value=100_000, bits=50_000, randomise=Fraction(269, 2**32)), 10**9, 1.2e7),
    ],
)
def test_sums_that_are_nearly_certain_take_few_nodes(
    mechanism: Mechanism, honest: int, most: float
) -> None:
    with limited_work(most):
        recompute(mechanism, Setting(10**9, honest, Adjacency.METRIC), 1e-6)


@pytest.mark.parametrize(
    ("mechanism", "delta"),
    [
        (QuantisedRR(max_value=40, bits=7, randomise=Fraction(1, 8)), 1e-6),
        (QuantisedRR(max_value=40, bits=20, randomise=Fraction(1, 200)), 1e-3),
        (GeoShuffle(max_value=40, epsilon_geo=Fraction(1, 3), padding=30), 1e-6),
        (SGDLShuffle(max_value=40, noise_epsilon=Fraction(1, 3), shares=500, padding=80), 1e-6),
        (RRShuffle(max_value=40, randomise=Fraction(1, 8)), 1e-6),
    ],
)
@pytest.mark.parametrize("adjacency", [Adjacency.METRIC, Adjacency.STANDARD])
def test_a_recheck_computes_the_certified_number(
    mechanism: Mechanism, delta: float, adjacency: Adjacency
) -> None:
    setting = Setting(500, 500, adjacency)
    certified = certified_epsilon(mechanism, setting, delta)
    assert certified == epsilon_bounds(mechanism, setting, delta).certified
