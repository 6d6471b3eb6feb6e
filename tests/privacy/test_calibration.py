"""Calibration: what is certified meets the target, hardly less noise would, and parameters are easy
to sample."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from counted_work import count_calls
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from shuffledp_core.errors import CannotCertify, UsageError
from shuffledp_core.mechanisms import (
    MECHANISMS,
    BloomRappor,
    DummyHistogram,
    GeoShuffle,
    HadamardHistogram,
    KRRHistogram,
    LocalLaplace,
    Mechanism,
    NodeColumns,
    NodeHistogram,
    NodeSum,
    NodeTree,
    OneBitShuffle,
    QuantisedRR,
    RapporHistogram,
    RRShuffle,
    SGDLShuffle,
    SplitMix,
)
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.bounds import epsilon_bounds, standard_error
from shuffledp_privacy.calibration import calibrate as calibration
from shuffledp_privacy.calibration.calibrate import (
    Target,
    calibrate,
    certified_epsilon_of,
)
from shuffledp_privacy.calibration.proposal import NoiseShares, clamping, least_padding, noise_law
from shuffledp_privacy.histogram.krr import epsilon0_to_blanket
from shuffledp_privacy.rounds.composition import Round, compose_epsilon

KINDS = sorted(MECHANISMS)
DEMO = Target(1.0, 1e-6, users=2000, honest=1800, max_value=20)


@cache
def demo(kind: str) -> Mechanism:
    return calibrate(kind, DEMO)


def parameter(spec: Mechanism) -> Fraction:
    names: dict[type[Mechanism], str] = {
        BloomRappor: "fake",
        DummyHistogram: "fill",
        KRRHistogram: "blanket",
        HadamardHistogram: "blanket",
        RapporHistogram: "when_zero",
        NodeHistogram: "noise_epsilon",
        NodeColumns: "noise_epsilon",
        NodeTree: "noise_epsilon",
        NodeSum: "noise_epsilon",
        LocalLaplace: "epsilon_geo",
        OneBitShuffle: "randomise",
        QuantisedRR: "randomise",
        RRShuffle: "randomise",
        GeoShuffle: "epsilon_geo",
        SGDLShuffle: "noise_epsilon",
        SplitMix: "noise_epsilon",
    }
    value = getattr(spec, names[type(spec)])
    assert isinstance(value, Fraction)
    return value


def with_less_noise(spec: Mechanism, share: Fraction) -> Mechanism:  # noqa: PLR0911 - a case each
    match spec:
        case KRRHistogram() | HadamardHistogram():
            return structs.replace(spec, blanket=spec.blanket * (1 - share))
        case BloomRappor():
            return structs.replace(spec, fake=spec.fake * (1 - share))
        case DummyHistogram():
            return structs.replace(spec, fill=spec.fill * (1 - share))
        case RapporHistogram():
            less = spec.when_zero * (1 - share)
            return structs.replace(spec, when_zero=less, when_one=1 - less)
        case RRShuffle() | OneBitShuffle() | QuantisedRR():
            return structs.replace(spec, randomise=spec.randomise * (1 - share))
        case GeoShuffle() | LocalLaplace():
            return structs.replace(spec, epsilon_geo=spec.epsilon_geo * (1 + share))
        case SGDLShuffle() | SplitMix() | NodeHistogram() | NodeSum() | NodeTree() | NodeColumns():
            return structs.replace(spec, noise_epsilon=spec.noise_epsilon * (1 + share))
    raise AssertionError(f"say here how {spec.kind} gets less noise")


@pytest.mark.parametrize("kind", KINDS)
def test_the_demo_target_is_met_after_few_trials_and_with_hardly_any_noise_to_spare(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = count_calls(monkeypatch, (calibration, "excess"), (calibration, "certified_epsilon_of"))
    # What a kept response hides for ever cannot be had back where a round would allow for more.
    target = dataclasses.replace(DEMO, epsilon=0.1) if kind == "rappor-histogram" else DEMO
    spec = calibrate(kind, target)
    assert 1 <= calls.count("certified_epsilon_of") <= 8
    assert 1 <= calls.count("excess") <= 30
    assert spec.kind == kind
    certified = epsilon_bounds(spec, target.setting, target.delta).certified
    assert 0.995 <= certified / target.epsilon <= 1.0
    assert certified_epsilon_of(with_less_noise(spec, Fraction(1, 100)), target) > target.epsilon


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_are_rationals_over_small_powers_of_two(kind: str) -> None:
    value = parameter(demo(kind))
    assert value.denominator <= 2**20
    assert value.denominator.bit_count() == 1


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    epsilon=st.floats(0.2, 5.0),
    delta=st.sampled_from([1e-4, 1e-6, 1e-8]),
    users=st.integers(20, 1000),
    share=st.floats(0.5, 1.0),
    largest=st.integers(1, 8),
    adjacency=st.sampled_from(list(Adjacency)),
)
def test_whatever_is_calibrated_certifies_at_most_the_target(
    kind: str,
    epsilon: float,
    delta: float,
    users: int,
    share: float,
    largest: int,
    adjacency: Adjacency,
) -> None:
    honest = max(1, round(users * share))
    target = Target(
        epsilon, delta, users=users, honest=honest, adjacency=adjacency, max_value=largest
    )
    spec = calibrate(kind, target)
    assert epsilon_bounds(spec, target.setting, delta).certified <= epsilon


def test_two_messages_less_padding_than_returned_is_not_enough() -> None:
    spec = demo("geo-shuffle")
    assert isinstance(spec, GeoShuffle)
    assert certified_epsilon_of(structs.replace(spec, padding=spec.padding - 2), DEMO) > 1.0


PAPER = Target(0.1, 1e-4, users=200, honest=200, adjacency=Adjacency.METRIC, max_value=1000)
MILLION = Target(1.0, 1e-6, users=10**6, honest=10**6, max_value=20)


@pytest.mark.parametrize("target", [PAPER, DEMO, MILLION], ids=["paper", "demo", "million"])
def test_calibrated_sums_have_the_least_error_to_a_hundredth_at_few_messages(
    target: Target,
) -> None:
    spec = calibrate("geo-shuffle", target)
    assert isinstance(spec, GeoShuffle)
    # What no padding at all could beat: noise that nobody clamps, one hundredth less of it.
    best = standard_error(structs.replace(spec, padding=20_000), target.users) / 1.01
    less = structs.replace(spec, epsilon_geo=spec.epsilon_geo * Fraction(101, 100), padding=20_000)
    assert standard_error(spec, target.users) <= best * 1.0115
    assert certified_epsilon_of(less, target) > target.epsilon
    # With a quarter less padding a hundredth more noise would not be enough, or the bias would
    # count.
    short = structs.replace(
        spec, epsilon_geo=spec.epsilon_geo * Fraction(99, 100), padding=spec.padding * 3 // 4
    )
    biased = standard_error(short, target.users) > 1.02 * standard_error(spec, target.users)
    assert biased or certified_epsilon_of(short, target) > target.epsilon


def test_the_setting_of_the_paper_needs_a_tenth_of_the_padding_and_half_of_the_noise() -> None:
    """Once 0.142 was answered, where 0.25 with a padding of 480 keeps 0.1 per unit."""
    spec = calibrate("geo-shuffle", PAPER)
    assert isinstance(spec, GeoShuffle)
    assert 0.247 <= float(spec.epsilon_geo) <= 0.251
    assert spec.padding <= 50


def test_a_search_for_bits_asks_for_one_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = count_calls(monkeypatch, (calibration, "certified_epsilon_of"))
    spec = calibrate("rr-shuffle", PAPER)
    assert calls.count("certified_epsilon_of") <= 2
    assert epsilon_bounds(spec, PAPER.setting, PAPER.delta).certified >= 0.098


def test_sgdl_shares_are_the_honest_users() -> None:
    spec = demo("sgdl-shuffle")
    assert isinstance(spec, SGDLShuffle)
    assert spec.shares == 1800


def test_several_rounds_get_more_noise_and_compose_to_the_target() -> None:
    target = Target(1.0, 1e-6, users=500, honest=500, symbols=8, rounds=5)
    spec = calibrate("krr-histogram", target)
    assert compose_epsilon([Round(spec, target.setting, 5)], 1e-6) <= 1.0
    alone = calibrate("krr-histogram", Target(1.0, 1e-6, users=500, honest=500, symbols=8))
    assert standard_error(spec, 500) > standard_error(alone, 500)
    # Adding five equal shares of epsilon and delta is worse than composing.
    added = calibrate("krr-histogram", Target(0.2, 2e-7, users=500, honest=500, symbols=8))
    assert standard_error(spec, 500) < standard_error(added, 500)


@given(st.floats(0.001, 20.0), st.integers(2, 10**6))
def test_a_blanket_from_epsilon0_is_never_less_private(epsilon0: float, symbols: int) -> None:
    blanket = epsilon0_to_blanket(epsilon0, symbols)
    assert blanket <= 1
    if blanket < 1:
        ratio = 1 + (1 - blanket) * symbols / blanket
        assert ratio <= Fraction(math.exp(epsilon0)) * (1 + Fraction(1, 2**50))
        assert float(blanket) <= symbols / (math.exp(epsilon0) + symbols - 1) * (1 + 2e-6)


def test_the_estimate_of_noise_agrees_with_a_direct_sum() -> None:
    # Two honest users with discrete Laplace noise: enumerate the convolution.
    rate, distance = 0.7, 3
    values = np.arange(-90, 91)
    one = (1 - math.exp(-rate)) / (1 + math.exp(-rate)) * np.exp(-rate * np.abs(values))
    both = np.convolve(one, one)
    moved = np.concatenate((np.zeros(distance), both[:-distance]))
    law = noise_law(NoiseShares(rate, 1.0, 2), distance)
    assert law is not None
    for epsilon in (0.0, 0.5, 1.5):
        exact = float(np.maximum(both - math.exp(epsilon) * moved, 0.0).sum())
        assert law.curve(distance)(np.array([epsilon]))[0] == pytest.approx(exact, rel=1e-6)


def test_the_estimate_of_clamping_is_the_geometric_tail() -> None:
    ratio = math.exp(-0.3)
    for padding in (0, 5, 60):
        exact = 2 * ratio ** (padding + 1) / (1 + ratio)
        assert clamping(NoiseShares(0.3, 1.0, 1), padding) == pytest.approx(exact, rel=1e-9)


def test_the_least_padding_is_the_least() -> None:
    noise = NoiseShares(0.3, 0.01, 100)
    padding = least_padding(noise, 2.0, 1e-8, 10)
    assert clamping(noise, padding) * (1 + math.exp(2.0)) <= 1e-8 * (1 + 1e-9)
    assert clamping(noise, padding - 1) * (1 + math.exp(2.0)) > 1e-8


def test_an_impossible_target_is_refused_with_the_reason() -> None:
    hopeless = Target(1e-9, 1e-12, users=10, honest=10, max_value=10**8)
    with pytest.raises(CannotCertify, match="messages per user"):
        calibrate("geo-shuffle", hopeless)


@pytest.mark.parametrize(
    "fields",
    [
        {"epsilon": 0.0},
        {"epsilon": 101.0},
        {"epsilon": math.nan},
        {"delta": 0.0},
        {"delta": 1.0},
        {"users": 0},
        {"honest": 11},
        {"max_value": 0},
        {"max_value": None},
        {"max_value": None, "symbols": 1},
        {"rounds": 0},
        {"max_distance": 0},
    ],
)
def test_a_senseless_target_is_a_usage_error(fields: dict[str, object]) -> None:
    good: dict[str, object] = {
        "epsilon": 1.0,
        "delta": 1e-6,
        "users": 10,
        "honest": 10,
        "max_value": 3,
    }
    with pytest.raises(UsageError):
        Target(**(good | fields))  # type: ignore[arg-type]


def test_a_sum_needs_a_largest_value_and_kinds_are_known() -> None:
    histogram = Target(1.0, 1e-6, users=10, honest=10, symbols=4)
    with pytest.raises(UsageError, match="max-value"):
        calibrate("geo-shuffle", histogram)
    with pytest.raises(UsageError, match="unknown mechanism"):
        calibrate("telepathy", DEMO)


@pytest.mark.parametrize(("epsilon0", "symbols"), [(0.0, 2), (26.0, 2), (1.0, 1)])
def test_a_blanket_out_of_range_is_a_usage_error(epsilon0: float, symbols: int) -> None:
    with pytest.raises(UsageError):
        epsilon0_to_blanket(epsilon0, symbols)
