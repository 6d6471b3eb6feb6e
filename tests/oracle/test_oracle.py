from __future__ import annotations

import ast
import math
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest
import shuffle_oracle as oracle
from fuzz import run, table
from fuzz_cases import KINDS, Case, judge

from shuffledp_core.mechanisms import MECHANISMS, KRRHistogram
from shuffledp_privacy.bounds import Setting

HALF = Fraction(1, 2)


def test_it_shares_no_code_with_the_accountant() -> None:
    source = Path(oracle.__file__).read_text(encoding="utf-8")
    assert "shuffledp_" not in source
    imported = set[str]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            imported.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module or "")
    assert "numpy" in imported
    assert not [name for name in imported if name.startswith("shuffledp")]


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.5, 1.0])
def test_one_user_costs_what_its_report_costs(epsilon: float) -> None:
    p, q = 0.7, 0.1  # 4 symbols, blanket 0.4
    pairs = oracle.local_pairs(oracle.krr_rows(4, Fraction(2, 5)), 1, [(0, 1)], [{2: 0}])
    assert oracle.worst_delta(pairs, epsilon, metric=False) == pytest.approx(
        p - math.exp(epsilon) * q, rel=1e-14
    )
    exact = math.log((p - 0.01) / q)
    assert oracle.worst_epsilon(pairs, 0.01, metric=True) == pytest.approx(exact, rel=1e-14)


def test_two_symbols_are_a_shifted_binomial() -> None:
    honest, blanket, epsilon = 30, Fraction(2, 5), 0.7
    p, q = 0.8, 0.2
    pairs = oracle.local_pairs(oracle.krr_rows(2, blanket), honest, [(0, 1)], [{1: honest - 1}])
    rest = [math.comb(honest - 1, s) * q**s * p ** (honest - 1 - s) for s in range(honest)]
    one = [p * a + q * b for a, b in zip([0.0, *rest], [*rest, 0.0], strict=True)]
    other = [q * a + p * b for a, b in zip([0.0, *rest], [*rest, 0.0], strict=True)]
    orders = [
        sum(max(a - math.exp(epsilon) * b, 0) for a, b in zip(x, y, strict=True))
        for x, y in ((one, other), (other, one))
    ]
    assert oracle.worst_delta(pairs, epsilon, metric=False) == pytest.approx(max(orders), rel=1e-12)


@pytest.mark.parametrize("symbols", [3, 4, 7])
def test_both_ways_to_count_multisets_agree(symbols: int) -> None:
    rows = oracle.krr_rows(symbols, Fraction(1, 3))
    equal = oracle.local_pairs(rows, 8, [(0, 1)], [{2: 7}])
    counted = oracle._of_any(rows, 0, 1, {2: 7})
    for delta in (1e-9, 1e-3):
        expected = oracle.worst_epsilon([counted], delta, metric=False)
        assert oracle.worst_epsilon(equal, delta, metric=False) == pytest.approx(
            expected, rel=1e-12
        )


@pytest.mark.parametrize(("shares", "rate"), [(1, Fraction(1, 3)), (3, HALF), (200, Fraction(2))])
def test_shares_have_the_law_of_the_difference_of_two_negative_binomials(
    shares: int, rate: Fraction
) -> None:
    law = oracle.share_noise(rate, shares, 40)
    with mpmath.workdps(40):
        r, q = mpmath.mpf(1) / shares, mpmath.exp(-mpmath.mpf(rate.numerator) / rate.denominator)
        for m in range(0, 40, 3):
            front = (1 - q) ** (2 * r) * mpmath.rf(r, m) / mpmath.factorial(m) * q**m
            exact = front * mpmath.hyp2f1(r, r + m, m + 1, q * q)
            assert float(law[m]) == pytest.approx(float(exact), rel=1e-13)
    if shares == 1:
        assert np.allclose(law[:40], oracle.laplace_noise(rate, 40)[:40], rtol=1e-14, atol=0)
    assert float(2 * law.sum() - law[0]) == pytest.approx(1, rel=1e-14)


def test_a_whole_noise_far_from_clamping_has_the_closed_form() -> None:
    """One report, padding 60: δ at total E is 1 - (φ^(t+1) + e^E φ^(d-t))/(1+φ), t = ⌊(d -
    E/ε)/2⌋."""
    rate, distance, total = Fraction(3, 4), 4, 1.3
    report = oracle.noisy_report(4, 60, oracle.laplace_noise(rate, 65))
    pairs = oracle.sum_pairs(report, [{0: 0}], [(0, distance)])
    ratio, last = math.exp(-0.75), math.floor((distance - total / 0.75) / 2)
    exact = 1 - (ratio ** (last + 1) + math.exp(total) * ratio ** (distance - last)) / (1 + ratio)
    assert oracle.worst_delta(pairs, total, metric=False) == pytest.approx(exact, rel=1e-12)
    assert oracle.worst_delta(pairs, total / distance, metric=True) == pytest.approx(
        exact, rel=1e-12
    )
    assert oracle.worst_epsilon(pairs, exact, metric=True) == pytest.approx(
        total / distance, rel=1e-9
    )


def test_randomised_bits_are_two_binomials() -> None:
    flip, ones, zeros = Fraction(1, 5), 2, 3
    report = oracle.bits_report(5, flip)
    exact = [
        sum(
            math.comb(ones, kept)
            * 0.8**kept
            * 0.2 ** (ones - kept)
            * math.comb(zeros, total - kept)
            * 0.2 ** (total - kept)
            * 0.8 ** (zeros - total + kept)
            for kept in range(max(0, total - zeros), min(ones, total) + 1)
        )
        for total in range(6)
    ]
    assert [float(chance) for chance in report(2)] == pytest.approx(exact, rel=1e-13)
    assert float(report(2).sum()) == pytest.approx(1, rel=1e-15)


def test_a_report_is_clamped_at_both_ends_and_loses_nothing() -> None:
    report = oracle.noisy_report(3, 1, oracle.laplace_noise(HALF, 10))
    for value in range(4):
        assert float(report(value).sum()) == pytest.approx(1, rel=1e-14)
        assert np.array_equal(report(value), report(3 - value)[::-1])


def test_a_certificate_that_counts_users_who_are_not_there_is_found_out() -> None:
    spec, setting = KRRHistogram(symbols=4, blanket=Fraction(1, 2)), Setting(users=40, honest=40)
    pairs = oracle.local_pairs(oracle.krr_rows(4, spec.blanket), 30, [(0, 1)], [{2: 29}])
    verdict = judge(Case("krr-histogram", spec, setting, 1e-6, None, pairs, complete=True))
    assert any("is below the exact" in violation for violation in verdict.violations)


@pytest.mark.parametrize("kind", KINDS)
def test_certified_exact_and_attained_are_in_order_on_drawn_cases(kind: str) -> None:
    """Two cases of each kind; `make fuzz` draws thousands, some of which take a minute."""
    first = KINDS.index(kind)
    verdicts = run(7, [first, first + len(KINDS)], math.inf)
    assert not [violation for verdict in verdicts for violation in verdict.violations]
    assert kind in table(verdicts)


@pytest.mark.parametrize("kind", KINDS)
def test_certified_exact_and_attained_are_in_order_on_an_extreme_case(kind: str) -> None:
    verdicts = run(11, [KINDS.index(kind)], math.inf, extreme=True)
    assert not [violation for verdict in verdicts for violation in verdict.violations]


def test_every_mechanism_is_drawn() -> None:
    assert set(MECHANISMS) <= set(KINDS)


def test_as_many_shares_as_users_are_one_noise_that_wraps_around_the_modulus() -> None:
    """Discrete Laplace, summed over all that is the same modulo 17; moved by the distance."""
    law = np.zeros(17)
    for m in range(-300, 301):
        law[m % 17] += math.tanh(0.25) * math.exp(-abs(m) / 2)
    (pair,) = oracle.modular_pairs(oracle.share_noise(HALF, 5, 3), 5, 17, [3])
    start = int(np.argmax(pair.one))
    assert [float(p) for p in np.roll(pair.one, -start)] == pytest.approx(law.tolist(), rel=1e-12)
    assert np.array_equal(np.roll(pair.one, 3), pair.other)


@pytest.mark.parametrize("symbols", [2, 3, 4, 9])
def test_every_index_of_the_hadamard_response_is_counted_once(symbols: int) -> None:
    blanket = Fraction(1, 3)
    for row in oracle.hadamard_rows(symbols, blanket):
        assert sum(row) == 1
    # Between two symbols a quarter of the indices tells them apart in either direction.
    one, other = oracle.hadamard_rows(symbols, blanket)[:2]
    assert (
        sum(max(a - b, Fraction(0)) for a, b in zip(one, other, strict=True)) == (1 - blanket) / 2
    )
