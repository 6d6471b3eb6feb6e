"""Which final certificates the analyst takes: fewer honest users than possible may be counted,
never more."""

from fractions import Fraction

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec import UNSET, structs

from shuffledp_analyst.opening import check_final_certificate, check_plan_certificate
from shuffledp_core.documents.losses import NO_LOSSES, Losses
from shuffledp_core.documents.models import (
    Certificate,
    CorruptedGuarantee,
    EpsilonBounds,
    LedgerPosition,
    Party,
    RoundPlan,
)
from shuffledp_core.documents.wording import QuestionAxis, QuestionWording, SymbolScale
from shuffledp_core.errors import ForeignDocumentError
from shuffledp_core.mechanisms import SGDLShuffle
from shuffledp_core.privacy import Adjacency
from shuffledp_core.runtime.keys import Identity

ACCOUNTANT = Identity("accountant", Ed25519PrivateKey.generate())
PARTY = Party(
    name="accountant",
    role="accountant",
    operator="o",
    address="h:1",
    identity_key=ACCOUNTANT.public_key.hex(),
)
PLAN = Certificate(
    deployment="d", round_id="00" * 16, stage="plan", population="p",
    mechanism=SGDLShuffle(max_value=20, noise_epsilon=Fraction(1, 20), shares=90, padding=300),
    users=95, honest=90, route=("a", "b", "c"), adjacency=Adjacency.STANDARD, max_distance=20,
    delta=1e-6,
    epsilon=EpsilonBounds(certified=1.0, attained=0.9), corrupted=CorruptedGuarantee(epsilon=9.0,
    delta=0.0),
    standard_error=30.0, assumptions=(), basis=(), holds=True,
    ledger=LedgerPosition(entry=1, spent=1.0, delta=1e-6, limit=2.0), issued_at=0, expires_at=1,
)  # fmt: skip


VERIFIED = structs.replace(PLAN, mix="verified")


@pytest.mark.parametrize("honest", [90, 95])
def test_up_to_all_but_the_colluding_users_of_a_verified_round_may_count_as_honest(
    honest: int,
) -> None:
    final = structs.replace(VERIFIED, stage="final", users=100, honest=honest)
    assert check_final_certificate(ACCOUNTANT.sign(final), PARTY, VERIFIED, 100, NO_LOSSES) == final


def test_a_plain_round_counts_on_no_more_honest_reports_than_its_plan() -> None:
    final = structs.replace(PLAN, stage="final", users=100, honest=90)
    assert check_final_certificate(ACCOUNTANT.sign(final), PARTY, PLAN, 100, NO_LOSSES) == final
    more = ACCOUNTANT.sign(structs.replace(final, honest=91))
    with pytest.raises(ForeignDocumentError, match="at most 90"):
        check_final_certificate(more, PARTY, PLAN, 100, NO_LOSSES)


@pytest.mark.parametrize(
    "wrong",
    [
        {"honest": 96},
        {"users": 101},
        {"stage": "plan"},
        {"delta": 1e-5},
        {"route": ("a", "b", "d")},
    ],
)
def test_a_certificate_for_more_or_for_something_else_is_refused(wrong: dict[str, object]) -> None:
    final = structs.replace(VERIFIED, **({"stage": "final", "users": 100, "honest": 95} | wrong))
    with pytest.raises(ForeignDocumentError):
        check_final_certificate(ACCOUNTANT.sign(final), PARTY, VERIFIED, 100, NO_LOSSES)


@pytest.mark.parametrize("wrong", [{"honest": 88}, {"dropped": 1}, {"invalid": 8}])
def test_what_was_lost_must_be_counted(wrong: dict[str, object]) -> None:
    losses = Losses(dropped=8, invalid=7)
    final = structs.replace(PLAN, stage="final", users=100, honest=87, dropped=8, invalid=7)
    assert check_final_certificate(ACCOUNTANT.sign(final), PARTY, PLAN, 100, losses) == final
    with pytest.raises(ForeignDocumentError):
        check_final_certificate(
            ACCOUNTANT.sign(structs.replace(final, **wrong)), PARTY, PLAN, 100, losses
        )


DAYS = QuestionWording(
    id="days",
    text="On how many days did you go out?",
    axes=(
        QuestionAxis(field="days", unit="days", symbols=SymbolScale(start="0", step="1", size=21)),
    ),
)
OTHER = structs.replace(DAYS, text="On how many days were you ill?")


@pytest.mark.parametrize("certified", [OTHER, UNSET])
def test_a_plan_certificate_with_other_words_than_the_plan_is_refused(certified: object) -> None:
    plan = RoundPlan(
        population="p", mechanism=PLAN.mechanism.kind, size=20, epsilon=1.0, delta=1e-6,
        min_reports=95, max_reports=100, colluding=5, route=PLAN.route, wording=DAYS,
    )  # fmt: skip

    def check(words: object) -> Certificate:
        signed = ACCOUNTANT.sign(structs.replace(PLAN, wording=words))
        return check_plan_certificate(signed, PARTY, "d", PLAN.round_id, plan, closes_at=1)

    assert check(DAYS).wording == DAYS
    with pytest.raises(ForeignDocumentError, match="its wording is"):
        check(certified)


@pytest.mark.parametrize("words", [OTHER, UNSET])
def test_a_final_certificate_with_other_words_than_the_plan_is_refused(words: object) -> None:
    plan = structs.replace(PLAN, wording=DAYS)
    final = structs.replace(plan, stage="final", users=100, honest=90)
    assert check_final_certificate(ACCOUNTANT.sign(final), PARTY, plan, 100, NO_LOSSES) == final
    other = ACCOUNTANT.sign(structs.replace(final, wording=words))
    with pytest.raises(ForeignDocumentError, match="its wording is"):
        check_final_certificate(other, PARTY, plan, 100, NO_LOSSES)
