"""The state machine of a round: every legal order works, every other one is refused and changes
nothing."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from shuffledp_core.documents.signed import Signed, from_json, to_json
from shuffledp_core.errors import (
    BadBatchError,
    RoundStateError,
    TooFewReportsError,
)
from shuffledp_shuffler.round_state import Phase, RoundRecord

DOCUMENT = Signed(label="any", signer="any", body="{}", signature="")

STEPS: dict[str, tuple[Callable[[RoundRecord], RoundRecord], Phase, Phase]] = {
    "opened": (lambda record: record.open(DOCUMENT), Phase.PREPARED, Phase.OPEN),
    "closed": (lambda record: record.close(5, 5), Phase.OPEN, Phase.MIXING),
    "mixed": (lambda record: record.finish_mixing(DOCUMENT, 1.0), Phase.MIXING, Phase.RELAYING),
    "forwarding": (lambda record: record.begin_forwarding(), Phase.RELAYING, Phase.RELAYING),
    "relayed": (lambda record: record.finish_relaying(1.0), Phase.RELAYING, Phase.DONE),
}


def at(phase: Phase, position: int = 1) -> RoundRecord:
    return RoundRecord(
        round_id="ab",
        position=position,
        certificate=DOCUMENT,
        round_key=DOCUMENT,
        phase=phase,
        forwarded=True,
    )


@pytest.mark.parametrize("phase", list(Phase))
@pytest.mark.parametrize("name", STEPS)
def test_a_step_is_legal_in_exactly_one_phase(name: str, phase: Phase) -> None:
    step, before, after = STEPS[name]
    if phase is before:
        assert step(at(phase)).phase is after
    else:
        with pytest.raises(RoundStateError, match=f"is {phase}"):
            step(at(phase))


@pytest.mark.parametrize("phase", list(Phase))
def test_a_round_fails_once_and_never_after_it_is_done(phase: Phase) -> None:
    if phase in {Phase.DONE, Phase.FAILED}:
        with pytest.raises(RoundStateError):
            at(phase).fail(BadBatchError("torn"))
    else:
        failed = at(phase).fail(BadBatchError("torn"))
        with pytest.raises(BadBatchError, match="torn"):
            failed.raise_failure()


def test_too_few_reports_close_nothing() -> None:
    with pytest.raises(TooFewReportsError, match="4 reports arrived, but the round needs 5"):
        at(Phase.OPEN).close(4, 5)


def test_only_the_entry_closes_and_only_the_others_take_batches() -> None:
    assert at(Phase.OPEN, position=2).receive(DOCUMENT, 7).accepted == 7
    with pytest.raises(RoundStateError):
        at(Phase.OPEN, position=1).receive(DOCUMENT, 7)
    with pytest.raises(RoundStateError):
        at(Phase.OPEN, position=2).close(7, 5)


def test_a_round_cannot_be_relayed_without_saying_so_first() -> None:
    silent = msgspec.structs.replace(at(Phase.RELAYING), forwarded=False)
    with pytest.raises(ValueError, match="discard"):
        silent.finish_relaying(1.0)


def test_a_record_survives_its_own_encoding() -> None:
    record = at(Phase.MIXING).finish_mixing(DOCUMENT, 2.5)
    assert from_json(to_json(record), RoundRecord) == record
