"""The attack on shuffled numbers: a far value stays visible, and as bits it does not.

See test_attack_shortcuts.

False alarms: as there, a true claim is found broken with probability 1e-9 at most.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_attack_shortcuts import SURE, finding

from shuffledp_adversary.attacks.findings import AttackReport, ClaimVerdict
from shuffledp_adversary.attacks.outlier import run_outlier


@pytest.fixture(scope="module")
def outlier() -> AttackReport:
    """N = 300, claim .9996.

    The largest number reaches 17 with probability .963 with the far user, .0057 without.

    263 and 16 at worst prove 1.44; thresholds from 14 to 19, wherever the first half of the trials
    puts it, 1.02. Control: the sum of two noises is on the wrong side of 10 with probability .002,
    of 8 with .0074: 292 and 10, or 294 and 17 at worst prove 1.6."""
    return run_outlier(trials=600, confidence=SURE)


def test_the_far_user_is_seen_among_shuffled_numbers(outlier: AttackReport) -> None:
    assert outlier.succeeded_undefended
    assert outlier.details["far_value_named_within_2"] > 0.5


def test_the_far_user_is_hidden_among_shuffled_bits(outlier: AttackReport) -> None:
    assert outlier.defence_held
    assert {one.defended for one in outlier.findings} == {True, False}


def test_the_same_look_at_shuffled_bits_sees_noise_that_is_missing(outlier: AttackReport) -> None:
    assert finding(outlier, "control: bits shuffled").verdict is ClaimVerdict.BROKEN


def test_an_attack_that_nobody_was_undefended_against_has_not_succeeded(
    outlier: AttackReport,
) -> None:
    defended = tuple(one for one in outlier.findings if one.defended)
    assert not replace(outlier, findings=defended).succeeded_undefended
