"""What every registered mechanism must be, checked for every one that is installed, ours or another
package's.

Sampler, estimator, bounds on both sides, calibration, the code of its messages, what a trace
guesses by, audit and command line. A whole round over real processes and the trace of one:
`test_whole_rounds`, `test_corrupt_rounds`, for every mechanism too. Nothing is known of a mechanism
here but what its class and the accountant say, so that they are held against each other: the
sampler and the estimate against the registered law of answers, the bounds against brute force with
that law over all datasets of two users. `tests/client/test_sampling`, `tests/core/test_estimation`
and `tests/system/test_likelihoods` hold ours against independent computations.

False alarms: a chi-square test at 1e-12 with at least 100 expected in every cell is off by a factor
below 10^4 (see test_sampling for the factor), two of them a mechanism; the audit's claim is broken
with probability 1e-9 at most."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import cache

import numpy as np
import pytest
from commands import Shell
from msgspec import structs
from numpy.typing import NDArray
from scipy.stats import chi2

from shuffledp.commands.asking import options_of
from shuffledp.plans import Plan
from shuffledp_adversary.audit.audit import Effort, audit
from shuffledp_adversary.tracing.likelihood import guess_values, log_likelihood
from shuffledp_client.encoding import symbols
from shuffledp_core.answering.estimation import estimate
from shuffledp_core.mechanisms import (
    MECHANISMS,
    Answers,
    BloomRappor,
    Mechanism,
    Spec,
    SumSpec,
)
from shuffledp_core.sampling.arrays import RandomArrays
from shuffledp_core.sampling.randomisers import randomise
from shuffledp_core.sampling.randomness import RandomIntegers
from shuffledp_privacy.bounds import (
    Setting,
    certified_curve,
    corrupted_bounds,
    delta_bounds,
    standard_error,
)
from shuffledp_privacy.calibration.calibrate import Target, calibrate
from shuffledp_privacy.calibration.target import certified_epsilon_of

USERS = 12
TARGET = Target(3.0, 1e-2, users=USERS, honest=USERS, max_value=3)
DRAWS = 5000
FEWEST = 100
SURE = 1 - 1e-9

KINDS = pytest.mark.parametrize("kind", MECHANISMS)

WITH_DUMMIES = [kind for kind, spec in MECHANISMS.items() if spec.count_sent is not Spec.count_sent]
"""Those whose users send messages beside their answers: an answer alone is not what they send."""

ANSWERS_ALONE = pytest.mark.parametrize("kind", [k for k in MECHANISMS if k not in WITH_DUMMIES])

NOISY_ANSWERS = pytest.mark.parametrize(
    "kind", [k for k in MECHANISMS if k not in WITH_DUMMIES and MECHANISMS[k].needs_crowd]
)
"""Those whose answers alone are seen; what nodes add is enumerated in
`tests/privacy/test_node_noise.py`.
"""


@cache
def calibrated(kind: str) -> Mechanism:
    spec = calibrate(kind, TARGET)
    if isinstance(spec, BloomRappor):
        # Its certificate does not depend on these (K17), and few reports can be enumerated.
        spec = structs.replace(spec, bits=5, cohorts=4)
    return spec


@cache
def answers_of(kind: str) -> NDArray[np.int64]:
    """All answers: sets of symbols of a histogram, numbers from 0 of a sum."""
    spec = calibrated(kind)
    if spec.answers is Answers.SUM:
        return np.arange(largest_answer(spec) + 1)
    if kind in WITH_DUMMIES or not spec.needs_crowd:
        return np.arange(spec.domain)
    sets = itertools.combinations(range(spec.alphabet), spec.messages_per_user)
    return np.array([int(spec.weigh(np.array(said)).sum()) for said in sets])


def largest_answer(spec: Mechanism) -> int:
    assert isinstance(spec, SumSpec)
    return spec.largest_answer


@cache
def law_of(kind: str) -> NDArray[np.float64]:
    """P(answer | value), shape (answers, domain)."""
    return np.asarray(np.exp(log_likelihood(calibrated(kind), answers_of(kind))))


@ANSWERS_ALONE
def test_an_answer_is_said_by_as_many_symbols_as_any_other_and_is_the_sum_of_their_weights(
    kind: str,
) -> None:
    spec, answers = calibrated(kind), answers_of(kind)
    said = [symbols(spec, answer) for answer in answers.tolist()]
    assert spec.read_answers(np.array(said)).tolist() == answers.tolist()
    counts = spec.count(answers[:, np.newaxis])
    assert counts.shape == (len(answers), spec.cells)
    assert counts.tolist() == [spec.counts_of(np.array(one)).tolist() for one in said]
    together = np.array([symbol for one in said for symbol in one])
    assert spec.count(answers[np.newaxis, :]).tolist() == [spec.counts_of(together).tolist()]
    assert spec.messages_of(spec.counts_of(together)) == len(together)
    values = np.array([0, 2, 2, 3])
    truth = [1, 0, 2, 1] if spec.answers is Answers.HISTOGRAM else [7]
    assert spec.truth(values).tolist() == truth


@pytest.mark.parametrize("kind", WITH_DUMMIES)
def test_an_answer_with_dummies_is_said_by_as_many_symbols_as_any_other(kind: str) -> None:
    spec = calibrated(kind)
    answers = answers_of(kind)
    messages = [symbols(spec, answer) for answer in answers.tolist()]
    assert all(answer in row for answer, row in zip(answers.tolist(), messages, strict=True))
    alone = [spec.encode(answer) for answer in answers.tolist()]
    assert spec.read_answers(np.array(alone)).tolist() == answers.tolist()
    counts = spec.count(answers[:, np.newaxis])
    assert counts.tolist() == [spec.counts_of(np.array(row)).tolist() for row in alone]
    sent = spec.count_sent(answers[np.newaxis, :], RandomArrays())
    assert spec.messages_of(sent[0]) == len(answers) * spec.messages_per_user
    assert sent.shape == (1, spec.cells)


@KINDS
def test_the_sampler_follows_the_registered_law(kind: str) -> None:
    spec, law, integers = calibrated(kind), law_of(kind), RandomIntegers()
    assert law.sum(axis=0) == pytest.approx(np.ones(spec.domain), abs=1e-9)
    for value in (0, spec.domain - 1):
        seen = Counter(randomise(spec, value, integers) for _ in range(DRAWS))
        assert set(seen) <= set(answers_of(kind).tolist())
        expected = law[:, value] * DRAWS
        found = np.array([seen[answer] for answer in answers_of(kind).tolist()])
        large = expected >= FEWEST
        cells = [(found[large], expected[large]), (found[~large].sum(), expected[~large].sum())]
        assert large.any()
        used = [cells[0]] + ([cells[1]] if cells[1][1] >= FEWEST else [])
        statistic = sum(float(np.sum((one - mean) ** 2 / mean)) for one, mean in used)
        assert statistic <= chi2.isf(1e-12, max(1, int(large.sum()) + len(used) - 2))


@ANSWERS_ALONE
def test_the_estimate_is_the_truth_in_expectation(kind: str) -> None:
    """Of one user, for every value: estimates are linear in the counts.

    Clamping is allowed its δ and no more.
    """
    spec = calibrated(kind)
    counts = spec.count(answers_of(kind)[:, np.newaxis])
    estimates = np.array([estimate(spec, row, 1).values for row in counts])
    wanted = [spec.truth(np.array([value])) for value in range(spec.domain)]
    assert law_of(kind).T @ estimates == pytest.approx(np.array(wanted), abs=TARGET.delta)


def exact_delta(first: NDArray[np.float64], second: NDArray[np.float64], epsilon: float) -> float:
    return float(np.maximum(first - np.exp(epsilon) * second, 0.0).sum())


@cache
def boards(kind: str) -> dict[tuple[int, int], NDArray[np.float64]]:
    """The law of what two users' shuffled messages show, by their values: of one message each,
    which ones they are."""
    law, answers = law_of(kind), answers_of(kind)
    pairs = np.stack(np.meshgrid(answers, answers, indexing="ij"), axis=-1).reshape(-1, 2)
    alone = calibrated(kind).messages_per_user == 1
    seen = np.sort(pairs, axis=-1) if alone else calibrated(kind).count(pairs)
    _, place = np.unique(seen, axis=0, return_inverse=True)
    domain = range(law.shape[1])
    return {
        (one, other): np.bincount(
            place.ravel(), weights=np.outer(law[:, one], law[:, other]).ravel()
        ).astype(float)
        for one in domain
        for other in domain
    }


def worst_delta(kind: str, epsilon: float) -> float:
    """δ of two users by brute force: one changes its value in any way, the other holds any
    value."""
    found, domain = boards(kind), range(calibrated(kind).domain)
    changes = itertools.permutations(domain, 2)
    return max(exact_delta(found[a, z], found[b, z], epsilon) for a, b in changes for z in domain)


@NOISY_ANSWERS
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.5])
def test_the_bounds_hold_the_truth_between_them(kind: str, epsilon: float) -> None:
    spec, truth = calibrated(kind), worst_delta(kind, epsilon)
    bounds = delta_bounds(spec, Setting(2, 2), epsilon)
    assert bounds.attained * (1 - 1e-9) - 1e-12 <= truth <= bounds.certified * (1 + 1e-9) + 1e-12
    assert bounds.basis
    distances = range(1, spec.domain)
    curves = [
        certified_curve(spec, Setting(2, 2), distance, np.array([epsilon]))
        for distance in distances
    ]
    assert truth <= max(float(curve[0]) for curve in curves) * (1 + 1e-9) + 1e-12


@NOISY_ANSWERS
def test_one_user_alone_keeps_what_is_certified_for_all_nodes_corrupt(kind: str) -> None:
    spec, law = calibrated(kind), law_of(kind)
    left = corrupted_bounds(spec, Setting(USERS, USERS), TARGET.delta)
    if math.isinf(left.epsilon):
        return
    pairs = itertools.permutations(range(spec.domain), 2)
    worst = max(exact_delta(law[:, a], law[:, b], left.epsilon) for a, b in pairs)
    assert worst <= left.delta * (1 + 1e-9) + 1e-9


@KINDS
def test_calibration_meets_its_target_and_leaves_information(kind: str) -> None:
    spec = calibrated(kind)
    assert spec.domain == 4
    assert spec.size == spec.size_for(3)
    assert 0 < certified_epsilon_of(spec, TARGET) <= TARGET.epsilon
    assert 0 < standard_error(spec, USERS) < np.inf


@KINDS
def test_what_is_guessed_is_the_likeliest_value(kind: str) -> None:
    prior = np.array([4.0, 3.0, 2.0, 1.0])
    guesses = guess_values(calibrated(kind), answers_of(kind), prior)
    weighed = law_of(kind) * prior
    assert weighed[np.arange(len(guesses)), guesses] == pytest.approx(weighed.max(axis=1), rel=1e-9)


@KINDS
def test_an_audit_contradicts_nothing(kind: str, pool: ProcessPoolExecutor) -> None:
    asked = Plan(calibrated(kind), Setting(USERS, USERS), TARGET.delta)
    report = audit(asked, Effort(400, SURE), pool)
    assert not report.broken
    assert report.claimed is not None
    assert report.bound.trials == 400


def written(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


@KINDS
def test_the_command_line_knows_it(kind: str, shuffledp: Shell) -> None:
    spec = calibrated(kind)
    options = {
        option.name: getattr(spec, option.name)
        for option in options_of(kind)
        if option.name in spec.__struct_fields__
    }
    told = [
        word
        for name, value in options.items()
        for word in (f"--{name.replace('_', '-')}", written(value))
    ]
    code, out, _ = shuffledp("certify", kind, *told, "--users", "12", "--delta", "0.01")
    assert code == 0
    assert f"{kind}: " in out
    code, out, _ = shuffledp("audit", "--help")
    assert (code, kind in out) == (0, True)
