"""Users who lie: what they move in real rounds, against the bound that each result states.

One run of the command serves the tests that look at it; they are slow. What it asserts of the
distance to honest answers fails by chance with probability below 14e-9: the confidence of each
interval is 0.999999999."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from shuffledp_adversary.attacks.findings import ClaimVerdict
from shuffledp_adversary.attacks.poison import (
    PoisonedRound,
    extreme_lies,
    findings_of,
    run_poison,
)
from shuffledp_core.answering.bloom import decoder_of
from shuffledp_core.answering.estimates import Present
from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import (
    MECHANISMS,
    BloomRappor,
    HadamardHistogram,
    KRRHistogram,
    RapporHistogram,
    RRShuffle,
    SplitMix,
)

CONFIDENCE = 0.999999999


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    command = [sys.executable, "-m", "shuffledp.cli", "attack", "poison", "--format", "json"]
    done = subprocess.run(
        [*command, "--confidence", str(CONFIDENCE)],
        capture_output=True,
        text=True,
        timeout=840,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.mark.slow
def test_liars_reach_half_of_the_bound_of_every_mechanism_and_never_pass_it(
    report: dict[str, Any],
) -> None:
    rounds = {played["mechanism"]: played for played in report["details"]["rounds"]}
    assert set(rounds) == set(MECHANISMS)
    for played in rounds.values():
        assert played["bound"] / 2 - 1e-9 <= played["moved"] <= played["bound"] * (1 + 1e-9)
        assert played["from_honest"] + played["margin"] >= played["bound"] / 2
        assert played["missed"] == 0
    assert report["defence_held"]


@pytest.mark.slow
def test_a_lie_in_a_single_message_under_noise_of_nodes_weighs_what_a_value_does(
    report: dict[str, Any],
) -> None:
    for played in report["details"]["rounds"]:
        alike = played["from_honest"] == pytest.approx(played["worth"], rel=1e-9)
        assert alike == (played["mechanism"] in {"node-histogram", "node-sum"})


# ------------------------------------------------------------------ the parts, without rounds

QUARTER, FIFTH = Fraction(1, 4), Fraction(1, 5)
ONE = Present(Fraction(1))


def test_lies_are_all_ones_against_none_for_a_sum_of_bits() -> None:
    up, down = extreme_lies(RRShuffle(max_value=3, randomise=QUARTER), 2, 10)
    assert up.tolist() == [1] * 6
    assert down.tolist() == [0] * 6


def test_lies_about_a_histogram_are_the_counted_symbol_against_another() -> None:
    up, down = extreme_lies(KRRHistogram(symbols=4, blanket=QUARTER), 3, 10)
    assert set(up.tolist()) == {0}
    assert 0 not in down.tolist()


def test_lies_about_a_symbol_of_hadamard_are_indices_inside_and_outside_its_half() -> None:
    spec = HadamardHistogram(symbols=3, blanket=QUARTER)
    up, down = extreme_lies(spec, 2, 10)
    inside = [(int(index) & 1) == 0 for index in (*up, *down)]
    assert inside in ([True] * 2 + [False] * 2, [False] * 2 + [True] * 2)


def test_lies_about_a_bloom_filter_are_the_reports_with_the_largest_and_smallest_score() -> None:
    spec = BloomRappor(symbols=4, bits=22, hashes=1, cohorts=256, fake=FIFTH)
    up, down = extreme_lies(spec, 2, 10)
    extremes = spec.extreme_messages(0)
    assert {*up.tolist(), *down.tolist()} == {*extremes}
    scores = [spec.estimate(spec.counts_of(np.array([r])).tolist(), ONE) for r in extremes]
    moved = scores[0].values[0] - scores[1].values[0]
    assert moved == pytest.approx(decoder_of(spec.shape, spec.flip).highest[0] - lowest_of(spec))
    assert moved >= float(spec.largest_shift(1)) / 2


def lowest_of(spec: BloomRappor) -> float:
    return float(decoder_of(spec.shape, spec.flip).lowest[0])


def test_a_liar_moves_a_sum_of_pieces_by_half_of_the_modulus_whatever_the_others_send() -> None:
    spec = SplitMix(max_value=4, noise_epsilon=Fraction(5), shares=100, modulus=101, pieces=3)
    up, down = extreme_lies(spec, 1, 10)
    apart = (int(up.sum()) - int(down.sum())) % spec.modulus
    assert apart in {50, 51}
    assert isinstance(up, np.ndarray)


def test_the_first_lie_is_the_one_farther_from_honest_answers_however_these_turn_out() -> None:
    """A single honest answer of three liars has two noisy bits of three with probability .1.

    Of the 192 that they imagine, half are noisy with probability below e^-40 (Chernoff).
    """
    spec = RapporHistogram(symbols=4, fake=Fraction(1, 100), when_zero=FIFTH, when_one=1 - FIFTH)
    for _ in range(20):
        far, near = extreme_lies(spec, 3, 10)
        assert (far % 2).tolist() == [1, 1, 1]
        assert (near % 2).tolist() == [0, 0, 0]


HONEST_ROUND = PoisonedRound(
    mechanism="krr-histogram",
    liars=3,
    worth=3.0,
    bound=4.0,
    moved=4.0,
    from_honest=3.7,
    margin=0.1,
    amplified=True,
    missed=0,
)


def verdicts(played: PoisonedRound) -> list[tuple[ClaimVerdict, bool]]:
    return [(found.verdict, found.defended) for found in findings_of(played, CONFIDENCE)]


def test_lies_within_the_bound_hold_and_amplified_ones_break_what_values_are_worth() -> None:
    assert verdicts(HONEST_ROUND) == [(ClaimVerdict.HOLDS, True), (ClaimVerdict.BROKEN, False)]


def test_lies_beyond_the_bound_break_it() -> None:
    (verdict, defended), _ = verdicts(replace(HONEST_ROUND, moved=4.01))
    assert (verdict, defended) == (ClaimVerdict.BROKEN, True)


def test_a_lie_that_weighs_more_than_a_bound_allows_would_be_our_failure() -> None:
    _, (verdict, defended) = verdicts(replace(HONEST_ROUND, amplified=False))
    assert (verdict, defended) == (ClaimVerdict.BROKEN, True)


@pytest.mark.parametrize(
    "wrong", [{"liars": 0}, {"liars": 101}, {"users": 9}, {"users": 101}, {"confidence": 1.0}]
)
def test_numbers_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="liars must be from 1 to 100, users from 10 to 100"):
        run_poison(**wrong)
