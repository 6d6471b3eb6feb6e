"""The lecture's claims drawn again, and RAPPOR's sampler and decoding against their exact laws."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict

import numpy as np
import pytest
from quick_results import QuickResults
from scipy import stats

from shuffledp_core.errors import UsageError
from shuffledp_experiments.entry import Experiment, Kind, Results
from shuffledp_experiments.lecture import ENTRIES
from shuffledp_experiments.lecture.averaging import majority, right_by_blurred, set_bits_tail
from shuffledp_experiments.lecture.means import exact_agreement, largest_local, report_bits
from shuffledp_experiments.lecture.rappor import (
    Chances,
    RapporClients,
    bit_shares,
    decode,
    filters,
    log_ratio,
    pair_epsilon,
    usual_penalty,
)
from shuffledp_privacy.bounds import Setting, epsilon_bounds
from shuffledp_privacy.local.clones import LocalRandomiser
from shuffledp_privacy.local.rappor import RapporPermanent, RapporReport, rappor_epsilon

RAPPOR = Chances(0.5, 0.25, 0.75)

RARE = 1e-10
"""False-alarm rate of each statistical comparison here; there are fewer than ten."""


@pytest.fixture(scope="module")
def results() -> dict[str, Results]:
    return QuickResults()


def test_every_table_of_the_lecture_is_there() -> None:
    assert [entry.id for entry in ENTRIES] == [f"003-e{number}" for number in (1, 3, 4, 5, 6, 7, 8)]
    assert ENTRIES[0].aliases == ("003-e2",)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.id)
def test_the_stated_verdicts_come_out_and_the_picture_is_drawn(
    results: dict[str, Results], entry: Experiment
) -> None:
    assert {claim.verdict for claim in results[entry.id].claims} == set(entry.verdicts)
    assert entry.draw(results[entry.id]).axes


def test_certified_is_never_below_what_is_attained(results: dict[str, Results]) -> None:
    pairs = 0
    for entry in ENTRIES:
        outcome = results[entry.id]
        places: dict[object, dict[Kind, list[float]]] = defaultdict(lambda: defaultdict(list))
        for row in outcome.rows:
            point = (row.x, row.y_name, tuple(sorted(row.settings.items(), key=str)))
            places[point][row.kind].append(row.y)
        for kinds in places.values():
            for certified, attained in itertools.product(
                kinds[Kind.CERTIFIED], kinds[Kind.ATTAINED]
            ):
                pairs += 1
                assert not certified < attained
    assert pairs > 10


def test_measured_guesses_and_errors_agree_with_their_laws(results: dict[str, Results]) -> None:
    exact = dict(
        zip(*results["003-e4"].series("RAPPOR: memoised and blurred, right guesses"), strict=True)
    )
    for row in results["003-e4"].rows:
        if row.series == "RAPPOR, measured":
            users = 2000
            right = round(row.y * users)
            assert stats.binomtest(right, users, exact[row.x]).pvalue > RARE


def test_the_clients_sampler_agrees_and_is_asked_only_on_request(
    results: dict[str, Results],
) -> None:
    entry = ENTRIES[0]
    assert not results[entry.id].notes
    assert "sampler agrees" in exact_agreement(entry.work(quick=True, exact_sampler=True))


# The sampler


def test_a_kept_response_stays_and_reports_are_blurred_afresh() -> None:
    users, bits = 300, 64
    values = np.arange(users, dtype=np.int64) % 2
    clients = RapporClients(
        RAPPOR, filters(["a", "b"], bits, 2), np.zeros(users, dtype=np.int64),
        np.random.default_rng(5)
    )  # fmt: skip
    everyone = np.arange(users)
    first, second = clients.reports(values), clients.reports(values)
    permanent = clients.permanent(0, everyone)
    assert (first != second).any()
    assert (clients.permanent(0, everyone) == permanent).all()
    assert (clients.permanent(0, everyone[::-1]) == permanent[::-1]).all()
    # Who changes her value gets another response, and the old one again when she comes back.
    clients.reports(1 - values)
    clients.reports(values)
    assert (clients.permanent(0, everyone) == permanent).all()
    assert (clients.permanent(1, everyone) != permanent).any()


@pytest.mark.parametrize("bit", [False, True])
def test_two_days_of_a_bit_have_the_exact_joint_law(bit: bool) -> None:  # noqa: FBT001 - the case
    users = 40_000
    clients = RapporClients(
        RAPPOR, np.array([[[bit]]]), np.zeros(users, dtype=np.int64), np.random.default_rng(7)
    )  # fmt: skip
    values = np.zeros(users, dtype=np.int64)
    first, second = clients.reports(values)[:, 0], clients.reports(values)[:, 0]
    permanent = clients.permanent(0, np.arange(users))[:, 0]
    counts = np.bincount(4 * permanent + 2 * first + second, minlength=8)
    high = 0.75 if bit else 0.25
    expected = [
        (high if b else 1 - high)
        * math.prod((0.75 if b else 0.25) if day else (0.25 if b else 0.75) for day in days)
        for b in (0, 1)
        for days in itertools.product((0, 1), repeat=2)
    ]
    assert stats.chisquare(counts, users * np.array(expected)).pvalue > RARE


def test_shares_of_bits_are_unbiased() -> None:
    users, bits = 20_000, 32
    generator = np.random.default_rng(11)
    candidates = filters(["a", "b", "c"], bits, 3, 2)
    groups = generator.integers(2, size=users)
    values = generator.integers(3, size=users)
    shares = bit_shares(
        RAPPOR, RapporClients(RAPPOR, candidates, groups, generator).reports(values), groups, 2
    )
    low, high = RAPPOR.report_chances
    for group in range(2):
        true = candidates[group, values[groups == group]].mean(axis=0)
        size = int((groups == group).sum())
        chance = true * high + (1 - true) * low
        # Given the true bits the number of ones has this variance, or a smaller one.
        deviation = np.sqrt(chance * (1 - chance) / size) / (high - low)
        assert (np.abs(shares[group] - true) < stats.norm.isf(RARE / 200) * deviation).all()


def test_a_cohort_that_nobody_is_in_is_refused() -> None:
    with pytest.raises(UsageError, match="cohort 1 has no reports"):
        bit_shares(RAPPOR, np.zeros((3, 4), dtype=bool), np.zeros(3, dtype=np.int64), 2)


# Decoding


def test_noiseless_shares_are_decoded_exactly() -> None:
    candidates = filters([f"s{index}" for index in range(12)], 64, 3, 2)
    true = np.array([0.5, 0.3, 0.2, *[0.0] * 9])
    shares = (candidates * true[:, np.newaxis]).sum(axis=1)
    assert decode(shares, candidates).tolist() == pytest.approx(true.tolist(), abs=1e-12)
    # A small penalty selects the same strings, and what is selected is not shrunk.
    assert decode(shares, candidates, 0.05).tolist() == pytest.approx(true.tolist(), abs=1e-12)


def test_what_is_selected_satisfies_the_lassos_conditions() -> None:
    generator = np.random.default_rng(3)
    candidates = filters([f"s{index}" for index in range(20)], 64, 3, 2)
    shares, penalty = generator.normal(0.05, 0.1, (2, 64)), 0.3
    design = candidates.transpose(0, 2, 1).reshape(-1, 20).astype(float)
    # Coordinate descent: a second algorithm, whose support must be the decoding's.
    weights = np.zeros(20)
    for _ in range(3000):
        for index in range(20):
            column = design[:, index]
            rest = shares.ravel() - design @ weights + column * weights[index]
            weights[index] = max(0.0, (column @ rest - penalty) / (column @ column))
    selected = decode(shares, candidates, penalty) > 0
    assert 0 < selected.sum() < 20
    assert not (selected & (weights < 1e-9)).any()


def test_filters_that_do_not_tell_the_candidates_apart_are_refused() -> None:
    with pytest.raises(UsageError, match="more bits or cohorts"):
        decode(np.zeros((1, 4)), filters(["a", "b", "c", "d", "e"], 4, 1))


def test_the_usual_penalty_falls_with_users() -> None:
    candidates = filters(["a", "b"], 64, 2, 2)
    assert usual_penalty(RAPPOR, 400, candidates) == pytest.approx(
        2 * usual_penalty(RAPPOR, 1600, candidates)
    )


# Exact numbers


@pytest.mark.parametrize("days", [1, 2, 3])
def test_the_epsilon_of_several_reports_is_the_largest_log_ratio(days: int) -> None:
    def chance(answers: tuple[int, ...], bit: int) -> float:
        return sum(
            (0.75 if kept == bit else 0.25)
            * math.prod(
                (0.75 if kept else 0.25) if a else (0.25 if kept else 0.75) for a in answers
            )
            for kept in (0, 1)
        )

    ratios = [chance(a, 1) / chance(a, 0) for a in itertools.product((0, 1), repeat=days)]
    assert log_ratio(RAPPOR, days) == pytest.approx(math.log(max(ratios)))
    assert pair_epsilon(RAPPOR, 4, days) == pytest.approx(
        4 * (math.log(max(ratios)) - math.log(min(ratios)))
    )


def test_one_report_and_all_reports_cost_what_the_accountant_says() -> None:
    assert pair_epsilon(RAPPOR, 4, 1) == pytest.approx(
        rappor_epsilon(RapporReport(4, 0.5, 0.25, 0.75))
    )
    assert pair_epsilon(RAPPOR, 4, 500) == pytest.approx(rappor_epsilon(RapporPermanent(4, 0.5)))


@pytest.mark.parametrize("days", [1, 4, 7])
def test_guesses_are_right_as_often_as_enumeration_says(days: int) -> None:
    right_fresh = right_kept = 0.0
    for answers in itertools.product((0, 1), repeat=days):
        laws = [
            math.prod(t if a == bit else 1 - t for a in answers)
            for bit, t in ((0, 0.75), (1, 0.75))
        ]
        right_fresh += max(laws) / 2
        blur = [math.prod((0.75 if a == bit else 0.25) for a in answers) for bit in (0, 1)]
        mixed = [0.75 * blur[0] + 0.25 * blur[1], 0.25 * blur[0] + 0.75 * blur[1]]
        right_kept += max(mixed) / 2
    assert majority(0.75, days) == pytest.approx(right_fresh)
    assert right_by_blurred(RAPPOR, days) == pytest.approx(right_kept)


def test_the_tail_of_set_bits_is_the_convolutions() -> None:
    low, high = RAPPOR.report_chances
    law = np.ones(1)
    for chance in [high] * 4 + [low] * 60:
        law = np.convolve(law, [1 - chance, chance])
    assert set_bits_tail(RAPPOR, 64, 4, 35) == pytest.approx(law[35:].sum(), rel=1e-9)


def test_the_bits_of_a_rounded_laplace_report_are_its_entropy() -> None:
    scale = 50 / 2.0
    places = np.arange(-4000, 4001)
    masses = np.diff(stats.laplace.cdf(np.append(places - 0.5, 4000.5), scale=scale))
    masses = masses[masses > 0]
    assert report_bits(2.0, 50) == pytest.approx(float(-(masses * np.log2(masses)).sum()), rel=1e-6)


def test_the_weakest_local_noise_meets_its_target() -> None:
    proved, attained = largest_local(0.3, 1e-6, 1000)
    bounds = epsilon_bounds(LocalRandomiser(proved), Setting(1000, 1000), 1e-6)
    assert bounds.certified == pytest.approx(0.3, rel=5e-3)
    assert attained >= proved
