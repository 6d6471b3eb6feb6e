"""The console's list of rounds states the ε that holds."""

from __future__ import annotations

from fractions import Fraction

import pytest

from shuffledp_accountant.certificates import CertificateHeader, certificate
from shuffledp_accountant.ledger.charges import Account
from shuffledp_core.documents.models import Certificate, LedgerPosition, RoundPlan
from shuffledp_core.mechanisms import RRShuffle
from shuffledp_core.vocabulary import CertificateStage
from shuffledp_ops.console.frame import Viewer
from shuffledp_ops.console.model import PUBLISHED, ConsoleSnapshot, RoundEnding, RoundInfo
from shuffledp_ops.console.overview import overview
from shuffledp_privacy.analysis import analyse, cost_of

ROUND_ID = "ab" * 16


@pytest.fixture(scope="module")
def final() -> Certificate:
    plan = RoundPlan(
        population="demo",
        mechanism="rr-shuffle",
        size=20,
        epsilon=1.0,
        delta=1e-3,
        min_reports=40,
        max_reports=40,
        route=("node-1", "node-2"),
    )
    cost = cost_of(plan, RRShuffle(max_value=20, randomise=Fraction(1, 2)), 40)
    account = Account(LedgerPosition(entry=1, spent=None, delta=1e-3, limit=1.0), ())
    header = CertificateHeader(CertificateStage.FINAL, "demo", ROUND_ID, 0, 1)
    return certificate(header, plan, analyse(cost, len(plan.route)), account)


@pytest.mark.parametrize("all_corrupt", [None, False, True])
def test_the_list_states_the_certified_epsilon_only_of_rounds_with_an_honest_node(
    final: Certificate, *, all_corrupt: bool | None
) -> None:
    ended = RoundInfo(
        ROUND_ID,
        1,
        "demo",
        "rr-shuffle",
        PUBLISHED,
        accepted=40,
        ending=RoundEnding(PUBLISHED, final=final),
        all_corrupt=all_corrupt,
    )
    page = overview(Viewer("demo", live=False, version="1"), ConsoleSnapshot(1, (ended,)))
    assert final.epsilon.certified is not None
    certified = f">{final.epsilon.certified:.4g}</td>"
    remains = f"ε_L = {final.corrupted.epsilon:.4g} "
    assert (certified in page) == (all_corrupt is False)
    assert (remains in page) == (all_corrupt is True)
    assert ("all nodes corrupt" in page) == (all_corrupt is True)
