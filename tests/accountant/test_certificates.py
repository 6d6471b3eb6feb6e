"""Certificates: what they say, when they do not hold, and that a claim better than the truth is
caught."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from shuffledp_accountant.certificates import (
    CertificateHeader,
    analyse_final,
    certificate,
    charged_cost,
)
from shuffledp_accountant.ledger.charges import Account
from shuffledp_core.documents.losses import NO_LOSSES, Losses
from shuffledp_core.documents.models import (
    Certificate,
    CorruptedGuarantee,
    LedgerPosition,
    RoundPlan,
)
from shuffledp_core.documents.signed import Signed, from_json, to_json, verify
from shuffledp_core.errors import (
    CannotCertify,
    DocumentError,
    ExpiredDocumentError,
    SignatureError,
)
from shuffledp_core.mechanisms import (
    MECHANISMS,
    GeoShuffle,
    KRRHistogram,
    Mechanism,
    RapporHistogram,
    RRShuffle,
)
from shuffledp_core.privacy import Adjacency
from shuffledp_core.runtime.keys import Identity
from shuffledp_core.vocabulary import CertificateStage, Mix
from shuffledp_privacy.analysis import Cost, analyse, calibrated, cost_of
from shuffledp_privacy.bounds import Bounds, Setting, epsilon_bounds
from shuffledp_privacy.rechecking import recheck

PLAIN = RoundPlan(
    population="demo",
    mechanism="krr-histogram",
    size=4,
    epsilon=1.0,
    delta=1e-6,
    min_reports=200,
    max_reports=1000,
    colluding=20,
    route=("node-1", "node-2"),
)
MECHANISM = KRRHistogram(symbols=4, blanket=Fraction(1, 2))
NODE_NOISE = [kind for kind, spec in MECHANISMS.items() if not spec.needs_crowd]
FINAL = CertificateHeader(CertificateStage.FINAL, "demo", "ab" * 16, issued_at=0, lifetime=1)
ACCOUNT = Account(LedgerPosition(entry=3, spent=1.5, delta=1e-5, limit=4.0), ("C1-C4",))


def issued(
    plan: RoundPlan = PLAIN,
    mechanism: Mechanism = MECHANISM,
    reports: int = 200,
    stage: str = CertificateStage.PLAN,
    account: Account = ACCOUNT,
) -> Certificate:
    cost = cost_of(plan, mechanism, reports)
    header = CertificateHeader(stage, "demo", "ab" * 16, issued_at=1_000, lifetime=500)
    return certificate(header, plan, analyse(cost, len(plan.route)), account)


def changed(document: Certificate, **fields: Any) -> Certificate:
    return msgspec.structs.replace(document, **fields)


def test_a_plan_certificate_states_the_setting_and_the_assumptions_in_words() -> None:
    document = issued()
    assert (document.users, document.honest, document.nodes, document.max_distance) == (
        200,
        180,
        2,
        3,
    )
    assert (document.issued_at, document.expires_at, document.ledger) == (
        1_000,
        1_500,
        ACCOUNT.position,
    )
    assert document.holds
    words = " / ".join(document.assumptions)
    for said in (
        "at least 180 of the mixed reports",
        "one of the 2 nodes",
        "round key stays secret",
        "analyst",
        "randomiser",
    ):
        assert said in words
    assert any(line.startswith("ledger:") for line in document.basis)
    assert document.epsilon.attained is not None
    assert document.epsilon.certified is not None
    assert 0 < document.epsilon.attained <= document.epsilon.certified <= 1.0


def test_of_a_kept_response_the_certificate_assumes_that_there_is_one() -> None:
    assert not any("drew its response" in line for line in issued().assumptions)
    rappor = RapporHistogram(
        symbols=4, fake=Fraction(1, 2), when_zero=Fraction(1, 4), when_one=Fraction(3, 4)
    )
    assert any("drew its response" in line for line in issued(mechanism=rappor).assumptions)


def test_only_the_entry_node_of_a_plain_round_can_make_somebody_up() -> None:
    plain = " / ".join(issued().assumptions)
    verified = " / ".join(issued(plan=msgspec.structs.replace(PLAIN, mix=Mix.VERIFIED)).assumptions)
    assert "reports that an entry node or an enrolment authority makes up are not" in plain
    assert "everybody who took part has a credential" in verified
    assert "entry node" not in verified


def test_a_calibrated_plan_holds_and_is_not_wasteful() -> None:
    document = issued(mechanism=calibrated(PLAIN))
    assert document.holds
    assert document.epsilon.certified == pytest.approx(PLAIN.epsilon, rel=0.02)


def test_fewer_honest_reports_than_planned_break_the_promise_in_plain_sight() -> None:
    mechanism = calibrated(PLAIN)
    document = issued(mechanism=mechanism, reports=60, stage=CertificateStage.FINAL)
    assert not document.holds
    assert document.epsilon.certified is not None
    assert document.epsilon.certified > PLAIN.epsilon
    assert any("does NOT hold" in line for line in document.basis)
    assert (document.users, document.honest) == (60, 40)
    recheck(document)


def test_an_infinite_epsilon_is_written_as_none_and_does_not_hold() -> None:
    cost = cost_of(PLAIN, MECHANISM, 200)
    unbounded = replace(analyse(cost, 3), bounds=Bounds(math.inf, 0.1, None, ("nothing is known",)))
    header = CertificateHeader(CertificateStage.PLAN, "demo", "ab", 0, 1)
    document = certificate(header, PLAIN, unbounded, ACCOUNT)
    assert document.epsilon.certified is None
    assert not document.holds
    assert any("no finite epsilon" in line for line in document.basis)
    recheck(document)


@pytest.mark.parametrize("spent", [None, 4.5])
def test_an_overspent_budget_is_never_hidden(spent: float | None) -> None:
    account = Account(LedgerPosition(entry=1, spent=spent, delta=1e-5, limit=4.0), ("C1",))
    assert any(
        "OVERSPENT" in line for line in issued(account=account, stage=CertificateStage.FINAL).basis
    )


def test_metric_distance_defaults_to_the_whole_domain_and_may_be_smaller() -> None:
    plan = msgspec.structs.replace(
        PLAIN, mechanism="geo-shuffle", size=5, adjacency=Adjacency.METRIC
    )
    mechanism = GeoShuffle(max_value=5, epsilon_geo=Fraction(1, 1), padding=40)
    whole = issued(plan, mechanism)
    near = issued(msgspec.structs.replace(plan, max_distance=2), mechanism)
    assert (whole.max_distance, near.max_distance) == (5, 2)
    assert near.epsilon.certified is not None
    assert whole.epsilon.certified is not None
    assert near.epsilon.certified <= whole.epsilon.certified


def test_more_reports_never_make_the_final_certificate_worse_than_the_plan() -> None:
    # Every further user may be clamped, so the bound for all of them is worse than the plan's.
    plan = msgspec.structs.replace(
        PLAIN, mechanism="geo-shuffle", size=2, delta=1e-6, mix=Mix.VERIFIED
    )
    mechanism = GeoShuffle(max_value=2, epsilon_geo=Fraction(1, 1), padding=20)
    planned = analyse(cost_of(plan, mechanism, 200), 3).bounds.certified
    naive = analyse(cost_of(plan, mechanism, 1000), 3).bounds.certified
    analysis = analyse_final(plan, mechanism, 1000, planned)
    cost = analysis.cost
    assert analysis.bounds.certified <= min(planned, naive)
    assert cost.setting.users == 1000
    document = certificate(FINAL, plan, analysis, ACCOUNT)
    recheck(document)


def test_only_reports_with_a_credential_make_the_final_certificate_better_than_the_plan() -> None:
    planned = analyse(cost_of(PLAIN, MECHANISM, 200), 3).bounds.certified
    analysis = analyse_final(PLAIN, MECHANISM, 400, planned)
    cost = analysis.cost
    assert (cost.setting.users, cost.setting.honest) == (
        400,
        180,
    )  # an entry node may have made up the rest
    assert analysis.bounds.certified == planned
    verified = msgspec.structs.replace(PLAIN, mix=Mix.VERIFIED)
    analysis = analyse_final(verified, MECHANISM, 400, planned)
    cost = analysis.cost
    assert (cost.setting.users, cost.setting.honest) == (400, 380)
    assert analysis.bounds.certified < planned


def test_onions_that_a_malicious_node_drops_are_honest_ones_in_the_worst_case() -> None:
    """1,000 reports, 50 of users who collude.

    A node drops 50 of other users: 900 honest ones hide each other.
    """
    plan = msgspec.structs.replace(
        PLAIN, epsilon=0.7031, min_reports=1000, max_reports=1000, colluding=50
    )
    mechanism = calibrated(plan)
    planned = analyse(cost_of(plan, mechanism, 1000), 3).bounds
    left = epsilon_bounds(mechanism, Setting(1000, 900), plan.delta).attained
    assert planned.certified < plan.epsilon < left  # of 950 honest ones, and on a dataset of 900
    analysis = analyse_final(plan, mechanism, 1000, planned.certified, Losses(50, 0))
    cost = analysis.cost
    assert cost.setting.honest == 900
    assert analysis.bounds.certified >= left


def test_bad_onions_of_one_user_spend_nothing_of_the_population_while_the_plan_is_not_refuted() -> (
    None
):
    """The certificate assumes the worst; the charge rests on the plan's assumption."""
    plan = msgspec.structs.replace(PLAIN, mechanism="geo-shuffle", size=5, epsilon=20.0)
    planned = analyse(cost_of(plan, SUM, 200), 3).bounds.certified
    losses = Losses(SUM.messages_per_user, 0)
    assert analyse_final(plan, SUM, 200, planned, losses).cost.setting.honest == 180 - 85
    cost, epsilon = charged_cost(plan, SUM, 200, losses)
    assert (cost.setting.honest, epsilon) == (180, planned)
    cost, epsilon = charged_cost(plan, SUM, 200, Losses(0, 85 * 30))  # 30 bad users are seen
    assert cost.setting.honest == 170
    assert epsilon > planned


SUM = GeoShuffle(max_value=5, epsilon_geo=Fraction(1, 1), padding=40)
"""85 messages a user."""


@pytest.mark.parametrize(
    ("dropped", "invalid", "honest", "holds"),
    [
        (
            0,
            0,
            180,
            True,
        ),  # 250 reports, 20 colluding users; those beyond the plan's may be made up
        (50, 0, 180, True),  # each dropped message may have cost another honest user's report
        (51, 0, 179, False),
        (85 * 70, 0, 1, False),  # the room of the nodes: the protected user's own report is left
        (0, 85 * 20, 180, True),  # as many users as may collude
        (
            0,
            85 * 20 + 1,
            180,
            False,
        ),  # one more is seen: the plan's assumption is refuted, whatever is left
        (50, 85 * 30, 170, False),
        (85 * 70, 85 * 20, 1, False),
    ],
)
def test_lost_messages_leave_fewer_honest_reports(
    dropped: int, invalid: int, honest: int, *, holds: bool
) -> None:
    plan = msgspec.structs.replace(PLAIN, mechanism="geo-shuffle", size=5, epsilon=20.0)
    losses = Losses(dropped, invalid)
    analysis = analyse_final(plan, SUM, 250, math.inf, losses)
    cost = analysis.cost
    assert (cost.setting.users, cost.setting.honest) == (250, honest)
    document = certificate(FINAL, plan, analysis, ACCOUNT, losses)
    assert (document.dropped, document.invalid, document.holds) == (dropped, invalid, holds)
    words = " / ".join(document.assumptions)
    assert (
        f"at least {honest} of the mixed reports are whole reports of users who follow the protocol"
        in words
    )
    assert (f"{dropped} messages were dropped by nodes" in words) == (losses != NO_LOSSES)
    assert any("assumption does NOT hold" in line for line in document.basis) != holds
    recheck(from_json(to_json(document), Certificate))


def test_where_nobody_honest_may_be_left_nothing_is_certified() -> None:
    with pytest.raises(CannotCertify, match="nothing can be certified"):
        analyse_final(PLAIN, MECHANISM, 250, 1.0, Losses(0, 250))


def test_losses_never_make_a_certificate_better() -> None:
    plan = msgspec.structs.replace(PLAIN, mechanism="krr-histogram", size=4)
    epsilons = [
        analyse_final(plan, MECHANISM, 250, math.inf, Losses(dropped, invalid)).bounds.certified
        for dropped, invalid in ((0, 0), (60, 0), (70, 0), (70, 21), (70, 60), (70, 100))
    ]
    assert epsilons == sorted(epsilons)
    assert epsilons[0] < epsilons[1]
    assert epsilons[2] < epsilons[3]


@pytest.mark.parametrize(
    "wrong", [{"dropped": -1}, {"dropped": 21}, {"invalid": 30}, {"dropped": 11, "invalid": 10}]
)
def test_a_certificate_that_counts_on_reports_that_are_not_whole_is_caught(
    wrong: dict[str, int],
) -> None:
    with pytest.raises(DocumentError, match="are complete"):
        recheck(changed(issued(stage=CertificateStage.FINAL), **wrong))


@pytest.mark.parametrize("kind", NODE_NOISE)
def test_noise_of_nodes_is_the_same_with_verified_mixing(kind: str) -> None:
    plan = msgspec.structs.replace(PLAIN, mechanism=kind)
    assert not calibrated(plan).needs_crowd
    assert calibrated(msgspec.structs.replace(plan, mix=Mix.VERIFIED)) == calibrated(plan)


@pytest.mark.parametrize("kind", NODE_NOISE)
@pytest.mark.parametrize(
    "losses", [NO_LOSSES, Losses(10**6, 0), Losses(0, 10**6), Losses(5000, 5000)]
)
def test_a_guarantee_without_a_crowd_does_not_depend_on_people(kind: str, losses: Losses) -> None:
    plan = msgspec.structs.replace(PLAIN, mechanism=kind)
    mechanism = calibrated(plan)
    planned = analyse(cost_of(plan, mechanism, plan.min_reports), len(plan.route))
    analysis = analyse_final(plan, mechanism, 250, planned.bounds.certified, losses)
    cost = analysis.cost
    assert (cost.setting.users, cost.setting.honest) == (250, plan.honest) == (250, 1)
    assert replace(analysis, cost=planned.cost) == planned
    charged, epsilon = charged_cost(plan, mechanism, 250, losses)
    assert (charged, epsilon) == (cost, planned.bounds.certified)
    for colluding in (0, plan.min_reports - 1):
        other = msgspec.structs.replace(plan, colluding=colluding)
        assert calibrated(other) == mechanism
        document = certificate(FINAL, other, analysis, ACCOUNT, losses)
        assert document.holds
        assert document.condition in " / ".join(document.assumptions)
        assert "whole reports" not in document.assumptions[1]
        recheck(from_json(to_json(document), Certificate))


def test_the_condition_of_a_certificate_names_nodes_and_people() -> None:
    assert issued().condition == (
        "one of these 2 nodes is honest, and 180 of the 200 reports are honest users'"
    )
    plan = msgspec.structs.replace(PLAIN, mechanism="node-histogram")
    assert issued(plan, calibrated(plan)).condition == (
        "one of these 2 nodes is honest; no honest people needed"
    )


def test_an_unknown_stage_is_our_own_mistake() -> None:
    with pytest.raises(ValueError, match="stage"):
        issued(stage="draft")


@pytest.mark.parametrize("stage", [CertificateStage.PLAN, CertificateStage.FINAL])
def test_an_honest_certificate_passes_the_recheck_after_a_trip_over_the_wire(stage: str) -> None:
    document = issued(stage=stage)
    recheck(from_json(to_json(document), Certificate))


@settings(max_examples=10, deadline=None)
@given(
    st.floats(0.1, 0.999),
    st.sampled_from(["epsilon", "corrupted", "standard_error", "honest", "mechanism"]),
)
def test_a_claim_better_than_the_truth_is_caught(factor: float, field: str) -> None:
    honest = issued()
    assert honest.epsilon.certified is not None
    assert honest.corrupted.epsilon is not None
    better: dict[str, Any] = {
        "epsilon": msgspec.structs.replace(
            honest.epsilon, certified=honest.epsilon.certified * factor, attained=0.0
        ),
        "corrupted": CorruptedGuarantee(epsilon=honest.corrupted.epsilon * factor, delta=0.0),
        "standard_error": honest.standard_error * factor,
        "honest": int(honest.honest * factor),
        "mechanism": KRRHistogram(symbols=4, blanket=Fraction(int(400 * factor), 1000)),
    }
    with pytest.raises(DocumentError, match="claims"):
        recheck(changed(honest, **{field: better[field]}))


def test_a_certificate_that_claims_less_than_the_truth_passes() -> None:
    honest = issued()
    assert honest.epsilon.certified is not None
    modest = msgspec.structs.replace(honest.epsilon, certified=honest.epsilon.certified * 2)
    recheck(changed(honest, epsilon=modest))


def test_a_local_guarantee_is_rechecked_at_its_own_delta() -> None:
    """A pure ε_L of rr-shuffle, as older certificates state it, and today's smaller one at δ are
    both true."""
    plan = msgspec.structs.replace(PLAIN, mechanism="rr-shuffle", size=50)
    today = issued(plan, RRShuffle(max_value=50, randomise=Fraction(1, 2)))
    recheck(today)
    pure = 50 * math.log(3)
    assert today.corrupted.delta == PLAIN.delta
    assert today.corrupted.epsilon is not None
    assert today.corrupted.epsilon < 0.97 * pure
    recheck(changed(today, corrupted=CorruptedGuarantee(epsilon=pure * (1 + 1e-9), delta=0.0)))
    for epsilon, delta in (
        (today.corrupted.epsilon, 0.0),
        (0.99 * today.corrupted.epsilon, PLAIN.delta),
    ):
        with pytest.raises(DocumentError, match="all nodes corrupt"):
            recheck(changed(today, corrupted=CorruptedGuarantee(epsilon=epsilon, delta=delta)))


def test_an_expired_certificate_is_refused_where_the_time_is_asked_for() -> None:
    recheck(SAMPLE, SAMPLE.expires_at)
    with pytest.raises(ExpiredDocumentError):
        recheck(SAMPLE, SAMPLE.expires_at + 1)


def test_a_certificate_that_contradicts_itself_is_caught() -> None:
    honest = issued()
    with pytest.raises(DocumentError, match="has no finite epsilon"):
        recheck(changed(honest, epsilon=msgspec.structs.replace(honest.epsilon, certified=None)))
    with pytest.raises(DocumentError, match="contradicts itself"):
        recheck(changed(honest, epsilon=msgspec.structs.replace(honest.epsilon, attained=5.0)))
    with pytest.raises(DocumentError, match="covers changes of up to 1 only"):
        recheck(changed(honest, max_distance=1))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_one_flipped_bit_anywhere_in_a_signed_certificate_is_noticed(data: st.DataObject) -> None:
    identity = Identity("accountant", Ed25519PrivateKey.from_private_bytes(bytes(range(32))))
    wire = identity.sign(SAMPLE).to_bytes()
    place = data.draw(st.integers(0, 8 * len(wire) - 1))
    flipped = bytearray(wire)
    flipped[place // 8] ^= 1 << place % 8
    with pytest.raises(DocumentError):
        _reread(bytes(flipped), identity, wire)


def _reread(flipped: bytes, identity: Identity, wire: bytes) -> None:
    signed = Signed.from_bytes(flipped)
    document = verify(signed, Certificate, "accountant", identity.public_key)
    # A bit that only changes how the same frame is written (the case of a hex digit) changes
    # nothing that is said.
    if document == SAMPLE and signed.signature.lower() == Signed.from_bytes(wire).signature:
        raise DocumentError("the same document, written differently")


def test_a_certificate_under_another_key_is_refused() -> None:
    signed = Identity("accountant", Ed25519PrivateKey.generate()).sign(SAMPLE)
    other = Ed25519PrivateKey.generate().public_key().public_bytes_raw()
    with pytest.raises(SignatureError):
        verify(signed, Certificate, "accountant", other)


SAMPLE = issued()


def test_a_cost_without_honest_reports_is_refused() -> None:
    with pytest.raises(Exception, match="honest must be from 1"):
        cost_of(PLAIN, MECHANISM, 20)


def test_equal_costs_are_equal_values() -> None:
    assert cost_of(PLAIN, MECHANISM, 200) == Cost(
        MECHANISM, cost_of(PLAIN, MECHANISM, 200).setting, 1e-6
    )
