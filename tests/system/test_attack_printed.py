"""The published parameters break, ours hold. False-alarm rate: each claim is tested at 1 - 1e-9, 1e-8 for the file."""

import pytest

from shuffledp_core.errors import UsageError
from shuffledp_sim.attacks.findings import Verdict
from shuffledp_sim.attacks.printed import run_printed


@pytest.mark.timeout(900)  # half a minute on two free cores, but all of it is work: a loaded machine takes longer
def test_every_printed_statement_is_broken_and_the_accountants_hold() -> None:
    """70 CPU seconds. A printed statement would still be refuted if each count were six standard deviations worse."""
    report = run_printed(confidence=1 - 1e-9)
    assert report.succeeded_undefended
    assert report.defence_held
    sources = [one.claim.source for one in report.findings if not one.defended]
    assert len(sources) == 7
    for words in ("Theorem 5.1", "Theorem 1", "Theorem 7.1", "Theorem 4.1", "Theorem 3.1"):
        assert any(words in source for source in sources)
    computed = [one for one in report.findings if one.trials == 0]
    assert [one.quantity.split()[0] for one in computed] == ["δ", "ε", "ε"]
    assert all(one.verdict is Verdict.HOLDS and one.trials > 0 for one in report.findings if one.defended)
    assert report.to_dict()["succeeded_undefended"] is True


def test_too_few_trials_are_refused() -> None:
    with pytest.raises(UsageError, match="trials"):
        run_printed(trials=5)
    with pytest.raises(UsageError, match="confidence"):
        run_printed(confidence=1.0)
