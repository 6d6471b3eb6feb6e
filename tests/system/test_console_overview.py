"""The console's list of rounds states the ε that holds, and which question was asked."""

from __future__ import annotations

from fractions import Fraction

import msgspec
import pytest

from shuffledp_accountant.certificates import CertificateHeader, certificate
from shuffledp_accountant.ledger.charges import Account
from shuffledp_core.documents.models import Certificate, LedgerPosition, RoundPlan
from shuffledp_core.documents.wording import QuestionAxis, QuestionWording, SymbolScale
from shuffledp_core.mechanisms import RRShuffle
from shuffledp_core.vocabulary import CertificateStage
from shuffledp_ops.console.frame import Viewer
from shuffledp_ops.console.model import (
    PUBLISHED,
    RUNNING,
    ConsoleSnapshot,
    RoundAnnouncement,
    RoundEnding,
    RoundInfo,
)
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


@pytest.mark.parametrize("ended", [False, True])
def test_the_list_names_the_question_of_a_round(final: Certificate, *, ended: bool) -> None:
    scale = SymbolScale(start="0", step="1", size=21)
    wording = QuestionWording(
        id="cigarettes-a-day",
        text="How many cigarettes do you smoke a day?",
        axes=(QuestionAxis(field="cigarettes", unit="", symbols=scale),),
    )
    certificate = msgspec.structs.replace(final, wording=wording)
    running = RoundInfo(
        ROUND_ID,
        1,
        "demo",
        "rr-shuffle",
        PUBLISHED if ended else RUNNING,
        announced=None if ended else RoundAnnouncement(40, 40, 1, 2, certificate),
        ending=RoundEnding(PUBLISHED, final=certificate) if ended else None,
    )
    shown = overview(Viewer("demo", live=False, version="1"), ConsoleSnapshot(1, (running,)))
    assert '<td data-name="question">cigarettes-a-day</td>' in shown
