"""Checks of lab 7: unnoticed tampering, complaints, evidence, and verified rounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from shuffledp_adversary.attacks.exchange.tampering import Pool
from shuffledp_adversary.in_process import PlayedRound
from shuffledp_client.evidence import check_evidence
from shuffledp_core.errors import DocumentError, EvidenceError
from shuffledp_labs.errors import CheckFailure
from shuffledp_labs.kinds import is_list_of_bytes, kind_of
from shuffledp_labs.lab import CheckAttempt
from shuffledp_labs.lab07_cheats.cases import Cases, DeviceCase
from shuffledp_labs.lab07_cheats.documents import BUNDLE, parse_bundle
from shuffledp_labs.lab07_cheats.hops import draw_hop_inputs
from shuffledp_labs.lab07_cheats.instances import (
    ALPHABET,
    Cheating,
    Complaints,
    cheating,
    complaints,
)
from shuffledp_labs.words import short

PLACES: Final = ((1, 3), (2, 3), (3, 3), (1, 2), (2, 4))
"""(position, nodes) of the rounds of step B."""


def check_unnoticed(attempt: CheckAttempt) -> str:
    """B-unnoticed: `tamper` changes the answer, but no count, length, layer or repetition."""
    exchanged = 0
    for position, hops in PLACES:
        instance = cheating(attempt.draws.child(f"{position} of {hops}"), position, hops)
        batch = tampered_by(attempt, instance)
        played = instance.play(sending(batch))
        refuse_noticed(played, instance)
        _require_exchanged(played, instance)
        exchanged += instance.exchanges
    return f"{len(PLACES)} rounds, {exchanged} messages exchanged, no node noticed"


def sending(batch: list[bytes]) -> Callable[[Pool], list[bytes]]:
    """A tampering that sends this batch whatever the pool holds."""
    return lambda _: batch


def tampered_by(attempt: CheckAttempt, instance: Cheating) -> list[bytes]:
    """The batch that the student's `tamper` makes for this round, after a check of its form.

    Raises `CheckFailure` for one that the next party refuses by its length.
    """
    batch = attempt.program.call("tamper", instance.pool(instance.pool_of_node()))
    if not is_list_of_bytes(batch):
        raise CheckFailure(
            f"{instance.title}: tamper must return a list of bytes, not {kind_of(batch)}; see its "
            "docstring in work.py"
        )
    if len(batch) != instance.records:
        raise CheckFailure(
            f"no node notices, {instance.title}: {abs(len(batch) - instance.records)} records too "
            f"{'many' if len(batch) > instance.records else 'few'} for the counts that all nodes "
            "sign; see the handout, step B"
        )
    width = instance.geometry.record_bytes(instance.position + 1)
    odd = [len(record) for record in batch if len(record) != width]
    if odd:
        raise CheckFailure(
            f"no node notices, {instance.title}: {len(odd)} records are {abs(odd[0] - width)} "
            f"bytes too {'long' if odd[0] > width else 'short'} for where they go; see the "
            "handout, step B, on layers"
        )
    return list(batch)


def refuse_noticed(played: PlayedRound, instance: Cheating) -> None:
    """Raise `CheckFailure` if a later node dropped records, or the analyst would omit some."""
    for position, dropped in played.dropped.items():
        if dropped:
            raise CheckFailure(
                f"no node notices, {instance.title}: node {position} drops {dropped} onions, "
                "which repeat or do not open, and signs for it; see the handout, step B, on what "
                "a node checks"
            )
    width = played.geometry.symbol_bytes
    outside = sum(int.from_bytes(message[:width], "big") >= ALPHABET for message in played.board)
    repeated = len(played.board) - len({message[width:] for message in played.board})
    if outside or repeated:
        raise CheckFailure(
            f"no node notices, {instance.title}: the analyst leaves out messages, {outside} with "
            f"a symbol that is none, {repeated} with a tag that stands there already; see the "
            "handout, step B"
        )


def _require_exchanged(played: PlayedRound, instance: Cheating) -> None:
    sent = {message for messages in instance.messages for message in messages}
    exchanged = [message for message in played.board if message not in sent]
    width = played.geometry.symbol_bytes
    strange = sum(
        int.from_bytes(message[:width], "big") != instance.symbol for message in exchanged
    )
    if len(exchanged) != instance.exchanges or strange:
        raise CheckFailure(
            f"the answer changes as the adversary wants, {instance.title}: "
            f"{abs(len(exchanged) - instance.exchanges)} messages too "
            f"{'many' if len(exchanged) > instance.exchanges else 'few'} are exchanged, {strange} "
            "carry another symbol; see the handout, step B"
        )


def check_complaints(attempt: CheckAttempt) -> str:
    """C-complaints: every missing, changed or doubled message is reported as such."""
    total = 0
    for number in range(3):
        instance = complaints(attempt.draws.child(f"board {number}"))
        complaints_made = _complaints(attempt, instance)
        for user, due in instance.due.items():
            own_complaints = complaints_made.get(user, {})
            for index, what in due.items():
                if own_complaints.get(index) != what:
                    given_text = (
                        f"you said {own_complaints[index]!r}"
                        if index in own_complaints
                        else "you said nothing"
                    )
                    raise CheckFailure(
                        f"every wronged user complains, {instance.title}: {user}, message "
                        f"{index}: {given_text}; look for its tag row by row: see the handout, "
                        "step C"
                    )
            total += len(due)
    return f"3 boards, {total} messages missing, changed or doubled: all found"


def check_fair(attempt: CheckAttempt) -> str:
    """C-fair: no complaint about a message on the board, or of a user without a receipt."""
    quiet = 0
    for number in range(3):
        instance = complaints(attempt.draws.child(f"board {number}"))
        complaints_made = _complaints(attempt, instance)
        for user, own_complaints in complaints_made.items():
            for index in own_complaints:
                if index not in instance.due.get(user, {}):
                    raise CheckFailure(
                        f"no one complains without a reason, {instance.title}: check_board makes "
                        f"{user} complain about message {index!r}, which is on the board, or was "
                        "never promised because the user holds no receipt for its own envelope: "
                        "see the handout, step C"
                    )
        quiet += len(instance.mine) - len(instance.due)
    return f"3 boards, {quiet} users without a reason: none complains"


def _complaints(attempt: CheckAttempt, instance: Complaints) -> dict[str, dict[Any, Any]]:
    answer = attempt.program.call("check_board", instance.receipts, instance.board, instance.mine)
    if not isinstance(answer, dict) or not all(
        isinstance(own_complaints, dict) for own_complaints in answer.values()
    ):
        raise CheckFailure(
            f"{instance.title}: check_board must return a dict of dicts; see its docstring in "
            "work.py"
        )
    return answer


def check_convict(attempt: CheckAttempt) -> str:
    """D-convict: the bundles convict the route before a third party that has only the roster."""
    cases = Cases(attempt.draws)
    guilty = cases.guilty()
    missing = 0
    for case in attempt.draws.permute(guilty):
        bundle = attempt.program.call("evidence", case.stored, case.board)
        if bundle is None:
            raise CheckFailure(
                f"evidence, where {case.what}: a party cheated, and you gave no bundle; see the "
                "handout, step D"
            )
        missing += _count_convicted(bundle, case, cases)
    return f"{len(guilty)} cheated users, {missing} messages: the stranger convicts every time"


def _count_convicted(bundle: Any, case: DeviceCase, cases: Cases) -> int:
    if not isinstance(bundle, dict) or set(bundle) != set(BUNDLE):
        raise CheckFailure(
            f"evidence, where {case.what}: the bundle must be a dict with {sorted(BUNDLE)}, but is "
            f"{sorted(bundle) if isinstance(bundle, dict) else type(bundle).__name__}; see the "
            "docstring of evidence"
        )
    secret = case.stored["private_key"]
    if any(part in (secret, secret.hex()) for part in bundle.values()):
        raise CheckFailure(
            f"evidence, where {case.what}: the bundle holds the user's private key, so that "
            "whoever reads it could act as this user"
        )
    try:
        return check_evidence(parse_bundle(bundle), cases.roster, case.board).missing
    except (DocumentError, EvidenceError) as error:
        raise CheckFailure(
            f"evidence, where {case.what}: the stranger rejects your bundle: {error}; see the "
            "handout, step D"
        ) from None


def check_innocent(attempt: CheckAttempt) -> str:
    """D-innocent: no bundle if no party cheated, or if a third party could not verify it."""
    innocent = Cases(attempt.draws).innocent()
    for case in attempt.draws.permute(innocent):
        if attempt.program.call("evidence", case.stored, case.board) is not None:
            raise CheckFailure(
                f"evidence, where {case.what}: no stranger would accept it, so accusing the route "
                "gives the user's report away for nothing; see the handout, step D"
            )
    return f"{len(innocent)} users who can show nothing: none accuses"


def check_verdict(attempt: CheckAttempt) -> str:
    """E-verdict: `verdict` judges a party's input in verified rounds as shuffledp does."""
    cases = draw_hop_inputs(attempt.draws)
    for case in attempt.draws.permute(cases):
        verdict = attempt.program.call("verdict", case.as_student_data)
        title = f"position {case.position} of a verified round in which {case.what}"
        if verdict is not None and (type(verdict) is not int or not 0 <= verdict < case.position):
            raise CheckFailure(
                f"verdict gives None, 0 or the place of a node before this party, {title}: it "
                f"gave {short(verdict)}; see its docstring in work.py"
            )
        if verdict != case.due:
            raise CheckFailure(
                f"the party at fault is named, and no other, {title}: {_verdict(verdict)}; see "
                "the handout, step E"
            )
    named = sum(case.due not in {None, 0} for case in cases)
    silent = sum(case.due == 0 for case in cases)
    return (
        f"{len(cases)} rounds of {cases[0].terms.hops} nodes: a node named in {named}, nobody in "
        f"{silent} that were damaged on their way, and {len(cases) - named - silent} go on"
    )


def _verdict(verdict: int | None) -> str:
    return (
        "you go on"
        if verdict is None
        else f"you name node {verdict}"
        if verdict
        else "you stop and name nobody"
    )
