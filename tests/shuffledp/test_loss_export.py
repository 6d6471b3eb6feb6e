"""Guarantees as dp-accounting's privacy loss distributions, against the composition of our own."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import shuffledp as sdp
from shuffledp import notebook
from shuffledp_core.errors import CannotCertify, NotInstalledError, UsageError

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "dp-accounting.md"

SETTING = sdp.Setting(users=10_000, honest=9_500)

SPECS = (
    sdp.KRRHistogram(symbols=10, blanket=Fraction(1, 2)),
    sdp.RRShuffle(max_value=5, randomise=Fraction(1, 4)),
    sdp.OneBitShuffle(max_value=5, randomise=Fraction(1, 2)),
)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.kind)
def test_both_libraries_compose_to_nearly_the_same_epsilon(spec: Any) -> None:
    exported = sdp.privacy_loss_distribution(spec, SETTING, interval=1e-3)
    ours = sdp.compose([spec] * 52, SETTING, delta=1e-6).certified
    theirs = exported.self_compose(52).get_epsilon_for_delta(1e-6)
    assert ours is not None
    assert ours * (1 - 1e-4) <= theirs <= ours * 1.01


def test_one_round_is_never_below_the_attained_delta() -> None:
    spec = SPECS[0]
    exported = sdp.privacy_loss_distribution(sdp.Plan(spec, SETTING, 1e-6), interval=1e-2)
    curve = sdp.curve(spec, SETTING, [0.0, 0.05, 0.1, 0.2])
    for epsilon, attained in zip(curve.epsilons, curve.attained, strict=True):
        assert exported.get_delta_for_epsilon(epsilon) >= attained


def test_a_setting_replaces_the_plans_own() -> None:
    plan = sdp.Plan(SPECS[0], SETTING, 1e-6)
    fewer = sdp.privacy_loss_distribution(plan, sdp.Setting(100, 95), interval=1e-2)
    epsilon = sdp.certify(plan, sdp.Setting(100, 95)).certified
    assert epsilon is not None
    assert fewer.get_epsilon_for_delta(1e-6) == pytest.approx(epsilon, rel=1e-2)


@pytest.mark.parametrize("interval", [0.0, -1.0, math.nan, math.inf, 2.0])
def test_an_interval_out_of_range_is_refused(interval: float) -> None:
    with pytest.raises(UsageError, match="interval must be from"):
        sdp.privacy_loss_distribution(SPECS[0], SETTING, interval=interval)


def test_a_grid_of_too_many_points_is_refused_with_the_interval_that_works() -> None:
    wide = sdp.RRShuffle(max_value=1000, randomise=Fraction(1, 100))
    with pytest.raises(UsageError, match="need an interval of at least"):
        sdp.privacy_loss_distribution(wide, SETTING, interval=1e-5)


def test_a_mechanism_without_a_worst_distance_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shuffledp.loss_export.grows_with_distance", lambda _: False)
    with pytest.raises(CannotCertify, match=r"use shuffledp\.compose"):
        sdp.privacy_loss_distribution(SPECS[0], SETTING)


def test_without_dp_accounting_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(notebook, "find_spec", lambda _: None)
    with pytest.raises(NotInstalledError, match="pip install 'dp-accounting'"):
        sdp.privacy_loss_distribution(SPECS[0], SETTING)


def test_the_code_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    exec(compile(block, str(PAGE), "exec"), {})  # noqa: S102 - the page is ours
    assert 0.9 < float(capsys.readouterr().out) < 1.1
