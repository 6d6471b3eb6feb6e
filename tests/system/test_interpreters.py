"""One spec per mechanism, three interpreters: each must know every spec."""

from fractions import Fraction

import pytest

from shuffledp_core.estimation import estimate
from shuffledp_core.mechanisms import MECHANISMS, GeoShuffle, KRRHistogram, Mechanism, RRShuffle, SGDLShuffle
from shuffledp_core.randomisers import randomise
from shuffledp_core.randomness import RandomIntegers
from shuffledp_privacy.bounds import Setting, corrupted_bounds, epsilon_bounds, standard_error
from shuffledp_privacy.calibration.families import FAMILIES

EXAMPLES: list[Mechanism] = [
    KRRHistogram(symbols=4, blanket=Fraction(1, 2)),
    RRShuffle(max_value=3, randomise=Fraction(1, 2)),
    GeoShuffle(max_value=3, epsilon_geo=Fraction(1, 2), padding=40),
    SGDLShuffle(max_value=3, noise_epsilon=Fraction(1, 2), shares=50, padding=40),
]


def test_the_examples_are_all_mechanisms() -> None:
    assert {spec.kind for spec in EXAMPLES} == set(MECHANISMS)


@pytest.mark.parametrize("spec", EXAMPLES, ids=lambda spec: spec.kind)
def test_client_analyst_and_accountant_know_the_mechanism(spec: Mechanism) -> None:
    users, integers = 50, RandomIntegers()
    counts = [0] * spec.alphabet
    for user in range(users):
        answer = randomise(spec, user % spec.domain, integers)
        if isinstance(spec, KRRHistogram):
            counts[answer] += 1
        else:
            counts[1] += answer
            counts[0] += spec.messages_per_user - answer
    answer_for_all = estimate(spec, counts, users)
    assert len(answer_for_all.values) == (spec.symbols if isinstance(spec, KRRHistogram) else 1)
    setting = Setting(users, users)
    bounds = epsilon_bounds(spec, setting, 1e-3)
    assert 0 < bounds.attained <= bounds.certified < corrupted_bounds(spec, setting, 0.0).epsilon
    assert bounds.basis
    assert standard_error(spec, users) > 0
    assert spec.kind in FAMILIES
