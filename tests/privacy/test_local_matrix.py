"""Any finite randomiser as a matrix, against enumeration of datasets and of the blanket's pair, and
k-RR's bounds."""

from __future__ import annotations

import itertools
import math
import random
from collections import defaultdict
from collections.abc import Iterable
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from shuffle_oracle import local_pairs, worst_epsilon

from shuffledp_core.errors import CannotCertify, UsageError
from shuffledp_core.mechanisms import KRRHistogram
from shuffledp_privacy.bounds import (
    Setting,
    certified_curve,
    corrupted_bounds,
    delta_bounds,
    epsilon_bounds,
)
from shuffledp_privacy.local.encodings import HadamardResponse, SubsetSelection, UnaryEncoding
from shuffledp_privacy.local.matrix import LocalMatrix, parse_matrix
from shuffledp_privacy.primitives.excess import Draw, mean_excess
from shuffledp_privacy.rounds.composition import Round, compose_epsilon

Law = dict[tuple[int, ...], float]


def group(honest: int) -> Setting:
    return Setting(honest, honest)


def krr(symbols: int, blanket: Fraction) -> LocalMatrix:
    noise = blanket / symbols
    return LocalMatrix(
        tuple(
            tuple(1 - blanket + noise if x == y else noise for y in range(symbols))
            for x in range(symbols)
        )
    )


def some_matrix(seed: int, values: int, outputs: int, smallest: int = 1) -> LocalMatrix:
    draw, rows = random.Random(seed), []  # noqa: S311  (seeded cases of a test)
    for _ in range(values):
        weights = [draw.randint(smallest, 20) for _ in range(outputs)]
        weights[0] += 1  # never a row of zeros
        rows.append(tuple(Fraction(weight, sum(weights)) for weight in weights))
    return LocalMatrix(tuple(rows))


def shuffled(rows: Iterable[tuple[Fraction, ...]], outputs: int) -> Law:
    """Law of the histogram of independent reports, straight from the definition."""
    law: Law = {(0,) * outputs: 1.0}
    for row in rows:
        after: Law = defaultdict(float)
        for counts, mass in law.items():
            for y, chance in enumerate(row):
                if chance:
                    after[*counts[:y], counts[y] + 1, *counts[y + 1 :]] += mass * float(chance)
        law = after
    return law


def hockey_stick(p: Law, q: Law, epsilon: float) -> float:
    return sum(max(0.0, mass - math.exp(epsilon) * q.get(key, 0.0)) for key, mass in p.items())


def worst_of_all_datasets(matrix: LocalMatrix, honest: int, epsilon: float) -> float:
    worst = 0.0
    for others in itertools.combinations_with_replacement(matrix.rows, honest - 1):
        laws = [shuffled((*others, row), matrix.outputs) for row in matrix.rows]
        worst = max(
            worst, *(hockey_stick(p, q, epsilon) for p, q in itertools.permutations(laws, 2))
        )
    return worst


def blanket_pair(matrix: LocalMatrix, honest: int, epsilon: float) -> float:
    """δ of the view of K11, worst pair: who sent from the blanket, and the histogram of those and
    the changed user."""
    least = [min(column) for column in zip(*matrix.rows, strict=True)]
    share = sum(least)
    spread = tuple(value / share for value in least) if share else ()
    found = 0.0
    for left, right in itertools.permutations(matrix.rows, 2):
        total = 0.0
        for sent in range(honest if share else 1):
            chance = (
                math.comb(honest - 1, sent)
                * float(share) ** sent
                * float(1 - share) ** (honest - 1 - sent)
            )
            p = shuffled((*([spread] * sent), left), matrix.outputs)
            q = shuffled((*([spread] * sent), right), matrix.outputs)
            total += chance * hockey_stick(p, q, epsilon)
        found = max(found, total)
    return found


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("part", [0.05, 0.4, 0.8])
def test_no_dataset_exceeds_the_certified_delta_and_one_has_the_attained(
    seed: int, part: float
) -> None:
    matrix = some_matrix(seed, 2 + seed % 2, 3, smallest=seed % 3)
    honest = 4
    epsilon = 2.0 * part
    bounds = delta_bounds(matrix, group(honest), epsilon)
    truth = worst_of_all_datasets(matrix, honest, epsilon)
    assert bounds.certified >= truth * (1 - 1e-12)
    assert bounds.attained <= truth * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("honest", [1, 2, 5, 9])
@pytest.mark.parametrize("epsilon", [0.0, 0.2, 0.9])
def test_certified_is_the_delta_of_the_blanket_pair(seed: int, honest: int, epsilon: float) -> None:
    matrix = some_matrix(100 + seed, 3, 3, smallest=seed % 2)
    exact = blanket_pair(matrix, honest, epsilon)
    certified = delta_bounds(matrix, group(honest), epsilon).certified
    assert certified >= exact * (1 - 1e-12)
    assert certified == pytest.approx(exact, rel=2e-3, abs=1e-13)


@pytest.mark.parametrize("seed", range(5))
def test_attained_is_the_delta_of_a_dataset_whose_others_are_all_alike(seed: int) -> None:
    matrix, honest, epsilon = some_matrix(200 + seed, 3, 3), 6, 0.3
    best = 0.0
    for other in matrix.rows:
        laws = [shuffled((*([other] * (honest - 1)), row), 3) for row in matrix.rows]
        best = max(best, *(hockey_stick(p, q, epsilon) for p, q in itertools.permutations(laws, 2)))
    attained = delta_bounds(matrix, group(honest), epsilon).attained
    assert attained <= best * (1 + 1e-12)
    assert attained >= 0.9 * best  # the pair that looks worst need not be the one that is


@pytest.mark.parametrize(
    ("symbols", "blanket", "honest", "delta"),
    [
        (4, Fraction(1, 2), 100, 1e-6),
        (10, Fraction(1, 2), 10**4, 1e-6),
        (10, Fraction(1, 2), 10**6, 1e-12),
        (10, Fraction(1, 2), 10**9, 1e-6),
        (10, Fraction(1, 100), 10**4, 1e-6),
        (30, Fraction(1, 10), 10**4, 1e-6),
        (3, Fraction(1, 2), 1, 0.01),
    ],
)
def test_krr_as_a_matrix_has_the_numbers_of_its_own_analysis(
    symbols: int, blanket: Fraction, honest: int, delta: float
) -> None:
    found = epsilon_bounds(krr(symbols, blanket), group(honest), delta)
    own = epsilon_bounds(KRRHistogram(symbols=symbols, blanket=blanket), group(honest), delta)
    assert found.certified == pytest.approx(own.certified, rel=2e-4)
    # Either side of one analysis bounds the other's, and the worst of alike others may be worse
    # than a third symbol.
    assert found.certified >= own.attained
    assert own.certified >= found.attained
    assert found.attained >= own.attained * (1 - 2e-4)


@pytest.mark.parametrize(
    ("mass", "high", "low", "trials"),
    [(0.3, 1.0, -2.0, 40), (0.02, 1.0, -0.05, 130), (0.5, 3.0, -7.0, 7)],
)
def test_the_mean_of_two_values_is_that_of_the_binomial(
    mass: float, high: float, low: float, trials: int
) -> None:
    below, above = mean_excess(Draw(np.array([mass, 0.9 - mass]), np.array([high, low])), trials)
    with mpmath.workdps(40):
        exact = mpmath.fsum(
            mpmath.binomial(trials, a)
            * mpmath.binomial(trials - a, b)
            * mpmath.mpf(mass) ** a
            * mpmath.mpf(0.9 - mass) ** b
            * (1 - mpmath.mpf(mass) - mpmath.mpf(0.9 - mass)) ** (trials - a - b)
            * max(0, a * mpmath.mpf(high) + b * mpmath.mpf(low))
            for a in range(trials + 1)
            for b in range(trials - a + 1)
            if a * high + b * low > 0
        )
        assert below <= exact / trials <= above
    assert above - below <= 1e-2 * above


def test_far_tails_and_a_billion_users_stay_between_their_sides() -> None:
    draw = Draw(np.array([0.1, 0.1]), np.array([1.0, -1.001]))
    for trials in (10**3, 10**6, 10**9):
        below, above = mean_excess(draw, trials)
        assert 0 < below <= above <= below * 1.01


def unary_matrix(spec: UnaryEncoding) -> LocalMatrix:
    patterns = list(itertools.product((0, 1), repeat=spec.symbols))
    chances = {1: (spec.when_one, spec.when_zero), 0: (1 - spec.when_one, 1 - spec.when_zero)}
    return LocalMatrix(
        tuple(
            tuple(
                math.prod(
                    (chances[bit][i != x] for i, bit in enumerate(pattern)), start=Fraction(1)
                )
                for pattern in patterns
            )
            for x in range(spec.symbols)
        )
    )


def subset_matrix(spec: SubsetSelection) -> LocalMatrix:
    subsets = list(itertools.combinations(range(spec.symbols), spec.size))
    inside = spec.own / math.comb(spec.symbols - 1, spec.size - 1)
    outside = (1 - spec.own) / math.comb(spec.symbols - 1, spec.size)
    return LocalMatrix(
        tuple(
            tuple(inside if x in subset else outside for subset in subsets)
            for x in range(spec.symbols)
        )
    )


def hadamard_matrix(spec: HadamardResponse) -> LocalMatrix:
    half = Fraction(spec.order, 2)
    return LocalMatrix(
        tuple(
            tuple(
                (1 - spec.own if (x & y).bit_count() % 2 else spec.own) / half
                for y in range(spec.order)
            )
            for x in range(1, spec.order)
        )
    )


def written_out(spec: UnaryEncoding | SubsetSelection | HadamardResponse) -> LocalMatrix:
    if isinstance(spec, UnaryEncoding):
        return unary_matrix(spec)
    return subset_matrix(spec) if isinstance(spec, SubsetSelection) else hadamard_matrix(spec)


ENCODINGS: dict[str, UnaryEncoding | SubsetSelection | HadamardResponse] = {
    "unary-2": UnaryEncoding(2, Fraction(3, 4), Fraction(1, 4)),
    "unary-3": UnaryEncoding(3, Fraction(1, 2), Fraction(1, 5)),
    "unary-5": UnaryEncoding(5, Fraction(1, 2), Fraction(2, 5)),
    "subset-2": SubsetSelection(2, 1, Fraction(3, 4)),
    "subset-5-2": SubsetSelection(5, 2, Fraction(3, 4)),
    "subset-4-3": SubsetSelection(4, 3, Fraction(9, 10)),
    "hadamard-4": HadamardResponse(4, Fraction(3, 4)),
    "hadamard-8": HadamardResponse(8, Fraction(2, 3)),
}


@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize("honest", [3, 2000])
def test_an_encoding_has_the_numbers_of_its_whole_matrix(name: str, honest: int) -> None:
    spec = ENCODINGS[name]
    matrix = written_out(spec)
    for row in spec.rows:
        assert sum(row) == 1
    whole, short = (epsilon_bounds(item, group(honest), 1e-4) for item in (matrix, spec))
    assert short.certified == pytest.approx(whole.certified, rel=1e-5)
    # Of a whole matrix also values that depend on the two are tried.
    assert short.attained <= whole.attained * (1 + 1e-5)
    assert short.attained >= 0.8 * whole.attained
    local = [corrupted_bounds(item, group(honest), 0.0).epsilon for item in (matrix, spec)]
    assert local[0] == pytest.approx(local[1], rel=1e-12)


def test_large_encodings_are_answered() -> None:
    for spec in (
        UnaryEncoding(10**6, Fraction(1, 2), Fraction(1, 5)),
        SubsetSelection(1000, 100, Fraction(1, 2)),
        HadamardResponse(2**20, Fraction(3, 4)),
    ):
        bounds = epsilon_bounds(spec, group(10**9), 1e-6)
        assert 0.7 * bounds.certified < bounds.attained <= bounds.certified < 1e-3


def test_the_curve_covers_both_signs_and_every_point() -> None:
    matrix = some_matrix(5, 3, 4)
    epsilons = np.linspace(-1.0, 1.0, 401)
    curve = certified_curve(matrix, group(300), 1, epsilons)
    for place in (0, 130, 199, 200, 201, 233, 333):
        epsilon = float(epsilons[place])
        exact = delta_bounds(matrix, group(300), abs(epsilon)).attained
        if epsilon < 0:
            exact = 1 - math.exp(epsilon) * (1 - exact)
        assert curve[place] >= exact
    assert np.all(np.diff(curve) <= 1e-12)


def test_rounds_compose_as_those_of_the_same_histogram() -> None:
    composed = compose_epsilon([Round(krr(4, Fraction(1, 2)), group(1000), 20)], 1e-6)
    own = compose_epsilon(
        [Round(KRRHistogram(symbols=4, blanket=Fraction(1, 2)), group(1000), 20)], 1e-6
    )
    assert composed == pytest.approx(own, rel=2e-3)


def test_outputs_that_only_some_values_send_leave_a_guarantee_with_delta() -> None:
    leaky = parse_matrix("0.999, 0.001, 0\n0.998, 0, 0.002\n")
    assert math.isinf(epsilon_or_infinity(leaky, 1e-3))
    assert 0.0 <= epsilon_or_infinity(leaky, 5e-3) < 1.0
    assert corrupted_bounds(leaky, group(50), 5e-3).delta == 5e-3
    with pytest.raises(CannotCertify, match="delta 0"):
        corrupted_bounds(leaky, group(50), 0.0)
    apart = parse_matrix("1,0\n0,1\n")
    assert delta_bounds(apart, group(1000), 3.0).certified == 1.0
    assert epsilon_bounds(parse_matrix("1/2,1/2\n1/2,1/2\n"), group(5), 1e-6).certified == 0.0


def test_chances_of_any_size_give_clean_answers() -> None:
    for tiny in ("1e-12", "1e-90", "1e-199", "1e-300"):
        rest = 1 - Fraction(tiny)
        matrix = LocalMatrix(((rest, Fraction(tiny)), (Fraction(1, 2), Fraction(1, 2))))
        for honest in (1, 2, 1000, 10**9):
            for epsilon in (0.0, 0.5, 30.0, 500.0, math.inf):
                bounds = delta_bounds(matrix, group(honest), epsilon)
                assert 0.0 <= bounds.attained <= bounds.certified <= 1.0
    # Only the second value sends the second output: no ε takes that away.
    leaky = parse_matrix("1,0\n3/4,1/4\n")
    for epsilon in (3.0, 200.0, math.inf):
        bounds = delta_bounds(leaky, group(1000), epsilon)
        assert bounds.certified >= 0.25
        assert bounds.attained <= 0.25 + 1e-9


@pytest.mark.parametrize("honest", [1, 100])
@pytest.mark.parametrize("tiny", ["1e-330", "3e-324", "1e-199"])
def test_chances_that_differ_by_less_than_a_float_can_hold_are_different(
    tiny: str, honest: int
) -> None:
    """The first two values have the ratio 1/(2 tiny).

    The last never sends the output that the first may send.
    """
    half, small = Fraction(1, 2), Fraction(tiny)
    zero = Fraction(0)
    matrix = LocalMatrix(((half, half, zero), (small, half, half - small), (zero, half, half)))
    for epsilon in (1.0, 455.0, 740.0, 800.0):
        assert delta_bounds(matrix, group(honest), epsilon).certified >= 0.5
    with pytest.raises(CannotCertify, match="no epsilon"):
        epsilon_bounds(matrix, group(honest), 1e-6)
    with pytest.raises(CannotCertify, match="no epsilon"):
        corrupted_bounds(matrix, group(honest), 1e-6)


@pytest.mark.parametrize("honest", [1, 100])
def test_changes_whose_floats_are_alike_are_told_apart(honest: int) -> None:
    """As floats the second value sends what the third does; its own ratio to the first is smaller.

    The third value's is about e^760.9, and a group without blanket on these outputs shows it.
    """
    share, large, small = Fraction(1, 4), Fraction("1e-330"), Fraction("1e-331")
    rest = 1 - share
    matrix = LocalMatrix(
        (
            (share - small, small, rest),
            (large, share - large, rest),
            (small, share - small, rest),
        )
    )
    # share - small - e^759.5 small, on the first output alone.
    assert delta_bounds(matrix, group(honest), 759.5).certified >= 0.17
    assert corrupted_bounds(matrix, group(honest), 0.0).epsilon >= 760.7
    assert epsilon_bounds(matrix, group(1), 1e-6).certified >= 760.7


@pytest.mark.parametrize("seed", range(30))
def test_one_report_is_certified_no_less_than_its_exact_delta(seed: int) -> None:
    """In rationals, over matrices with chances of every size down to 1e-400."""
    generator = random.Random(seed)  # noqa: S311  (seeded cases of a test)
    sizes = [
        Fraction(size) for size in ("0", "1e-400", "1e-323", "1e-320", "1e-250", "1e-9", "1/7")
    ]
    rows = []
    for _ in range(4):
        row = [generator.choice(sizes) for _ in range(4)]
        rows.append((*row, 1 - sum(row, Fraction(0))))
    matrix = LocalMatrix(tuple(rows))
    for epsilon in (0.0, 2.0, 300.0, 600.0, 735.0, 742.0, 800.0, 915.0):
        with mpmath.workdps(450):
            growth = Fraction(int(mpmath.ceil(mpmath.exp(epsilon) * 2**100)), 2**100)
        exact = max(
            sum(max(a - growth * b, Fraction(0)) for a, b in zip(first, second, strict=True))
            for first, second in itertools.permutations(rows, 2)
        )
        assert Fraction(delta_bounds(matrix, group(1), epsilon).certified) >= exact


def epsilon_or_infinity(matrix: LocalMatrix, delta: float) -> float:
    try:
        return epsilon_bounds(matrix, group(50), delta).certified
    except CannotCertify:
        return math.inf


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("# nothing\n\n", "empty"),
        ("1/2,1/2\n1/3,1/3\n", "line 2 adds up to 0.666"),
        ("0.3,0.3,0.3\n", "line 1 adds up to 0.9"),
        ("1/2,1/2\n\n1\n", "line 3 has 1 probabilities, but the first row has 2"),
        ("1/2,x\n", "line 1: 'x' is not a probability"),
        ("1/2,1/0\n", "line 1: '1/0' is not a probability"),
        ("1,1e-99999999\n", "line 1: .* is not a probability"),
        ("1/2,nan\n", "line 1: 'nan' is not a probability"),
        ("3/2,-1/2\n", "line 1, column 1: a probability must be from 0 to 1"),
        ("1/2,\n", "line 1: '' is not a probability"),
        (f"0.{'3' * 300},1\n", "is not a probability"),
    ],
    ids=range(12),
)
def test_what_is_no_matrix_is_refused_with_its_line(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_matrix(text)


def test_a_matrix_may_be_written_in_several_ways() -> None:
    one = parse_matrix("# a comment\n1/2, 1/2   # half\n\n.25,7.5e-1\n")
    assert one == parse_matrix("0.5,0.5\n1/4,3/4")
    assert (one.inputs, one.outputs, len(one.digest)) == (2, 2, 16)
    assert hash(one) == hash(parse_matrix("0.5,0.5\n1/4,3/4"))


def test_what_is_too_large_or_outside_its_range_is_refused() -> None:
    wide = LocalMatrix(((Fraction(1, 2500),) * 2500,) * 2)
    with pytest.raises(UsageError, match="too many"):
        epsilon_bounds(wide, group(10), 1e-6)
    with pytest.raises(UsageError, match="when-zero"):
        UnaryEncoding(3, Fraction(1, 4), Fraction(1, 2))
    with pytest.raises(UsageError, match="symbols"):
        UnaryEncoding(1, Fraction(1, 2), Fraction(1, 4))
    with pytest.raises(UsageError, match="size"):
        SubsetSelection(4, 4, Fraction(1, 2))
    with pytest.raises(UsageError, match="own"):
        SubsetSelection(4, 2, Fraction(1, 2))
    with pytest.raises(UsageError, match="order"):
        HadamardResponse(6, Fraction(3, 4))
    with pytest.raises(UsageError, match="own"):
        HadamardResponse(8, Fraction(1, 2))
    with pytest.raises(UsageError, match="epsilon"):
        delta_bounds(krr(2, Fraction(1, 2)), group(10), -1.0)


@pytest.mark.parametrize("seed", range(6))
def test_two_outputs_are_certified_exactly(seed: int) -> None:
    """Random matrices with two outputs against all datasets of few users, written out by the
    oracle."""
    numbers = np.random.default_rng(seed)
    for _ in range(6):
        inputs, honest = int(numbers.integers(2, 4)), int(numbers.integers(2, 7))
        rates = [
            Fraction(int(value), 64)
            for value in numbers.choice(np.arange(1, 64), inputs, replace=False)
        ]
        rows = tuple((1 - rate, rate) for rate in rates)
        held = [
            dict(enumerate(counts))
            for counts in itertools.product(range(honest), repeat=inputs)
            if sum(counts) == honest - 1
        ]
        pairs = local_pairs(rows, honest, list(itertools.combinations(range(inputs), 2)), held)
        for delta in (1e-6, 1e-2, 0.3):
            exact = worst_epsilon(pairs, delta, metric=False)
            found = epsilon_bounds(LocalMatrix(rows), group(honest), delta)
            assert exact * (1 - 1e-9) <= found.certified <= exact * (1 + 1e-5) + 1e-9
            assert exact * (1 - 1e-5) - 1e-9 <= found.attained <= exact * (1 + 1e-9)


@pytest.mark.parametrize(
    ("blanket", "users"), [("1/2", 40), ("1/2", 1000), ("1/10", 3000), ("1/2", 50_000)]
)
def test_a_matrix_of_binary_randomised_response_costs_what_the_histogram_does(
    blanket: str, users: int
) -> None:
    spec = KRRHistogram(symbols=2, blanket=Fraction(blanket))
    other = spec.blanket / 2
    matrix = LocalMatrix(((1 - other, other), (other, 1 - other)))
    for delta in (1e-9, 1e-4):
        wanted = epsilon_bounds(spec, group(users), delta)
        assert epsilon_bounds(matrix, group(users), delta).certified == pytest.approx(
            wanted.certified, rel=1e-5
        )


def test_two_outputs_of_unlike_rates_are_certified_closely_among_many() -> None:
    """K11's flags alone certify a tenth more."""
    rows = tuple((1 - rate, rate) for rate in (Fraction(1, 10), Fraction(1, 2), Fraction(7, 10)))
    found = epsilon_bounds(LocalMatrix(rows), group(100_000), 1e-6)
    assert found.attained <= found.certified <= 1.01 * found.attained
