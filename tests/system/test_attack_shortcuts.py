"""The attacks that need no running system: each works where its defence is missing, and only there.

False alarms. Every interval has a confidence of 1 - 1e-9, so that a true claim is found broken with
probability 1e-9 at most. That a false claim is found broken is argued at each fixture: with N
trials in the measuring half, the counts are taken at their worst quantiles of 1e-10,
Clopper-Pearson's bounds at 5e-10 a side are put on them, and the ε they prove is still above the
claim. The laws are the exact ones of the mechanisms.

Time: about 25 s of CPU, spread over the cores; half of it is rounds that a node's own code plays.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from inspect import signature
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shuffledp.cli import app as command
from shuffledp_adversary.attacks.average import average_chart, run_average
from shuffledp_adversary.attacks.dropout import dropout_chart, run_dropout
from shuffledp_adversary.attacks.findings import AttackReport, ClaimVerdict, Finding
from shuffledp_adversary.attacks.flood import flood_chart, run_flood
from shuffledp_adversary.attacks.installed import attack_named
from shuffledp_adversary.attacks.length import run_length
from shuffledp_adversary.attacks.outlier import run_outlier
from shuffledp_adversary.attacks.picture import draw_chart
from shuffledp_adversary.evidence import DEFAULT_CONFIDENCE
from shuffledp_core.errors import ConfigError, UsageError

SURE = 1 - 1e-9


@pytest.fixture(scope="module")
def flood() -> AttackReport:
    """N = 1000. At δ = 1e-4 the dummies of a node are two thirds of those at 1e-6.

    A k-RR report is the victim's symbol with probability .571, another given one with .048.

    472 and 96 at worst prove .83, the claim is .2999. Geo-Shuffle: of two values 20 apart, noise
    of 10 or more has probability .0007; 989 and 11 at worst prove 3.04, the claim is 1.

    A node without noise: the views of the two datasets are disjoint. N = 75 rounds that show an
    event always or never prove 1.1, the claim is 1. Nodes that add up digits:
    `test_noise_attack.py`."""
    return run_flood(delta=1e-4, trials=2000, played=150, confidence=SURE)


@pytest.fixture(scope="module")
def length() -> AttackReport:
    """N = 200, claim 1.

    As for the flood: noise of 10 or more, half of the way, has probability .0007.

    193 and 7 at worst prove 1.52 for a threshold in the middle. If the threshold is the largest
    length of the first half, new ones exceed it by a geometric law, at most 30 times of 200; with 8
    on the wrong side that proves 1.25."""
    return run_length(delta=1e-4, trials=400, confidence=SURE)


@pytest.fixture(scope="module")
def average() -> AttackReport:
    """Small round: N = 500, claim .773. The totals of 100 days are 2.58 standard deviations apart.

    Above 1.9 of them lie .752 and .029 of the rounds: 312 and 45 at worst prove .94; thresholds
    from 1.6 to 2.2 .88. RAPPOR: N = 3000, claim 1.022. The kept bits differ the right way with
    probability .5625, the wrong way with .0625: 1514 and 278 at worst prove 1.24. A majority of 100
    fresh answers is wrong for fewer than one user in a million."""
    return run_average(trials=1000, confidence=SURE)


@pytest.fixture(scope="module")
def dropout() -> AttackReport:
    """N = 1400, claim .25.

    A quarter of the shares has the law SGDL(1/4, e^-.25): .495 at 0 and .104 at 1.

    574 and 223 at worst prove .38. For a half N = 10,000 would be needed to be as sure, so its
    bound is not asserted."""
    return run_dropout(trials=2800, confidence=SURE)


def finding(report: AttackReport, scenario: str, source: str = "") -> Finding:
    """The only finding with these words in its scenario and its claim."""
    (found,) = (
        one for one in report.findings if scenario in one.scenario and source in one.claim.source
    )
    return found


def test_a_flooded_user_keeps_less_than_the_certificate_that_counts_everybody(
    flood: AttackReport,
) -> None:
    assert flood.succeeded_undefended
    assert finding(flood, "krr-histogram", "counts 1000").claim.value < 0.3


def test_a_certificate_that_counts_the_honest_users_holds_in_a_flood(flood: AttackReport) -> None:
    assert flood.defence_held
    allowed = finding(flood, "the plan allows for 900 colluding users")
    assert allowed.claim.source == "certificate that counts 100 honest"
    assert (
        0.3 < allowed.claim.value < finding(flood, "krr-histogram", "counts 1 honest").claim.value
    )


def test_a_policy_on_what_is_left_refuses_the_round_that_a_flood_would_lay_bare(
    flood: AttackReport,
) -> None:
    bare, hidden = (
        finding(flood, "geo-shuffle", "policy"),
        finding(flood, "krr-histogram", "policy"),
    )
    assert "your policy allows" in bare.note
    assert bare.measured == 0
    assert hidden.note == "takes part"


def test_one_honest_node_protects_a_flooded_user_and_a_node_without_noise_does_not(
    flood: AttackReport,
) -> None:
    hidden = finding(flood, "collude, the other is honest")
    assert hidden.claim.value <= 1
    assert hidden.verdict is ClaimVerdict.HOLDS
    for words in ("adds dummies without noise", "adds no dummies"):
        assert finding(flood, words).low > 1


def test_fewer_honest_users_are_certified_a_larger_epsilon(flood: AttackReport) -> None:
    certified = [one["epsilon"] for one in flood.details["curve"]["certified"]]
    assert certified == sorted(certified, reverse=True)
    assert certified[0] > 5 * certified[-1]


def test_lengths_give_every_answer_away_when_only_ones_are_sent(length: AttackReport) -> None:
    assert length.succeeded_undefended
    assert finding(length, "only the ones", "guessing").measured == 1


def test_every_envelope_of_a_suite_has_one_length_whatever_the_value(length: AttackReport) -> None:
    assert length.defence_held
    assert [len(found) for found in length.details["envelope_bytes"].values()] == [1, 1, 1]


def test_the_same_question_every_day_costs_more_than_one_day(average: AttackReport) -> None:
    assert average.succeeded_undefended


def test_the_composed_epsilon_the_ledgers_budget_and_the_kept_answer_hold(
    average: AttackReport,
) -> None:
    assert average.defence_held


def test_the_ledger_refuses_the_day_that_overspends(average: AttackReport) -> None:
    days = average.details["days_within_budget"]
    assert 1 < days < 100
    assert f"day {days + 1} is refused" in finding(average, f"totals of {days} days").note


def test_a_plan_for_everybody_fails_when_a_quarter_stays(dropout: AttackReport) -> None:
    assert finding(dropout, "10 of 40", "of the plan").verdict is ClaimVerdict.BROKEN


def test_the_final_certificate_and_a_careful_plan_hold_for_those_who_stay(
    dropout: AttackReport,
) -> None:
    assert dropout.defence_held
    assert finding(dropout, "the plan was made for 20").claim.value <= 0.25


def test_the_curves_are_drawn(
    flood: AttackReport, average: AttackReport, dropout: AttackReport, tmp_path: Path
) -> None:
    for report, chart in ((flood, flood_chart), (average, average_chart), (dropout, dropout_chart)):
        file = tmp_path / f"{report.attack}.png"
        draw_chart(chart(report), file)
        assert file.read_bytes().startswith(b"\x89PNG")


def test_a_picture_that_cannot_be_written_is_a_typed_error(
    dropout: AttackReport, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="cannot write the plot"):
        draw_chart(dropout_chart(dropout), tmp_path / "missing" / "dropout.png")


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (lambda: run_outlier(users=1), "users must be at least 2"),
        (lambda: run_average(users=1), "users must be at least 2"),
        (lambda: run_outlier(max_value=1), "max-value must be at least 2"),
        (lambda: run_flood(users=5), "users must be at least 10"),
        (lambda: run_length(trials=3), "trials must be at least 20"),
        (lambda: run_average(days=5), "days must be at least 10"),
        (lambda: run_average(budget=0.1), "budget must be at least one day"),
        (lambda: run_dropout(users=30), "users must be a multiple of 8"),
        (lambda: run_dropout(confidence=1.0), "confidence must be above 0 and below 1"),
    ],
)
def test_an_option_out_of_range_is_a_typed_error(
    run: Callable[[], AttackReport], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        run()


def test_the_command_prints_one_json_report() -> None:
    done = CliRunner().invoke(
        command, ["attack", "dropout", "--users", "8", "--trials", "100", "--format", "json"]
    )
    report = json.loads(done.stdout)
    assert report["attack"] == "dropout"
    assert {one["verdict"] for one in report["findings"]} <= {"broken", "holds"}


def test_the_command_refuses_a_plot_without_a_known_ending_before_it_works(tmp_path: Path) -> None:
    done = CliRunner().invoke(command, ["attack", "flood", "--plot", str(tmp_path / "flood.txt")])
    assert isinstance(done.exception, UsageError)


@pytest.mark.parametrize("group", ["attack", "audit"])
def test_an_unknown_name_is_refused_with_those_that_there_are(group: str) -> None:
    done = CliRunner().invoke(command, [group, "nosuch"])
    assert isinstance(done.exception, UsageError)
    assert re.fullmatch(r"no command 'nosuch'; choose one of [a-z, -]+", str(done.exception))


def test_every_attack_is_listed_with_what_it_does_and_takes_the_options_that_it_names() -> None:
    done = CliRunner().invoke(command, ["attack", "list", "--format", "json"])
    listed = json.loads(done.stdout)
    assert set(listed) >= {
        "average",
        "dropout",
        "exchange",
        "flood",
        "length",
        "outlier",
        "poison",
        "printed",
        "spoil",
        "trace",
    }
    for name, summary in listed.items():
        attack = attack_named(name)
        assert attack is not None
        assert attack.summary == summary
        parameters = signature(attack.run).parameters
        assert set(attack.options) <= set(parameters)
        assert parameters["confidence"].default == DEFAULT_CONFIDENCE


@pytest.mark.parametrize(
    "name", ["findings", "installed", "exchange.attack", "../flood", "", "list", "nosuch"]
)
def test_what_is_no_attack_is_none(name: str) -> None:
    assert attack_named(name) is None
