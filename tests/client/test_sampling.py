"""Every sampler against its law, computed independently: by exhausting all random choices, and by
chi-square."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampler_laws import (
    answer_law,
    assert_bracketed,
    exhausted,
    geometric_law,
    laplace_law,
    quantised_law,
    report_law,
    sgdl_law,
    share_law,
)
from scipy.linalg import hadamard
from scipy.stats import chi2

from shuffledp_core.errors import UsageError
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
from shuffledp_core.sampling.exact import (
    bernoulli,
    bernoulli_exp,
    discrete_laplace,
    geometric,
    geometric_share,
    sgdl,
)
from shuffledp_core.sampling.randomisers import randomise
from shuffledp_core.sampling.randomness import RandomIntegers

DRAWS = 20_000
FEWEST = 200
NOMINAL = 1e-12
"""False-alarm rate of one chi-square test if its law were exact. With at least 200 expected in
every cell the true rate of so rare an event is larger by a factor below 100 (first Edgeworth term,
exp(7^3 / (6 sqrt(200))) = 57 at seven
standard deviations), so each test is below 1e-10 and the dozen of this file together below 1e-9."""

HALF = Fraction(1, 2)

SMALL_SPECS: dict[str, Mechanism] = {
    "bloom-rappor": BloomRappor(symbols=3, bits=3, hashes=2, cohorts=2, fake=Fraction(1, 2)),
    "krr-histogram": KRRHistogram(symbols=5, blanket=Fraction(1, 3)),
    "dummy-histogram": DummyHistogram(symbols=5, slots=2, fill=Fraction(1, 3)),
    "hadamard-histogram": HadamardHistogram(symbols=5, blanket=Fraction(1, 3)),
    "node-columns": NodeColumns(
        symbols=6, noise_epsilon=Fraction(1), mean=2, spare=3, columns=(3, 2)
    ),
    "node-histogram": NodeHistogram(symbols=5, noise_epsilon=Fraction(1), mean=2, dummies=12),
    "node-sum": NodeSum(max_value=6, noise_epsilon=Fraction(1), base=3, mean=3),
    "node-tree": NodeTree(symbols=5, noise_epsilon=Fraction(1), mean=2, spare=3, width=2),
    "rappor-histogram": RapporHistogram(
        symbols=3, fake=Fraction(1, 2), when_zero=Fraction(1, 4), when_one=Fraction(3, 4)
    ),
    "local-laplace": LocalLaplace(max_value=5, epsilon_geo=Fraction(2, 3)),
    "one-bit-mean": OneBitShuffle(max_value=6, randomise=Fraction(2, 5)),
    "quantised-rr": QuantisedRR(max_value=6, bits=4, randomise=Fraction(2, 5)),
    "rr-shuffle": RRShuffle(max_value=6, randomise=Fraction(2, 5)),
    "geo-shuffle": GeoShuffle(max_value=4, epsilon_geo=Fraction(2, 3), padding=2),
    "sgdl-shuffle": SGDLShuffle(max_value=4, noise_epsilon=Fraction(1, 2), shares=3, padding=2),
    "split-mix": SplitMix(
        max_value=4, noise_epsilon=Fraction(1, 2), shares=3, modulus=11, pieces=3
    ),
}


@pytest.mark.parametrize(
    "probability", [Fraction(0), Fraction(1, 3), Fraction(5, 7), Fraction(99, 200), Fraction(1)]
)
def test_a_bernoulli_is_exact_over_all_first_bytes(probability: Fraction) -> None:
    outcomes: Counter[bool] = Counter()
    for byte in range(256):
        pieces = iter([bytes([byte]) * 4096])
        try:
            once = RandomIntegers(lambda size, pieces=pieces: next(pieces)[:size])  # type: ignore[misc]
            outcomes[bernoulli(probability, once)] += 1
        except (RuntimeError, StopIteration):
            # this byte is rejected for ever; the conditional law is that of the other bytes
            continue
    assert Fraction(outcomes[True], outcomes.total()) == probability


@pytest.mark.parametrize("gamma", [Fraction(0), Fraction(1, 3), Fraction(1), Fraction(5, 2)])
def test_an_exponential_bernoulli_is_exact(gamma: Fraction) -> None:
    true = float(mpmath.exp(-mpmath.mpf(gamma.numerator) / gamma.denominator))
    assert_bracketed(
        lambda integers: int(bernoulli_exp(gamma, integers)),
        {1: true, 0: 1 - true},
        smallest=Fraction(1, 10**6),
        undecided=1e-3,
    )


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(2, 3), Fraction(3)])
def test_a_geometric_is_exact(epsilon: Fraction) -> None:
    assert_bracketed(
        lambda integers: geometric(epsilon, integers),
        geometric_law(epsilon),
        smallest=Fraction(1, 10**6),
        undecided=0.1,
    )


def test_a_geometric_share_is_exact() -> None:
    epsilon = Fraction(2)
    assert_bracketed(
        lambda integers: geometric_share(epsilon, 2, integers),
        share_law(epsilon, 2),
        smallest=Fraction(1, 10**5),
        undecided=0.02,
    )


def _one_message_law(spec: Mechanism, value: int) -> dict[int, Fraction]:
    """The chances of every answer, from the definitions, exactly."""
    if isinstance(spec, OneBitShuffle):
        one = spec.randomise / 2 + (1 - spec.randomise) * Fraction(value, spec.max_value)
        return {0: 1 - one, 1: one}
    if isinstance(spec, RapporHistogram):
        return report_law(spec, value)
    if isinstance(spec, QuantisedRR):
        return quantised_law(spec, value)
    assert isinstance(spec, KRRHistogram | HadamardHistogram)
    own = {value}
    if isinstance(spec, HadamardHistogram):
        own = set(np.flatnonzero(hadamard(spec.alphabet)[value + 1] == 1).tolist())
    free, kept = spec.blanket / spec.alphabet, (1 - spec.blanket) / len(own)
    return {answer: free + kept * (answer in own) for answer in range(spec.alphabet)}


@pytest.mark.parametrize(
    "spec",
    [
        *(KRRHistogram(symbols=symbols, blanket=Fraction(3, 7)) for symbols in (2, 5)),
        *(
            HadamardHistogram(symbols=symbols, blanket=Fraction(3, 7))
            for symbols in (2, 3, 4, 7, 8)
        ),
        RapporHistogram(
            symbols=2, fake=Fraction(1, 2), when_zero=Fraction(1, 3), when_one=Fraction(3, 4)
        ),
        RapporHistogram(
            symbols=3, fake=Fraction(1), when_zero=Fraction(1, 2), when_one=Fraction(1, 2)
        ),
        *(OneBitShuffle(max_value=largest, randomise=Fraction(3, 7)) for largest in (1, 2, 7)),
        OneBitShuffle(max_value=3, randomise=Fraction(1)),
        *(QuantisedRR(max_value=largest, bits=1, randomise=Fraction(3, 7)) for largest in (1, 7)),
        HadamardHistogram(symbols=3, blanket=Fraction(1)),
    ],
    ids=str,
)
def test_one_message_has_exactly_the_certified_law(spec: Mechanism) -> None:
    """All random choices, exhausted: every chance equals the certified one as a rational."""
    for value in range(spec.domain):
        law, cut = exhausted(
            lambda integers, value=value: randomise(spec, value, integers),  # type: ignore[misc]
            Fraction(0),
        )
        assert cut == 0
        wanted = _one_message_law(spec, value)
        assert {answer: law.get(answer, Fraction(0)) for answer in wanted} == wanted
        assert sum(law.values()) == 1


# Chi-square on real randomness.


def chi_square(law: Mapping[int, float], sampler: Callable[[RandomIntegers], int]) -> None:
    integers = RandomIntegers(os.urandom)
    seen = Counter(sampler(integers) for _ in range(DRAWS))
    cells = {outcome for outcome, chance in law.items() if chance * DRAWS >= FEWEST}
    pairs = [(seen[outcome], law[outcome] * DRAWS) for outcome in cells]
    rest = 1 - sum(law[outcome] for outcome in cells)
    if rest * DRAWS >= FEWEST:
        pairs.append((DRAWS - sum(count for count, _ in pairs), rest * DRAWS))
    if len(law) == 1:
        assert set(seen) == set(law)
        return
    assert len(pairs) > 1
    statistic = sum((count - expected) ** 2 / expected for count, expected in pairs)
    assert statistic <= chi2.isf(NOMINAL, len(pairs) - 1)


def test_noise_follows_its_law() -> None:
    epsilon = Fraction(3, 10)
    chi_square(geometric_law(epsilon), lambda integers: geometric(epsilon, integers))
    chi_square(laplace_law(epsilon), lambda integers: discrete_laplace(epsilon, integers))
    chi_square(share_law(epsilon, 7), lambda integers: geometric_share(epsilon, 7, integers))
    chi_square(sgdl_law(epsilon, 7), lambda integers: sgdl(epsilon, 7, integers))


def test_shares_of_all_users_sum_to_one_discrete_laplace() -> None:
    epsilon, shares = Fraction(1, 2), 4
    chi_square(
        laplace_law(epsilon),
        lambda integers: sum(sgdl(epsilon, shares, integers) for _ in range(shares)),
    )


# An answer of dummy-histogram is the value; tests/privacy/test_dummy_histogram.py has its dummies.
@pytest.mark.parametrize(
    "spec",
    [spec for spec in SMALL_SPECS.values() if not isinstance(spec, DummyHistogram)],
    ids=lambda spec: spec.kind,
)
@pytest.mark.parametrize("extreme", ["lowest", "highest"])
def test_a_randomised_answer_follows_its_spec(spec: Mechanism, extreme: str) -> None:
    value = 0 if extreme == "lowest" else spec.domain - 1
    chi_square(answer_law(spec, value), lambda integers: randomise(spec, value, integers))


def test_every_mechanism_has_a_randomiser() -> None:
    assert set(SMALL_SPECS) == set(MECHANISMS)
    for spec in SMALL_SPECS.values():
        assert (
            0
            <= randomise(spec, spec.domain - 1, RandomIntegers())
            <= max(spec.alphabet, spec.messages_per_user, spec.domain)
        )


@pytest.mark.parametrize("spec", SMALL_SPECS.values(), ids=SMALL_SPECS)
@pytest.mark.parametrize("value", [-1, 7_654_321, True, 1.0, "3"])
def test_a_value_outside_the_domain_is_refused_and_not_repeated(
    spec: Mechanism, value: int
) -> None:
    with pytest.raises(UsageError, match=f"from 0 to {spec.domain - 1}") as caught:
        randomise(spec, value, RandomIntegers())
    assert "7654321" not in str(caught.value)


@settings(max_examples=200)
@given(
    max_value=st.integers(1, 40),
    padding=st.integers(0, 5),
    epsilon=st.fractions(Fraction(1, 50), 5, max_denominator=2**40),
    data=st.data(),
)
def test_answers_always_fit_the_code(
    max_value: int, padding: int, epsilon: Fraction, data: st.DataObject
) -> None:
    value = data.draw(st.integers(0, max_value))
    geo = GeoShuffle(max_value=max_value, epsilon_geo=epsilon, padding=padding)
    share = SGDLShuffle(max_value=max_value, noise_epsilon=epsilon, shares=50, padding=padding)
    for spec in (geo, share):
        assert 0 <= randomise(spec, value, RandomIntegers()) <= spec.messages_per_user


def test_parameters_outside_their_range_are_our_own_misuse() -> None:
    integers = RandomIntegers()
    misuses: list[Callable[[], object]] = [
        lambda: bernoulli(Fraction(3, 2), integers),
        lambda: bernoulli_exp(Fraction(-1), integers),
        lambda: geometric(Fraction(0), integers),
        lambda: geometric_share(Fraction(1), 0, integers),
    ]
    for misuse in misuses:
        with pytest.raises(ValueError, match="must"):
            misuse()
