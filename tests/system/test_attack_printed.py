"""The published parameters break, ours hold.

False-alarm rate: each claim is tested at 1 - 1e-9, 1e-8 for the file.
"""

import sys
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from shuffledp import cli
from shuffledp_adversary.attacks.findings import AttackReport, ClaimVerdict
from shuffledp_adversary.attacks.printed import TRIALS, run_printed
from shuffledp_adversary.audit.trials import LINES
from shuffledp_core.errors import UsageError


def run_command(words: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["shuffledp", *words])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    return int(stop.value.code or 0)


@pytest.mark.slow
def test_every_printed_statement_is_broken_and_the_accountants_hold() -> None:
    """A printed statement would still be refuted if each count were six standard deviations
    worse."""
    report = run_printed(confidence=1 - 1e-9)
    assert report.succeeded_undefended
    assert report.defence_held
    sources = [one.claim.source for one in report.findings if not one.defended]
    assert len(sources) == 7
    for words in ("Theorem 5.1", "Theorem 1", "Theorem 7.1", "Theorem 4.1", "Theorem 3.1"):
        assert any(words in source for source in sources)
    computed = [one for one in report.findings if one.trials == 0]
    assert [one.quantity.split()[0] for one in computed] == ["δ", "ε", "ε"]
    assert all(
        one.verdict is ClaimVerdict.HOLDS and one.trials > 0
        for one in report.findings
        if one.defended
    )
    assert report.to_dict()["succeeded_undefended"] is True


def test_too_few_trials_are_refused() -> None:
    with pytest.raises(UsageError, match="trials"):
        run_printed(trials=5)
    with pytest.raises(UsageError, match="confidence"):
        run_printed(confidence=1.0)


def test_a_quick_look_takes_a_tenth_of_the_trials_and_no_other_number(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[int] = []

    def counted(*, trials: int, confidence: float) -> AttackReport:
        asked.append(trials)
        return AttackReport("printed", f"{confidence:g}", (), 0.0)

    monkeypatch.setattr("shuffledp_adversary.attacks.printed.run_printed", counted)
    for more in ([], ["--quick"], ["--trials", "700"]):
        run_command(["attack", "printed", "--format", "json", *more], monkeypatch)
    assert asked == [TRIALS, TRIALS // 10, 700]
    assert run_command(["attack", "printed", "--quick", "--trials", "700"], monkeypatch) == 2
    assert "leave out --trials" in capsys.readouterr().err


def test_every_report_that_is_drawn_is_counted_in_plain_lines_where_nobody_sees_a_bar(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def drawn(*positional: Any, **named: Any) -> list[NDArray[np.int64]]:
        spec, _, trials, _ = positional
        for done in range(0, 2 * trials + 1, trials):
            named["progress"](done, 2 * trials)
        return [np.zeros((trials, spec.alphabet), dtype=np.int64)] * 2

    monkeypatch.setattr("shuffledp_adversary.attacks.printed.shuffled_counts", drawn)
    run_printed(trials=500)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "reports drawn: 0 of 860,000"
    assert lines[-1] == "reports drawn: 860,000 of 860,000"
    assert 3 < len(lines) <= LINES + 1
