"""The legal orders of a round at the analyst, and that illegal ones change nothing."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from shuffledp_analyst.round import RoundLifecycle, RoundStage
from shuffledp_core.documents.models import BatchHeader, RoundPlan
from shuffledp_core.errors import (
    BadBatchError,
    CountMismatchError,
    ForeignDocumentError,
    RoundStateError,
)
from shuffledp_core.onion.geometry import Geometry

GEOMETRY = Geometry(suite="sealed-box", hops=2, messages_per_user=3, symbol_bytes=1)
PLAN = RoundPlan(
    population="demo",
    mechanism="rr-shuffle",
    size=3,
    epsilon=1.0,
    delta=1e-6,
    min_reports=5,
    max_reports=9,
    route=("node-1", "node-2"),
)


def header(users: int = 6, **changes: object) -> BatchHeader:
    fields = {
        "round_id": "r",
        "position": 3,
        "users": users,
        "records": 3 * users,
        "digest": "00",
    } | changes
    return BatchHeader(**fields)  # type: ignore[arg-type]


CALLS: dict[str, Callable[[RoundLifecycle], object]] = {
    "opened": lambda round_: round_.open(GEOMETRY),
    "end_submissions": lambda round_: round_.end_submissions(),
    "closed": lambda round_: round_.close(6),
    "delivered": lambda round_: round_.deliver(header()),
    "decoding": lambda round_: round_.begin_decoding(),
    "certifying": lambda round_: round_.begin_certifying(),
    "published": lambda round_: round_.publish(),
}


def advanced(*calls: str) -> RoundLifecycle:
    round_ = RoundLifecycle("r", PLAN)
    for call in calls:
        CALLS[call](round_)
    return round_


def test_a_round_goes_from_plan_to_publication_in_both_orders() -> None:
    for middle in itertools.permutations(("closed", "delivered")):
        round_ = advanced("opened", "end_submissions", *middle)
        assert round_.begin_decoding() == (6, header())
        round_.begin_certifying()
        round_.publish()
        assert round_.stage is RoundStage.PUBLISHED
        assert round_.has_ended


def test_every_other_order_is_refused_and_changes_nothing() -> None:
    legal = {
        (): {"opened"},
        ("opened",): {"end_submissions"},
        ("opened", "end_submissions"): {"closed", "delivered"},
        ("opened", "end_submissions", "closed", "delivered"): {"decoding", "closed"},
        ("opened", "end_submissions", "closed", "delivered", "decoding"): {"certifying"},
        ("opened", "end_submissions", "closed", "delivered", "decoding", "certifying"): {
            "published"
        },
        (
            "opened",
            "end_submissions",
            "closed",
            "delivered",
            "decoding",
            "certifying",
            "published",
        ): set(),
    }
    for path, allowed in legal.items():
        for name in set(CALLS) - allowed:
            round_ = advanced(*path)
            before = round_.stage, round_.accepted, round_.batch
            with pytest.raises(RoundStateError):
                CALLS[name](round_)
            assert (round_.stage, round_.accepted, round_.batch) == before


def test_a_round_fails_once_from_every_stage_but_its_ends() -> None:
    path = list(CALLS)
    for length in range(len(path)):
        round_ = advanced(*path[:length])
        round_.fail()
        assert round_.stage is RoundStage.FAILED
        with pytest.raises(RoundStateError):
            round_.fail()
    with pytest.raises(RoundStateError):
        advanced(*path).fail()


@pytest.mark.parametrize("accepted", [4, 10])
def test_the_entry_node_cannot_accept_what_the_manifest_forbids(accepted: int) -> None:
    with pytest.raises(CountMismatchError, match="5 to 9"):
        advanced("opened", "end_submissions").close(accepted)


def test_a_batch_of_another_size_than_accepted_is_a_mismatch_in_both_orders() -> None:
    with pytest.raises(CountMismatchError, match="7 reports"):
        advanced("opened", "end_submissions", "closed").check_batch(header(7))
    with pytest.raises(CountMismatchError, match="7 reports"):
        advanced("opened", "end_submissions", "closed").deliver(header(7))
    with pytest.raises(CountMismatchError, match="accepted 7"):
        advanced("opened", "end_submissions", "delivered").close(7)


def test_a_header_is_checked_before_a_byte_is_taken() -> None:
    closing = advanced("opened", "end_submissions")
    assert closing.check_batch(header(6)) == 18 * 17
    with pytest.raises(ForeignDocumentError, match="position 2"):
        closing.check_batch(header(position=2))
    with pytest.raises(ForeignDocumentError, match="round s"):
        closing.check_batch(header(round_id="s"))
    with pytest.raises(CountMismatchError, match="5 to 9"):
        closing.check_batch(header(10))
    with pytest.raises(BadBatchError, match="17 records"):
        closing.check_batch(header(records=17))
    with pytest.raises(RoundStateError, match="open"):
        advanced("opened").check_batch(header())
