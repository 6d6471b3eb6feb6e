"""The samplers in bulk have exactly the law of the single ones: all random choices enumerated, and
by chi-square.

Two layers. `RandomArrays` makes every coin and every uniform integer from bytes: all bytes of a
small source are tried. What is built on these two is walked through over the whole tree of their
outcomes, for one user, whose law must be that of the single sampler over its own tree, and for two
at once, who must be independent.

False alarms: as in test_sampling, each chi-square test below 1e-10, so that the three dozen of this
file together are below 1e-8, and one parametrised test of three below 1e-9."""

from __future__ import annotations

import ast
import itertools
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import TypeAlias

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sampler_laws import answer_law, binomial_law, exhausted, geometric_law, laplace_law, share_law
from scipy.stats import chi2

from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import (
    MECHANISMS,
    BloomRappor,
    DummyHistogram,
    GeoShuffle,
    HadamardHistogram,
    HistogramSpec,
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
from shuffledp_core.sampling import arrays as random_arrays
from shuffledp_core.sampling import bulk, randomisers
from shuffledp_core.sampling.arrays import RandomArrays
from shuffledp_core.sampling.randomisers import PIECE, randomise, randomise_in_bulk
from shuffledp_core.sampling.randomness import RandomIntegers

Integers: TypeAlias = NDArray[np.int64]

SPECS: list[Mechanism] = [
    BloomRappor(symbols=3, bits=3, hashes=2, cohorts=2, fake=Fraction(4, 7)),
    DummyHistogram(symbols=3, slots=2, fill=Fraction(3, 7)),
    KRRHistogram(symbols=3, blanket=Fraction(3, 7)),
    HadamardHistogram(symbols=5, blanket=Fraction(3, 7)),
    NodeColumns(symbols=4, noise_epsilon=Fraction(1), mean=2, spare=3, columns=(2, 2)),
    NodeHistogram(symbols=3, noise_epsilon=Fraction(1), mean=2, dummies=8),
    RapporHistogram(
        symbols=3, fake=Fraction(2, 5), when_zero=Fraction(1, 4), when_one=Fraction(5, 7)
    ),
    LocalLaplace(max_value=2, epsilon_geo=Fraction(1)),
    OneBitShuffle(max_value=3, randomise=Fraction(2, 5)),
    QuantisedRR(max_value=3, bits=2, randomise=Fraction(2, 5)),
    RRShuffle(max_value=2, randomise=Fraction(2, 5)),
    GeoShuffle(max_value=2, epsilon_geo=Fraction(1), padding=1),
    SGDLShuffle(max_value=1, noise_epsilon=Fraction(3), shares=3, padding=1),
    SplitMix(max_value=1, noise_epsilon=Fraction(3), shares=3, modulus=3, pieces=2),
    NodeSum(max_value=3, noise_epsilon=Fraction(1), base=2, mean=2),
    NodeTree(symbols=4, noise_epsilon=Fraction(1), mean=2, spare=3, width=2),
]
"""Of every mechanism, so small that all its choices can be enumerated."""

LARGE: list[Mechanism] = [
    BloomRappor(symbols=300, bits=8, hashes=2, cohorts=8, fake=Fraction(1, 3)),
    KRRHistogram(symbols=300, blanket=Fraction(1333421, 2**21)),
    HadamardHistogram(symbols=300, blanket=Fraction(1, 3)),
    NodeColumns(symbols=300, noise_epsilon=Fraction(1), mean=27, spare=100, columns=(30, 10)),
    NodeHistogram(symbols=300, noise_epsilon=Fraction(1), mean=27, dummies=8200),
    NodeTree(symbols=300, noise_epsilon=Fraction(1), mean=27, spare=100, width=17),
    RapporHistogram(
        symbols=8, fake=Fraction(1, 3), when_zero=Fraction(1, 9), when_one=Fraction(5, 7)
    ),
    NodeSum(max_value=1000, noise_epsilon=Fraction(1), base=32, mean=460),
    LocalLaplace(max_value=20, epsilon_geo=Fraction(3, 40)),
    OneBitShuffle(max_value=1000, randomise=Fraction(1, 7)),
    QuantisedRR(max_value=1000, bits=12, randomise=Fraction(1, 7)),
    RRShuffle(max_value=40, randomise=Fraction(1, 7)),
    GeoShuffle(max_value=20, epsilon_geo=Fraction(3, 40), padding=50),
    SGDLShuffle(max_value=20, noise_epsilon=Fraction(1, 10), shares=30, padding=60),
    SplitMix(
        max_value=20, noise_epsilon=Fraction(2**62 + 1, 2**63), shares=30, modulus=97, pieces=4
    ),
]
"""Of every mechanism that randomises its answers, with parameters as rounds have them."""

RANDOM = [spec for spec in LARGE if spec.needs_crowd]
"""Those of them whose answers are random: the others' noise comes from nodes."""

DRAWS = 200_000
FEWEST = 200
NOMINAL = 1e-12

Coins: TypeAlias = NDArray[np.bool_]
Law: TypeAlias = dict[tuple[int, ...], Fraction]

with mpmath.workdps(50):
    INVERSE_E = Fraction(int(mpmath.exp(-1) * 10**36), 10**36)


# From bytes to draws.


# From draws to answers: the whole tree of outcomes.


class _NeedsMoreError(Exception):
    """The path asks for more than it holds: a choice between outcomes of these probabilities."""

    def __init__(self, chances: list[Fraction]) -> None:
        self.chances = chances


class _Path(RandomArrays):
    """Draws that were chosen before, one number each.

    Exp(-1) as a rational that is off by less than 1e-35.
    """

    def __init__(self, choices: tuple[int, ...]) -> None:
        super().__init__()
        self._choices = iter(choices)

    def _chosen(self, chances: list[Fraction]) -> int:
        if 1 in chances:
            return chances.index(Fraction(1))
        for choice in self._choices:
            return choice
        raise _NeedsMoreError(chances)

    def below(self, bound: int, count: int) -> Integers:
        return np.array(
            [self._chosen([Fraction(1, bound)] * bound) for _ in range(count)], dtype=np.int64
        )

    def bernoulli(self, probability: Fraction, count: int) -> Coins:
        chances = [1 - probability, probability]
        return np.array([self._chosen(chances) == 1 for _ in range(count)], dtype=np.bool_)

    def coins(self, digits: Iterable[int], count: int) -> Coins:
        assert list(itertools.islice(digits, 3)) == list(
            (INVERSE_E * 256**3 // 1).to_bytes(3, "big")
        )
        return self.bernoulli(INVERSE_E, count)


def enumerated(
    draw: Callable[[RandomArrays], Integers], smallest: Fraction
) -> tuple[Law, Fraction]:
    """The probability of each array over all paths, and the mass of the paths cut because they are
    below `smallest`."""
    law: defaultdict[tuple[int, ...], Fraction] = defaultdict(Fraction)
    cut, waiting = Fraction(0), [(tuple[int, ...](), Fraction(1))]
    while waiting:
        choices, chance = waiting.pop()
        if chance < smallest:
            cut += chance
            continue
        try:
            law[tuple(draw(_Path(choices)).tolist())] += chance
        except _NeedsMoreError as more:
            waiting += [
                ((*choices, place), chance * part)
                for place, part in enumerate(more.chances)
                if part
            ]
    return law, cut


def assert_two_users_are_independent(
    draw: Callable[[RandomArrays], Integers],
    laws: tuple[Mapping[int, float], Mapping[int, float]],
    *,
    smallest: Fraction,
    undecided: float,
) -> None:
    """Every pair has the product of its chances, up to what is undecided.

    Answers below 1e-6 are left out.
    """
    exact, cut = enumerated(draw, smallest)
    assert float(cut) <= undecided
    likely = ([pair for pair in law.items() if pair[1] > 1e-6] for law in laws)
    for (one, chance), (other, share) in itertools.product(*likely):
        low = float(exact.get((one, other), Fraction(0)))
        assert low - 1e-12 <= chance * share <= low + float(cut) + 1e-12, (one, other)


@pytest.mark.parametrize(
    ("epsilon", "undecided"), [(Fraction(1, 2), 0.03), (Fraction(2, 3), 0.08), (Fraction(3), 1e-3)]
)
def test_a_geometric_is_exact(epsilon: Fraction, undecided: float) -> None:
    law, cut = enumerated(lambda arrays: bulk.geometric(epsilon, 1, arrays), Fraction(1, 10**4))
    assert float(cut) < undecided
    for value, chance in geometric_law(epsilon).items():
        low = float(law.get((value,), Fraction(0)))
        assert low - 1e-12 <= chance <= low + float(cut) + 1e-12


def test_noises_of_two_users_are_exact_and_independent() -> None:
    mixed, one = Fraction(3, 2), Fraction(1)
    for draw, law in (
        (lambda arrays: bulk.geometric(mixed, 2, arrays), geometric_law(mixed)),
        (lambda arrays: bulk.discrete_laplace(one, 2, arrays), laplace_law(one)),
        (lambda arrays: bulk.geometric_share(one, 2, 2, arrays), share_law(one, 2)),
    ):
        assert_two_users_are_independent(
            draw, (law, law), smallest=Fraction(1, 30_000), undecided=0.1
        )


def test_a_binomial_of_two_users_is_exact_whatever_the_piece() -> None:
    chance, trials = Fraction(2, 5), np.array([3, 1])
    laws = (binomial_law(3, chance), binomial_law(1, chance))
    for piece in (1, 4, 100):
        assert_two_users_are_independent(
            lambda arrays, piece=piece: bulk.binomial(trials, chance, arrays, piece),  # type: ignore[misc]
            laws,
            smallest=Fraction(0),
            undecided=0,
        )


@pytest.mark.parametrize("spec", SPECS[:4], ids=lambda spec: spec.kind)
def test_a_finite_law_in_bulk_is_the_single_one_as_rationals(spec: Mechanism) -> None:
    """Over all choices of either; of two users it is the product of their laws."""
    single = []
    for value in range(spec.domain):
        single.append(
            exhausted(lambda integers, value=value: randomise(spec, value, integers), Fraction(0))[  # type: ignore[misc]
                0
            ]
        )
        law, cut = enumerated(
            lambda arrays, value=value: spec.sample_all(np.array([value]), arrays),  # type: ignore[misc]
            Fraction(0),
        )
        assert cut == 0
        assert law == {(answer,): chance for answer, chance in single[value].items()}
    first, last = single[0], single[-1]
    law, _ = enumerated(
        lambda arrays: spec.sample_all(np.array([0, spec.domain - 1]), arrays), Fraction(0)
    )
    assert law == {(one, other): first[one] * last[other] for one in first for other in last}


@pytest.mark.parametrize("spec", SPECS[5:], ids=lambda spec: spec.kind)
def test_noisy_answers_of_two_users_are_exact_and_independent(spec: Mechanism) -> None:
    values = np.array([0, spec.domain - 1])
    laws = (answer_law(spec, 0), answer_law(spec, spec.domain - 1))
    assert_two_users_are_independent(
        lambda arrays: spec.sample_all(values, arrays),
        laws,
        smallest=Fraction(1, 30_000),
        undecided=0.1,
    )


# On real randomness.


def deviation(seen: NDArray[np.int64], expected: NDArray[np.float64]) -> tuple[float, int]:
    """Chi-square statistic and degrees of freedom.

    Cells of less than `FEWEST` are counted together.
    """
    large = expected >= FEWEST
    pairs = [(seen[large], expected[large])]
    if expected[~large].sum() >= FEWEST:
        pairs.append((seen[~large].sum(), expected[~large].sum()))
    cells = int(large.sum()) + len(pairs) - 1
    assert cells > 1
    return sum(float(np.sum((count - mean) ** 2 / mean)) for count, mean in pairs), cells - 1


@pytest.mark.parametrize("spec", RANDOM, ids=lambda spec: spec.kind)
def test_answers_in_bulk_follow_the_law_and_neighbours_are_independent(spec: Mechanism) -> None:
    """Values of both ends in turn.

    Pairs of answers in a table of signs about the middle of either law.
    """
    values = np.tile([0, spec.domain - 1], DRAWS)
    pairs = randomise_in_bulk(spec, values, RandomArrays()).reshape(DRAWS, 2)
    halves = []
    for place, value in enumerate((0, spec.domain - 1)):
        law = answer_law(spec, value)
        chances = np.array([law.get(answer, 0.0) for answer in range(max(law) + 1)])
        seen = np.bincount(pairs[:, place], minlength=chances.size)
        assert seen.size == chances.size
        statistic, freedom = deviation(seen, chances * DRAWS)
        assert statistic <= chi2.isf(NOMINAL, freedom)
        middle = int(np.searchsorted(np.cumsum(chances), 0.45))
        below = float(chances[: middle + 1].sum())
        halves.append((pairs[:, place] <= middle, np.array([1 - below, below])))
    (one, first), (other, second) = halves
    table = np.bincount(2 * one + other, minlength=4)
    statistic, freedom = deviation(table, np.outer(first, second).ravel() * DRAWS)
    assert statistic <= chi2.isf(NOMINAL, freedom)


@pytest.mark.parametrize("spec", RANDOM, ids=lambda spec: spec.kind)
def test_bulk_and_single_form_agree(spec: Mechanism) -> None:
    """Two samples, of one value: chi-square of homogeneity."""
    value, integers = spec.domain // 2, RandomIntegers()
    single = np.array([randomise(spec, value, integers) for _ in range(DRAWS // 10)])
    bulk = randomise_in_bulk(spec, np.full(DRAWS // 10, value), RandomArrays())
    edges = np.unique(np.quantile(np.concatenate([single, bulk]), np.arange(1, 40) / 40))
    table = np.array(
        [
            np.bincount(np.searchsorted(edges, said), minlength=edges.size + 1)
            for said in (single, bulk)
        ]
    )
    table = table[:, table.sum(axis=0) >= 2 * FEWEST]
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    assert float(((table - expected) ** 2 / expected).sum()) <= chi2.isf(
        NOMINAL, table.shape[1] - 1
    )


def test_noise_whose_parts_do_not_fit_machine_words_is_exact() -> None:
    """ε = 1/2 as a ratio of 62-bit integers, by the path through Python's integers.

    And all but ε = 1/2 beside it.
    """
    near = Fraction(2**62 - 1, 2**63)
    drawn = bulk.geometric(near, DRAWS, RandomArrays())
    assert drawn.dtype == np.int64
    law = geometric_law(Fraction(1, 2))
    chances = np.array([law[value] for value in range(len(law))])
    statistic, freedom = deviation(np.bincount(drawn, minlength=chances.size), chances * DRAWS)
    assert statistic <= chi2.isf(NOMINAL, freedom)
    assert not bulk.geometric(Fraction(2**63), 1000, RandomArrays()).any()


def test_noise_beyond_machine_words_is_an_error_and_never_a_wrong_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bulk, "_high_parts", lambda count, _: np.full(count, 2**23 - 1))
    assert bulk.geometric(Fraction(1, 2**39), 2, RandomArrays()).min() >= 2**62 - 2**39
    with pytest.raises(OverflowError, match="62 bits"):
        bulk.geometric(Fraction(1, 2**40), 2, RandomArrays())


@pytest.mark.parametrize(
    "spec",
    [
        GeoShuffle(max_value=3, epsilon_geo=Fraction(1, 2**63), padding=5),
        GeoShuffle(max_value=3, epsilon_geo=Fraction(2**63), padding=5),
    ],
    ids=["very much noise", "no noise to speak of"],
)
def test_extreme_noise_is_drawn_all_the_same(spec: GeoShuffle) -> None:
    """Both laws are known: 0 or all bits with 1/2 each but for 2^-58, or the value and the
    padding."""
    answers = randomise_in_bulk(spec, np.full(200, 2), RandomArrays())
    assert set(answers.tolist()) == ({0, 13} if spec.epsilon_geo < 1 else {7})


# What holds of every draw.


@settings(max_examples=60)
@given(
    shape=st.lists(st.integers(0, 4), min_size=0, max_size=3),
    # Numerators of rates are below 2^63 as well.
    epsilon=st.fractions(Fraction(1, 50), 50, max_denominator=2**56),
    max_value=st.integers(1, 30),
    padding=st.integers(0, 5),
    chance=st.fractions(Fraction(1, 100), 1, max_denominator=2**62),
    data=st.data(),
)
def test_answers_keep_the_shape_and_fit_the_code(
    shape: list[int],
    epsilon: Fraction,
    max_value: int,
    padding: int,
    chance: Fraction,
    data: st.DataObject,
) -> None:
    specs: list[Mechanism] = [
        BloomRappor(symbols=max_value + 1, bits=5, hashes=2, cohorts=3, fake=chance),
        KRRHistogram(symbols=max_value + 1, blanket=chance),
        HadamardHistogram(symbols=max_value + 1, blanket=chance),
        DummyHistogram(symbols=max_value + 1, slots=2, fill=chance),
        NodeColumns(
            symbols=max_value + 1,
            noise_epsilon=epsilon,
            mean=1,
            spare=0,
            columns=(max_value + 1,),
        ),
        NodeHistogram(symbols=max_value + 1, noise_epsilon=epsilon, mean=1, dummies=max_value + 1),
        NodeSum(max_value=max_value, noise_epsilon=epsilon, base=max_value + 1, mean=max_value),
        NodeTree(symbols=max_value + 1, noise_epsilon=epsilon, mean=1, spare=0, width=1),
        RapporHistogram(
            symbols=max_value + 1, fake=chance, when_zero=Fraction(1, 3), when_one=Fraction(1, 2)
        ),
        LocalLaplace(max_value=max_value, epsilon_geo=epsilon),
        OneBitShuffle(max_value=max_value, randomise=chance),
        QuantisedRR(max_value=max_value, bits=(max_value + 1) // 2, randomise=chance),
        RRShuffle(max_value=max_value, randomise=chance),
        GeoShuffle(max_value=max_value, epsilon_geo=epsilon, padding=padding),
        SGDLShuffle(max_value=max_value, noise_epsilon=epsilon, shares=50, padding=padding),
        SplitMix(
            max_value=max_value, noise_epsilon=epsilon, shares=50, modulus=max_value + 1, pieces=3
        ),
    ]
    assert {spec.kind for spec in specs} == set(MECHANISMS)
    values = np.full(shape, data.draw(st.integers(0, max_value)))
    for spec in specs:
        answers = randomise_in_bulk(spec, values, RandomArrays())
        assert answers.shape == values.shape
        assert answers.dtype == np.int64
        top = spec.alphabet - 1 if isinstance(spec, HistogramSpec) else spec.largest_answer  # type: ignore[attr-defined]
        assert np.all((answers >= 0) & (answers <= top))


def test_pieces_join_and_every_user_is_drawn() -> None:
    """With ε = 60 noise is never seen: beyond 1e-25 for all of these users."""
    spec = GeoShuffle(max_value=9, epsilon_geo=Fraction(60), padding=0)
    values = np.arange(2 * PIECE + 3) % 10
    assert np.array_equal(randomise_in_bulk(spec, values, RandomArrays()), values)


def test_memory_is_bounded_by_the_piece_and_not_by_the_users() -> None:
    """No request to the source is larger than eight bytes for each user of a piece, or for each
    coin of one."""
    largest = 0

    def watched(size: int) -> bytes:
        nonlocal largest
        largest = max(largest, size)
        return os.urandom(size)

    for spec in LARGE:
        randomise_in_bulk(spec, np.zeros(3 * PIECE, dtype=np.int64), RandomArrays(watched))
    assert 0 < largest <= 8 * PIECE


@pytest.mark.parametrize("values", [[-1], [3, 0], [0.0], [True], ["0"]])
def test_values_outside_of_the_domain_are_refused_and_not_repeated(values: list[int]) -> None:
    with pytest.raises(UsageError, match="from 0 to 2") as caught:
        randomise_in_bulk(
            KRRHistogram(symbols=3, blanket=Fraction(1, 2)), np.array(values), RandomArrays()
        )
    assert "-1" not in str(caught.value)


def test_parameters_out_of_range_are_our_own_misuse() -> None:
    arrays = RandomArrays()
    misuses: list[Callable[[], object]] = [
        lambda: bulk.geometric(Fraction(0), 3, arrays),
        lambda: bulk.geometric(Fraction(1, 2**41), 3, arrays),
        lambda: bulk.geometric_share(Fraction(1), 0, 3, arrays),
        lambda: bulk.binomial(np.array([1]), Fraction(3, 2), arrays),
    ]
    for misuse in misuses:
        with pytest.raises(ValueError, match="must be"):
            misuse()


class Shifted(KRRHistogram, frozen=True, kw_only=True, tag="shifted"):
    """Another mechanism's law, for one user."""

    def sample(self, value: int, integers: RandomIntegers) -> int:
        """The next symbol, always."""
        return (value + 1 + integers.below(1)) % self.symbols


class Doubled(GeoShuffle, frozen=True, kw_only=True, tag="doubled"):
    """Another noise."""

    def noise(self, integers: RandomIntegers) -> int:
        """Always two."""
        return 2 + integers.below(1)


def test_a_mechanism_that_says_the_law_of_one_user_alone_has_it_in_bulk() -> None:
    """Not that of the class it derives from."""
    shifted = Shifted(symbols=5, blanket=Fraction(1, 2))
    assert randomise_in_bulk(shifted, np.arange(5), RandomArrays()).tolist() == [1, 2, 3, 4, 0]
    doubled = Doubled(max_value=3, epsilon_geo=Fraction(1, 2), padding=1)
    assert randomise_in_bulk(doubled, np.arange(4), RandomArrays()).tolist() == [3, 4, 5, 5]


def test_every_mechanism_is_here_twice() -> None:
    assert {spec.kind for spec in SPECS} == set(MECHANISMS)
    assert {spec.kind for spec in LARGE} == set(MECHANISMS) - {DummyHistogram.kind}


@pytest.mark.parametrize(
    "module", [bulk, random_arrays, randomisers], ids=lambda module: module.__name__
)
def test_there_is_no_floating_point_in_the_code(module: ModuleType) -> None:
    """No number with a point, no division that makes one, no floating type.

    (`Fraction / int` has its own line.)
    """
    assert module.__file__ is not None
    tree = ast.parse(Path(module.__file__).read_text())
    for node in ast.walk(tree):
        assert not (isinstance(node, ast.Constant) and isinstance(node.value, float))
        assert not (
            isinstance(node, ast.Attribute)
            and node.attr.startswith(("float", "random", "true_divide"))
        )
        assert not (isinstance(node, ast.Name) and node.id == "float")
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            assert ast.unparse(node) == "-term / j"
