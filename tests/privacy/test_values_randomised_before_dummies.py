"""Values that go through k-RR before dummies hide them: enumerated boards, devices,
estimates and calibration (K16, N8)."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom, chi2

from shuffledp_core.answering.estimates import Present
from shuffledp_core.answering.estimation import estimate
from shuffledp_core.bounds.bounded_noise import bounded_laplace_law
from shuffledp_core.documents.signed import from_json, to_json
from shuffledp_core.errors import CannotCertify
from shuffledp_core.mechanisms import DummyHistogram, NodeHistogram
from shuffledp_core.sampling.arrays import RandomArrays
from shuffledp_core.sampling.randomness import RandomIntegers
from shuffledp_privacy.bounds import (
    Setting,
    certified_curve,
    corrupted_bounds,
    delta_bounds,
    epsilon_bounds,
    standard_error,
)
from shuffledp_privacy.calibration.calibrate import Target, calibrate
from shuffledp_privacy.rounds.composition import Round, compose_bounds

Board = dict[tuple[int, ...], Fraction]
EPSILONS = (0.0, 0.3, 1.0, 2.0)
DRAWS = 40_000


def divergence(first: Board, second: Board, epsilon: float) -> float:
    growth = Fraction(math.exp(epsilon))
    none = Fraction(0)
    excesses = (mass - growth * second.get(counts, none) for counts, mass in first.items())
    return float(sum((excess for excess in excesses if excess > 0), none))


def added(law: Board, symbol_masses: dict[int, Fraction]) -> Board:
    """The law with one more message, whose symbol has these probabilities."""
    after: defaultdict[tuple[int, ...], Fraction] = defaultdict(Fraction)
    for counts, mass in law.items():
        for symbol, chance in symbol_masses.items():
            longer = (*counts[:symbol], counts[symbol] + 1, *counts[symbol + 1 :])
            after[longer] += mass * chance
    return dict(after)


def response(value: int, symbols: int, blanket: Fraction) -> dict[int, Fraction]:
    """The law of k-RR."""
    masses = dict.fromkeys(range(symbols), blanket / symbols)
    masses[value] += 1 - blanket
    return masses


@cache
def board_of_dummies(spec: DummyHistogram, values: tuple[int, ...]) -> Board:
    law: Board = {(0,) * spec.alphabet: Fraction(1)}
    slot = dict.fromkeys(range(spec.symbols), spec.dummy_rate)
    slot[spec.symbols] = 1 - spec.fill
    for _ in range(len(values) * spec.slots):
        law = added(law, slot)
    for value in values:
        law = added(law, response(value, spec.symbols, spec.blanket))
    return law


@cache
def board_of_nodes(spec: NodeHistogram, value: int) -> Board:
    """Behind one honest node, all other people's reports taken away."""
    masses = [Fraction(mass) for mass in bounded_laplace_law(spec.noise_epsilon, spec.mean)]
    law: Board = {}
    for draws in itertools.product(range(2 * spec.mean + 1), repeat=spec.symbols):
        if sum(draws) <= spec.dummies:
            mass = Fraction(1)
            for draw in draws:
                mass *= masses[draw]
            law[(*draws, spec.dummies - sum(draws))] = mass
    total = sum(law.values())
    law = {counts: mass / total for counts, mass in law.items()}
    return added(law, response(value, spec.symbols, spec.blanket))


@pytest.mark.parametrize(
    ("symbols", "slots", "users"),
    [(2, 1, 1), (2, 1, 3), (2, 2, 2), (3, 1, 1), (3, 1, 3), (4, 1, 2)],
)
@pytest.mark.parametrize("fill", [Fraction(1, 3), Fraction(1)])
@pytest.mark.parametrize("blanket", [Fraction(1, 50), Fraction(1, 3), Fraction(9, 10)])
def test_no_dataset_of_dummies_exceeds_the_certificate_and_the_attained_one_is_reached(
    symbols: int, slots: int, users: int, fill: Fraction, blanket: Fraction
) -> None:
    spec = DummyHistogram(symbols=symbols, slots=slots, fill=fill, blanket=blanket)
    setting = Setting(users, users)
    for epsilon in EPSILONS:
        bounds = delta_bounds(spec, setting, epsilon)
        worst = 0.0
        for others in itertools.combinations_with_replacement(range(symbols), users - 1):
            for old, new in itertools.permutations(range(symbols), 2):
                truth = divergence(
                    board_of_dummies(spec, (old, *others)),
                    board_of_dummies(spec, (new, *others)),
                    epsilon,
                )
                worst = max(worst, truth)
        assert worst <= bounds.certified * (1 + 1e-9)
        assert bounds.attained <= worst + 1e-12
        assert worst <= corrupted_bounds(spec, setting, 1e-6).epsilon * 1e9  # finite
        if epsilon == 0.0:
            assert bounds.attained > 0


@pytest.mark.parametrize("symbols", [2, 3])
@pytest.mark.parametrize("exponent", [6, 9, 12, 15])
@pytest.mark.parametrize("share", [0.5, 0.9, 0.99, 0.999, 1 - 1e-6, 1 - 1e-9])
def test_a_rare_blanket_does_not_round_the_certificate_below_the_truth(
    symbols: int, exponent: int, share: float
) -> None:
    """Near ε_L only messages of one symbol count, and e^ε times the others' number is huge."""
    spec = DummyHistogram(
        symbols=symbols, slots=4, fill=Fraction(1, 2), blanket=Fraction(1, 10**exponent)
    )
    setting = Setting(1, 1)
    epsilon = share * corrupted_bounds(spec, setting, 0.0).epsilon
    truth = divergence(board_of_dummies(spec, (0,)), board_of_dummies(spec, (1,)), epsilon)
    bounds = delta_bounds(spec, setting, epsilon)
    assert bounds.attained <= truth <= bounds.certified
    if symbols == 2:  # the counts of a and b are the whole view
        assert bounds.certified <= truth * (1 + 1e-6) + 1e-9


@pytest.mark.parametrize(("symbols", "mean"), [(2, 3), (3, 2), (4, 1)])
@pytest.mark.parametrize("spare", [0, 1, 100])
@pytest.mark.parametrize("blanket", [Fraction(1, 50), Fraction(1, 3)])
def test_no_view_behind_an_honest_node_exceeds_the_certificate(
    symbols: int, mean: int, spare: int, blanket: Fraction
) -> None:
    dummies = min(symbols * mean + spare, 2 * symbols * mean)
    spec = NodeHistogram(
        symbols=symbols,
        noise_epsilon=Fraction(2, 5),
        mean=mean,
        dummies=dummies,
        blanket=blanket,
    )
    for epsilon in EPSILONS:
        bounds = delta_bounds(spec, Setting(1, 1), epsilon)
        truths = {
            divergence(board_of_nodes(spec, old), board_of_nodes(spec, new), epsilon)
            for old, new in itertools.permutations(range(symbols), 2)
        }
        assert max(truths) <= bounds.certified * (1 + 1e-9)
        assert bounds.attained <= max(truths) + 1e-12
        # Two symbols: the counts that a device sees are all there is.
        if symbols == 2:
            assert bounds.attained == pytest.approx(max(truths), rel=1e-6, abs=1e-12)


def test_one_report_alone_has_the_epsilon_of_its_own_randomiser() -> None:
    blanket = Fraction(1, 10)
    for spec in (
        DummyHistogram(symbols=5, slots=1, fill=Fraction(1, 2), blanket=blanket),
        NodeHistogram(symbols=5, noise_epsilon=Fraction(1, 2), mean=9, dummies=60, blanket=blanket),
    ):
        exact = math.log((1 - 0.1 + 0.02) / 0.02)
        local = corrupted_bounds(spec, Setting(9, 9), 1e-6)
        assert local.epsilon == pytest.approx(exact, rel=1e-12)
        assert local.delta == 0.0
        assert spec.local_epsilon(1) == pytest.approx(exact, rel=1e-12)
        # Whatever the dummies: never more than the report alone.
        assert epsilon_bounds(spec, Setting(9, 9), 1e-6).certified <= local.epsilon * (1 + 1e-9)


@pytest.mark.parametrize("limit", [4, 6, 8])
def test_a_finite_epsilon_without_honest_nodes_is_calibrated_for(limit: int) -> None:
    """Certified/attained is what docs/accounting.md states."""
    cells = []
    for kind in ("dummy-histogram", "node-histogram"):
        ratios = []
        for people, symbols in ((10_000, 21), (100_000, 1000)):
            target = Target(1.0, 1e-6, people, people, symbols=symbols, epsilon_local=float(limit))
            spec = calibrate(kind, target)
            bounds = epsilon_bounds(spec, target.setting, 1e-6)
            # Where the blankets of others are enough, dummies are as few as can be.
            assert bounds.certified <= 1.0
            assert kind == "dummy-histogram" or bounds.certified > 0.99
            assert isinstance(spec, DummyHistogram | NodeHistogram)
            assert 0.99 * limit < spec.local_epsilon(1) <= limit
            ratios.append(f"{bounds.certified / bounds.attained:.3f}")
        cells.append(" / ".join(ratios))
    page = (Path(__file__).parents[2] / "docs/accounting.md").read_text(encoding="utf-8")
    assert f"\n| {limit} | {' | '.join(cells)} |\n" in page


@pytest.mark.parametrize("kind", ["dummy-histogram", "node-histogram"])
def test_k_rr_that_needs_no_dummies_is_calibrated_for(kind: str) -> None:
    """With ε_L below ε any noise is enough: the search must end."""
    spec = calibrate(kind, Target(2.0, 1e-6, 50, 50, symbols=5, epsilon_local=1.0))
    assert epsilon_bounds(spec, Setting(50, 50), 1e-6).certified <= 1.0


def test_one_report_behind_a_node_with_room_for_all_its_dummies_is_certified_exactly() -> None:
    for symbols, mean in ((2, 4), (3, 3), (4, 2), (5, 1)):
        spec = NodeHistogram(
            symbols=symbols,
            noise_epsilon=Fraction(3, 5),
            mean=mean,
            dummies=2 * symbols * mean,
            blanket=Fraction(1, 4),
        )
        before, after = (board_of_nodes(spec, value) for value in (0, 1))
        for epsilon in (0.0, 0.1, 0.7, 1.1, 1.9):
            truth = divergence(before, after, epsilon)
            bounds = delta_bounds(spec, Setting(1, 1), epsilon)
            assert bounds.certified == pytest.approx(truth, rel=1e-7, abs=1e-12)
            assert bounds.attained == pytest.approx(truth, rel=1e-7, abs=1e-12)


def test_the_price_at_ten_thousand_people_is_small() -> None:
    """NOISE: 10.6 at worst for ε_L <= 8, and 6.7 without."""
    target = Target(1.0, 1e-6, 10_000, 10_000, symbols=21, epsilon_local=8.0)
    spec = calibrate("dummy-histogram", target)
    assert standard_error(spec, 10_000) <= 10.6
    counts = [10_000 // 21 + 40] * 21
    answer = estimate(spec, [*counts, 20_000 - sum(counts)], 10_000)
    assert max(answer.standard_errors) <= 7.1


def test_other_mechanisms_are_refused_above_the_limit() -> None:
    target = Target(1.0, 1e-6, 10_000, 10_000, symbols=21, epsilon_local=4.0)
    with pytest.raises(CannotCertify, match=r"hadamard-histogram.*every node is corrupt"):
        calibrate("hadamard-histogram", target)
    assert calibrate("krr-histogram", target).local_epsilon(1) <= 4.0
    with pytest.raises(CannotCertify, match=r"node-sum.*every node is corrupt"):
        calibrate("node-sum", Target(1.0, 1e-6, 100, 100, max_value=20, epsilon_local=8.0))


def test_more_users_blanket_each_other() -> None:
    spec = DummyHistogram(symbols=21, slots=1, fill=Fraction(1, 20), blanket=Fraction(1, 20))
    deltas = [delta_bounds(spec, Setting(n, n), 1.0).certified for n in (500, 2000, 8000, 32_000)]
    assert deltas == sorted(deltas, reverse=True)
    open_values = DummyHistogram(symbols=21, slots=1, fill=Fraction(1, 20))
    for people in (500, 2000, 8000):
        setting = Setting(people, people)
        blanketed = delta_bounds(spec, setting, 1.0).certified
        assert blanketed <= delta_bounds(open_values, setting, 1.0).certified


@pytest.mark.parametrize(
    "spec",
    [
        DummyHistogram(symbols=21, slots=1, fill=Fraction(1, 4), blanket=Fraction(1, 40)),
        NodeHistogram(
            symbols=21,
            noise_epsilon=Fraction(1, 2),
            mean=45,
            dummies=1050,
            blanket=Fraction(1, 40),
        ),
    ],
)
def test_a_device_finds_no_more_than_is_certified_and_rounds_compose(
    spec: DummyHistogram | NodeHistogram,
) -> None:
    setting = Setting(5000, 5000)
    for epsilon in (0.1, 0.5, 1.0):
        bounds = delta_bounds(spec, setting, epsilon)
        attained = spec.witness(5000, 1).attained_delta(epsilon)
        assert 0 < attained <= bounds.certified
        curve = certified_curve(spec, setting, 1, np.array([-epsilon, epsilon]))
        assert curve[1] == pytest.approx(bounds.certified, rel=1e-6)
        assert curve[0] >= 1 - math.exp(-epsilon)
    alone = epsilon_bounds(spec, setting, 1e-6).certified
    together = compose_bounds([Round(spec, setting, 20)], 1e-6).certified
    assert alone < together < 20 * alone


def test_both_samplers_draw_the_law_of_the_value() -> None:
    """Chi-square at 1e-12 with hundreds expected in every cell."""
    specs = (
        DummyHistogram(symbols=3, slots=1, fill=Fraction(1, 3), blanket=Fraction(1, 4)),
        NodeHistogram(
            symbols=3, noise_epsilon=Fraction(1), mean=2, dummies=8, blanket=Fraction(1, 4)
        ),
    )
    for spec in specs:
        integers = RandomIntegers()
        single = np.bincount([spec.sample(1, integers) for _ in range(DRAWS)], minlength=3)
        bulk = np.bincount(
            spec.sample_all(np.ones(DRAWS, dtype=np.int64), RandomArrays()), minlength=3
        )
        expected = np.array([1 / 12, 10 / 12, 1 / 12]) * DRAWS
        for drawn in (single, bulk):
            statistic = float(((drawn - expected) ** 2 / expected).sum())
            assert statistic <= chi2.isf(1e-12, 2)


@pytest.mark.parametrize("users", [3, 40])
@pytest.mark.parametrize("holders", [0, 1, 3])
def test_estimates_are_unbiased_and_their_intervals_cover(users: int, holders: int) -> None:
    """Over the exact law of one count: reports of holders, of others, and dummies."""
    spec = DummyHistogram(symbols=4, slots=2, fill=Fraction(1, 2), blanket=Fraction(1, 3))
    nodes = NodeHistogram(
        symbols=4, noise_epsilon=Fraction(1), mean=6, dummies=48, blanket=Fraction(1, 3)
    )
    q = 1 / 12
    reports = np.convolve(
        binom.pmf(np.arange(holders + 1), holders, 1 - 1 / 3 + q),
        binom.pmf(np.arange(users - holders + 1), users - holders, q),
    )
    slots = users * spec.slots
    law = np.convolve(reports, binom.pmf(np.arange(slots + 1), slots, float(spec.dummy_rate)))
    single = bounded_laplace_law(nodes.noise_epsilon, nodes.mean)
    cases = (
        (spec, law, Present(Fraction(users))),
        (nodes, np.convolve(np.convolve(reports, single), single), Present(Fraction(users), 2)),
    )
    for mechanism, masses, present in cases:
        mean = square = covered = 0.0
        for count, mass in enumerate(masses.tolist()):
            if mass < 1e-10:
                continue
            answer = mechanism.estimate([count, 0, 0, 0, 0], present)
            mean += mass * answer.values[0]
            square += mass * (answer.values[0] - holders) ** 2
            covered += mass * (answer.lows[0] <= holders <= answer.highs[0])
        assert mean == pytest.approx(holders, abs=1e-5)
        assert covered >= 0.95
        worst = standard_error(mechanism, users, present.nodes)
        assert math.sqrt(square) <= worst * (1 + 1e-6)


def test_pure_noise_is_refused() -> None:
    with pytest.raises(ValueError, match="blanket"):
        DummyHistogram(symbols=3, slots=1, fill=Fraction(1, 2), blanket=Fraction(-1, 2))
    with pytest.raises(ValueError, match="blanket"):
        DummyHistogram(symbols=3, slots=1, fill=Fraction(1, 2), blanket=Fraction(1))


def test_values_in_the_open_have_one_form_in_documents() -> None:
    """The form that devices knew before there was a blanket."""
    plain = DummyHistogram(symbols=3, slots=1, fill=Fraction(1, 2))
    stated = DummyHistogram(symbols=3, slots=1, fill=Fraction(1, 2), blanket=Fraction(0, 7))
    assert to_json(plain) == to_json(stated)
    assert b"blanket" not in to_json(plain)
    blanketed = DummyHistogram(symbols=3, slots=1, fill=Fraction(1, 2), blanket=Fraction(1, 9))
    for spec in (plain, blanketed):
        assert from_json(to_json(spec), DummyHistogram) == spec
